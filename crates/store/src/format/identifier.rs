//! The identifier of a journal record: its second, remote witness.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic `ANBN` |
//! | 4 | 1 | version |
//! | 5 | 1 | kind, as in the record |
//! | 6 | 2 | zero |
//! | 8 | 8 | flush |
//! | 16 | 8 | ordinal |
//! | 24 | 4 | place in its flush, from 0 |
//! | 28 | 4 | records in that flush |
//! | 32 | 4 | offset of the record in the file |
//! | 36 | 4 | length of its content |
//! | 40 | 4 | CRC-32C of its content |
//! | 44 | 16 | who it was: payload (session, seq), entry (index, term), part (transaction, term) |
//! | 60 | 4 | CRC-32C of bytes 0..60 |
//!
//! Slot k of a segment's identifier area belongs to the k-th record of the segment. An identifier
//! never straddles a sector.

use super::fields::{Build, Fields};
use super::record::Kind;
use super::{Fault, NUMBER_END, VERSION_WRITTEN, accepts, crc32c, is_zero};

pub(crate) const BYTES: u32 = 64;
pub(crate) const SIZE: usize = BYTES as usize;

const MAGIC: [u8; 4] = *b"ANBN";
const _: () = assert!(512 % SIZE == 0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identifier {
    pub(crate) kind: Kind,
    pub(crate) flush: u64,
    pub(crate) ordinal: u64,
    pub(crate) place: u32,
    pub(crate) count: u32,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    pub(crate) crc: u32,
    pub(crate) who: [u64; 2],
}

impl Identifier {
    pub(crate) fn encode(&self) -> [u8; SIZE] {
        Build::new()
            .put(&MAGIC)
            .u8(VERSION_WRITTEN)
            .u8(self.kind.code())
            .zeros(2)
            .u64(self.flush)
            .u64(self.ordinal)
            .u32(self.place)
            .u32(self.count)
            .u32(self.offset)
            .u32(self.length)
            .u32(self.crc)
            .u64(self.who[0])
            .u64(self.who[1])
            .seal()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let bytes = bytes.get(..SIZE).ok_or(Fault::Bad("cut short"))?;
        if is_zero(bytes) {
            return Err(Fault::Absent);
        }
        let (body, crc) = bytes.split_last_chunk::<4>().ok_or(Fault::Bad("cut short"))?;
        if crc32c(body) != u32::from_le_bytes(*crc) {
            return Err(Fault::Bad("checksum does not match"));
        }
        let mut fields = Fields(body);
        if fields.array() != Some(MAGIC) {
            return Err(Fault::Bad("magic does not match"));
        }
        let version = fields.u8().unwrap_or_default();
        if !accepts(version) {
            return Err(Fault::Version(version));
        }
        let mut rest = || {
            let kind = Kind::of(fields.u8()?)?;
            fields.zeros::<2>()?;
            let identifier = Self {
                kind,
                flush: fields.u64()?,
                ordinal: fields.u64()?,
                place: fields.u32()?,
                count: fields.u32()?,
                offset: fields.u32()?,
                length: fields.u32()?,
                crc: fields.u32()?,
                who: [fields.u64()?, fields.u64()?],
            };
            fields.end()?;
            let plausible = identifier.place < identifier.count
                && identifier.ordinal > u64::from(identifier.place)
                && identifier.ordinal.max(identifier.flush) < NUMBER_END
                && (!identifier.kind.is_empty() || identifier.length == 0);
            plausible.then_some(identifier)
        };
        rest().ok_or(Fault::Bad("fields out of bounds"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::check;

    fn sample() -> Identifier {
        Identifier {
            kind: Kind::Entry,
            flush: 5,
            ordinal: 300,
            place: 2,
            count: 3,
            offset: 4096,
            length: 77,
            crc: 0xdead_beef,
            who: [17, 4],
        }
    }

    #[test]
    fn golden() {
        check::golden(
            &sample().encode(),
            "414e424e0102000005000000000000002c010000000000000200000003000000\
             001000004d000000efbeadde11000000000000000400000000000000",
        );
    }

    #[test]
    fn round_trip_and_damage() {
        assert_eq!(Identifier::decode(&sample().encode()), Ok(sample()));
        assert_eq!(Identifier::decode(&[0; SIZE]), Err(Fault::Absent));
        check::every_flip_and_cut(&sample().encode(), |bytes| Identifier::decode(bytes).ok());
    }
}
