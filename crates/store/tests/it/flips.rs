//! Every byte of every file is flipped. `verify` must name the place; opening and reading must
//! give the right data, repair, or name the damage.

use std::sync::Arc;

use anabranch_store::disk::{CrashKeeps, Disk};
use anabranch_store::inspect::inspect;
use anabranch_store::{Damage, MemoryDisk, OpenError, Severity, verify};

use crate::fixture;

fn built() -> MemoryDisk {
    let memory = MemoryDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    fixture::build(&disk);
    memory
}

fn covers(damage: &Damage, file: &str, at: u64) -> bool {
    damage.file == file && (damage.offset..damage.offset + damage.length).contains(&at)
}

/// One flip. Returns the severity with which verify named it.
fn flip(origin: &MemoryDisk, file: &str, at: u64, open_too: bool) -> Severity {
    let disk = origin.after_crash(CrashKeeps::Everything);
    disk.damage(file, at, |bytes| bytes[0] ^= 1 << (at % 8));
    let report = verify(&disk).unwrap();
    let named = report.findings.iter().filter(|finding| covers(&finding.damage, file, at));
    let severity = named.map(|finding| finding.severity).max();
    let severity = severity
        .unwrap_or_else(|| panic!("{file} byte {at}: not named, findings {:?}", report.findings));
    if open_too {
        let disk: Arc<dyn Disk> = Arc::new(disk);
        match fixture::open(&disk, false) {
            Ok(space) => {
                let seen = space.read_everything();
                assert!(seen.damage.len() <= 1, "{file} byte {at}: {:?}", seen.damage);
                for damage in &seen.damage {
                    assert_eq!(damage.file, file, "byte {at}");
                    assert_eq!(severity, Severity::Damage, "{file} byte {at}");
                }
                if severity == Severity::Damage {
                    // A frame of no index is not read above.
                    assert!(!seen.damage.is_empty() || file.starts_with("history"), "{file} {at}");
                }
            }
            Err(OpenError::Damaged(damage) | OpenError::DamagedTail { damage, .. }) => {
                assert!(covers(&damage, file, at), "{file} byte {at}: {damage}");
                assert_eq!(severity, Severity::Damage, "{file} byte {at}");
            }
            Err(error) => panic!("{file} byte {at}: {error}"),
        }
    }
    severity
}

#[test]
fn the_untouched_directory_is_clean_and_whole() {
    let memory = built();
    let report = verify(&memory).unwrap();
    assert_eq!(report.findings, []);
    assert!(report.clean());
    let total: u64 = memory.files().iter().map(|(_, size)| size).sum();
    assert_eq!((report.files, report.bytes), (memory.files().len() as u64, total));
    assert!(total <= 1 << 20);
    let names: Vec<_> = memory.files().into_iter().map(|(name, _)| name).collect();
    for part in [".seg", ".pack", ".idx", "history/", "checkpoint-", "identity.b", "vote.a"] {
        assert!(names.iter().any(|name| name.contains(part)), "{part} is covered");
    }
    let listing = inspect(&memory).unwrap();
    assert_eq!(listing.len(), memory.files().len());
    let items: usize = listing.iter().map(|file| file.items.len()).sum();
    assert_eq!(items as u64, report.records);
    let disk: Arc<dyn Disk> = Arc::new(memory.after_crash(CrashKeeps::Synced));
    let space = fixture::open(&disk, false).unwrap();
    let seen = space.read_everything();
    assert_eq!((seen.damage.len(), space.repaired.len()), (0, 0));
    assert_eq!(seen.right, fixture::PAYLOADS + fixture::CHUNKS + fixture::FRAMES * 2 / 3);
}

#[test]
fn every_flip_is_named_and_wrong_data_is_never_returned() {
    let origin = built();
    let mut work = Vec::new();
    for (file, size) in origin.files() {
        let bytes = origin.bytes(&file).unwrap();
        for at in 0..size {
            // In long stretches of zeros, opening is tried at every 97th byte only.
            let place = usize::try_from(at).unwrap();
            let near = place.saturating_sub(80)..bytes.len().min(place + 80);
            let used = bytes[near].iter().any(|byte| *byte != 0);
            work.push((file.clone(), at, used || at % 97 == 0));
        }
    }
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let share = work.len().div_ceil(threads);
    let counts = std::thread::scope(|scope| {
        let spawn = |part: &[(String, u64, bool)]| {
            let (part, origin) = (part.to_vec(), &origin);
            scope.spawn(move || {
                let mut counts = [0_u64; 4];
                for (file, at, open_too) in part {
                    counts[flip(origin, &file, at, open_too) as usize] += 1;
                }
                counts
            })
        };
        let running: Vec<_> = work.chunks(share).map(spawn).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .fold([0; 4], |sum, counts| std::array::from_fn(|at| sum[at] + counts[at]))
    });
    assert_eq!(counts.iter().sum::<u64>(), work.len() as u64);
    assert!(counts[1..].iter().all(|count| *count > 0), "{counts:?}");
    assert_eq!(counts[0], 0, "no flip passes as a note: {counts:?}");
}
