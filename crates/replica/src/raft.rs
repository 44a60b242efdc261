//! The Raft library, and the only file that names it (crate `raft`, 0.7).
//!
//! What this file promises about it:
//! - **Deterministic.** The library draws election timeouts from `thread_rng`; after every call
//!   that may do so, [`Raft::settle_timeout`] replaces the draw by a function of (seed, node,
//!   term). Its hash maps use a fixed hasher.
//! - **Asynchronous persistence.** [`Raft::round`] hands out what must be stored and goes on at
//!   once; [`Raft::persisted`] reports rounds as durable, in order. One voter commits an entry
//!   when it reports the entry's round.
//! - **No protobuf from outside.** Only our own [`LogEntry`] is stored or read back, so the parser
//!   of RUSTSEC-2024-0437 never sees foreign bytes.

use std::ops::Range;

use anabranch_log::NodeId;
use raft::eraftpb::{ConfState, Entry, EntryType, HardState, Snapshot};
use raft::{
    Config as LibraryConfig, GetEntriesContext, RaftState, RawNode, StateRole, Storage,
    StorageError,
};

use crate::config::Config;
use crate::entries::{Entries, Place};
use crate::entry::{EntryKind, LogEntry, RaftIndex, Term, Vote};

/// Fixed part of an entry's size, for limits on messages.
const ENTRY_OVERHEAD_BYTES: u64 = 24;
const MESSAGE_BYTES_MAX: u64 = 1 << 20;
const INFLIGHT_MESSAGES_MAX: usize = 256;

pub(crate) struct Raft {
    node: RawNode<Store>,
    seed: u64,
    id: u64,
    /// Bounds of the randomized election timeout, in ticks.
    timeout: Range<u64>,
    /// Term and vote that were last given out to be stored, or restored.
    stored: (u64, u64),
}

/// What one round of the library asks for.
#[derive(Debug)]
pub(crate) struct Round {
    /// Rises from round to round.
    pub(crate) number: u64,
    /// To be made durable before the entries.
    pub(crate) vote: Option<Vote>,
    pub(crate) entries: Vec<LogEntry>,
    /// Entries newly committed, and durable here.
    pub(crate) committed: Vec<RaftIndex>,
    /// Read numbers with the commit index they must cover.
    pub(crate) reads: Vec<(u64, RaftIndex)>,
}

/// The library could not make a node of a state that passed our own checks, or refused a call
/// that a leader may make: a bug here, never the world.
const BUG: &str = "the raft library refused a valid call";

impl Raft {
    /// A follower in the restored state. The commit index is taken from the vote, or from the
    /// base of the log if that is newer.
    pub(crate) fn new(config: &Config, vote: Vote, entries: Entries) -> Raft {
        let base = entries.base().0;
        let commit = vote.commit.max(base);
        assert!(commit <= entries.last_index(), "a committed entry is in the log");
        let hard_vote = vote.voted_for.map_or(0, |node| node.0);
        let hard = HardState {
            term: vote.term.0,
            vote: hard_vote,
            commit: commit.0,
            ..HardState::default()
        };
        let voters = config.voters.iter().map(|node| node.0).collect();
        let voters = ConfState { voters, ..ConfState::default() };
        let election_tick = usize::from(config.election_ticks);
        let library = LibraryConfig {
            id: config.node.0,
            election_tick,
            heartbeat_tick: usize::from(config.heartbeat_ticks),
            applied: base.0,
            max_size_per_msg: MESSAGE_BYTES_MAX,
            max_inflight_msgs: INFLIGHT_MESSAGES_MAX,
            check_quorum: true,
            pre_vote: true,
            // Equal bounds of all nodes let elections livelock: never the bare election tick.
            min_election_tick: election_tick + 1,
            max_election_tick: 2 * election_tick,
            ..LibraryConfig::default()
        };
        let timeout = library.min_election_tick as u64..library.max_election_tick as u64;
        let store = Store { entries, initial: RaftState::new(hard, voters) };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let node = RawNode::new(&library, store, &logger).expect(BUG);
        let (seed, id, stored) = (config.seed, config.node.0, (vote.term.0, hard_vote));
        let mut raft = Raft { node, seed, id, timeout, stored };
        raft.settle_timeout();
        raft
    }

    pub(crate) fn tick(&mut self) {
        self.node.tick();
        self.settle_timeout();
    }

    /// Stands for election. One voter wins at once, but is not known to have won before its
    /// vote is durable; that is for the caller to hold.
    pub(crate) fn campaign(&mut self) {
        self.node.campaign().expect(BUG);
        self.settle_timeout();
    }

    /// Appends an entry to the leader's log; it comes out of the next round at the index given.
    pub(crate) fn propose(&mut self, index: RaftIndex, data: Vec<u8>) {
        assert!(self.is_leader(), "only a leader proposes");
        assert_eq!(index, self.next_index(), "a proposal takes the next index");
        self.node.propose(Vec::new(), data).expect(BUG);
        assert_eq!(index.next(), self.next_index(), "a leader's proposal is never dropped");
        self.settle_timeout();
    }

    /// Asks which commit index a read beginning now must cover. A later round answers.
    pub(crate) fn read(&mut self, number: u64) {
        assert!(self.committed_in_term(), "the library drops reads before that");
        self.node.read_index(number.to_le_bytes().to_vec());
        self.settle_timeout();
    }

    /// The rounds through `number` are durable.
    pub(crate) fn persisted(&mut self, number: u64) {
        self.node.on_persist_ready(number);
        self.settle_timeout();
    }

    /// The next round, if there is anything to do. Its committed entries count as applied.
    pub(crate) fn round(&mut self) -> Option<Round> {
        if !self.node.has_ready() {
            return None;
        }
        let mut work = self.node.ready();
        assert!(work.messages().is_empty(), "one voter has nobody to write to");
        assert!(work.persisted_messages().is_empty(), "one voter has nobody to write to");
        let number = work.number();
        let hard = work.hs().cloned();
        let entries: Vec<_> = work.take_entries().iter().map(from_library).collect();
        let committed = work.take_committed_entries();
        let committed = committed.into_iter().map(|entry| RaftIndex(entry.index)).collect();
        let answers = work.take_read_states().into_iter().map(|state| {
            let number = state.request_ctx.as_slice().try_into().expect("a context is a number");
            (u64::from_le_bytes(number), RaftIndex(state.index))
        });
        let reads = answers.collect();
        // The library reads stored entries back from here, durable or not.
        for entry in &entries {
            self.node.mut_store().entries.append(entry.clone(), None);
        }
        self.node.advance_append_async(work);
        self.node.advance_apply();
        self.settle_timeout();
        let vote = hard.and_then(|hard| self.vote_to_store(&hard));
        Some(Round { number, vote, entries, committed, reads })
    }

    /// The vote to store for a changed hard state: none if only the commit index moved.
    fn vote_to_store(&mut self, hard: &HardState) -> Option<Vote> {
        if self.stored == (hard.term, hard.vote) {
            return None;
        }
        self.stored = (hard.term, hard.vote);
        let durable = RaftIndex(self.node.raft.raft_log.persisted);
        let voted_for = Some(hard.vote).filter(|&node| node != 0).map(NodeId);
        // A stored commit index never runs ahead of the entries stored.
        let commit = RaftIndex(hard.commit).min(durable);
        Some(Vote { term: Term(hard.term), voted_for, commit })
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.node.raft.state == StateRole::Leader
    }

    pub(crate) fn term(&self) -> Term {
        Term(self.node.raft.term)
    }

    pub(crate) fn leader(&self) -> Option<NodeId> {
        Some(self.node.raft.leader_id).filter(|&node| node != 0).map(NodeId)
    }

    /// Whether an entry of the current term is committed.
    pub(crate) fn committed_in_term(&self) -> bool {
        self.is_leader() && self.node.raft.commit_to_current_term()
    }

    pub(crate) fn committed(&self) -> RaftIndex {
        RaftIndex(self.node.raft.raft_log.committed)
    }

    /// Entries through here are durable, as far as reported.
    pub(crate) fn durable(&self) -> RaftIndex {
        RaftIndex(self.node.raft.raft_log.persisted)
    }

    pub(crate) fn applied(&self) -> RaftIndex {
        RaftIndex(self.node.raft.raft_log.applied())
    }

    /// The index that the next entry gets.
    pub(crate) fn next_index(&self) -> RaftIndex {
        RaftIndex(self.node.raft.raft_log.last_index()).next()
    }

    pub(crate) fn entries(&self) -> &Entries {
        &self.node.store().entries
    }

    pub(crate) fn written(&mut self, first: RaftIndex, last: RaftIndex, place: Place) {
        self.node.mut_store().entries.written(first, last, place);
    }

    pub(crate) fn lower_floor(&mut self, index: RaftIndex, mark: crate::entry::Mark) {
        self.node.mut_store().entries.lower_floor(index, mark);
    }

    pub(crate) fn compact(&mut self, index: RaftIndex) {
        assert!(index <= self.applied(), "only applied entries are compacted");
        self.node.mut_store().entries.compact(index);
    }

    /// Replaces the library's random election timeout.
    fn settle_timeout(&mut self) {
        let mixed = mix(self.seed ^ mix(self.id ^ mix(self.node.raft.term)));
        let ticks = self.timeout.start + mixed % (self.timeout.end - self.timeout.start);
        let ticks = usize::try_from(ticks).expect("ticks come from 16-bit settings");
        self.node.raft.set_randomized_election_timeout(ticks);
    }
}

/// Finalizer of splitmix64: a fixed bijection that spreads every input bit.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn from_library(entry: &Entry) -> LogEntry {
    assert_eq!(entry.get_entry_type(), EntryType::EntryNormal, "no membership change is proposed");
    let kind = if entry.data.is_empty() { EntryKind::Noop } else { EntryKind::Records };
    let data = entry.data.to_vec();
    LogEntry { index: RaftIndex(entry.index), term: Term(entry.term), kind, data }
}

fn to_library(entry: &LogEntry) -> Entry {
    let data = entry.data.clone().into();
    Entry { index: entry.index.0, term: entry.term.0, data, ..Entry::default() }
}

/// Log metadata as the library reads it.
struct Store {
    entries: Entries,
    /// State at the start of this run; the library asks once.
    initial: RaftState,
}

impl Storage for Store {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(self.initial.clone())
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low < self.entries.first_index().0 {
            return Err(StorageError::Compacted.into());
        }
        let mut left = max_size.into().unwrap_or(u64::MAX);
        let mut found = Vec::new();
        for index in low..high {
            let entry = self.entries.get(RaftIndex(index)).ok_or(StorageError::Unavailable)?;
            let size = entry.data.len() as u64 + ENTRY_OVERHEAD_BYTES;
            if size > left && !found.is_empty() {
                break;
            }
            left = left.saturating_sub(size);
            found.push(to_library(entry));
        }
        Ok(found)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if RaftIndex(index) < self.entries.base().0 {
            return Err(StorageError::Compacted.into());
        }
        let term = self.entries.term(RaftIndex(index)).ok_or(StorageError::Unavailable)?;
        Ok(term.0)
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.entries.first_index().0)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.entries.last_index().0)
    }

    fn snapshot(&self, _request_index: u64, _to: u64) -> raft::Result<Snapshot> {
        Err(StorageError::SnapshotTemporarilyUnavailable.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Election timeouts after a start and two elections.
    fn timeouts(seed: u64) -> Vec<usize> {
        let config = Config::single(NodeId(1), seed);
        let mut raft = Raft::new(&config, Vote::default(), Entries::new(Default::default()));
        let mut timeouts = vec![raft.node.raft.randomized_election_timeout()];
        raft.campaign();
        timeouts.push(raft.node.raft.randomized_election_timeout());
        raft.tick();
        timeouts.push(raft.node.raft.randomized_election_timeout());
        timeouts
    }

    #[test]
    fn election_timeouts_follow_from_the_seed_and_stay_in_bounds() {
        let all: Vec<_> = (0..64).map(timeouts).collect();
        assert_eq!(all, (0..64).map(timeouts).collect::<Vec<_>>());
        let bounds = 11..20;
        assert!(all.iter().flatten().all(|ticks| bounds.contains(ticks)));
        for ticks in bounds {
            assert!(all.iter().flatten().any(|found| *found == ticks), "{ticks} is never chosen");
        }
        assert!(all.iter().any(|one| one[0] != one[1]), "the term matters");
        assert!(all.iter().all(|one| one[1] == one[2]), "within a term it stays");
    }
}
