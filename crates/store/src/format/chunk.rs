//! A chunk in a pack: header, content, zero padding to a multiple of 8.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic `ANBK` |
//! | 4 | 1 | version |
//! | 5 | 3 | zero |
//! | 8 | 4 | length of the content, 1 byte to 8 MiB |
//! | 12 | 32 | BLAKE3 of the content: its name and its checksum |
//! | 44 | 4 | CRC-32C of bytes 0..44 |
//! | 48 | length | content |

use super::fields::{Build, Fields};
use super::{Fault, VERSION_WRITTEN, accepts, crc32c, is_zero, padded};

pub(crate) const HEADER: usize = 48;
/// Longest content.
pub(crate) const CONTENT_MAX: u32 = 8 << 20;

const MAGIC: [u8; 4] = *b"ANBK";
const _: () = assert!(HEADER.is_multiple_of(8));

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) length: u32,
    pub(crate) hash: [u8; 32],
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        Build::new()
            .put(&MAGIC)
            .u8(VERSION_WRITTEN)
            .zeros(3)
            .u32(self.length)
            .put(&self.hash)
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
            fields.zeros::<3>()?;
            let header = Self { length: fields.u32()?, hash: fields.array()? };
            fields.end()?;
            (1..=CONTENT_MAX).contains(&header.length).then_some(header)
        };
        rest().ok_or(Fault::Bad("fields out of bounds"))
    }

    /// Bytes on disk: header, content, padding.
    pub(crate) fn size(&self) -> u64 {
        size(self.length)
    }
}

/// Bytes on disk of a chunk with so much content.
pub(crate) fn size(length: u32) -> u64 {
    padded(HEADER as u64 + u64::from(length))
}

/// The name of a content.
pub(crate) fn hash(content: &[u8]) -> [u8; 32] {
    *blake3::hash(content).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::check;

    #[test]
    fn golden() {
        let header = Header { length: 5, hash: [9; 32] };
        check::golden(&header.encode(), "414e424b010000000500000009090909090909090909090909090909");
    }

    #[test]
    fn round_trip_and_damage() {
        let header = Header { length: CONTENT_MAX, hash: hash(b"x") };
        assert_eq!(Header::decode(&header.encode()), Ok(header));
        check::every_flip_and_cut(&header.encode(), |bytes| Header::decode(bytes).ok());
        for length in [0, CONTENT_MAX + 1] {
            assert!(Header::decode(&Header { length, hash: [1; 32] }.encode()).is_err());
        }
    }
}
