//! The index of a sealed pack, so that opening need not read the pack. Derived: a damaged or
//! missing one is built again from the pack.
//!
//! Content of an envelope with magic `ANBX`:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | number of the pack |
//! | 4 | 4 | entries |
//! | 8 | 8 | length of the pack in bytes |
//! | 16 | 40 each | BLAKE3 32, offset of the chunk header u32, length of the content u32 |

use super::fields::{Fields, count32};
use super::{Fault, chunk, envelope};

const ENTRY: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) hash: [u8; 32],
    pub(crate) offset: u32,
    pub(crate) length: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackIndex {
    pub(crate) pack: u32,
    pub(crate) bytes: u64,
    pub(crate) entries: Vec<Entry>,
}

impl PackIndex {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut content = Vec::with_capacity(16 + ENTRY * self.entries.len());
        content.extend_from_slice(&self.pack.to_le_bytes());
        content.extend_from_slice(&count32(self.entries.len()).to_le_bytes());
        content.extend_from_slice(&self.bytes.to_le_bytes());
        for entry in &self.entries {
            content.extend_from_slice(&entry.hash);
            content.extend_from_slice(&entry.offset.to_le_bytes());
            content.extend_from_slice(&entry.length.to_le_bytes());
        }
        envelope::encode(envelope::PACK_INDEX, &content)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let content = envelope::decode(envelope::PACK_INDEX, bytes)?;
        let parse = || {
            let mut fields = Fields(content);
            let pack = fields.u32()?;
            let count = fields.u32()?;
            let bytes = fields.u64()?;
            let count = usize::try_from(count).ok()?;
            if fields.0.len() != count.checked_mul(ENTRY)? {
                return None;
            }
            let entries = (0..count)
                .map(|_| {
                    let (hash, offset, length) = (fields.array()?, fields.u32()?, fields.u32()?);
                    let fits = (1..=chunk::CONTENT_MAX).contains(&length)
                        && u64::from(offset) + chunk::size(length) <= bytes;
                    fits.then_some(Entry { hash, offset, length })
                })
                .collect::<Option<Vec<_>>>()?;
            Some(Self { pack, bytes, entries })
        };
        parse().ok_or(Fault::Bad("fields out of bounds"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::check;

    #[test]
    fn golden_round_trip_and_damage() {
        let index = PackIndex {
            pack: 3,
            bytes: 5000,
            entries: vec![Entry { hash: [4; 32], offset: 4096, length: 9 }],
        };
        let bytes = index.encode();
        check::golden(&bytes[48..], "03000000010000008813000000000000040404");
        assert_eq!(PackIndex::decode(&bytes), Ok(index));
        check::every_flip_and_cut(&bytes, |bytes| PackIndex::decode(bytes).ok());
    }
}
