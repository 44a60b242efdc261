//! What tables a branch has: for describing it, and for merging rows of two branches.

use std::sync::Arc;

use crate::error::SqlError;
use crate::map::PageMap;
use crate::page::PageStore;

/// What kind of thing can be selected from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableKind {
    /// An ordinary table.
    Table,
    /// A view.
    View,
    /// A virtual table (full text).
    Virtual,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Name.
    pub name: String,
    /// Declared type, as written; may be empty.
    pub declared_type: String,
    /// Whether NOT NULL is declared.
    pub not_null: bool,
    /// Default expression, as written.
    pub default: Option<String>,
    /// Position in the primary key, from 1; 0 if not part of it.
    pub key_position: u32,
    /// Whether the column is computed.
    pub generated: bool,
}

/// One table or view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Name.
    pub name: String,
    /// What it is.
    pub kind: TableKind,
    /// Whether it was declared WITHOUT ROWID.
    pub without_rowid: bool,
    /// Whether it was declared STRICT.
    pub strict: bool,
    /// Its columns, in order, generated ones included.
    pub columns: Vec<ColumnInfo>,
}

/// One object of the schema, as SQLite keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaItem {
    /// `table`, `index`, `view` or `trigger`.
    pub kind: String,
    /// Name.
    pub name: String,
    /// The table it belongs to.
    pub table: String,
    /// The statement that makes it.
    pub sql: String,
}

/// Tables and views of a branch, by name; internal ones are left out.
pub fn table_list(
    store: &Arc<dyn PageStore>,
    root: &PageMap,
) -> Result<Vec<TableInfo>, SqlError> {
    let _ = (store, root);
    todo!()
}

/// The schema in the order in which it was made; internal objects are left out.
pub fn schema(store: &Arc<dyn PageStore>, root: &PageMap) -> Result<Vec<SchemaItem>, SqlError> {
    let _ = (store, root);
    todo!()
}

/// Rows of every table (views not), by name. Reads every table once.
pub fn row_counts(
    store: &Arc<dyn PageStore>,
    root: &PageMap,
) -> Result<Vec<(String, u64)>, SqlError> {
    let _ = (store, root);
    todo!()
}

/// Writes the branch as SQL statements, one per call of `line`, that make the same tables in an
/// empty database. `line` may stop the dump by returning false.
pub fn dump(
    store: &Arc<dyn PageStore>,
    root: &PageMap,
    line: &mut dyn FnMut(&str) -> bool,
) -> Result<(), SqlError> {
    let _ = (store, root, line);
    todo!()
}
