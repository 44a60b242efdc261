//! Losses that merging must not cause: rows of mixed identity, rows that got another number and
//! change again later, columns that only the target has, references to dropped tables.

use anabranch_sql::{
    ClashReason, Limits, LiveError, Policy, PromoteError, rebuild_live, run_checks, validate_check,
};

use crate::Branch;

fn base(sql: &str) -> Branch {
    let mut branch = Branch::new();
    branch.run(sql);
    branch
}

fn clash(fork: &Branch, onto: &Branch) -> ClashReason {
    match fork.promote_with(onto, Policy::Fail) {
        Err(PromoteError::Clash(clash)) => clash.reason,
        other => panic!("no clash: {other:?}"),
    }
}

#[test]
fn rows_with_and_without_null_in_the_key_change_together() {
    let mut main = base(
        "CREATE TABLE t(k TEXT PRIMARY KEY, v);
         INSERT INTO t VALUES (NULL, 1), ('a', 2), (NULL, 3), ('b', 4), ('c', 5)",
    );
    let mut fork = main.fork();
    fork.run("DELETE FROM t WHERE v IN (1, 2); UPDATE t SET v = v * 10 WHERE v IN (3, 4)");
    main.run("UPDATE t SET v = 6 WHERE k = 'c'");
    fork.promote(&mut main);
    let rows = main.rows("SELECT k, v FROM t ORDER BY v");
    assert_eq!(rows, ["'c'|6", "NULL|30", "'b'|40"]);
}

#[test]
fn a_row_that_got_another_number_is_still_the_forks_row_later() {
    let mut main = base("CREATE TABLE t(a)");
    let mut fork = main.fork();
    fork.run("INSERT INTO t VALUES ('fork'), ('gone')");
    fork.run("CREATE INDEX i ON t(a)");
    fork.run("UPDATE t SET a = 'fork, changed' WHERE a = 'fork'; DELETE FROM t WHERE a = 'gone'");
    main.run("INSERT INTO t VALUES ('main'), ('main too')");
    for policy in [Policy::Fail, Policy::Fork, Policy::Parent] {
        let candidate = fork.promote_with(&main, policy).unwrap();
        let landed = Branch { root: candidate.root, ..main.clone() };
        let rows = landed.rows("SELECT a FROM t ORDER BY a");
        assert_eq!(rows, ["'fork, changed'", "'main'", "'main too'"], "{policy:?}");
    }
}

#[test]
fn a_renumbered_row_of_a_renamed_table_is_never_mistaken() {
    let mut main = base("CREATE TABLE t(a)");
    let mut fork = main.fork();
    fork.run("INSERT INTO t VALUES ('fork')");
    fork.run("ALTER TABLE t RENAME TO u");
    fork.run("UPDATE u SET a = 'fork, changed'");
    main.run("INSERT INTO t VALUES ('main')");
    for policy in [Policy::Fail, Policy::Fork] {
        let landed = fork.promote_with(&main, policy).unwrap();
        let landed = Branch { root: landed.root, ..main.clone() };
        assert_eq!(landed.rows("SELECT a FROM u ORDER BY a"), ["'fork, changed'", "'main'"]);
    }
}

#[test]
fn exchanged_unique_values_keep_the_columns_that_only_the_target_has() {
    let mut main = base(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE);
         INSERT INTO t VALUES (1, 'one'), (2, 'two')",
    );
    let mut fork = main.fork();
    fork.run(
        "UPDATE t SET u = 'tmp' WHERE id = 1; UPDATE t SET u = 'one' WHERE id = 2;
         UPDATE t SET u = 'two' WHERE id = 1",
    );
    main.run("ALTER TABLE t ADD COLUMN note DEFAULT 'd'; UPDATE t SET note = 'kept' WHERE id = 1");
    fork.promote(&mut main);
    assert_eq!(main.rows("SELECT * FROM t ORDER BY id"), ["1|'two'|'kept'", "2|'one'|'d'"]);
}

#[test]
fn a_dropped_table_that_is_referred_to_is_a_clash() {
    let mut main = base(
        "CREATE TABLE p(id INTEGER PRIMARY KEY);
         CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p ON DELETE CASCADE);
         INSERT INTO p VALUES (1)",
    );
    let (mut dropping, mut referring) = (main.fork(), main.fork());
    dropping.run("DROP TABLE p");
    referring.run("INSERT INTO c VALUES (10, 1)");
    main.run("INSERT INTO c VALUES (11, 1)");
    assert_eq!(clash(&dropping, &main), ClashReason::ForeignKey { parent: "p".into() });
    let without = dropping.fork();
    assert_eq!(clash(&referring, &without), ClashReason::ForeignKey { parent: "p".into() });
}

#[test]
fn a_reference_that_came_and_went_is_no_clash() {
    let mut main = base(
        "CREATE TABLE p(id INTEGER PRIMARY KEY);
         CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p)",
    );
    let mut fork = main.fork();
    fork.run("INSERT INTO p VALUES (1); INSERT INTO c VALUES (10, 1)");
    fork.run("CREATE INDEX i ON c(p)");
    fork.run("DELETE FROM c; DELETE FROM p");
    fork.promote(&mut main);
    assert_eq!(main.rows("SELECT count(*) FROM c"), ["0"]);
}

#[test]
fn conflicts_are_listed_even_where_a_constraint_fails_too() {
    let mut main =
        base("CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE); INSERT INTO t VALUES (1, 'one')");
    let mut fork = main.fork();
    fork.run("UPDATE t SET u = 'ours' WHERE id = 1; INSERT INTO t VALUES (5, 'x')");
    main.run("UPDATE t SET u = 'theirs' WHERE id = 1; INSERT INTO t VALUES (6, 'x')");
    let refused = fork.promote_with(&main, Policy::Fail);
    assert!(matches!(refused, Err(PromoteError::Conflicts { count: 1, .. })), "{refused:?}");
}

#[test]
fn a_full_text_row_keeps_its_number_or_conflicts() {
    let mut main = base("CREATE VIRTUAL TABLE f USING fts5(body)");
    let mut fork = main.fork();
    fork.run("INSERT INTO f(rowid, body) VALUES (7, 'fork')");
    main.run("INSERT INTO f(rowid, body) VALUES (7, 'main')");
    let refused = fork.promote_with(&main, Policy::Fail);
    assert!(matches!(refused, Err(PromoteError::Conflicts { count: 1, .. })), "{refused:?}");
    let candidate = fork.promote_with(&main, Policy::Fork).unwrap();
    let mut landed = Branch { root: candidate.root, ..main };
    assert_eq!(landed.rows("SELECT rowid FROM f WHERE f MATCH 'fork'"), ["7"]);
    assert_eq!(landed.rows("SELECT rowid FROM f WHERE f MATCH 'main'"), [""; 0]);
    landed.run("INSERT INTO f(f) VALUES ('integrity-check')");
}

#[test]
fn equal_rows_without_a_key_do_not_merge_into_one_in_a_live_view() {
    let mut main = base("CREATE TABLE t(a)");
    let mut fork = main.fork();
    fork.run("INSERT INTO t VALUES ('same')");
    main.run("INSERT INTO t VALUES ('same')");
    let view = rebuild_live(&fork.store, &main.root, &fork.net, Limits::default());
    let Err(LiveError::Clash(clash)) = view else { panic!("one row instead of two") };
    assert_eq!(clash.reason, ClashReason::DuplicateKey);
}

#[test]
fn a_dropped_column_that_the_target_changed_is_a_clash() {
    let mut main = base(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)",
    );
    let mut fork = main.fork();
    fork.run("UPDATE t SET b = 20 WHERE id = 2; ALTER TABLE t DROP COLUMN b");
    let mut other = main.fork();
    other.run("UPDATE t SET a = 'news' WHERE id = 1");
    fork.promote(&mut other);
    assert_eq!(other.rows("SELECT * FROM t"), ["1|'news'", "2|2"]);
    main.run("UPDATE t SET b = 'news' WHERE id = 1");
    assert_eq!(clash(&fork, &main), ClashReason::SchemaAndRows);
}

#[test]
fn checks_count_everything_and_take_comments() {
    let mut branch = base("CREATE TABLE t(a)");
    branch.run(
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n WHERE x < 500)
         INSERT INTO t SELECT x FROM n",
    );
    let sql = "-- all rows\nSELECT a FROM t WHERE a > 100; -- of them";
    validate_check(&branch.store, &branch.root, sql).unwrap();
    let checks =
        [("big".to_owned(), sql.to_owned()), ("gone".to_owned(), "SELECT x FROM y".into())];
    let limits = Limits { max_rows: 3, ..Limits::default() };
    let found = run_checks(&branch.store, &branch.root, &checks, limits);
    assert_eq!((found[0].rows.len(), found[0].row_count), (3, 400));
    assert_eq!(found[0].columns, ["a"]);
    assert!(found[0].error.is_none() && !found[0].passed());
    assert!(found[1].error.is_some() && !found[1].passed());
    for sql in ["DELETE FROM t", "SELECT 1; SELECT 2", "", "SELECT nothing", "SELECT ?", "BEGIN"] {
        assert!(validate_check(&branch.store, &branch.root, sql).is_err(), "{sql}");
    }
}
