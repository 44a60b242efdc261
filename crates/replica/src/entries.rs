//! The Raft log in memory: entries after a compaction base, and where their bytes lie.
//!
//! Invariants: indexes are contiguous from `base + 1`; terms never fall; every entry that is
//! written has `floor <= last`, and an entry is written only if all before it are.
//! Payloads are not here, so the whole log since the last checkpoint fits in memory.

use std::collections::VecDeque;

use crate::entry::{LogEntry, Mark, RaftIndex, Term};

#[derive(Debug)]
pub(crate) struct Entries {
    /// The entry before the first one held; (0, 0) if nothing was ever compacted.
    base: (RaftIndex, Term),
    held: VecDeque<Held>,
}

#[derive(Debug)]
struct Held {
    entry: LogEntry,
    /// `None` until the entry stands in the journal.
    place: Option<Place>,
}

/// Journal records of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Oldest record needed to apply the entry again, as far as known.
    pub(crate) floor: Mark,
    /// The entry is durable when the journal is durable through here.
    pub(crate) last: Mark,
}

impl Entries {
    pub(crate) fn new(base: (RaftIndex, Term)) -> Entries {
        Entries { base, held: VecDeque::new() }
    }

    pub(crate) fn base(&self) -> (RaftIndex, Term) {
        self.base
    }

    pub(crate) fn first_index(&self) -> RaftIndex {
        self.base.0.next()
    }

    pub(crate) fn last_index(&self) -> RaftIndex {
        self.held.back().map_or(self.base.0, |held| held.entry.index)
    }

    /// Term of an entry held, or of the base.
    pub(crate) fn term(&self, index: RaftIndex) -> Option<Term> {
        if index == self.base.0 {
            return Some(self.base.1);
        }
        self.get(index).map(|entry| entry.term)
    }

    pub(crate) fn get(&self, index: RaftIndex) -> Option<&LogEntry> {
        self.position(index).map(|position| &self.held[position].entry)
    }

    pub(crate) fn place(&self, index: RaftIndex) -> Option<Place> {
        self.position(index).and_then(|position| self.held[position].place)
    }

    pub(crate) fn append(&mut self, entry: LogEntry, place: Option<Place>) {
        assert_eq!(entry.index, self.last_index().next(), "the log has no gap");
        let last_term = self.held.back().map_or(self.base.1, |held| held.entry.term);
        assert!(entry.term >= last_term, "terms never fall");
        self.held.push_back(Held { entry, place });
    }

    /// The entries `first..=last` stand in the journal.
    pub(crate) fn written(&mut self, first: RaftIndex, last: RaftIndex, place: Place) {
        assert!(place.floor <= place.last, "a batch begins before it ends");
        for index in first.0..=last.0 {
            let position = self.position(RaftIndex(index)).expect("written entries are held");
            let held = &mut self.held[position];
            assert_eq!(held.place, None, "an entry is written once");
            held.place = Some(place);
        }
    }

    /// Applying the entry again would need the journal from `mark` on.
    pub(crate) fn lower_floor(&mut self, index: RaftIndex, mark: Mark) {
        let position = self.position(index).expect("an applied entry is held");
        let place = self.held[position].place.as_mut().expect("an applied entry is written");
        place.floor = place.floor.min(mark);
    }

    /// Oldest journal record that applying the entries after `index` needs.
    pub(crate) fn floor_after(&self, index: RaftIndex) -> Option<Mark> {
        let later = self.held.iter().filter(|held| held.entry.index > index);
        later.filter_map(|held| held.place).map(|place| place.floor).min()
    }

    /// Forgets the entries through `index`, which must be held (or be the base).
    pub(crate) fn compact(&mut self, index: RaftIndex) {
        let term = self.term(index).expect("a checkpoint stands at an entry of the log");
        while self.held.front().is_some_and(|held| held.entry.index <= index) {
            self.held.pop_front();
        }
        self.base = (index, term);
    }

    fn position(&self, index: RaftIndex) -> Option<usize> {
        let distance = index.0.checked_sub(self.first_index().0)?;
        usize::try_from(distance).ok().filter(|&position| position < self.held.len())
    }

    /// Panics unless the invariants above hold at the ends of the log (all of it is too much for
    /// each step, and entries do not change).
    pub(crate) fn validate(&self) {
        if let Some(first) = self.held.front() {
            assert_eq!(first.entry.index, self.first_index(), "the log begins after its base");
            assert!(first.entry.term >= self.base.1, "terms never fall");
        }
        let count = u64::try_from(self.held.len()).expect("a length fits 64 bits");
        assert_eq!(self.last_index().0, self.base.0.0 + count, "the log has no gap");
    }
}
