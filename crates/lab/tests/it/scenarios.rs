//! What the simulator found once, each told again as a schedule of its own: a seed finds another
//! story as soon as the workload changes.

use std::sync::Arc;

use anabranch_lab::sim::{Crash, Phase, Random, SimClock, SimDisk};
use anabranch_node::{
    BranchStatus, ForkKind, ForkRequest, Options, Origin, PromoteOptions, Space, SqlOptions,
};

fn open(disk: &SimDisk) -> anabranch_node::Result<Space> {
    let options = Options {
        name: Some("sim".to_owned()),
        identity: Some([7; 16]),
        segment_bytes: 64 << 10,
        background: false,
        ..Options::default()
    };
    Space::open_on(Arc::new(disk.clone()), Arc::new(SimClock::default()), options)
}

fn by() -> Origin {
    Origin::actor("test")
}

fn append(space: &Space, branch: &str, record: &str) -> anabranch_node::Result<()> {
    space.append(branch, "s", vec![record.as_bytes().to_vec()], &by()).map(|_| ())
}

fn fork(space: &Space, parent: &str, name: &str, kind: ForkKind) {
    let request = ForkRequest {
        parent: parent.to_owned(),
        name: name.to_owned(),
        kind,
        at: None,
        owner: String::new(),
        ttl_ms: None,
    };
    space.fork(&request, &by()).unwrap();
}

fn sql(space: &Space, branch: &str, script: &str) {
    space.sql(branch, script, &[], &SqlOptions::default(), &by()).unwrap();
}

fn restart(disk: &SimDisk, crash: Crash) -> SimDisk {
    disk.restart(crash, &mut Random::new(1))
}

/// Runs `act` again and again, stopping the machine one disk operation later each time, until it
/// is no longer stopped; `check` sees the space opened after each crash.
fn at_every_operation(
    prepare: impl Fn(&Space),
    act: impl Fn(&Space) -> bool,
    check: impl Fn(&Space, bool),
) {
    for stop in 0.. {
        let disk = SimDisk::new();
        let space = open(&disk).unwrap();
        prepare(&space);
        disk.crash_at(stop);
        let done = act(&space);
        let crashed = disk.crashed();
        drop(space);
        check(&open(&restart(&disk, Crash::Process)).unwrap(), done);
        if !crashed {
            assert!(stop > 3, "the action reaches the disk");
            return;
        }
    }
}

/// The branch stayed closing for ever, and with it all that wanted to write there.
#[test]
fn a_crash_between_the_two_phases_of_a_promotion_leaves_the_branch_open() {
    for discard in [false, true] {
        at_every_operation(
            |space| {
                fork(space, "main", "f", ForkKind::Live);
                append(space, "f", "own").unwrap();
            },
            |space| {
                if discard {
                    space.discard("f", &by()).is_ok()
                } else {
                    space.promote("f", &PromoteOptions::default(), &by()).is_ok()
                }
            },
            |space, done| {
                let found = space.branches().unwrap().into_iter().find(|found| found.name == "f");
                match found.unwrap().status {
                    BranchStatus::Open => {
                        assert!(!done);
                        append(space, "f", "more").unwrap();
                        space.promote("f", &PromoteOptions::default(), &by()).unwrap();
                    }
                    BranchStatus::Promoted { .. } => assert!(!discard),
                    BranchStatus::Discarded { .. } => assert!(discard),
                    other => panic!("left as {other:?}"),
                }
            },
        );
    }
}

/// The next process built on a name that the medium did not have.
#[test]
fn a_segment_renamed_by_a_killed_process_survives_a_later_power_cut() {
    for stop in 0..40 {
        let disk = SimDisk::new();
        disk.crash_at(stop);
        drop(open(&disk));
        let disk = restart(&disk, Crash::Process);
        let space = open(&disk).unwrap();
        append(&space, "main", "kept").unwrap();
        drop(space);
        for seed in 0..20 {
            let next = disk.copy().restart(Crash::Power, &mut Random::new(seed));
            let space = open(&next).unwrap();
            let page = space.read("main", "s", 0, 10).unwrap();
            assert_eq!(page.length, 1, "stopped at {stop}, seed {seed}");
        }
    }
}

/// Acknowledged but not ordered when the disk failed: a read may not leave it out.
#[test]
fn a_fenced_node_answers_no_read_without_what_it_acknowledged() {
    for skipped in 0..60 {
        let disk = SimDisk::new();
        let space = open(&disk).unwrap();
        disk.enter(Phase::Running);
        disk.fail_sync_after(skipped);
        let mut acknowledged = 0;
        // A checkpoint's own sync may be the one that fails: then nothing else does.
        while acknowledged < 40 {
            if append(&space, "main", &format!("{acknowledged}")).is_err() {
                break;
            }
            acknowledged += 1;
            // Only a checkpoint looks at the disk without waiting for what is unordered.
            if acknowledged % 2 == 0 && space.checkpoint(&by()).is_err() {
                break;
            }
        }
        if let Ok(streams) = space.streams("main") {
            let length = streams.first().map_or(0, |stream| stream.length);
            assert!(length >= acknowledged, "{length} of {acknowledged}");
        }
        drop(space);
        let space = open(&restart(&disk, Crash::Power)).unwrap();
        assert!(space.read("main", "s", 0, 100).unwrap().length >= acknowledged);
    }
}

/// The record was made against derived pages, was ordered, and could be applied by nobody: neither
/// now nor at any later start.
#[test]
fn a_promotion_into_a_frozen_fork_of_a_live_one_lands() {
    let disk = SimDisk::new();
    let space = open(&disk).unwrap();
    sql(&space, "main", "CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT)");
    fork(&space, "main", "live", ForkKind::Live);
    sql(&space, "live", "INSERT INTO t VALUES (1, 'live')");
    fork(&space, "live", "frozen", ForkKind::Frozen);
    fork(&space, "frozen", "child", ForkKind::Frozen);
    sql(&space, "child", "INSERT INTO t VALUES (2, 'child')");
    space.promote("child", &PromoteOptions::default(), &by()).unwrap();
    drop(space);
    let space = open(&restart(&disk, Crash::Power)).unwrap();
    let options = SqlOptions { read_only: true, ..SqlOptions::default() };
    let found = space.sql("frozen", "SELECT count(*) FROM t", &[], &options, &by()).unwrap();
    assert_eq!(found.rows, [[anabranch_sql::Value::Integer(2)]]);
}
