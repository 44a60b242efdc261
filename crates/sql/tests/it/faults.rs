//! A page store that fails, and transactions that are larger than the caches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use anabranch_sql::{
    Access, CommitError, CommitSet, Connection, Environment, Limits, MemoryPages, PageError,
    PageMap, PageRef, PageStore, SqlErrorKind, Value,
};

use crate::Branch;

type Fault = fn(PageRef) -> PageError;

/// Fails from the n-th access on, in one way.
struct Failing {
    inner: MemoryPages,
    left: AtomicUsize,
    error: Fault,
}

impl Failing {
    fn check(&self, page: PageRef) -> Result<(), PageError> {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        if left == 0 { Err((self.error)(page)) } else { Ok(()) }
    }
}

impl PageStore for Failing {
    fn put(&self, page: &[u8]) -> Result<PageRef, PageError> {
        let stored = self.inner.put(page)?;
        self.check(stored)?;
        Ok(stored)
    }

    fn get(&self, page: PageRef) -> Result<Arc<[u8]>, PageError> {
        self.check(page)?;
        self.inner.get(page)
    }
}

#[test]
fn failing_pages_are_typed_errors_and_never_wrong_rows() {
    let corrupt = |page| PageError::Corrupt { page, detail: String::from("checksum") };
    let cases: [(Fault, SqlErrorKind); 4] = [
        (corrupt, SqlErrorKind::Corrupt),
        (|page| PageError::Missing { page }, SqlErrorKind::Corrupt),
        (|_| PageError::Full, SqlErrorKind::Full),
        (|_| PageError::Io { detail: String::from("gone") }, SqlErrorKind::Unavailable),
    ];
    for (error, kind) in cases {
        let store = Arc::new(Failing {
            inner: MemoryPages::new(),
            left: AtomicUsize::new(usize::MAX),
            error,
        });
        let pages: Arc<dyn PageStore> = Arc::<Failing>::clone(&store);
        let mut branch = Branch { store: pages, ..Branch::new() };
        branch.run(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a); WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL \
             SELECT x+1 FROM n WHERE x < 3000) INSERT INTO t SELECT x, 'row ' || x FROM n",
        );
        let mut succeeded = false;
        for accesses in 0..400 {
            store.left.store(accesses, Ordering::Relaxed);
            let limits = Limits::default();
            let (pages, root) = (Arc::clone(&branch.store), branch.root.clone());
            let opened = Connection::open(pages, root, limits, Access::ReadWrite);
            let result = opened.and_then(|mut connection| {
                let rows = connection.run("SELECT count(*), sum(id) FROM t", &[])?.rows;
                assert_eq!(rows, [[Value::Integer(3000), Value::Integer(4_501_500)]]);
                connection.run("UPDATE t SET a = id WHERE id % 50 = 0", &[])?;
                let mut sink = |_: &CommitSet| Ok(());
                match connection.commit(&mut sink) {
                    Ok(_) => Ok(()),
                    Err(CommitError::Sql(error)) => Err(error),
                    Err(CommitError::Refused(refusal)) => panic!("{refusal}"),
                }
            });
            match result {
                Ok(()) => succeeded = true,
                Err(error) => assert_eq!(error.kind, kind, "{error} after {accesses}"),
            }
        }
        assert!(succeeded, "some run had enough");
    }
}

#[test]
fn a_transaction_larger_than_the_page_cache_commits_and_rolls_back() {
    let mut branch = Branch::new();
    branch.run(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, g, v); CREATE INDEX i ON t(g);
         WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n WHERE x < 4000)
         INSERT INTO t SELECT x, x % 97, zeroblob(3000) FROM n",
    );
    assert!(branch.root.page_count() > 3000);
    let before = branch.rows("SELECT count(*), sum(g), sum(length(v)) FROM t");
    let (store, root) = (Arc::clone(&branch.store), branch.root.clone());
    let mut connection =
        Connection::open(store, root.clone(), Limits::default(), Access::ReadWrite).unwrap();
    // A statement that fails at its last row, after much was spilled.
    let error = connection
        .run(
            "UPDATE t SET g = g + 1, v = CASE id WHEN 4000 THEN abs(-9223372036854775808) END",
            &[],
        )
        .unwrap_err();
    assert_eq!(error.kind, SqlErrorKind::Statement);
    assert!(connection.in_transaction());
    connection.run("DELETE FROM t WHERE id > 100", &[]).unwrap();
    connection.rollback();
    let check = "SELECT count(*), sum(g), sum(length(v)) FROM t";
    let rows = connection.run(check, &[]).unwrap().rows;
    let text: Vec<String> = rows[0].iter().map(Value::to_literal).collect();
    assert_eq!([text.join("|")].as_slice(), before);
    let ok = connection.run("PRAGMA integrity_check", &[]).unwrap().rows;
    assert_eq!(ok, [[Value::Text("ok".into())]]);
    connection.rollback();
    assert_eq!(connection.root(), root);
    let commit = branch
        .run("UPDATE t SET g = g + 1, v = zeroblob(3001); DELETE FROM t WHERE id > 9")
        .unwrap();
    let bytes = anabranch_sql::Body::encode_with_pages(&*branch.store, &commit).unwrap();
    let delta = anabranch_sql::Body::decode_pages(&bytes).unwrap().unwrap();
    let installed = anabranch_sql::install(&commit.base, &*branch.store, &delta).unwrap();
    assert_eq!(installed, branch.root);
    assert_eq!(branch.rows("PRAGMA integrity_check"), ["'ok'"]);
}

#[test]
fn a_failing_statement_leaves_neither_rows_nor_images() {
    let mut branch = Branch::new();
    branch.run("CREATE TABLE t(id INTEGER PRIMARY KEY, a UNIQUE); INSERT INTO t VALUES (3, 'x')");
    let (store, root) = (Arc::clone(&branch.store), branch.root.clone());
    let mut connection =
        Connection::open(store, root, Limits::default(), Access::ReadWrite).unwrap();
    connection.run("INSERT INTO t VALUES (1, 'kept')", &[]).unwrap();
    for verb in ["INSERT", "INSERT OR FAIL", "INSERT OR ABORT"] {
        let sql = format!("{verb} INTO t VALUES (7, 'y'), (8, 'z'), (9, 'x')");
        assert_eq!(connection.run(&sql, &[]).unwrap_err().kind, SqlErrorKind::Constraint);
        assert!(connection.in_transaction(), "{verb}");
    }
    let sql = "INSERT OR REPLACE INTO t VALUES (9, 'x') RETURNING id, a";
    let returned = connection.run(sql, &[]).unwrap();
    assert_eq!(returned.rows, [[Value::Integer(9), Value::Text("x".into())]]);
    let mut seen = Vec::new();
    let mut sink = |commit: &CommitSet| {
        seen.clone_from(&commit.steps);
        Ok(())
    };
    let after = connection.commit(&mut sink).unwrap().root;
    let net = anabranch_sql::net(&seen);
    let keys: Vec<_> = net.rows().map(|(_, key, row)| (key.values(), row.kind())).collect();
    assert_eq!(keys.len(), 3, "{keys:?}");
    let after = Branch { root: after, ..branch };
    assert_eq!(after.rows("SELECT id FROM t ORDER BY id"), ["1", "9"]);
    // OR ROLLBACK ends the transaction: the connection says so until it begins another.
    let (store, root) = (Arc::clone(&after.store), after.root.clone());
    let mut connection =
        Connection::open(store, root, Limits::default(), Access::ReadWrite).unwrap();
    connection.run("DELETE FROM t WHERE id = 1", &[]).unwrap();
    assert!(connection.run("INSERT OR ROLLBACK INTO t VALUES (5, 'x')", &[]).is_err());
    assert_eq!(connection.run("SELECT 1", &[]).unwrap_err().kind, SqlErrorKind::Aborted);
    connection.begin().unwrap();
    let mut none = |_: &CommitSet| panic!("nothing was written");
    assert!(!connection.commit(&mut none).unwrap().changed);
}

#[test]
fn a_deferred_reference_is_checked_before_the_sink_is_asked() {
    let mut branch = Branch::new();
    branch.run(
        "CREATE TABLE p(id INTEGER PRIMARY KEY);
         CREATE TABLE c(p REFERENCES p DEFERRABLE INITIALLY DEFERRED)",
    );
    let mut connection = Connection::open(
        Arc::clone(&branch.store),
        branch.root.clone(),
        Limits::default(),
        Access::ReadWrite,
    )
    .unwrap();
    connection.run("INSERT INTO c VALUES (1)", &[]).unwrap();
    let mut never = |_: &CommitSet| panic!("must not be asked");
    let refused = connection.commit(&mut never).unwrap_err();
    assert!(matches!(refused, CommitError::Sql(error) if error.kind == SqlErrorKind::Constraint));
    assert!(connection.in_transaction());
    connection.run("INSERT INTO p VALUES (1)", &[]).unwrap();
    let mut rows = 0;
    let mut sink = |commit: &CommitSet| {
        rows = anabranch_sql::net(&commit.steps).rows().count();
        Ok(())
    };
    assert!(connection.commit(&mut sink).unwrap().changed);
    assert_eq!(rows, 2);
}

#[test]
fn a_sink_that_panics_does_not_unwind_through_sqlite() {
    let mut branch = Branch::new();
    branch.run("CREATE TABLE t(a)");
    let (store, root) = (Arc::clone(&branch.store), branch.root.clone());
    let mut connection =
        Connection::open(store, root, Limits::default(), Access::ReadWrite).unwrap();
    connection.run("INSERT INTO t VALUES (1)", &[]).unwrap();
    let mut sink = |_: &CommitSet| panic!("on purpose");
    assert!(connection.commit(&mut sink).is_err());
    let error = connection.run("SELECT 1", &[]).unwrap_err();
    assert_eq!(error.kind, SqlErrorKind::Aborted, "what the sink did is unknown");
}

#[test]
fn a_fixed_environment_repeats_itself() {
    let run = |environment| {
        let pages: Arc<dyn PageStore> = Arc::new(MemoryPages::new());
        let limits = Limits::default();
        let access = Access::ReadWrite;
        let opened = Connection::open_in(pages, PageMap::new(), limits, access, environment);
        let sql = "CREATE TABLE t(a DEFAULT (random()), b DEFAULT CURRENT_TIMESTAMP, c);
                   INSERT INTO t(c) VALUES (hex(randomblob(8))), (hex(randomblob(8)));
                   SELECT *, datetime('now'), julianday('now') > 0 FROM t";
        opened.unwrap().run(sql, &[]).unwrap().rows
    };
    let fixed = Environment { now_ms: Some(1_700_000_000_000), seed: Some(7) };
    let rows = run(fixed);
    assert_eq!(rows, run(fixed));
    assert_eq!(rows[0][1], Value::Text("2023-11-14 22:13:20".into()));
    assert_ne!(rows[0][2], rows[1][2]);
    assert_ne!(rows[0][0], run(Environment { seed: Some(8), ..fixed })[0][0]);
    assert_ne!(run(Environment::default())[0][0], run(Environment::default())[0][0]);
}

#[test]
fn a_call_can_be_cancelled_from_another_thread() {
    let branch = Branch::new();
    let limits = Limits { statement_ms: 0, ..Limits::default() };
    let mut connection =
        Connection::open(branch.store, branch.root, limits, Access::ReadOnly).unwrap();
    let cancel = connection.cancel_handle();
    let stop = Arc::new(AtomicU64::new(0));
    let stopped = Arc::clone(&stop);
    let canceller = std::thread::spawn(move || {
        while stopped.load(Ordering::Relaxed) == 0 {
            cancel.cancel();
            std::thread::yield_now();
        }
    });
    let forever =
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT sum(x) FROM n";
    let error = connection.run(forever, &[]).unwrap_err();
    stop.store(1, Ordering::Relaxed);
    canceller.join().unwrap();
    assert_eq!(error.kind, SqlErrorKind::Cancelled);
}
