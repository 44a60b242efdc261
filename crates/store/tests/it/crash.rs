//! A crash at any operation of a whole life (creation, appends, checkpoints, removals) never
//! prevents opening, and loses nothing acknowledged.

use std::sync::Arc;

use anabranch_store::disk::{CrashKeeps, Disk};
use anabranch_store::{MemoryDisk, OpenError, Ordinal, Severity, WriteError, verify};

use crate::fixture::{self, append, checkpoint_now, flush, frame, payload};

/// What was acknowledged before the crash.
#[derive(Default)]
struct Done {
    created: bool,
    payloads: u64,
    /// (payloads, frames) in the newest durable checkpoint.
    checkpointed: u64,
}

fn live(disk: &Arc<dyn Disk>, done: &mut Done) -> Result<(), WriteError> {
    let failed = |_| WriteError::from(anabranch_store::Poisoned);
    fixture::create(disk).map_err(failed)?;
    done.created = true;
    let mut seq = 0;
    for _ in 0..3 {
        // A restart between two checkpoints.
        let mut space = fixture::open(disk, false).map_err(failed)?;
        for _ in 0..12 {
            seq += 1;
            append(&mut space.journal, &payload(seq))?;
            flush(&mut space.journal)?;
            done.payloads = seq;
            space.chunks.put(&fixture::chunk(seq))?;
            let frame = frame(space.history.next(), space.history.chain(), seq);
            space.history.append(&frame)?;
        }
        checkpoint_now(disk, &space)?;
        done.checkpointed = seq;
        space.journal.remove_segments_before(Ordinal(1))?;
        space.chunks.remove_retired(&space.chunks.mark())?;
    }
    Ok(())
}

#[test]
fn a_crash_at_any_operation_of_a_whole_life() {
    let count = {
        let memory = MemoryDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(memory.clone());
        live(&disk, &mut Done::default()).unwrap();
        memory.changes()
    };
    assert!(count > 150);
    for step in 0..count {
        for seed in 0..4 {
            let memory = MemoryDisk::new();
            let disk: Arc<dyn Disk> = Arc::new(memory.clone());
            memory.fail_after(step);
            let mut done = Done::default();
            assert!(live(&disk, &mut done).is_err());
            let keeps = if seed == 0 { CrashKeeps::Synced } else { CrashKeeps::Some(seed) };
            let memory = memory.after_crash(keeps);
            let disk: Arc<dyn Disk> = Arc::new(memory.clone());
            if done.created {
                let report = verify(&memory).unwrap();
                let doubtful = fixture::open(&disk, false).is_err();
                assert!(
                    doubtful || report.worst() != Some(Severity::Damage),
                    "{:?}",
                    report.findings
                );
            }
            let space = match fixture::open(&disk, false) {
                Err(OpenError::Missing { .. }) => {
                    assert!(!done.created);
                    fixture::create(&disk).unwrap();
                    fixture::open(&disk, false).unwrap()
                }
                Err(OpenError::DamagedTail { .. }) => fixture::open(&disk, true).unwrap(),
                opened => opened.unwrap_or_else(|error| panic!("step {step} seed {seed}: {error}")),
            };
            assert!(space.seqs.len() as u64 >= done.payloads, "step {step} seed {seed}");
            assert_eq!(space.seqs, (1..=space.seqs.len() as u64).collect::<Vec<_>>());
            let frames = space.history.iter(anabranch_store::Index(1)).map(Result::unwrap).count();
            assert!(frames as u64 + 1 >= done.checkpointed, "step {step} seed {seed}");
            drop(space);
            let report = verify(&memory).unwrap();
            assert!(report.clean(), "after opening: {:?}", report.findings);
        }
    }
}
