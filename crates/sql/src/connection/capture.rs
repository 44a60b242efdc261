//! From raw rows to row changes: which columns an image has and what identifies a row.
//!
//! The hook reports tables by name and rows by position. The schema tells the rest, and it may be
//! asked only between statements; so rows are collected raw and resolved when their statement is
//! done. Answers are kept until the schema changes.
//!
//! Full text (FTS5) keeps its rows in shadow tables. Rows of `x_content` are changes of the
//! virtual table `x` itself, the index tables follow from them and are left out. A table with
//! external content needs its index built again after a merge; a contentless one cannot be
//! merged, since its rows are nowhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::Connection;

use crate::change::{ChangeKind, RowChange, RowIdentity, Step, TableKey, TableShape};
use crate::error::{SqlError, SqlErrorKind};
use crate::preupdate::RawRow;
use crate::value::Value;

/// How changes of one table are recorded.
#[derive(Clone, Debug)]
pub(crate) enum Capture {
    Rows(Rows),
    /// Derived content: nothing to record.
    Ignore,
    /// The external-content index of this table went along with other changes.
    Rebuild(String),
    Opaque {
        table: String,
        reason: String,
    },
}

/// A table whose rows are recorded.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub(crate) shape: Arc<TableShape>,
    /// Positions of the image's columns among all columns the hook reports.
    stored: Vec<usize>,
    /// A name by which SQL reaches the rowid; `None` for WITHOUT ROWID.
    pub(crate) rowid: Option<String>,
    /// Whether this is a virtual table.
    pub(crate) is_virtual: bool,
}

/// Known tables by name, lower case.
pub(crate) type Captures = BTreeMap<String, Arc<Capture>>;

/// How changes of a table are recorded; asks the schema once.
pub(crate) fn capture_of(
    database: &Connection,
    known: &mut Captures,
    table: &str,
) -> Result<Option<Arc<Capture>>, SqlError> {
    let key = table.to_lowercase();
    if let Some(capture) = known.get(&key) {
        return Ok(Some(Arc::clone(capture)));
    }
    let capture = look_up(database, table)?.map(Arc::new);
    if let Some(capture) = &capture {
        known.insert(key, Arc::clone(capture));
    }
    Ok(capture)
}

fn look_up(database: &Connection, table: &str) -> Result<Option<Capture>, SqlError> {
    if table.to_ascii_lowercase().starts_with("sqlite_") {
        return Ok(Some(Capture::Ignore));
    }
    let Some(listed) = list_entry(database, table)? else { return Ok(None) };
    match listed.kind.as_str() {
        "table" => Ok(Some(ordinary(database, &listed)?)),
        "virtual" => Ok(Some(full_text(database, &listed.name)?)),
        "shadow" => shadow(database, &listed.name).map(Some),
        _ => Ok(Some(Capture::Ignore)),
    }
}

struct Listed {
    name: String,
    kind: String,
    without_rowid: bool,
}

fn list_entry(database: &Connection, table: &str) -> Result<Option<Listed>, SqlError> {
    let mut query = database
        .prepare_cached("SELECT name, type, wr FROM pragma_table_list(?1) WHERE schema = 'main'")?;
    let mut rows = query.query([table])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(Listed { name: row.get(0)?, kind: row.get(1)?, without_rowid: row.get(2)? }))
}

struct Column {
    name: String,
    integer: bool,
    key_position: usize,
    hidden: i64,
}

fn columns(database: &Connection, table: &str) -> Result<Vec<Column>, SqlError> {
    let mut query = database
        .prepare_cached("SELECT name, type, pk, hidden FROM pragma_table_xinfo(?1) ORDER BY cid")?;
    let rows = query.query_map([table], |row| {
        let declared: String = row.get(1)?;
        Ok(Column {
            name: row.get(0)?,
            integer: declared.eq_ignore_ascii_case("integer"),
            key_position: usize::try_from(row.get::<_, i64>(2)?).unwrap_or(0),
            hidden: row.get(3)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn ordinary(database: &Connection, listed: &Listed) -> Result<Capture, SqlError> {
    let all = columns(database, &listed.name)?;
    let stored: Vec<usize> = (0..all.len()).filter(|position| all[*position].hidden == 0).collect();
    let mut key: Vec<(usize, usize)> = stored
        .iter()
        .enumerate()
        .filter(|(_, column)| all[**column].key_position > 0)
        .map(|(position, column)| (all[*column].key_position, position))
        .collect();
    key.sort_unstable();
    let key: Vec<usize> = key.into_iter().map(|(_, position)| position).collect();
    let rowid = if listed.without_rowid { None } else { rowid_name(&all) };
    let key = match key.as_slice() {
        [] => TableKey::Rowid,
        // `INTEGER PRIMARY KEY` is the rowid, except after DESC, which SQLite tells by an index.
        [only]
            if !listed.without_rowid
                && all[stored[*only]].integer
                && !has_key_index(database, &listed.name)? =>
        {
            TableKey::Integer(*only)
        }
        _ => TableKey::Columns(key),
    };
    let names = stored.iter().map(|position| all[*position].name.clone()).collect();
    let shape = TableShape { name: listed.name.clone(), columns: names, key };
    if rowid.is_none() && shape.key == TableKey::Rowid {
        return Ok(Capture::Opaque {
            table: shape.name,
            reason: String::from("no primary key, and columns hide every name of the rowid"),
        });
    }
    Ok(Capture::Rows(Rows { shape: Arc::new(shape), stored, rowid, is_virtual: false }))
}

/// A name of the rowid that no column hides.
fn rowid_name(columns: &[Column]) -> Option<String> {
    let hidden = |name: &str| columns.iter().any(|column| column.name.eq_ignore_ascii_case(name));
    ["rowid", "_rowid_", "oid"].into_iter().find(|name| !hidden(name)).map(String::from)
}

fn has_key_index(database: &Connection, table: &str) -> Result<bool, SqlError> {
    let mut query =
        database.prepare_cached("SELECT 1 FROM pragma_index_list(?1) WHERE origin = 'pk'")?;
    Ok(query.exists([table])?)
}

fn exists(database: &Connection, table: &str) -> Result<bool, SqlError> {
    Ok(list_entry(database, table)?.is_some())
}

/// A full-text table with content of its own: its rows are recorded under its own name.
fn full_text(database: &Connection, table: &str) -> Result<Capture, SqlError> {
    let content = format!("{table}_content");
    if !exists(database, &content)? {
        return external(database, table);
    }
    let all = columns(database, table)?;
    let names: Vec<String> =
        all.iter().filter(|column| column.hidden == 0).map(|column| column.name.clone()).collect();
    // The content table has the rowid and then the columns; anything else is an option whose
    // content we would not know how to put back.
    if columns(database, &content)?.len() != names.len() + 1 {
        return Ok(Capture::Opaque {
            table: table.to_owned(),
            reason: String::from("a full-text table with these options cannot be merged"),
        });
    }
    let stored = (1..=names.len()).collect();
    let shape = TableShape { name: table.to_owned(), columns: names, key: TableKey::Rowid };
    let rowid = Some(String::from("rowid"));
    Ok(Capture::Rows(Rows { shape: Arc::new(shape), stored, rowid, is_virtual: true }))
}

/// A full-text table without content of its own: with external content, or with none at all.
fn external(database: &Connection, table: &str) -> Result<Capture, SqlError> {
    let sql: String = database.query_row(
        "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1 COLLATE NOCASE",
        [table],
        |row| row.get(0),
    )?;
    let compact: String = sql.chars().filter(|c| !c.is_whitespace()).collect();
    let compact = compact.to_ascii_lowercase();
    let table = table.to_owned();
    if compact.contains("content=''") || compact.contains("content=\"\"") {
        let reason = String::from("a contentless full-text table keeps no rows that could merge");
        return Ok(Capture::Opaque { table, reason });
    }
    Ok(Capture::Rebuild(table))
}

/// A table that belongs to a virtual table.
fn shadow(database: &Connection, table: &str) -> Result<Capture, SqlError> {
    let Some((owner, part)) = table.rsplit_once('_') else { return Ok(Capture::Ignore) };
    let Some(owner) = list_entry(database, owner)?.filter(|owner| owner.kind == "virtual") else {
        return Ok(Capture::Ignore);
    };
    match full_text(database, &owner.name)? {
        Capture::Rows(_) if !part.eq_ignore_ascii_case("content") => Ok(Capture::Ignore),
        capture => Ok(capture),
    }
}

impl Rows {
    /// The image of a row out of all columns that the hook reported.
    fn image(&self, raw: Vec<Value>) -> Vec<Value> {
        if raw.len() == self.stored.len() {
            return raw;
        }
        let mut raw: Vec<Option<Value>> = raw.into_iter().map(Some).collect();
        let mut take = |position: &usize| raw.get_mut(*position).and_then(Option::take);
        self.stored.iter().map(|position| take(position).unwrap_or_default()).collect()
    }

    /// What identifies a row with this image and rowid.
    pub(crate) fn identity(&self, image: &[Value], rowid: i64) -> RowIdentity {
        let TableKey::Columns(positions) = &self.shape.key else {
            return RowIdentity::Rowid(rowid);
        };
        let value = |position: &usize| image.get(*position).cloned().unwrap_or_default();
        let key: Vec<Value> = positions.iter().map(value).collect();
        // SQLite allows NULL in a primary key that is not the rowid; any number of such rows.
        if key.iter().any(Value::is_null) {
            RowIdentity::Rowid(rowid)
        } else {
            RowIdentity::Key(key)
        }
    }

    /// Adds the changes that one raw row stands for: none if nothing changed, two if its
    /// identity changed.
    fn add(&self, raw: RawRow, changes: &mut Vec<RowChange>) {
        let (old, new) = (raw.old.map(|row| self.image(row)), raw.new.map(|row| self.image(row)));
        let before = old.as_ref().map(|row| self.identity(row, raw.rowid_old));
        let after = new.as_ref().map(|row| self.identity(row, raw.rowid_new));
        let mut push = |identity, old, new| {
            changes.push(RowChange { table: Arc::clone(&self.shape), identity, old, new });
        };
        match (before, after) {
            (Some(before), Some(after)) if before == after => {
                if old != new {
                    push(before, old, new);
                }
            }
            (before, after) => {
                if let Some(before) = before {
                    push(before, old, None);
                }
                if let Some(after) = after {
                    push(after, None, new);
                }
            }
        }
    }

    /// Every row of the table as a change of the given kind (insert or delete).
    pub(crate) fn all(
        &self,
        database: &Connection,
        kind: ChangeKind,
        max_bytes: usize,
    ) -> Result<Vec<RowChange>, SqlError> {
        let names: Vec<String> = self.shape.columns.iter().map(|name| quote(name)).collect();
        let rowid = self.rowid.as_deref().unwrap_or("0");
        let table = quote(&self.shape.name);
        let sql = format!("SELECT {rowid}, {} FROM main.{table}", names.join(", "));
        let mut query = database.prepare(&sql)?;
        let mut rows = query.query([])?;
        let (mut changes, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            let rowid = row.get(0)?;
            let mut image = Vec::with_capacity(names.len());
            for position in 1..=names.len() {
                image.push(super::value_of(row.get_ref(position)?)?);
            }
            bytes += image.iter().map(Value::size_bytes).sum::<usize>();
            if bytes > max_bytes {
                let message = format!(
                    "table `{}` has more rows than one transaction can carry: delete them in parts",
                    self.shape.name
                );
                return Err(SqlError::new(SqlErrorKind::TooLarge, message));
            }
            let identity = self.identity(&image, rowid);
            let (old, new) = match kind {
                ChangeKind::Insert => (None, Some(image)),
                _ => (Some(image), None),
            };
            changes.push(RowChange { table: Arc::clone(&self.shape), identity, old, new });
        }
        Ok(changes)
    }
}

/// Resolves raw rows into steps. Rows of tables named in `skip` (lower case) are left out.
pub(crate) fn resolve(
    database: &Connection,
    known: &mut Captures,
    names: &[String],
    rows: Vec<RawRow>,
    skip: &[String],
) -> Result<Vec<Step>, SqlError> {
    let mut steps = Vec::new();
    let mut changes = Vec::new();
    let mut last: Option<(usize, Option<Arc<Capture>>)> = None;
    for row in rows {
        if last.as_ref().is_none_or(|(table, _)| *table != row.table) {
            let name = &names[row.table];
            let skipped = skip.iter().any(|skip| name.eq_ignore_ascii_case(skip));
            let capture = if skipped { None } else { capture_of(database, known, name)? };
            last = Some((row.table, capture));
        }
        match last.as_ref().and_then(|(_, capture)| capture.as_deref()) {
            Some(Capture::Rows(table)) => table.add(row, &mut changes),
            Some(Capture::Rebuild(table)) => note(&mut steps, Step::Rebuild(table.clone())),
            Some(Capture::Opaque { table, reason }) => {
                let (table, reason) = (table.clone(), reason.clone());
                note(&mut steps, Step::Opaque { table, reason });
            }
            Some(Capture::Ignore) | None => {}
        }
    }
    if !changes.is_empty() {
        steps.push(Step::Rows(changes));
    }
    Ok(steps)
}

fn note(steps: &mut Vec<Step>, step: Step) {
    if !steps.contains(&step) {
        steps.push(step);
    }
}

/// A name as SQL.
pub(crate) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
