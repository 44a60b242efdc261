//! The start of a journal segment, pack or history segment.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic: `ANBJ` journal, `ANBC` pack, `ANBH` history |
//! | 4 | 1 | version |
//! | 5 | 3 | zero |
//! | 8 | 4 | number of the file, as in its name |
//! | 12 | 4 | zero |
//! | 16 | 16 | space |
//! | 32 | 8 | journal: file size; else 0 |
//! | 40 | 8 | history: first index; else 0 |
//! | 48 | 8 | history: bytes in all earlier segments; else 0 |
//! | 56 | 32 | history: hash chain before the first frame; else 0 |
//! | 88 | 36 | zero |
//! | 124 | 4 | CRC-32C of bytes 0..124 |
//!
//! Two equal copies at bytes 0 and 2048 of a 4096-byte area; the rest of the area is zero. Written
//! once, before the file gets its name.

use super::fields::{Build, Fields};
use super::{Fault, NUMBER_END, VERSION_WRITTEN, accepts, crc32c, is_zero};

pub(crate) const SIZE: usize = 128;
pub(crate) const AREA: usize = 4096;
pub(crate) const COPIES: [usize; 2] = [0, 2048];

const _: () = assert!(COPIES[1] >= SIZE && COPIES[1] + SIZE <= AREA);

/// Which kind of file it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Journal,
    Pack,
    History,
}

impl Kind {
    fn magic(self) -> [u8; 4] {
        match self {
            Self::Journal => *b"ANBJ",
            Self::Pack => *b"ANBC",
            Self::History => *b"ANBH",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) kind: Kind,
    pub(crate) number: u32,
    pub(crate) space: [u8; 16],
    pub(crate) size: u64,
    pub(crate) first: u64,
    pub(crate) prior: u64,
    pub(crate) chain: [u8; 32],
}

impl Superblock {
    /// For a journal segment or pack.
    pub(crate) fn plain(kind: Kind, number: u32, space: [u8; 16], size: u64) -> Self {
        Self { kind, number, space, size, first: 0, prior: 0, chain: [0; 32] }
    }

    pub(crate) fn encode(&self) -> [u8; SIZE] {
        Build::new()
            .put(&self.kind.magic())
            .u8(VERSION_WRITTEN)
            .zeros(3)
            .u32(self.number)
            .zeros(4)
            .put(&self.space)
            .u64(self.size)
            .u64(self.first)
            .u64(self.prior)
            .put(&self.chain)
            .zeros(36)
            .seal()
    }

    /// The whole area: both copies and zeros.
    pub(crate) fn area(&self) -> Vec<u8> {
        let mut area = vec![0; AREA];
        for at in COPIES {
            area[at..at + SIZE].copy_from_slice(&self.encode());
        }
        area
    }

    pub(crate) fn decode(kind: Kind, bytes: &[u8]) -> Result<Self, Fault> {
        let bytes = bytes.get(..SIZE).ok_or(Fault::Bad("cut short"))?;
        if is_zero(bytes) {
            return Err(Fault::Absent);
        }
        let (body, crc) = bytes.split_last_chunk::<4>().ok_or(Fault::Bad("cut short"))?;
        if crc32c(body) != u32::from_le_bytes(*crc) {
            return Err(Fault::Bad("checksum does not match"));
        }
        let mut fields = Fields(body);
        let short = Fault::Bad("fields out of bounds");
        if fields.array() != Some(kind.magic()) {
            return Err(Fault::Bad("magic does not match"));
        }
        let version = fields.u8().ok_or(short)?;
        if !accepts(version) {
            return Err(Fault::Version(version));
        }
        let mut rest = || {
            fields.zeros::<3>()?;
            let number = fields.u32()?;
            fields.zeros::<4>()?;
            let superblock = Self {
                kind,
                number,
                space: fields.array()?,
                size: fields.u64()?,
                first: fields.u64()?,
                prior: fields.u64()?,
                chain: fields.array()?,
            };
            fields.zeros::<36>()?;
            fields.end()?;
            let Self { number, size, first, prior, .. } = superblock;
            let bounded =
                number > 0 && number < u32::MAX && size.max(first).max(prior) < NUMBER_END;
            bounded.then_some(superblock)
        };
        rest().ok_or(short)
    }
}

/// What the two copies of an area say.
pub(crate) struct Area {
    /// The superblock, if at least one copy is intact (and intact copies agree).
    pub(crate) superblock: Result<Superblock, Fault>,
    /// Offsets of damaged copies.
    pub(crate) bad: Vec<(usize, Fault)>,
}

/// Reads both copies of an area.
pub(crate) fn read_area(kind: Kind, area: &[u8]) -> Area {
    let copies = COPIES.map(|at| Superblock::decode(kind, area.get(at..).unwrap_or_default()));
    let bad = COPIES
        .iter()
        .zip(&copies)
        .filter_map(|(at, copy)| copy.as_ref().err().map(|fault| (*at, *fault)))
        .collect();
    let superblock = match copies {
        [Ok(first), Ok(second)] if first != second => Err(Fault::Bad("the copies differ")),
        [Ok(intact), _] | [_, Ok(intact)] => Ok(intact),
        [Err(version @ Fault::Version(_)), _] | [_, Err(version)] => Err(version),
    };
    Area { superblock, bad }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::check;

    fn sample() -> Superblock {
        Superblock {
            kind: Kind::History,
            number: 7,
            space: *b"0123456789abcdef",
            size: 0,
            first: 42,
            prior: 9000,
            chain: [3; 32],
        }
    }

    #[test]
    fn golden() {
        check::golden(
            &sample().encode(),
            "414e424801000000070000000000000030313233343536373839616263646566\
             00000000000000002a0000000000000028230000000000000303030303030303\
             0303030303030303030303030303030303030303030303030000000000000000\
             00000000000000000000000000000000000000000000000000000000",
        );
    }

    #[test]
    fn round_trip_and_damage() {
        let bytes = sample().encode();
        assert_eq!(Superblock::decode(Kind::History, &bytes), Ok(sample()));
        assert!(Superblock::decode(Kind::Journal, &bytes).is_err());
        check::every_flip_and_cut(&bytes, |bytes| Superblock::decode(Kind::History, bytes).ok());
    }

    #[test]
    fn one_copy_is_enough_and_two_must_agree() {
        let mut area = sample().area();
        area[2048 + 9] ^= 1;
        let read = read_area(Kind::History, &area);
        assert_eq!(read.superblock, Ok(sample()));
        assert_eq!(read.bad.len(), 1);
        area[9] ^= 1;
        assert!(read_area(Kind::History, &area).superblock.is_err());
        let mut other = sample();
        other.number += 1;
        let mut area = sample().area();
        area[2048..2048 + SIZE].copy_from_slice(&other.encode());
        assert!(read_area(Kind::History, &area).superblock.is_err());
    }
}
