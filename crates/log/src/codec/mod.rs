//! Bytes: how entries, outcomes, refusals and the state are written and read back.
//!
//! Every structure starts with a type byte and a version byte. Numbers are little endian and of
//! fixed width; bytes and lists carry their length as a `u32` or `u64` before them; an option is
//! a byte 0, or 1 and the value. There is one way to write a value, and readers accept no other:
//! maps in strictly ascending order, no trailing bytes, no tag or flag outside the tables.
//!
//! Readers trust nothing: a length is compared with its limit and with the bytes that are left
//! before anything is allocated, and a state is checked against its invariants.

mod entry;
mod outcome;
mod state;

use std::collections::BTreeMap;
use std::fmt;

use crate::record::check_name;
use crate::{
    BranchId, BranchName, Digest, Field, Index, Key, Offset, SessionId, StreamName, TableVersion,
    limits,
};

/// Why bytes cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They do not start with this type byte and version.
    Header {
        /// The two bytes found, as far as there are two.
        found: [u8; 2],
        /// The two bytes expected.
        expected: [u8; 2],
    },
    /// They end before the structure does.
    Truncated {
        /// Where more was expected.
        at: usize,
    },
    /// They go on after the structure ended.
    Trailing {
        /// Number of bytes left.
        bytes: usize,
    },
    /// A tag or flag outside its table.
    Tag {
        /// What the tag tells apart.
        what: &'static str,
        /// The tag found.
        tag: u8,
        /// Just after it.
        at: usize,
    },
    /// Something exceeds its limit.
    TooLong {
        /// What.
        field: Field,
        /// Its size.
        size: u64,
        /// Just after its length.
        at: usize,
    },
    /// A name or text that no constructor would have let pass.
    Text {
        /// What.
        field: Field,
        /// Just after it.
        at: usize,
    },
    /// A map whose keys do not ascend.
    Order {
        /// Just after the key.
        at: usize,
    },
    /// All parts can be read, but they contradict each other.
    Inconsistent {
        /// The rule that is broken.
        rule: &'static str,
    },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Header { found, expected } => {
                write!(f, "header is {found:?}, expected {expected:?}")
            }
            Malformed::Truncated { at } => write!(f, "bytes end too early, at=`{at}`"),
            Malformed::Trailing { bytes } => write!(f, "bytes go on too long, bytes=`{bytes}`"),
            Malformed::Tag { what, tag, at } => write!(f, "unknown {what} {tag}, at=`{at}`"),
            Malformed::TooLong { field, size, at } => {
                write!(f, "{field} exceeds its limit with {size}, at=`{at}`")
            }
            Malformed::Text { field, at } => write!(f, "{field} is malformed, at=`{at}`"),
            Malformed::Order { at } => write!(f, "keys of a map do not ascend, at=`{at}`"),
            Malformed::Inconsistent { rule } => write!(f, "contradiction: {rule} does not hold"),
        }
    }
}

impl std::error::Error for Malformed {}

/// A value with one encoding.
pub(crate) trait Wire: Sized {
    fn write(&self, out: &mut Vec<u8>);
    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed>;
}

/// Writes a structure with its header.
fn encode<T>(header: [u8; 2], value: &T, write: impl FnOnce(&T, &mut Vec<u8>)) -> Vec<u8> {
    let mut out = header.to_vec();
    write(value, &mut out);
    out
}

/// Reads a structure with its header, and nothing after it.
fn decode<T>(
    header: [u8; 2],
    bytes: &[u8],
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<T, Malformed> {
    let mut from = Reader { rest: bytes, length: bytes.len() };
    let found = from.array::<2>()?;
    if found != header {
        return Err(Malformed::Header { found, expected: header });
    }
    let value = read(&mut from)?;
    if !from.rest.is_empty() {
        return Err(Malformed::Trailing { bytes: from.rest.len() });
    }
    Ok(value)
}

/// The bytes not yet read.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Reader<'a> {
    fn at(&self) -> usize {
        self.length - self.rest.len()
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(Malformed::Truncated { at: self.length });
        };
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| Malformed::Truncated { at: self.length })
    }

    fn tag(&mut self) -> Result<u8, Malformed> {
        let [tag] = self.array()?;
        Ok(tag)
    }

    fn unknown<T>(&self, what: &'static str, tag: u8) -> Result<T, Malformed> {
        Err(Malformed::Tag { what, tag, at: self.at() })
    }

    /// Bytes with a `u32` length before them, at most `max`.
    fn bytes(&mut self, field: Field, max: usize) -> Result<&'a [u8], Malformed> {
        let size = self.count(field, max, 1)?;
        self.take(size)
    }

    /// A `u32` number of elements of at least `each` bytes, at most `max`.
    fn count(&mut self, field: Field, max: usize, each: usize) -> Result<usize, Malformed> {
        let count = u32::read(self)?;
        let at = self.at();
        let too_long = Malformed::TooLong { field, size: count.into(), at };
        let count = usize::try_from(count).map_err(|_| too_long)?;
        if count > max {
            return Err(too_long);
        }
        self.has_room(count, each)?;
        Ok(count)
    }

    /// A `u64` number of elements of at least `each` bytes, bounded by the bytes that are left.
    fn count_long(&mut self, each: usize) -> Result<usize, Malformed> {
        let count = u64::read(self)?;
        let count = usize::try_from(count).map_err(|_| Malformed::Truncated { at: self.length })?;
        self.has_room(count, each)?;
        Ok(count)
    }

    fn has_room(&self, count: usize, each: usize) -> Result<(), Malformed> {
        match count.checked_mul(each) {
            Some(size) if size <= self.rest.len() => Ok(()),
            _ => Err(Malformed::Truncated { at: self.length }),
        }
    }

    fn text(&mut self, field: Field, max: usize) -> Result<&'a str, Malformed> {
        let bytes = self.bytes(field, max)?;
        std::str::from_utf8(bytes).map_err(|_| Malformed::Text { field, at: self.at() })
    }

    fn check_name(&mut self) -> Result<&'a str, Malformed> {
        let (field, max) = (Field::CheckName, limits::CHECK_NAME_BYTES);
        let name = self.text(field, max)?;
        check_name(name, field, max).map_err(|_| Malformed::Text { field, at: self.at() })?;
        Ok(name)
    }

    /// Inserts into a map that is written in ascending order.
    fn insert<K: Ord, V>(
        &self,
        map: &mut BTreeMap<K, V>,
        key: K,
        value: V,
    ) -> Result<(), Malformed> {
        if map.last_key_value().is_some_and(|(last, _)| *last >= key) {
            return Err(Malformed::Order { at: self.at() });
        }
        map.insert(key, value);
        Ok(())
    }
}

/// Bytes with a `u32` length before them; longer ones never get here (see `Entry::validate`).
fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    write_count(bytes.len(), out);
    out.extend_from_slice(bytes);
}

fn write_count(count: usize, out: &mut Vec<u8>) {
    u32::try_from(count).expect("nothing validated is longer than 4 GiB").write(out);
}

macro_rules! wire_number {
    ($($type:ty),*) => {$(
        impl Wire for $type {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn read(from: &mut Reader<'_>) -> Result<$type, Malformed> {
                Ok(<$type>::from_le_bytes(from.array()?))
            }
        }
    )*};
}

macro_rules! wire_newtype {
    ($($type:ident $inner:ty),*) => {$(
        impl Wire for $type {
            fn write(&self, out: &mut Vec<u8>) {
                self.0.write(out);
            }

            fn read(from: &mut Reader<'_>) -> Result<$type, Malformed> {
                Ok($type(<$inner>::read(from)?))
            }
        }
    )*};
}

macro_rules! wire_name {
    ($($name:ident $max:expr),*) => {$(
        impl Wire for $name {
            fn write(&self, out: &mut Vec<u8>) {
                write_bytes(self.as_str().as_bytes(), out);
            }

            fn read(from: &mut Reader<'_>) -> Result<$name, Malformed> {
                let text = from.text(Field::$name, $max)?;
                $name::new(text).map_err(|_| Malformed::Text { field: Field::$name, at: from.at() })
            }
        }
    )*};
}

wire_number!(u32, u64, i64);
wire_newtype!(Index u64, Offset u64, TableVersion Index, BranchId u64, SessionId u64);
wire_name!(BranchName limits::BRANCH_NAME_BYTES, StreamName limits::STREAM_NAME_BYTES);

impl Wire for Key {
    fn write(&self, out: &mut Vec<u8>) {
        write_bytes(self.as_bytes(), out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Key, Malformed> {
        let bytes = from.bytes(Field::Key, limits::KEY_BYTES)?;
        Key::new(bytes).map_err(|_| Malformed::Text { field: Field::Key, at: from.at() })
    }
}

impl Wire for Digest {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn read(from: &mut Reader<'_>) -> Result<Digest, Malformed> {
        Ok(Digest(from.array()?))
    }
}

impl<T: Wire> Wire for Option<T> {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            None => out.push(0),
            Some(value) => {
                out.push(1);
                value.write(out);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Option<T>, Malformed> {
        match from.tag()? {
            0 => Ok(None),
            1 => Ok(Some(T::read(from)?)),
            tag => from.unknown("option", tag),
        }
    }
}
