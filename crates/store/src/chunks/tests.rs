//! The chunk store against crashes, damage, full disks; sweeping; many threads.

#![expect(clippy::cast_possible_truncation, reason = "patterns in test data")]

use std::sync::Arc;

use super::*;
use crate::disk::{CrashKeeps, MemoryDisk};

const SPACE: [u8; 16] = [4; 16];

fn options() -> ChunkOptions {
    ChunkOptions { pack_bytes: 64 << 10, cache_bytes: 1 << 20, ..ChunkOptions::new(SPACE) }
}

fn open(disk: &MemoryDisk, mark: Option<&ChunkMark>) -> ChunkStore {
    ChunkStore::open(Arc::new(disk.clone()), mark, options()).unwrap().0
}

fn content(number: u64, length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (at as u64).wrapping_mul(31).wrapping_add(number * 7) as u8)
        .collect::<Vec<_>>()
        .into_iter()
        .enumerate()
        .map(|(at, byte)| if at < 8 { number.to_le_bytes()[at] } else { byte })
        .collect()
}

fn page(number: u64) -> Vec<u8> {
    content(number, 4096)
}

#[test]
fn puts_are_kept_once_and_come_back() {
    let disk = MemoryDisk::new();
    let store = open(&disk, None);
    let handles: Vec<_> = (0..100).map(|n| store.put(&page(n)).unwrap()).collect();
    assert_eq!(store.put(&page(5)).unwrap(), handles[5]);
    assert_eq!(store.totals(), (100, 409_600));
    let check = |store: &ChunkStore, handles: &[ChunkHandle]| {
        for (n, handle) in (0..).zip(handles) {
            assert_eq!(*store.get(*handle).unwrap(), page(n));
            assert_eq!(store.hash(*handle).unwrap(), chunk::hash(&page(n)));
            assert_eq!(store.find(&chunk::hash(&page(n))), Some(*handle));
        }
    };
    check(&store, &handles);
    assert_eq!(store.mark(), ChunkMark::default(), "nothing is durable yet");
    store.sync().unwrap();
    check(&store, &handles);
    let mark = store.mark();
    assert!(mark.packs.len() >= 6);
    let disk = disk.after_crash(CrashKeeps::Synced);
    let (store, repaired) =
        ChunkStore::open(Arc::new(disk.clone()), Some(&mark), options()).unwrap();
    assert_eq!(repaired, []);
    assert_eq!(store.totals(), (100, 409_600));
    let handles: Vec<_> = (0..100).map(|n| store.find(&chunk::hash(&page(n))).unwrap()).collect();
    check(&store, &handles);
    assert_eq!(store.mark(), mark);
}

#[test]
fn sizes_are_bounded() {
    let store = open(&MemoryDisk::new(), None);
    assert!(matches!(store.put(&[]), Err(WriteError::TooLarge { .. })));
    for length in [1, 7, 8, 9, 70_000, CHUNK_BYTES_MAX] {
        let handle = store.put(&content(1, length)).unwrap();
        assert_eq!(*store.get(handle).unwrap(), content(1, length));
    }
    let too_long = vec![0; CHUNK_BYTES_MAX + 1];
    assert!(matches!(store.put(&too_long), Err(WriteError::TooLarge { .. })));
    for pack_bytes in [1, (64 << 10) - 1, (1 << 30) + 1] {
        let options = ChunkOptions { pack_bytes, ..options() };
        let opened = ChunkStore::open(Arc::new(MemoryDisk::new()), None, options);
        assert!(matches!(opened, Err(OpenError::InvalidOption { .. })));
    }
}

#[test]
fn opening_cuts_what_lies_beyond_the_mark() {
    let disk = MemoryDisk::new();
    let store = open(&disk, None);
    for n in 0..20 {
        store.put(&page(n)).unwrap();
    }
    store.sync().unwrap();
    let mark = store.mark();
    for n in 20..60 {
        store.put(&page(n)).unwrap();
    }
    store.sync().unwrap();
    for seed in 0..10 {
        let disk = disk.after_crash(CrashKeeps::Some(seed));
        let store = open(&disk, Some(&mark));
        assert_eq!(store.totals().0, 20);
        assert_eq!(store.find(&chunk::hash(&page(30))), None);
        let handle = store.put(&page(30)).unwrap();
        store.sync().unwrap();
        assert_eq!(*store.get(handle).unwrap(), page(30));
    }
    assert_eq!(open(&disk, None).totals(), (0, 0), "before the first checkpoint");
    assert!(!disk.files().iter().any(|(name, _)| name.starts_with("chunks/")));
}

#[test]
fn a_crash_at_any_operation_keeps_every_mark() {
    for step in 0..60 {
        for seed in 0..6 {
            let disk = MemoryDisk::new();
            let store = open(&disk, None);
            let mut kept = 0;
            let mut mark = None;
            disk.fail_after(step);
            'run: for n in 0..80 {
                if store.put(&page(n)).is_err() {
                    break 'run;
                }
                if n % 9 == 8 {
                    // The pages are durable even when only an index file could not be written.
                    match store.sync() {
                        Ok(()) => (kept, mark) = (n + 1, Some(store.mark())),
                        Err(_) => break 'run,
                    }
                }
            }
            let disk = disk.after_crash(CrashKeeps::Some(seed));
            let store = open(&disk, mark.as_ref());
            assert_eq!(store.totals().0, kept);
            for n in 0..kept {
                let handle = store.find(&chunk::hash(&page(n))).unwrap();
                assert_eq!(*store.get(handle).unwrap(), page(n));
            }
        }
    }
}

#[test]
fn damage_is_found_and_a_new_put_makes_it_good() {
    let disk = MemoryDisk::new();
    let options = ChunkOptions { cache_bytes: 0, ..options() };
    let store = ChunkStore::open(Arc::new(disk.clone()), None, options).unwrap().0;
    let handle = store.put(&page(1)).unwrap();
    let other = store.put(&page(2)).unwrap();
    store.sync().unwrap();
    disk.damage("chunks/0000000001.pack", 4096 + 48 + 1000, |bytes| bytes[0] ^= 1);
    for _ in 0..2 {
        let Err(ReadError::Corrupt(damage)) = store.get(handle) else { panic!("damaged") };
        assert_eq!((&*damage.file, damage.offset), ("chunks/0000000001.pack", 4096));
    }
    assert_eq!(*store.get(other).unwrap(), page(2));
    assert_eq!(store.find(&chunk::hash(&page(1))), None, "not offered any more");
    assert_eq!(store.put(&page(1)).unwrap(), handle, "the handle is the same");
    assert_eq!(*store.get(handle).unwrap(), page(1));
    store.sync().unwrap();
    let mark = store.mark();
    let store = open(&disk, Some(&mark));
    let handle = store.find(&chunk::hash(&page(1))).unwrap();
    assert_eq!(*store.get(handle).unwrap(), page(1));
}

#[test]
fn every_flip_of_a_header_is_repaired_from_the_content() {
    let origin = MemoryDisk::new();
    let store = open(&origin, None);
    let lengths = [100, 101, 4096, 3];
    for (n, length) in (0..).zip(lengths) {
        store.put(&content(n, length)).unwrap();
    }
    store.sync().unwrap();
    let mark = store.mark();
    let mut start = 4096;
    for length in lengths {
        for at in start..start + 48 {
            let disk = origin.after_crash(CrashKeeps::Synced);
            disk.damage("chunks/0000000001.pack", at, |bytes| bytes[0] ^= 0x10);
            let (store, repaired) =
                ChunkStore::open(Arc::new(disk.clone()), Some(&mark), options()).unwrap();
            assert_eq!((repaired.len(), repaired[0].offset), (1, start));
            for (n, length) in (0..).zip(lengths) {
                let content = content(n, length);
                let handle = store.find(&chunk::hash(&content)).unwrap();
                assert_eq!(*store.get(handle).unwrap(), *content);
            }
            assert_eq!(
                disk.bytes("chunks/0000000001.pack"),
                origin.bytes("chunks/0000000001.pack")
            );
        }
        start += chunk::size(u32::try_from(length).unwrap());
    }
}

#[test]
fn a_bad_or_missing_index_file_is_built_again() {
    let disk = MemoryDisk::new();
    let store = open(&disk, None);
    for n in 0..40 {
        store.put(&page(n)).unwrap();
    }
    store.sync().unwrap();
    let mark = store.mark();
    let good = disk.bytes("chunks/0000000001.idx").unwrap();
    for missing in [false, true] {
        if missing {
            disk.remove("chunks/0000000001.idx").unwrap();
        } else {
            disk.damage("chunks/0000000001.idx", 70, |bytes| bytes[0] ^= 1);
        }
        let (store, repaired) =
            ChunkStore::open(Arc::new(disk.clone()), Some(&mark), options()).unwrap();
        assert_eq!((repaired.len(), repaired[0].structure), (1, Structure::PackIndex));
        assert_eq!(store.totals().0, 40);
        assert_eq!(disk.bytes("chunks/0000000001.idx").unwrap(), good);
    }
}

#[test]
fn lost_and_shortened_packs_are_named() {
    let origin = MemoryDisk::new();
    let store = open(&origin, None);
    for n in 0..40 {
        store.put(&page(n)).unwrap();
    }
    store.sync().unwrap();
    let mark = store.mark();
    for (number, length) in &mark.packs {
        for lost in [true, false] {
            let disk = origin.after_crash(CrashKeeps::Synced);
            let name = pack::file_name(*number);
            if lost {
                disk.remove(&name).unwrap();
            } else {
                disk.open(&name, crate::Open::Write).unwrap().set_size(length - 1).unwrap();
            }
            match ChunkStore::open(Arc::new(disk), Some(&mark), options()) {
                Err(OpenError::Damaged(damage)) => assert_eq!(damage.file, name),
                other => panic!("{:?}", other.err()),
            }
        }
    }
}

#[test]
fn sweeping_keeps_the_living_and_frees_the_disk() {
    let disk = MemoryDisk::new();
    let store = open(&disk, None);
    let handles: Vec<_> = (0..150).map(|n| store.put(&page(n)).unwrap()).collect();
    store.sync().unwrap();
    let first_mark = store.mark();
    let is_live = |n: usize| n.is_multiple_of(5) || n >= 140;
    let live =
        || handles.iter().enumerate().filter(|(n, _)| is_live(*n)).map(|(_, handle)| *handle);
    let start = store.begin_sweep();
    let swept = store.sweep(start, live()).unwrap();
    assert_eq!(swept, Swept::default(), "everything was put since the sweep before");
    let start = store.begin_sweep();
    let revived = store.put(&page(3)).unwrap();
    assert_eq!(revived, handles[3], "found again after the start");
    let swept = store.sweep(start, live()).unwrap();
    assert!(swept.packs_retired >= 8 && swept.chunks_dropped > 90, "{swept:?}");
    let check = |store: &ChunkStore| {
        for (n, handle) in handles.iter().enumerate() {
            match store.get(*handle) {
                Ok(found) => assert_eq!(*found, page(n as u64)),
                Err(ReadError::Unknown) => assert!(!is_live(n) && n != 3),
                Err(error) => panic!("{error}"),
            }
        }
    };
    check(&store);
    // A crash before the next checkpoint: the old mark still opens, with everything in it.
    let crashed = open(&disk.after_crash(CrashKeeps::Everything), Some(&first_mark));
    assert_eq!(crashed.totals().0, 150);
    store.sync().unwrap();
    let mark = store.mark();
    assert!(mark.packs.len() < first_mark.packs.len());
    store.remove_retired(&first_mark).unwrap();
    assert_eq!(open(&disk.after_crash(CrashKeeps::Synced), Some(&first_mark)).totals().0, 150);
    let before: u64 = disk.files().iter().map(|(_, size)| size).sum();
    store.remove_retired(&mark).unwrap();
    let after: u64 = disk.files().iter().map(|(_, size)| size).sum();
    assert!(after * 2 < before, "{before} {after}");
    check(&store);
    let reopened = open(&disk.after_crash(CrashKeeps::Synced), Some(&mark));
    for n in (0..150).filter(|n| is_live(*n)) {
        let handle = reopened.find(&chunk::hash(&page(n as u64))).unwrap();
        assert_eq!(*reopened.get(handle).unwrap(), page(n as u64));
    }
}

#[test]
fn a_full_disk_refuses_one_put_and_loses_nothing() {
    let disk = MemoryDisk::new();
    let store = open(&disk, None);
    disk.set_capacity(Some(300_000));
    let mut handles = Vec::new();
    let refused = loop {
        match store.put(&page(handles.len() as u64)) {
            Ok(handle) => handles.push(handle),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, WriteError::DiskFull { .. }));
    assert!(matches!(store.sync(), Err(WriteError::DiskFull { .. })));
    for (n, handle) in (0..).zip(&handles) {
        assert_eq!(*store.get(*handle).unwrap(), page(n));
    }
    disk.set_capacity(None);
    store.put(&page(handles.len() as u64)).unwrap();
    store.sync().unwrap();
    let mark = store.mark();
    let store = open(&disk.after_crash(CrashKeeps::Synced), Some(&mark));
    assert_eq!(store.totals().0, handles.len() as u64 + 1);
}

#[test]
fn a_failed_fsync_poisons() {
    let disk = MemoryDisk::new();
    let store = open(&disk, None);
    let handle = store.put(&page(1)).unwrap();
    disk.fail_sync_after(0);
    assert!(matches!(store.sync(), Err(WriteError::Io { .. })));
    assert!(matches!(store.sync(), Err(WriteError::Poisoned(_))));
    assert_eq!(store.mark(), ChunkMark::default());
    assert_eq!(*store.get(handle).unwrap(), page(1), "reads go on");
}

#[test]
fn many_threads_read_and_put_while_a_sweep_runs() {
    let disk = MemoryDisk::new();
    let options = ChunkOptions { cache_bytes: 100_000, ..options() };
    let store = ChunkStore::open(Arc::new(disk.clone()), None, options).unwrap().0;
    let old: Vec<_> = (0..100).map(|n| store.put(&page(n)).unwrap()).collect();
    let live: Vec<_> = old.iter().copied().step_by(4).collect();
    store.begin_sweep();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (store, live) = (&store, &live);
            scope.spawn(move || {
                for n in 0..200 {
                    let number = if n % 3 == 0 { n } else { 1000 * (thread % 2 + 1) + n };
                    let handle = store.put(&page(number)).unwrap();
                    assert_eq!(*store.get(handle).unwrap(), page(number));
                    let place = usize::try_from(n).unwrap() % live.len();
                    assert_eq!(*store.get(live[place]).unwrap(), page(place as u64 * 4));
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..3 {
                let start = store.begin_sweep();
                store.sweep(start, live.iter().copied()).unwrap();
                store.sync().unwrap();
                store.remove_retired(&store.mark()).unwrap();
            }
        });
    });
    for (place, handle) in live.iter().enumerate() {
        assert_eq!(*store.get(*handle).unwrap(), page(place as u64 * 4));
    }
}
