//! Restored states that contradict themselves are refused, each with its own error; settings too.

use anabranch_log::{Digest, NodeId, SessionId, WriteId};
use anabranch_replica::{
    Config, ConfigError, Effect, EntryKind, LogEntry, MAX_BATCH, MalformedOrder, Mark, Order,
    RaftIndex, Replica, Restored, StartError, StoredEntry, StoredPayload, Term, Vote,
};

const DIGEST: Digest = Digest([7; 32]);

fn id(seq: u64) -> WriteId {
    WriteId { session: SessionId(1), seq, attempt: 0 }
}

fn entry(index: u64, term: u64, seqs: &[u64], mark: u64) -> StoredEntry {
    let records = seqs.iter().map(|&seq| (id(seq), DIGEST)).collect::<Vec<_>>();
    let order = if seqs.is_empty() { Order::Noop } else { Order::Records(records) };
    let (index, term) = (RaftIndex(index), Term(term));
    let entry = LogEntry { index, term, kind: order.kind(), data: order.encode() };
    StoredEntry { entry, mark: Mark(mark) }
}

fn payload(seq: u64, mark: u64) -> StoredPayload {
    StoredPayload { id: id(seq), digest: DIGEST, mark: Mark(mark) }
}

/// Entries 1 to 3 of term 1, of which 2 is committed; record 3 is not ordered.
fn sound() -> Restored {
    Restored {
        vote: Vote { term: Term(1), voted_for: Some(NodeId(1)), commit: RaftIndex(2) },
        snapshot: None,
        entries: vec![entry(1, 1, &[], 1), entry(2, 1, &[1], 4), entry(3, 1, &[2], 6)],
        payloads: vec![payload(1, 2), payload(2, 3), payload(3, 5)],
    }
}

fn start(restored: Restored) -> Result<Vec<Effect>, StartError> {
    Replica::start(&Config::single(NodeId(1), 1), restored).map(|(_, effects)| effects)
}

#[test]
fn a_sound_state_applies_what_is_known_to_be_committed() {
    let effects = start(sound()).unwrap();
    let applied: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Apply { index, .. } => Some(index.0),
            _ => None,
        })
        .collect();
    assert_eq!(applied, [1, 2]);
    let vote = Vote { term: Term(2), voted_for: Some(NodeId(1)), commit: RaftIndex(2) };
    assert_eq!(effects.last(), Some(&Effect::WriteVote(vote)));
}

#[test]
fn every_contradiction_has_its_error() {
    type Damage = fn(&mut Restored);
    let cases: &[(Damage, StartError)] = &[
        (
            |restored| drop(restored.entries.remove(1)),
            StartError::Gap { expected: RaftIndex(2), found: RaftIndex(3) },
        ),
        (
            |restored| drop(restored.entries.remove(0)),
            StartError::Gap { expected: RaftIndex(1), found: RaftIndex(2) },
        ),
        (
            |restored| restored.entries[2].entry.term = Term(0),
            StartError::TermFalls { index: RaftIndex(3) },
        ),
        (
            |restored| {
                restored.vote.term = Term(5);
                restored.snapshot = Some((RaftIndex(2), Term(5)));
            },
            StartError::SnapshotTerm { index: RaftIndex(2) },
        ),
        (
            |restored| {
                restored.vote.term = Term(5);
                restored.snapshot = Some((RaftIndex(2), Term(5)));
                drop(restored.entries.drain(..2));
            },
            StartError::TermFalls { index: RaftIndex(3) },
        ),
        (
            |restored| restored.entries[2].entry.term = Term(2),
            StartError::VoteBehind { vote: Term(1), log: Term(2) },
        ),
        (
            |restored| restored.snapshot = Some((RaftIndex(9), Term(3))),
            StartError::VoteBehind { vote: Term(1), log: Term(3) },
        ),
        (
            |restored| restored.vote.commit = RaftIndex(4),
            StartError::CommitBeyondLog { commit: RaftIndex(4), last: RaftIndex(3) },
        ),
        (|restored| restored.entries[1].mark = Mark(1), StartError::MarkFalls { mark: Mark(1) }),
        (|restored| restored.payloads[2].mark = Mark(3), StartError::MarkFalls { mark: Mark(3) }),
        (
            |restored| restored.entries[1].entry.data.truncate(9),
            StartError::Malformed { index: RaftIndex(2), why: MalformedOrder::Length },
        ),
        (
            |restored| restored.entries[1].entry.kind = EntryKind::Noop,
            StartError::Malformed { index: RaftIndex(2), why: MalformedOrder::NoopWithData },
        ),
        (
            |restored| restored.payloads.retain(|payload| payload.id != id(2)),
            StartError::PayloadMissing { index: RaftIndex(3), id: id(2) },
        ),
        (
            |restored| restored.payloads[1].digest = Digest([8; 32]),
            StartError::PayloadMissing { index: RaftIndex(3), id: id(2) },
        ),
        (
            // Durable only after its order: the order would have been written too early.
            |restored| {
                restored.payloads.remove(1);
                restored.payloads.push(payload(2, 7));
            },
            StartError::PayloadMissing { index: RaftIndex(3), id: id(2) },
        ),
    ];
    for (number, (damage, expected)) in cases.iter().enumerate() {
        let mut restored = sound();
        damage(&mut restored);
        assert_eq!(start(restored), Err(*expected), "case {number}");
        assert!(!expected.to_string().is_empty());
    }
}

#[test]
fn entries_at_or_below_the_snapshot_only_say_what_is_ordered() {
    let mut restored = sound();
    restored.snapshot = Some((RaftIndex(3), Term(1)));
    // The payload of a compacted entry may be gone.
    restored.payloads.remove(0);
    let config = Config::single(NodeId(1), 1);
    let (replica, effects) = Replica::start(&config, restored).unwrap();
    assert!(matches!(effects[..], [Effect::WriteVote(_)]), "nothing is applied again");
    assert_eq!(replica.status().unordered, 1, "records 1 and 2 are ordered, 3 is not");
    assert_eq!(replica.held(&id(2)), None);
    assert!(replica.held(&id(3)).is_some_and(|held| held.durable));
}

#[test]
fn of_two_payloads_under_one_id_the_ordered_one_counts() {
    let mut restored = sound();
    // An older payload of write 2, whose order is compacted away.
    restored.payloads[0] = StoredPayload { id: id(2), digest: Digest([8; 32]), mark: Mark(2) };
    restored.entries = vec![entry(3, 1, &[2], 6)];
    restored.snapshot = Some((RaftIndex(2), Term(1)));
    restored.vote.commit = RaftIndex(3);
    let (replica, effects) = Replica::start(&Config::single(NodeId(1), 1), restored).unwrap();
    let records = vec![(id(2), DIGEST)];
    assert!(effects.iter().any(|effect| match effect {
        Effect::Apply { order, .. } => *order == Order::Records(records.clone()),
        _ => false,
    }));
    assert_eq!(replica.status().unordered, 2, "the older payload, unknown here, and write 3");
}

#[test]
fn a_log_that_ends_before_the_snapshot_begins_anew_behind_it() {
    let mut restored = sound();
    restored.snapshot = Some((RaftIndex(8), Term(1)));
    let (replica, _) = Replica::start(&Config::single(NodeId(1), 1), restored).unwrap();
    let status = replica.status();
    assert_eq!((status.base, status.applied), (RaftIndex(8), RaftIndex(8)));
    assert_eq!(status.last, RaftIndex(9), "the first entry of the new term");
}

#[test]
fn invalid_settings_are_refused() {
    type Change = fn(&mut Config);
    let cases: &[(Change, ConfigError)] = &[
        (|config| config.node = NodeId(0), ConfigError::NodeZero),
        (|config| config.voters = vec![], ConfigError::Voters { count: 0 }),
        (|config| config.voters.push(NodeId(2)), ConfigError::Voters { count: 2 }),
        (|config| config.voters = vec![NodeId(2)], ConfigError::Voters { count: 1 }),
        (|config| config.heartbeat_ticks = 0, ConfigError::Ticks),
        (|config| config.heartbeat_ticks = 10, ConfigError::Ticks),
        (|config| config.order_at = 0, ConfigError::Batch),
        (|config| config.batch_max = 0, ConfigError::Batch),
        (|config| config.batch_max = MAX_BATCH + 1, ConfigError::Batch),
    ];
    for (change, expected) in cases {
        let mut config = Config::single(NodeId(1), 1);
        change(&mut config);
        let result = Replica::start(&config, Restored::default()).map(|_| ());
        assert_eq!(result, Err(StartError::Config(*expected)));
    }
}

#[test]
fn the_least_ticks_that_settings_allow_work() {
    let config = Config { election_ticks: 2, ..Config::single(NodeId(1), 1) };
    assert!(Replica::start(&config, Restored::default()).is_ok());
}
