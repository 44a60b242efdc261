//! Conflicts, policies, cell merge, exchanged unique values, diffs, live views.

use std::collections::BTreeSet;

use anabranch_sql::{
    ChangeKind, Limits, LiveError, Policy, PromoteError, Promotion, diff, diff_against, promote,
    rebuild_live,
};

use crate::Branch;

fn base() -> Branch {
    let mut branch = Branch::new();
    branch.run(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b, u UNIQUE);
         INSERT INTO t VALUES (1, 'a1', 'b1', 'u1'), (2, 'a2', 'b2', 'u2'), (3, 'a3', 'b3', 'u3')",
    );
    branch
}

#[test]
fn a_conflict_shows_all_three_versions_and_the_policy_decides() {
    let mut main = base();
    let mut fork = main.fork();
    fork.run("UPDATE t SET a = 'ours' WHERE id = 1; UPDATE t SET a = 'quiet' WHERE id = 2");
    main.run("UPDATE t SET a = 'theirs' WHERE id = 1");
    let Err(PromoteError::Conflicts { conflicts, count }) = fork.promote_with(&main, Policy::Fail)
    else {
        panic!("no conflict")
    };
    assert_eq!((count, conflicts.len()), (1, 1));
    let column = |row: &Option<Vec<anabranch_sql::Value>>| row.as_ref().unwrap()[1].to_literal();
    let found = &conflicts[0];
    let versions = [column(&found.base), column(&found.ours), column(&found.theirs)];
    assert_eq!(versions, ["'a1'", "'ours'", "'theirs'"]);
    assert_eq!(found.conflicting, ["a"]);
    for (policy, winner) in [(Policy::Fork, "'ours'"), (Policy::Parent, "'theirs'")] {
        let candidate = fork.promote_with(&main, policy).unwrap();
        assert_eq!(candidate.conflict_count, 1);
        let landed = Branch { root: candidate.root, ..main.clone() };
        assert_eq!(landed.rows("SELECT a FROM t WHERE id = 1"), [winner]);
        assert_eq!(landed.rows("SELECT a FROM t WHERE id = 2"), ["'quiet'"]);
    }
}

#[test]
fn a_row_deleted_on_one_side_and_changed_on_the_other_conflicts() {
    let mut main = base();
    let (mut deleting, mut changing) = (main.fork(), main.fork());
    deleting.run("DELETE FROM t WHERE id = 1");
    changing.run("UPDATE t SET a = 'x' WHERE id = 1");
    main.run("UPDATE t SET b = 'y' WHERE id = 1");
    assert!(matches!(
        deleting.promote_with(&main, Policy::Fail),
        Err(PromoteError::Conflicts { count: 1, .. })
    ));
    main.run("DELETE FROM t WHERE id = 1");
    assert!(deleting.promote_with(&main, Policy::Fail).is_ok(), "both deleted it");
    let candidate = changing.promote_with(&main, Policy::Fork).unwrap();
    let landed = Branch { root: candidate.root, ..main };
    assert_eq!(landed.rows("SELECT a FROM t WHERE id = 1"), ["'x'"]);
}

#[test]
fn cells_merge_only_where_asked_for() {
    let mut main = base();
    let mut fork = main.fork();
    fork.run("UPDATE t SET a = 'ours' WHERE id = 1");
    main.run("UPDATE t SET b = 'theirs' WHERE id = 1");
    assert!(fork.promote_with(&main, Policy::Fail).is_err());
    let promotion = Promotion {
        target: &main.root,
        net: &fork.net,
        policy: Policy::Fail,
        merge_cells: &BTreeSet::from(["T".to_owned()]),
        max_conflicts: 10,
        limits: Limits::default(),
    };
    let root = promote(&fork.store, &promotion).unwrap().root;
    let landed = Branch { root, ..main };
    assert_eq!(landed.rows("SELECT a, b FROM t WHERE id = 1"), ["'ours'|'theirs'"]);
}

#[test]
fn rows_that_exchange_unique_values_land() {
    let mut main = base();
    let mut fork = main.fork();
    fork.run(
        "UPDATE t SET u = 'tmp' WHERE id = 1; UPDATE t SET u = 'u1' WHERE id = 2;
         UPDATE t SET u = 'u2' WHERE id = 1",
    );
    main.run("UPDATE t SET a = 'moved' WHERE id = 3");
    fork.promote(&mut main);
    assert_eq!(main.rows("SELECT u FROM t ORDER BY id"), ["'u2'", "'u1'", "'u3'"]);
}

#[test]
fn a_unique_value_taken_meanwhile_is_named() {
    let mut main = base();
    let mut fork = main.fork();
    fork.run("INSERT INTO t VALUES (7, 'x', 'x', 'new')");
    main.run("INSERT INTO t VALUES (8, 'y', 'y', 'new')");
    let error = fork.promote_with(&main, Policy::Fork).unwrap_err().to_string();
    assert!(error.contains("`t`") && error.contains('7') && error.contains("UNIQUE"), "{error}");
}

#[test]
fn a_diff_counts_everything_and_shows_deletions_first() {
    let mut main = Branch::new();
    main.run("CREATE TABLE t(id INTEGER PRIMARY KEY, a)");
    let numbers = |first: u32, last: u32| {
        format!(
            "WITH RECURSIVE n(x) AS (SELECT {first} UNION ALL SELECT x+1 FROM n WHERE x < {last})
             INSERT INTO t SELECT x, x FROM n"
        )
    };
    main.run(&numbers(1, 50));
    let mut fork = main.fork();
    fork.run(&numbers(101, 300));
    fork.run(
        "DELETE FROM t WHERE id <= 5; INSERT INTO t VALUES (999, 0); DELETE FROM t WHERE id = 999",
    );
    let found = diff(&fork.net, 10);
    let table = &found.tables[0];
    let counts = &table.counts;
    assert_eq!((counts.inserts, counts.updates, counts.deletes), (200, 0, 5));
    assert!(table.truncated);
    let deleted = table.rows.iter().filter(|row| row.kind == ChangeKind::Delete).count();
    assert_eq!((table.rows.len(), deleted), (10, 5));
    main.run("DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (101, 101)");
    let against = diff_against(&fork.store, &main.root, &fork.net, 1_000).unwrap();
    let counts = &against.tables[0].counts;
    assert_eq!((counts.inserts, counts.updates, counts.deletes), (199, 0, 4));
}

#[test]
fn a_live_view_has_the_parents_news_and_the_forks_own() {
    let mut main = base();
    let mut fork = main.fork();
    fork.run("UPDATE t SET a = 'own' WHERE id = 1; DELETE FROM t WHERE id = 2");
    main.run("UPDATE t SET a = 'news' WHERE id IN (1, 3); UPDATE t SET b = 'news' WHERE id = 2");
    let root = rebuild_live(&fork.store, &main.root, &fork.net, Limits::default()).unwrap();
    let view = Branch { root, ..fork.clone() };
    assert_eq!(view.rows("SELECT id, a FROM t ORDER BY id"), ["1|'own'", "3|'news'"]);
    main.run("INSERT INTO t VALUES (9, 'parent', 0, 9)");
    fork.run("INSERT INTO t VALUES (9, 'fork', 0, 10)");
    let clash = rebuild_live(&fork.store, &main.root, &fork.net, Limits::default());
    assert!(matches!(clash, Err(LiveError::Clash(clash)) if clash.table == "t"));
}
