//! The journal against crashes, damage, full disks and failing fsyncs.

#![expect(clippy::cast_possible_truncation, reason = "patterns in test data")]

use std::sync::Arc;

use super::*;
use crate::disk::{CrashKeeps, MemoryDisk};
use crate::{OpenError, SessionId};

const SPACE: [u8; 16] = [9; 16];
const SEGMENT: u32 = segment::BYTES_MIN;

fn options() -> JournalOptions {
    JournalOptions { segment_bytes: SEGMENT, create: true, ..JournalOptions::new(SPACE) }
}

fn open(disk: &MemoryDisk) -> Result<(Journal, Recovered), OpenError> {
    Journal::open(Arc::new(disk.clone()), options())
}

fn payload(seq: u64, length: usize) -> JournalRecord {
    let bytes: Vec<u8> = (0..length).map(|at| (at as u64 * 7 + seq) as u8).collect();
    let id = WriteId { session: SessionId(1), seq, attempt: 0 };
    JournalRecord::Payload { id, digest: Digest(*blake3::hash(&bytes).as_bytes()), bytes }
}

fn entry(index: u64, term: u64) -> JournalRecord {
    JournalRecord::Entry { index, term, kind: 1, data: vec![index as u8; 9] }
}

fn flush(journal: &mut Journal) -> Result<Ordinal, Poisoned> {
    let flush = journal.take_flush().expect("something is pending");
    let result = flush.run();
    journal.complete_flush(flush, result)
}

fn append(journal: &mut Journal, record: &JournalRecord) -> Position {
    match journal.append(record) {
        Err(AppendError::NeedsSegment) => {
            journal.prepare_next_segment().unwrap();
            journal.append(record).unwrap()
        }
        other => other.unwrap(),
    }
}

fn seqs(recovered: &Recovered) -> Vec<u64> {
    recovered.payloads.iter().map(|(id, ..)| id.seq).collect()
}

#[test]
fn records_come_back_buffered_in_flight_durable_and_reopened() {
    let disk = MemoryDisk::new();
    let (mut journal, recovered) = open(&disk).unwrap();
    assert_eq!(recovered.last, Ordinal(0));
    assert!(!journal.pending() && !journal.unconfirmed() && journal.take_flush().is_none());
    let records = [
        payload(1, 100),
        entry(1, 1),
        JournalRecord::Part { term: 1, transaction: 5, part: 0, bytes: vec![3; 33] },
        payload(2, 0),
    ];
    let at: Vec<_> = records.iter().map(|record| append(&mut journal, record)).collect();
    let read_all = |journal: &Journal| {
        for (at, record) in at.iter().zip(&records) {
            assert_eq!(journal.read(*at).unwrap(), *record);
        }
    };
    read_all(&journal);
    let running = journal.take_flush().unwrap();
    assert_eq!(running.last(), Ordinal(4));
    let later = append(&mut journal, &payload(3, 5));
    assert!(journal.take_flush().is_none(), "one at a time");
    read_all(&journal);
    assert_eq!(journal.durable(), Ordinal(0));
    let result = running.run();
    assert_eq!(journal.complete_flush(running, result), Ok(Ordinal(4)));
    read_all(&journal);
    assert_eq!(journal.read(later).unwrap(), payload(3, 5));
    assert_eq!(flush(&mut journal), Ok(Ordinal(5)));
    assert!(journal.unconfirmed());
    drop(journal);
    let (journal, recovered) = open(&disk.after_crash(CrashKeeps::Synced)).unwrap();
    assert_eq!(seqs(&recovered), [1, 2, 3]);
    assert_eq!(recovered.payloads[0].2, at[0]);
    assert_eq!(recovered.entries, [(1, 1, at[1])]);
    assert_eq!(recovered.parts, [(1, 5, 0, at[2])]);
    assert_eq!((&recovered.torn, &*recovered.repaired), (&None, &[][..]));
    assert_eq!(recovered.last, Ordinal(6), "opening confirms the tail");
    assert!(!journal.unconfirmed());
    read_all(&journal);
}

#[test]
fn a_confirmed_tail_is_not_confirmed_again() {
    let disk = MemoryDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    append(&mut journal, &payload(1, 10));
    append(&mut journal, &JournalRecord::Confirm);
    flush(&mut journal).unwrap();
    for _ in 0..3 {
        let (journal, recovered) = open(&disk).unwrap();
        assert_eq!((journal.last(), recovered.last), (Ordinal(2), Ordinal(2)));
    }
}

#[test]
fn rewritten_entries_replace_the_later_ones() {
    let disk = MemoryDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    for (index, term) in [(1, 1), (2, 1), (3, 1), (2, 2)] {
        append(&mut journal, &entry(index, term));
    }
    flush(&mut journal).unwrap();
    let (_, recovered) = open(&disk).unwrap();
    let entries: Vec<_> =
        recovered.entries.iter().map(|(index, term, _)| (*index, *term)).collect();
    assert_eq!(entries, [(1, 1), (2, 2)]);
}

#[test]
fn segments_roll_and_old_ones_go() {
    let disk = MemoryDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    let mut at = Vec::new();
    for seq in 1..=300 {
        at.push(append(&mut journal, &payload(seq, 900)));
        if seq % 7 == 0 {
            flush(&mut journal).unwrap();
        }
    }
    flush(&mut journal).unwrap();
    let newest = at.last().unwrap().segment;
    assert!(newest >= 6);
    let check = |journal: &Journal, from: usize| {
        for (seq, at) in (1..).zip(&at) {
            match journal.read(*at) {
                Ok(record) => assert_eq!(record, payload(seq, 900)),
                Err(ReadError::Unknown) => assert!((seq as usize) < from),
                Err(error) => panic!("{error}"),
            }
        }
    };
    check(&journal, 1);
    let (mut journal, recovered) = open(&disk).unwrap();
    assert_eq!(seqs(&recovered), (1..=300).collect::<Vec<_>>());
    check(&journal, 1);
    let keep = recovered.payloads[200].2;
    let removed = journal.remove_segments_before(keep.ordinal).unwrap();
    assert_eq!(removed, u64::from(keep.segment) - 1);
    check(&journal, 201);
    assert!(matches!(journal.read(at[0]), Err(ReadError::Unknown)));
    let needed = |ordinal| JournalOptions { needed_from: ordinal, ..options() };
    let reopened = Journal::open(Arc::new(disk.clone()), needed(keep.ordinal)).unwrap();
    assert!(seqs(&reopened.1).contains(&201));
    assert!(matches!(open(&disk), Err(OpenError::Damaged(_))), "ordinal 1 is gone");
    let beyond = needed(Ordinal(10_000));
    assert!(matches!(Journal::open(Arc::new(disk), beyond), Err(OpenError::Damaged(_))));
    assert_eq!(
        journal.remove_segments_before(Ordinal(u64::MAX)).unwrap(),
        u64::from(newest - keep.segment)
    );
}

#[test]
fn a_segment_is_removed_only_when_something_durable_follows() {
    let disk = MemoryDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    let mut seq = 0;
    while journal.current.number == 1 {
        seq += 1;
        append(&mut journal, &payload(seq, 3000));
        if journal.current.number == 1 {
            flush(&mut journal).unwrap();
        }
    }
    assert_eq!(journal.remove_segments_before(Ordinal(u64::MAX)).unwrap(), 0);
    flush(&mut journal).unwrap();
    assert_eq!(journal.remove_segments_before(Ordinal(u64::MAX)).unwrap(), 1);
}

#[test]
fn limits_are_exact() {
    let disk = MemoryDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    let longest = journal.record_bytes_max();
    let at = append(&mut journal, &payload(1, longest));
    let second = append(&mut journal, &payload(2, longest));
    assert_ne!(at.segment, second.segment);
    flush(&mut journal).unwrap();
    let (mut journal, recovered) = open(&disk).unwrap();
    assert_eq!(seqs(&recovered), [1, 2]);
    assert_eq!(journal.read(second).unwrap(), payload(2, longest));
    let refused = journal.append(&payload(3, longest + 1));
    assert!(matches!(refused, Err(AppendError::TooLarge { .. })));
    for segment_bytes in [0, SEGMENT - 1, SEGMENT + 4096] {
        let options = JournalOptions { segment_bytes, ..options() };
        let opened = Journal::open(Arc::new(MemoryDisk::new()), options);
        assert!(matches!(opened, Err(OpenError::InvalidOption { .. })));
    }
    let options = JournalOptions { create: false, ..options() };
    let opened = Journal::open(Arc::new(MemoryDisk::new()), options);
    assert!(matches!(opened, Err(OpenError::Damaged(_))), "an empty directory is not a journal");
    let other = JournalOptions { space: [1; 16], ..options };
    assert!(matches!(Journal::open(Arc::new(disk), other), Err(OpenError::OtherSpace { .. })));
}

#[test]
fn the_segment_size_may_change_between_openings() {
    let disk = MemoryDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    append(&mut journal, &payload(1, 10));
    journal.prepare_next_segment().unwrap();
    flush(&mut journal).unwrap();
    let larger = JournalOptions { segment_bytes: 4 * SEGMENT, ..options() };
    let (mut journal, _) = Journal::open(Arc::new(disk.clone()), larger).unwrap();
    let longest = journal.record_bytes_max();
    assert!(longest > 100_000);
    append(&mut journal, &payload(2, longest));
    flush(&mut journal).unwrap();
    let (mut journal, recovered) = open(&disk).unwrap();
    assert_eq!(seqs(&recovered), [1, 2]);
    append(&mut journal, &payload(3, 100));
    flush(&mut journal).unwrap();
    assert_eq!(seqs(&open(&disk).unwrap().1), [1, 2, 3]);
}

#[test]
fn small_records_fill_the_identifier_area() {
    let disk = MemoryDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    for index in 1..=600 {
        append(&mut journal, &entry(index, 1));
        flush(&mut journal).unwrap();
    }
    assert!(journal.current.number >= 3);
    let (_, recovered) = open(&disk).unwrap();
    assert_eq!(recovered.entries.len(), 600);
}

#[test]
fn a_failed_fsync_poisons_for_good() {
    let disk = MemoryDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    append(&mut journal, &payload(1, 50));
    flush(&mut journal).unwrap();
    let lost = append(&mut journal, &payload(2, 50));
    disk.fail_sync_after(0);
    assert_eq!(flush(&mut journal), Err(Poisoned));
    assert!(journal.poisoned());
    assert_eq!(journal.durable(), Ordinal(1));
    assert_eq!(journal.append(&payload(3, 1)), Err(AppendError::Poisoned));
    assert!(journal.take_flush().is_none());
    assert!(matches!(journal.prepare_next_segment(), Err(WriteError::Poisoned(_))));
    assert_eq!(journal.read(lost).unwrap(), payload(2, 50), "reads go on");
    // The same process's cache still shows the record; the medium never got it.
    let (_, recovered) = open(&disk).unwrap();
    assert_eq!(seqs(&recovered), [1]);
}

#[test]
fn a_full_disk_refuses_before_anything_is_acknowledged() {
    let disk = MemoryDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    disk.set_capacity(Some(u64::from(SEGMENT) + 5000));
    let mut seq = 0;
    let refused = loop {
        match journal.append(&payload(seq + 1, 800)) {
            Ok(_) => seq += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, AppendError::NeedsSegment);
    flush(&mut journal).unwrap();
    for _ in 0..2 {
        assert!(matches!(journal.prepare_next_segment(), Err(WriteError::DiskFull { .. })));
        assert_eq!(journal.append(&payload(seq + 1, 800)), Err(AppendError::NeedsSegment));
    }
    assert!(
        !disk.files().iter().any(|(name, _)| name.strip_suffix(".tmp").is_some()),
        "no remains"
    );
    assert!(!journal.poisoned());
    let (_, recovered) = open(&disk).unwrap();
    assert_eq!(seqs(&recovered).len() as u64, seq, "a full disk does not prevent opening");
    disk.set_capacity(None);
    append(&mut journal, &payload(seq + 1, 800));
    flush(&mut journal).unwrap();
}

#[test]
fn jobs_are_offered_once_at_half_full() {
    let disk = MemoryDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    assert!(journal.segment_job().is_none());
    for seq in 1..=30 {
        append(&mut journal, &payload(seq, 900));
    }
    let job = journal.segment_job().expect("half full");
    assert!(journal.segment_job().is_none(), "one job at a time");
    journal.install_segment(job.run()).unwrap();
    assert!(journal.segment_job().is_none(), "a spare is there");
    let (journal, _) = open(&disk).unwrap();
    assert_eq!(journal.spares.len(), 1, "found again");
}

#[test]
fn an_append_does_not_depend_on_a_job_that_is_out() {
    let disk = MemoryDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    let mut seq = 0;
    let mut job = None;
    // Somebody took the job and is slow: appends go through two ends of segments meanwhile.
    while journal.current.number < 3 {
        seq += 1;
        append(&mut journal, &payload(seq, 900));
        job = job.or_else(|| journal.segment_job());
    }
    let late = job.expect("half full").run();
    journal.install_segment(late).unwrap();
    assert!(journal.spares.iter().all(|spare| spare.number > 3), "the late one is not used twice");
    flush(&mut journal).unwrap();
    let (_, recovered) = open(&disk).unwrap();
    assert_eq!(seqs(&recovered).len() as u64, seq);
}

/// Writes flushes of a few records until the disk fails; returns how many payloads were
/// acknowledged, and how many appended.
fn run_until_failure(disk: &MemoryDisk, from: u64) -> (u64, u64) {
    let (mut acknowledged, mut appended) = (from, from);
    let Ok((mut journal, _)) = open(disk) else { return (acknowledged, appended) };
    for round in 0..12_u64 {
        for _ in 0..=(round % 4) {
            let record = payload(appended + 1, 700 + 1500 * usize::from(round % 3 == 0));
            match journal.append(&record) {
                Ok(_) => appended += 1,
                Err(AppendError::NeedsSegment) => {
                    if journal.prepare_next_segment().is_err() {
                        return (acknowledged, appended);
                    }
                }
                Err(_) => return (acknowledged, appended),
            }
        }
        let Some(flush) = journal.take_flush() else { continue };
        let result = flush.run();
        if journal.complete_flush(flush, result).is_err() {
            return (acknowledged, appended);
        }
        acknowledged = appended;
    }
    (acknowledged, appended)
}

#[test]
fn a_crash_at_any_operation_keeps_what_was_acknowledged() {
    // The journal crosses a segment's end within the run, so creation and sealing are hit too.
    let origin = MemoryDisk::new();
    let (mut journal, _) = open(&origin).unwrap();
    for seq in 1..=38 {
        append(&mut journal, &payload(seq, 1000));
    }
    flush(&mut journal).unwrap();
    let (mut tails, mut cuts) = (0, 0);
    for step in 0..70 {
        for seed in 0..12 {
            let disk = origin.after_crash(CrashKeeps::Everything);
            disk.fail_after(step);
            let (acknowledged, appended) = run_until_failure(&disk, 38);
            let keeps = match seed {
                0 => CrashKeeps::Synced,
                1 => CrashKeeps::Everything,
                seed => CrashKeeps::Some(seed),
            };
            let disk = disk.after_crash(keeps);
            let opened = match open(&disk) {
                Err(OpenError::DamagedTail { .. }) => {
                    tails += 1;
                    assert!(acknowledged < appended, "only an unfinished flush is doubtful");
                    let accept = JournalOptions { accept_loss: true, ..options() };
                    let opened = Journal::open(Arc::new(disk.clone()), accept).unwrap();
                    assert_eq!(opened.1.kept_aside.len(), 1);
                    opened
                }
                opened => opened.unwrap_or_else(|error| panic!("step {step} seed {seed}: {error}")),
            };
            let found = seqs(&opened.1);
            let count = found.len() as u64;
            assert_eq!(found, (1..=count).collect::<Vec<_>>(), "a prefix");
            assert!((acknowledged..=appended).contains(&count), "step {step} seed {seed}");
            cuts += usize::from(opened.1.torn.is_some());
            for (id, _, at) in &opened.1.payloads {
                let JournalRecord::Payload { id: read, .. } = opened.0.read(*at).unwrap() else {
                    panic!("another kind")
                };
                assert_eq!(read, *id);
            }
            let (_, again) = open(&disk).unwrap();
            assert_eq!((seqs(&again).len() as u64, &again.torn), (count, &None), "settled");
            // And it goes on from there.
            let (acknowledged, _) = run_until_failure(&disk, count);
            let (_, recovered) = open(&disk).unwrap();
            assert_eq!(seqs(&recovered), (1..=acknowledged).collect::<Vec<_>>());
        }
    }
    assert!(cuts > 20, "torn tails were seen ({cuts})");
    assert!(tails > 5, "doubtful tails were seen ({tails})");
}

#[test]
fn a_crash_while_opening_cuts_no_more_than_the_opening_would() {
    let origin = MemoryDisk::new();
    let (mut journal, _) = open(&origin).unwrap();
    append(&mut journal, &payload(1, 100));
    flush(&mut journal).unwrap();
    for seq in 2..=20 {
        append(&mut journal, &payload(seq, 2500));
    }
    let running = journal.take_flush().unwrap();
    running.run().unwrap();
    // Half the flush: identifiers of the second half and a record of the first are gone.
    let torn = origin.after_crash(CrashKeeps::Everything);
    let ids = u64::from(segment::Geometry::new(SEGMENT.into()).unwrap().identifiers_start());
    torn.damage(&segment::file_name(1), ids + 64 * 10, |bytes| bytes[..640].fill(0));
    torn.damage(&segment::file_name(1), 36_000, |bytes| bytes[..9000].fill(0));
    let (_, recovered) = open(&torn.after_crash(CrashKeeps::Everything)).unwrap();
    let expected = seqs(&recovered);
    assert!(recovered.torn.is_some() && expected.len() < 20);
    for step in 0..12 {
        for seed in 0..30 {
            let disk = torn.after_crash(CrashKeeps::Everything);
            disk.fail_after(step);
            let _ = open(&disk);
            let disk = disk.after_crash(CrashKeeps::Some(seed));
            let (_, recovered) = open(&disk).unwrap();
            assert_eq!(seqs(&recovered), expected, "step {step} seed {seed}");
        }
    }
}

#[test]
fn a_doubtful_tail_is_refused_then_moved_aside_on_request() {
    let disk = MemoryDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    append(&mut journal, &payload(1, 100));
    flush(&mut journal).unwrap();
    let bad = append(&mut journal, &payload(2, 100));
    append(&mut journal, &payload(3, 100));
    flush(&mut journal).unwrap();
    let file = segment::file_name(bad.segment);
    disk.damage(&file, u64::from(bad.offset) + 100, |bytes| bytes[0] ^= 1);
    for _ in 0..2 {
        let Err(OpenError::DamagedTail { damage, records }) = open(&disk) else {
            panic!("must be refused, and stay so")
        };
        assert_eq!((&*damage.file, damage.offset, records), (&*file, u64::from(bad.offset), 2));
    }
    let before = disk.bytes(&file).unwrap();
    let accept = JournalOptions { accept_loss: true, ..options() };
    let (_, recovered) = Journal::open(Arc::new(disk.clone()), accept).unwrap();
    assert_eq!(seqs(&recovered), [1]);
    assert_eq!(recovered.torn.unwrap().ordinal, Ordinal(2));
    let aside = disk.bytes(&recovered.kept_aside[0]).unwrap();
    let lost = &before[bad.offset as usize..][..bad.length as usize];
    assert!(aside.windows(lost.len()).any(|window| window == lost), "the bytes are kept");
    assert_eq!(open(&disk).unwrap().1.kept_aside.len(), 1);
}

#[test]
fn damage_of_anything_confirmed_is_refused_whatever_is_permitted() {
    let disk = MemoryDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    let at: Vec<_> = (1..=5)
        .map(|seq| {
            let at = append(&mut journal, &payload(seq, 100));
            flush(&mut journal).unwrap();
            at
        })
        .collect();
    let file = segment::file_name(1);
    for (place, at) in at.iter().enumerate() {
        let disk = disk.after_crash(CrashKeeps::Synced);
        disk.damage(&file, u64::from(at.offset) + 50, |bytes| bytes[0] ^= 1);
        assert!(matches!(journal.read(*at), Ok(JournalRecord::Payload { .. })));
        let accept = JournalOptions { accept_loss: true, ..options() };
        match Journal::open(Arc::new(disk), accept) {
            Err(OpenError::Damaged(damage)) => {
                assert!(place < 4);
                assert_eq!(
                    (damage.offset, damage.structure),
                    (at.offset.into(), Structure::Record)
                );
            }
            Ok((_, recovered)) => assert_eq!((place, seqs(&recovered).len()), (4, 4)),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn missing_segments_are_named() {
    let disk = MemoryDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    for seq in 1..=200 {
        append(&mut journal, &payload(seq, 900));
    }
    flush(&mut journal).unwrap();
    let newest = journal.current.number;
    for number in 1..=newest {
        let disk = disk.after_crash(CrashKeeps::Synced);
        disk.remove(&segment::file_name(number)).unwrap();
        assert!(matches!(open(&disk), Err(OpenError::Damaged(_))), "segment {number}");
    }
}
