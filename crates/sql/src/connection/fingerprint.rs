//! What a column held before it was dropped.
//!
//! A dropped column leaves no row images. Its fingerprint travels instead: at promotion the target
//! must hold the same in that column, or else content that the fork never saw would vanish.

use super::capture::{Capture, Rows};
use super::{Connection, quote, value_of};
use crate::change::{Fingerprint, RowIdentity, TableKey};
use crate::error::SqlError;
use crate::value::Value;

impl Connection {
    /// The fingerprint of some columns; `None` if the table or one of them is not there, or has
    /// no rows of its own (a view, an index without content).
    pub(crate) fn fingerprint(
        &mut self,
        table: &str,
        columns: &[String],
    ) -> Result<Option<Fingerprint>, SqlError> {
        let Some(capture) = self.capture(table)? else { return Ok(None) };
        let Capture::Rows(rows) = &*capture else { return Ok(None) };
        let at = |name: &String| {
            rows.shape.columns.iter().position(|column| column.eq_ignore_ascii_case(name))
        };
        let Some(positions) = columns.iter().map(at).collect::<Option<Vec<usize>>>() else {
            return Ok(None);
        };
        let sum = self.internal(|database| sum(database, rows, &positions))?;
        Ok(Some(Fingerprint { table: table.to_owned(), columns: columns.to_vec(), sum }))
    }

    /// A fingerprint of each stored column of a table that is about to lose one.
    pub(super) fn fingerprints(&mut self, table: &str) -> Result<Vec<Fingerprint>, SqlError> {
        let Some(capture) = self.capture(table)? else { return Ok(Vec::new()) };
        let Capture::Rows(rows) = &*capture else { return Ok(Vec::new()) };
        let mut found = Vec::with_capacity(rows.shape.columns.len());
        for column in &rows.shape.columns {
            found.extend(self.fingerprint(table, std::slice::from_ref(column))?);
        }
        Ok(found)
    }

    /// Of fingerprints taken before a schema statement: those of columns that are gone.
    pub(super) fn dropped(
        &mut self,
        before: Vec<Fingerprint>,
    ) -> Result<Vec<Fingerprint>, SqlError> {
        let mut gone = Vec::new();
        for same in before {
            let capture = self.capture(&same.table)?;
            let Some(Capture::Rows(rows)) = capture.as_deref() else { continue };
            if !same.columns.iter().all(|name| rows.shape.columns.contains(name)) {
                gone.push(same);
            }
        }
        Ok(gone)
    }
}

fn sum(
    database: &rusqlite::Connection,
    table: &Rows,
    positions: &[usize],
) -> Result<u64, SqlError> {
    let names: Vec<String> = table.shape.columns.iter().map(|name| quote(name)).collect();
    let rowid = table.rowid.as_deref().map_or_else(|| String::from("0"), quote);
    let from = quote(&table.shape.name);
    let sql = format!("SELECT {rowid}, {} FROM main.{from}", names.join(", "));
    let mut query = database.prepare(&sql)?;
    let mut rows = query.query([])?;
    let mut sum = 0u64;
    let mut bytes = Vec::new();
    while let Some(row) = rows.next()? {
        let image: Vec<Value> = (1..=names.len())
            .map(|at| value_of(row.get_ref(at)?))
            .collect::<Result<_, SqlError>>()?;
        bytes.clear();
        match table.identity(&image, row.get(0)?) {
            RowIdentity::Key(values) => values.iter().for_each(|value| value.encode(&mut bytes)),
            RowIdentity::Rowid(rowid) if matches!(table.shape.key, TableKey::Integer(_)) => {
                Value::Integer(rowid).encode(&mut bytes);
            }
            // A number that SQLite chose is not data.
            RowIdentity::Rowid(_) => {}
        }
        positions.iter().filter_map(|at| image.get(*at)).for_each(|cell| cell.encode(&mut bytes));
        sum = sum.wrapping_add(mix(&bytes));
    }
    Ok(sum)
}

/// FNV-1a with a final mix, so that sums of similar rows do not cancel out.
fn mix(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}
