//! What a replica finds after a restart, and whether that can be true.
//!
//! All of it comes from the disk, so nothing here is asserted: what contradicts itself is a
//! [`StartError`], and the replica does not start. Nothing is dropped to make it fit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anabranch_log::{Digest, WriteId};

use crate::config::ConfigError;
use crate::entries::{Entries, Place};
use crate::entry::{LogEntry, Mark, RaftIndex, Term, Vote};
use crate::order::{MalformedOrder, Order};
use crate::unordered::Unordered;

/// Durable state, as read back after a restart. `default()` is a node that never ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// The newest vote.
    pub vote: Vote,
    /// Raft index and term at which the state was restored from a checkpoint, if any.
    pub snapshot: Option<(RaftIndex, Term)>,
    /// Every entry found in the journal, by index, without a gap. Those at or below the snapshot
    /// may be there; they tell which records are ordered, and are not applied again.
    pub entries: Vec<StoredEntry>,
    /// Every payload found in the journal, in journal order, ordered or not.
    pub payloads: Vec<StoredPayload>,
}

/// An entry with its journal record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    /// As it was in [`crate::Effect::WriteEntries`].
    pub entry: LogEntry,
    /// Its journal record.
    pub mark: Mark,
}

/// A payload with its journal record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredPayload {
    /// Names the write.
    pub id: WriteId,
    /// BLAKE3 of the payload.
    pub digest: Digest,
    /// Its journal record.
    pub mark: Mark,
}

/// Why a replica does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The settings contradict themselves.
    Config(ConfigError),
    /// Indexes of stored entries jump, or begin beyond the snapshot.
    Gap {
        /// The index that should have come.
        expected: RaftIndex,
        /// The index that came.
        found: RaftIndex,
    },
    /// Terms of stored entries fall.
    TermFalls {
        /// The later entry.
        index: RaftIndex,
    },
    /// The stored entry at the snapshot's index has another term than the snapshot.
    SnapshotTerm {
        /// Index of both.
        index: RaftIndex,
    },
    /// The log has a term that the vote has not reached: the vote is older than it was.
    VoteBehind {
        /// Term of the vote.
        vote: Term,
        /// Newest term in log and snapshot.
        log: Term,
    },
    /// Entries known to be committed are missing at the end of the log.
    CommitBeyondLog {
        /// Commit index in the vote.
        commit: RaftIndex,
        /// Last entry found.
        last: RaftIndex,
    },
    /// Marks of entries or of payloads do not rise.
    MarkFalls {
        /// The later record.
        mark: Mark,
    },
    /// The data of an entry is no order.
    Malformed {
        /// The entry.
        index: RaftIndex,
        /// What is wrong.
        why: MalformedOrder,
    },
    /// An entry after the snapshot orders a payload that the journal does not hold before it.
    PayloadMissing {
        /// The entry.
        index: RaftIndex,
        /// The write whose payload is missing.
        id: WriteId,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Config(_) => f.write_str("settings of the replica are invalid"),
            StartError::Gap { expected, found } => {
                write!(f, "raft entries are missing, expected={expected} found={found}")
            }
            StartError::TermFalls { index } => {
                write!(f, "the term falls in the raft log, index={index}")
            }
            StartError::SnapshotTerm { index } => {
                write!(f, "checkpoint and raft log disagree about a term, index={index}")
            }
            StartError::VoteBehind { vote, log } => {
                write!(f, "the vote is older than the raft log, vote={vote} log={log}")
            }
            StartError::CommitBeyondLog { commit, last } => {
                write!(f, "committed raft entries are missing, commit={commit} last={last}")
            }
            StartError::MarkFalls { mark } => {
                write!(f, "journal records are out of order, record={mark}")
            }
            StartError::Malformed { index, .. } => {
                write!(f, "a raft entry is malformed, index={index}")
            }
            StartError::PayloadMissing { index, id } => {
                write!(f, "an ordered payload is missing, index={index} id={id}")
            }
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Config(source) => Some(source),
            StartError::Malformed { why, .. } => Some(why),
            _ => None,
        }
    }
}

/// Checked parts of a restored state.
pub(crate) struct Parts {
    pub(crate) entries: Entries,
    pub(crate) unordered: Unordered,
    /// Everything found is durable.
    pub(crate) durable: Mark,
}

/// Records of each entry, decoded.
struct Ordered {
    index: RaftIndex,
    mark: Mark,
    records: Vec<(WriteId, Digest)>,
}

impl Restored {
    /// Checks the state and takes it apart.
    pub(crate) fn check(self) -> Result<Parts, StartError> {
        let base = self.snapshot.unwrap_or_default();
        self.check_marks()?;
        self.check_entries(base)?;
        let last = self.entries.last().map_or(base.0, |stored| stored.entry.index.max(base.0));
        if self.vote.commit > last {
            return Err(StartError::CommitBeyondLog { commit: self.vote.commit, last });
        }
        let orders = self.decode_orders()?;
        let (done, open) = orders.split_at(orders.partition_point(|order| order.index <= base.0));
        let floors = floors(&self.payloads, open)?;
        let durable = self.last_mark();
        let unordered = restore_unordered(&self.payloads, done, open, durable);
        let mut entries = Entries::new(base);
        for (StoredEntry { entry, mark }, floor) in
            self.entries.into_iter().skip(done.len()).zip(floors)
        {
            entries.append(entry, Some(Place { floor, last: mark }));
        }
        Ok(Parts { entries, unordered, durable })
    }

    fn check_marks(&self) -> Result<(), StartError> {
        let entries = self.entries.windows(2).map(|pair| (pair[0].mark, pair[1].mark));
        let payloads = self.payloads.windows(2).map(|pair| (pair[0].mark, pair[1].mark));
        match entries.chain(payloads).find(|(earlier, later)| earlier >= later) {
            Some((_, mark)) => Err(StartError::MarkFalls { mark }),
            None => Ok(()),
        }
    }

    fn check_entries(&self, base: (RaftIndex, Term)) -> Result<(), StartError> {
        let mut newest = base.1;
        if let Some(first) = self.entries.first()
            && first.entry.index > base.0.next()
        {
            return Err(StartError::Gap { expected: base.0.next(), found: first.entry.index });
        }
        for pair in self.entries.windows(2) {
            let (earlier, later) = (&pair[0].entry, &pair[1].entry);
            if later.index != earlier.index.next() {
                return Err(StartError::Gap { expected: earlier.index.next(), found: later.index });
            }
            if later.term < earlier.term {
                return Err(StartError::TermFalls { index: later.index });
            }
        }
        for StoredEntry { entry, .. } in &self.entries {
            if entry.index == base.0 && entry.term != base.1 {
                return Err(StartError::SnapshotTerm { index: entry.index });
            }
            if entry.index > base.0 && entry.term < base.1 {
                return Err(StartError::TermFalls { index: entry.index });
            }
            newest = newest.max(entry.term);
        }
        if newest > self.vote.term {
            return Err(StartError::VoteBehind { vote: self.vote.term, log: newest });
        }
        Ok(())
    }

    fn decode_orders(&self) -> Result<Vec<Ordered>, StartError> {
        let decode = |stored: &StoredEntry| {
            let (index, mark) = (stored.entry.index, stored.mark);
            match Order::decode(stored.entry.kind, &stored.entry.data) {
                Ok(Order::Noop) => Ok(Ordered { index, mark, records: Vec::new() }),
                Ok(Order::Records(records)) => Ok(Ordered { index, mark, records }),
                Err(why) => Err(StartError::Malformed { index, why }),
            }
        };
        self.entries.iter().map(decode).collect()
    }

    fn last_mark(&self) -> Mark {
        let entry = self.entries.last().map_or(Mark(0), |stored| stored.mark);
        entry.max(self.payloads.last().map_or(Mark(0), |stored| stored.mark))
    }
}

/// For each entry to be applied again, the oldest payload it needs. Of several copies that is the
/// newest one before the entry: an older copy belongs to an earlier order of the same id, and may
/// go with it at a later checkpoint.
fn floors(payloads: &[StoredPayload], open: &[Ordered]) -> Result<Vec<Mark>, StartError> {
    let mut copies: BTreeMap<(WriteId, Digest), Vec<Mark>> = BTreeMap::new();
    for payload in payloads {
        copies.entry((payload.id, payload.digest)).or_default().push(payload.mark);
    }
    let floor = |order: &Ordered| {
        let mut floor = order.mark;
        for key in &order.records {
            let marks = copies.get(key).map_or(&[] as &[Mark], Vec::as_slice);
            let newest = marks.iter().rfind(|&&mark| mark < order.mark);
            let missing = StartError::PayloadMissing { index: order.index, id: key.0 };
            floor = floor.min(*newest.ok_or(missing)?);
        }
        Ok(floor)
    };
    open.iter().map(floor).collect()
}

/// The unordered log: payloads that no entry through the snapshot (`done`) orders.
fn restore_unordered(
    payloads: &[StoredPayload],
    done: &[Ordered],
    open: &[Ordered],
    durable: Mark,
) -> Unordered {
    let keys = |orders: &[Ordered]| -> BTreeSet<(WriteId, Digest)> {
        orders.iter().flat_map(|order| order.records.iter().copied()).collect()
    };
    let (done, needed) = (keys(done), keys(open));
    let mut unordered = Unordered::default();
    for payload in payloads {
        let key = (payload.id, payload.digest);
        let is_needed = needed.contains(&key);
        // A second copy keeps the first position; a second payload of an id was refused.
        let is_known = match unordered.held(&payload.id) {
            None => false,
            Some(_) if is_needed => unordered.mark(&payload.id, &payload.digest).is_some(),
            Some(_) => true,
        };
        if !is_known && (is_needed || !done.contains(&key)) {
            unordered.push(payload.id, payload.digest, payload.mark);
        }
    }
    unordered.persist(durable);
    for order in open {
        for (id, digest) in &order.records {
            unordered.set_ordered(id, digest, order.index);
        }
    }
    unordered
}
