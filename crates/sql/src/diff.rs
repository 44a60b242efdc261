//! What a fork changed, for people: complete counts, rows up to a limit, deletions first.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::apply::{Merge, MergeError};
use crate::change::{ChangeKind, RowIdentity, TableCounts, TableShape};
use crate::error::SqlError;
use crate::limits::Limits;
use crate::map::PageMap;
use crate::net::{NetChanges, NetRow};
use crate::page::PageStore;
use crate::value::Value;

/// One changed row.
#[derive(Clone, Debug, PartialEq)]
pub struct RowDiff {
    /// What happened.
    pub kind: ChangeKind,
    /// Primary key, or the rowid of a table without one.
    pub key: Vec<Value>,
    /// The row before, by the table's columns.
    pub old: Option<Vec<Value>>,
    /// The row after.
    pub new: Option<Vec<Value>>,
}

/// Changes of one table. Counts are complete even where rows are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct TableDiff {
    /// Complete counts, with the table's name.
    pub counts: TableCounts,
    /// Column names, in the order of the row images.
    pub columns: Vec<String>,
    /// Names of the key columns; empty when rows are told apart by rowid.
    pub key_columns: Vec<String>,
    /// Changed rows up to the limit: deletions first, then updates, then insertions.
    pub rows: Vec<RowDiff>,
    /// Whether rows were left out.
    pub truncated: bool,
}

/// What a fork changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff {
    /// Changed tables, by name. A table whose columns changed on the fork appears once per shape.
    pub tables: Vec<TableDiff>,
    /// Schema statements, in order.
    pub schema: Vec<String>,
    /// Tables changed in ways that cannot be shown as rows, and why.
    pub opaque: Vec<(String, String)>,
}

/// Own changes against the base they started from. At most `max_rows` rows are listed per table.
pub fn diff(net: &NetChanges, max_rows: usize) -> Diff {
    let same = |_: &Arc<TableShape>, _: &RowIdentity, row: &NetRow| {
        Ok::<_, std::convert::Infallible>(Some((row.old.clone(), row.new.clone())))
    };
    match collect(net, max_rows, same) {
        Ok(diff) => diff,
        Err(never) => match never {},
    }
}

/// Own changes against another version of the tables (the parent as it is now): what promotion
/// would change there, row by row. Costs one look-up per own row. A row that is already there as
/// the fork has it is no difference; rows of a table that is not there are insertions.
pub fn diff_against(
    store: &Arc<dyn PageStore>,
    other: &PageMap,
    net: &NetChanges,
    max_rows: usize,
) -> Result<Diff, SqlError> {
    let mut merge = Merge::open(store, other, Limits::default())?;
    collect(net, max_rows, |shape, identity, row| {
        let there = match merge.place(shape) {
            Ok(place) => merge.current(&place, identity)?,
            Err(MergeError::Clash(_)) => None,
            Err(MergeError::Sql(error)) => return Err(error),
        };
        Ok((there != row.new).then(|| (there, row.new.clone())))
    })
}

type Images = (Option<Vec<Value>>, Option<Vec<Value>>);

fn collect<E>(
    net: &NetChanges,
    max_rows: usize,
    mut images: impl FnMut(&Arc<TableShape>, &RowIdentity, &NetRow) -> Result<Option<Images>, E>,
) -> Result<Diff, E> {
    let mut tables: BTreeMap<&Arc<TableShape>, Vec<RowDiff>> = BTreeMap::new();
    let whole = net.whole();
    let rows = whole.iter().flat_map(|(shape, rows)| rows.iter().map(move |row| (*shape, row)));
    for (shape, (identity, row)) in rows {
        let Some((old, new)) = images(shape, identity, row)? else { continue };
        let kind = match (&old, &new) {
            (_, None) => ChangeKind::Delete,
            (None, Some(_)) => ChangeKind::Insert,
            (Some(_), Some(_)) => ChangeKind::Update,
        };
        let key = identity.values();
        tables.entry(shape).or_default().push(RowDiff { kind, key, old, new });
    }
    let tables = tables.into_iter().map(|(shape, rows)| table_diff(shape, rows, max_rows));
    Ok(Diff {
        tables: tables.collect(),
        schema: net.schema().map(str::to_owned).collect(),
        opaque: net.opaque.clone(),
    })
}

fn table_diff(shape: &TableShape, mut rows: Vec<RowDiff>, max_rows: usize) -> TableDiff {
    let mut counts = TableCounts { table: shape.name.clone(), ..TableCounts::default() };
    for row in &rows {
        counts.add(row.kind);
    }
    // Deletions first: they are what a cut list must not hide.
    rows.sort_by_key(|row| std::cmp::Reverse(row.kind));
    let truncated = rows.len() > max_rows;
    rows.truncate(max_rows);
    TableDiff {
        counts,
        columns: shape.columns.clone(),
        key_columns: shape.key_columns().into_iter().map(str::to_owned).collect(),
        rows,
        truncated,
    }
}
