//! The layouts, one structure per file: table, constants, encode, decode, golden bytes.
//!
//! All integers are little endian. Every structure has a magic, a version and a checksum, and its
//! decoder is total: any bytes give a value or a named fault, never a panic and never a value that
//! was not written. `docs/format.md` repeats the tables for readers without the source.

pub(crate) mod chunk;
pub(crate) mod envelope;
pub(crate) mod fields;
pub(crate) mod frame;
pub(crate) mod identifier;
pub(crate) mod pack_index;
pub(crate) mod record;
pub(crate) mod superblock;

#[cfg(test)]
pub(crate) mod check;

/// The version written into every structure.
pub const VERSION_WRITTEN: u8 = 1;

/// Whether this program reads structures of that version: every released one.
#[must_use]
pub fn accepts(version: u8) -> bool {
    version == VERSION_WRITTEN
}

/// Why bytes are not the structure they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// All zero: never written.
    Absent,
    /// Intact as far as can be told, but of a version that is not read here.
    Version(u8),
    /// Anything else; says which check failed.
    Bad(&'static str),
}

impl Fault {
    /// One phrase for a finding.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Absent => "all zero",
            Self::Version(_) => "version not supported",
            Self::Bad(what) => what,
        }
    }
}

/// Ordinals, flush numbers and indexes on disk stay below this, so that adding to one never
/// overflows, whatever the bytes say.
pub(crate) const NUMBER_END: u64 = 1 << 62;

/// Structures in segments and packs start at multiples of this.
pub(crate) const ALIGN: u64 = 8;

/// `length` rounded up to [`ALIGN`].
pub(crate) const fn padded(length: u64) -> u64 {
    length.next_multiple_of(ALIGN)
}

/// CRC-32C (Castagnoli), as in iSCSI, ext4 and Kafka.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Whether all bytes are zero; fast on long ranges.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    static ZEROS: [u8; 4096] = [0; 4096];
    bytes.chunks(ZEROS.len()).all(|chunk| *chunk == ZEROS[..chunk.len()])
}

/// First and last-plus-one position of non-zero bytes.
pub(crate) fn nonzero_extent(bytes: &[u8]) -> Option<(usize, usize)> {
    const BLOCK: usize = 4096;
    let first_block = bytes.chunks(BLOCK).position(|block| !is_zero(block))? * BLOCK;
    let start = first_block + bytes[first_block..].iter().position(|byte| *byte != 0)?;
    let mut end = bytes.len();
    while end > start {
        let from = start.max(end.saturating_sub(BLOCK));
        if let Some(last) = bytes[from..end].iter().rposition(|byte| *byte != 0) {
            return Some((start, from + last + 1));
        }
        end = from;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_is_castagnoli() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn extents_are_exact() {
        let mut bytes = vec![0; 20_000];
        assert_eq!(nonzero_extent(&bytes), None);
        assert!(is_zero(&bytes));
        for (first, last) in [(0, 0), (0, 19_999), (4095, 4096), (5000, 5000), (8191, 12_288)] {
            bytes[first] = 1;
            bytes[last] = 1;
            assert_eq!(nonzero_extent(&bytes), Some((first, last + 1)));
            assert!(!is_zero(&bytes));
            bytes[first] = 0;
            bytes[last] = 0;
        }
    }
}
