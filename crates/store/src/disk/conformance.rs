//! The contract of [`Disk`] as a test suite: run it on every implementation.
//!
//! It covers what a running process can see; what survives a crash is for the implementation's own
//! tests, as only a simulated disk can be crashed at will.

use std::io::ErrorKind;

use super::{Disk, Open};

/// Runs every check on an empty, unlocked directory; panics at the first difference.
pub fn run(disk: &dyn Disk) {
    names(disk);
    bytes(disk);
    replacing(disk);
    locking(disk);
    paths(disk);
}

fn names(disk: &dyn Disk) {
    assert_eq!(disk.list("").unwrap(), Vec::<String>::new(), "starts empty");
    assert_eq!(disk.list("sub").unwrap(), Vec::<String>::new(), "a missing directory is empty");
    for mode in [Open::Read, Open::Write] {
        assert_eq!(disk.open("a", mode).err().unwrap().kind(), ErrorKind::NotFound);
    }
    assert_eq!(disk.remove("a").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.rename("a", "b").unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!disk.exists("a").unwrap());
    disk.create_dir("sub").unwrap();
    disk.create_dir("sub").unwrap();
    disk.open("sub/z", Open::Create).unwrap();
    disk.open("sub/y", Open::Create).unwrap();
    disk.open("x", Open::Create).unwrap();
    disk.sync_dir("").unwrap();
    disk.sync_dir("sub").unwrap();
    assert_eq!(disk.list("").unwrap(), ["x"], "files only, of this directory only");
    assert_eq!(disk.list("sub").unwrap(), ["y", "z"], "sorted");
    assert!(disk.exists("sub/y").unwrap());
    assert!(disk.open("none/y", Open::Create).is_err(), "directories are made first");
    for path in ["x", "sub/y", "sub/z"] {
        disk.remove(path).unwrap();
        assert!(!disk.exists(path).unwrap());
    }
}

fn bytes(disk: &dyn Disk) {
    let file = disk.open("bytes", Open::Create).unwrap();
    assert_eq!(file.size().unwrap(), 0);
    file.write_at(b"world", 6).unwrap();
    assert_eq!(file.size().unwrap(), 11);
    let mut buffer = [9; 16];
    assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 11, "reads stop at the end");
    assert_eq!(&buffer[..11], b"\0\0\0\0\0\0world", "a gap reads as zeros");
    file.write_at(b"hello ", 0).unwrap();
    file.sync_data().unwrap();
    file.drop_cache().unwrap();
    let other = disk.open("bytes", Open::Read).unwrap();
    assert_eq!(other.read_at(&mut buffer[..5], 3).unwrap(), 5);
    assert_eq!(&buffer[..5], b"lo wo");
    assert_eq!(other.read_at(&mut buffer, 11).unwrap(), 0);
    assert_eq!(other.read_at(&mut buffer, 1 << 20).unwrap(), 0, "beyond the end is the end");
    assert!(other.write_at(b"x", 0).is_err(), "opened for reading only");
    file.set_size(5).unwrap();
    file.set_size(8).unwrap();
    assert_eq!(other.read_at(&mut buffer, 0).unwrap(), 8);
    assert_eq!(&buffer[..8], b"hello\0\0\0", "growth reads as zeros");
    file.zero_fill(1, 600_000).unwrap();
    assert_eq!(file.size().unwrap(), 600_000);
    assert_eq!(other.read_at(&mut buffer, 599_990).unwrap(), 10);
    assert_eq!(buffer[..10], [0; 10]);
    file.write_at(b"", 3).unwrap();
    disk.remove("bytes").unwrap();
    assert_eq!(other.read_at(&mut buffer[..1], 0).unwrap(), 1, "open files outlive their name");
    assert_eq!(buffer[0], b'h');
    disk.open("bytes", Open::Create).unwrap();
    assert_eq!(disk.open("bytes", Open::Read).unwrap().size().unwrap(), 0);
    disk.remove("bytes").unwrap();
}

fn replacing(disk: &dyn Disk) {
    for (name, content) in [("old", "old bytes"), ("new", "new")] {
        let file = disk.open(name, Open::Create).unwrap();
        file.write_at(content.as_bytes(), 0).unwrap();
        file.sync_data().unwrap();
    }
    disk.rename("new", "old").unwrap();
    disk.sync_dir("").unwrap();
    assert!(!disk.exists("new").unwrap());
    let file = disk.open("old", Open::Write).unwrap();
    assert_eq!(file.size().unwrap(), 3, "the target was replaced");
    let again = disk.open("old", Open::Create).unwrap();
    assert_eq!(again.size().unwrap(), 0, "create empties");
    disk.remove("old").unwrap();
}

fn locking(disk: &dyn Disk) {
    let held = disk.lock().unwrap();
    assert_eq!(disk.lock().unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(held);
    drop(disk.lock().unwrap());
    assert_eq!(disk.list("").unwrap(), [super::LOCK_FILE]);
    disk.remove(super::LOCK_FILE).unwrap();
}

fn paths(disk: &dyn Disk) {
    for path in ["../escape", "/absolute"] {
        assert!(disk.open(path, Open::Create).is_err(), "paths stay below the directory");
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CrashKeeps, FileDisk, MemoryDisk};
    use super::*;

    #[test]
    fn memory_disk_conforms() {
        run(&MemoryDisk::new());
    }

    #[test]
    fn file_disk_conforms() {
        let dir = tempfile::tempdir().unwrap();
        run(&FileDisk::create(dir.path().join("a/b")).unwrap());
        assert!(FileDisk::open(dir.path().join("none")).is_err());
    }

    #[test]
    fn memory_disk_crashes_as_documented() {
        let disk = MemoryDisk::new();
        let file = disk.open("kept", Open::Create).unwrap();
        file.write_at(&[1; 2048], 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir("").unwrap();
        file.write_at(&[2; 2048], 0).unwrap();
        disk.open("lost", Open::Create).unwrap();
        let synced = disk.after_crash(CrashKeeps::Synced);
        assert_eq!(synced.files(), [("kept".to_owned(), 2048)]);
        assert_eq!(synced.bytes("kept").unwrap(), [1; 2048]);
        let killed = disk.after_crash(CrashKeeps::Everything);
        assert_eq!(killed.bytes("kept").unwrap(), [2; 2048]);
        assert!(killed.exists("lost").unwrap());
        let mut mixtures = 0;
        for seed in 0..64 {
            let bytes = disk.after_crash(CrashKeeps::Some(seed)).bytes("kept").unwrap();
            for sector in bytes.chunks(512) {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "sectors are whole");
            }
            mixtures += usize::from(bytes.contains(&1) && bytes.contains(&2));
        }
        assert!(mixtures > 10);
    }

    #[test]
    fn a_failed_sync_loses_the_bytes_and_hides_it() {
        let disk = MemoryDisk::new();
        let file = disk.open("f", Open::Create).unwrap();
        disk.sync_dir("").unwrap();
        file.write_at(b"abc", 0).unwrap();
        disk.fail_sync_after(0);
        assert!(file.sync_data().is_err());
        assert!(file.sync_data().is_ok(), "the next one claims success");
        assert_eq!(disk.bytes("f").unwrap(), b"abc");
        assert_eq!(disk.after_crash(CrashKeeps::Synced).bytes("f").unwrap(), b"");
        file.drop_cache().unwrap();
        assert_eq!(disk.bytes("f").unwrap(), b"");
    }

    #[test]
    fn a_full_disk_says_so() {
        let disk = MemoryDisk::new();
        disk.set_capacity(Some(10));
        let file = disk.open("f", Open::Create).unwrap();
        file.write_at(&[1; 10], 0).unwrap();
        let error = file.write_at(&[1; 1], 10).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        file.write_at(&[2; 10], 0).unwrap();
    }
}
