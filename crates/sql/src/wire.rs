//! Bounded binary primitives shared by the codecs of this crate.
//!
//! Integers are LEB128 (at most ten bytes, canonical) unless a width is named. A reader never
//! allocates more than the bytes that are left can justify, and never panics on any input.

use std::fmt;

/// Bytes that are not what they should be: from disk or from the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Offset of the byte at which decoding stopped.
    pub offset: usize,
    /// What was expected there.
    pub what: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed SQL change set: {} at offset=`{}`", self.what, self.offset)
    }
}

impl std::error::Error for Malformed {}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Zigzag: small magnitudes become small numbers.
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Reads from a slice; `offset` only grows and never passes the end.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, offset: 0 }
    }

    pub(crate) fn fail<T>(&self, what: &'static str) -> Result<T, Malformed> {
        Err(Malformed { offset: self.offset, what })
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.offset
    }

    pub(crate) fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        let Some(end) = self.offset.checked_add(count) else { return self.fail(what) };
        let Some(part) = self.bytes.get(self.offset..end) else { return self.fail(what) };
        self.offset = end;
        Ok(part)
    }

    pub(crate) fn byte(&mut self, what: &'static str) -> Result<u8, Malformed> {
        match self.take(1, what)? {
            [byte] => Ok(*byte),
            _ => self.fail(what),
        }
    }

    pub(crate) fn array<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[u8; N], Malformed> {
        let part = self.take(N, what)?;
        part.try_into().or_else(|_| self.fail(what))
    }

    pub(crate) fn varint(&mut self, what: &'static str) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(what)?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return self.fail(what);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                // One encoding per number, so that equal change sets have equal bytes.
                return if byte == 0 && shift > 0 { self.fail(what) } else { Ok(value) };
            }
        }
        self.fail(what)
    }

    /// A count of items that take at least `least` bytes each.
    pub(crate) fn count(&mut self, least: usize, what: &'static str) -> Result<usize, Malformed> {
        let value = self.varint(what)?;
        let Ok(count) = usize::try_from(value) else { return self.fail(what) };
        if count.checked_mul(least.max(1)).is_none_or(|bytes| bytes > self.remaining()) {
            return self.fail(what);
        }
        Ok(count)
    }

    pub(crate) fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], Malformed> {
        let count = self.count(1, what)?;
        self.take(count, what)
    }

    pub(crate) fn text(&mut self, what: &'static str) -> Result<String, Malformed> {
        let bytes = self.bytes(what)?;
        std::str::from_utf8(bytes).map(str::to_owned).or_else(|_| self.fail(what))
    }

    pub(crate) fn finish(self, what: &'static str) -> Result<(), Malformed> {
        if self.remaining() == 0 { Ok(()) } else { self.fail(what) }
    }
}
