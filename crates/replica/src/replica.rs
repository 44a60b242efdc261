//! The owner: events in, effects out.

use anabranch_log::{Digest, NodeId, WriteId};

use crate::config::Config;
use crate::effect::Effect;
use crate::entries::Place;
use crate::entry::{Mark, RaftIndex, Term, Vote};
use crate::event::Event;
use crate::order::Order;
use crate::raft::Raft;
use crate::read::Reads;
use crate::restore::{Restored, StartError};
use crate::unordered::{Receipt, Unordered};
use crate::writes::Writes;

/// Debug builds validate after each step while no more records than this are held: the check
/// walks over them, and a bulk load would become quadratic.
const VALIDATED_RECORDS_MAX: usize = 256;

/// One replica of one space: a state machine without clock, disk, thread or randomness.
///
/// Equal settings, restored states and events give equal effects.
pub struct Replica {
    pub(crate) raft: Raft,
    pub(crate) unordered: Unordered,
    pub(crate) writes: Writes,
    pub(crate) reads: Reads,
    /// Journal records through here are durable. Never falls.
    pub(crate) durable: Mark,
    /// The newest vote that is durable. Its term never falls, and is never above the library's.
    pub(crate) durable_vote: Vote,
    /// Who leads, as told by the newest `LeaderChanged`. Its term is durable here.
    pub(crate) leader: Option<(NodeId, Term)>,
    order_at: usize,
    batch_max: usize,
    /// Effects of the current step.
    effects: Vec<Effect>,
}

/// A record that is received and not yet applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Digest of its payload.
    pub digest: Digest,
    /// Whether it is durable, and so acknowledged.
    pub durable: bool,
}

/// Where a replica stands; for people and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Newest term this node has taken part in, durable or not.
    pub term: Term,
    /// The leader, once its term is durable here.
    pub leader: Option<NodeId>,
    /// Last entry of the log, durable or not.
    pub last: RaftIndex,
    /// Newest committed entry.
    pub committed: RaftIndex,
    /// Newest applied entry.
    pub applied: RaftIndex,
    /// Entries through this one are compacted.
    pub base: RaftIndex,
    /// Records received and not yet applied.
    pub unordered: usize,
}

impl Replica {
    /// Starts from what is durable. The effects re-apply what is known to be committed after the
    /// snapshot, and ask for the vote of an election: one voter stands at once.
    pub fn start(
        config: &Config,
        restored: Restored,
    ) -> Result<(Replica, Vec<Effect>), StartError> {
        config.check().map_err(StartError::Config)?;
        let vote = restored.vote;
        let parts = restored.check()?;
        let mut replica = Replica {
            raft: Raft::new(config, vote, parts.entries),
            unordered: parts.unordered,
            writes: Writes::default(),
            reads: Reads::default(),
            durable: parts.durable,
            durable_vote: vote,
            leader: None,
            order_at: config.order_at,
            batch_max: config.batch_max,
            effects: Vec::new(),
        };
        // What is known to be committed comes first: the library wants it out before an election.
        replica.pump();
        replica.raft.campaign();
        let effects = replica.finish_step();
        Ok((replica, effects))
    }

    /// Takes one event and returns what is to be done, to be carried out in order.
    ///
    /// Panics if the event contradicts the effects given out before: a bug of the caller.
    #[expect(clippy::needless_pass_by_value, reason = "an event is used up; not all stay plain")]
    pub fn step(&mut self, event: Event) -> Vec<Effect> {
        match event {
            Event::Tick => {
                self.raft.tick();
                self.unordered.force_durable();
            }
            Event::Received { id, digest, mark } => self.received(id, digest, mark),
            Event::EntriesWritten { batch, first, last } => {
                let (first_index, last_index) = self.writes.entries_written(batch, last);
                self.raft.written(first_index, last_index, Place { floor: first, last });
            }
            Event::Persisted { through } => self.durable = self.durable.max(through),
            Event::VotePersisted(vote) => {
                self.writes.vote_persisted(vote);
                assert!(vote.term >= self.durable_vote.term, "terms never fall");
                self.durable_vote = vote;
            }
            Event::Order => self.unordered.force_all(),
            Event::Read { ticket } => {
                self.reads.open(ticket, self.unordered.durable_end());
                self.unordered.force_durable();
            }
            Event::Checkpointed { index } => {
                if index > self.raft.entries().base().0 {
                    self.raft.compact(index);
                }
            }
        }
        self.finish_step()
    }

    fn received(&mut self, id: WriteId, digest: Digest, mark: Mark) {
        assert!(mark > Mark::default(), "journal records are numbered from 1");
        match self.unordered.receive(id, digest, mark) {
            Receipt::New | Receipt::Again { durable: None } => {}
            Receipt::Again { durable: Some(durable) } => {
                self.effects.push(Effect::Acknowledge { ids: vec![id], durable });
            }
            Receipt::Mismatch { held } => {
                self.effects.push(Effect::Refuse { id, received: digest, held });
            }
        }
    }

    /// Follows up on whatever the event made possible.
    fn finish_step(&mut self) -> Vec<Effect> {
        if let Some((ids, durable)) = self.unordered.persist(self.durable) {
            self.effects.push(Effect::Acknowledge { ids, durable });
        }
        if let Some(round) = self.writes.confirm(self.durable) {
            self.raft.persisted(round);
        }
        self.pump();
        self.announce_leader();
        if self.propose_orders() {
            self.pump();
        }
        if self.ask_reads() {
            self.pump();
        }
        self.finish_reads();
        if cfg!(debug_assertions) && self.unordered.len() <= VALIDATED_RECORDS_MAX {
            self.validate();
        }
        std::mem::take(&mut self.effects)
    }

    /// Runs the library until it has nothing more to say.
    fn pump(&mut self) {
        while let Some(round) = self.raft.round() {
            self.writes.push(round.number, round.vote, round.entries, &mut self.effects);
            for (read, index) in round.reads {
                self.reads.answer(read, index);
            }
            for index in round.committed {
                self.apply(index);
            }
        }
        self.writes.release(&mut self.effects);
    }

    fn apply(&mut self, index: RaftIndex) {
        let entry = self.raft.entries().get(index).expect("a committed entry is held");
        let place = self.raft.entries().place(index).expect("a committed entry is written");
        assert!(place.last <= self.durable, "a committed entry is durable here");
        let term = entry.term;
        let order = Order::decode(entry.kind, &entry.data).expect("an entry in the log is sound");
        if let Order::Records(records) = &order
            && let Some(oldest) = self.unordered.apply(index, records)
        {
            assert!(oldest < place.last, "a payload is durable before its order is written");
            self.raft.lower_floor(index, oldest);
        }
        self.effects.push(Effect::Apply { index, term, order, durable: place.last });
    }

    /// Leads only what is also on disk: an elected node whose vote is not durable could, after a
    /// crash, be elected again in the same term.
    fn leads(&self) -> bool {
        self.raft.is_leader() && self.raft.term() == self.durable_vote.term
    }

    fn announce_leader(&mut self) {
        let term = self.raft.term();
        if term != self.durable_vote.term {
            return;
        }
        let Some(leader) = self.raft.leader() else { return };
        if self.leader != Some((leader, term)) {
            self.leader = Some((leader, term));
            self.effects.push(Effect::LeaderChanged { leader, term });
        }
    }

    /// Proposes orders of what is durable, if due; whether it proposed.
    fn propose_orders(&mut self) -> bool {
        if !self.leads() || !self.unordered.order_due(self.order_at) {
            return false;
        }
        loop {
            let index = self.raft.next_index();
            let records = self.unordered.order(self.batch_max, index);
            if records.is_empty() {
                return true;
            }
            self.raft.propose(index, Order::Records(records).encode());
        }
    }

    fn ask_reads(&mut self) -> bool {
        if !self.raft.committed_in_term() {
            return false;
        }
        let numbers = self.reads.ask();
        for &number in &numbers {
            self.raft.read(number);
        }
        !numbers.is_empty()
    }

    fn finish_reads(&mut self) {
        let (applied, unordered) = (self.raft.applied(), &self.unordered);
        while let Some(ticket) = self.reads.finish(applied, |end| unordered.applied_below(end)) {
            self.effects.push(Effect::ReadReady { ticket, index: applied });
        }
    }

    /// The record held under an id, from its `Received` to its `Apply`. A retry with the same
    /// digest needs no second copy: if durable it is acknowledged, else its acknowledgement comes.
    #[must_use]
    pub fn held(&self, id: &WriteId) -> Option<Held> {
        self.unordered.held(id).map(|(digest, durable)| Held { digest, durable })
    }

    /// Oldest journal record still needed once a checkpoint at `checkpoint` is durable: to keep
    /// what is not applied, and to apply again what comes after it. `None`: no record so far.
    #[must_use]
    pub fn needed_from(&self, checkpoint: RaftIndex) -> Option<Mark> {
        let entries = self.raft.entries().floor_after(checkpoint);
        let unordered = self.unordered.first().map(|(_, mark)| mark);
        entries.into_iter().chain(unordered).min()
    }

    /// Where this replica stands.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            term: self.raft.term(),
            leader: self.leader.map(|(leader, _)| leader),
            last: self.raft.entries().last_index(),
            committed: self.raft.committed(),
            applied: self.raft.applied(),
            base: self.raft.entries().base().0,
            unordered: self.unordered.len(),
        }
    }
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replica").field("status", &self.status()).finish_non_exhaustive()
    }
}
