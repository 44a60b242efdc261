//! A caller as small as possible: a journal and a vote file in memory, which can crash.
//!
//! The desk carries out effects and keeps what is durable. It checks nothing but what it can know
//! alone: that each effect comes only after what it depends on.

use anabranch_log::{Digest, WriteId};
use anabranch_replica::{
    Config, Effect, Event, LogEntry, Mark, Order, Persisted, RaftIndex, Replica, Restored,
    StartError, StoredEntry, StoredPayload, Term, Vote,
};
use std::collections::{BTreeMap, VecDeque};

/// One journal record.
#[derive(Clone, Debug)]
pub(crate) enum Record {
    Payload(WriteId, Digest),
    Entry(LogEntry),
}

/// The disk of one replica, and the replica while it runs.
pub(crate) struct Desk {
    pub(crate) config: Config,
    pub(crate) replica: Option<Replica>,
    /// All records not dropped, by mark; those beyond `durable` are in the buffer.
    pub(crate) journal: BTreeMap<Mark, Record>,
    pub(crate) durable: Mark,
    /// Next journal record.
    pub(crate) next: u64,
    pub(crate) vote: Vote,
    pub(crate) votes_asked: VecDeque<Vote>,
    pub(crate) batches_asked: VecDeque<(u64, Vec<LogEntry>)>,
    pub(crate) snapshot: Option<(RaftIndex, Term)>,
    /// Whether batches are written as soon as they are asked for.
    pub(crate) write_at_once: bool,
}

impl Desk {
    pub(crate) fn new(config: Config) -> Desk {
        Desk {
            config,
            replica: None,
            journal: BTreeMap::new(),
            durable: Mark(0),
            next: 1,
            vote: Vote::default(),
            votes_asked: VecDeque::new(),
            batches_asked: VecDeque::new(),
            snapshot: None,
            write_at_once: true,
        }
    }

    pub(crate) fn restored(&self) -> Restored {
        let mut restored =
            Restored { vote: self.vote, snapshot: self.snapshot, ..Restored::default() };
        for (&mark, record) in &self.journal {
            match record {
                Record::Payload(id, digest) => {
                    restored.payloads.push(StoredPayload { id: *id, digest: *digest, mark });
                }
                Record::Entry(entry) => {
                    restored.entries.push(StoredEntry { entry: entry.clone(), mark });
                }
            }
        }
        restored
    }

    pub(crate) fn start(&mut self) -> Result<Vec<Effect>, StartError> {
        let (replica, effects) = Replica::start(&self.config, self.restored())?;
        self.replica = Some(replica);
        let mut all = effects.clone();
        self.carry_out(effects, &mut all);
        Ok(all)
    }

    /// Loses the process. Of the records in the buffer the oldest `survivors` reached the disk,
    /// and so did the vote being written if `vote_survives`.
    pub(crate) fn crash(&mut self, survivors: u64, vote_survives: bool) {
        self.replica = None;
        if vote_survives && let Some(vote) = self.votes_asked.pop_front() {
            self.vote = vote;
        }
        let end = Mark((self.durable.0 + survivors).min(self.next - 1));
        self.journal.retain(|mark, _| *mark <= end);
        self.durable = end;
        self.next = end.0 + 1;
        self.votes_asked.clear();
        self.batches_asked.clear();
    }

    pub(crate) fn step(&mut self, event: Event) -> Vec<Effect> {
        let effects = self.replica.as_mut().expect("the replica runs").step(event);
        let mut all = effects.clone();
        self.carry_out(effects, &mut all);
        all
    }

    /// Puts a payload into the journal buffer.
    pub(crate) fn receive(&mut self, id: WriteId, digest: Digest) -> Vec<Effect> {
        let mark = self.append(Record::Payload(id, digest));
        self.step(Event::Received { id, digest, mark })
    }

    pub(crate) fn persist(&mut self, through: Mark) -> Vec<Effect> {
        self.durable = self.durable.max(through.min(Mark(self.next - 1)));
        self.step(Event::Persisted { through: self.durable })
    }

    pub(crate) fn flush(&mut self) -> Vec<Effect> {
        self.persist(Mark(self.next - 1))
    }

    pub(crate) fn persist_vote(&mut self) -> Vec<Effect> {
        let vote = self.votes_asked.pop_front().expect("a vote was asked for");
        self.vote = vote;
        self.step(Event::VotePersisted(vote))
    }

    pub(crate) fn write_batch(&mut self) -> Vec<Effect> {
        let (batch, entries) = self.batches_asked.pop_front().expect("a batch was asked for");
        let first = Mark(self.next);
        for entry in entries {
            self.append(Record::Entry(entry));
        }
        self.step(Event::EntriesWritten { batch, first, last: Mark(self.next - 1) })
    }

    pub(crate) fn checkpoint(&mut self, index: RaftIndex, term: Term) -> Vec<Effect> {
        self.snapshot = Some((index, term));
        let effects = self.step(Event::Checkpointed { index });
        let replica = self.replica.as_ref().expect("the replica runs");
        let needed = replica.needed_from(index).unwrap_or(Mark(self.next));
        let keep_from = needed.min(Mark(self.durable.0 + 1));
        self.journal.retain(|mark, _| *mark >= keep_from);
        effects
    }

    fn append(&mut self, record: Record) -> Mark {
        let mark = Mark(self.next);
        self.next += 1;
        self.journal.insert(mark, record);
        mark
    }

    /// Notes what effects ask for; with `write_at_once`, writes batches and goes on with what
    /// follows from that. Every effect so far ends up in `all`.
    fn carry_out(&mut self, effects: Vec<Effect>, all: &mut Vec<Effect>) {
        for effect in effects {
            self.check(&effect);
            match effect {
                Effect::WriteVote(vote) => self.votes_asked.push_back(vote),
                Effect::WriteEntries { batch, entries } => {
                    self.batches_asked.push_back((batch, entries));
                }
                _ => {}
            }
        }
        while self.write_at_once && !self.batches_asked.is_empty() {
            let more = self.write_batch();
            all.extend(more);
        }
    }

    /// What the effect depends on is on the disk of the desk.
    fn check(&self, effect: &Effect) {
        match effect.after() {
            None => {}
            Some(Persisted::Journal(mark)) => assert!(mark <= self.durable, "{effect:?}"),
            Some(Persisted::Vote(term)) => assert!(term <= self.vote.term, "{effect:?}"),
        }
        match effect {
            Effect::Acknowledge { ids, .. } => {
                assert!(!ids.is_empty());
                for id in ids {
                    assert!(self.durable_payload(id, None), "acknowledged before durable: {id}");
                }
            }
            Effect::WriteEntries { entries, .. } => {
                for entry in entries {
                    self.check_payloads(&Order::decode(entry.kind, &entry.data).unwrap());
                }
            }
            Effect::Apply { order, .. } => self.check_payloads(order),
            _ => {}
        }
    }

    fn check_payloads(&self, order: &Order) {
        let Order::Records(records) = order else { return };
        for (id, digest) in records {
            assert!(self.durable_payload(id, Some(digest)), "ordered before durable: {id}");
        }
    }

    fn durable_payload(&self, id: &WriteId, digest: Option<&Digest>) -> bool {
        self.journal.range(..=self.durable).any(|(_, record)| match record {
            Record::Payload(held, held_digest) => {
                held == id && digest.is_none_or(|digest| digest == held_digest)
            }
            Record::Entry(_) => false,
        })
    }
}
