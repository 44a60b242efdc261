//! What an entry orders, and its bytes.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | format, 1 |
//! | 4 | count, little endian, 1 to [`MAX_BATCH`] |
//! | 52 each | session 8, seq 8, attempt 4 (little endian), digest 32 |
//!
//! A [`Noop`](EntryKind::Noop) has no bytes at all. Decoding is total: any input is either the
//! one encoding of an order or a [`MalformedOrder`]. The record that holds an entry carries the
//! checksum; here is none.

use std::fmt;

use anabranch_log::{Digest, SessionId, WriteId};

use crate::entry::EntryKind;

/// Most records one entry orders. More would make a follower wait longer for one missing payload
/// than it saves in entries: 1024 records are 52 KiB.
pub const MAX_BATCH: usize = 1024;

const FORMAT: u8 = 1;
const HEADER_BYTES: usize = 1 + 4;
const RECORD_BYTES: usize = 8 + 8 + 4 + 32;

/// Most bytes of one entry's data.
pub const MAX_ENTRY_BYTES: usize = HEADER_BYTES + MAX_BATCH * RECORD_BYTES;

const _: () = assert!(MAX_BATCH <= u32::MAX as usize, "the count is stored in 32 bits");

/// What applying one entry means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Nothing: the first entry of a leader's term.
    Noop,
    /// These unordered records come next, in this order. The payloads are durable here.
    /// Never empty. A record may have been ordered by an earlier entry already: the session table
    /// recognises it.
    Records(Vec<(WriteId, Digest)>),
}

/// Why bytes are not an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MalformedOrder {
    /// A no-op entry has data.
    NoopWithData,
    /// Fewer bytes than a header.
    Short,
    /// A format this version does not know.
    Format(u8),
    /// The count is 0 or beyond [`MAX_BATCH`].
    Count(u32),
    /// The length does not follow from the count.
    Length,
}

impl fmt::Display for MalformedOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MalformedOrder::NoopWithData => f.write_str("a no-op entry has data"),
            MalformedOrder::Short => f.write_str("shorter than its header"),
            MalformedOrder::Format(format) => write!(f, "unknown format {format}"),
            MalformedOrder::Count(count) => write!(f, "count {count} is not in 1 to {MAX_BATCH}"),
            MalformedOrder::Length => f.write_str("length does not match the count"),
        }
    }
}

impl std::error::Error for MalformedOrder {}

impl Order {
    /// The kind of the entry that holds this order.
    #[must_use]
    pub fn kind(&self) -> EntryKind {
        match self {
            Order::Noop => EntryKind::Noop,
            Order::Records(_) => EntryKind::Records,
        }
    }

    /// The entry data. Panics if there are no records or more than [`MAX_BATCH`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Order::Records(records) = self else { return Vec::new() };
        assert!(!records.is_empty(), "an order names at least one record");
        assert!(records.len() <= MAX_BATCH, "an order names at most {MAX_BATCH} records");
        let count = u32::try_from(records.len()).expect("MAX_BATCH fits 32 bits");
        let mut bytes = Vec::with_capacity(HEADER_BYTES + records.len() * RECORD_BYTES);
        bytes.push(FORMAT);
        bytes.extend_from_slice(&count.to_le_bytes());
        for (id, digest) in records {
            bytes.extend_from_slice(&id.session.0.to_le_bytes());
            bytes.extend_from_slice(&id.seq.to_le_bytes());
            bytes.extend_from_slice(&id.attempt.to_le_bytes());
            bytes.extend_from_slice(&digest.0);
        }
        bytes
    }

    /// The order in an entry's data.
    pub fn decode(kind: EntryKind, data: &[u8]) -> Result<Order, MalformedOrder> {
        match kind {
            EntryKind::Noop if data.is_empty() => Ok(Order::Noop),
            EntryKind::Noop => Err(MalformedOrder::NoopWithData),
            EntryKind::Records => decode_records(data).map(Order::Records),
        }
    }
}

fn decode_records(data: &[u8]) -> Result<Vec<(WriteId, Digest)>, MalformedOrder> {
    let (&format, rest) = data.split_first().ok_or(MalformedOrder::Short)?;
    if format != FORMAT {
        return Err(MalformedOrder::Format(format));
    }
    let (count, rest) = rest.split_first_chunk::<4>().ok_or(MalformedOrder::Short)?;
    let count = u32::from_le_bytes(*count);
    let records = usize::try_from(count).ok().filter(|count| (1..=MAX_BATCH).contains(count));
    let records = records.ok_or(MalformedOrder::Count(count))?;
    if rest.len() != records * RECORD_BYTES {
        return Err(MalformedOrder::Length);
    }
    rest.chunks_exact(RECORD_BYTES)
        .map(|record| decode_record(record).ok_or(MalformedOrder::Length))
        .collect()
}

fn decode_record(record: &[u8]) -> Option<(WriteId, Digest)> {
    let (session, rest) = record.split_first_chunk::<8>()?;
    let (seq, rest) = rest.split_first_chunk::<8>()?;
    let (attempt, rest) = rest.split_first_chunk::<4>()?;
    let (digest, _) = rest.split_first_chunk::<32>()?;
    let id = WriteId {
        session: SessionId(u64::from_le_bytes(*session)),
        seq: u64::from_le_bytes(*seq),
        attempt: u32::from_le_bytes(*attempt),
    };
    Some((id, Digest(*digest)))
}
