//! The public vocabulary of answers: did it happen, and which of the few kinds of error is it.
//!
//! A kind exists only if a caller acts differently on it. The text of [`Kind::code`] is stable:
//! it is what HTTP, the CLI and the documentation call the error.

use std::fmt;

/// Whether the operation that failed took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Happened {
    /// It did.
    Yes,
    /// It did not and never will.
    No,
    /// It cannot be told; it may still take effect.
    Unknown,
}

impl Happened {
    /// `yes`, `no` or `unknown`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Happened::Yes => "yes",
            Happened::No => "no",
            Happened::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $code:literal $hint:literal,)*) => {
        /// The kinds of error of the whole product.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[$doc])* $name,)*
        }

        impl Kind {
            /// Every kind, in the order of declaration.
            pub const ALL: &'static [Kind] = &[$(Kind::$name,)*];

            /// The stable name, in snake case.
            #[must_use]
            pub fn code(self) -> &'static str {
                match self {
                    $(Kind::$name => $code,)*
                }
            }

            /// What to do next, in one sentence.
            #[must_use]
            pub fn hint(self) -> &'static str {
                match self {
                    $(Kind::$name => $hint,)*
                }
            }
        }
    };
}

kinds! {
    /// No branch ever had this name or number.
    UnknownBranch "unknown_branch" "check the name; `branches` lists all",
    /// The branch was promoted, discarded or expired.
    BranchClosed "branch_closed"
        "the message says where its writes went; write to that branch or make a new fork",
    /// A promotion or discard of the branch is being decided.
    BranchClosing "branch_closing" "wait for the promotion or discard to end, then try again",
    /// The name is in use.
    NameTaken "name_taken" "choose another name, or close what holds it",
    /// The request can never work as it stands.
    InvalidArgument "invalid_argument" "correct the request; the same one will always be refused",
    /// Something exceeds its size limit.
    TooLarge "too_large" "split the request or make it smaller",
    /// Both sides changed the same key or row.
    Conflict "conflict"
        "look at `diff`, then settle with a policy (fork or parent) or change the branch",
    /// A check of the target returned rows.
    CheckFailed "check_failed" "repair what the check lists on the branch, then promote again",
    /// The view's length is not the expected offset.
    OffsetMismatch "offset_mismatch" "read the stream's end and try again with its length",
    /// The newest version of the key is not the expected one.
    VersionMismatch "version_mismatch" "get the key and try again with its version",
    /// The value is no decimal number, or the sum leaves 64 bits.
    NotANumber "not_a_number" "set the key to a decimal number first",
    /// The tables changed since the statement or candidate was computed.
    TablesMoved "tables_moved" "run it again on the tables as they are now",
    /// The tables at that position are no longer kept.
    RootGone "root_gone" "fork at a position within the range in the message",
    /// The session was closed.
    SessionExpired "session_expired"
        "open a new session; read the state to learn whether the write took effect",
    /// A limit on a number of things is reached.
    TooMany "too_many" "close or discard what is no longer needed, or wait and try again",
    /// A hold keeps this stream's end undecided.
    Held "held" "wait until the holding fork is promoted or released",
    /// The heads moved since the preview or the closing.
    StaleToken "stale_token" "preview again and review what changed",
    /// The space cannot serve now.
    Unavailable "unavailable" "try again later; nothing was done",
    /// Stored bytes are damaged and no intact copy is reachable.
    Corrupt "corrupt" "run `verify`; restore the named file from a replica or a backup",
    /// No room left on the disk.
    DiskFull "disk_full" "free space on the disk, then restart the node",
    /// Another process has the space open.
    Locked "locked" "stop the other process or talk to it over its address",
    /// A write to the disk failed; the node no longer trusts it.
    Poisoned "poisoned" "restart the node; it reads back what is durable",
    /// SQLite refused the statement.
    Sql "sql" "correct the statement; the message is SQLite's",
    /// The time allowed ran out before the operation could take effect.
    Timeout "timeout" "allow more time or do less in one request",
    /// The answer was lost: it may or may not have taken effect.
    UnknownOutcome "unknown_outcome"
        "retry with the same session and sequence number, or read the state",
    /// A defect in this program.
    Internal "internal" "report it with the message and the log",
}

impl Kind {
    /// The kind with this code.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| kind.code() == code)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_snake_case_and_read_back() {
        for (i, kind) in Kind::ALL.iter().enumerate() {
            let code = kind.code();
            assert!(code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{code}");
            assert_eq!(Kind::from_code(code), Some(*kind));
            assert!(Kind::ALL[..i].iter().all(|other| other.code() != code), "{code} twice");
            assert!(!kind.hint().is_empty() && !kind.hint().ends_with('.'), "{code}");
        }
        assert_eq!(Kind::from_code("nonsense"), None);
    }
}
