//! A SQLite database file, read-only, table by table, with its indexes.

use std::path::Path;
use std::rc::Rc;

use anabranch_client::{Client, SqlValue};
use anabranch_log::Kind;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use super::column::{Column, Type, quote};
use super::load::Row;
use super::{Context, Item, Job, Sink, Source};
use crate::args::Import;
use crate::failure::{Failure, Outcome};

/// Says how to load each table of the file.
pub(super) fn jobs(
    context: &Context,
    client: &Client,
    branch: &str,
    args: &Import,
) -> Outcome<Vec<Job>> {
    let path = &args.file;
    if !path.is_file() {
        return Err(Failure::file(path, &std::io::ErrorKind::NotFound.into()));
    }
    if !args.types.is_empty() {
        let hint = "a SQLite file declares its types itself";
        return Err(Failure::usage("--type is for csv and jsonl", hint));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let file = Connection::open_with_flags(path, flags).map_err(|error| failed(path, &error))?;
    let file = Rc::new(file);
    let schema = Schema::read(&file).map_err(|error| failed(path, &error))?;
    for skipped in &schema.skipped {
        context.printer.warn(&format!("left out: {skipped}"));
    }
    let mut wanted = schema.tables;
    if !args.table.is_empty() {
        if let Some(name) =
            args.table.iter().find(|name| !wanted.iter().any(|(table, _)| table == *name))
        {
            let message = format!("{} has no table `{name}`", path.display());
            return Err(Failure::usage(message, "names are case-sensitive here"));
        }
        wanted.retain(|(table, _)| args.table.contains(table));
    }
    let there = client.tables(branch)?;
    let mut jobs = Vec::new();
    for (table, sql) in wanted {
        let exists = there.iter().any(|info| info.table.eq_ignore_ascii_case(&table));
        let columns = columns(&file, &table).map_err(|error| failed(path, &error))?;
        let indexes = schema.indexes.iter().filter(|(of, _)| *of == table);
        let finish =
            if exists { Vec::new() } else { indexes.map(|(_, sql)| sql.clone()).collect() };
        let names: Vec<String> = columns.iter().map(|column| quote(&column.name)).collect();
        let select = format!("SELECT {} FROM {}", names.join(", "), quote(&table));
        let source = Table { file: Rc::clone(&file), path: path.clone(), select };
        jobs.push(Job {
            create: if exists { Vec::new() } else { vec![sql] },
            table,
            columns,
            source: Box::new(source),
            finish,
        });
    }
    if jobs.is_empty() {
        return Err(Failure::usage(format!("{} has no tables", path.display()), "check the file"));
    }
    Ok(jobs)
}

struct Schema {
    /// Name and statement.
    tables: Vec<(String, String)>,
    /// Table and statement.
    indexes: Vec<(String, String)>,
    /// What is not taken over.
    skipped: Vec<String>,
}

impl Schema {
    fn read(file: &Connection) -> rusqlite::Result<Schema> {
        let mut schema = Schema { tables: Vec::new(), indexes: Vec::new(), skipped: Vec::new() };
        // Shadow tables belong to a virtual one.
        let mut shadows = std::collections::BTreeSet::new();
        let mut list = file.prepare("SELECT name FROM pragma_table_list WHERE type = 'shadow'")?;
        for name in list.query_map([], |row| row.get::<_, String>(0))? {
            shadows.insert(name?);
        }
        let mut rows = file.prepare(
            "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL \
             AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid",
        )?;
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            let (kind, name): (String, String) = (row.get(0)?, row.get(1)?);
            let (table, sql): (String, String) = (row.get(2)?, row.get(3)?);
            let is_virtual = sql.trim_start().to_ascii_uppercase().starts_with("CREATE VIRTUAL");
            match kind.as_str() {
                _ if shadows.contains(&table) => {}
                "table" if is_virtual => schema.skipped.push(format!("virtual table {name}")),
                "table" => schema.tables.push((name, sql)),
                "index" => schema.indexes.push((table, sql)),
                other => schema.skipped.push(format!("{other} {name}")),
            }
        }
        Ok(schema)
    }
}

/// The columns that can be written: generated ones compute themselves.
fn columns(file: &Connection, table: &str) -> rusqlite::Result<Vec<Column>> {
    let sql = "SELECT name, type FROM pragma_table_xinfo(?1) WHERE hidden = 0 ORDER BY cid";
    let mut statement = file.prepare(sql)?;
    let columns = statement.query_map([table], |row| {
        let declared: String = row.get(1)?;
        Ok(Column { name: row.get(0)?, kind: Type::declared(&declared) })
    })?;
    columns.collect()
}

struct Table {
    file: Rc<Connection>,
    path: std::path::PathBuf,
    select: String,
}

impl Source for Table {
    fn each(&mut self, sink: &mut Sink<'_>) -> Outcome<()> {
        let error = |error| failed(&self.path, &error);
        let mut statement = self.file.prepare(&self.select).map_err(error)?;
        let width = statement.column_count();
        let mut rows = statement.query([]).map_err(error)?;
        let (mut line, mut bytes) = (0, 0);
        while let Some(row) = rows.next().map_err(error)? {
            line += 1;
            let mut values = Vec::with_capacity(width);
            let mut reason = None;
            for place in 0..width {
                match value(row.get_ref(place).map_err(error)?) {
                    Ok(value) => values.push(value),
                    Err(what) => reason = Some(format!("column {}: {what}", place + 1)),
                }
            }
            bytes += values.iter().map(SqlValue::size_bytes).sum::<usize>() as u64;
            let item = match reason {
                None => Item::Row(Row { line, values }),
                Some(reason) => Item::Bad { line, reason, text: String::new() },
            };
            sink(item, bytes)?;
        }
        Ok(())
    }

    fn total(&self) -> Option<u64> {
        None
    }
}

fn value(value: ValueRef<'_>) -> Result<SqlValue, &'static str> {
    Ok(match value {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(number) => SqlValue::Integer(number),
        ValueRef::Real(number) => SqlValue::Real(number),
        ValueRef::Text(bytes) => SqlValue::Text(
            std::str::from_utf8(bytes).map_err(|_| "the text is not UTF-8")?.to_owned(),
        ),
        ValueRef::Blob(bytes) => SqlValue::Blob(bytes.to_vec()),
    })
}

fn failed(path: &Path, error: &rusqlite::Error) -> Failure {
    Failure::local(Kind::InvalidArgument, format!("{}: {error}", path.display()))
        .hinting("check that it is a SQLite database which nobody is writing to")
}
