//! Seeded crashes over the simulated disk, and what the simulator notices.

use anabranch_lab::sim::{Options, Report, run};

fn checked(seed: u64, crashes: u64) -> Report {
    let report = run(&Options { seed, crashes, ignore: Vec::new() });
    assert!(report.passed(), "{report}");
    assert!(report.counts.crashes() >= crashes);
    report
}

#[test]
fn one_hundred_and_fifty_crashes() {
    let report = checked(1, 150);
    let counts = &report.counts;
    // The schedules must reach what they are for.
    assert!(counts.power_cuts > 0 && counts.kills > 0 && counts.interrupted_recoveries > 0);
    assert!(counts.unknown_happened > 0 && counts.unknown_lost > 0 && counts.retries > 0);
    assert!(counts.failed_syncs > 0 && counts.refused_growth > 0);
    for operation in [
        "append",
        "append at",
        "put",
        "delete",
        "cas",
        "incr",
        "sql",
        "transaction",
        "fork",
        "promote",
        "discard",
        "checkpoint",
        "tick",
        "look",
    ] {
        assert!(counts.operations.contains_key(operation), "{operation} was never called");
    }
}

#[test]
#[ignore = "takes a minute; cargo xtask full runs it"]
fn two_thousand_crashes() {
    let report = checked(1_000_000, 2_000);
    assert!(report.counts.damaged_tails > 0 && report.counts.expired > 0);
}

#[test]
fn the_same_seed_is_the_same_run() {
    let (first, second) = (checked(7, 20), checked(7, 20));
    assert_eq!(first, second);
    assert_ne!(first.trace, checked(8, 20).trace);
}
