//! The simulated disk does what its contract says, and loses what it may.

use super::*;
use anabranch_store::disk::conformance;

fn torn(disk: &SimDisk, seed: u64) -> SimDisk {
    // The disk is copied first: a restart stops the one it is taken from.
    disk.copy().restart(Crash::Power, &mut Random::new(seed))
}

#[test]
fn it_is_a_disk() {
    conformance::run(&SimDisk::new());
}

#[test]
fn what_was_synced_survives_every_power_cut() {
    let disk = SimDisk::new();
    let file = disk.open("f", Open::Create).unwrap();
    file.write_at(&[1; 3_000], 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir("").unwrap();
    file.write_at(&[2; 1_000], 1_024).unwrap();
    let mut mixed = 0;
    for seed in 0..200 {
        let bytes = torn(&disk, seed).bytes("f").unwrap();
        assert_eq!(bytes.len(), 3_000);
        assert!(bytes[..1_024].iter().all(|byte| *byte == 1), "bytes before the write");
        assert!(bytes[2_024..].iter().all(|byte| *byte == 1), "bytes after the write");
        let sectors = [&bytes[1_024..1_536], &bytes[1_536..2_024]];
        for sector in sectors {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "sectors are whole");
        }
        mixed += u32::from(sectors[0][0] != sectors[1][0]);
    }
    assert!(mixed > 20, "{mixed}");
}

#[test]
fn a_sector_never_holds_a_later_write_without_an_earlier_one() {
    let disk = SimDisk::new();
    let file = disk.open("f", Open::Create).unwrap();
    file.write_at(&[0; 512], 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir("").unwrap();
    file.write_at(&[1; 8], 0).unwrap();
    file.write_at(&[2; 8], 8).unwrap();
    let mut found = BTreeSet::new();
    for seed in 0..300 {
        let bytes = torn(&disk, seed).bytes("f").unwrap();
        found.insert((bytes[0], bytes[8]));
    }
    assert_eq!(found, BTreeSet::from([(0, 0), (1, 0), (1, 2)]));
}

#[test]
fn unsynced_names_and_sizes_are_kept_or_not() {
    let disk = SimDisk::new();
    for name in ["old", "gone"] {
        disk.open(name, Open::Create).unwrap();
    }
    disk.sync_dir("").unwrap();
    let file = disk.open("new.tmp", Open::Create).unwrap();
    file.write_at(&[7; 600], 0).unwrap();
    disk.rename("new.tmp", "old").unwrap();
    disk.remove("gone").unwrap();
    let mut found = BTreeSet::new();
    for seed in 0..500 {
        let disk = torn(&disk, seed);
        let names: Vec<_> = disk.files().into_iter().map(|(name, _)| name).collect();
        found.insert(names.join(" "));
        let size = disk.bytes("old").map_or(0, |bytes| bytes.len());
        assert!(size == 0 || size == 600, "a size it never had: {size}");
    }
    for names in ["gone new.tmp old", "gone old", "old", "new.tmp old"] {
        assert!(found.contains(names), "{names} is missing in {found:?}");
    }
}

#[test]
fn a_killed_process_loses_nothing_but_makes_nothing_durable() {
    let disk = SimDisk::new();
    let file = disk.open("f", Open::Create).unwrap();
    disk.sync_dir("").unwrap();
    file.write_at(b"abc", 0).unwrap();
    let next = disk.restart(Crash::Process, &mut Random::new(1));
    assert!(file.write_at(b"x", 0).is_err(), "the old process is dead");
    assert_eq!(next.bytes("f").unwrap(), b"abc");
    let lost = (0..50).filter(|seed| torn(&next, *seed).bytes("f").unwrap().is_empty()).count();
    assert!(lost > 0, "still not durable");
    next.open("f", Open::Write).unwrap().sync_data().unwrap();
    for seed in 0..50 {
        assert_eq!(torn(&next, seed).bytes("f").unwrap(), b"abc");
    }
}

#[test]
fn the_machine_stops_at_the_chosen_operation() {
    let disk = SimDisk::new();
    let file = disk.open("f", Open::Create).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir("").unwrap();
    disk.crash_at(1);
    file.write_at(b"a", 0).unwrap();
    assert!(!disk.crashed());
    assert!(file.sync_data().is_err(), "not answered, not done");
    assert!(disk.crashed());
    assert!(file.read_at(&mut [0], 0).is_err() && disk.list("").is_err());
    let kept = (0..50).filter(|seed| torn(&disk, *seed).bytes("f").unwrap() == b"a").count();
    assert!((1..50).contains(&kept), "{kept}");
}

#[test]
fn a_failed_sync_loses_the_bytes_and_hides_it() {
    let disk = SimDisk::new();
    let file = disk.open("f", Open::Create).unwrap();
    disk.sync_dir("").unwrap();
    file.write_at(b"abc", 0).unwrap();
    disk.fail_sync_after(0);
    assert!(file.sync_data().is_err());
    assert!(file.sync_data().is_ok(), "the next one claims success");
    assert_eq!(disk.bytes("f").unwrap(), b"abc");
    file.drop_cache().unwrap();
    assert_eq!(disk.bytes("f").unwrap(), b"");
    assert_eq!(disk.faults(), (1, 0));
}

#[test]
fn a_full_disk_refuses_growth_for_a_while() {
    let disk = SimDisk::new();
    let file = disk.open("f", Open::Create).unwrap();
    file.write_at(&[1; 10], 0).unwrap();
    disk.full_after(0, 3);
    assert_eq!(file.write_at(&[1], 10).unwrap_err().kind(), io::ErrorKind::StorageFull);
    file.write_at(&[2; 10], 0).unwrap();
    file.write_at(&[1], 10).unwrap();
    assert_eq!(disk.bytes("f").unwrap().len(), 11);
}

#[test]
fn an_ignored_sync_does_nothing() {
    let disk = SimDisk::new();
    disk.enter(Phase::Running);
    let file = disk.open("f9", Open::Create).unwrap();
    disk.ignore(&["running: directory ., after creating f*".to_owned()]);
    disk.sync_dir("").unwrap();
    let lost = (0..50).filter(|seed| torn(&disk, *seed).bytes("f9").is_none()).count();
    assert!(lost > 0);
    file.write_at(b"x", 0).unwrap();
    file.sync_data().unwrap();
    let expected = ["running: directory ., after creating f*", "running: file f*, bytes"];
    assert_eq!(disk.sites().keys().map(String::as_str).collect::<Vec<_>>(), expected);
}
