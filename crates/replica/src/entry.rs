//! Entries of the Raft log and the vote, as they are stored.
//!
//! These are plain values: the journal writes a [`LogEntry`] field by field and gives the same
//! fields back after a restart. Nothing here names the Raft library.

use std::fmt;

use anabranch_log::NodeId;

/// Position in the Raft log, from 1; 0 is "before everything".
///
/// Not the index of an applied operation: one entry orders many operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RaftIndex(pub u64);

/// Raft term, from 1; 0 is "before any election".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term(pub u64);

/// Number of a journal record, from 1 and rising in journal order: record `n` is durable when the
/// journal is durable through `n`. 0 is "before everything".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub u64);

impl RaftIndex {
    /// The index after this one.
    #[must_use]
    pub fn next(self) -> RaftIndex {
        RaftIndex(self.0 + 1)
    }
}

impl fmt::Display for RaftIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What an entry's data is. The codes are stored on disk and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// No data: a leader's first entry of its term. Code 0.
    Noop,
    /// Ids and digests of unordered records, see [`crate::Order`]. Code 1.
    Records,
}

impl EntryKind {
    /// The stored code.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            EntryKind::Noop => 0,
            EntryKind::Records => 1,
        }
    }

    /// The kind with a stored code; `None` if no version ever wrote that code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<EntryKind> {
        match code {
            0 => Some(EntryKind::Noop),
            1 => Some(EntryKind::Records),
            _ => None,
        }
    }
}

/// One entry of the Raft log. It holds ids and digests, never payload bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Position in the log.
    pub index: RaftIndex,
    /// Term of the leader that proposed it.
    pub term: Term,
    /// What `data` is.
    pub kind: EntryKind,
    /// Encoded by [`crate::Order::encode`]; at most [`crate::MAX_ENTRY_BYTES`] bytes.
    pub data: Vec<u8>,
}

/// Term, vote and a lower bound of the commit index: what must survive any crash.
///
/// `term` never falls; within one term `voted_for` is set once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vote {
    /// Newest term this node has taken part in.
    pub term: Term,
    /// Whom it voted for in that term.
    pub voted_for: Option<NodeId>,
    /// Entries through this index were committed, and durable here, when the vote was written.
    pub commit: RaftIndex,
}
