//! Foreign keys of changed rows, looked up one by one: the cost follows the changes, where
//! `PRAGMA foreign_key_check` would read whole tables.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::change::{RowChange, RowIdentity};
use crate::connection::quote;
use crate::error::SqlError;
use crate::value::Value;

/// One declared reference.
#[derive(Debug)]
struct Reference {
    child: String,
    parent: String,
    /// Referring and referred columns, in pairs.
    columns: Vec<(String, String)>,
}

/// The first reference that does not hold after the changes: the table and row that refer, and
/// the table referred to.
pub(crate) fn first_broken<'a>(
    database: &Connection,
    changes: impl Iterator<Item = &'a RowChange>,
) -> Result<Option<(String, RowIdentity, String)>, SqlError> {
    let references = declared(database)?;
    if references.is_empty() {
        return Ok(None);
    }
    for change in changes {
        for reference in &references {
            if let Some(broken) = broken(database, reference, change)? {
                return Ok(Some(broken));
            }
        }
    }
    Ok(None)
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
    reference: &Reference,
    change: &RowChange,
) -> Result<Option<(String, RowIdentity, String)>, SqlError> {
    let Reference { child, parent, columns } = reference;
    let table = &change.table.name;
    if let Some(new) = change.new.as_ref().filter(|_| table.eq_ignore_ascii_case(child)) {
        let values = values_of(change, new, columns.iter().map(|(from, _)| from));
        if let Some(values) = values {
            let referred = columns.iter().map(|(_, to)| to.as_str());
            if !exists(database, parent, referred, &values)? {
                return Ok(Some((child.clone(), change.identity.clone(), parent.clone())));
            }
        }
    }
    if let Some(old) = change.old.as_ref().filter(|_| table.eq_ignore_ascii_case(parent)) {
        let values = values_of(change, old, columns.iter().map(|(_, to)| to));
        if let Some(values) = values {
            let referred = columns.iter().map(|(_, to)| to.as_str());
            let referring = columns.iter().map(|(from, _)| from.as_str());
            if !exists(database, parent, referred, &values)?
                && exists(database, child, referring, &values)?
            {
                return Ok(Some((child.clone(), change.identity.clone(), parent.clone())));
            }
        }
    }
    Ok(None)
}

/// Values of the named columns; `None` if one is NULL or not stored: then nothing is referred to.
fn values_of<'a>(
    change: &RowChange,
    image: &[Value],
    names: impl Iterator<Item = &'a String>,
) -> Option<Vec<Value>> {
    let columns = &change.table.columns;
    names
        .map(|name| {
            let at = columns.iter().position(|column| column.eq_ignore_ascii_case(name))?;
            image.get(at).filter(|value| !value.is_null()).cloned()
        })
        .collect()
}

fn exists<'a>(
    database: &Connection,
    table: &str,
    columns: impl Iterator<Item = &'a str>,
    values: &[Value],
) -> Result<bool, SqlError> {
    let conditions: Vec<String> = columns.map(|column| format!("{} = ?", quote(column))).collect();
    let sql = format!("SELECT 1 FROM main.{} WHERE {}", quote(table), conditions.join(" AND "));
    let mut query = database.prepare_cached(&sql)?;
    Ok(query.exists(rusqlite::params_from_iter(values))?)
}
