//! SQL on branches: commits through the log, forks, diffs, promotions.

use anabranch_log::{Happened, Kind};
use anabranch_node::{
    Against, ChangeKind, ForkKind, ForkRequest, Policy, PromoteOptions, Space, SqlOptions,
    SqlResult,
};
use anabranch_sql::Value;

use crate::{Fixture, fork, me};

fn run(space: &Space, branch: &str, sql: &str) -> SqlResult {
    space.sql(branch, sql, &[], &SqlOptions::default(), &me()).expect(sql)
}

fn ints(space: &Space, branch: &str, sql: &str) -> Vec<i64> {
    let result = run(space, branch, sql);
    let int = |value: &Value| match value {
        Value::Integer(number) => *number,
        other => panic!("not a number: {other:?}"),
    };
    result.rows.iter().map(|row| int(&row[0])).collect()
}

const TABLE: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, a INT, b INT)";

fn base() -> (Fixture, Space) {
    let fixture = Fixture::new();
    let space = fixture.open();
    run(&space, "main", TABLE);
    run(&space, "main", "INSERT INTO t VALUES (1, 10, 100), (2, 20, 200), (3, 30, 300)");
    (fixture, space)
}

#[test]
fn commits_survive_restart_and_checkpoint() {
    let (fixture, space) = base();
    drop(space);
    let space = fixture.open();
    assert_eq!(ints(&space, "main", "SELECT sum(a) FROM t"), [60]);
    space.checkpoint(&me()).unwrap();
    run(&space, "main", "UPDATE t SET a = 11 WHERE id = 1");
    drop(space);
    let space = fixture.open();
    assert_eq!(ints(&space, "main", "SELECT sum(a) FROM t"), [61]);
}

#[test]
fn a_failed_statement_changes_nothing() {
    let (_fixture, space) = base();
    let twice = "UPDATE t SET a = 0; INSERT INTO t VALUES (1, 0, 0)";
    let error = space.sql("main", twice, &[], &SqlOptions::default(), &me()).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::Sql, Happened::No));
    assert_eq!(ints(&space, "main", "SELECT sum(a) FROM t"), [60]);
}

#[test]
fn a_frozen_fork_is_isolated_and_promotes() {
    let (_fixture, space) = base();
    fork(&space, "main", "f", ForkKind::Frozen);
    run(&space, "f", "UPDATE t SET a = 99 WHERE id = 1; DELETE FROM t WHERE id = 3");
    run(&space, "main", "UPDATE t SET b = 201 WHERE id = 2");
    assert_eq!(ints(&space, "f", "SELECT b FROM t WHERE id = 2"), [200]);
    assert_eq!(ints(&space, "main", "SELECT a FROM t ORDER BY id"), [10, 20, 30]);
    let diff = space.diff("f", Against::Base, 100).unwrap();
    let table = &diff.tables[0];
    assert_eq!((table.inserts, table.updates, table.deletes), (0, 1, 1));
    assert_eq!(table.rows[0].kind, ChangeKind::Delete);
    let landed = space.promote("f", &PromoteOptions::default(), &me()).unwrap();
    assert_eq!(landed.rows, (0, 1, 1));
    assert_eq!(ints(&space, "main", "SELECT a FROM t ORDER BY id"), [99, 20]);
    assert_eq!(ints(&space, "main", "SELECT b FROM t WHERE id = 2"), [201]);
}

#[test]
fn a_fork_of_tables_that_stood_still_is_taken_whole() {
    let (fixture, space) = base();
    fork(&space, "main", "f", ForkKind::Frozen);
    run(&space, "f", "CREATE TABLE u(x); INSERT INTO u VALUES (7)");
    space.promote("f", &PromoteOptions::default(), &me()).unwrap();
    assert_eq!(ints(&space, "main", "SELECT x FROM u"), [7]);
    drop(space);
    assert_eq!(ints(&fixture.open(), "main", "SELECT x FROM u"), [7]);
}

#[test]
fn a_live_fork_follows_its_parent_and_keeps_its_own() {
    let (fixture, space) = base();
    fork(&space, "main", "l", ForkKind::Live);
    run(&space, "l", "UPDATE t SET a = 77 WHERE id = 1; INSERT INTO t VALUES (9, 90, 900)");
    run(&space, "main", "UPDATE t SET a = 21 WHERE id = 2");
    assert_eq!(ints(&space, "l", "SELECT a FROM t ORDER BY id"), [77, 21, 30, 90]);
    assert_eq!(ints(&space, "main", "SELECT a FROM t ORDER BY id"), [10, 21, 30]);
    fork(&space, "l", "snap", ForkKind::Frozen);
    run(&space, "main", "UPDATE t SET a = 31 WHERE id = 3");
    assert_eq!(ints(&space, "snap", "SELECT a FROM t ORDER BY id"), [77, 21, 30, 90]);
    run(&space, "snap", "UPDATE t SET a = 5 WHERE id = 9");
    assert_eq!(ints(&space, "snap", "SELECT a FROM t ORDER BY id"), [77, 21, 30, 5]);
    space.checkpoint(&me()).unwrap();
    drop(space);
    let space = fixture.open();
    assert_eq!(ints(&space, "l", "SELECT a FROM t ORDER BY id"), [77, 21, 31, 90]);
    assert_eq!(ints(&space, "snap", "SELECT a FROM t ORDER BY id"), [77, 21, 30, 5]);
    let landed = space.promote("l", &PromoteOptions::default(), &me()).unwrap();
    assert_eq!(landed.rows, (1, 1, 0));
    assert_eq!(ints(&space, "main", "SELECT a FROM t ORDER BY id"), [77, 21, 31, 90]);
}

#[test]
fn a_live_fork_that_clashes_is_behind_and_says_so() {
    let (_fixture, space) = base();
    fork(&space, "main", "l", ForkKind::Live);
    run(&space, "l", "INSERT INTO t VALUES (9, 1, 1)");
    assert_eq!(ints(&space, "l", "SELECT count(*) FROM t"), [4]);
    run(&space, "main", "DROP TABLE t");
    let read = run(&space, "l", "SELECT count(*) FROM t");
    assert!(read.behind.is_some(), "{read:?}");
    assert_eq!(read.rows[0][0], Value::Integer(4));
    let write = space.sql("l", "DELETE FROM t", &[], &SqlOptions::default(), &me());
    assert_eq!(write.unwrap_err().kind, Kind::Conflict);
}

#[test]
fn conflicting_rows_show_base_ours_theirs() {
    let (_fixture, space) = base();
    fork(&space, "main", "f", ForkKind::Frozen);
    run(&space, "f", "UPDATE t SET a = 11 WHERE id = 1");
    run(&space, "main", "UPDATE t SET a = 12 WHERE id = 1");
    let error = space.promote("f", &PromoteOptions::default(), &me()).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::Conflict, Happened::No));
    let preview = error.preview.unwrap();
    let conflict = &preview.conflicts[0];
    let column = |row: &Option<Vec<Value>>| row.as_ref().unwrap()[1].clone();
    assert_eq!(column(&conflict.base), Value::Integer(10));
    assert_eq!(column(&conflict.ours), Value::Integer(11));
    assert_eq!(column(&conflict.theirs), Value::Integer(12));
    let ours = PromoteOptions { policy: Policy::Fork, ..PromoteOptions::default() };
    let landed = space.promote("f", &ours, &me()).unwrap();
    assert_eq!(landed.settled.len(), 1);
    assert_eq!(ints(&space, "main", "SELECT a FROM t WHERE id = 1"), [11]);
}

#[test]
fn checks_hold_for_promotions_and_direct_commits() {
    let (_fixture, space) = base();
    space.add_check("main", "positive", "SELECT id FROM t WHERE a <= 0", &me()).unwrap();
    let direct = "UPDATE t SET a = -1 WHERE id = 1";
    let error = space.sql("main", direct, &[], &SqlOptions::default(), &me()).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::CheckFailed, Happened::No));
    fork(&space, "main", "f", ForkKind::Live);
    run(&space, "f", direct);
    let error = space.promote("f", &PromoteOptions::default(), &me()).unwrap_err();
    assert_eq!(error.kind, Kind::CheckFailed);
    let checks = error.preview.unwrap().checks;
    assert_eq!(checks[0].rows, [[Value::Integer(1)]]);
    assert_eq!(ints(&space, "main", "SELECT a FROM t WHERE id = 1"), [10]);
    assert!(space.run_checks("main").unwrap()[0].passed);
    let error = space.add_check("main", "bad", "SELECT nothing FROM t", &me()).unwrap_err();
    assert_eq!(error.kind, Kind::Sql);
}

#[test]
fn strict_refuses_what_rests_on_changed_reads() {
    let (_fixture, space) = base();
    run(&space, "main", "CREATE TABLE u(x); CREATE TABLE v(x)");
    for (name, read) in [("reader", "t"), ("other", "v")] {
        fork(&space, "main", name, ForkKind::Frozen);
        run(&space, name, &format!("INSERT INTO u SELECT count(*) FROM {read}"));
    }
    run(&space, "main", "UPDATE t SET b = 0 WHERE id = 1");
    let strict = PromoteOptions { strict: true, ..PromoteOptions::default() };
    let error = space.promote("reader", &strict, &me()).unwrap_err();
    assert_eq!(error.kind, Kind::Conflict);
    assert_eq!(error.preview.unwrap().stale_reads, ["t"]);
    space.promote("other", &strict, &me()).unwrap();
}

#[test]
fn an_interactive_transaction_is_refused_if_the_tables_moved() {
    let (_fixture, space) = base();
    let mut transaction = space.begin("main", &SqlOptions::default(), &me()).unwrap();
    transaction.run("UPDATE t SET a = 1 WHERE id = 1", &[]).unwrap();
    run(&space, "main", "UPDATE t SET a = 2 WHERE id = 2");
    let error = transaction.commit().unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::TablesMoved, Happened::No));
    let mut transaction = space.begin("main", &SqlOptions::default(), &me()).unwrap();
    transaction.run("UPDATE t SET a = 1 WHERE id = ?", &[Value::Integer(1)]).unwrap();
    assert!(transaction.commit().unwrap().is_some());
    assert_eq!(ints(&space, "main", "SELECT a FROM t ORDER BY id"), [1, 2, 30]);
}

#[test]
fn a_fork_at_a_past_index_sees_the_past_or_says_why_not() {
    let (_fixture, space) = base();
    let before = space.status().index;
    run(&space, "main", "UPDATE t SET a = 0");
    let request = |at: u64, name: &str| ForkRequest {
        parent: "main".into(),
        name: name.into(),
        kind: ForkKind::Frozen,
        at: Some(at),
        owner: String::new(),
        ttl_ms: None,
    };
    space.fork(&request(before, "past"), &me()).unwrap();
    assert_eq!(ints(&space, "past", "SELECT a FROM t ORDER BY id"), [10, 20, 30]);
    for _ in 0..300 {
        run(&space, "main", "UPDATE t SET a = a + 1 WHERE id = 1");
    }
    let error = space.fork(&request(before, "gone"), &me()).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::RootGone, Happened::No));
    assert!(error.message.contains("valid") || error.message.contains("to"), "{}", error.message);
    assert_eq!(ints(&space, "past", "SELECT a FROM t ORDER BY id"), [10, 20, 30]);
}

#[test]
fn a_large_transaction_travels_in_parts() {
    let (fixture, space) = base();
    fork(&space, "main", "big", ForkKind::Frozen);
    let fill = "WITH RECURSIVE n(x) AS (SELECT 10 UNION ALL SELECT x + 1 FROM n WHERE x < 40000)
                INSERT INTO t SELECT x, x * 2, hex(randomblob(20)) FROM n";
    run(&space, "big", fill);
    let count = ints(&space, "big", "SELECT count(*) FROM t");
    drop(space);
    let space = fixture.open();
    assert_eq!(ints(&space, "big", "SELECT count(*) FROM t"), count);
    assert_eq!(space.diff("big", Against::Base, 3).unwrap().tables[0].inserts, 39_991);
    run(&space, "main", "UPDATE t SET a = 0 WHERE id = 1");
    space.checkpoint(&me()).unwrap();
    space.promote("big", &PromoteOptions::default(), &me()).unwrap();
    drop(space);
    let space = fixture.open();
    assert_eq!(ints(&space, "main", "SELECT count(*) FROM t"), count);
    assert_eq!(ints(&space, "main", "SELECT a FROM t WHERE id = 1"), [0]);
}
