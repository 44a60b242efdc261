//! Directories written by released versions: every later build must open them.
//!
//! `tests/fixtures/VERSION` is the directory as that version left it, never touched again. To make
//! the one of a new version: `cargo test -p anabranch-node --test it -- --ignored make_fixture`.

use std::path::{Path, PathBuf};

use anabranch_node::{
    Against, BranchStatus, ForkKind, Options, PromoteOptions, Space, SqlOptions, Value,
};

use crate::{fork, me, records, values};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn options() -> Options {
    Options {
        segment_bytes: 64 << 10,
        background: false,
        identity: Some([0x5a; 16]),
        name: Some("fixture".into()),
        ..Options::default()
    }
}

fn run(space: &Space, branch: &str, sql: &str) -> Vec<Vec<Value>> {
    space.sql(branch, sql, &[], &SqlOptions::default(), &me()).expect(sql).rows
}

/// What the directory of 0.1.0 holds: every kind of operation, before and after a checkpoint.
fn write_0_1_0(space: &Space) {
    space.append("main", "s", records(&["a", "b"]), &me()).unwrap();
    space.put("main", "k", b"key", b"value", &me()).unwrap();
    space.incr("main", "k", b"n", 41, &me()).unwrap();
    run(space, "main", "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 10)");
    space.add_check("main", "positive", "SELECT id FROM t WHERE a <= 0", &me()).unwrap();
    fork(space, "main", "frozen", ForkKind::Frozen);
    fork(space, "main", "live", ForkKind::Live);
    fork(space, "main", "gone", ForkKind::Live);
    fork(space, "main", "landed", ForkKind::Frozen);
    run(space, "frozen", "UPDATE t SET a = 11");
    run(space, "live", "INSERT INTO t VALUES (2, 20)");
    space.append("live", "s", records(&["own"]), &me()).unwrap();
    run(space, "landed", "INSERT INTO t VALUES (3, 30)");
    space.promote("landed", &PromoteOptions::default(), &me()).unwrap();
    space.discard("gone", &me()).unwrap();
    space.checkpoint(&me()).unwrap();
    space.append("main", "s", records(&["c"]), &me()).unwrap();
    space.incr("main", "k", b"n", 1, &me()).unwrap();
    run(space, "main", "UPDATE t SET a = 12 WHERE id = 1");
    fork(space, "live", "deep", ForkKind::Frozen);
}

fn check_0_1_0(space: &Space) {
    assert_eq!(values(space, "main", "s"), ["a", "b", "c"]);
    assert_eq!(values(space, "live", "s"), ["a", "b", "own", "c"]);
    assert_eq!(space.get("main", "k", b"key").unwrap().unwrap().value, b"value");
    assert_eq!(space.get("frozen", "k", b"n").unwrap().unwrap().value, b"41");
    assert_eq!(space.get("live", "k", b"n").unwrap().unwrap().value, b"42");
    let rows = |branch| {
        let rows = run(space, branch, "SELECT id, a FROM t ORDER BY id");
        let text = |row: &Vec<Value>| format!("{}:{}", row[0].to_literal(), row[1].to_literal());
        rows.iter().map(text).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(rows("main"), "1:12 3:30");
    assert_eq!(rows("frozen"), "1:11");
    assert_eq!(rows("live"), "1:12 2:20 3:30");
    assert_eq!(rows("deep"), "1:12 2:20 3:30");
    let diff = space.diff("frozen", Against::Base, 10).unwrap();
    assert_eq!(diff.tables[0].updates, 1);
    assert_eq!(space.checks("main").unwrap().len(), 1);
    let branches = space.branches().unwrap();
    let status = |name: &str| branches.iter().find(|b| b.name == name).unwrap().status.clone();
    assert!(matches!(status("landed"), BranchStatus::Promoted { .. }));
    assert!(matches!(status("gone"), BranchStatus::Discarded { .. }));
    assert!(space.history(None, None, 1_000).unwrap().len() > 15);
}

#[test]
#[ignore = "writes the fixture of the version that is being released"]
fn make_fixture() {
    let target = fixtures().join(env!("CARGO_PKG_VERSION"));
    if target.exists() {
        // A released version's directory is never written again.
        return;
    }
    let space = Space::open(&target, options()).unwrap();
    write_0_1_0(&space);
    drop(space);
    std::fs::remove_file(target.join("LOCK")).unwrap();
}

#[test]
fn the_directory_of_0_1_0_opens() {
    let copy = tempfile::tempdir().unwrap();
    copy_all(&fixtures().join("0.1.0"), copy.path());
    let options = Options { create: false, ..options() };
    let space = Space::open(copy.path(), options.clone()).expect("0.1.0 opens");
    check_0_1_0(&space);
    // And it goes on: new writes, a promotion of an old fork, a checkpoint, another start.
    space.promote("live", &PromoteOptions::default(), &me()).unwrap();
    space.checkpoint(&me()).unwrap();
    drop(space);
    let space = Space::open(copy.path(), options).unwrap();
    assert_eq!(values(&space, "main", "s"), ["a", "b", "c", "own"]);
}

#[test]
fn what_is_written_today_reads_as_the_fixture_does() {
    let dir = tempfile::tempdir().unwrap();
    let space = Space::open(dir.path(), options()).unwrap();
    write_0_1_0(&space);
    check_0_1_0(&space);
}

fn copy_all(source: &Path, target: &Path) {
    std::fs::create_dir_all(target).unwrap();
    for entry in std::fs::read_dir(source).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), target.join(entry.file_name()));
        if from.is_dir() {
            copy_all(&from, &to);
        } else {
            std::fs::copy(&from, &to).unwrap();
        }
    }
}
