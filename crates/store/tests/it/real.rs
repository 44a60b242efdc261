//! On a real directory: locking between processes, a whole space, verify.

use std::process::{Command, Stdio};
use std::sync::Arc;

use anabranch_store::disk::{self, Disk};
use anabranch_store::{FileDisk, OpenError, verify};

use crate::fixture;

#[test]
fn a_space_on_a_real_directory() {
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::open(dir.path()).unwrap());
    fixture::build(&disk);
    assert_eq!(verify(&*disk).unwrap().findings, []);
    let space = fixture::open(&disk, false).unwrap();
    assert_eq!(space.read_everything().damage, []);
}

#[test]
fn a_second_opener_gets_locked() {
    let dir = tempfile::tempdir().unwrap();
    let first = FileDisk::open(dir.path()).unwrap();
    let held = disk::lock(&first).unwrap();
    let second = FileDisk::open(dir.path()).unwrap();
    assert!(matches!(disk::lock(&second), Err(OpenError::Locked)));
    drop(held);
    drop(disk::lock(&second).unwrap());
}

#[test]
fn the_lock_holds_between_processes_and_dies_with_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FileDisk::open(dir.path()).unwrap();
    drop(disk::lock(&disk).unwrap());
    // `flock` from util-linux takes the same lock; where there is none, nothing is tested.
    let lock = dir.path().join("LOCK");
    let child = Command::new("flock")
        .arg("--exclusive")
        .arg(&lock)
        .args(["sh", "-c", "echo held; sleep 60"])
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else { return };
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    assert_eq!(line, "held\n");
    assert!(matches!(disk::lock(&disk), Err(OpenError::Locked)));
    child.kill().unwrap();
    child.wait().unwrap();
}
