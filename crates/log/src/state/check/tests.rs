//! Each rule is seen broken: a sound state with one field changed names the rule.

use crate::branch::{Own, Status, Value, Version};
use crate::*;

const A: BranchId = BranchId(1);
const B: BranchId = BranchId(2);

fn run(state: &mut State, session: u64, operation: Operation) {
    let (seq, answered) = (state.next, state.next - 1);
    let id = WriteId { session: SessionId(session), seq, attempt: 0 };
    let (actor, intent) = (String::new(), String::new());
    let entry = Entry { id, answered, actor, intent, time_ms: 0, operation };
    state.apply(&entry).outcome.unwrap();
}

/// `main` with a live fork `a` that has own records, a key and a commit, a frozen fork `b` of
/// that with own records, and a retired fork `c`.
fn sound() -> State {
    let stream = StreamName::new("s").unwrap();
    let fork = |parent, name: &str, kind| Operation::Fork {
        parent,
        name: BranchName::new(name).unwrap(),
        kind,
        at: None,
        owner: String::new(),
        ttl_ms: None,
    };
    let append = |branch| Operation::Append {
        branch,
        stream: stream.clone(),
        expected: None,
        records: vec![Vec::new(), Vec::new()],
    };
    let (key, value) = (Key::new("k").unwrap(), Vec::new());
    let put = Operation::Put { branch: A, stream: stream.clone(), key, value };
    let (base, body) = (TableVersion::default(), Body::Inline(Vec::new()));
    let commit =
        Operation::Commit { branch: A, base, parent: Some(base), body, summary: Vec::new() };
    let mut state = State::new();
    run(&mut state, 0, Operation::OpenSession { owner: String::new() });
    for operation in [
        append(BranchId::MAIN),
        fork(BranchId::MAIN, "a", ForkKind::Live),
        append(A),
        put,
        commit,
        fork(A, "b", ForkKind::Frozen),
        append(B),
        fork(BranchId::MAIN, "c", ForkKind::Live),
    ] {
        run(&mut state, 1, operation);
    }
    let (branch, closing) = (BranchId(3), state.next_index());
    run(&mut state, 1, Operation::Closing { branch, purpose: Purpose::Discard });
    run(&mut state, 1, Operation::Discard { branch, closing });
    assert_eq!(state.check(), Ok(()));
    state
}

fn own(state: &mut State, branch: BranchId) -> &mut Own {
    state.branches.at_mut(branch).own_mut()
}

fn runs(state: &mut State, branch: BranchId) -> &mut Vec<crate::branch::Run> {
    &mut own(state, branch).plain.values_mut().next().unwrap().0
}

fn version(state: &mut State) -> &mut Version {
    let keyed = own(state, A).keyed.values_mut().next().unwrap();
    &mut keyed.keys.values_mut().next().unwrap().newest
}

type Tamper = fn(&mut State);

#[test]
fn every_rule_is_seen_broken() {
    let cases: &[(Tamper, &str)] = &[
        (|s| s.next = 0, "the next index is within its bounds"),
        (|s| s.branches.at_mut(BranchId::MAIN).created = 1, "the root is main, open"),
        (|s| s.branches.at_mut(B).parent = B, "a parent is older than its fork"),
        (|s| s.branches.at_mut(B).depth = 1, "a depth counts the forks"),
        (|s| s.branches.at_mut(B).created = 1, "branches are numbered in order"),
        (|s| s.branches.at_mut(A).cut = 4, "a live fork has no cut"),
        (|s| s.branches.at_mut(B).cut = 3, "a cut lies within the parent"),
        (|s| s.branches.at_mut(B).cut += 1, "a cut lies within the parent"),
        (|s| s.branches.at_mut(B).kind = None, "only the root has no kind"),
        (|s| s.branches.at_mut(A).last_used = 5, "a fork is a use of its parent"),
        (|s| s.branches.at_mut(A).children = 0, "forks that are not retired are counted"),
        (|s| s.branches.at_mut(B).name = BranchName::main(), "a name is given to one branch"),
        (|s| drop(s.names.pop_first()), "a name leads to its newest branch"),
        (|s| s.sessions.next = 1, "an open session was given"),
        (|s| s.sessions.next = 99, "each session took an index"),
        (
            |s| s.sessions.open.values_mut().for_each(|session| session.answered = 99),
            "kept outcomes lie within the window",
        ),
        (|s| s.branches.at_mut(B).last_used = 99, "a last use lies between creation and now"),
        (
            |s| {
                let purpose = Purpose::Promote { into: B };
                s.branches.at_mut(A).status = Status::Closing { at: Index(12), purpose };
            },
            "a branch is not promoted into a fork of its own",
        ),
        (
            |s| {
                let purpose = Purpose::Promote { into: BranchId(9) };
                s.branches.at_mut(A).status = Status::Closing { at: Index(12), purpose };
            },
            "a receiver exists",
        ),
        (
            |s| {
                let purpose = Purpose::Discard;
                s.branches.at_mut(A).status = Status::Closing { at: Index(99), purpose };
            },
            "a closing follows the creation",
        ),
        (|s| s.branches.at_mut(B).base_tables = 11, "tables start from a version before"),
        (|s| s.branches.at_mut(A).tables = 0, "the newest version is the last change"),
        (|s| own(s, A).tables.total = 2, "table versions are kept as promised"),
        (|s| *s.branches.at_mut(B).own_mut() = Own::default(), "an own part is not empty"),
        (|s| own(s, B).checks_changed = 99, "a change of checks is a use"),
        (|s| own(s, BranchId(3)).checks_changed = 1, "a retired branch holds nothing"),
        (|s| runs(s, A).clear(), "a stream has records"),
        (|s| runs(s, A)[0].count = 0, "a run has records"),
        (|s| runs(s, A)[0].at = 4, "own records follow the creation"),
        (|s| runs(s, A)[0].parent_len = 1, "a run knows the parent's length"),
        (|s| runs(s, A)[0].first -= 1, "spliced records are older"),
        (|s| runs(s, B)[0].count = 9, "a record was written in the past"),
        (|s| version(s).index = 6, "a version is a record"),
        (|s| version(s).at += 1, "a version joins with its record"),
    ];
    for (i, (tamper, rule)) in cases.iter().enumerate() {
        let mut state = sound();
        tamper(&mut state);
        match state.check() {
            Err(found) if found.starts_with(rule) => {}
            found => panic!("case {i}: {found:?}, expected {rule}"),
        }
    }
}

#[test]
fn a_record_is_written_once_in_the_whole_space() {
    let mut state = sound();
    // A second stream that claims the first one's records.
    let stream = StreamName::new("other").unwrap();
    let claimed = own(&mut state, B).plain.values().next().unwrap().clone();
    own(&mut state, B).plain.insert(stream, claimed);
    runs(&mut state, B)[0].parent_len = 0;
    assert_eq!(state.check(), Err("a record is written once"));
}

#[test]
fn keys_and_records_of_a_keyed_stream_match_one_to_one() {
    let mut state = sound();
    let index = version(&mut state).index;
    let keyed = own(&mut state, A).keyed.values_mut().next().unwrap();
    keyed.push(&Key::new("l").unwrap(), Version { at: index, index, value: Value::Bytes });
    assert_eq!(state.check(), Err("a record is one version"));
    let keyed = own(&mut state, A).keyed.values_mut().next().unwrap();
    keyed.keys.clear();
    assert_eq!(state.check(), Err("a record of a keyed stream is a version"));
}
