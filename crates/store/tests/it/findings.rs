//! What verify says of directories that are not simply damaged in one byte.

use std::sync::Arc;

use anabranch_store::disk::{CrashKeeps, Disk, Open};
use anabranch_store::{
    ChunkStore, JournalRecord, MemoryDisk, OpenError, ReadError, Report, Severity, Structure,
    verify,
};

use crate::fixture::{self, append, flush};

fn built() -> (MemoryDisk, Arc<dyn Disk>) {
    let memory = MemoryDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    fixture::build(&disk);
    (memory, disk)
}

fn only(report: &Report) -> (Severity, Structure, &str) {
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    let finding = &report.findings[0];
    (finding.severity, finding.damage.structure, &*finding.damage.file)
}

#[test]
fn what_lies_beyond_the_checkpoint_is_no_damage() {
    let (memory, disk) = built();
    let space = fixture::open(&disk, false).unwrap();
    for n in 20..40 {
        space.chunks.put(&fixture::chunk(n)).unwrap();
        let frame = fixture::frame(space.history.next(), space.history.chain(), n);
        space.history.append(&frame).unwrap();
    }
    space.chunks.sync().unwrap();
    space.history.sync().unwrap();
    assert!(verify(&memory).unwrap().findings.is_empty(), "intact, if not needed");
    let packs = || memory.files().into_iter().filter(|(name, _)| name.contains("chunks/"));
    let (newest, size) = packs().rfind(|(name, _)| name.contains(".pack")).unwrap();
    let file = disk.open(&newest, Open::Write).unwrap();
    file.set_size(size - 30).unwrap();
    let report = verify(&memory).unwrap();
    assert_eq!(only(&report), (Severity::Note, Structure::Chunk, &*newest));
    assert!(report.clean());
}

#[test]
fn strays_and_missing_files_are_named() {
    let (memory, disk) = built();
    for name in ["notes.txt", "journal/x", "chunks/0000000009.pack.tmp", "history/y"] {
        let memory = memory.after_crash(CrashKeeps::Everything);
        memory.open(name, Open::Create).unwrap().write_at(b"x", 0).unwrap();
        let report = verify(&memory).unwrap();
        assert_eq!(only(&report), (Severity::Note, Structure::Unknown, name));
    }
    for (name, _) in memory.files().into_iter().filter(|(name, _)| name != "LOCK") {
        let memory = memory.after_crash(CrashKeeps::Everything);
        memory.remove(&name).unwrap();
        let report = verify(&memory).unwrap();
        let derived = name.contains(".idx");
        let copy = [".a", ".b"].iter().any(|ending| name.strip_suffix(ending).is_some());
        let expected = if copy { Severity::Repairable } else { Severity::Damage };
        if !derived {
            assert_eq!(report.worst(), Some(expected), "{name}: {:?}", report.findings);
        }
        let disk: Arc<dyn Disk> = Arc::new(memory);
        match fixture::open(&disk, false) {
            Ok(space) => {
                assert!(copy || derived, "{name}");
                assert_eq!(space.read_everything().damage, []);
            }
            Err(error) => {
                assert!(matches!(error, OpenError::Damaged(_)), "{name}: {error}");
                assert!(!copy && !derived);
            }
        }
    }
    for stem in ["identity", "vote"] {
        let memory = memory.after_crash(CrashKeeps::Everything);
        memory.remove(&format!("{stem}.a")).unwrap();
        memory.remove(&format!("{stem}.b")).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(memory.clone());
        let opened = fixture::open(&disk, false).err().unwrap();
        if stem == "identity" {
            assert!(matches!(opened, OpenError::Missing { .. }));
        } else {
            assert!(matches!(opened, OpenError::Damaged(_)), "{opened}");
            assert_eq!(verify(&memory).unwrap().worst(), Some(Severity::Damage));
        }
    }
    drop(disk);
}

#[test]
fn bytes_given_up_are_kept_and_checked() {
    let (memory, disk) = built();
    let mut space = fixture::open(&disk, false).unwrap();
    let at = space.journal.append(&fixture::payload(99)).unwrap();
    flush(&mut space.journal).unwrap();
    let file = format!("journal/{:010}.seg", at.segment);
    memory.damage(&file, u64::from(at.offset) + 45, |bytes| bytes[0] ^= 1);
    let report = verify(&memory).unwrap();
    assert_eq!(report.worst(), Some(Severity::Damage));
    assert!(matches!(fixture::open(&disk, false), Err(OpenError::DamagedTail { records: 1, .. })));
    let space = fixture::open(&disk, true).unwrap();
    assert_eq!(space.read_everything().damage, []);
    let report = verify(&memory).unwrap();
    let (severity, structure, aside) = only(&report);
    assert_eq!((severity, structure), (Severity::Note, Structure::Aside));
    let aside = aside.to_owned();
    for at in 0..memory.bytes(&aside).unwrap().len() as u64 {
        let memory = memory.after_crash(CrashKeeps::Everything);
        memory.damage(&aside, at, |bytes| bytes[0] ^= 1);
        let report = verify(&memory).unwrap();
        assert_eq!(only(&report), (Severity::Damage, Structure::Aside, &*aside));
    }
}

#[test]
fn a_chunk_put_again_is_no_longer_lost() {
    let (memory, disk) = built();
    let space = fixture::open(&disk, false).unwrap();
    let content = fixture::chunk(0);
    let handle = space.chunks.find(blake3::hash(&content).as_bytes()).unwrap();
    memory.damage("chunks/0000000001.pack", 4096 + 100, |bytes| bytes[0] ^= 1);
    assert_eq!(only(&verify(&memory).unwrap()).0, Severity::Damage);
    assert!(matches!(space.chunks.get(handle), Err(ReadError::Corrupt(_))));
    space.chunks.put(&content).unwrap();
    fixture::checkpoint_now(&disk, &space).unwrap();
    assert_eq!(only(&verify(&memory).unwrap()).0, Severity::Repairable);
    let space = fixture::open(&disk, false).unwrap();
    assert_eq!(space.read_everything().damage, []);
}

#[test]
fn parts_of_another_space_are_refused() {
    let (memory, _) = built();
    let (other, _) = built();
    let name = "identity.a";
    let other_identity = {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let identity =
            anabranch_store::Identity { space: [1; 16], name: "other".to_owned(), node: 1 };
        anabranch_store::identity::create(&*disk, &identity).unwrap();
        let file = disk.open(name, Open::Read).unwrap();
        let mut bytes = vec![0; usize::try_from(file.size().unwrap()).unwrap()];
        file.read_at(&mut bytes, 0).unwrap();
        bytes
    };
    for copy in ["identity.a", "identity.b"] {
        let file = memory.open(copy, Open::Create).unwrap();
        file.write_at(&other_identity, 0).unwrap();
    }
    let report = verify(&memory).unwrap();
    assert_eq!(report.worst(), Some(Severity::Damage));
    let options = anabranch_store::ChunkOptions { space: [1; 16], ..fixture::chunk_options() };
    let mark = anabranch_store::checkpoint::load_newest(&other).unwrap().unwrap().0.chunks;
    let opened = ChunkStore::open(Arc::new(other), Some(&mark), options);
    assert!(matches!(opened, Err(OpenError::OtherSpace { .. })));
}

#[test]
fn shared_parts_can_be_shared() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<ChunkStore>();
    shared::<anabranch_store::History>();
    shared::<anabranch_store::Journal>();
    sent::<anabranch_store::Flush>();
    sent::<anabranch_store::Fetch>();
    sent::<anabranch_store::SegmentJob>();
    sent::<anabranch_store::PreparedSegment>();
    let (_, disk) = built();
    let mut space = fixture::open(&disk, false).unwrap();
    append(&mut space.journal, &JournalRecord::Confirm).unwrap();
    flush(&mut space.journal).unwrap();
}
