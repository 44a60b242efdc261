//! What a fork changed, for people: complete counts, rows up to a limit, deletions first.

use std::sync::Arc;

use crate::change::{ChangeKind, TableCounts};
use crate::error::SqlError;
use crate::map::PageMap;
use crate::net::NetChanges;
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
    let _ = (net, max_rows);
    todo!()
}

/// Own changes against another version of the tables (the parent as it is now): what promotion
/// would change there, row by row. Costs one look-up per own row.
pub fn diff_against(
    store: &Arc<dyn PageStore>,
    other: &PageMap,
    net: &NetChanges,
    max_rows: usize,
) -> Result<Diff, SqlError> {
    let _ = (store, other, net, max_rows);
    todo!()
}
