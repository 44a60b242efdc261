//! Single rules of branches, each told as a small story.

use anabranch_log::*;

use crate::support::*;

#[test]
fn a_live_fork_interleaves_and_the_parent_does_not_see_it() {
    let mut state = State::new();
    let a = append(&mut state, MAIN, "s", 1);
    let fork = live(&mut state, MAIN, "f");
    let b = append(&mut state, MAIN, "s", 1);
    let own = append(&mut state, fork, "s", 1);
    let c = append(&mut state, MAIN, "s", 2);
    assert_eq!(view(&state, fork, "s"), [a, b, own, c, c + 1]);
    assert_eq!(view(&state, MAIN, "s"), [a, b, c, c + 1]);
    assert_eq!(state.base_version(fork, &stream("k"), &key("x")), None);
}

#[test]
fn a_frozen_fork_is_cut_inclusively_at_its_position() {
    let mut state = State::new();
    let first = append(&mut state, MAIN, "s", 3);
    put(&mut state, MAIN, "k", "x", "1");
    let middle = run(&mut state, fork_of(MAIN, "f", ForkKind::Frozen, Some(first + 1))).unwrap();
    let Outcome::Forked { branch, .. } = middle else { panic!("{middle:?}") };
    append(&mut state, MAIN, "s", 1);
    assert_eq!(view(&state, branch, "s"), [first, first + 1]);
    assert_eq!(get(&state, branch, "k", "x"), None);
    let start = run(&mut state, fork_of(MAIN, "g", ForkKind::Frozen, Some(0))).unwrap();
    let Outcome::Forked { branch, .. } = start else { panic!("{start:?}") };
    assert!(state.streams(branch).is_empty());
}

#[test]
fn fork_positions_are_bounded_by_the_branch_and_the_present() {
    let mut state = State::new();
    append(&mut state, MAIN, "s", 5);
    let f = frozen(&mut state, MAIN, "f");
    let cut = state.branch(f).unwrap().forked_at().0;
    append(&mut state, f, "s", 1);
    let now = state.applied_index().0;
    for (at, fits) in [(cut - 1, false), (cut, true), (now, true), (now + 1, false)] {
        let outcome = run(&mut state.clone(), fork_of(f, "g", ForkKind::Frozen, Some(at)));
        match outcome {
            Ok(_) => assert!(fits, "{at}"),
            Err(refusal) => {
                let (oldest, newest) = (Index(cut), Index(now));
                let expected = Refusal::Invalid(Invalid::ForkPosition { oldest, newest });
                assert!(!fits && refusal == expected, "{at}: {refusal}");
            }
        }
    }
    let live_at = run(&mut state, fork_of(f, "g", ForkKind::Live, Some(now)));
    assert_eq!(live_at, Err(Refusal::Invalid(Invalid::LiveForkAt)));
}

#[test]
fn a_promotion_joins_as_one_block_and_moves_no_offset() {
    let mut state = State::new();
    let a = append(&mut state, MAIN, "s", 1);
    let fork = live(&mut state, MAIN, "f");
    let own = append(&mut state, fork, "s", 2);
    let b = append(&mut state, MAIN, "s", 1);
    let sibling = live(&mut state, MAIN, "g");
    let theirs = append(&mut state, sibling, "s", 1);
    assert_eq!(view(&state, sibling, "s"), [a, b, theirs]);
    let closing = close(&mut state, fork, Purpose::Promote { into: MAIN });
    let operation = promote_of(&state, fork, MAIN, closing);
    let applied = run_changes(&mut state, operation);
    let at = applied.first;
    let (index, into, from) = (at, MAIN, fork);
    assert_eq!(applied.outcome, Ok(Outcome::Promoted { index, into, records: 2, keys: 0 }));
    assert_eq!(
        applied.changes,
        [
            Change::Spliced { into, from, records: 2 },
            Change::Closed { branch: fork },
            Change::Retired { branch: fork },
        ]
    );
    assert_eq!(view(&state, MAIN, "s"), [a, b, own, own + 1]);
    assert_eq!(view(&state, sibling, "s"), [a, b, theirs, own, own + 1]);
    // As of just before, the block is not there; at its index it is whole.
    assert_eq!(state.length_at(MAIN, &stream("s"), Index(at.0 - 1)), 2);
    assert_eq!(state.length_at(MAIN, &stream("s"), at), 4);
    let how = Closed::Promoted { into: MAIN, at };
    let closed = Refusal::BranchClosed { branch: fork, how };
    assert_eq!(state.resolve(&BranchName::new("f").unwrap()), Err(closed));
}

#[test]
fn forks_of_a_closed_branch_keep_its_view_until_the_last_is_gone() {
    let mut state = State::new();
    let a = append(&mut state, MAIN, "s", 1);
    let parent = live(&mut state, MAIN, "p");
    let own = append(&mut state, parent, "s", 1);
    let child = live(&mut state, parent, "c");
    let grandchild = frozen(&mut state, child, "g");
    promote(&mut state, parent, MAIN).unwrap();
    append(&mut state, MAIN, "s", 1);
    assert_eq!(view(&state, child, "s"), [a, own], "a frozen view of the closed parent");
    assert_eq!(state.promotion_target(child), Ok(MAIN));
    assert!(!state.branch(parent).unwrap().is_retired());
    let theirs = append(&mut state, child, "s", 1);
    assert_eq!(view(&state, child, "s"), [a, own, theirs]);
    discard(&mut state, child);
    assert!(!state.branch(parent).unwrap().is_retired(), "the grandchild reads through both");
    assert_eq!(view(&state, grandchild, "s"), [a, own]);
    let refused = state.promotion_target(grandchild).unwrap_err();
    assert_eq!(refused, Refusal::NeedsTarget { branch: grandchild, parent: child });
    let closing = close(&mut state, grandchild, Purpose::Discard);
    let applied = run_changes(&mut state, Operation::Discard { branch: grandchild, closing });
    let retired = [grandchild, child, parent].map(|branch| Change::Retired { branch });
    assert_eq!(applied.changes[1..], retired);
}

#[test]
fn a_child_of_a_promoted_branch_promotes_without_false_conflicts() {
    let mut state = State::new();
    let parent = frozen(&mut state, MAIN, "p");
    put(&mut state, parent, "k", "x", "1");
    let child = frozen(&mut state, parent, "c");
    let own = put(&mut state, child, "k", "x", "2");
    promote(&mut state, parent, MAIN).unwrap();
    // The target's newest version is the very one that the child replaced.
    assert_eq!(state.key_conflicts(child, MAIN), []);
    promote(&mut state, child, MAIN).unwrap();
    assert_eq!(get(&state, MAIN, "k", "x"), Some(own));
}

#[test]
fn a_key_changed_on_both_sides_is_a_conflict_until_it_is_settled() {
    let mut state = State::new();
    let base = put(&mut state, MAIN, "k", "x", "0");
    let fork = live(&mut state, MAIN, "f");
    // Until its first own write a live fork follows: this is its base.
    let followed = put(&mut state, MAIN, "k", "x", "1");
    let ours = put(&mut state, fork, "k", "x", "2");
    let also = put(&mut state, fork, "k", "y", "2");
    assert_eq!(state.key_conflicts(fork, MAIN), []);
    let theirs = put(&mut state, MAIN, "k", "x", "3");
    assert_eq!(get(&state, fork, "k", "x"), Some(ours), "own writes win");
    assert!(base < followed);
    let conflict = KeyConflict {
        stream: stream("k"),
        key: key("x"),
        base: Some(Index(followed)),
        ours: Index(ours),
        theirs: Some(Index(theirs)),
    };
    assert_eq!(state.key_conflicts(fork, MAIN), [conflict]);
    let closing = close(&mut state, fork, Purpose::Promote { into: MAIN });
    let plain = promote_of(&state, fork, MAIN, closing);
    let settle = |left: bool, theirs: Option<u64>| {
        let mut operation = plain.clone();
        let Operation::Promote { leave_out, overwrite, .. } = &mut operation else { panic!() };
        let (stream, key) = (stream("k"), key("x"));
        if left {
            leave_out.push((stream, key));
        } else {
            overwrite.push(Overwrite { stream, key, theirs: theirs.map(Index) });
        }
        operation
    };
    let refusal = run(&mut state, plain.clone()).unwrap_err();
    let listed = vec![(stream("k"), key("x"))];
    assert_eq!(refusal, Refusal::Conflict { listed, count: 1 });
    let older = run(&mut state, settle(false, Some(followed))).unwrap_err();
    assert_eq!(older.kind(), Kind::Conflict, "another version than the reviewed one");

    let mut won = state.clone();
    run(&mut won, settle(false, Some(theirs))).unwrap();
    assert_eq!(get(&won, MAIN, "k", "x"), Some(ours));
    assert_eq!(get(&won, MAIN, "k", "y"), Some(also));

    let left = run(&mut state, settle(true, None)).unwrap();
    let Outcome::Promoted { records: 1, keys: 1, .. } = left else { panic!("{left:?}") };
    assert_eq!(get(&state, MAIN, "k", "x"), Some(theirs));
    assert_eq!(get(&state, MAIN, "k", "y"), Some(also));
    assert_eq!(state.versions(MAIN, &stream("k")), 4);
}

#[test]
fn what_was_acknowledged_before_a_closing_lands_with_the_promotion() {
    let mut state = State::new();
    let fork = live(&mut state, MAIN, "f");
    let late = append_of(fork, "s", 1);
    assert_eq!(state.admit(&entry(late.clone())), Ok(()));
    let closing = close(&mut state, fork, Purpose::Promote { into: MAIN });
    assert_eq!(state.admit(&entry(late.clone())), Err(Refusal::BranchClosing { branch: fork }));
    let index = run(&mut state, late).unwrap().index().0;
    let (s, k) = (stream("s"), key("k"));
    let ordered = Operation::Incr { branch: fork, stream: s, key: k, delta: 1 };
    assert_eq!(run(&mut state, ordered), Err(Refusal::BranchClosing { branch: fork }));
    let operation = promote_of(&state, fork, MAIN, closing);
    run(&mut state, operation).unwrap();
    assert_eq!(view(&state, MAIN, "s"), [index]);
}

#[test]
fn a_second_phase_is_void_once_its_closing_is_over() {
    let mut state = State::new();
    let fork = live(&mut state, MAIN, "f");
    let closing = close(&mut state, fork, Purpose::Promote { into: MAIN });
    let operation = promote_of(&state, fork, MAIN, closing);
    let discard = run(&mut state, Operation::Discard { branch: fork, closing });
    let void = Refusal::NotClosing { branch: fork, closing };
    assert_eq!(discard, Err(void.clone()), "closing for something else");
    run(&mut state, Operation::Reopen { branch: fork, closing }).unwrap();
    assert_eq!(run(&mut state, operation.clone()), Err(void.clone()));
    let again = close(&mut state, fork, Purpose::Promote { into: MAIN });
    assert_eq!(run(&mut state, operation), Err(void), "an older closing");
    let operation = promote_of(&state, fork, MAIN, again);
    run(&mut state, operation).unwrap();
}

#[test]
fn an_expiry_is_void_if_the_fork_was_used() {
    let mut state = State::new();
    let fork = live(&mut state, MAIN, "f");
    let seen = state.branch(fork).unwrap().last_used();
    let at = Index(append(&mut state, fork, "s", 1));
    let void = Refusal::UsedSince { branch: fork, last_used: at };
    let purpose = Purpose::Expire { last_used: seen };
    assert_eq!(run(&mut state, Operation::Closing { branch: fork, purpose }), Err(void));
    // A write acknowledged before the closing but ordered after it is a use as well.
    let closing = close(&mut state, fork, Purpose::Expire { last_used: at });
    let later = Index(append(&mut state, fork, "s", 1));
    let void = Refusal::UsedSince { branch: fork, last_used: later };
    assert_eq!(run(&mut state, Operation::Discard { branch: fork, closing }), Err(void));
    run(&mut state, Operation::Reopen { branch: fork, closing }).unwrap();
    let closing = close(&mut state, fork, Purpose::Expire { last_used: later });
    run(&mut state, Operation::Discard { branch: fork, closing }).unwrap();
    let closed = state.branch(fork).unwrap().closed();
    assert!(matches!(closed, Some(Closed::Expired { .. })), "{closed:?}");
}

#[test]
fn main_and_wrong_targets_cannot_be_promoted() {
    let mut state = State::new();
    let a = live(&mut state, MAIN, "a");
    let b = live(&mut state, a, "b");
    let closing = |branch, into| Operation::Closing { branch, purpose: Purpose::Promote { into } };
    for (branch, into, invalid) in
        [(MAIN, a, Invalid::Main), (a, a, Invalid::TargetWithin), (a, b, Invalid::TargetWithin)]
    {
        let refusal = run(&mut state, closing(branch, into)).unwrap_err();
        assert_eq!(refusal, Refusal::Invalid(invalid));
    }
    let purpose = Purpose::Discard;
    let main = run(&mut state, Operation::Closing { branch: MAIN, purpose });
    assert_eq!(main, Err(Refusal::Invalid(Invalid::Main)));
    // Past the parent, onto the root or a sibling: allowed.
    let sibling = frozen(&mut state, MAIN, "c");
    let own = append(&mut state, b, "s", 1);
    promote(&mut state, b, sibling).unwrap();
    assert_eq!(view(&state, sibling, "s"), [own]);
    assert_eq!(view(&state, MAIN, "s"), []);
}

#[test]
fn a_promotion_follows_the_parent_wherever_it_went() {
    let mut state = State::new();
    let parent = live(&mut state, MAIN, "p");
    let child = live(&mut state, parent, "c");
    let own = append(&mut state, child, "s", 1);
    assert_eq!(state.promotion_target(child), Ok(parent));
    let receiver = live(&mut state, MAIN, "r");
    let last = live(&mut state, MAIN, "l");
    promote(&mut state, parent, receiver).unwrap();
    assert_eq!(state.promotion_target(child), Ok(receiver));
    promote(&mut state, receiver, last).unwrap();
    assert_eq!(state.promotion_target(child), Ok(last));
    promote(&mut state, child, last).unwrap();
    assert_eq!(view(&state, last, "s"), [own]);
    let closed = state.promotion_target(child).unwrap_err();
    assert_eq!(closed.kind(), Kind::BranchClosed);
    assert_eq!(state.promotion_target(MAIN), Err(Refusal::Invalid(Invalid::Main)));
}

#[test]
fn a_name_is_free_again_after_its_end_and_old_writes_miss_the_new_branch() {
    let mut state = State::new();
    let old = live(&mut state, MAIN, "f");
    let taken = run(&mut state, fork_of(MAIN, "f", ForkKind::Live, None)).unwrap_err();
    let name = BranchName::new("f").unwrap();
    assert_eq!(taken, Refusal::NameTaken { name: name.clone(), branch: old });
    discard(&mut state, old);
    let new = live(&mut state, MAIN, "f");
    assert_eq!(state.resolve(&name), Ok(new));
    let late = run(&mut state, append_of(old, "s", 1)).unwrap_err();
    assert_eq!(late.kind(), Kind::BranchClosed);
    assert_eq!(state.length(new, &stream("s")), 0);
}

#[test]
fn tables_move_by_commits_and_by_promotions_that_name_the_right_version() {
    let mut state = State::new();
    commit(&mut state, MAIN).unwrap();
    let fork = frozen(&mut state, MAIN, "f");
    let base = state.branch(fork).unwrap().tables();
    assert_eq!(base, state.branch(MAIN).unwrap().tables());
    append(&mut state, MAIN, "s", 1);
    assert_eq!(state.branch(MAIN).unwrap().tables(), base, "appends do not move tables");
    commit(&mut state, fork).unwrap();
    let closing = close(&mut state, fork, Purpose::Promote { into: MAIN });
    let with = |state: &State, change: TablesChange, version: Option<TableVersion>| {
        let mut operation = promote_of(state, fork, MAIN, closing);
        let Operation::Promote { tables, target_tables, .. } = &mut operation else { panic!() };
        *tables = change;
        *target_tables = version.unwrap_or(*target_tables);
        operation
    };
    let mut stood_still = state.clone();
    let operation = with(&stood_still, TablesChange::TakeFork, None);
    let applied = run_changes(&mut stood_still, operation);
    let (into, from, version) = (MAIN, fork, TableVersion(applied.first));
    assert_eq!(applied.changes[1], Change::TablesTaken { into, from, version });
    assert_eq!(stood_still.branch(MAIN).unwrap().tables(), version);

    commit(&mut state, MAIN).unwrap();
    let body = TablesChange::Body(Body::Inline(vec![1]));
    for stale in [
        with(&state, TablesChange::TakeFork, None),
        with(&state, TablesChange::TakeFork, Some(base)),
        with(&state, body.clone(), Some(base)),
        with(&state, TablesChange::None, Some(base)),
    ] {
        assert_eq!(run(&mut state, stale).unwrap_err().kind(), Kind::TablesMoved);
    }
    let operation = with(&state, body, None);
    let applied = run_changes(&mut state, operation);
    let (branch, version) = (MAIN, TableVersion(applied.first));
    assert_eq!(applied.changes[1], Change::TablesCommitted { branch, version });
}

#[test]
fn a_promotion_is_void_if_checks_of_the_target_changed_after_the_closing() {
    let mut state = State::new();
    let fork = live(&mut state, MAIN, "f");
    let check = |name: &str| Operation::AddCheck {
        branch: MAIN,
        name: name.into(),
        sql: String::from("select 1 where 0"),
    };
    run(&mut state, check("before")).unwrap();
    let closing = close(&mut state, fork, Purpose::Promote { into: MAIN });
    let at = run(&mut state, check("after")).unwrap().index();
    let operation = promote_of(&state, fork, MAIN, closing);
    let refusal = run(&mut state, operation).unwrap_err();
    assert_eq!(refusal, Refusal::ChecksMoved { branch: MAIN, at });
    run(&mut state, Operation::Reopen { branch: fork, closing }).unwrap();
    promote(&mut state, fork, MAIN).unwrap();
    assert_eq!(state.checks(MAIN).len(), 2);
    let twice = run(&mut state, check("after")).unwrap_err();
    assert_eq!(twice.kind(), Kind::NameTaken);
}

#[test]
fn table_roots_are_kept_for_a_while_and_each_release_is_told() {
    let mut state = State::new();
    let keep = limits::RETAINED_ROOTS as u64;
    let mut released = Vec::new();
    for _ in 0..2 * keep {
        let base = state.branch(MAIN).unwrap().tables();
        let body = Body::Inline(Vec::new());
        let commit =
            Operation::Commit { branch: MAIN, base, parent: None, body, summary: Vec::new() };
        for change in state.apply(&entry(commit)).changes {
            if let Change::RootReleased { version, .. } = change {
                released.push(version.0.0);
            }
        }
    }
    state.assert_consistent();
    assert_eq!(released, (0..=keep).collect::<Vec<_>>());
    let oldest = keep + 1;
    let gone = run(&mut state, fork_of(MAIN, "f", ForkKind::Frozen, Some(keep))).unwrap_err();
    let (oldest_valid, newest_valid) = (Index(oldest), Index(2 * keep));
    assert_eq!(gone, Refusal::TableRootGone { oldest_valid, newest_valid });
    let kept = run(&mut state, fork_of(MAIN, "f", ForkKind::Frozen, Some(oldest))).unwrap();
    let Outcome::Forked { branch, .. } = kept else { panic!("{kept:?}") };
    assert_eq!(state.branch(branch).unwrap().base_tables(), TableVersion(Index(oldest)));
}

#[test]
fn table_sources_lead_from_the_branch_with_pages_down_the_live_forks() {
    let mut state = State::new();
    commit(&mut state, MAIN).unwrap();
    let a = live(&mut state, MAIN, "a");
    let own = commit(&mut state, a).unwrap().index();
    let then = state.applied_index();
    let b = live(&mut state, a, "b");
    let main = commit(&mut state, MAIN).unwrap().index();
    let version = |index| TableVersion(index);
    assert_eq!(
        state.table_sources(b, None),
        Ok(vec![(MAIN, version(main)), (a, version(own)), (b, version(own))])
    );
    assert_eq!(
        state.table_sources(a, Some(then)),
        Ok(vec![(MAIN, version(Index(1))), (a, version(own))])
    );
    let c = frozen(&mut state, a, "c");
    assert_eq!(state.table_sources(c, None), Ok(vec![(c, version(own))]));
}

#[test]
fn depth_is_bounded() {
    let mut state = State::new();
    let mut branch = MAIN;
    for i in 0..limits::DEPTH {
        append(&mut state, branch, "s", 1);
        branch = live(&mut state, branch, &format!("f{i}"));
    }
    let refusal = run(&mut state, fork_of(branch, "g", ForkKind::Live, None)).unwrap_err();
    assert_eq!(refusal, Refusal::TooDeep { depth: limits::DEPTH + 1 });
    assert_eq!(view(&state, branch, "s").len() as u64, u64::from(limits::DEPTH));
}

#[test]
fn quotas_refuse_at_admission_but_never_after_it() {
    let mut state = State::new();
    for i in 0..limits::OWN_STREAMS {
        let write = entry(append_of(MAIN, &format!("s{i}"), 1));
        assert_eq!(state.admit(&write), Ok(()));
        assert!(state.apply(&write).outcome.is_ok());
    }
    let more = entry(append_of(MAIN, "more", 1));
    let count = limits::OWN_STREAMS as u64;
    assert_eq!(state.admit(&more), Err(Refusal::TooManyStreams { branch: MAIN, count }));
    assert_eq!(state.admit(&entry(append_of(MAIN, "s0", 1))), Ok(()));
    assert!(state.apply(&more).outcome.is_ok(), "it may have been acknowledged before");
}

#[test]
fn sizes_are_checked_at_their_bounds_before_and_after_acknowledgement() {
    let appends = |count: usize, size: usize| Operation::Append {
        branch: MAIN,
        stream: stream("s"),
        expected: None,
        records: vec![vec![0; size]; count],
    };
    let mut put = put_of(MAIN, "k", "x", "");
    let mut put_with = |size: usize| {
        let Operation::Put { value, .. } = &mut put else { panic!() };
        value.resize(size, 0);
        put.clone()
    };
    for (operation, fits) in [
        (appends(0, 0), false),
        (appends(1, 0), true),
        (appends(limits::BATCH_RECORDS, 1), true),
        (appends(limits::BATCH_RECORDS + 1, 1), false),
        (appends(1, limits::RECORD_BYTES), true),
        (appends(1, limits::RECORD_BYTES + 1), false),
        (appends(4, limits::BATCH_BYTES / 4), true),
        (appends(5, limits::BATCH_BYTES / 5 + 1), false),
        (put_with(limits::RECORD_BYTES), true),
        (put_with(limits::RECORD_BYTES + 1), false),
    ] {
        let mut state = State::new();
        let write = entry(operation);
        assert_eq!(state.admit(&write).is_ok(), fits, "{}", write.operation.verb());
        assert_eq!(state.apply(&write).outcome.is_ok(), fits);
        if fits {
            assert_eq!(Entry::decode(&write.encode()), Ok(write));
        }
    }
}

#[test]
fn numbers_count_and_refuse_what_they_cannot() {
    let mut state = State::new();
    let incr =
        |branch, delta| Operation::Incr { branch, stream: stream("k"), key: key("n"), delta };
    let value = |outcome: Result<Outcome, Refusal>| match outcome {
        Ok(Outcome::Number { value, .. }) => Ok(value),
        Ok(other) => panic!("{other:?}"),
        Err(refusal) => Err(refusal.kind()),
    };
    assert_eq!(value(run(&mut state, incr(MAIN, 5))), Ok(5));
    let fork = live(&mut state, MAIN, "f");
    assert_eq!(value(run(&mut state, incr(fork, 5))), Ok(10), "counts on from the parent");
    assert_eq!(value(run(&mut state, incr(MAIN, -1))), Ok(4));
    assert_eq!(value(run(&mut state, incr(fork, i64::MAX))), Err(Kind::NotANumber));
    put(&mut state, MAIN, "k", "n", "many");
    assert_eq!(value(run(&mut state, incr(MAIN, 1))), Err(Kind::NotANumber));
    put(&mut state, MAIN, "k", "n", "-3");
    let applied = run_changes(&mut state, incr(MAIN, 1));
    let Change::Record { value: text, .. } = &applied.changes[0] else { panic!() };
    assert_eq!(text.as_deref(), Some(&b"-2"[..]));
    let (s, k) = (stream("k"), key("n"));
    run(&mut state, Operation::Delete { branch: MAIN, stream: s, key: k }).unwrap();
    assert_eq!(value(run(&mut state, incr(MAIN, 7))), Ok(7));
}

#[test]
fn plain_and_keyed_streams_of_one_name_are_two() {
    let mut state = State::new();
    append(&mut state, MAIN, "s", 2);
    put(&mut state, MAIN, "s", "x", "1");
    let s = stream("s");
    assert_eq!(state.length(MAIN, &s), 2);
    assert_eq!(state.versions(MAIN, &s), 1);
    let streams = [(StreamKind::Plain, s.clone(), 2), (StreamKind::Keyed, s, 1)];
    assert_eq!(state.streams(MAIN), streams);
}
