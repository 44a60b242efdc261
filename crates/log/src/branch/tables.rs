//! Versions of one branch's tables: which there are, and which can still be forked at.

use std::cmp::Ordering;

use crate::Index;
use crate::limits::RETAINED_ROOTS;

/// Own table changes of a branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tables {
    /// Indexes of the changes, ascending. Complete on a fork, where a diff and a promotion need
    /// them all; of the root only the newest [`RETAINED_ROOTS`].
    pub(crate) commits: Vec<Index>,
    /// Number of all changes; at least `commits.len()`.
    pub(crate) total: u64,
}

impl Tables {
    pub(crate) fn commits(&self) -> &[Index] {
        &self.commits
    }

    /// Adds a change and returns the version that is no longer kept, if one had to go.
    pub(crate) fn push(&mut self, index: Index, base: Index, root: bool) -> Option<Index> {
        assert!(self.commits.last().is_none_or(|last| *last < index), "versions grow");
        // The base and all but one of the kept versions; then the base goes first.
        let released = match self.total.cmp(&(RETAINED_ROOTS as u64 - 1)) {
            Ordering::Less => None,
            Ordering::Equal => Some(base),
            Ordering::Greater => self.retained().first().copied(),
        };
        self.commits.push(index);
        self.total += 1;
        if root && self.commits.len() > RETAINED_ROOTS {
            self.commits.remove(0);
        }
        released
    }

    /// Versions kept besides the base, ascending.
    fn retained(&self) -> &[Index] {
        let from = self.commits.len().saturating_sub(RETAINED_ROOTS);
        self.commits.get(from..).unwrap_or_default()
    }

    /// The newest kept version at or before a position; `Err` names the oldest position allowed.
    pub(crate) fn version_at(&self, base: Index, at: Index) -> Result<Index, Index> {
        let retained = self.retained();
        let after = retained.partition_point(|version| *version <= at);
        match after.checked_sub(1).and_then(|i| retained.get(i)) {
            Some(version) => Ok(*version),
            None if self.total < RETAINED_ROOTS as u64 => Ok(base),
            None => Err(*retained.first().expect("a base is released only for newer versions")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_versions_are_kept_and_each_release_is_told_once() {
        for root in [false, true] {
            let (base, keep) = (Index(5), RETAINED_ROOTS as u64);
            let mut tables = Tables::default();
            let mut released = Vec::new();
            for i in 0..3 * keep {
                released.extend(tables.push(Index(10 + i), base, root));
                let kept = i + 2 - released.len() as u64;
                assert!(kept <= keep);
                assert!(i + 2 <= keep || kept == keep, "root is released too early");
                assert_eq!(tables.version_at(base, Index(10 + i)), Ok(Index(10 + i)));
                match released.last() {
                    None => assert_eq!(tables.version_at(base, Index(9)), Ok(base)),
                    Some(gone) => {
                        let oldest = if *gone == base { Index(10) } else { gone.plus(1) };
                        assert_eq!(tables.version_at(base, *gone), Err(oldest));
                        assert_eq!(tables.version_at(base, oldest), Ok(oldest));
                    }
                }
            }
            let expected: Vec<Index> =
                std::iter::once(base).chain((10..10 + 2 * keep).map(Index)).collect();
            assert_eq!(released, expected);
        }
    }
}
