//! Linearizable reads: when is the applied state new enough?
//!
//! A read that begins now must cover (a) the commit index now, as confirmed for this term, and
//! (b) every acknowledged record, that is, the durable part of the unordered log. Tickets are
//! answered in the order in which they were opened: a later one never covers less.

use std::collections::VecDeque;

use crate::entry::RaftIndex;
use crate::unordered::Position;

#[derive(Debug, Default)]
pub(crate) struct Reads {
    open: VecDeque<Read>,
    /// Number of the next read; numbers are never used twice in one run.
    next: u64,
}

#[derive(Debug)]
struct Read {
    number: u64,
    ticket: u64,
    /// Records below must be applied.
    until: Position,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The commit index is not asked for: nothing is committed in this term yet.
    Waiting,
    Asked,
    /// Entries through this one must be applied.
    Covers(RaftIndex),
}

impl Reads {
    pub(crate) fn open(&mut self, ticket: u64, until: Position) {
        self.open.push_back(Read { number: self.next, ticket, until, state: State::Waiting });
        self.next += 1;
    }

    /// Numbers of the reads whose commit index is to be asked for now.
    pub(crate) fn ask(&mut self) -> Vec<u64> {
        let waiting = self.open.iter_mut().filter(|read| read.state == State::Waiting);
        waiting
            .map(|read| {
                read.state = State::Asked;
                read.number
            })
            .collect()
    }

    /// The commit index that read `number` must cover.
    pub(crate) fn answer(&mut self, number: u64, index: RaftIndex) {
        // Numbers are dense from the oldest open read on.
        let oldest = self.open.front().map_or(self.next, |read| read.number);
        let position = number.checked_sub(oldest).and_then(|distance| distance.try_into().ok());
        let read = position.and_then(|position: usize| self.open.get_mut(position));
        let read = read.expect("an answered read is open");
        assert_eq!(read.number, number, "reads are numbered without a gap");
        assert_eq!(read.state, State::Asked, "a read is answered once");
        read.state = State::Covers(index);
    }

    /// Takes the ticket of the oldest read if the state covers it. `applied_below` tells whether
    /// all records below a position are applied.
    pub(crate) fn finish(
        &mut self,
        applied: RaftIndex,
        applied_below: impl Fn(Position) -> bool,
    ) -> Option<u64> {
        let read = self.open.front()?;
        let State::Covers(index) = read.state else { return None };
        if index > applied || !applied_below(read.until) {
            return None;
        }
        self.open.pop_front().map(|read| read.ticket)
    }

    /// Panics unless later reads cover at least as much as earlier ones.
    pub(crate) fn validate(&self, durable_end: Position) {
        let mut previous = (None, Position::default());
        for read in &self.open {
            assert!(previous.0 < Some(read.number), "reads are numbered up");
            assert!(previous.1 <= read.until, "a later read covers no less");
            assert!(read.until <= durable_end, "a read covers what was acknowledged");
            previous = (Some(read.number), read.until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_waits_for_the_commit_index_and_for_its_records() {
        let mut reads = Reads::default();
        reads.open(70, Position::default());
        reads.open(71, Position::default());
        assert_eq!(reads.finish(RaftIndex(9), |_| true), None, "not asked for");
        assert_eq!(reads.ask(), [0, 1]);
        assert_eq!(reads.ask(), [] as [u64; 0], "asked once");
        reads.answer(1, RaftIndex(3));
        assert_eq!(reads.finish(RaftIndex(9), |_| true), None, "the older read comes first");
        reads.answer(0, RaftIndex(3));
        assert_eq!(reads.finish(RaftIndex(2), |_| true), None, "the entry is not applied");
        assert_eq!(reads.finish(RaftIndex(3), |_| false), None, "a record is not applied");
        assert_eq!(reads.finish(RaftIndex(3), |_| true), Some(70));
        assert_eq!(reads.finish(RaftIndex(3), |_| true), Some(71));
        assert_eq!(reads.finish(RaftIndex(3), |_| true), None);
    }
}
