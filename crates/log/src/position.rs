//! Positions: in the space's total order, in one view of one stream, and of a branch's tables.

use std::fmt;

/// Position in the total order of *applied operations* of a space.
///
/// 0 is "before everything"; the first operation has 1. An append of `n` records takes `n`
/// consecutive indexes, record `k` has `first + k`; every other operation takes one. A refused or
/// replayed operation takes none. This is not the index of the Raft log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Index(pub u64);

impl Index {
    /// Before everything.
    pub const ZERO: Index = Index(0);

    /// The index `count` further on.
    #[must_use]
    pub fn plus(self, count: u64) -> Index {
        Index(self.0 + count)
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Position of a record in one branch's view of one stream: dense, from 0.
///
/// What was once read at an offset of a branch never changes there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub u64);

impl Offset {
    /// The offset `count` further on.
    #[must_use]
    pub fn plus(self, count: u64) -> Offset {
        Offset(self.0 + count)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Index of the last applied operation that changed a branch's own tables.
///
/// Appends and puts do not move it. 0 names the empty tables at the start; a fork starts with the
/// version it was forked at. On a live fork it counts the fork's own commits only: what the parent
/// commits does not move it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableVersion(pub Index);

impl fmt::Display for TableVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
