//! The bytes of an [`Entry`].
//!
//! | field | bytes |
//! |---|---|
//! | type, version | `E`, 1 |
//! | session, seq, attempt, answered | 8, 8, 4, 8 |
//! | actor, intent | 4 + n each, UTF-8 |
//! | `time_ms` | 8 |
//! | operation | tag 1, then its fields in the order of declaration |
//!
//! Tags of operations are those of `write_operation`; they are never given another meaning.

use super::{Malformed, Reader, Wire, decode, encode, write_bytes, write_count};
use crate::{
    Body, Entry, Field, ForkKind, Key, Operation, Overwrite, Purpose, StreamName, TablesChange,
    WriteId, limits,
};

const HEADER: [u8; 2] = [b'E', 1];

impl Entry {
    /// The entry's bytes. It must pass [`Entry::validate`], or the bytes may not be readable.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(HEADER, self, |entry, out| {
            entry.id.write(out);
            entry.answered.write(out);
            write_bytes(entry.actor.as_bytes(), out);
            write_bytes(entry.intent.as_bytes(), out);
            entry.time_ms.write(out);
            write_operation(&entry.operation, out);
        })
    }

    /// Reads what [`Entry::encode`] wrote. Sizes and alphabets are within their limits then; the
    /// sequence numbers are for [`Entry::validate`] to check.
    pub fn decode(bytes: &[u8]) -> Result<Entry, Malformed> {
        decode(HEADER, bytes, |from| {
            Ok(Entry {
                id: WriteId::read(from)?,
                answered: u64::read(from)?,
                actor: from.text(Field::Actor, limits::ACTOR_BYTES)?.into(),
                intent: from.text(Field::Intent, limits::INTENT_BYTES)?.into(),
                time_ms: u64::read(from)?,
                operation: read_operation(from)?,
            })
        })
    }
}

impl Wire for WriteId {
    fn write(&self, out: &mut Vec<u8>) {
        self.session.write(out);
        self.seq.write(out);
        self.attempt.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<WriteId, Malformed> {
        let (session, seq) = (Wire::read(from)?, Wire::read(from)?);
        Ok(WriteId { session, seq, attempt: Wire::read(from)? })
    }
}

impl Wire for ForkKind {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(match self {
            ForkKind::Live => 0,
            ForkKind::Frozen => 1,
        });
    }

    fn read(from: &mut Reader<'_>) -> Result<ForkKind, Malformed> {
        match from.tag()? {
            0 => Ok(ForkKind::Live),
            1 => Ok(ForkKind::Frozen),
            tag => from.unknown("fork kind", tag),
        }
    }
}

impl Wire for Purpose {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Purpose::Promote { into } => {
                out.push(0);
                into.write(out);
            }
            Purpose::Discard => out.push(1),
            Purpose::Expire { last_used } => {
                out.push(2);
                last_used.write(out);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Purpose, Malformed> {
        match from.tag()? {
            0 => Ok(Purpose::Promote { into: Wire::read(from)? }),
            1 => Ok(Purpose::Discard),
            2 => Ok(Purpose::Expire { last_used: Wire::read(from)? }),
            tag => from.unknown("purpose", tag),
        }
    }
}

impl Wire for Body {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Body::Inline(bytes) => {
                out.push(0);
                write_bytes(bytes, out);
            }
            Body::Parts { transaction, parts, bytes, digest } => {
                out.push(1);
                transaction.write(out);
                parts.write(out);
                bytes.write(out);
                digest.write(out);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Body, Malformed> {
        match from.tag()? {
            0 => Ok(Body::Inline(from.bytes(Field::Body, limits::INLINE_BODY_BYTES)?.into())),
            1 => {
                let (transaction, parts) = (Wire::read(from)?, Wire::read(from)?);
                let (bytes, digest) = (Wire::read(from)?, Wire::read(from)?);
                Ok(Body::Parts { transaction, parts, bytes, digest })
            }
            tag => from.unknown("table change body", tag),
        }
    }
}

impl Wire for TablesChange {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            TablesChange::None => out.push(0),
            TablesChange::TakeFork => out.push(1),
            TablesChange::Body(body) => {
                out.push(2);
                body.write(out);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<TablesChange, Malformed> {
        match from.tag()? {
            0 => Ok(TablesChange::None),
            1 => Ok(TablesChange::TakeFork),
            2 => Ok(TablesChange::Body(Body::read(from)?)),
            tag => from.unknown("tables change", tag),
        }
    }
}

/// Bytes of the shortest stream name or key with its length.
const NAME_BYTES_MIN: usize = 5;

fn write_operation(operation: &Operation, out: &mut Vec<u8>) {
    match operation {
        Operation::Append { branch, stream, expected, records } => {
            out.push(0);
            branch.write(out);
            stream.write(out);
            expected.write(out);
            write_count(records.len(), out);
            for record in records {
                write_bytes(record, out);
            }
        }
        Operation::Put { branch, stream, key, value } => {
            write_key(1, (branch, stream, key), out);
            write_bytes(value, out);
        }
        Operation::Delete { branch, stream, key } => write_key(2, (branch, stream, key), out),
        Operation::Cas { branch, stream, key, expected, value } => {
            write_key(3, (branch, stream, key), out);
            expected.write(out);
            match value {
                None => out.push(0),
                Some(value) => {
                    out.push(1);
                    write_bytes(value, out);
                }
            }
        }
        Operation::Incr { branch, stream, key, delta } => {
            write_key(4, (branch, stream, key), out);
            delta.write(out);
        }
        Operation::Fork { parent, name, kind, at, owner, ttl_ms } => {
            out.push(5);
            parent.write(out);
            name.write(out);
            kind.write(out);
            at.write(out);
            write_bytes(owner.as_bytes(), out);
            ttl_ms.write(out);
        }
        _ => write_rare(operation, out),
    }
}

/// The operations that end branches, change tables or concern the space.
fn write_rare(operation: &Operation, out: &mut Vec<u8>) {
    match operation {
        Operation::Closing { branch, purpose } => {
            out.push(6);
            branch.write(out);
            purpose.write(out);
        }
        Operation::Promote { .. } => write_promote(operation, out),
        Operation::Discard { branch, closing } => {
            out.push(8);
            branch.write(out);
            closing.write(out);
        }
        Operation::Reopen { branch, closing } => {
            out.push(9);
            branch.write(out);
            closing.write(out);
        }
        Operation::Commit { branch, base, parent, body, summary } => {
            out.push(10);
            branch.write(out);
            base.write(out);
            parent.write(out);
            body.write(out);
            write_bytes(summary, out);
        }
        Operation::AddCheck { branch, name, sql } => {
            out.push(11);
            branch.write(out);
            write_bytes(name.as_bytes(), out);
            write_bytes(sql.as_bytes(), out);
        }
        Operation::DropCheck { branch, name } => {
            out.push(12);
            branch.write(out);
            write_bytes(name.as_bytes(), out);
        }
        Operation::OpenSession { owner } => {
            out.push(13);
            write_bytes(owner.as_bytes(), out);
        }
        Operation::CloseSession { session } => {
            out.push(14);
            session.write(out);
        }
        Operation::Checkpoint => out.push(15),
        Operation::Append { .. }
        | Operation::Put { .. }
        | Operation::Delete { .. }
        | Operation::Cas { .. }
        | Operation::Incr { .. }
        | Operation::Fork { .. } => unreachable!("written by the caller"),
    }
}

fn write_key(
    tag: u8,
    (branch, stream, key): (&crate::BranchId, &StreamName, &Key),
    out: &mut Vec<u8>,
) {
    out.push(tag);
    branch.write(out);
    stream.write(out);
    key.write(out);
}

fn write_promote(operation: &Operation, out: &mut Vec<u8>) {
    let Operation::Promote {
        branch,
        closing,
        into,
        target_tables,
        tables,
        leave_out,
        overwrite,
        summary,
    } = operation
    else {
        unreachable!("the caller hands over promotions only")
    };
    out.push(7);
    branch.write(out);
    closing.write(out);
    into.write(out);
    target_tables.write(out);
    tables.write(out);
    write_count(leave_out.len(), out);
    for (stream, key) in leave_out {
        stream.write(out);
        key.write(out);
    }
    write_count(overwrite.len(), out);
    for Overwrite { stream, key, theirs } in overwrite {
        stream.write(out);
        key.write(out);
        theirs.write(out);
    }
    write_bytes(summary, out);
}

fn read_operation(from: &mut Reader<'_>) -> Result<Operation, Malformed> {
    let tag = from.tag()?;
    Ok(match tag {
        0 => Operation::Append {
            branch: Wire::read(from)?,
            stream: Wire::read(from)?,
            expected: Wire::read(from)?,
            records: read_records(from)?,
        },
        1 => Operation::Put {
            branch: Wire::read(from)?,
            stream: Wire::read(from)?,
            key: Wire::read(from)?,
            value: read_value(from)?,
        },
        2 => Operation::Delete {
            branch: Wire::read(from)?,
            stream: Wire::read(from)?,
            key: Wire::read(from)?,
        },
        3 => Operation::Cas {
            branch: Wire::read(from)?,
            stream: Wire::read(from)?,
            key: Wire::read(from)?,
            expected: Wire::read(from)?,
            value: match from.tag()? {
                0 => None,
                1 => Some(read_value(from)?),
                tag => return from.unknown("option", tag),
            },
        },
        4 => Operation::Incr {
            branch: Wire::read(from)?,
            stream: Wire::read(from)?,
            key: Wire::read(from)?,
            delta: Wire::read(from)?,
        },
        5 => Operation::Fork {
            parent: Wire::read(from)?,
            name: Wire::read(from)?,
            kind: Wire::read(from)?,
            at: Wire::read(from)?,
            owner: from.text(Field::Owner, limits::ACTOR_BYTES)?.into(),
            ttl_ms: Wire::read(from)?,
        },
        _ => return read_rare(tag, from),
    })
}

fn read_rare(tag: u8, from: &mut Reader<'_>) -> Result<Operation, Malformed> {
    Ok(match tag {
        6 => Operation::Closing { branch: Wire::read(from)?, purpose: Wire::read(from)? },
        7 => Operation::Promote {
            branch: Wire::read(from)?,
            closing: Wire::read(from)?,
            into: Wire::read(from)?,
            target_tables: Wire::read(from)?,
            tables: Wire::read(from)?,
            leave_out: read_leave_out(from)?,
            overwrite: read_overwrite(from)?,
            summary: read_summary(from)?,
        },
        8 => Operation::Discard { branch: Wire::read(from)?, closing: Wire::read(from)? },
        9 => Operation::Reopen { branch: Wire::read(from)?, closing: Wire::read(from)? },
        10 => Operation::Commit {
            branch: Wire::read(from)?,
            base: Wire::read(from)?,
            parent: Wire::read(from)?,
            body: Wire::read(from)?,
            summary: read_summary(from)?,
        },
        11 => Operation::AddCheck {
            branch: Wire::read(from)?,
            name: from.check_name()?.into(),
            sql: from.text(Field::CheckSql, limits::CHECK_SQL_BYTES)?.into(),
        },
        12 => Operation::DropCheck { branch: Wire::read(from)?, name: from.check_name()?.into() },
        13 => {
            Operation::OpenSession { owner: from.text(Field::Owner, limits::ACTOR_BYTES)?.into() }
        }
        14 => Operation::CloseSession { session: Wire::read(from)? },
        15 => Operation::Checkpoint,
        _ => return from.unknown("operation", tag),
    })
}

fn read_value(from: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    Ok(from.bytes(Field::Value, limits::RECORD_BYTES)?.into())
}

fn read_summary(from: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    Ok(from.bytes(Field::Summary, limits::SUMMARY_BYTES)?.into())
}

fn read_records(from: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, Malformed> {
    let count = from.count(Field::Batch, limits::BATCH_RECORDS, 4)?;
    let mut records = Vec::with_capacity(count);
    let mut size = 0;
    for _ in 0..count {
        let record = from.bytes(Field::Record, limits::RECORD_BYTES)?;
        size += record.len();
        if size > limits::BATCH_BYTES {
            let (field, size) = (Field::BatchBytes, size as u64);
            return Err(Malformed::TooLong { field, size, at: from.at() });
        }
        records.push(record.into());
    }
    Ok(records)
}

fn read_leave_out(from: &mut Reader<'_>) -> Result<Vec<(StreamName, Key)>, Malformed> {
    let count = from.count(Field::LeaveOut, limits::SETTLED_KEYS, 2 * NAME_BYTES_MIN)?;
    (0..count).map(|_| Ok((Wire::read(from)?, Wire::read(from)?))).collect()
}

fn read_overwrite(from: &mut Reader<'_>) -> Result<Vec<Overwrite>, Malformed> {
    let count = from.count(Field::Overwrite, limits::SETTLED_KEYS, 2 * NAME_BYTES_MIN + 1)?;
    let one = |_| {
        let (stream, key) = (Wire::read(from)?, Wire::read(from)?);
        Ok(Overwrite { stream, key, theirs: Wire::read(from)? })
    };
    (0..count).map(one).collect()
}
