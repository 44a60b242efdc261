//! The known traps of merging rows of SQLite tables: each one was a silent loss somewhere.

use anabranch_sql::{ClashReason, ConflictReason, Policy, PromoteError, RowIdentity, Step};

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
fn rows_without_a_primary_key_are_recorded_and_merge() {
    let mut main = base("CREATE TABLE t(a); INSERT INTO t VALUES ('x'), ('y'), ('x')");
    let mut fork = main.fork();
    fork.run("DELETE FROM t WHERE rowid = 1; INSERT INTO t VALUES ('fork')");
    main.run("INSERT INTO t VALUES ('main')");
    let candidate = fork.promote_with(&main, Policy::Fail).unwrap();
    // Both took rowid 4: the number is not data, so the fork's row gets another.
    assert_eq!(candidate.renumbered, [("t".to_owned(), 4, 5)]);
    main.root = candidate.root;
    assert_eq!(main.rows("SELECT a FROM t ORDER BY a"), ["'fork'", "'main'", "'x'", "'y'"]);
}

#[test]
fn equal_rows_without_a_key_are_two_rows() {
    let mut main = base("CREATE TABLE t(a)");
    let (mut one, mut two) = (main.fork(), main.fork());
    one.run("INSERT INTO t VALUES ('same')");
    two.run("INSERT INTO t VALUES ('same')");
    one.promote(&mut main);
    two.promote(&mut main);
    assert_eq!(main.rows("SELECT count(*) FROM t"), ["2"]);
}

#[test]
fn null_in_a_primary_key_is_recorded() {
    let mut main = base("CREATE TABLE t(k TEXT PRIMARY KEY, v)");
    let mut fork = main.fork();
    let commit = fork.run("INSERT INTO t VALUES (NULL, 1), (NULL, 2), ('a', 3)").unwrap();
    let Step::Rows(rows) = &commit.steps[0] else { panic!("rows: {:?}", commit.steps) };
    assert_eq!(rows.len(), 3);
    assert!(matches!(rows[0].identity, RowIdentity::Rowid(_)));
    fork.promote(&mut main);
    assert_eq!(main.rows("SELECT v FROM t ORDER BY v"), ["1", "2", "3"]);
}

#[test]
fn tables_without_rowid_merge_by_key() {
    let mut main = base(
        "CREATE TABLE t(a, b, v, PRIMARY KEY(b, a)) WITHOUT ROWID; INSERT INTO t VALUES (1,2,3)",
    );
    let mut fork = main.fork();
    fork.run("UPDATE t SET v = 4 WHERE a = 1; INSERT INTO t VALUES (5,6,7)");
    main.run("INSERT INTO t VALUES (8,9,10)");
    fork.promote(&mut main);
    assert_eq!(main.rows("SELECT * FROM t ORDER BY a"), ["1|2|4", "5|6|7", "8|9|10"]);
}

#[test]
fn a_missing_table_is_an_error_not_a_success() {
    let main = base("CREATE TABLE t(id INTEGER PRIMARY KEY, a)");
    let (mut fork, mut other) = (main.fork(), main.fork());
    fork.run("INSERT INTO t VALUES (1, 1)");
    other.run("DROP TABLE t");
    assert_eq!(clash(&fork, &other), ClashReason::MissingTable);
}

#[test]
fn a_narrower_table_is_an_error_not_a_success() {
    let main = base("CREATE TABLE t(id INTEGER PRIMARY KEY, a, b)");
    let (mut fork, mut other) = (main.fork(), main.fork());
    fork.run("INSERT INTO t VALUES (1, 1, 1)");
    other.run("ALTER TABLE t DROP COLUMN b");
    assert_eq!(clash(&fork, &other), ClashReason::MissingColumn { column: "b".into() });
    let mut keyed = main.fork();
    keyed.run("DROP TABLE t; CREATE TABLE t(id, a PRIMARY KEY, b)");
    assert_eq!(clash(&fork, &keyed), ClashReason::OtherKey);
}

#[test]
fn a_wider_table_takes_the_rows_with_its_defaults() {
    let mut main = base("CREATE TABLE t(id INTEGER PRIMARY KEY, a)");
    let mut fork = main.fork();
    fork.run("INSERT INTO t VALUES (1, 1)");
    main.run("ALTER TABLE t ADD COLUMN b DEFAULT 'd'");
    fork.promote(&mut main);
    assert_eq!(main.rows("SELECT * FROM t"), ["1|1|'d'"]);
}

#[test]
fn triggers_do_not_fire_again() {
    let mut main = base(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TABLE log(id INTEGER PRIMARY KEY, x);
         CREATE TRIGGER tr AFTER INSERT ON t BEGIN INSERT INTO log(x) VALUES (new.a); END",
    );
    let mut fork = main.fork();
    fork.run("INSERT INTO t VALUES (1, 'once')");
    assert_eq!(fork.rows("SELECT x FROM log"), ["'once'"]);
    fork.promote(&mut main);
    assert_eq!(main.rows("SELECT x FROM log"), ["'once'"]);
}

#[test]
fn full_text_tables_merge_by_their_rows_not_their_index() {
    let mut main = base("CREATE VIRTUAL TABLE f USING fts5(body)");
    let (mut one, mut two) = (main.fork(), main.fork());
    one.run("INSERT INTO f(rowid, body) VALUES (1, 'salmon in the river')");
    two.run("INSERT INTO f(rowid, body) VALUES (2, 'trout in the river')");
    one.promote(&mut main);
    two.promote(&mut main);
    let found = main.rows("SELECT rowid FROM f WHERE f MATCH 'river' ORDER BY rowid");
    assert_eq!(found, ["1", "2"]);
    main.run("INSERT INTO f(f) VALUES ('integrity-check')");
}

#[test]
fn external_full_text_indexes_are_built_again() {
    let mut main = base(
        "CREATE TABLE d(id INTEGER PRIMARY KEY, body);
         CREATE VIRTUAL TABLE f USING fts5(body, content='d', content_rowid='id');
         CREATE TRIGGER ins AFTER INSERT ON d BEGIN
           INSERT INTO f(rowid, body) VALUES (new.id, new.body); END",
    );
    let mut fork = main.fork();
    fork.run("INSERT INTO d VALUES (1, 'salmon')");
    main.run("INSERT INTO d VALUES (2, 'trout')");
    fork.promote(&mut main);
    assert_eq!(main.rows("SELECT rowid FROM f WHERE f MATCH 'salmon'"), ["1"]);
    assert_eq!(main.rows("SELECT rowid FROM f WHERE f MATCH 'trout'"), ["2"]);
}

#[test]
fn generated_columns_are_computed_not_copied() {
    let mut main = base(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a, v AS (a * 2), s AS (a * 3) STORED);
         INSERT INTO t(id, a) VALUES (1, 1)",
    );
    let mut fork = main.fork();
    fork.run("UPDATE t SET a = 5 WHERE id = 1; INSERT INTO t(id, a) VALUES (2, 7)");
    main.run("INSERT INTO t(id, a) VALUES (3, 9)");
    fork.promote(&mut main);
    assert_eq!(main.rows("SELECT * FROM t ORDER BY id"), ["1|5|10|15", "2|7|14|21", "3|9|18|27"]);
}

#[test]
fn rowids_that_two_forks_gave_collide_with_table_and_id() {
    for table in ["id INTEGER PRIMARY KEY, a", "id INTEGER PRIMARY KEY AUTOINCREMENT, a"] {
        let mut main = base(&format!("CREATE TABLE t({table}); INSERT INTO t(a) VALUES ('old')"));
        let (mut one, mut two) = (main.fork(), main.fork());
        one.run("INSERT INTO t(a) VALUES ('one')");
        two.run("INSERT INTO t(a) VALUES ('two')");
        one.promote(&mut main);
        let Err(PromoteError::Conflicts { conflicts, count }) =
            two.promote_with(&main, Policy::Fail)
        else {
            panic!("the second fork's row must not overwrite the first one's");
        };
        assert_eq!((count, conflicts[0].table.as_str()), (1, "t"));
        assert_eq!(conflicts[0].reason, ConflictReason::BothInserted);
        assert_eq!(conflicts[0].key[0].to_literal(), "2");
    }
}

#[test]
fn create_table_as_travels_as_a_table_and_its_rows() {
    let mut main = base("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)");
    let mut fork = main.fork();
    let commit = fork.run("CREATE TABLE u AS SELECT a, random() AS r FROM t").unwrap();
    assert!(matches!(&commit.steps[0], Step::Schema(sql) if !sql.contains("random")));
    main.run("INSERT INTO t VALUES (3)");
    let kept = fork.rows("SELECT * FROM u ORDER BY a");
    fork.promote(&mut main);
    assert_eq!(main.rows("SELECT * FROM u ORDER BY a"), kept);
}

#[test]
fn a_table_with_rows_the_fork_never_saw_is_not_dropped() {
    let mut main = base("CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 1)");
    let mut fork = main.fork();
    fork.run("DROP TABLE t");
    let before = main.fork();
    main.run("INSERT INTO t VALUES (2, 2)");
    assert_eq!(clash(&fork, &main), ClashReason::NotEmpty { rows: 1 });
    let mut untouched = before;
    fork.promote(&mut untouched);
    assert_eq!(untouched.rows("SELECT count(*) FROM sqlite_schema"), ["0"]);
}

#[test]
fn a_reference_to_a_row_that_the_other_side_deleted_is_found() {
    let mut main = base(
        "CREATE TABLE p(id INTEGER PRIMARY KEY);
         CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p);
         INSERT INTO p VALUES (1), (2)",
    );
    let mut fork = main.fork();
    fork.run("INSERT INTO c VALUES (10, 2)");
    let mut other = main.fork();
    other.run("DELETE FROM p WHERE id = 1");
    main.run("DELETE FROM p WHERE id = 2");
    assert_eq!(clash(&fork, &main), ClashReason::ForeignKey { parent: "p".into() });
    // The other way round: the row is referred to when its deletion is promoted.
    let mut referring = Branch::new();
    referring.store = main.store.clone();
    referring.root = other.fork().root;
    fork.promote(&mut other);
    let mut deleting = other.fork();
    deleting.net = anabranch_sql::NetChanges::default();
    deleting.run("DELETE FROM c; DELETE FROM p WHERE id = 2");
    other.run("INSERT INTO c VALUES (11, 2)");
    assert_eq!(clash(&deleting, &other), ClashReason::ForeignKey { parent: "p".into() });
}
