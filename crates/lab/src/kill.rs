//! `kill -9` at random moments of a real process on a real directory, under a mixed load.
//!
//! The child ([`child`]) runs the load on several threads and tells every call before it begins
//! and after it was acknowledged, one line each, through a pipe: so the order of the lines is
//! consistent with real time. The parent kills it, opens the directory itself, and compares.
//!
//! It complements [`crate::sim`]: here are real threads, real files and the real scheduler, but the
//! page cache survives, so a missing fsync goes unnoticed.

mod check;
mod load;

use std::fmt;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anabranch_node::{Options as SpaceOptions, Space};

pub use load::child;

use crate::sim::Random;
use check::Ledger;

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// A program and its arguments that call [`child`] with the directory and the number of the
    /// life, given as the environment variables [`DIR`] and [`LIFE`].
    pub program: Vec<String>,
    /// An empty directory.
    pub dir: PathBuf,
    /// How many times to kill.
    pub kills: u64,
    /// Decides when.
    pub seed: u64,
}

/// Names the directory to the child.
pub const DIR: &str = "ANABRANCH_KILL_DIR";
/// Tells the child how many lives there were before.
pub const LIFE: &str = "ANABRANCH_KILL_LIFE";

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Kills.
    pub kills: u64,
    /// Calls begun.
    pub tried: u64,
    /// Calls acknowledged.
    pub acknowledged: u64,
    /// Calls begun, not acknowledged, and found to have happened.
    pub unknown_happened: u64,
    /// Records in the stream at the end.
    pub records: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} kills; {} calls, {} acknowledged, {} unanswered ones happened; {} records\n\
             every acknowledged write is there, once, in order",
            self.kills, self.tried, self.acknowledged, self.unknown_happened, self.records
        )
    }
}

pub(crate) fn space_options() -> SpaceOptions {
    SpaceOptions {
        name: Some("kill".to_owned()),
        segment_bytes: 256 << 10,
        checkpoint_bytes: 512 << 10,
        cache_bytes: 1 << 20,
        ..SpaceOptions::default()
    }
}

/// Runs the loop; an error is a violation, in words.
pub fn run(options: &Options) -> Result<Report, String> {
    let mut random = Random::new(options.seed);
    let mut ledger = Ledger::default();
    for life in 0..options.kills {
        let alive = Duration::from_millis(random.between(1, 250));
        let lines = one_life(options, life, alive)
            .map_err(|error| format!("life {life}: the child cannot be run: {error}"))?;
        let told = ledger.told(&lines);
        told.and_then(|()| compare(&options.dir, &mut ledger))
            .map_err(|difference| format!("life {life} (seed {}): {difference}", options.seed))?;
    }
    Ok(ledger.report(options.kills))
}

/// Starts the child, kills it a while after its first acknowledgement, and returns what it told.
fn one_life(options: &Options, life: u64, alive: Duration) -> io::Result<Vec<String>> {
    let (program, arguments) = options.program.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut child = Command::new(program)
        .args(arguments)
        .env(DIR, &options.dir)
        .env(LIFE, life.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let pipe = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let (begun, begins) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut lines = Vec::new();
        // A line cut by the kill is no line.
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&line).into_owned();
            if text.starts_with("ack ") {
                // Nobody listens any more after the first.
                let _ = begun.send(());
            }
            lines.push(text);
        }
        lines
    });
    let started = begins.recv_timeout(Duration::from_mins(1));
    if started.is_ok() {
        std::thread::sleep(alive);
    }
    child.kill()?;
    child.wait()?;
    let lines = reader.join().map_err(|_| io::Error::other("the reader of the pipe panicked"))?;
    if started.is_err() {
        let last = lines.last().cloned().unwrap_or_default();
        return Err(io::Error::other(format!("no acknowledgement within a minute; last: {last}")));
    }
    Ok(lines)
}

fn compare(dir: &Path, ledger: &mut Ledger) -> Result<(), String> {
    let options = SpaceOptions { background: false, create: false, ..space_options() };
    let space = Space::open(dir, options).map_err(|error| format!("it does not open: {error}"))?;
    ledger.compare(&space)?;
    drop(space);
    let disk = anabranch_store::FileDisk::open(dir).map_err(|error| error.to_string())?;
    let report = anabranch_store::verify(&disk).map_err(|error| error.to_string())?;
    match report.findings.iter().find(|found| found.severity != anabranch_store::Severity::Note) {
        Some(finding) => Err(format!("verify: {finding:?}")),
        None => Ok(()),
    }
}
