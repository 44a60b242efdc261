//! What a replica asks for, and what had to be durable first.

use anabranch_log::{Digest, NodeId, WriteId};

use crate::entry::{LogEntry, Mark, RaftIndex, Term, Vote};
use crate::order::Order;

/// One output of [`crate::Replica::step`].
///
/// The replica holds an effect back until what it depends on is durable, so the caller carries
/// the effects out at once and in the given order. [`Effect::after`] names that dependency, for
/// callers and tests which check it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make this vote durable (both copies), then report [`crate::Event::VotePersisted`].
    WriteVote(Vote),
    /// Append these entries to the journal, in order, then report
    /// [`crate::Event::EntriesWritten`]. After: the vote of their term.
    WriteEntries {
        /// Names this effect in the answer.
        batch: u64,
        /// At least one; indexes are contiguous.
        entries: Vec<LogEntry>,
    },
    /// The payloads of these ids are durable here, and stay so until applied. With one voter
    /// a nil-external write is complete. After: the journal through `durable`.
    Acknowledge {
        /// In the order of the unordered log, except for repeated acknowledgements.
        ids: Vec<WriteId>,
        /// Record of the last payload among them.
        durable: Mark,
    },
    /// The id is held with another payload; this one is ignored and its write did not happen.
    Refuse {
        /// The id received again.
        id: WriteId,
        /// Digest of the payload just received.
        received: Digest,
        /// Digest of the payload that is held.
        held: Digest,
    },
    /// From now on `leader` leads. After: the vote of its term.
    LeaderChanged {
        /// The leader known here.
        leader: NodeId,
        /// Its term.
        term: Term,
    },
    /// The entry is committed: apply it. Comes once for each index, in index order, beginning
    /// after the restored snapshot. After: the journal through `durable`.
    Apply {
        /// Position in the Raft log.
        index: RaftIndex,
        /// Term of the entry.
        term: Term,
        /// What to do.
        order: Order,
        /// The entry, and all it names, is durable through here.
        durable: Mark,
    },
    /// The state after the preceding `Apply` effects covers everything acknowledged or committed
    /// before the read began.
    ReadReady {
        /// As given in the event.
        ticket: u64,
        /// Newest applied entry.
        index: RaftIndex,
    },
}

/// Something that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persisted {
    /// Every journal record through this one.
    Journal(Mark),
    /// A vote of this term or a newer one.
    Vote(Term),
}

impl Effect {
    /// What was durable before this effect was given out; `None` if it needs nothing of its own
    /// (a `ReadReady` follows the `Apply` effects it rests on).
    #[must_use]
    pub fn after(&self) -> Option<Persisted> {
        match self {
            Effect::WriteVote(_) | Effect::Refuse { .. } | Effect::ReadReady { .. } => None,
            Effect::WriteEntries { entries, .. } => {
                entries.iter().map(|entry| entry.term).max().map(Persisted::Vote)
            }
            Effect::LeaderChanged { term, .. } => Some(Persisted::Vote(*term)),
            Effect::Acknowledge { durable, .. } | Effect::Apply { durable, .. } => {
                Some(Persisted::Journal(*durable))
            }
        }
    }
}
