//! JSON lines: one object per line, a column for each name.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anabranch_client::{Client, SqlValue, TableInfo};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use super::column::{self, Column, Guess, Type};
use super::load::Row;
use super::{Context, Item, Job, Sink, Source};
use crate::args::Import;
use crate::failure::{Failure, Outcome};

/// Longest line that is read.
const LINE_BYTES: u64 = 32 << 20;

/// The table, if the branch has it.
pub(super) fn existing(client: &Client, branch: &str, table: &str) -> Outcome<Option<TableInfo>> {
    let tables = client.tables(branch)?;
    Ok(tables.into_iter().find(|info| info.table.eq_ignore_ascii_case(table)))
}

/// Looks the file through and says how to load it.
pub(super) fn job(context: &Context, client: &Client, branch: &str, args: &Import) -> Outcome<Job> {
    let table = super::table_name(args)?;
    let existing = existing(client, branch, &table)?;
    let mut jsonl = Jsonl {
        path: args.file.clone(),
        size_bytes: std::fs::metadata(&args.file).map_or(0, |data| data.len()),
        kinds: Vec::new(),
        places: BTreeMap::new(),
    };
    let found = jsonl.scan(context)?;
    let mut columns = column::settle(found, &args.types, existing.as_ref())?;
    if existing.is_some() {
        // The values have types of their own: SQLite's rules for the column apply to them.
        let told = |column: &Column| args.types.iter().any(|(name, _)| *name == column.name);
        for column in columns.iter_mut().filter(|column| !told(column)) {
            column.kind = Type::Any;
        }
    }
    jsonl.kinds = columns.iter().map(|column| column.kind).collect();
    jsonl.places =
        columns.iter().enumerate().map(|(place, column)| (column.name.clone(), place)).collect();
    let create = match existing {
        Some(_) => Vec::new(),
        None => vec![column::create_table(&table, &columns)],
    };
    Ok(Job { table, create, columns, source: Box::new(jsonl), finish: Vec::new() })
}

struct Jsonl {
    path: PathBuf,
    size_bytes: u64,
    kinds: Vec<Type>,
    places: BTreeMap<String, usize>,
}

impl Jsonl {
    /// Finds the columns, in the order in which they first appear, and their types.
    fn scan(&self, context: &Context) -> Outcome<Vec<Column>> {
        let mut lines = Lines::open(&self.path)?;
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        let mut found: Vec<(String, Guess)> = Vec::new();
        let bar = context.printer.progress("looking through", Some(self.size_bytes));
        while let Some(line) = lines.next()? {
            bar.set_position(lines.position);
            let Ok(fields) = line.and_then(|line| parse(&line)) else { continue };
            for (name, value) in fields.0 {
                let place = *places.entry(name.clone()).or_insert_with(|| {
                    found.push((name, Guess::default()));
                    found.len() - 1
                });
                found[place].1.value(&value);
            }
        }
        bar.finish_and_clear();
        Ok(found
            .into_iter()
            .map(|(name, guess)| Column { name, kind: guess.of_values() })
            .collect())
    }

    fn row(&self, line: &[u8]) -> Result<Vec<SqlValue>, String> {
        let mut values = vec![SqlValue::Null; self.kinds.len()];
        for (name, value) in parse(line)?.0 {
            let place = *self.places.get(&name).ok_or_else(|| format!("no column `{name}`"))?;
            let checked = self.kinds[place].check(value);
            values[place] = checked.map_err(|reason| format!("`{name}`: {reason}"))?;
        }
        Ok(values)
    }
}

impl Source for Jsonl {
    fn each(&mut self, sink: &mut Sink<'_>) -> Outcome<()> {
        let mut lines = Lines::open(&self.path)?;
        while let Some(line) = lines.next()? {
            let number = lines.number;
            let row = line.clone().and_then(|line| self.row(&line));
            let item = match row {
                Ok(values) => Item::Row(Row { line: number, values }),
                Err(reason) => {
                    let text = line.unwrap_or_default();
                    let text = String::from_utf8_lossy(&text).into_owned();
                    Item::Bad { line: number, reason, text }
                }
            };
            sink(item, lines.position)?;
        }
        Ok(())
    }

    fn total(&self) -> Option<u64> {
        Some(self.size_bytes)
    }
}

/// Lines of bounded length that are not blank.
struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    number: u64,
    position: u64,
}

impl Lines {
    fn open(path: &Path) -> Outcome<Lines> {
        let file = File::open(path).map_err(|error| Failure::file(path, &error))?;
        let reader = BufReader::new(file);
        Ok(Lines { path: path.to_owned(), reader, number: 0, position: 0 })
    }

    /// The next line, or why it cannot be read; `None` at the end.
    fn next(&mut self) -> Outcome<Option<Result<Vec<u8>, String>>> {
        loop {
            let mut line = Vec::new();
            self.number += 1;
            if self.fill(&mut line)? == 0 {
                return Ok(None);
            }
            let mut whole = line.ends_with(b"\n");
            if !whole && line.len() as u64 == LINE_BYTES {
                while !whole {
                    let mut rest = Vec::new();
                    let read = self.fill(&mut rest)?;
                    whole = read == 0 || rest.ends_with(b"\n");
                }
                return Ok(Some(Err(format!("the line is longer than {LINE_BYTES} bytes"))));
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some(Ok(line)));
            }
        }
    }

    fn fill(&mut self, line: &mut Vec<u8>) -> Outcome<u64> {
        let read = self.reader.by_ref().take(LINE_BYTES).read_until(b'\n', line);
        let read = read.map_err(|error| Failure::file(&self.path, &error))? as u64;
        self.position += read;
        Ok(read)
    }
}

fn parse(line: &[u8]) -> Result<Fields, String> {
    serde_json::from_slice(line).map_err(|error| error.to_string())
}

/// The members of an object, in their order.
struct Fields(Vec<(String, SqlValue)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of SQL values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields: Vec<(String, SqlValue)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, SqlValue>()? {
                    if fields.iter().any(|(other, _)| *other == name) {
                        let message = format!("`{name}` is given twice");
                        return Err(serde::de::Error::custom(message));
                    }
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(FieldsVisitor)
    }
}
