//! What tables a branch has: for describing it, and for merging rows of two branches.

use std::sync::Arc;

use crate::connection::{Connection, quote};
use crate::error::SqlError;
use crate::limits::{Access, Limits};
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
pub fn table_list(store: &Arc<dyn PageStore>, root: &PageMap) -> Result<Vec<TableInfo>, SqlError> {
    reading(store, root, |database| {
        let mut query = database.prepare(
            "SELECT name, type, wr, strict FROM pragma_table_list \
             WHERE schema = 'main' AND type IN ('table', 'view', 'virtual') \
             AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
        )?;
        let mut rows = query.query([])?;
        let mut tables = Vec::new();
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            let kind = match row.get::<_, String>(1)?.as_str() {
                "view" => TableKind::View,
                "virtual" => TableKind::Virtual,
                _ => TableKind::Table,
            };
            let columns = columns(database, &name)?;
            let (without_rowid, strict) = (row.get(2)?, row.get(3)?);
            tables.push(TableInfo { name, kind, without_rowid, strict, columns });
        }
        Ok(tables)
    })
}

fn columns(database: &rusqlite::Connection, table: &str) -> Result<Vec<ColumnInfo>, SqlError> {
    let mut query = database.prepare_cached(
        "SELECT name, type, \"notnull\", dflt_value, pk, hidden \
         FROM pragma_table_xinfo(?1) WHERE hidden <> 1 ORDER BY cid",
    )?;
    let columns = query.query_map([table], |row| {
        Ok(ColumnInfo {
            name: row.get(0)?,
            declared_type: row.get(1)?,
            not_null: row.get(2)?,
            default: row.get(3)?,
            key_position: row.get(4)?,
            generated: row.get::<_, i64>(5)? > 1,
        })
    })?;
    Ok(columns.collect::<Result<_, _>>()?)
}

/// The schema in the order in which it was made; internal objects are left out.
pub fn schema(store: &Arc<dyn PageStore>, root: &PageMap) -> Result<Vec<SchemaItem>, SqlError> {
    reading(store, root, |database| {
        // Shadow tables come back with the virtual table they belong to.
        let mut query = database.prepare(
            "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL \
             AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND NOT EXISTS (\
             SELECT 1 FROM pragma_table_list(sqlite_schema.tbl_name) AS l \
             WHERE l.schema = 'main' AND l.type = 'shadow') ORDER BY rowid",
        )?;
        let items = query.query_map([], |row| {
            Ok(SchemaItem {
                kind: row.get(0)?,
                name: row.get(1)?,
                table: row.get(2)?,
                sql: row.get(3)?,
            })
        })?;
        Ok(items.collect::<Result<_, _>>()?)
    })
}

/// Rows of every table (views not), by name. Reads every table once.
pub fn row_counts(
    store: &Arc<dyn PageStore>,
    root: &PageMap,
) -> Result<Vec<(String, u64)>, SqlError> {
    let tables = table_list(store, root)?;
    reading(store, root, |database| {
        let mut counts = Vec::new();
        for table in tables.into_iter().filter(|table| table.kind != TableKind::View) {
            let sql = format!("SELECT count(*) FROM main.{}", quote(&table.name));
            let rows: i64 = database.query_row(&sql, [], |row| row.get(0))?;
            counts.push((table.name, rows.unsigned_abs()));
        }
        Ok(counts)
    })
}

/// Runs queries of this crate on a branch.
fn reading<T>(
    store: &Arc<dyn PageStore>,
    root: &PageMap,
    run: impl FnOnce(&rusqlite::Connection) -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    let limits = Limits::default();
    let connection = Connection::open(Arc::clone(store), root.clone(), limits, Access::ReadOnly)?;
    connection.internal(run)
}
