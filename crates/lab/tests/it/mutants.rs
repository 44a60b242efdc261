//! Each fsync is needed: without it the crash test fails.

use anabranch_lab::sim::mutants::{HARMLESS, list, run_one};
use anabranch_lab::sim::{Options, run};

/// The seed of both tests, and the crashes within which a mutant must be noticed.
const SEED: u64 = 1;
const CRASHES: u64 = 3_000;

#[test]
fn the_most_important_syncs_are_missed_at_once() {
    for site in [
        "running: file journal/*.seg, records and identifiers",
        "running: file journal/*.seg.tmp, bytes",
        "running: file chunks/*.pack, bytes",
        "running: file history/*.seg, bytes",
        "running: directory journal, after renaming to journal/*.seg",
        "running: directory journal, after removing journal/*.seg",
        "running: directory chunks, after creating chunks/*.pack",
        "running: directory history, after creating history/*.seg",
    ] {
        let mutant = run_one(vec![site.to_owned()], SEED, 150);
        assert!(mutant.caught.is_some(), "{mutant}");
    }
}

#[test]
#[ignore = "takes minutes; cargo xtask full runs it"]
fn every_sync_is_missed() {
    let mut unnoticed = Vec::new();
    for sites in list(SEED, CRASHES) {
        let mutant = run_one(sites, SEED, CRASHES);
        match (&mutant.caught, mutant.harmless) {
            (Some(_), None) | (None, Some(_)) => {}
            _ => unnoticed.push(mutant.to_string()),
        }
    }
    assert!(unnoticed.is_empty(), "{}", unnoticed.join("\n"));
}

/// Each is harmless alone; so are all of them together.
#[test]
#[ignore = "takes a minute; cargo xtask full runs it"]
fn the_harmless_ones_are_harmless_together() {
    let plain = run(&Options { seed: SEED, crashes: CRASHES, ignore: Vec::new() });
    let excused = |site: &String| HARMLESS.iter().any(|(begin, _)| site.starts_with(begin));
    let ignore: Vec<String> = plain.sites.into_keys().filter(excused).collect();
    assert!(ignore.len() >= HARMLESS.len() - 1, "{ignore:?}");
    let report = run(&Options { seed: SEED, crashes: CRASHES, ignore });
    assert!(report.passed(), "{report}");
}
