//! Names of branches, streams and keys, checked when they are made.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::limits;
use crate::{Field, Invalid, Refusal};

/// What a stream's records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamKind {
    /// Records without keys.
    Plain,
    /// Versions of keys. `(Keyed, name)` and `(Plain, name)` are two different streams.
    Keyed,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $field:expr, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the name: 1 to the maximum of bytes, each an ASCII letter, digit or one of
            /// `. _ - / :`, the first a letter, digit or `_`.
            pub fn new(name: &str) -> Result<$name, Refusal> {
                check_name(name, $field, $max)?;
                Ok($name(name.into()))
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = Refusal;

            fn from_str(name: &str) -> Result<$name, Refusal> {
                $name::new(name)
            }
        }
    };
}

name!(
    /// Name of a branch, at most [`limits::BRANCH_NAME_BYTES`] bytes.
    BranchName,
    Field::BranchName,
    limits::BRANCH_NAME_BYTES
);

name!(
    /// Name of a stream, at most [`limits::STREAM_NAME_BYTES`] bytes.
    StreamName,
    Field::StreamName,
    limits::STREAM_NAME_BYTES
);

impl BranchName {
    /// The name of the root branch.
    #[must_use]
    pub fn main() -> BranchName {
        BranchName("main".into())
    }
}

/// A key of a keyed stream: 1 to [`limits::KEY_BYTES`] bytes, compared bytewise.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Box<[u8]>);

impl Key {
    /// Checks the length and takes the bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Key, Refusal> {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Err(Refusal::Invalid(Invalid::Empty(Field::Key)));
        }
        Refusal::check_size(Field::Key, bytes.len(), limits::KEY_BYTES)?;
        Ok(Key(bytes.into_boxed_slice()))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

pub(crate) fn check_name(name: &str, field: Field, max: usize) -> Result<(), Refusal> {
    let bytes = name.as_bytes();
    let Some(first) = bytes.first() else {
        return Err(Refusal::Invalid(Invalid::Empty(field)));
    };
    Refusal::check_size(field, bytes.len(), max)?;
    let inner = |b: &u8| b.is_ascii_alphanumeric() || b"._-/:".contains(b);
    if (first.is_ascii_alphanumeric() || *first == b'_') && bytes.iter().all(inner) {
        Ok(())
    } else {
        Err(Refusal::Invalid(Invalid::Characters(field)))
    }
}

/// The number that a value spells in decimal, if it does: digits with an optional leading minus,
/// within `i64`. Only such values can be counted up and down.
#[must_use]
pub fn number_of(value: &[u8]) -> Option<i64> {
    if value.first() == Some(&b'+') {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_at_their_bounds() {
        let long = |n: usize| "a".repeat(n);
        assert!(BranchName::new(&long(limits::BRANCH_NAME_BYTES)).is_ok());
        assert!(BranchName::new(&long(limits::BRANCH_NAME_BYTES + 1)).is_err());
        assert!(StreamName::new(&long(limits::STREAM_NAME_BYTES)).is_ok());
        assert!(StreamName::new(&long(limits::STREAM_NAME_BYTES + 1)).is_err());
        for good in ["a", "_x", "agent-7", "orders.v1", "a/b:c", "0"] {
            assert!(StreamName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", ".a", "a b", "a@b", "é", "a\n", "/a"] {
            assert!(StreamName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn keys_are_checked_at_their_bounds() {
        assert!(Key::new(vec![0]).is_ok());
        assert!(Key::new(vec![]).is_err());
        assert!(Key::new(vec![7; limits::KEY_BYTES]).is_ok());
        assert!(Key::new(vec![7; limits::KEY_BYTES + 1]).is_err());
    }

    #[test]
    fn numbers_are_plain_decimals() {
        for (text, number) in [
            ("0", Some(0)),
            ("-7", Some(-7)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("+1", None),
            ("", None),
            ("1 ", None),
            ("0x1", None),
            ("1.5", None),
        ] {
            assert_eq!(number_of(text.as_bytes()), number, "{text:?}");
        }
    }
}
