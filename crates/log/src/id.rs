//! Identities: numbers that are given once and never reused.
//!
//! A number of one kind cannot stand where another kind is meant. The text forms carry a prefix,
//! so that a number read in a log line says what it names.

use std::fmt;

macro_rules! identity {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "-{}"), self.0)
            }
        }
    };
}

identity!(
    /// One incarnation of a branch name: dense from 0 in order of creation, never reused.
    ///
    /// Writes carry this number and not the name, so a name given to a new branch cannot catch a
    /// write meant for the old one.
    BranchId,
    "branch"
);

identity!(
    /// One client session; see [`crate::Entry::id`]. Given from 1; 0 is [`SessionId::NONE`].
    SessionId,
    "session"
);

identity!(
    /// One replica of a space. A replica that lost its disk comes back under a new number.
    NodeId,
    "node"
);

impl BranchId {
    /// The root of every space; exists from the start and can never be closed.
    pub const MAIN: BranchId = BranchId(0);
}

impl SessionId {
    /// No session: the write is not remembered, and a retry runs again.
    pub const NONE: SessionId = SessionId(0);
}

/// Names one attempt at one write.
///
/// Retries are recognised by `(session, seq)`. `attempt` tells apart the runs of one SQL statement
/// that the leader repeats because the tables moved; it plays no part in recognising a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId {
    /// The session, or [`SessionId::NONE`].
    pub session: SessionId,
    /// Number of the write within its session, from 1; one number never names two writes.
    pub seq: u64,
    /// Number of the run, from 0.
    pub attempt: u32,
}

impl fmt::Display for WriteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}.{}", self.session, self.seq, self.attempt)
    }
}

/// A 256-bit content digest, made and checked by other crates; here it is only carried.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
