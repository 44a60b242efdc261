//! Random schedules: arrivals, retries, late flushes, late answers, reads, checkpoints and
//! crashes in any order. What survives a crash is what was durable, plus any prefix of the
//! buffer. In the end everything heals and the replica must have finished its work.
//!
//! Checked after each step: nothing is acknowledged or ordered before it is durable (the desk);
//! a committed index never changes its content, over all restarts; an acknowledged id is applied
//! exactly once, in the order of the unordered log, with nothing skipped; a read covers what was
//! acknowledged before it. The same schedule twice gives the same effects. Only an id of which a
//! careless caller stored a second copy may be ordered again, as the session table knows.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_log::{Digest, NodeId, SessionId, WriteId};
use anabranch_replica::{Config, Effect, Event, Mark, Order, RaftIndex, Term};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::desk::{Desk, Record};

#[derive(Clone, Debug)]
enum Action {
    Receive,
    Retry { which: usize, careless: bool },
    RetryWithOther { which: usize },
    Persist { fraction: u8 },
    WriteBatch,
    PersistVote,
    Tick,
    Order,
    Read,
    Checkpoint { back: u64 },
    Crash { survivors: u64, vote: bool },
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => Just(Action::Receive),
        2 => (any::<usize>(), any::<bool>())
            .prop_map(|(which, careless)| Action::Retry { which, careless }),
        1 => any::<usize>().prop_map(|which| Action::RetryWithOther { which }),
        8 => any::<u8>().prop_map(|fraction| Action::Persist { fraction }),
        6 => Just(Action::WriteBatch),
        3 => Just(Action::PersistVote),
        2 => Just(Action::Tick),
        1 => Just(Action::Order),
        2 => Just(Action::Read),
        1 => (0u64..4).prop_map(|back| Action::Checkpoint { back }),
        1 => (0u64..6, any::<bool>())
            .prop_map(|(survivors, vote)| Action::Crash { survivors, vote }),
    ]
}

fn settings() -> impl Strategy<Value = Config> {
    (any::<u64>(), 1usize..5, 1usize..5).prop_map(|(seed, order_at, batch_max)| Config {
        order_at,
        batch_max,
        ..Config::single(NodeId(1), seed)
    })
}

/// What the checks know, over all restarts.
#[derive(Default)]
struct Truth {
    /// Content of every index ever applied.
    committed: BTreeMap<RaftIndex, (Term, Order)>,
    /// Newest index applied in this run.
    applied: RaftIndex,
    acknowledged: BTreeSet<WriteId>,
    /// Ids stored again while held, or after they were applied.
    copied: BTreeSet<WriteId>,
    /// Ids in the order of their first application, with the mark of their payload.
    sequence: Vec<(WriteId, Mark)>,
    /// Open reads: ids acknowledged, and the newest index applied, when they began.
    reads: BTreeMap<u64, (BTreeSet<WriteId>, RaftIndex)>,
    next_seq: u64,
    next_ticket: u64,
    /// Every effect ever given out.
    trace: Vec<String>,
    /// How often something of interest happened, to see that schedules reach it.
    reached: BTreeMap<&'static str, usize>,
}

fn digest_of(id: &WriteId) -> Digest {
    Digest([u8::try_from(id.seq % 251).unwrap(); 32])
}

impl Truth {
    fn applied_ids(&self) -> BTreeSet<WriteId> {
        self.sequence.iter().map(|(id, _)| *id).collect()
    }

    fn reach(&mut self, what: &'static str) {
        *self.reached.entry(what).or_default() += 1;
    }

    fn observe(&mut self, desk: &Desk, effects: &[Effect]) {
        for effect in effects {
            self.trace.push(format!("{effect:?}"));
            match effect {
                Effect::Acknowledge { ids, .. } => {
                    self.acknowledged.extend(ids);
                    let leader = desk.replica.as_ref().and_then(|r| r.status().leader);
                    self.reach(leader.map_or("acknowledged without leader", |_| "acknowledged"));
                }
                Effect::Apply { index, term, order, .. } => {
                    self.apply(desk, *index, *term, order);
                }
                Effect::ReadReady { ticket, index } => {
                    let (ids, began_at) = self.reads.remove(ticket).expect("answered once");
                    assert_eq!(*index, self.applied, "a read names the state it is served from");
                    assert!(began_at <= *index, "a read goes back in time");
                    assert!(ids.is_subset(&self.applied_ids()), "a read misses what was there");
                    self.reach("read");
                }
                Effect::Refuse { .. } => self.reach("refused"),
                Effect::WriteEntries { entries, .. } if entries.len() > 1 => {
                    self.reach("batch of several entries");
                }
                _ => {}
            }
        }
        desk.replica.as_ref().expect("the replica runs").validate();
    }

    fn apply(&mut self, desk: &Desk, index: RaftIndex, term: Term, order: &Order) {
        assert_eq!(index, self.applied.next(), "an index is skipped or repeated");
        self.applied = index;
        if let Some(before) = self.committed.get(&index) {
            assert_eq!(before, &(term, order.clone()), "a committed index changed at {index}");
            self.reach("applied again");
            return;
        }
        self.committed.insert(index, (term, order.clone()));
        let Order::Records(records) = order else { return };
        assert!(records.len() <= desk.config.batch_max, "a batch is bounded");
        for (id, digest) in records {
            assert_eq!(digest, &digest_of(id), "another payload was ordered for {id}");
            let mark = first_mark(desk, id).expect("an applied payload is in the journal");
            if self.applied_ids().contains(id) {
                assert!(self.copied.contains(id), "applied twice: {id}");
                self.reach("second copy ordered");
                continue;
            }
            if let Some((previous, before)) = self.sequence.last() {
                assert!(*before < mark, "{id} overtakes or follows {previous} in the wrong order");
            }
            let skipped = desk.journal.range(..mark).find_map(|(_, record)| match record {
                Record::Payload(earlier, _) if !self.applied_ids().contains(earlier) => {
                    Some(earlier)
                }
                _ => None,
            });
            assert_eq!(skipped, None, "the leader skipped a record");
            self.sequence.push((*id, mark));
        }
    }
}

fn first_mark(desk: &Desk, id: &WriteId) -> Option<Mark> {
    desk.journal.iter().find_map(|(mark, record)| match record {
        Record::Payload(held, digest) if held == id && *digest == digest_of(id) => Some(*mark),
        _ => None,
    })
}

fn start(desk: &mut Desk, truth: &mut Truth) {
    truth.applied = desk.snapshot.unwrap_or_default().0;
    truth.reads.clear();
    let effects = desk.start().expect("what a crash leaves is a state to start from");
    truth.observe(desk, &effects);
}

fn act(desk: &mut Desk, truth: &mut Truth, action: &Action) {
    let effects = match *action {
        Action::Receive => {
            truth.next_seq += 1;
            let id = WriteId { session: SessionId(1), seq: truth.next_seq, attempt: 0 };
            desk.receive(id, digest_of(&id))
        }
        Action::Retry { which, careless } => retry(desk, truth, which, careless),
        Action::RetryWithOther { which } => retry_with_other(desk, truth, which),
        Action::Persist { fraction } => {
            let buffered = desk.next - 1 - desk.durable.0;
            let part = buffered * u64::from(fraction) / 200;
            desk.persist(Mark(desk.durable.0 + part.min(buffered)))
        }
        Action::WriteBatch if !desk.batches_asked.is_empty() => desk.write_batch(),
        Action::PersistVote if !desk.votes_asked.is_empty() => desk.persist_vote(),
        Action::WriteBatch | Action::PersistVote => Vec::new(),
        Action::Tick => desk.step(Event::Tick),
        Action::Order => desk.step(Event::Order),
        Action::Read => {
            truth.next_ticket += 1;
            let began = (truth.acknowledged.clone(), truth.applied);
            truth.reads.insert(truth.next_ticket, began);
            desk.step(Event::Read { ticket: truth.next_ticket })
        }
        Action::Checkpoint { back } => checkpoint(desk, truth, back),
        Action::Crash { survivors, vote } => {
            truth.reach(if desk.votes_asked.is_empty() { "crash" } else { "crash in a vote" });
            if !truth.reads.is_empty() {
                truth.reach("crash with open reads");
            }
            desk.crash(survivors, vote);
            start(desk, truth);
            return;
        }
    };
    truth.observe(desk, &effects);
}

/// A client sends an id again: held, applied, or lost in a crash. Only a careless caller stores
/// what is held or applied once more.
fn retry(desk: &mut Desk, truth: &mut Truth, which: usize, careless: bool) -> Vec<Effect> {
    if truth.next_seq == 0 {
        return Vec::new();
    }
    let seq = which as u64 % truth.next_seq + 1;
    let id = WriteId { session: SessionId(1), seq, attempt: 0 };
    let held = desk.replica.as_ref().unwrap().held(&id);
    if held.is_some() || truth.applied_ids().contains(&id) {
        if !careless {
            return Vec::new();
        }
        truth.copied.insert(id);
    }
    let was_durable = held.is_some_and(|held| held.durable);
    let effects = desk.receive(id, digest_of(&id));
    let again = effects.iter().any(|effect| match effect {
        Effect::Acknowledge { ids, .. } => ids == &[id],
        _ => false,
    });
    assert_eq!(again, was_durable, "a durable record is acknowledged again, another one is not");
    effects
}

/// The caller asks before it stores anything, and refuses.
fn retry_with_other(desk: &mut Desk, truth: &Truth, which: usize) -> Vec<Effect> {
    let seq = which as u64 % (truth.next_seq + 1);
    let id = WriteId { session: SessionId(1), seq, attempt: 0 };
    let Some(held) = desk.replica.as_ref().unwrap().held(&id) else { return Vec::new() };
    assert_eq!(held.digest, digest_of(&id));
    let (received, mark) = (Digest([255; 32]), Mark(desk.next));
    let effects = desk.step(Event::Received { id, digest: received, mark });
    assert_eq!(effects, [Effect::Refuse { id, received, held: held.digest }]);
    effects
}

fn checkpoint(desk: &mut Desk, truth: &mut Truth, back: u64) -> Vec<Effect> {
    let base = desk.snapshot.unwrap_or_default().0;
    let index = RaftIndex(truth.applied.0.saturating_sub(back));
    if index <= base {
        return Vec::new();
    }
    let (term, _) = truth.committed[&index];
    let records = desk.journal.len();
    let effects = desk.checkpoint(index, term);
    truth.reach(if desk.journal.len() < records { "journal cut" } else { "checkpoint" });
    effects
}

/// Every answer comes, every flush succeeds, until nothing happens any more.
fn heal(desk: &mut Desk, truth: &mut Truth) {
    for _ in 0..20 {
        while !desk.votes_asked.is_empty() {
            act(desk, truth, &Action::PersistVote);
        }
        while !desk.batches_asked.is_empty() {
            act(desk, truth, &Action::WriteBatch);
        }
        let effects = desk.flush();
        truth.observe(desk, &effects);
        act(desk, truth, &Action::Tick);
    }
    let status = desk.replica.as_ref().unwrap().status();
    assert_eq!(status.unordered, 0, "everything received is applied in the end");
    assert_eq!((status.applied, status.committed), (status.last, status.last));
    assert_eq!(status.leader, Some(NodeId(1)));
    assert!(truth.reads.is_empty(), "every read is answered in the end");
    let applied = truth.applied_ids();
    assert!(truth.acknowledged.is_subset(&applied), "an acknowledged record is lost");
    assert_eq!(applied.len(), truth.sequence.len(), "a record is applied twice");
}

fn run(config: &Config, actions: &[Action]) -> Truth {
    let mut desk = Desk::new(config.clone());
    desk.write_at_once = false;
    let mut truth = Truth::default();
    start(&mut desk, &mut truth);
    for action in actions {
        act(&mut desk, &mut truth, action);
    }
    heal(&mut desk, &mut truth);
    truth
}

/// A test of nothing would pass: the schedules reach what they are made for.
#[test]
fn schedules_reach_every_corner() {
    let strategy = (settings(), prop::collection::vec(action(), 0..120));
    let mut runner = TestRunner::deterministic();
    let mut reached: BTreeMap<&'static str, usize> = BTreeMap::new();
    for _ in 0..1000 {
        let (config, actions) = strategy.new_tree(&mut runner).unwrap().current();
        for (what, times) in run(&config, &actions).reached {
            *reached.entry(what).or_default() += times;
        }
    }
    for what in [
        "acknowledged",
        "acknowledged without leader",
        "applied again",
        "batch of several entries",
        "checkpoint",
        "crash",
        "crash in a vote",
        "crash with open reads",
        "journal cut",
        "read",
        "refused",
        "second copy ordered",
    ] {
        assert!(reached.get(what).is_some_and(|&times| times > 20), "{what}: {reached:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn any_schedule_keeps_every_promise(
        config in settings(),
        actions in prop::collection::vec(action(), 0..120),
    ) {
        run(&config, &actions);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn the_same_schedule_gives_the_same_effects(
        config in settings(),
        actions in prop::collection::vec(action(), 0..120),
    ) {
        prop_assert_eq!(run(&config, &actions).trace, run(&config, &actions).trace);
    }
}
