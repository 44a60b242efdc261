//! Bytes that the node puts inside others' envelopes: summaries of table changes inside an
//! operation, applied operations inside the history.
//!
//! All integers little endian; every length is checked against what is left; trailing bytes are
//! refused.

use anabranch_log::{Body, Digest, Entry, Malformed, Operation, Outcome, TablesChange, limits};

/// What a table change amounts to, small enough to keep for ever.
///
/// | bytes | field |
/// |---|---|
/// | 1 | 1 if the lists below are cut because they would not fit |
/// | 4 | number of tables, then per table: 2 + name, inserts 8, updates 8, deletes 8 |
/// | 4 | number of schema statements, then per statement: 4 + text |
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Table, inserts, updates, deletes.
    pub(crate) tables: Vec<(String, u64, u64, u64)>,
    /// Schema statements in order.
    pub(crate) schema: Vec<String>,
    /// Whether something was left out.
    pub(crate) cut: bool,
}

impl Summary {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![u8::from(self.cut), 0, 0, 0, 0];
        let mut tables = 0_u32;
        let mut cut = self.cut;
        for (name, inserts, updates, deletes) in &self.tables {
            let Ok(length) = u16::try_from(name.len()) else {
                cut = true;
                continue;
            };
            if out.len() + name.len() + 64 > limits::SUMMARY_BYTES / 2 {
                cut = true;
                break;
            }
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(name.as_bytes());
            for count in [inserts, updates, deletes] {
                out.extend_from_slice(&count.to_le_bytes());
            }
            tables += 1;
        }
        out[1..5].copy_from_slice(&tables.to_le_bytes());
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        let mut statements = 0_u32;
        for statement in &self.schema {
            if out.len() + statement.len() + 16 > limits::SUMMARY_BYTES {
                cut = true;
                break;
            }
            let length = u32::try_from(statement.len()).expect("bounded by the line above");
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(statement.as_bytes());
            statements += 1;
        }
        out[at..at + 4].copy_from_slice(&statements.to_le_bytes());
        out[0] = u8::from(cut);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Summary> {
        let mut rest = bytes;
        let cut = match take::<1>(&mut rest)? {
            [0] => false,
            [1] => true,
            _ => return None,
        };
        let mut summary = Summary { cut, ..Summary::default() };
        for _ in 0..u32::from_le_bytes(take(&mut rest)?) {
            let length = usize::from(u16::from_le_bytes(take(&mut rest)?));
            let name = text(&mut rest, length)?;
            let mut count = || Some(u64::from_le_bytes(take(&mut rest)?));
            let counts = (count()?, count()?, count()?);
            summary.tables.push((name, counts.0, counts.1, counts.2));
        }
        for _ in 0..u32::from_le_bytes(take(&mut rest)?) {
            let length = usize::try_from(u32::from_le_bytes(take(&mut rest)?)).ok()?;
            summary.schema.push(text(&mut rest, length)?);
        }
        rest.is_empty().then_some(summary)
    }

    /// Names of the tables that changed; `""` stands for the schema.
    pub(crate) fn changed(&self) -> impl Iterator<Item = String> + '_ {
        let schema = !self.schema.is_empty() || self.cut;
        self.tables.iter().map(|table| table.0.clone()).chain(schema.then(String::new))
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

fn text(rest: &mut &[u8], length: usize) -> Option<String> {
    let (head, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    String::from_utf8(head.to_vec()).ok()
}

/// An applied operation as the history keeps it.
///
/// | bytes | field |
/// |---|---|
/// | 4 | length of the entry |
/// | … | the entry, its table change replaced by the row images (or nothing on the root branch) |
/// | 4 | length of the outcome |
/// | … | the outcome |
/// | 4 | number of chunks that hold row images too large to stand here |
/// | 32 each | their hashes |
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    pub(crate) entry: Entry,
    pub(crate) outcome: Outcome,
    pub(crate) chunks: Vec<[u8; 32]>,
}

const CUT: Malformed = Malformed::Truncated { at: 0 };

/// Row images up to this size stand in the history itself.
pub(crate) const INLINE_CHANGES: usize = 64 << 10;

impl Applied {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let entry = self.entry.encode();
        let outcome = self.outcome.encode();
        let mut bytes = Vec::with_capacity(entry.len() + outcome.len() + 12);
        for part in [&entry, &outcome] {
            let length = u32::try_from(part.len()).expect("entries are below 4 GiB");
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(part);
        }
        let count = u32::try_from(self.chunks.len()).expect("a transaction has few chunks");
        bytes.extend_from_slice(&count.to_le_bytes());
        for chunk in &self.chunks {
            bytes.extend_from_slice(chunk);
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Applied, Malformed> {
        let mut rest = bytes;
        let mut part = || -> Option<&[u8]> {
            let length = usize::try_from(u32::from_le_bytes(take(&mut rest)?)).ok()?;
            let (head, tail) = rest.split_at_checked(length)?;
            rest = tail;
            Some(head)
        };
        let entry = Entry::decode(part().ok_or(CUT)?)?;
        let outcome = Outcome::decode(part().ok_or(CUT)?)?;
        let count = u32::from_le_bytes(take(&mut rest).ok_or(CUT)?);
        let mut chunks = Vec::new();
        for _ in 0..count {
            chunks.push(take::<32>(&mut rest).ok_or(CUT)?);
        }
        if !rest.is_empty() {
            return Err(Malformed::Trailing { bytes: rest.len() });
        }
        Ok(Applied { entry, outcome, chunks })
    }
}

/// The table change of an operation, if it has one.
pub(crate) fn tables_body(operation: &Operation) -> Option<&Body> {
    match operation {
        Operation::Commit { body, .. }
        | Operation::Promote { tables: TablesChange::Body(body), .. } => Some(body),
        _ => None,
    }
}

/// The summary of an operation that changes tables.
pub(crate) fn summary_of(operation: &Operation) -> Option<Summary> {
    match operation {
        Operation::Commit { summary, .. } | Operation::Promote { summary, .. } => {
            Summary::decode(summary)
        }
        _ => None,
    }
}

/// The operation with another table change in place of its own.
pub(crate) fn with_body(operation: &Operation, bytes: Vec<u8>) -> Operation {
    let mut operation = operation.clone();
    match &mut operation {
        Operation::Commit { body, .. }
        | Operation::Promote { tables: TablesChange::Body(body), .. } => {
            *body = Body::Inline(bytes);
        }
        _ => {}
    }
    operation
}

/// BLAKE3 of bytes.
pub(crate) fn digest(bytes: &[u8]) -> Digest {
    Digest(*blake3::hash(bytes).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_round_trips_and_refuses_damage() {
        let summary = Summary {
            tables: vec![("flights".into(), 1, 2, 3), ("é".into(), 0, 0, u64::MAX)],
            schema: vec!["CREATE TABLE t(a)".into()],
            cut: false,
        };
        let bytes = summary.encode();
        assert_eq!(Summary::decode(&bytes), Some(summary));
        for end in 0..bytes.len() {
            assert_eq!(Summary::decode(&bytes[..end]), None, "cut at {end}");
        }
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(Summary::decode(&longer), None);
    }

    #[test]
    fn summary_is_cut_not_refused_when_it_would_not_fit() {
        let summary = Summary {
            tables: (0..20_000).map(|n| (format!("table_{n}"), 1, 0, 0)).collect(),
            ..Summary::default()
        };
        let bytes = summary.encode();
        assert!(bytes.len() <= limits::SUMMARY_BYTES);
        let decoded = Summary::decode(&bytes).expect("a cut summary is well formed");
        assert!(decoded.cut);
        assert!(decoded.changed().any(|table| table.is_empty()));
    }
}
