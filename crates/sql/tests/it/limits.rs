//! What statements may not do, and what bounds them.

use std::sync::Arc;

use anabranch_sql::{
    Access, CommitError, CommitSet, Connection, Limits, MemoryPages, PageMap, PageStore,
    SinkRefusal, SqlErrorKind, Value,
};

use crate::Branch;

fn refusal(sql: &str) -> SqlErrorKind {
    Branch::new().try_run(sql).expect_err(sql).kind
}

#[test]
fn what_would_leave_the_branch_is_refused() {
    for sql in [
        "ATTACH 'x' AS y",
        "DETACH main",
        "VACUUM",
        "VACUUM INTO 'x'",
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT s",
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = OFF",
        "PRAGMA writable_schema = ON",
        "PRAGMA locking_mode = EXCLUSIVE",
        "PRAGMA page_size = 512",
        "PRAGMA mmap_size = 1000000",
        "SELECT load_extension('x')",
        "CREATE TEMP TABLE t(a)",
    ] {
        assert_eq!(refusal(sql), SqlErrorKind::Refused, "{sql}");
    }
    let mut branch = Branch::new();
    branch.run("CREATE TABLE t(a)");
    assert_eq!(branch.rows("SELECT name FROM pragma_table_info('t')"), ["'a'"]);
}

#[test]
fn a_runaway_statement_is_stopped_and_leaves_nothing() {
    let limits = Limits { statement_ops: 1_000_000, ..Limits::default() };
    let store: Arc<dyn PageStore> = Arc::new(MemoryPages::new());
    let mut connection =
        Connection::open(store, PageMap::new(), limits, Access::ReadWrite).unwrap();
    connection.run("CREATE TABLE t(a)", &[]).unwrap();
    let forever = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
                   INSERT INTO t SELECT x FROM n";
    let error = connection.run(forever, &[]).unwrap_err();
    assert_eq!(error.kind, SqlErrorKind::Timeout);
    assert!(!connection.in_transaction(), "a write that ran out is rolled back whole");
}

#[test]
fn a_page_quota_holds() {
    let limits = Limits { max_pages: 20, ..Limits::default() };
    let store: Arc<dyn PageStore> = Arc::new(MemoryPages::new());
    let mut connection =
        Connection::open(store, PageMap::new(), limits, Access::ReadWrite).unwrap();
    connection.run("CREATE TABLE t(a)", &[]).unwrap();
    let error = connection.run("INSERT INTO t VALUES (zeroblob(200000))", &[]).unwrap_err();
    assert_eq!(error.kind, SqlErrorKind::TooLarge);
}

#[test]
fn a_refused_commit_rolls_back_cleanly() {
    let mut branch = Branch::new();
    branch.run("CREATE TABLE t(a); INSERT INTO t VALUES (1)");
    let store = Arc::clone(&branch.store);
    let mut connection =
        Connection::open(store, branch.root.clone(), Limits::default(), Access::ReadWrite).unwrap();
    connection.run("INSERT INTO t VALUES (2)", &[]).unwrap();
    let mut no = |_: &CommitSet| Err(SinkRefusal::NotApplied { reason: "not today".to_owned() });
    let refused = connection.commit(&mut no).unwrap_err();
    assert!(matches!(refused, CommitError::Refused(SinkRefusal::NotApplied { .. })));
    // The same connection goes on at its old root.
    let count = connection.run("SELECT count(*) FROM t", &[]).unwrap().rows;
    assert_eq!(count, [[Value::Integer(1)]]);
    connection.run("INSERT INTO t VALUES (3)", &[]).unwrap();
    let mut yes = |_: &CommitSet| Ok(());
    let committed = connection.commit(&mut yes).unwrap();
    let after = Branch { root: committed.root, ..branch };
    assert_eq!(after.rows("SELECT a FROM t ORDER BY a"), ["1", "3"]);
    assert_eq!(after.rows("PRAGMA quick_check"), ["'ok'"]);
}

#[test]
fn an_unknown_outcome_ends_the_connection() {
    let mut branch = Branch::new();
    branch.run("CREATE TABLE t(a)");
    let store = Arc::clone(&branch.store);
    let mut connection =
        Connection::open(store, branch.root.clone(), Limits::default(), Access::ReadWrite).unwrap();
    connection.run("INSERT INTO t VALUES (2)", &[]).unwrap();
    let mut lost = |_: &CommitSet| Err(SinkRefusal::Unknown { reason: "gone".to_owned() });
    assert!(connection.commit(&mut lost).is_err());
    let error = connection.run("SELECT 1", &[]).unwrap_err();
    assert_eq!(error.kind, SqlErrorKind::Aborted);
}

#[test]
fn forks_of_one_commit_apart_never_show_each_others_rows() {
    // Two roots with equal change counters: a connection must never be moved from one to another.
    let mut main = Branch::new();
    main.run("CREATE TABLE t(a)");
    let (mut one, mut two) = (main.fork(), main.fork());
    one.run("INSERT INTO t VALUES (111)");
    two.run("INSERT INTO t VALUES (222)");
    for _ in 0..3 {
        assert_eq!(one.rows("SELECT a FROM t"), ["111"]);
        assert_eq!(two.rows("SELECT a FROM t"), ["222"]);
    }
    assert_eq!(main.rows("SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn the_library_is_built_as_the_design_says() {
    let options = Branch::new().rows("PRAGMA compile_options");
    for option in ["'ENABLE_PREUPDATE_HOOK'", "'DEFAULT_MEMSTATUS=0'"] {
        assert!(options.iter().any(|found| found == option), "{option} in {options:?}");
    }
}
