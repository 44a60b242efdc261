//! A history frame: header, body, zero padding to a multiple of 8.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic `ANBF` |
//! | 4 | 1 | version |
//! | 5 | 3 | zero |
//! | 8 | 4 | length of the body |
//! | 12 | 4 | CRC-32C of the body |
//! | 16 | 8 | first index |
//! | 24 | 8 | indexes taken (0: none) |
//! | 32 | 8 | Raft index |
//! | 40 | 32 | digest of the payload |
//! | 72 | 32 | hash chain after it |
//! | 104 | 4 | zero |
//! | 108 | 4 | CRC-32C of bytes 0..108 |
//! | 112 | length | body |

use super::fields::{Build, Fields};
use super::{Fault, NUMBER_END, VERSION_WRITTEN, accepts, crc32c, is_zero, padded};

pub(crate) const HEADER: usize = 112;

const MAGIC: [u8; 4] = *b"ANBF";
const _: () = assert!(HEADER.is_multiple_of(8));

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) length: u32,
    pub(crate) crc: u32,
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) raft_index: u64,
    pub(crate) digest: [u8; 32],
    pub(crate) chain: [u8; 32],
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        Build::new()
            .put(&MAGIC)
            .u8(VERSION_WRITTEN)
            .zeros(3)
            .u32(self.length)
            .u32(self.crc)
            .u64(self.first)
            .u64(self.count)
            .u64(self.raft_index)
            .put(&self.digest)
            .put(&self.chain)
            .zeros(4)
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
            let header = Self {
                length: fields.u32()?,
                crc: fields.u32()?,
                first: fields.u64()?,
                count: fields.u64()?,
                raft_index: fields.u64()?,
                digest: fields.array()?,
                chain: fields.array()?,
            };
            fields.zeros::<4>()?;
            fields.end()?;
            let bounded = header.first.max(header.count) < NUMBER_END;
            (bounded && header.first > 0).then_some(header)
        };
        rest().ok_or(Fault::Bad("fields out of bounds"))
    }

    /// Bytes on disk: header, body, padding.
    pub(crate) fn size(&self) -> u64 {
        size(u64::from(self.length))
    }

    /// The first index after it.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.count
    }
}

/// Bytes on disk of a frame with so long a body.
pub(crate) fn size(length: u64) -> u64 {
    padded(HEADER as u64 + length)
}

/// A frame, verified; `bytes` may go on after it.
pub(crate) fn decode(bytes: &[u8]) -> Result<(Header, &[u8]), Fault> {
    let header = Header::decode(bytes)?;
    let body = usize::try_from(header.length)
        .ok()
        .and_then(|length| bytes.get(HEADER..HEADER.checked_add(length)?))
        .ok_or(Fault::Bad("body reaches beyond its bounds"))?;
    if crc32c(body) == header.crc {
        Ok((header, body))
    } else {
        Err(Fault::Bad("body checksum does not match"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::check;

    fn sample() -> Vec<u8> {
        let header = Header {
            length: 4,
            crc: crc32c(b"body"),
            first: 10,
            count: 2,
            raft_index: 6,
            digest: [1; 32],
            chain: [2; 32],
        };
        [&header.encode()[..], b"body"].concat()
    }

    #[test]
    fn golden() {
        check::golden(&sample(), "414e42460100000004000000");
        check::golden(&sample()[16..], "0a00000000000000020000000000000006000000000000000101");
    }

    #[test]
    fn round_trip_and_damage() {
        let bytes = sample();
        let (header, body) = decode(&bytes).unwrap();
        assert_eq!((header.first, header.end(), body), (10, 12, &b"body"[..]));
        check::every_flip_and_cut(&bytes, |bytes| decode(bytes).ok().map(|_| ()));
    }
}
