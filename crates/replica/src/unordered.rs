//! The unordered log (UL): what was received and is not applied yet, in arrival order.
//!
//! Invariants:
//! - a position never moves and is never given twice; marks rise with positions;
//! - a record is durable exactly if its position is below `durable_end`;
//! - a record is ordered (an entry of the log names it) only if it is durable;
//! - every record below `order_from` is ordered, and `order_from <= durable_end`;
//! - a record leaves only when the entry that orders it is applied.
//!
//! A record is known by (id, digest): one id with two digests is refused on arrival.

use std::collections::BTreeMap;

use anabranch_log::{Digest, WriteId};

use crate::entry::{Mark, RaftIndex};

/// Place in arrival order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position(u64);

#[derive(Debug)]
struct Record {
    id: WriteId,
    digest: Digest,
    mark: Mark,
    /// The entry that orders it.
    ordered: Option<RaftIndex>,
}

/// What became of a payload that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receipt {
    /// It stands at the end of the log.
    New,
    /// It was held already, and keeps its position.
    Again { durable: Option<Mark> },
    /// The id is held with this other digest.
    Mismatch { held: Digest },
}

#[derive(Debug, Default)]
pub(crate) struct Unordered {
    records: BTreeMap<Position, Record>,
    positions: BTreeMap<(WriteId, Digest), Position>,
    /// The next position to be given.
    end: Position,
    durable_end: Position,
    order_from: Position,
    /// Records below are to be ordered without waiting for more.
    forced_end: Position,
    /// Number of durable records that are not ordered.
    waiting: usize,
}

impl Unordered {
    /// Takes a payload that stands in the journal.
    pub(crate) fn receive(&mut self, id: WriteId, digest: Digest, mark: Mark) -> Receipt {
        if let Some((held, known_at)) = self.find(&id) {
            if held != digest {
                return Receipt::Mismatch { held };
            }
            let durable = known_at < self.durable_end;
            return Receipt::Again { durable: durable.then(|| self.records[&known_at].mark) };
        }
        self.push(id, digest, mark);
        Receipt::New
    }

    /// Adds a record at the end; the caller knows that it is new.
    pub(crate) fn push(&mut self, id: WriteId, digest: Digest, mark: Mark) {
        let last = self.records.last_key_value();
        assert!(last.is_none_or(|(_, last)| last.mark < mark), "marks rise with positions");
        let twin = self.positions.insert((id, digest), self.end);
        assert_eq!(twin, None, "a position never moves");
        self.records.insert(self.end, Record { id, digest, mark, ordered: None });
        self.end = Position(self.end.0 + 1);
    }

    /// The record held under an id: digest and whether it is durable.
    pub(crate) fn held(&self, id: &WriteId) -> Option<(Digest, bool)> {
        self.find(id).map(|(digest, position)| (digest, position < self.durable_end))
    }

    fn find(&self, id: &WriteId) -> Option<(Digest, Position)> {
        let range = (*id, Digest([0; 32]))..=(*id, Digest([0xff; 32]));
        self.positions.range(range).next().map(|(key, position)| (key.1, *position))
    }

    pub(crate) fn mark(&self, id: &WriteId, digest: &Digest) -> Option<Mark> {
        self.positions.get(&(*id, *digest)).map(|position| self.records[position].mark)
    }

    /// Everything through `through` is durable; the ids of which this is news, in order, and the
    /// mark of the last.
    pub(crate) fn persist(&mut self, through: Mark) -> Option<(Vec<WriteId>, Mark)> {
        let news = self.records.range(self.durable_end..);
        let news: Vec<_> = news.take_while(|(_, record)| record.mark <= through).collect();
        let (&last_position, last) = *news.last()?;
        let (ids, mark) = (news.iter().map(|(_, record)| record.id).collect(), last.mark);
        self.waiting += news.len();
        self.durable_end = Position(last_position.0 + 1);
        Some((ids, mark))
    }

    /// An entry already in the log orders the record, if it is here and no earlier entry does.
    pub(crate) fn set_ordered(&mut self, id: &WriteId, digest: &Digest, index: RaftIndex) {
        let Some(position) = self.positions.get(&(*id, *digest)) else { return };
        assert!(*position < self.durable_end, "only a durable record is ordered");
        let record = self.records.get_mut(position).expect("a known position is held");
        if record.ordered.is_none() {
            record.ordered = Some(index);
            self.waiting -= 1;
        }
    }

    /// Records below the returned position are acknowledged; a read that begins now covers them.
    pub(crate) fn durable_end(&self) -> Position {
        self.durable_end
    }

    /// Order what is durable without waiting for more.
    pub(crate) fn force_durable(&mut self) {
        self.forced_end = self.forced_end.max(self.durable_end);
    }

    /// Order what was received without waiting for more, each record as soon as it is durable.
    pub(crate) fn force_all(&mut self) {
        self.forced_end = self.end;
    }

    /// Whether an order is to be proposed: something forced waits, or `enough` records do.
    pub(crate) fn order_due(&self, enough: usize) -> bool {
        self.waiting >= enough || (self.waiting > 0 && self.order_from < self.forced_end)
    }

    /// Takes the oldest waiting records, at most `max`, as ordered by the entry at `index`.
    pub(crate) fn order(&mut self, max: usize, index: RaftIndex) -> Vec<(WriteId, Digest)> {
        let mut batch = Vec::new();
        for (position, record) in self.records.range_mut(self.order_from..self.durable_end) {
            if batch.len() == max {
                break;
            }
            if record.ordered.is_none() {
                record.ordered = Some(index);
                batch.push((record.id, record.digest));
            }
            self.order_from = Position(position.0 + 1);
        }
        self.waiting -= batch.len();
        batch
    }

    /// The entry at `index` is applied: its records leave. The oldest of their marks.
    pub(crate) fn apply(
        &mut self,
        index: RaftIndex,
        records: &[(WriteId, Digest)],
    ) -> Option<Mark> {
        let mut oldest: Option<Mark> = None;
        for key in records {
            // Absent if an earlier entry orders the same id: a retry after it was applied.
            let Some(&position) = self.positions.get(key) else { continue };
            let record = &self.records[&position];
            assert_eq!(record.ordered, Some(index), "a record leaves with the entry ordering it");
            oldest = Some(oldest.map_or(record.mark, |oldest| oldest.min(record.mark)));
            self.positions.remove(key);
            self.records.remove(&position);
        }
        oldest
    }

    /// The oldest record that is held.
    pub(crate) fn first(&self) -> Option<(Position, Mark)> {
        self.records.first_key_value().map(|(position, record)| (*position, record.mark))
    }

    /// Whether every record below `end` has been applied.
    pub(crate) fn applied_below(&self, end: Position) -> bool {
        self.first().is_none_or(|(first, _)| first >= end)
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Panics unless the invariants above hold. `durable` is the end of the durable journal,
    /// `applied` and `last` are ends of the Raft log.
    pub(crate) fn validate(&self, durable: Mark, applied: RaftIndex, last: RaftIndex) {
        assert_eq!(self.records.len(), self.positions.len(), "positions index the records");
        assert!(self.durable_end <= self.end, "only what was received is durable");
        assert!(self.order_from <= self.durable_end, "only what is durable is ordered");
        let (mut previous, mut waiting) = (None, 0);
        for (position, record) in &self.records {
            let known = self.positions.get(&(record.id, record.digest));
            assert_eq!(known, Some(position), "positions index the records");
            assert!(previous < Some(record.mark), "marks rise with positions");
            previous = Some(record.mark);
            let is_durable = *position < self.durable_end;
            assert_eq!(is_durable, record.mark <= durable, "durable is what the journal says");
            waiting += usize::from(is_durable && record.ordered.is_none());
            if let Some(index) = record.ordered {
                assert!(is_durable, "only a durable record is ordered");
                assert!(index > applied, "a record leaves when its entry is applied");
                assert!(index <= last, "an entry of the log orders it");
            } else {
                assert!(*position >= self.order_from, "below order_from all is ordered");
            }
        }
        assert_eq!(self.waiting, waiting, "the count of waiting records is right");
    }
}
