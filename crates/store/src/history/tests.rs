//! The history against crashes, damage, full disks; reading by index.

#![expect(clippy::cast_possible_truncation, reason = "patterns in test data")]

use super::*;
use crate::OpenError;
use crate::disk::{CrashKeeps, MemoryDisk};

const SPACE: [u8; 16] = [6; 16];

fn options() -> HistoryOptions {
    HistoryOptions { segment_bytes: 64 << 10, ..HistoryOptions::new(SPACE) }
}

fn open(disk: &MemoryDisk, mark: Option<&HistoryMark>) -> History {
    History::open(Arc::new(disk.clone()), mark, options()).unwrap().0
}

/// The n-th frame of a history: takes 0 to 3 indexes, bodies of all sizes.
fn add(history: &History, n: u64) -> Frame {
    let digest = Digest([n as u8; 32]);
    let first = history.next();
    let frame = Frame {
        first,
        count: n % 4,
        raft_index: n + 1,
        digest,
        chain: chain::next(history.chain(), digest, first),
        body: vec![n as u8; usize::try_from(n * 37 % 700).unwrap()],
    };
    history.append(&frame).unwrap();
    frame
}

fn check(history: &History, frames: &[Frame]) {
    for frame in frames {
        for index in frame.first.0..frame.first.0 + frame.count {
            assert_eq!(history.read(Index(index)).unwrap(), *frame);
        }
    }
    let all: Vec<_> = history.iter(Index(1)).map(Result::unwrap).collect();
    let from = frames.iter().position(|frame| frame.count > 0).unwrap_or(frames.len());
    assert_eq!(all, frames[from..]);
    for index in [Index(0), history.next(), Index(u64::MAX)] {
        assert!(matches!(history.read(index), Err(ReadError::Unknown)));
        assert_eq!(history.iter(index).count(), 0);
    }
}

#[test]
fn frames_are_read_by_index_buffered_and_durable() {
    let disk = MemoryDisk::new();
    let history = open(&disk, None);
    assert_eq!((history.next(), history.mark()), (Index(1), HistoryMark::START));
    let mut frames = Vec::new();
    for n in 0..900 {
        frames.push(add(&history, n));
        if n == 10 || n == 400 {
            check(&history, &frames);
        }
    }
    check(&history, &frames);
    assert_eq!(history.mark(), HistoryMark::START, "nothing is durable yet");
    history.sync().unwrap();
    check(&history, &frames);
    let mark = history.mark();
    assert!(mark.segment >= 4);
    let disk = disk.after_crash(CrashKeeps::Synced);
    let history = open(&disk, Some(&mark));
    check(&history, &frames);
    let middle = frames.iter().position(|frame| frame.first.0 > 500).unwrap();
    let rest: Vec<_> = history.iter(frames[middle].first).map(Result::unwrap).collect();
    assert_eq!(rest[0].first, frames[middle].first);
    frames.push(add(&history, 900));
    frames.push(add(&history, 903));
    check(&history, &frames);
}

#[test]
fn replay_after_a_cut_writes_the_same_bytes() {
    let whole = MemoryDisk::new();
    let history = open(&whole, None);
    let mut marks = Vec::new();
    for n in 0..600 {
        add(&history, n);
        if n % 50 == 0 {
            history.sync().unwrap();
            marks.push((n + 1, history.mark()));
        }
    }
    history.sync().unwrap();
    marks.push((0, HistoryMark::START));
    for (done, mark) in marks {
        for seed in 0..3 {
            let disk = whole.after_crash(CrashKeeps::Some(seed));
            let history = open(&disk, Some(&mark));
            for n in done..600 {
                add(&history, n);
            }
            history.sync().unwrap();
            assert_eq!(disk.files(), whole.files());
            for (name, _) in disk.files() {
                assert_eq!(disk.bytes(&name), whole.bytes(&name), "{name}");
            }
        }
    }
}

#[test]
fn a_crash_at_any_operation_keeps_every_mark() {
    for step in 0..40 {
        for seed in 0..6 {
            let disk = MemoryDisk::new();
            let history = open(&disk, None);
            let mut frames = Vec::new();
            let (mut kept, mut mark) = (0, None);
            disk.fail_after(step);
            for n in 0..700 {
                let digest = Digest([1; 32]);
                let first = history.next();
                let chain = chain::next(history.chain(), digest, first);
                let body = vec![n as u8; 300];
                let frame = Frame { first, count: 1, raft_index: n, digest, chain, body };
                if history.append(&frame).is_err() {
                    break;
                }
                frames.push(frame);
                if n % 60 == 59 {
                    if history.sync().is_err() {
                        break;
                    }
                    (kept, mark) = (frames.len(), Some(history.mark()));
                }
            }
            let history = open(&disk.after_crash(CrashKeeps::Some(seed)), mark.as_ref());
            check(&history, &frames[..kept]);
        }
    }
}

#[test]
fn every_flip_in_a_frame_is_noticed_and_the_others_stay_readable() {
    let origin = MemoryDisk::new();
    let history = open(&origin, None);
    let frames: Vec<_> = (1..8).map(|n| add(&history, n)).collect();
    history.sync().unwrap();
    let mark = history.mark();
    let name = file_name(1);
    for at in 4096..origin.bytes(&name).unwrap().len() as u64 {
        let disk = origin.after_crash(CrashKeeps::Synced);
        disk.damage(&name, at, |bytes| bytes[0] ^= 4);
        let history = open(&disk, Some(&mark));
        let mut bad = 0;
        for frame in frames.iter().filter(|frame| frame.count > 0) {
            match history.read(frame.first) {
                Ok(read) => assert_eq!(read, *frame),
                Err(ReadError::Corrupt(damage)) => {
                    assert_eq!(damage.file, name);
                    bad += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(bad <= 1, "byte {at}: only the damaged frame is lost");
        let listed: Vec<_> = history.iter(Index(1)).take_while(Result::is_ok).collect();
        for (read, frame) in listed.into_iter().zip(&frames) {
            assert_eq!(read.unwrap(), *frame);
        }
    }
}

#[test]
fn lost_shortened_and_foreign_segments_are_named() {
    let origin = MemoryDisk::new();
    let history = open(&origin, None);
    for n in 0..700 {
        add(&history, n);
    }
    history.sync().unwrap();
    let mark = history.mark();
    assert!(mark.segment > 2);
    let opened = |disk: MemoryDisk| History::open(Arc::new(disk), Some(&mark), options());
    for number in 1..=mark.segment {
        let name = file_name(number);
        let size = origin.bytes(&name).unwrap().len() as u64;
        let disk = origin.after_crash(CrashKeeps::Synced);
        disk.remove(&name).unwrap();
        assert!(matches!(opened(disk), Err(OpenError::Damaged(damage)) if damage.file == name));
        let disk = origin.after_crash(CrashKeeps::Synced);
        disk.open(&name, Open::Write).unwrap().set_size(size - 8).unwrap();
        assert!(matches!(opened(disk), Err(OpenError::Damaged(damage)) if damage.file == name));
        let disk = origin.after_crash(CrashKeeps::Synced);
        disk.damage(&name, 9, |bytes| bytes[0] ^= 1);
        assert_eq!(opened(disk).unwrap().1.len(), 1, "one superblock copy is enough");
    }
    let other = HistoryOptions { space: [0; 16], ..options() };
    let opened = History::open(Arc::new(origin), Some(&mark), other);
    assert!(matches!(opened, Err(OpenError::OtherSpace { .. })));
}

#[test]
fn a_full_disk_loses_nothing_and_a_failed_fsync_poisons() {
    let disk = MemoryDisk::new();
    let history = open(&disk, None);
    let mut frames: Vec<_> = (0..10).map(|n| add(&history, n)).collect();
    disk.set_capacity(Some(5000));
    assert!(matches!(history.sync(), Err(WriteError::DiskFull { .. })));
    check(&history, &frames);
    disk.set_capacity(None);
    frames.push(add(&history, 10));
    history.sync().unwrap();
    let mark = history.mark();
    check(&open(&disk.after_crash(CrashKeeps::Synced), Some(&mark)), &frames);
    add(&history, 11);
    disk.fail_sync_after(0);
    assert!(matches!(history.sync(), Err(WriteError::Io { .. })));
    assert!(matches!(history.sync(), Err(WriteError::Poisoned(_))));
    assert_eq!(history.mark(), mark);
}

#[test]
fn readers_run_beside_the_writer() {
    let disk = MemoryDisk::new();
    let history = open(&disk, None);
    add(&history, 1);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut seen = 0;
                while seen < 1500 {
                    let next = history.next().0;
                    let frame = history.read(Index(1 + seen % (next - 1))).unwrap();
                    assert!(frame.body.iter().all(|byte| *byte == frame.digest.0[0]));
                    seen = seen.max(next - 1);
                }
            });
        }
        let mut n = 2;
        while history.next().0 <= 1500 {
            add(&history, n);
            n += 1;
            if n % 100 == 0 {
                history.sync().unwrap();
            }
        }
    });
}
