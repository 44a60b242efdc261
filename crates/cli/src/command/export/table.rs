//! A table: CSV or JSON lines.
//!
//! What fits into one answer is written as it is. More is read from a frozen fork, page by page, so
//! that the file shows one moment, and the fork is discarded.

use std::io::{self, Write};

use anabranch_client::{Client, SqlCall, SqlReply, SqlValue, TableInfo};
use anabranch_log::Kind;

use super::{Context, Output};
use crate::args::{Export, ExportFormat};
use crate::command::import::{frozen_fork, quote};
use crate::failure::{Failure, Outcome};

/// Longest run of one query.
const QUERY_MS: u64 = 120_000;

pub(super) fn export(
    context: &Context,
    client: &Client,
    (branch, name): (&str, &str),
    args: &Export,
) -> Outcome<u64> {
    if args.format == Some(ExportFormat::Lines) {
        return Err(Failure::usage("lines are for streams", "a table is written as csv or jsonl"));
    }
    let tables = client.tables(branch)?;
    let Some(table) = tables.into_iter().find(|info| info.table.eq_ignore_ascii_case(name)) else {
        let message = format!("{branch} has no table `{name}`");
        return Err(Failure::usage(message, "`anabranch tables` lists them"));
    };
    let pages = Pages::new(client, branch, &table)?;
    let first = pages.first(branch)?;
    if !first.truncated {
        return write(context, &pages, args, (branch, first));
    }
    let client = client.because(format!("export {name}"));
    let fork = frozen_fork(&client, branch, "export-")?;
    let written = pages.first(&fork).and_then(|first| write(context, &pages, args, (&fork, first)));
    if let Err(error) = client.discard(&fork) {
        context.printer.warn(&format!("the fork {fork} is left over: {error}"));
    }
    written
}

fn write(
    context: &Context,
    pages: &Pages<'_>,
    args: &Export,
    (branch, first): (&str, SqlReply),
) -> Outcome<u64> {
    let is_csv = args.format != Some(ExportFormat::Jsonl);
    if is_csv {
        pages.check_csv(branch, &args.null)?;
    }
    let mut output = Output::open(&context.printer, args.output.as_deref())?;
    let bar = context.printer.progress(&pages.table.table, None);
    let columns: Vec<&str> = pages.table.columns.iter().map(|own| own.name.as_str()).collect();
    let mut bytes = 0;
    let mut count = |row: &[SqlValue]| {
        bytes += row.iter().map(SqlValue::size_bytes).sum::<usize>() as u64;
        bar.set_position(bytes);
    };
    let rows = if is_csv {
        let mut csv = csv::WriterBuilder::new().delimiter(args.delimiter).from_writer(&mut output);
        csv.write_record(&columns).map_err(|error| csv.get_ref().failed(plain(error)))?;
        let rows = pages.each((branch, first), &mut |row| {
            count(row);
            let fields = row.iter().map(|value| field(value, &args.null));
            csv.write_record(fields).map_err(|error| csv.get_ref().failed(plain(error)))
        })?;
        csv.flush().map_err(|error| csv.get_ref().failed(error))?;
        rows
    } else {
        pages.each((branch, first), &mut |row| {
            count(row);
            write_object(&mut output, &columns, row).map_err(|error| output.failed(error))
        })?
    };
    bar.finish_and_clear();
    output.finish()?;
    Ok(rows)
}

fn plain(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// A value in CSV. Blobs were refused before.
fn field(value: &SqlValue, null: &str) -> String {
    match value {
        SqlValue::Null => null.to_owned(),
        other => other.to_string(),
    }
}

/// An object with the columns in their order.
fn write_object(out: &mut impl Write, columns: &[&str], row: &[SqlValue]) -> io::Result<()> {
    for (place, (name, value)) in columns.iter().zip(row).enumerate() {
        out.write_all(if place == 0 { b"{" } else { b"," })?;
        serde_json::to_writer(&mut *out, name)?;
        out.write_all(b":")?;
        serde_json::to_writer(&mut *out, value)?;
    }
    out.write_all(b"}\n")
}

/// Reads a table page by page: by rowid, or by number where there is none.
struct Pages<'a> {
    client: &'a Client,
    table: &'a TableInfo,
    /// A name of the rowid that no column hides.
    rowid: Option<&'static str>,
    select: String,
}

impl<'a> Pages<'a> {
    fn new(client: &'a Client, branch: &str, table: &'a TableInfo) -> Outcome<Pages<'a>> {
        let hidden =
            |name: &str| table.columns.iter().any(|own| own.name.eq_ignore_ascii_case(name));
        let mut rowid = ["rowid", "_rowid_", "oid"].into_iter().find(|name| !hidden(name));
        if let Some(name) = rowid {
            let sql = format!("SELECT {name} FROM {} LIMIT 0", quote(&table.table));
            match client.sql(branch, &SqlCall::query(sql)) {
                Ok(_) => {}
                Err(error) if error.kind == Kind::Sql => rowid = None,
                Err(error) => return Err(error.into()),
            }
        }
        let mut columns: Vec<String> = rowid.iter().map(|name| (*name).to_owned()).collect();
        columns.extend(table.columns.iter().map(|own| quote(&own.name)));
        let select = format!("SELECT {} FROM {}", columns.join(", "), quote(&table.table));
        Ok(Pages { client, table, rowid, select })
    }

    fn query(&self, branch: &str, sql: String, params: Vec<SqlValue>) -> Outcome<SqlReply> {
        let call = SqlCall { params, timeout_ms: Some(QUERY_MS), ..SqlCall::query(sql) };
        Ok(self.client.sql(branch, &call)?)
    }

    fn first(&self, branch: &str) -> Outcome<SqlReply> {
        let order = self.rowid.map(|name| format!(" ORDER BY {name}")).unwrap_or_default();
        self.query(branch, format!("{}{order}", self.select), Vec::new())
    }

    /// The page after this one, which ends with row number `count`.
    fn after(&self, branch: &str, page: &SqlReply, count: u64) -> Outcome<SqlReply> {
        let select = &self.select;
        if let (Some(name), Some(last)) = (self.rowid, page.rows.last()) {
            let sql = format!("{select} WHERE {name} > ?1 ORDER BY {name}");
            return self.query(branch, sql, vec![last[0].clone()]);
        }
        // The branch is a frozen fork that nobody writes to: its order does not change.
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let sql = format!("{select} LIMIT -1 OFFSET ?1");
        self.query(branch, sql, vec![SqlValue::Integer(count)])
    }

    /// Gives every row to `sink`, beginning with this page; returns how many.
    fn each(
        &self,
        (branch, mut page): (&str, SqlReply),
        sink: &mut dyn FnMut(&[SqlValue]) -> Outcome<()>,
    ) -> Outcome<u64> {
        let first_column = usize::from(self.rowid.is_some());
        let mut count = 0;
        loop {
            for row in &page.rows {
                sink(&row[first_column..])?;
            }
            count += page.rows.len() as u64;
            if !page.truncated {
                return Ok(count);
            }
            if page.rows.is_empty() {
                let message = format!("row {} is too large for one answer", count + 1);
                return Err(Failure::local(Kind::TooLarge, message));
            }
            page = self.after(branch, &page, count)?;
        }
    }

    /// Refuses what CSV cannot say.
    fn check_csv(&self, branch: &str, null: &str) -> Outcome<()> {
        let names: Vec<String> = self.table.columns.iter().map(|own| quote(&own.name)).collect();
        let any = |test: &dyn Fn(&String) -> String| {
            let tests: Vec<String> = names.iter().map(test).collect();
            let from = quote(&self.table.table);
            format!("EXISTS (SELECT 1 FROM {from} WHERE {})", tests.join(" OR "))
        };
        let blob = any(&|name| format!("typeof({name}) = 'blob'"));
        let same = any(&|name| format!("(typeof({name}) = 'text' AND {name} = ?1 COLLATE BINARY)"));
        let sql = format!("SELECT {blob}, {same}");
        let reply = self.query(branch, sql, vec![SqlValue::from(null)])?;
        let found =
            |place: usize| reply.rows.first().is_some_and(|row| row[place] == SqlValue::Integer(1));
        if found(0) {
            let message = format!("table {} holds blobs, which CSV cannot say", self.table.table);
            return Err(Failure::usage(message, "write it with --format jsonl"));
        }
        if found(1) {
            let message = format!(
                "table {} holds the text `{null}`, which stands for NULL in this file",
                self.table.table
            );
            return Err(Failure::usage(
                message,
                "choose another text for NULL, as in --null '\\N'",
            ));
        }
        Ok(())
    }
}
