//! Seeded crashes of one node: the real code, on one thread, over a simulated disk.
//!
//! A run is a number of *worlds*; a world is one space that lives through several crashes (see
//! [`world`]). World `i` of a run has the seed `seed + i`, so each can be run alone. The seed
//! decides everything: sizes, workload, where the machine stops, what the disk keeps. Two runs of
//! a seed give the same [`Report::trace`].
//!
//! After each crash, on the space opened in peace:
//! - every branch, stream, key and row is what the twin says, with the one operation in flight
//!   either whole or absent; so every acknowledged write is there, once, in order;
//! - the appends of main's streams pass the judge of [`anabranch_judge::durability`], which shares
//!   no code with the twin;
//! - the history is gapless and holds every hash chain value seen before the crash;
//! - no branch is left between its closing and its end;
//! - [`anabranch_store::verify`] finds nothing worse than a note after the space was closed.
//!
//! Where opening answers that the tail is damaged, the run does what an operator would: it opens
//! again, accepting the loss; the comparison then shows that nothing acknowledged was given up.
//!
//! [`mutants`] shows that each kind of sync the node makes is needed.

mod check;
mod clock;
mod disk;
mod model;
pub mod mutants;
mod operation;
mod random;
mod report;
mod trace;
mod workload;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use clock::SimClock;
pub use disk::site::Phase;
pub use disk::{Crash, SimDisk};
pub use random::Random;
pub use report::{Counts, Report, Violation};
pub use trace::Trace;

use world::World;

/// What to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Decides everything.
    pub seed: u64,
    /// Worlds are run until there were this many crashes; the last one is finished.
    pub crashes: u64,
    /// Kinds of sync that do nothing, by the names that [`Report::sites`] gives them.
    pub ignore: Vec<String>,
}

/// Runs worlds until enough crashes have happened or something broke.
#[must_use]
pub fn run(options: &Options) -> Report {
    let mut report = Report {
        seed: options.seed,
        drawn: Vec::new(),
        counts: Counts::default(),
        sites: std::collections::BTreeMap::new(),
        trace: 0,
        violation: None,
    };
    let mut trace = Trace::default();
    let mut seed = options.seed;
    while report.violation.is_none() && report.counts.crashes() < options.crashes {
        let mut world = World::new(seed, &options.ignore);
        report.drawn.push(world.describe(seed));
        let result = catch_unwind(AssertUnwindSafe(|| world.run()))
            .unwrap_or_else(|panic| Err(format!("panic: {}", message(panic.as_ref()))));
        report.counts.add(&world.counts);
        let (failed_syncs, refused_growth) = world.disk.faults();
        report.counts.failed_syncs += failed_syncs;
        report.counts.refused_growth += refused_growth;
        for (site, count) in world.disk.sites() {
            *report.sites.entry(site).or_default() += count;
        }
        trace.number(world.trace.value());
        if let Err(what) = result {
            report.violation =
                Some(Violation { seed, what, log: world.log, disk: world.disk.recent() });
        }
        seed = seed.wrapping_add(1);
    }
    report.trace = trace.value();
    report
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
