//! Bytes: golden, there and back, and never a panic whatever they hold.

use anabranch_log::*;
use proptest::prelude::*;

use crate::support::*;

fn entries() -> Vec<Entry> {
    let (branch, closing, into) = (BranchId(3), Index(9), BranchId(1));
    let (s, k) = (stream("s"), key("k"));
    let digest = Digest([7; 32]);
    let parts = Body::Parts { transaction: 5, parts: 2, bytes: 99, digest };
    let version = TableVersion(Index(4));
    let mut promote = Operation::Promote {
        branch,
        closing,
        into,
        target_tables: version,
        tables: TablesChange::Body(parts.clone()),
        leave_out: vec![(s.clone(), k.clone()), (stream("t"), k.clone())],
        overwrite: vec![Overwrite { stream: s.clone(), key: k.clone(), theirs: Some(Index(2)) }],
        summary: vec![1, 2],
    };
    let mut operations = vec![promote.clone()];
    for change in [TablesChange::None, TablesChange::TakeFork] {
        let Operation::Promote { tables, .. } = &mut promote else { panic!() };
        *tables = change;
        operations.push(promote.clone());
    }
    for purpose in
        [Purpose::Promote { into }, Purpose::Discard, Purpose::Expire { last_used: Index(5) }]
    {
        operations.push(Operation::Closing { branch, purpose });
    }
    for (kind, at, ttl_ms) in
        [(ForkKind::Live, None, None), (ForkKind::Frozen, Some(Index(8)), Some(1000))]
    {
        let (name, owner) = (BranchName::new("agent-7").unwrap(), String::from("me"));
        operations.push(Operation::Fork { parent: branch, name, kind, at, owner, ttl_ms });
    }
    for (expected, value) in [(None, Some(b"v".to_vec())), (Some(Index(6)), None)] {
        let (stream, key) = (s.clone(), k.clone());
        operations.push(Operation::Cas { branch, stream, key, expected, value });
    }
    for (body, parent) in [(Body::Inline(vec![1, 2, 3]), None), (parts, Some(version))] {
        let summary = vec![8];
        operations.push(Operation::Commit { branch, base: version, parent, body, summary });
    }
    operations.extend([
        append_of(branch, "s", 3),
        Operation::Append {
            branch,
            stream: s.clone(),
            expected: Some(Offset(4)),
            records: vec![Vec::new()],
        },
        put_of(branch, "s", "k", "value"),
        Operation::Delete { branch, stream: s.clone(), key: k.clone() },
        Operation::Incr { branch, stream: s, key: k, delta: -2 },
        Operation::Discard { branch, closing },
        Operation::Reopen { branch, closing },
        Operation::AddCheck { branch, name: String::from("c"), sql: String::from("select 1") },
        Operation::DropCheck { branch, name: String::from("c") },
        Operation::OpenSession { owner: String::from("me") },
        Operation::CloseSession { session: SessionId(2) },
        Operation::Checkpoint,
    ]);
    let id = WriteId { session: SessionId(1), seq: 12, attempt: 1 };
    let whole = |operation| Entry { id, answered: 11, time_ms: 1234, ..entry(operation) };
    operations.into_iter().map(whole).collect()
}

fn outcomes() -> Vec<Outcome> {
    let index = Index(5);
    vec![
        Outcome::Appended { index, offset: Offset(3) },
        Outcome::Put { index },
        Outcome::Number { index, value: -7 },
        Outcome::Forked { branch: BranchId(2), index },
        Outcome::Closing { index },
        Outcome::Promoted { index, into: BranchId(0), records: 4, keys: 2 },
        Outcome::Discarded { index },
        Outcome::Reopened { index },
        Outcome::Committed { index },
        Outcome::Done { index },
        Outcome::Session { session: SessionId(3), index },
        Outcome::Checkpointed { index },
    ]
}

fn refusals() -> Vec<Refusal> {
    let (branch, at, index) = (BranchId(2), Index(7), Index(9));
    let (name, session) = (BranchName::new("agent").unwrap(), SessionId(4));
    let (base, current) = (TableVersion(at), TableVersion(index));
    let (oldest, newest) = (at, index);
    let mut refusals: Vec<Refusal> = [
        Invalid::Empty(Field::Key),
        Invalid::Characters(Field::BranchName),
        Invalid::SeqAnswered,
        Invalid::SessionNeverGiven,
        Invalid::TtlZero,
        Invalid::LiveForkAt,
        Invalid::ForkPosition { oldest, newest },
        Invalid::Main,
        Invalid::TargetWithin,
        Invalid::ParentVersion,
        Invalid::TakeFork,
        Invalid::UnknownCheck,
    ]
    .map(Refusal::Invalid)
    .into();
    let promoted = Closed::Promoted { into: BranchId(0), at };
    for how in [promoted, Closed::Discarded { at }, Closed::Expired { at }] {
        refusals.push(Refusal::BranchClosed { branch, how });
    }
    let widest = stream(&"s".repeat(limits::STREAM_NAME_BYTES));
    let longest = Key::new(vec![b'k'; limits::KEY_BYTES]).unwrap();
    refusals.extend([
        Refusal::UnknownBranch { name: name.clone() },
        Refusal::UnknownBranchId { branch },
        Refusal::BranchClosing { branch },
        Refusal::NameTaken { name, branch },
        Refusal::CheckTaken { branch },
        Refusal::TooLarge { field: Field::Record, size: 9, max: 8 },
        Refusal::Conflict {
            listed: vec![(widest, longest); limits::CONFLICTS_LISTED],
            count: u64::MAX,
        },
        Refusal::OffsetMismatch { expected: Offset(1), actual: Offset(2) },
        Refusal::VersionMismatch { expected: None, actual: Some(at) },
        Refusal::NotANumber { index },
        Refusal::NumberOverflow { value: 1, delta: i64::MAX },
        Refusal::BaseMoved { branch, base, current },
        Refusal::TablesMoved { branch, expected: base, current },
        Refusal::ChecksMoved { branch, at },
        Refusal::TableRootGone { oldest_valid: at, newest_valid: index },
        Refusal::NotClosing { branch, closing: at },
        Refusal::UsedSince { branch, last_used: at },
        Refusal::NeedsTarget { branch, parent: BranchId(1) },
        Refusal::SessionExpired { session },
        Refusal::OutcomeForgotten { session, seq: 5 },
        Refusal::WindowFull { session },
        Refusal::TooManySessions { count: 1 },
        Refusal::TooManyBranches { count: 2 },
        Refusal::TooDeep { depth: 65 },
        Refusal::TooManyStreams { branch, count: 3 },
        Refusal::TooManyChecks { branch, count: 4 },
    ]);
    refusals
}

/// A state with something of everything in it.
fn sample() -> State {
    let mut state = State::new();
    append(&mut state, MAIN, "s", 2);
    put(&mut state, MAIN, "k", "a", "1");
    put(&mut state, MAIN, "k", "a", "text");
    let name = String::from("c");
    run(&mut state, Operation::AddCheck { branch: MAIN, name, sql: String::from("q") }).unwrap();
    commit(&mut state, MAIN).unwrap();
    let a = live(&mut state, MAIN, "a");
    append(&mut state, a, "s", 1);
    put(&mut state, a, "k", "b", "2");
    let b = frozen(&mut state, a, "b");
    append(&mut state, b, "t", 1);
    commit(&mut state, b).unwrap();
    promote(&mut state, a, MAIN).unwrap();
    let c = live(&mut state, MAIN, "c");
    discard(&mut state, c);
    close(&mut state, b, Purpose::Promote { into: MAIN });
    let session = run(&mut state, Operation::OpenSession { owner: String::from("o") });
    assert!(session.is_ok());
    let id = WriteId { session: SessionId(1), seq: 3, attempt: 0 };
    for (seq, operation) in [
        (3, append_of(MAIN, "s", 1)),
        (4, append_of(BranchId(9), "s", 1)),
        (5, Operation::DropCheck { branch: MAIN, name: String::from("none") }),
    ] {
        let id = WriteId { seq, ..id };
        let _ = state.apply(&Entry { id, answered: 2, ..entry(operation) });
    }
    state.assert_consistent();
    state
}

#[test]
fn golden_bytes() {
    let mut write = entry(append_of(BranchId(2), "s", 1));
    write.id = WriteId { session: SessionId(1), seq: 2, attempt: 3 };
    (write.answered, write.time_ms) = (1, 0x0102);
    (write.actor, write.intent) = (String::from("a"), String::new());
    let golden: Vec<u8> = [
        b"E\x01".as_slice(),
        b"\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0",
        b"\x01\0\0\0\0\0\0\0\x01\0\0\0a\0\0\0\0",
        b"\x02\x01\0\0\0\0\0\0",
        b"\0\x02\0\0\0\0\0\0\0\x01\0\0\0s\0\x01\0\0\0\x02\0\0\0r0",
    ]
    .concat();
    assert_eq!(write.encode(), golden);
    let outcome = Outcome::Appended { index: Index(5), offset: Offset(3) };
    assert_eq!(outcome.encode(), b"O\x01\0\x05\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0");
    let refusal = Refusal::SessionExpired { session: SessionId(4) };
    assert_eq!(refusal.encode(), b"R\x01\x14\x04\0\0\0\0\0\0\0");
    let golden: Vec<u8> = [
        b"S\x01\x01\0\0\0\0\0\0\0".as_slice(),
        b"\x01\0\0\0\0\0\0\0\x04\0\0\0main\0\0\0\0\0\0",
        &[0; 32],
        b"\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    ]
    .concat();
    assert_eq!(State::new().encode(), golden);
}

/// The tags of all structures, pinned by a checksum over every sample.
#[test]
fn golden_tags() {
    let mut bytes: Vec<u8> = entries().iter().flat_map(Entry::encode).collect();
    bytes.extend(outcomes().iter().flat_map(Outcome::encode));
    bytes.extend(refusals().iter().flat_map(Refusal::encode));
    bytes.extend(sample().encode());
    let fnv = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    assert_eq!(
        (bytes.len(), fnv),
        (7489, 7_388_782_832_850_459_012),
        "an encoding changed: that takes a new version"
    );
}

/// There and back; every prefix and every extension is refused; every flipped bit is refused or
/// stands for another value with exactly these bytes.
fn hardened<T: PartialEq + std::fmt::Debug>(
    value: &T,
    encode: impl Fn(&T) -> Vec<u8>,
    decode: impl Fn(&[u8]) -> Result<T, Malformed>,
) {
    let bytes = encode(value);
    assert_eq!(decode(&bytes).as_ref(), Ok(value));
    for length in 0..bytes.len() {
        assert!(decode(&bytes[..length]).is_err(), "{length} bytes of {value:?}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert_eq!(decode(&longer), Err(Malformed::Trailing { bytes: 1 }));
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            if let Ok(other) = decode(&flipped) {
                assert_ne!(&other, value, "bit {bit} of byte {at} does not matter");
                assert_eq!(encode(&other), flipped, "two ways to write {other:?}");
            }
        }
    }
}

#[test]
fn entries_are_hardened() {
    for entry in entries() {
        assert_eq!(entry.validate(), Ok(()));
        hardened(&entry, Entry::encode, Entry::decode);
    }
}

#[test]
fn outcomes_and_refusals_are_hardened_and_bounded() {
    for outcome in outcomes() {
        assert!(outcome.encode().len() <= limits::OUTCOME_BYTES);
        hardened(&outcome, Outcome::encode, Outcome::decode);
    }
    for refusal in refusals() {
        assert!(refusal.encode().len() <= limits::OUTCOME_BYTES);
        hardened(&refusal, Refusal::encode, Refusal::decode);
    }
}

#[test]
fn a_state_is_hardened_and_a_damaged_one_that_is_accepted_still_works() {
    let state = sample();
    hardened(&state, State::encode, State::decode);
    let bytes = state.encode();
    let mut accepted = 0;
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            if let Ok(mut other) = State::decode(&flipped) {
                accepted += 1;
                exercise(&mut other);
            }
        }
    }
    assert!(accepted > 0, "some flips make another possible state");
}

/// Uses all of a state; nothing may panic.
fn exercise(state: &mut State) {
    state.assert_consistent();
    let all: Vec<BranchId> = state.branches().map(Branch::id).collect();
    for branch in all {
        for (kind, name, length) in state.streams(branch) {
            let read = state.read_kind(branch, kind, &name, Offset(0), 10_000);
            assert_eq!(read.len() as u64, length.min(10_000));
            let _ = state.scan(branch, &name, b"", None, 100);
        }
        let _ = state.key_conflicts(branch, MAIN);
        let _ = state.promotion_target(branch);
        for entry in entries() {
            let _ = state.clone().apply(&entry);
        }
        let _ = state.apply(&entry(append_of(branch, "s", 2)));
        let _ = state.apply(&entry(put_of(branch, "k", "a", "v")));
        if let Some(Status::Closing { at, .. }) = state.branch(branch).map(Branch::status) {
            let operation = promote_of(state, branch, MAIN, at);
            let _ = state.apply(&entry(operation));
        }
    }
    state.assert_consistent();
}

#[test]
fn refusals_speak() {
    for refusal in refusals() {
        let text = refusal.to_string();
        let first = text.chars().next().unwrap();
        assert!(!first.is_uppercase() && !text.ends_with('.'), "{text}");
        assert!(!refusal.hint().is_empty());
        let unknown = [Kind::SessionExpired, Kind::UnknownOutcome].contains(&refusal.kind());
        let happened = if unknown { Happened::Unknown } else { Happened::No };
        assert_eq!(refusal.happened(), happened, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn damaged_bytes_are_refused_or_canonical(
        which in 0usize..40,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        drop in 0usize..9,
    ) {
        let entries = entries();
        let state = which >= entries.len();
        let mut bytes = match entries.get(which) {
            Some(entry) => entry.encode(),
            None => sample_bytes(),
        };
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let at = cut.index(bytes.len());
        bytes.drain(at..(at + drop).min(bytes.len()));
        if state {
            if let Ok(mut other) = State::decode(&bytes) {
                prop_assert_eq!(other.encode(), bytes);
                exercise(&mut other);
            }
        } else if let Ok(other) = Entry::decode(&bytes) {
            prop_assert_eq!(other.encode(), bytes);
            let _ = State::new().admit(&other);
            let _ = State::new().apply(&other);
        }
    }
}

fn sample_bytes() -> Vec<u8> {
    static BYTES: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    BYTES.get_or_init(|| sample().encode()).clone()
}
