//! Exit codes, as documented in `docs/cli.md`.

use std::process::ExitCode;

use anabranch_api::Problem;
use anabranch_log::{Happened, Kind};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: done. Also when the reader of the output went away.
    Done,
    /// 1: the answer is no: a condition failed, a check found rows, bytes are damaged.
    No,
    /// 2: the command line, the input or the request is wrong.
    Usage,
    /// 3: unavailable; nothing happened.
    Unavailable,
    /// 4: it cannot be told whether it happened.
    Unknown,
}

impl Exit {
    /// The exit code that belongs to an error.
    pub(crate) fn of(problem: &Problem) -> Exit {
        if problem.outcome() == Happened::Unknown {
            return Exit::Unknown;
        }
        match problem.kind() {
            Kind::InvalidArgument | Kind::TooLarge => Exit::Usage,
            Kind::Unavailable
            | Kind::TooMany
            | Kind::Held
            | Kind::BranchClosing
            | Kind::Locked
            | Kind::Poisoned
            | Kind::DiskFull
            | Kind::Timeout => Exit::Unavailable,
            Kind::UnknownOutcome | Kind::SessionExpired => Exit::Unknown,
            _ => Exit::No,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::No => 1,
            Exit::Usage => 2,
            Exit::Unavailable => 3,
            Exit::Unknown => 4,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_follow_what_the_caller_should_do() {
        for (kind, happened, exit) in [
            (Kind::Conflict, Happened::No, Exit::No),
            (Kind::Corrupt, Happened::No, Exit::No),
            (Kind::InvalidArgument, Happened::No, Exit::Usage),
            (Kind::Unavailable, Happened::No, Exit::Unavailable),
            (Kind::Locked, Happened::No, Exit::Unavailable),
            (Kind::Unavailable, Happened::Unknown, Exit::Unknown),
            (Kind::BranchClosed, Happened::Unknown, Exit::Unknown),
        ] {
            assert_eq!(Exit::of(&Problem::new(kind, happened, "x")), exit, "{kind} {happened}");
        }
    }
}
