//! Why a command did not do what it was asked.

use std::io;
use std::path::Path;

use anabranch_api::Problem;
use anabranch_log::{Happened, Kind};

/// The error of every command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reader of our output went away: nothing to complain about.
    Pipe,
    /// Everything else, in the form that a server uses too.
    Problem(Box<Problem>),
}

/// What a command returns.
pub(crate) type Outcome<T = crate::exit::Exit> = Result<T, Failure>;

impl Failure {
    /// A wrong command line or input.
    pub(crate) fn usage(message: impl Into<String>, hint: &str) -> Failure {
        Failure::Problem(Box::new(Problem::invalid(message).with_hint(hint)))
    }

    /// A file that cannot be read or written.
    pub(crate) fn file(path: &Path, error: &io::Error) -> Failure {
        let kind = match error.kind() {
            io::ErrorKind::StorageFull => Kind::DiskFull,
            _ => Kind::InvalidArgument,
        };
        let message = format!("{}: {error}", path.display());
        let problem = Problem::new(kind, Happened::No, message);
        Failure::Problem(Box::new(problem.with_hint("check the path and its permissions")))
    }

    /// Something of this machine that failed before anything happened.
    pub(crate) fn local(kind: Kind, message: impl Into<String>) -> Failure {
        Failure::Problem(Box::new(Problem::new(kind, Happened::No, message)))
    }

    /// The same failure with another hint.
    pub(crate) fn hinting(self, hint: &str) -> Failure {
        match self {
            Failure::Pipe => Failure::Pipe,
            Failure::Problem(problem) => Failure::Problem(Box::new(problem.with_hint(hint))),
        }
    }
}

impl From<anabranch_client::Error> for Failure {
    fn from(error: anabranch_client::Error) -> Failure {
        Failure::Problem(Box::new(error.to_problem()))
    }
}

impl From<anabranch_node::Error> for Failure {
    fn from(error: anabranch_node::Error) -> Failure {
        let mut message = error.message.clone();
        let source = std::error::Error::source(&error).map(ToString::to_string);
        if let Some(source) = source.filter(|source| !message.contains(source.as_str())) {
            message = format!("{message}: {source}");
        }
        Failure::Problem(Box::new(Problem::new(error.kind, error.happened, message)))
    }
}

/// Of writing to stdout.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::Pipe;
        }
        Failure::local(Kind::Unavailable, format!("cannot write the output: {error}"))
    }
}
