//! CSV with a header line.

use std::fs::File;
use std::path::{Path, PathBuf};

use anabranch_client::{Client, SqlValue};
use csv::{ByteRecord, Reader, ReaderBuilder};

use super::column::{self, Column, Guess, Type};
use super::load::Row;
use super::{Context, Item, Job, Sink, Source};
use crate::args::Import;
use crate::failure::{Failure, Outcome};

/// Looks the file through and says how to load it.
pub(super) fn job(context: &Context, client: &Client, branch: &str, args: &Import) -> Outcome<Job> {
    let table = super::table_name(args)?;
    let existing = super::jsonl::existing(client, branch, &table)?;
    let mut csv = Csv {
        path: args.file.clone(),
        delimiter: match (args.delimiter, args.file.extension()) {
            (b',', Some(extension)) if extension.eq_ignore_ascii_case("tsv") => b'\t',
            (delimiter, _) => delimiter,
        },
        null: args.null.clone(),
        size_bytes: std::fs::metadata(&args.file).map_or(0, |data| data.len()),
        kinds: Vec::new(),
    };
    let found = csv.scan(context)?;
    let columns = column::settle(found, &args.types, existing.as_ref())?;
    csv.kinds = columns.iter().map(|column| column.kind).collect();
    let create = match existing {
        Some(_) => Vec::new(),
        None => vec![column::create_table(&table, &columns)],
    };
    Ok(Job { table, create, columns, source: Box::new(csv), finish: Vec::new() })
}

struct Csv {
    path: PathBuf,
    delimiter: u8,
    null: String,
    size_bytes: u64,
    kinds: Vec<Type>,
}

impl Csv {
    fn open(&self) -> Outcome<Reader<File>> {
        let file = File::open(&self.path).map_err(|error| Failure::file(&self.path, &error))?;
        // Records of another length are told apart here, to go to the bad rows.
        Ok(ReaderBuilder::new().delimiter(self.delimiter).flexible(true).from_reader(file))
    }

    /// Finds the columns and their types.
    fn scan(&self, context: &Context) -> Outcome<Vec<Column>> {
        let mut reader = self.open()?;
        let header = reader.byte_headers().map_err(|error| failed(&self.path, error))?.clone();
        let names = texts(&header).map_err(|_| {
            let message = format!("{}: the header is not UTF-8", self.path.display());
            Failure::usage(message, "convert the file to UTF-8")
        })?;
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let mut guesses = vec![Guess::default(); names.len()];
        let bar = context.printer.progress("looking through", Some(self.size_bytes));
        let mut record = ByteRecord::new();
        while reader.read_byte_record(&mut record).map_err(|error| failed(&self.path, error))? {
            bar.set_position(reader.position().byte());
            if record.len() != names.len() {
                continue;
            }
            let Ok(fields) = texts(&record) else { continue };
            for (guess, field) in guesses.iter_mut().zip(fields) {
                if field != self.null {
                    guess.text(field);
                }
            }
        }
        bar.finish_and_clear();
        let column = |(name, guess): (String, Guess)| Column { name, kind: guess.of_texts() };
        Ok(names.into_iter().zip(guesses).map(column).collect())
    }

    fn row(&self, record: &ByteRecord) -> Result<Vec<SqlValue>, String> {
        if record.len() != self.kinds.len() {
            return Err(format!("{} fields instead of {}", record.len(), self.kinds.len()));
        }
        let fields = texts(record).map_err(|place| format!("field {} is not UTF-8", place + 1))?;
        let mut values = Vec::with_capacity(fields.len());
        for (place, (field, kind)) in fields.into_iter().zip(&self.kinds).enumerate() {
            values.push(if field == self.null {
                SqlValue::Null
            } else {
                kind.read(field).map_err(|reason| format!("field {}: {reason}", place + 1))?
            });
        }
        Ok(values)
    }
}

impl Source for Csv {
    fn each(&mut self, sink: &mut Sink<'_>) -> Outcome<()> {
        let mut reader = self.open()?;
        let mut record = ByteRecord::new();
        while reader.read_byte_record(&mut record).map_err(|error| failed(&self.path, error))? {
            let line = record.position().map_or(0, csv::Position::line);
            let item = match self.row(&record) {
                Ok(values) => Item::Row(Row { line, values }),
                Err(reason) => Item::Bad { line, reason, text: lossy(&record) },
            };
            sink(item, reader.position().byte())?;
        }
        Ok(())
    }

    fn total(&self) -> Option<u64> {
        Some(self.size_bytes)
    }
}

/// The fields as texts, or the place of the first that is not UTF-8.
fn texts(record: &ByteRecord) -> Result<Vec<&str>, usize> {
    let field = |(place, bytes)| std::str::from_utf8(bytes).map_err(|_| place);
    record.iter().enumerate().map(field).collect()
}

fn lossy(record: &ByteRecord) -> String {
    let fields: Vec<_> = record.iter().map(String::from_utf8_lossy).collect();
    fields.join(",")
}

fn failed(path: &Path, error: csv::Error) -> Failure {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => Failure::file(path, &error),
        other => Failure::usage(format!("{}: {other:?}", path.display()), "check the file"),
    }
}
