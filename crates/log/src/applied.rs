//! What applying an entry gives back: the outcome, and what changed, in order.

use crate::{BranchId, Index, Key, Offset, Refusal, SessionId, StreamName, TableVersion};

/// The result of an operation that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "`index` is the operation's first index everywhere")]
pub enum Outcome {
    /// Records were added; the first has this offset in the branch's view, the rest follow.
    Appended { index: Index, offset: Offset },
    /// A version of a key was set (or the key deleted); `index` is its version.
    Put { index: Index },
    /// A number was changed to `value`; `index` is the key's version.
    Number { index: Index, value: i64 },
    /// A branch was made.
    Forked { branch: BranchId, index: Index },
    /// A closing began; the second phase names `index`.
    Closing { index: Index },
    /// Own writes became part of `into`: `records` of streams and keys, of `keys` distinct keys.
    Promoted { index: Index, into: BranchId, records: u64, keys: u64 },
    /// A branch was dropped.
    Discarded { index: Index },
    /// A closing was given up.
    Reopened { index: Index },
    /// Tables were changed; `index` is their new version.
    Committed { index: Index },
    /// Done, with nothing to tell.
    Done { index: Index },
    /// A session was opened.
    Session { session: SessionId, index: Index },
    /// A checkpoint is to be taken of the state at `index`.
    Checkpointed { index: Index },
}

impl Outcome {
    /// The operation's first index.
    #[must_use]
    pub fn index(&self) -> Index {
        match *self {
            Outcome::Appended { index, .. }
            | Outcome::Put { index }
            | Outcome::Number { index, .. }
            | Outcome::Forked { index, .. }
            | Outcome::Closing { index }
            | Outcome::Promoted { index, .. }
            | Outcome::Discarded { index }
            | Outcome::Reopened { index }
            | Outcome::Committed { index }
            | Outcome::Done { index }
            | Outcome::Session { index, .. }
            | Outcome::Checkpointed { index } => index,
        }
    }
}

/// One change that the surroundings of the state must follow. Not part of the state: a replay
/// gives the same changes again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A record came into being, to be found by its index from now on.
    Record {
        /// Its index.
        index: Index,
        /// The branch that owns it.
        branch: BranchId,
        /// The stream.
        stream: StreamName,
        /// The key, in a keyed stream.
        key: Option<Key>,
        /// The bytes; `None` deletes the key. Of a number: its decimal text.
        value: Option<Vec<u8>>,
    },
    /// A branch was made; it starts from the parent's tables at `base`.
    Forked {
        /// The new branch.
        child: BranchId,
        /// Its parent.
        parent: BranchId,
        /// Version of the parent's own tables that it starts from.
        base: TableVersion,
    },
    /// The branch's tables have a new version, made by the entry's body.
    TablesCommitted {
        /// The branch.
        branch: BranchId,
        /// The new version.
        version: TableVersion,
    },
    /// The branch's tables have a new version: the newest of `from`.
    TablesTaken {
        /// The branch whose tables changed.
        into: BranchId,
        /// The branch whose newest tables it took.
        from: BranchId,
        /// The new version.
        version: TableVersion,
    },
    /// No fork can be cut at this version of the branch's tables any more.
    RootReleased {
        /// The branch.
        branch: BranchId,
        /// The version.
        version: TableVersion,
    },
    /// Records of another branch joined the end of `into`'s streams in one step.
    Spliced {
        /// The receiver.
        into: BranchId,
        /// The branch that wrote them.
        from: BranchId,
        /// Their number.
        records: u64,
    },
    /// The branch takes no writes any more; its forks may still read it.
    Closed {
        /// The branch.
        branch: BranchId,
    },
    /// Nothing can read the branch's own records or tables any more; all its roots are released.
    /// Follows `Closed`, at once or when its last fork is retired.
    Retired {
        /// The branch.
        branch: BranchId,
    },
}

/// What [`crate::State::apply`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Applied {
    /// First index of the operation; if `count` is 0, of the next one.
    pub first: Index,
    /// Number of indexes taken: 0 if the entry was refused or replayed.
    pub count: u64,
    /// The outcome, or why it was refused; of a retry, what was answered the first time.
    pub outcome: Result<Outcome, Refusal>,
    /// Whether this was a retry, and nothing was done now.
    pub replayed: bool,
    /// What changed, in order; empty if `count` is 0.
    pub changes: Vec<Change>,
}
