//! What can happen to a replica.

use anabranch_log::{Digest, WriteId};

use crate::entry::{Mark, RaftIndex, Vote};

/// One input of [`crate::Replica::step`].
///
/// The caller owns the journal and the vote file. It feeds events in the order in which they
/// became true; an event that contradicts what the replica asked for is a bug of the caller, and
/// `step` panics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Time passed: one tick of the caller's monotonic clock.
    Tick,
    /// A payload stands in the journal buffer as record `mark`, not yet durable.
    ///
    /// Marks rise from one `Received` to the next. Ask [`crate::Replica::held`] first, and store
    /// nothing for an id that is held: a second copy that outlives the first in the journal may be
    /// ordered again after a restart (the session table recognises it), and another payload under
    /// a held id is refused, but could no longer be told apart once the held one is gone.
    Received {
        /// Names the write.
        id: WriteId,
        /// BLAKE3 of the payload.
        digest: Digest,
        /// Journal record of the payload.
        mark: Mark,
    },
    /// The entries of a [`crate::Effect::WriteEntries`] stand in the journal buffer. Batches are
    /// answered in the order in which they were given out.
    EntriesWritten {
        /// Number of the batch.
        batch: u64,
        /// Journal record of its first entry.
        first: Mark,
        /// Journal record of its last entry.
        last: Mark,
    },
    /// Every journal record through `through` is durable: its fdatasync returned without error.
    /// After a failed flush this event never comes again.
    Persisted {
        /// Inclusive.
        through: Mark,
    },
    /// The vote of the oldest unanswered [`crate::Effect::WriteVote`] is durable.
    VotePersisted(Vote),
    /// Order everything received so far: at once what is durable, the rest when it becomes so.
    Order,
    /// A linearizable read begins; [`crate::Effect::ReadReady`] answers with the same ticket.
    Read {
        /// Chosen by the caller, unique among open reads.
        ticket: u64,
    },
    /// A checkpoint of the state after `index` is durable: entries through `index` may go.
    Checkpointed {
        /// An applied entry, inclusive.
        index: RaftIndex,
    },
}
