//! A real process on a real directory, killed again and again.

use std::path::PathBuf;

use anabranch_lab::kill::{self, DIR, LIFE, Options};

/// Not a test by itself: what the other tests run as their child, through this same program.
#[test]
#[ignore = "the child of the tests beside it"]
fn child() {
    let (Ok(dir), Ok(life)) = (std::env::var(DIR), std::env::var(LIFE)) else { return };
    kill::child(&PathBuf::from(dir), life.parse().unwrap()).unwrap();
}

fn run(kills: u64, seed: u64) {
    let dir = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    let arguments = ["kill::child", "--exact", "--ignored", "--nocapture"];
    let program = std::iter::once(program).chain(arguments.map(str::to_owned)).collect();
    let options = Options { program, dir: dir.path().join("space"), kills, seed };
    let report = kill::run(&options).unwrap();
    assert_eq!(report.kills, kills);
    assert!(report.acknowledged > kills, "{report}");
}

#[test]
fn fifteen_kills() {
    run(15, 1);
}

#[test]
#[ignore = "takes minutes; cargo xtask full runs it"]
fn two_hundred_kills() {
    run(200, 2);
}
