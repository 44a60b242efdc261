//! The one error of the client.

use std::fmt;

use anabranch_api::Problem;
use anabranch_api::http::Preview;
use anabranch_log::{Happened, Kind};

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// Stable kind.
    pub kind: Kind,
    /// Whether the operation took effect.
    pub happened: Happened,
    /// For people, lower case.
    pub message: String,
    /// What to do next.
    pub hint: String,
    /// Of a refused promotion: what it would have done, with conflicts and failed checks.
    pub preview: Option<Box<Preview>>,
}

impl Error {
    pub(crate) fn new(kind: Kind, happened: Happened, message: impl Into<String>) -> Error {
        Error {
            kind,
            happened,
            message: message.into(),
            hint: kind.hint().to_owned(),
            preview: None,
        }
    }

    /// A request that can never work as it stands.
    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(Kind::InvalidArgument, Happened::No, message)
    }

    /// The error body that a server would send for this.
    #[must_use]
    pub fn to_problem(&self) -> Problem {
        let problem = Problem::new(self.kind, self.happened, self.message.clone());
        Problem { preview: self.preview.clone(), ..problem.with_hint(self.hint.clone()) }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Error {
        Error {
            kind: problem.kind(),
            happened: problem.outcome(),
            message: problem.message,
            hint: problem.hint,
            preview: problem.preview,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
