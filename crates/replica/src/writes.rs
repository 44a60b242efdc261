//! What the replica has asked to be made durable, oldest first.
//!
//! One [`Write`] stands for one round of the Raft library. Invariants:
//! - rounds complete in order: a later one never counts as durable before an earlier one;
//! - entries are given out only after every vote before them, and the one of their own round,
//!   is durable; so no entry of a term is on disk before the vote of that term.

use std::collections::VecDeque;

use crate::effect::Effect;
use crate::entry::{LogEntry, Mark, RaftIndex, Vote};

#[derive(Debug, Default)]
pub(crate) struct Writes {
    queue: VecDeque<Write>,
    /// Number of the next batch of entries.
    next_batch: u64,
}

#[derive(Debug)]
struct Write {
    /// Number of the round.
    round: u64,
    /// Not durable yet.
    vote: Option<Vote>,
    entries: Stage,
}

#[derive(Debug)]
enum Stage {
    /// No entries, or none left to wait for.
    Nothing,
    /// Behind a vote that is not durable.
    Held(Vec<LogEntry>),
    /// Given out, not yet in the journal.
    Given { batch: u64, first: RaftIndex, last: RaftIndex },
    /// In the journal; durable with it through this record.
    Written(Mark),
}

impl Writes {
    /// Queues a round. Its vote, if any, is given out at once.
    pub(crate) fn push(
        &mut self,
        round: u64,
        vote: Option<Vote>,
        entries: Vec<LogEntry>,
        effects: &mut Vec<Effect>,
    ) {
        assert!(self.queue.back().is_none_or(|last| last.round < round), "rounds are numbered up");
        effects.extend(vote.map(Effect::WriteVote));
        let entries = if entries.is_empty() { Stage::Nothing } else { Stage::Held(entries) };
        self.queue.push_back(Write { round, vote, entries });
    }

    /// Gives out the entries that wait for no vote.
    pub(crate) fn release(&mut self, effects: &mut Vec<Effect>) {
        for write in self.queue.iter_mut().take_while(|write| write.vote.is_none()) {
            let Stage::Held(entries) = &mut write.entries else { continue };
            let entries = std::mem::take(entries);
            let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
                unreachable!("held entries are not empty")
            };
            let batch = self.next_batch;
            self.next_batch += 1;
            write.entries = Stage::Given { batch, first: first.index, last: last.index };
            effects.push(Effect::WriteEntries { batch, entries });
        }
    }

    /// The oldest vote given out is durable.
    pub(crate) fn vote_persisted(&mut self, vote: Vote) {
        let asked = self.queue.iter_mut().find(|write| write.vote.is_some());
        let asked = asked.expect("a persisted vote was asked for");
        assert_eq!(asked.vote, Some(vote), "votes are persisted in the order of the effects");
        asked.vote = None;
    }

    /// The oldest batch given out stands in the journal; its entries.
    pub(crate) fn entries_written(&mut self, batch: u64, last: Mark) -> (RaftIndex, RaftIndex) {
        let given = |write: &&mut Write| matches!(write.entries, Stage::Given { .. });
        let asked = self.queue.iter_mut().find(given).expect("a written batch was asked for");
        let Stage::Given { batch: asked_batch, first: first_index, last: last_index } =
            asked.entries
        else {
            unreachable!("found by its stage")
        };
        assert_eq!(asked_batch, batch, "batches are written in the order of the effects");
        asked.entries = Stage::Written(last);
        (first_index, last_index)
    }

    /// Removes the rounds that are complete when the journal is durable through `durable`; the
    /// number of the newest.
    pub(crate) fn confirm(&mut self, durable: Mark) -> Option<u64> {
        let mut newest = None;
        while let Some(write) = self.queue.front() {
            let stored = match write.entries {
                Stage::Nothing => true,
                Stage::Held(_) | Stage::Given { .. } => false,
                Stage::Written(last) => last <= durable,
            };
            if write.vote.is_some() || !stored {
                break;
            }
            newest = Some(write.round);
            self.queue.pop_front();
        }
        newest
    }

    /// Whether a vote is not durable yet.
    pub(crate) fn vote_pending(&self) -> bool {
        self.queue.iter().any(|write| write.vote.is_some())
    }

    /// Panics unless the invariants above hold.
    pub(crate) fn validate(&self) {
        let mut vote_pending = false;
        let mut previous = None;
        for write in &self.queue {
            assert!(previous < Some(write.round), "rounds are numbered up");
            previous = Some(write.round);
            vote_pending |= write.vote.is_some();
            let held = matches!(write.entries, Stage::Held(_));
            let waits = !matches!(write.entries, Stage::Nothing);
            assert!(!vote_pending || held || !waits, "entries wait for the vote before them");
            assert!(vote_pending || !held, "entries are given out when no vote is pending");
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_log::NodeId;

    use super::*;
    use crate::entry::{EntryKind, Term};

    fn vote(term: u64) -> Vote {
        Vote { term: Term(term), voted_for: Some(NodeId(1)), commit: RaftIndex(0) }
    }

    fn entry(index: u64) -> LogEntry {
        let (index, term) = (RaftIndex(index), Term(1));
        LogEntry { index, term, kind: EntryKind::Noop, data: Vec::new() }
    }

    #[test]
    fn rounds_complete_in_order_and_entries_wait_for_votes_before_them() {
        let (mut writes, mut effects) = (Writes::default(), Vec::new());
        writes.push(1, None, vec![entry(1)], &mut effects);
        writes.push(2, Some(vote(2)), Vec::new(), &mut effects);
        writes.push(3, None, vec![entry(2)], &mut effects);
        writes.push(4, None, Vec::new(), &mut effects);
        writes.release(&mut effects);
        writes.validate();
        let first = Effect::WriteEntries { batch: 0, entries: vec![entry(1)] };
        assert_eq!(effects, [Effect::WriteVote(vote(2)), first]);

        assert_eq!(writes.entries_written(0, Mark(5)), (RaftIndex(1), RaftIndex(1)));
        assert_eq!(writes.confirm(Mark(4)), None);
        assert_eq!(writes.confirm(Mark(5)), Some(1), "round 2 waits for its vote");

        writes.vote_persisted(vote(2));
        effects.clear();
        writes.release(&mut effects);
        assert_eq!(effects, [Effect::WriteEntries { batch: 1, entries: vec![entry(2)] }]);
        assert_eq!(writes.confirm(Mark(5)), Some(2), "round 3 waits for its entries");
        writes.entries_written(1, Mark(6));
        assert_eq!(writes.confirm(Mark(6)), Some(4), "an empty round follows at once");
    }
}
