//! A journal record: header, content, zero padding to a multiple of 8.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic `ANBR` |
//! | 4 | 1 | version |
//! | 5 | 1 | kind: 1 payload, 2 entry, 3 part, 4 confirm, 5 seal |
//! | 6 | 2 | zero |
//! | 8 | 8 | flush it was written in |
//! | 16 | 8 | ordinal, dense over the space from 1 |
//! | 24 | 4 | place in its flush, from 0 |
//! | 28 | 4 | length of the content |
//! | 32 | 4 | CRC-32C of the content |
//! | 36 | 4 | CRC-32C of bytes 0..36 |
//! | 40 | length | content |
//!
//! Content: payload = session u64, seq u64, attempt u32, zero u32, digest 32, bytes; entry = index
//! u64, term u64, kind u8, zero 7, data; part = term u64, transaction u64, part u32, zero u32,
//! bytes; confirm and seal = nothing. A seal is the last record of a segment: the journal goes on
//! in the next one.

use super::fields::{Build, Fields};
use super::{Fault, NUMBER_END, VERSION_WRITTEN, accepts, crc32c, is_zero, padded};
use crate::journal::JournalRecord;
use crate::{Digest, SessionId, WriteId};

pub(crate) const HEADER_BYTES: u32 = 40;
pub(crate) const HEADER: usize = HEADER_BYTES as usize;
/// The longest prefix before the bytes of the caller.
pub(crate) const PREFIX_MAX: usize = 56;

const MAGIC: [u8; 4] = *b"ANBR";
const _: () = assert!(HEADER.is_multiple_of(8));

/// What a record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Payload,
    Entry,
    Part,
    Confirm,
    Seal,
}

impl Kind {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Payload => 1,
            Self::Entry => 2,
            Self::Part => 3,
            Self::Confirm => 4,
            Self::Seal => 5,
        }
    }

    pub(crate) fn of(code: u8) -> Option<Self> {
        [Self::Payload, Self::Entry, Self::Part, Self::Confirm, Self::Seal]
            .into_iter()
            .find(|kind| kind.code() == code)
    }

    /// Holds nothing: the record can be built again from its identifier.
    pub(crate) fn is_empty(self) -> bool {
        matches!(self, Self::Confirm | Self::Seal)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Payload => "payload",
            Self::Entry => "entry",
            Self::Part => "part",
            Self::Confirm => "confirm",
            Self::Seal => "seal",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) flush: u64,
    pub(crate) ordinal: u64,
    pub(crate) place: u32,
    pub(crate) length: u32,
    pub(crate) crc: u32,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        Build::new()
            .put(&MAGIC)
            .u8(VERSION_WRITTEN)
            .u8(self.kind.code())
            .zeros(2)
            .u64(self.flush)
            .u64(self.ordinal)
            .u32(self.place)
            .u32(self.length)
            .u32(self.crc)
            .seal()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let bytes = bytes.get(..HEADER).ok_or(Fault::Bad("cut short"))?;
        if is_zero(bytes) {
            return Err(Fault::Absent);
        }
        let (body, crc) = bytes.split_last_chunk::<4>().ok_or(Fault::Bad("cut short"))?;
        let mut fields = Fields(body);
        if fields.array() != Some(MAGIC) {
            return Err(Fault::Bad("magic does not match"));
        }
        if crc32c(body) != u32::from_le_bytes(*crc) {
            return Err(Fault::Bad("header checksum does not match"));
        }
        let version = fields.u8().unwrap_or_default();
        if !accepts(version) {
            return Err(Fault::Version(version));
        }
        let mut rest = || {
            let kind = Kind::of(fields.u8()?)?;
            fields.zeros::<2>()?;
            let header = Self {
                kind,
                flush: fields.u64()?,
                ordinal: fields.u64()?,
                place: fields.u32()?,
                length: fields.u32()?,
                crc: fields.u32()?,
            };
            fields.end()?;
            let bounded = header.ordinal.max(header.flush) < NUMBER_END;
            (bounded && header.ordinal > u64::from(header.place)).then_some(header)
        };
        rest().ok_or(Fault::Bad("fields out of bounds"))
    }

    /// Bytes on disk: header, content, padding.
    pub(crate) fn size(&self) -> u64 {
        size(u64::from(self.length))
    }
}

/// Bytes on disk of a record with so much content.
pub(crate) fn size(length: u64) -> u64 {
    padded(HEADER as u64 + length)
}

/// What is known of a record without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Summary {
    Payload { id: WriteId, digest: Digest },
    Entry { index: u64, term: u64, kind: u8 },
    Part { term: u64, transaction: u64, part: u32 },
    Confirm,
    Seal,
}

impl Summary {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Payload { .. } => Kind::Payload,
            Self::Entry { .. } => Kind::Entry,
            Self::Part { .. } => Kind::Part,
            Self::Confirm => Kind::Confirm,
            Self::Seal => Kind::Seal,
        }
    }

    /// For the identifier.
    pub(crate) fn who(&self) -> [u64; 2] {
        match self {
            Self::Payload { id, .. } => [id.session.0, id.seq],
            Self::Entry { index, term, .. } => [*index, *term],
            Self::Part { term, transaction, .. } => [*transaction, *term],
            Self::Confirm | Self::Seal => [0, 0],
        }
    }

    /// Reads the fixed prefix of a content; the rest are the caller's bytes.
    pub(crate) fn decode(kind: Kind, content: &[u8]) -> Option<(Self, &[u8])> {
        let mut fields = Fields(content);
        let summary = match kind {
            Kind::Payload => {
                let session = SessionId(fields.u64()?);
                let id = WriteId { session, seq: fields.u64()?, attempt: fields.u32()? };
                fields.zeros::<4>()?;
                Self::Payload { id, digest: Digest(fields.array()?) }
            }
            Kind::Entry => {
                let (index, term, kind) = (fields.u64()?, fields.u64()?, fields.u8()?);
                fields.zeros::<7>()?;
                Self::Entry { index, term, kind }
            }
            Kind::Part => {
                let (term, transaction, part) = (fields.u64()?, fields.u64()?, fields.u32()?);
                fields.zeros::<4>()?;
                Self::Part { term, transaction, part }
            }
            Kind::Confirm => Self::Confirm,
            Kind::Seal => Self::Seal,
        };
        if kind.is_empty() {
            fields.end()?;
        }
        Some((summary, fields.0))
    }
}

/// The fixed fields before the caller's bytes.
pub(crate) struct Prefix {
    bytes: [u8; PREFIX_MAX],
    length: usize,
}

impl Prefix {
    fn new() -> Self {
        Self { bytes: [0; PREFIX_MAX], length: 0 }
    }

    fn put(mut self, field: &[u8]) -> Self {
        let end = self.length + field.len();
        self.bytes[self.length..end].copy_from_slice(field);
        self.length = end;
        self
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Prefix and bytes of a record's content.
pub(crate) fn content(record: &JournalRecord) -> (Summary, Prefix, &[u8]) {
    let prefix = Prefix::new();
    match record {
        JournalRecord::Payload { id, digest, bytes } => {
            let prefix = prefix
                .put(&id.session.0.to_le_bytes())
                .put(&id.seq.to_le_bytes())
                .put(&id.attempt.to_le_bytes())
                .put(&[0; 4])
                .put(&digest.0);
            (Summary::Payload { id: *id, digest: *digest }, prefix, bytes)
        }
        JournalRecord::Entry { index, term, kind, data } => {
            let prefix = prefix
                .put(&index.to_le_bytes())
                .put(&term.to_le_bytes())
                .put(&[*kind, 0, 0, 0, 0, 0, 0, 0]);
            (Summary::Entry { index: *index, term: *term, kind: *kind }, prefix, data)
        }
        JournalRecord::Part { term, transaction, part, bytes } => {
            let prefix = prefix
                .put(&term.to_le_bytes())
                .put(&transaction.to_le_bytes())
                .put(&part.to_le_bytes())
                .put(&[0; 4]);
            let (term, transaction, part) = (*term, *transaction, *part);
            (Summary::Part { term, transaction, part }, prefix, bytes)
        }
        JournalRecord::Confirm => (Summary::Confirm, prefix, &[]),
    }
}

/// A record with its header, verified; `bytes` may go on after it.
pub(crate) fn decode(bytes: &[u8]) -> Result<(Header, Summary, &[u8]), Fault> {
    let header = Header::decode(bytes)?;
    let content = usize::try_from(header.length)
        .ok()
        .and_then(|length| bytes.get(HEADER..HEADER.checked_add(length)?))
        .ok_or(Fault::Bad("content reaches beyond its bounds"))?;
    if crc32c(content) != header.crc {
        return Err(Fault::Bad("content checksum does not match"));
    }
    let (summary, rest) =
        Summary::decode(header.kind, content).ok_or(Fault::Bad("content fields out of bounds"))?;
    Ok((header, summary, rest))
}

/// The caller's record; `None` for a seal.
pub(crate) fn assemble(summary: Summary, bytes: &[u8]) -> Option<JournalRecord> {
    Some(match summary {
        Summary::Payload { id, digest } => {
            JournalRecord::Payload { id, digest, bytes: bytes.to_vec() }
        }
        Summary::Entry { index, term, kind } => {
            JournalRecord::Entry { index, term, kind, data: bytes.to_vec() }
        }
        Summary::Part { term, transaction, part } => {
            JournalRecord::Part { term, transaction, part, bytes: bytes.to_vec() }
        }
        Summary::Confirm => JournalRecord::Confirm,
        Summary::Seal => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::check;

    pub(crate) fn samples() -> Vec<JournalRecord> {
        let id = WriteId { session: SessionId(3), seq: 9, attempt: 1 };
        vec![
            JournalRecord::Payload { id, digest: Digest([7; 32]), bytes: b"hello".to_vec() },
            JournalRecord::Entry { index: 4, term: 2, kind: 1, data: b"ids".to_vec() },
            JournalRecord::Part { term: 2, transaction: 8, part: 0, bytes: vec![1; 40] },
            JournalRecord::Confirm,
        ]
    }

    fn encode(record: &JournalRecord) -> Vec<u8> {
        let (summary, prefix, bytes) = content(record);
        let content = [prefix.as_slice(), bytes].concat();
        let header = Header {
            kind: summary.kind(),
            flush: 2,
            ordinal: 11,
            place: 1,
            length: u32::try_from(content.len()).unwrap(),
            crc: crc32c(&content),
        };
        [&header.encode()[..], &content].concat()
    }

    #[test]
    fn golden() {
        check::golden(
            &encode(&samples()[0]),
            "414e42520101000002000000000000000b00000000000000010000003d000000",
        );
        check::golden(
            &encode(&samples()[0])[40..],
            "030000000000000009000000000000000100000000000000\
             0707070707070707070707070707070707070707070707070707070707070707\
             68656c6c6f",
        );
        check::golden(
            &encode(&samples()[1])[40..],
            "040000000000000002000000000000000100000000000000696473",
        );
        check::golden(
            &encode(&samples()[2])[40..],
            "020000000000000008000000000000000000000000000000010101",
        );
    }

    #[test]
    fn round_trip_and_damage() {
        for record in samples() {
            let bytes = encode(&record);
            let (header, summary, rest) = decode(&bytes).unwrap();
            assert_eq!(header.size() % 8, 0);
            assert_eq!(assemble(summary, rest), Some(record));
            check::every_flip_and_cut(&bytes, |bytes| decode(bytes).ok().map(|_| ()));
        }
    }
}
