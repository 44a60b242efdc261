//! What a run did and found, as text.

use std::collections::BTreeMap;
use std::fmt;

/// What happened in one world or in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Power cuts.
    pub power_cuts: u64,
    /// Deaths of the process alone.
    pub kills: u64,
    /// How many of both came while the space was recovering.
    pub interrupted_recoveries: u64,
    /// Times the space was opened in peace and compared completely.
    pub checks: u64,
    /// Openings that were refused because of a damaged tail, then told to accept the loss.
    pub damaged_tails: u64,
    /// Calls by kind.
    pub operations: BTreeMap<&'static str, u64>,
    /// Calls that were acknowledged.
    pub acknowledged: u64,
    /// Calls that were refused, and did not happen.
    pub refused: u64,
    /// Calls in flight at a crash that turned out to have happened.
    pub unknown_happened: u64,
    /// Calls in flight at a crash that turned out not to have happened.
    pub unknown_lost: u64,
    /// Calls sent again under their session number after a crash.
    pub retries: u64,
    /// Forks that expired.
    pub expired: u64,
    /// Failed fsyncs.
    pub failed_syncs: u64,
    /// Operations refused by the full disk.
    pub refused_growth: u64,
}

impl Counts {
    pub(crate) fn operation(&mut self, name: &'static str) {
        *self.operations.entry(name).or_default() += 1;
    }

    /// Crashes of both kinds.
    #[must_use]
    pub fn crashes(&self) -> u64 {
        self.power_cuts + self.kills
    }

    pub(crate) fn add(&mut self, other: &Counts) {
        self.power_cuts += other.power_cuts;
        self.kills += other.kills;
        self.interrupted_recoveries += other.interrupted_recoveries;
        self.checks += other.checks;
        self.damaged_tails += other.damaged_tails;
        for (name, count) in &other.operations {
            *self.operations.entry(name).or_default() += count;
        }
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.unknown_happened += other.unknown_happened;
        self.unknown_lost += other.unknown_lost;
        self.retries += other.retries;
        self.expired += other.expired;
        self.failed_syncs += other.failed_syncs;
        self.refused_growth += other.refused_growth;
    }
}

/// What broke, and how to see it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Seed of the world alone: a run with it and one crash shows the same.
    pub seed: u64,
    /// What is wrong.
    pub what: String,
    /// The latest steps before it.
    pub log: Vec<String>,
    /// The latest operations of the disk.
    pub disk: Vec<String>,
}

/// What a run did and found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The seed of the run.
    pub seed: u64,
    /// Parameters drawn, one line per world.
    pub drawn: Vec<String>,
    /// What happened.
    pub counts: Counts,
    /// Kinds of sync met, with how often.
    pub sites: BTreeMap<String, u64>,
    /// Hash of every disk operation and every answer: equal for equal seeds.
    pub trace: u64,
    /// The first thing that broke; the run ends there.
    pub violation: Option<Violation>,
}

impl Report {
    /// Whether nothing broke.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.violation.is_none()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        writeln!(f, "seed {}, {} worlds", self.seed, self.drawn.len())?;
        for line in &self.drawn {
            writeln!(f, "  {line}")?;
        }
        writeln!(
            f,
            "{} crashes: {} power cuts, {} kills, {} of them during recovery",
            counts.crashes(),
            counts.power_cuts,
            counts.kills,
            counts.interrupted_recoveries
        )?;
        writeln!(
            f,
            "{} acknowledged, {} refused, {} in flight happened, {} did not; {} sent again",
            counts.acknowledged,
            counts.refused,
            counts.unknown_happened,
            counts.unknown_lost,
            counts.retries
        )?;
        writeln!(
            f,
            "{} complete comparisons, {} damaged tails given up, {} forks expired, {} failed \
             fsyncs, {} times no room",
            counts.checks,
            counts.damaged_tails,
            counts.expired,
            counts.failed_syncs,
            counts.refused_growth
        )?;
        let calls = counts.operations.iter().map(|(name, count)| format!("{name} {count}"));
        writeln!(f, "calls: {}", calls.collect::<Vec<_>>().join(", "))?;
        writeln!(f, "syncs:")?;
        for (site, count) in &self.sites {
            writeln!(f, "  {count:>7}  {site}")?;
        }
        writeln!(f, "trace {:016x}", self.trace)?;
        match &self.violation {
            None => writeln!(f, "every acknowledged write is there, once, in order"),
            Some(violation) => {
                for line in &violation.log {
                    writeln!(f, "    {line}")?;
                }
                for line in &violation.disk {
                    writeln!(f, "        {line}")?;
                }
                writeln!(f, "VIOLATION: {}", violation.what)?;
                writeln!(f, "see it again: anabranch sim --seed {} --crashes 1", violation.seed)
            }
        }
    }
}
