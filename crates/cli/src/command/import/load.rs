//! Rows into a table of the fork, in batches; a bad row is found by halving its batch.

use anabranch_client::{Client, SqlCall, SqlValue};
use anabranch_log::Kind;

use super::column::{Column, quote};
use super::reject::Rejects;
use crate::failure::{Failure, Outcome};

/// Rows of one statement.
const BATCH_ROWS: usize = 2_000;
/// Parameters that SQLite takes in one statement.
const BATCH_PARAMETERS: usize = 32_766;
/// Bytes of values in one statement: far from every limit also when JSON has to escape each byte.
const BATCH_BYTES: usize = 2 << 20;
/// Bytes of the largest row that is taken.
const ROW_BYTES: usize = 4 << 20;
/// Longest run of one statement.
const STATEMENT_MS: u64 = 120_000;

/// A row of the file.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) line: u64,
    pub(super) values: Vec<SqlValue>,
}

impl Row {
    fn size_bytes(&self) -> usize {
        self.values.iter().map(SqlValue::size_bytes).sum()
    }

    fn text(&self) -> String {
        serde_json::to_string(&self.values).unwrap_or_default()
    }
}

/// Runs one statement on the fork.
pub(super) fn run(client: &Client, fork: &str, sql: &str) -> Outcome<()> {
    let call = SqlCall { timeout_ms: Some(STATEMENT_MS), ..SqlCall::new(sql) };
    client.sql(fork, &call)?;
    Ok(())
}

/// Collects rows and inserts them.
pub(super) struct Loader<'a> {
    client: &'a Client,
    fork: &'a str,
    table: &'a str,
    insert: String,
    values: String,
    capacity: usize,
    batch: Vec<Row>,
    bytes: usize,
    loaded: u64,
}

impl<'a> Loader<'a> {
    pub(super) fn new(
        client: &'a Client,
        fork: &'a str,
        table: &'a str,
        columns: &[Column],
    ) -> Loader<'a> {
        let names: Vec<String> = columns.iter().map(|column| quote(&column.name)).collect();
        Loader {
            client,
            fork,
            table,
            insert: format!("INSERT INTO {} ({}) VALUES ", quote(table), names.join(",")),
            values: format!("({})", vec!["?"; columns.len()].join(",")),
            capacity: (BATCH_PARAMETERS / columns.len().max(1)).clamp(1, BATCH_ROWS),
            batch: Vec::new(),
            bytes: 0,
            loaded: 0,
        }
    }

    /// Takes a row; inserts when there are enough.
    pub(super) fn push(&mut self, row: Row, rejects: &mut Rejects) -> Outcome<()> {
        let size_bytes = row.size_bytes();
        if size_bytes > ROW_BYTES {
            return rejects.add(self.table, row.line, "the row is larger than 4 MiB", "");
        }
        if self.batch.len() >= self.capacity || self.bytes + size_bytes > BATCH_BYTES {
            self.flush(rejects)?;
        }
        self.bytes += size_bytes;
        self.batch.push(row);
        Ok(())
    }

    /// Inserts the rest; returns the number of rows.
    pub(super) fn finish(mut self, rejects: &mut Rejects) -> Outcome<u64> {
        self.flush(rejects)?;
        Ok(self.loaded)
    }

    fn flush(&mut self, rejects: &mut Rejects) -> Outcome<()> {
        self.bytes = 0;
        let mut open = vec![std::mem::take(&mut self.batch)];
        while let Some(mut rows) = open.pop() {
            if rows.is_empty() {
                continue;
            }
            let error = match self.insert(&rows) {
                Ok(()) => {
                    self.loaded += rows.len() as u64;
                    continue;
                }
                Err(error) => error,
            };
            // Only what the rows themselves can be to blame for.
            if !matches!(error.kind, Kind::Sql | Kind::TooLarge) {
                return Err(Failure::from(error));
            }
            if let [row] = rows.as_slice() {
                rejects.add(self.table, row.line, &error.message, &row.text())?;
                continue;
            }
            let second = rows.split_off(rows.len() / 2);
            // The first half first: rows keep their order.
            open.push(second);
            open.push(rows);
        }
        Ok(())
    }

    fn insert(&self, rows: &[Row]) -> anabranch_client::Result<()> {
        let mut sql = self.insert.clone();
        for number in 0..rows.len() {
            if number > 0 {
                sql.push(',');
            }
            sql.push_str(&self.values);
        }
        let params = rows.iter().flat_map(|row| row.values.iter().cloned()).collect();
        let call = SqlCall { params, timeout_ms: Some(STATEMENT_MS), ..SqlCall::new(sql) };
        self.client.sql(self.fork, &call).map(|_| ())
    }
}
