//! Why a demo ended early. Every error says which step failed.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::data::Malformed;

/// Why a demo has no story to tell.
#[derive(Debug)]
pub(crate) enum DemoError {
    /// The directory exists and is not empty: the demo touches nothing that it did not make.
    DirectoryInUse(PathBuf),
    /// The directory cannot be made or read.
    Directory(PathBuf, io::Error),
    /// `days` or `rate` is out of bounds.
    Options(&'static str),
    /// The space refused something that should have worked.
    Space {
        /// The step, as in "cannot ‹doing›".
        doing: String,
        /// What the space said.
        source: anabranch_node::Error,
    },
    /// Something the demo promises was not so.
    Expectation {
        /// What should hold.
        expected: String,
        /// What was read back.
        found: String,
    },
    /// The extract inside this program is damaged.
    Extract(String),
    /// The text cannot be written.
    Output(io::Error),
    /// No thread can be started.
    Thread(io::Error),
    /// A thread of the demo panicked.
    Panicked(&'static str),
}

impl DemoError {
    /// What to do next.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            DemoError::DirectoryInUse(_) => "name a directory that does not exist yet",
            DemoError::Directory(..) => "name a directory on a disk that you can write to",
            DemoError::Options(_) => "see `anabranch demo --help` for the bounds",
            DemoError::Space { source, .. } => source.hint(),
            DemoError::Extract(_) => "build again from a clean checkout",
            DemoError::Thread(_) => "close other programs, then run it again",
            DemoError::Output(_) => "look at what reads this program's output",
            DemoError::Expectation { .. } | DemoError::Panicked(_) => {
                "this is a defect: the directory is kept, please report it with this message"
            }
        }
    }
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DemoError::DirectoryInUse(path) => {
                write!(f, "the directory is not empty, path=`{}`", path.display())
            }
            DemoError::Directory(path, _) => {
                write!(f, "the directory cannot be used, path=`{}`", path.display())
            }
            DemoError::Options(what) => f.write_str(what),
            DemoError::Space { doing, .. } => write!(f, "cannot {doing}"),
            DemoError::Expectation { expected, found } => {
                write!(f, "the demo expected that {expected}, found=`{found}`")
            }
            DemoError::Extract(what) => write!(f, "the extract in this program: {what}"),
            DemoError::Output(_) => f.write_str("the output cannot be written"),
            DemoError::Thread(_) => f.write_str("no thread can be started"),
            DemoError::Panicked(who) => write!(f, "a thread of the demo panicked, thread=`{who}`"),
        }
    }
}

impl std::error::Error for DemoError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            DemoError::Space { source, .. } => Some(source),
            DemoError::Directory(_, error)
            | DemoError::Output(error)
            | DemoError::Thread(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Malformed> for DemoError {
    fn from(malformed: Malformed) -> DemoError {
        DemoError::Extract(malformed.to_string())
    }
}

/// Names the step in which the space refused.
pub(crate) trait Doing<T> {
    /// `what` completes "cannot …".
    fn doing(self, what: impl Into<String>) -> Result<T, DemoError>;
}

impl<T> Doing<T> for anabranch_node::Result<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, DemoError> {
        self.map_err(|source| DemoError::Space { doing: what.into(), source })
    }
}

/// Fails unless `holds`; `expected` completes "the demo expected that …".
pub(crate) fn expect(
    holds: bool,
    expected: impl Into<String>,
    found: impl fmt::Display,
) -> Result<(), DemoError> {
    if holds {
        return Ok(());
    }
    Err(DemoError::Expectation { expected: expected.into(), found: found.to_string() })
}

/// Fails unless what was read back is what was expected.
pub(crate) fn expect_equal<T: PartialEq + fmt::Debug>(
    what: &str,
    found: &T,
    expected: &T,
) -> Result<(), DemoError> {
    expect(found == expected, format!("{what} is {expected:?}"), format!("{found:?}"))
}
