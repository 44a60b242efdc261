//! Measured programs: what things cost, beside what they are compared with.
//!
//! Not tests: nothing here passes or fails by time. Every program runs its variants in turn, round
//! after round, so that a slow minute of the machine hits all of them; it prints the median of the
//! rounds and the range they spanned, and the environment they ran in. Loops are closed: a writer
//! sends the next write when it has the answer to the last.
//!
//! All variants that write wait for the same kind of durability (`fdatasync`), unless the row says
//! otherwise.

mod baseline;
mod disk;
mod environment;
mod forks;
mod load;
mod promotes;
mod report;
mod stats;
mod transactions;
mod writes;

use std::fmt;
use std::path::PathBuf;

pub use environment::Environment;
pub use report::{Report, Table};

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to put data: a directory on the disk that is to be measured. Programs make (and
    /// remove) directories of their own in it.
    pub dir: PathBuf,
    /// Rounds, at least 5 for numbers to be shown.
    pub rounds: u32,
    /// Share of the full size, from 1 (full) to 1000: divides counts and durations. Anything but 1
    /// is for trying the program, and the report says so.
    pub divisor: u64,
}

/// Why there are no numbers.
#[derive(Debug)]
pub enum Error {
    /// There is no such program.
    UnknownName {
        /// What was asked for.
        name: String,
    },
    /// The space answered an error.
    Space(anabranch_node::Error),
    /// SQLite, as a baseline, answered an error.
    Sqlite(rusqlite::Error),
    /// A file could not be used.
    Io(std::io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::UnknownName { name } => {
                let names: Vec<_> = PROGRAMS.iter().map(|program| program.0).collect();
                write!(f, "no such benchmark, name=`{name}`; there are {}", names.join(", "))
            }
            Error::Space(_) => f.write_str("the space answered an error"),
            Error::Sqlite(_) => f.write_str("the baseline answered an error"),
            Error::Io(_) => f.write_str("a file could not be used"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::UnknownName { .. } => None,
            Error::Space(error) => Some(error),
            Error::Sqlite(error) => Some(error),
            Error::Io(error) => Some(error),
        }
    }
}

impl From<anabranch_node::Error> for Error {
    fn from(error: anabranch_node::Error) -> Error {
        Error::Space(error)
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Error {
        Error::Sqlite(error)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::Io(error)
    }
}

type Program = fn(&Options) -> Result<Vec<Table>, Error>;

/// Every program: name, what it measures, and itself.
const PROGRAMS: &[(&str, &str, Program)] = &[
    ("fork", "durable fork and its in-memory part, by number of forks and data", forks::cost),
    ("memory-frozen", "memory per idle frozen fork", forks::memory_frozen),
    ("memory-live", "memory per idle live fork", forks::memory_live),
    ("parent", "appends to a parent with and without live forks", forks::parent),
    ("writer", "one writer against SQLite and a bare fdatasync loop", writes::one),
    ("writers", "64 writers against a bare group-commit loop", writes::many),
    ("promote", "1 000 changed rows into a table of 1 000 000", promotes::promote),
    ("transaction", "commits beside a transaction held open", transactions::open),
];

/// Names of the programs, with what they measure.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    PROGRAMS.iter().map(|(name, what, _)| (*name, *what))
}

/// Runs one program.
pub fn run(name: &str, options: &Options) -> Result<Report, Error> {
    let found = PROGRAMS.iter().find(|program| program.0 == name);
    let (name, what, program) =
        *found.ok_or_else(|| Error::UnknownName { name: name.to_owned() })?;
    let environment = Environment::of(&options.dir);
    let tables = program(options)?;
    Ok(Report {
        name: name.to_owned(),
        what: what.to_owned(),
        rounds: options.rounds,
        divisor: options.divisor,
        environment,
        tables,
    })
}
