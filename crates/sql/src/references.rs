//! Foreign keys of changed rows, looked up one by one: the cost follows the changes, where
//! `PRAGMA foreign_key_check` would read whole tables.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

use crate::change::{RowIdentity, TableShape};
use crate::connection::quote;
use crate::error::SqlError;
use crate::net::{NetChanges, NetRow};
use crate::value::Value;

/// One declared reference.
#[derive(Debug)]
struct Reference {
    child: String,
    parent: String,
    /// Referring and referred columns, in pairs.
    columns: Vec<(String, String)>,
}

/// The table and row that refer, and the table referred to.
pub(crate) type Broken = (String, RowIdentity, String);

/// The first reference that does not hold after the changes.
pub(crate) fn first_broken(
    database: &Connection,
    net: &NetChanges,
) -> Result<Option<Broken>, SqlError> {
    let references = declared(database)?;
    if references.is_empty() {
        return Ok(None);
    }
    // A schema statement may have broken references without changing a row: look at all of them,
    // unless one is declared so that SQLite cannot (then no row can use it either).
    if net.schema().next().is_some()
        && let Ok(found) = first_broken_anywhere(database)
    {
        return Ok(found);
    }
    let tables = tables(database)?;
    for (table, identity, row) in net.rows() {
        for reference in &references {
            if let Some(broken) = broken(database, &tables, reference, (table, identity, row))? {
                return Ok(Some(broken));
            }
        }
    }
    Ok(None)
}

fn first_broken_anywhere(database: &Connection) -> Result<Option<Broken>, SqlError> {
    let mut query = database.prepare("PRAGMA main.foreign_key_check")?;
    let mut rows = query.query([])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let identity = match row.get::<_, Option<i64>>(1)? {
        Some(rowid) => RowIdentity::Rowid(rowid),
        None => RowIdentity::Key(Vec::new()),
    };
    Ok(Some((row.get(0)?, identity, row.get(2)?)))
}

/// Tables that exist, lower case.
fn tables(database: &Connection) -> Result<BTreeSet<String>, SqlError> {
    let mut query = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
    let names = query.query_map([], |row| Ok(row.get::<_, String>(0)?.to_lowercase()))?;
    Ok(names.collect::<Result<_, _>>()?)
}

fn declared(database: &Connection) -> Result<Vec<Reference>, SqlError> {
    let mut query = database.prepare_cached(
        "SELECT m.name, f.id, f.\"table\", f.\"from\", f.\"to\" \
         FROM sqlite_schema AS m, pragma_foreign_key_list(m.name) AS f \
         WHERE m.type = 'table' ORDER BY m.name, f.id, f.seq",
    )?;
    let mut rows = query.query([])?;
    let mut found: BTreeMap<(String, i64), Reference> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (child, id, parent): (String, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let from: String = row.get(3)?;
        let to: Option<String> = row.get(4)?;
        let reference = found.entry((child.clone(), id)).or_insert_with(|| Reference {
            child,
            parent: parent.clone(),
            columns: Vec::new(),
        });
        let to = match to {
            Some(to) => to,
            None => match key_column(database, &parent, reference.columns.len())? {
                Some(to) => to,
                None => continue,
            },
        };
        reference.columns.push((from, to));
    }
    Ok(found.into_values().collect())
}

/// Column number `position` of a table's primary key.
fn key_column(
    database: &Connection,
    table: &str,
    position: usize,
) -> Result<Option<String>, SqlError> {
    let mut query = database
        .prepare_cached("SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk")?;
    let names = query.query_map([table], |row| row.get(0))?;
    let names: Vec<String> = names.collect::<Result<_, _>>()?;
    Ok(names.into_iter().nth(position))
}

fn broken(
    database: &Connection,
    tables: &BTreeSet<String>,
    reference: &Reference,
    (table, identity, row): (&TableShape, &RowIdentity, &NetRow),
) -> Result<Option<Broken>, SqlError> {
    let Reference { child, parent, columns } = reference;
    let referred: Vec<&str> = columns.iter().map(|(_, to)| to.as_str()).collect();
    let referring: Vec<&str> = columns.iter().map(|(from, _)| from.as_str()).collect();
    let exists = |table: &str, columns: &[&str], values: &[Value]| {
        let there = tables.contains(&table.to_lowercase());
        Ok::<_, SqlError>(there && exists(database, table, columns, values)?)
    };
    let found = Some((child.clone(), identity.clone(), parent.clone()));
    if let Some(new) = row.new.as_ref().filter(|_| table.name.eq_ignore_ascii_case(child))
        && let Some(values) = values_of(table, new, &referring)
        && !exists(parent, &referred, &values)?
    {
        return Ok(found);
    }
    if let Some(old) = row.old.as_ref().filter(|_| table.name.eq_ignore_ascii_case(parent))
        && let Some(values) = values_of(table, old, &referred)
        && !exists(parent, &referred, &values)?
        && exists(child, &referring, &values)?
    {
        return Ok(found);
    }
    Ok(None)
}

/// Values of the named columns; `None` if one is NULL or not stored: then nothing is referred to.
fn values_of(table: &TableShape, image: &[Value], names: &[&str]) -> Option<Vec<Value>> {
    names
        .iter()
        .map(|name| {
            let at = table.columns.iter().position(|column| column.eq_ignore_ascii_case(name))?;
            image.get(at).filter(|value| !value.is_null()).cloned()
        })
        .collect()
}

fn exists(
    database: &Connection,
    table: &str,
    columns: &[&str],
    values: &[Value],
) -> Result<bool, SqlError> {
    let conditions: Vec<String> =
        columns.iter().map(|column| format!("{} = ?", quote(column))).collect();
    let sql = format!("SELECT 1 FROM main.{} WHERE {}", quote(table), conditions.join(" AND "));
    let mut query = database.prepare_cached(&sql)?;
    Ok(query.exists(rusqlite::params_from_iter(values))?)
}
