//! A state with short words for what the tests do to it.

use anabranch_log::*;

pub(crate) const MAIN: BranchId = BranchId::MAIN;

pub(crate) fn stream(name: &str) -> StreamName {
    StreamName::new(name).unwrap()
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// An entry outside any session.
pub(crate) fn entry(operation: Operation) -> Entry {
    let id = WriteId { session: SessionId::NONE, seq: 0, attempt: 0 };
    let (actor, intent) = (String::from("tester"), String::from("to see"));
    Entry { id, answered: 0, actor, intent, time_ms: 0, operation }
}

pub(crate) fn run(state: &mut State, operation: Operation) -> Result<Outcome, Refusal> {
    run_changes(state, operation).outcome
}

pub(crate) fn run_changes(state: &mut State, operation: Operation) -> Applied {
    let applied = state.apply(&entry(operation));
    state.assert_consistent();
    applied
}

pub(crate) fn append_of(branch: BranchId, name: &str, count: usize) -> Operation {
    let records = (0..count).map(|i| format!("r{i}").into_bytes()).collect();
    Operation::Append { branch, stream: stream(name), expected: None, records }
}

pub(crate) fn append(state: &mut State, branch: BranchId, name: &str, count: usize) -> u64 {
    run(state, append_of(branch, name, count)).unwrap().index().0
}

pub(crate) fn put_of(branch: BranchId, name: &str, k: &str, value: &str) -> Operation {
    Operation::Put { branch, stream: stream(name), key: key(k), value: value.into() }
}

pub(crate) fn put(state: &mut State, branch: BranchId, name: &str, k: &str, value: &str) -> u64 {
    run(state, put_of(branch, name, k, value)).unwrap().index().0
}

pub(crate) fn fork_of(parent: BranchId, name: &str, kind: ForkKind, at: Option<u64>) -> Operation {
    Operation::Fork {
        parent,
        name: BranchName::new(name).unwrap(),
        kind,
        at: at.map(Index),
        owner: String::from("tester"),
        ttl_ms: None,
    }
}

pub(crate) fn fork(state: &mut State, parent: BranchId, name: &str, kind: ForkKind) -> BranchId {
    match run(state, fork_of(parent, name, kind, None)) {
        Ok(Outcome::Forked { branch, .. }) => branch,
        other => panic!("not forked: {other:?}"),
    }
}

pub(crate) fn live(state: &mut State, parent: BranchId, name: &str) -> BranchId {
    fork(state, parent, name, ForkKind::Live)
}

pub(crate) fn frozen(state: &mut State, parent: BranchId, name: &str) -> BranchId {
    fork(state, parent, name, ForkKind::Frozen)
}

pub(crate) fn close(state: &mut State, branch: BranchId, purpose: Purpose) -> Index {
    run(state, Operation::Closing { branch, purpose }).unwrap().index()
}

pub(crate) fn promote_of(
    state: &State,
    branch: BranchId,
    into: BranchId,
    closing: Index,
) -> Operation {
    Operation::Promote {
        branch,
        closing,
        into,
        target_tables: state.branch(into).unwrap().tables(),
        tables: TablesChange::None,
        leave_out: Vec::new(),
        overwrite: Vec::new(),
        summary: Vec::new(),
    }
}

pub(crate) fn promote(
    state: &mut State,
    branch: BranchId,
    into: BranchId,
) -> Result<Outcome, Refusal> {
    let closing = close(state, branch, Purpose::Promote { into });
    let operation = promote_of(state, branch, into, closing);
    run(state, operation)
}

pub(crate) fn discard(state: &mut State, branch: BranchId) {
    let closing = close(state, branch, Purpose::Discard);
    run(state, Operation::Discard { branch, closing }).unwrap();
}

pub(crate) fn commit(state: &mut State, branch: BranchId) -> Result<Outcome, Refusal> {
    let of = state.branch(branch).unwrap();
    let parent = of.is_live().then(|| state.branch(of.parent().unwrap()).unwrap().tables());
    let (base, body) = (of.tables(), Body::Inline(Vec::new()));
    run(state, Operation::Commit { branch, base, parent, body, summary: Vec::new() })
}

/// Indexes of the branch's view of a plain stream.
pub(crate) fn view(state: &State, branch: BranchId, name: &str) -> Vec<u64> {
    let records = state.read(branch, &stream(name), Offset(0), usize::MAX);
    assert!(records.iter().enumerate().all(|(i, (offset, _))| offset.0 == i as u64));
    records.into_iter().map(|(_, index)| index.0).collect()
}

/// Version of a live key in the branch's view.
pub(crate) fn get(state: &State, branch: BranchId, name: &str, k: &str) -> Option<u64> {
    let version = state.get(branch, &stream(name), &key(k))?;
    (!version.deleted).then_some(version.index.0)
}
