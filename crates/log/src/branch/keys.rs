//! Own versions of keys of one branch in one keyed stream.

use std::collections::BTreeMap;

use super::Runs;
use crate::Key;
use crate::record::number_of;

/// What the state knows of a value: enough to count without reading the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// The key was deleted.
    Deleted,
    /// The value spells this number.
    Number(i64),
    /// Any other value.
    Bytes,
}

impl Value {
    pub(crate) fn of(value: Option<&[u8]>) -> Value {
        match value {
            None => Value::Deleted,
            Some(bytes) => number_of(bytes).map_or(Value::Bytes, Value::Number),
        }
    }
}

/// One version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// Index at which it joined the branch: its own, or that of the promotion that spliced it.
    pub(crate) at: u64,
    /// Index of its record.
    pub(crate) index: u64,
    pub(crate) value: Value,
}

/// All own versions of one key, at least one; `at` never falls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Versions {
    /// All but the newest, oldest first. Most keys have none, and then nothing is allocated.
    pub(crate) older: Vec<Version>,
    pub(crate) newest: Version,
}

impl Versions {
    /// The newest version that had joined at index `bound` (inclusive).
    pub(crate) fn at(&self, bound: u64) -> Option<&Version> {
        if self.newest.at <= bound {
            return Some(&self.newest);
        }
        let after = self.older.partition_point(|version| version.at <= bound);
        self.older.get(after.checked_sub(1)?)
    }

    /// Index at which the first own version joined.
    pub(crate) fn first_joined(&self) -> u64 {
        self.older.first().unwrap_or(&self.newest).at
    }

    /// Oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Version> {
        self.older.iter().chain([&self.newest])
    }
}

/// A keyed stream: its records as runs, and the versions of each key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keyed {
    /// Every version is a record of these runs, and every record a version of one key.
    pub(crate) runs: Runs,
    pub(crate) keys: BTreeMap<Key, Versions>,
}

impl Keyed {
    pub(crate) fn push(&mut self, key: &Key, version: Version) {
        match self.keys.get_mut(key) {
            Some(versions) => {
                assert!(versions.newest.at <= version.at, "versions join in order");
                let newest = std::mem::replace(&mut versions.newest, version);
                versions.older.push(newest);
            }
            None => {
                self.keys.insert(key.clone(), Versions { older: Vec::new(), newest: version });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_by_the_index_they_joined_at() {
        let key = Key::new("k").unwrap();
        let mut keyed = Keyed::default();
        for (at, index) in [(3, 3), (9, 9), (20, 5), (20, 7)] {
            keyed.push(&key, Version { at, index, value: Value::Bytes });
        }
        let versions = &keyed.keys[&key];
        let index = |bound| versions.at(bound).map(|version| version.index);
        assert_eq!(index(2), None);
        assert_eq!(index(3), Some(3));
        assert_eq!(index(19), Some(9));
        assert_eq!(index(20), Some(7));
        assert_eq!(index(u64::MAX), Some(7));
        assert_eq!(versions.first_joined(), 3);
        assert_eq!(versions.iter().count(), 4);
    }
}
