//! Sessions: once and only once, and what a late retry hears.

use anabranch_log::*;

use crate::support::*;

fn in_session(session: SessionId, seq: u64, answered: u64, operation: Operation) -> Entry {
    let id = WriteId { session, seq, attempt: 0 };
    Entry { id, answered, ..entry(operation) }
}

fn open(state: &mut State) -> SessionId {
    match run(state, Operation::OpenSession { owner: String::from("me") }) {
        Ok(Outcome::Session { session, .. }) => session,
        other => panic!("not opened: {other:?}"),
    }
}

#[test]
fn a_retry_gets_the_first_outcome_and_changes_nothing() {
    let mut state = State::new();
    let session = open(&mut state);
    let write = in_session(session, 1, 0, append_of(MAIN, "s", 2));
    let first = state.apply(&write);
    assert_eq!((first.count, first.replayed, first.changes.len()), (2, false, 2));
    append(&mut state, MAIN, "s", 1);
    let after = state.clone();
    let again = state.apply(&write);
    assert_eq!(again.outcome, first.outcome);
    assert_eq!((again.count, again.replayed, again.changes.len()), (0, true, 0));
    assert_eq!(state, after);
    assert_eq!(state.outcome_of(write.id), Some(&first.outcome));
    assert_eq!(state.admit(&write), Ok(()));
}

#[test]
fn a_refusal_is_an_outcome_too() {
    let mut state = State::new();
    let session = open(&mut state);
    let (s, k) = (stream("s"), key("k"));
    let cas =
        Operation::Cas { branch: MAIN, stream: s, key: k, expected: Some(Index(7)), value: None };
    let write = in_session(session, 1, 0, cas);
    let refused = state.apply(&write);
    let mismatch = Refusal::VersionMismatch { expected: Some(Index(7)), actual: None };
    assert_eq!(refused.outcome, Err(mismatch));
    let at = state.next_index();
    assert_eq!((refused.count, refused.first), (0, at));
    // Even where it would succeed now: the client may have been told no.
    while state.next_index() < Index(7) {
        append(&mut state, MAIN, "other", 1);
    }
    assert_eq!(put(&mut state, MAIN, "s", "k", "v"), 7);
    let again = state.apply(&write);
    assert!(again.replayed);
    assert_eq!(again.outcome, refused.outcome);
}

#[test]
fn a_commit_on_an_old_base_leaves_its_number_free() {
    let mut state = State::new();
    let session = open(&mut state);
    commit(&mut state, MAIN).unwrap();
    let moved = state.branch(MAIN).unwrap().tables();
    let at = |base| Operation::Commit {
        branch: MAIN,
        base,
        parent: None,
        body: Body::Inline(vec![1]),
        summary: Vec::new(),
    };
    let mut write = in_session(session, 1, 0, at(TableVersion(Index(0))));
    let refused = state.apply(&write);
    let (base, current) = (TableVersion(Index(0)), moved);
    assert_eq!(refused.outcome, Err(Refusal::BaseMoved { branch: MAIN, base, current }));
    assert_eq!(state.session(session).unwrap().kept(), 0);
    write.id.attempt = 1;
    write.operation = at(moved);
    let done = state.apply(&write);
    assert!(done.outcome.is_ok() && !done.replayed);
    // A late copy of the first attempt hears of the second one's success.
    write.id.attempt = 0;
    let late = state.apply(&write);
    assert!(late.replayed);
    assert_eq!(late.outcome, done.outcome);
}

#[test]
fn a_promotion_on_moved_tables_leaves_its_number_free_for_the_next_attempt() {
    let mut state = State::new();
    let session = open(&mut state);
    let fork = frozen(&mut state, MAIN, "f");
    commit(&mut state, fork).unwrap();
    let closing = close(&mut state, fork, Purpose::Promote { into: MAIN });
    let body = |state: &State| {
        let mut operation = promote_of(state, fork, MAIN, closing);
        let Operation::Promote { tables, .. } = &mut operation else { panic!() };
        *tables = TablesChange::Body(Body::Inline(vec![1]));
        operation
    };
    let first = in_session(session, 1, 0, body(&state));
    commit(&mut state, MAIN).unwrap();
    let refused = state.apply(&first).outcome.unwrap_err();
    assert!(matches!(refused, Refusal::TablesMoved { .. }), "{refused}");
    let mut second = in_session(session, 1, 0, body(&state));
    second.id.attempt = 1;
    let done = state.apply(&second);
    assert!(done.outcome.is_ok() && !done.replayed);
    let late = state.apply(&first);
    assert_eq!((late.replayed, late.outcome), (true, done.outcome));
}

#[test]
fn answered_outcomes_are_forgotten_and_never_run_again() {
    let mut state = State::new();
    let session = open(&mut state);
    let first = in_session(session, 1, 0, append_of(MAIN, "s", 1));
    assert!(state.apply(&first).outcome.is_ok());
    assert!(state.apply(&in_session(session, 2, 1, append_of(MAIN, "s", 1))).outcome.is_ok());
    assert_eq!(state.session(session).unwrap().kept(), 1);
    let late = state.apply(&first).outcome.unwrap_err();
    assert_eq!(late, Refusal::OutcomeForgotten { session, seq: 1 });
    assert_eq!(late.happened(), Happened::Unknown);
    assert_eq!(state.admit(&first), Err(late));
    assert_eq!(state.length(MAIN, &stream("s")), 2);
}

#[test]
fn the_window_holds_at_its_bounds() {
    let mut state = State::new();
    let session = open(&mut state);
    for (seq, answered, kind) in [
        (limits::SESSION_WINDOW, 0, None),
        (limits::SESSION_WINDOW + 1, 0, Some(Kind::TooMany)),
        (limits::SESSION_WINDOW + 1, 1, None),
        (7, 7, Some(Kind::InvalidArgument)),
        (0, 0, Some(Kind::InvalidArgument)),
        (7, 6, None),
    ] {
        let write = in_session(session, seq, answered, append_of(MAIN, "s", 1));
        assert_eq!(state.admit(&write).err().map(|r| r.kind()), kind, "{seq} {answered}");
        let outcome = state.clone().apply(&write).outcome;
        assert_eq!(outcome.err().map(|r| r.kind()), kind, "{seq} {answered}");
    }
    for seq in 1..=3 * limits::SESSION_WINDOW {
        let answered = seq.saturating_sub(limits::SESSION_WINDOW);
        let write = in_session(session, seq, answered, append_of(MAIN, "s", 1));
        assert!(state.apply(&write).outcome.is_ok());
    }
    assert_eq!(state.session(session).unwrap().kept() as u64, limits::SESSION_WINDOW);
    state.assert_consistent();
}

#[test]
fn a_closed_session_executes_nothing_and_says_unknown() {
    let mut state = State::new();
    let session = open(&mut state);
    // The entry that closes its own session is not remembered anywhere.
    let close = in_session(session, 1, 0, Operation::CloseSession { session });
    assert!(state.apply(&close).outcome.is_ok());
    assert_eq!(state.sessions().count(), 0);
    for write in [close, in_session(session, 2, 0, append_of(MAIN, "s", 1))] {
        let refusal = state.apply(&write).outcome.unwrap_err();
        assert_eq!(refusal, Refusal::SessionExpired { session });
        assert_eq!((refusal.kind(), refusal.happened()), (Kind::SessionExpired, Happened::Unknown));
        assert_eq!(state.admit(&write), Err(refusal));
    }
    let never = in_session(SessionId(9), 1, 0, append_of(MAIN, "s", 1));
    let refusal = state.apply(&never).outcome.unwrap_err();
    assert_eq!(refusal, Refusal::Invalid(Invalid::SessionNeverGiven));
    assert_eq!(refusal.happened(), Happened::No);
    assert_eq!(open(&mut state), SessionId(2), "numbers are never reused");
}

#[test]
fn sessions_are_capped() {
    let mut state = State::new();
    let operation = Operation::OpenSession { owner: String::new() };
    for _ in 0..limits::SESSIONS {
        assert!(state.apply(&entry(operation.clone())).outcome.is_ok());
    }
    let refusal = state.apply(&entry(operation.clone())).outcome.unwrap_err();
    assert_eq!(refusal, Refusal::TooManySessions { count: limits::SESSIONS as u64 });
    run(&mut state, Operation::CloseSession { session: SessionId(1) }).unwrap();
    assert!(state.apply(&entry(operation)).outcome.is_ok());
}

#[test]
fn an_entry_that_is_invalid_by_itself_leaves_no_trace() {
    let mut state = State::new();
    let session = open(&mut state);
    let before = state.clone();
    let mut write = in_session(session, 5, 4, append_of(MAIN, "s", 1));
    write.actor = "a".repeat(limits::ACTOR_BYTES + 1);
    let refusal = state.apply(&write).outcome.unwrap_err();
    assert_eq!(refusal.kind(), Kind::TooLarge);
    assert_eq!(state, before);
    write.actor.pop();
    assert!(state.apply(&write).outcome.is_ok());
}
