//! The one error body, `application/problem+json` (RFC 9457 with the members that we use).

use std::fmt;

use anabranch_log::{Happened, Kind};
use serde::{Deserialize, Serialize};

use crate::codes;
use crate::http::Preview;

/// Content type of an error body.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// Stable kind of error: a [`Kind::code`].
    pub code: String,
    /// Whether the operation took effect: `yes`, `no` or `unknown`.
    pub happened: String,
    /// For people, lower case.
    pub message: String,
    /// What to do next, in one sentence.
    pub hint: String,
    /// The HTTP status.
    pub status: u16,
    /// Of a refused promotion: what it would have done, with conflicts and failed checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Box<Preview>>,
}

impl Problem {
    /// A problem of this kind with the hint and status that belong to it.
    #[must_use]
    pub fn new(kind: Kind, happened: Happened, message: impl Into<String>) -> Problem {
        Problem {
            code: kind.code().to_owned(),
            happened: happened.as_str().to_owned(),
            message: message.into(),
            hint: kind.hint().to_owned(),
            status: codes::status(kind),
            preview: None,
        }
    }

    /// A request that can never work as it stands; nothing happened.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Problem {
        Problem::new(Kind::InvalidArgument, Happened::No, message)
    }

    /// The same problem with another status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Problem {
        self.status = status;
        self
    }

    /// The same problem with a more specific hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = hint.into();
        self
    }

    /// The kind; a code from a newer server counts as [`Kind::Internal`].
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::from_code(&self.code).unwrap_or(Kind::Internal)
    }

    /// Whether it took effect; a text that is not known counts as unknown.
    #[must_use]
    pub fn outcome(&self) -> Happened {
        match self.happened.as_str() {
            "yes" => Happened::Yes,
            "no" => Happened::No,
            _ => Happened::Unknown,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        let problem = Problem::new(Kind::UnknownBranch, Happened::No, "no branch `x`");
        let text = serde_json::to_string(&problem).unwrap();
        assert_eq!(
            text,
            r#"{"code":"unknown_branch","happened":"no","message":"no branch `x`","#.to_owned()
                + &format!(r#""hint":"{}","status":404}}"#, Kind::UnknownBranch.hint())
        );
        let read: Problem = serde_json::from_str(&text).unwrap();
        assert_eq!((read.kind(), read.outcome()), (Kind::UnknownBranch, Happened::No));
    }

    #[test]
    fn what_is_not_known_is_treated_with_care() {
        let mut problem = Problem::invalid("x");
        problem.code = "from_the_future".to_owned();
        problem.happened = "perhaps".to_owned();
        assert_eq!((problem.kind(), problem.outcome()), (Kind::Internal, Happened::Unknown));
    }
}
