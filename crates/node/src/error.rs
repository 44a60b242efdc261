//! The one error of the embedded API: what happened, whether the operation happened, what next.

use std::fmt;

use anabranch_log::{Happened, Kind, Refusal};
use anabranch_sql::{SqlError, SqlErrorKind};

use crate::view::Preview;

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation has no result.
///
/// `kind` is stable and machine readable; `happened` answers the one question of a caller of a
/// durable store; `message` is for people.
#[derive(Debug)]
pub struct Error {
    /// Stable kind.
    pub kind: Kind,
    /// Whether the operation took effect.
    pub happened: Happened,
    /// For people, lower case, without the source's text.
    pub message: String,
    /// Of a refused promotion: what it would have done, with conflicts and failed checks.
    pub preview: Option<Box<Preview>>,
    /// The cause, if there is one below.
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An operation that did not happen.
    pub(crate) fn no(kind: Kind, message: impl Into<String>) -> Error {
        Error { kind, happened: Happened::No, message: message.into(), preview: None, source: None }
    }

    /// An operation whose outcome is not known.
    pub(crate) fn unknown(kind: Kind, message: impl Into<String>) -> Error {
        Error {
            kind,
            happened: Happened::Unknown,
            message: message.into(),
            preview: None,
            source: None,
        }
    }

    pub(crate) fn because(
        mut self,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Error {
        self.source = Some(Box::new(source));
        self
    }

    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        self.kind.hint()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|s| &**s as _)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        Error {
            kind: refusal.kind(),
            happened: refusal.happened(),
            message: refusal.to_string(),
            preview: None,
            source: None,
        }
    }
}

impl From<SqlError> for Error {
    fn from(error: SqlError) -> Error {
        let kind = match error.kind {
            SqlErrorKind::Statement
            | SqlErrorKind::Constraint
            | SqlErrorKind::Refused
            | SqlErrorKind::ReadOnly
            | SqlErrorKind::InvalidText
            | SqlErrorKind::Aborted => Kind::Sql,
            SqlErrorKind::Parameters => Kind::InvalidArgument,
            SqlErrorKind::Timeout | SqlErrorKind::Cancelled => Kind::Timeout,
            SqlErrorKind::TooLarge => Kind::TooLarge,
            SqlErrorKind::Full => Kind::DiskFull,
            SqlErrorKind::Unavailable => Kind::Unavailable,
            SqlErrorKind::Corrupt => Kind::Corrupt,
            SqlErrorKind::Internal => Kind::Internal,
        };
        Error::no(kind, error.to_string())
    }
}
