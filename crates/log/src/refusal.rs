//! Why an operation was refused: typed, bounded, and always clear about whether it happened.

use std::fmt;

use crate::{
    BranchId, BranchName, Happened, Index, Key, Kind, Offset, SessionId, StreamName, TableVersion,
};

/// What a limit or an argument rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the thing its name says; Display spells it out")]
pub enum Field {
    BranchName,
    StreamName,
    Key,
    Record,
    Value,
    Batch,
    BatchBytes,
    Actor,
    Intent,
    Owner,
    CheckName,
    CheckSql,
    Summary,
    Body,
    LeaveOut,
    Overwrite,
    Conflicts,
}

impl Field {
    /// What is limited, and in which unit.
    fn text(self) -> (&'static str, &'static str) {
        match self {
            Field::BranchName => ("branch name", "bytes"),
            Field::StreamName => ("stream name", "bytes"),
            Field::Key => ("key", "bytes"),
            Field::Record => ("record", "bytes"),
            Field::Value => ("value", "bytes"),
            Field::Batch => ("append", "records"),
            Field::BatchBytes => ("append", "bytes"),
            Field::Actor => ("actor", "bytes"),
            Field::Intent => ("intent", "bytes"),
            Field::Owner => ("owner", "bytes"),
            Field::CheckName => ("check name", "bytes"),
            Field::CheckSql => ("check query", "bytes"),
            Field::Summary => ("summary", "bytes"),
            Field::Body => ("table change", "bytes"),
            Field::LeaveOut => ("list of keys to leave out", "keys"),
            Field::Overwrite => ("list of keys to overwrite", "keys"),
            Field::Conflicts => ("list of conflicting keys", "keys"),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().0)
    }
}

/// A request that can never work as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// Something that must not be empty is.
    Empty(Field),
    /// A name with a character outside the alphabet.
    Characters(Field),
    /// A sequence number that its own entry calls answered.
    SeqAnswered,
    /// A session number that was never given.
    SessionNeverGiven,
    /// A TTL of zero.
    TtlZero,
    /// A live fork with a position.
    LiveForkAt,
    /// A fork at a position before the branch began or after the present.
    ForkPosition {
        /// First position allowed.
        oldest: Index,
        /// Last position allowed.
        newest: Index,
    },
    /// The root can be neither promoted nor discarded.
    Main,
    /// A branch cannot be promoted into itself or a fork of its own.
    TargetWithin,
    /// A commit names a parent version although the branch is no live fork, or lacks it on one.
    ParentVersion,
    /// Pages of a fork can be taken only from a frozen fork, and not by a live one.
    TakeFork,
    /// There is no check of that name.
    UnknownCheck,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::Empty(field) => write!(f, "{field} is empty"),
            Invalid::Characters(field) => write!(
                f,
                "{field} has a character that is not allowed: letters, digits and . _ - / : are, \
                 the first a letter, digit or _"
            ),
            Invalid::SeqAnswered => {
                f.write_str("sequence number is not above the answered low-water mark")
            }
            Invalid::SessionNeverGiven => f.write_str("session was never opened"),
            Invalid::TtlZero => f.write_str("ttl is zero"),
            Invalid::LiveForkAt => f.write_str("a live fork cannot be made at a past position"),
            Invalid::ForkPosition { oldest, newest } => {
                write!(f, "fork position is outside of {oldest} to {newest}")
            }
            Invalid::Main => f.write_str("main can be neither promoted nor discarded"),
            Invalid::TargetWithin => {
                f.write_str("a branch cannot be promoted into itself or a fork of its own")
            }
            Invalid::ParentVersion => {
                f.write_str("parent table version must be given on live forks and only there")
            }
            Invalid::TakeFork => {
                f.write_str("pages can be taken only from a frozen fork, and not by a live one")
            }
            Invalid::UnknownCheck => f.write_str("no such check on this branch"),
        }
    }
}

/// How a branch ended, and where its own writes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// They became part of another branch.
    Promoted {
        /// The receiver.
        into: BranchId,
        /// Index of the promotion.
        at: Index,
    },
    /// They were dropped.
    Discarded {
        /// Index of the discard.
        at: Index,
    },
    /// They were dropped because the branch's idle time ran out.
    Expired {
        /// Index of the discard.
        at: Index,
    },
}

impl Closed {
    /// Index of the operation that closed the branch.
    #[must_use]
    pub fn at(self) -> Index {
        match self {
            Closed::Promoted { at, .. } | Closed::Discarded { at } | Closed::Expired { at } => at,
        }
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Closed::Promoted { into, at } => write!(f, "promoted into {into} at index {at}"),
            Closed::Discarded { at } => write!(f, "discarded at index {at}"),
            Closed::Expired { at } => write!(f, "expired at index {at}"),
        }
    }
}

/// Why an operation was refused. A refused operation changed nothing, with two exceptions that
/// [`Refusal::happened`] names: then an earlier run of the same write may have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variant's sentence says what its fields hold")]
pub enum Refusal {
    /// No branch ever had this name.
    UnknownBranch { name: BranchName },
    /// No branch has this number.
    UnknownBranchId { branch: BranchId },
    /// The branch is closed; `how` says where its writes went.
    BranchClosed { branch: BranchId, how: Closed },
    /// A promotion, discard or expiry of the branch is being decided.
    BranchClosing { branch: BranchId },
    /// `branch` is open under this name.
    NameTaken { name: BranchName, branch: BranchId },
    /// The branch has a check of this name.
    CheckTaken { branch: BranchId },
    /// The request can never work as it stands.
    Invalid(Invalid),
    /// Something exceeds its limit, in the unit of the field.
    TooLarge { field: Field, size: u64, max: u64 },
    /// `count` keys changed on both sides and are not settled; the first few are listed.
    Conflict { listed: Vec<(StreamName, Key)>, count: u64 },
    /// The view's length is `actual`.
    OffsetMismatch { expected: Offset, actual: Offset },
    /// The newest version is `actual` (`None`: absent or deleted).
    VersionMismatch { expected: Option<Index>, actual: Option<Index> },
    /// The newest value is no decimal number of 64 bits.
    NotANumber { index: Index },
    /// `value + delta` leaves 64 bits.
    NumberOverflow { value: i64, delta: i64 },
    /// A commit ran on `base`, but the tables are at `current`.
    BaseMoved { branch: BranchId, base: TableVersion, current: TableVersion },
    /// A promotion was checked on `expected`, but the target's tables are at `current`.
    TablesMoved { branch: BranchId, expected: TableVersion, current: TableVersion },
    /// Checks of the target changed after the closing began.
    ChecksMoved { branch: BranchId, at: Index },
    /// Tables are kept only for fork positions from `oldest_valid` to `newest_valid`, inclusive.
    TableRootGone { oldest_valid: Index, newest_valid: Index },
    /// The branch is not, or no longer, closing as the operation says.
    NotClosing { branch: BranchId, closing: Index },
    /// An expiry is void: the branch was used at `last_used`.
    UsedSince { branch: BranchId, last_used: Index },
    /// The parent was dropped, so a promotion must name its target.
    NeedsTarget { branch: BranchId, parent: BranchId },
    /// The session was closed. Never executed now, but an earlier run may have been.
    SessionExpired { session: SessionId },
    /// The client called this write answered, so its outcome is forgotten. Never executed now.
    OutcomeForgotten { session: SessionId, seq: u64 },
    /// More writes of the session are unanswered than its window holds.
    WindowFull { session: SessionId },
    /// `count` sessions are open.
    TooManySessions { count: u64 },
    /// `count` branches were made.
    TooManyBranches { count: u64 },
    /// The fork would have `depth` forks between itself and the root.
    TooDeep { depth: u32 },
    /// The branch has own records in `count` streams.
    TooManyStreams { branch: BranchId, count: u64 },
    /// The branch has `count` checks.
    TooManyChecks { branch: BranchId, count: u64 },
}

impl Refusal {
    /// The public kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Refusal::UnknownBranch { .. } | Refusal::UnknownBranchId { .. } => Kind::UnknownBranch,
            Refusal::BranchClosed { .. } => Kind::BranchClosed,
            Refusal::BranchClosing { .. } => Kind::BranchClosing,
            Refusal::NameTaken { .. } | Refusal::CheckTaken { .. } => Kind::NameTaken,
            Refusal::Invalid(_) | Refusal::NeedsTarget { .. } => Kind::InvalidArgument,
            Refusal::TooLarge { .. } => Kind::TooLarge,
            Refusal::Conflict { .. } => Kind::Conflict,
            Refusal::OffsetMismatch { .. } => Kind::OffsetMismatch,
            Refusal::VersionMismatch { .. } => Kind::VersionMismatch,
            Refusal::NotANumber { .. } | Refusal::NumberOverflow { .. } => Kind::NotANumber,
            Refusal::BaseMoved { .. } | Refusal::TablesMoved { .. } => Kind::TablesMoved,
            Refusal::TableRootGone { .. } => Kind::RootGone,
            Refusal::ChecksMoved { .. }
            | Refusal::NotClosing { .. }
            | Refusal::UsedSince { .. } => Kind::StaleToken,
            Refusal::SessionExpired { .. } => Kind::SessionExpired,
            Refusal::OutcomeForgotten { .. } => Kind::UnknownOutcome,
            Refusal::WindowFull { .. }
            | Refusal::TooManySessions { .. }
            | Refusal::TooManyBranches { .. }
            | Refusal::TooDeep { .. }
            | Refusal::TooManyStreams { .. }
            | Refusal::TooManyChecks { .. } => Kind::TooMany,
        }
    }

    /// Whether the write took effect: no, except for a retry whose first outcome is not known any
    /// more.
    #[must_use]
    pub fn happened(&self) -> Happened {
        match self {
            Refusal::SessionExpired { .. } | Refusal::OutcomeForgotten { .. } => Happened::Unknown,
            _ => Happened::No,
        }
    }

    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Refusal::NeedsTarget { .. } => "name the branch to promote onto (`--onto`)",
            Refusal::WindowFull { .. } => "wait for earlier answers of this session",
            Refusal::CheckTaken { .. } => "drop the check first, or choose another name",
            Refusal::TooDeep { .. } => "fork from a branch nearer to main",
            _ => self.kind().hint(),
        }
    }

    /// Whether the refused write leaves its sequence number unused, so that the leader may compute
    /// it anew and try again under the same number, with the next `attempt`.
    ///
    /// Safe because what moved only ever moves on: a late copy of the refused attempt is refused
    /// for ever, or hears the outcome of the attempt that landed.
    #[must_use]
    pub fn leaves_seq_unused(&self) -> bool {
        matches!(
            self,
            Refusal::BaseMoved { .. } | Refusal::TablesMoved { .. } | Refusal::ChecksMoved { .. }
        )
    }

    pub(crate) fn check_size(field: Field, size: usize, max: usize) -> Result<(), Refusal> {
        if size <= max {
            Ok(())
        } else {
            Err(Refusal::TooLarge { field, size: size as u64, max: max as u64 })
        }
    }
}

/// Shows an optional index as a version.
struct Version(Option<Index>);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(index) => index.fmt(f),
            None => f.write_str("absent"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::UnknownBranch { name } => write!(f, "no branch of that name, name=`{name}`"),
            Refusal::UnknownBranchId { branch } => {
                write!(f, "no branch of that number, branch=`{branch}`")
            }
            Refusal::BranchClosed { branch, how } => write!(f, "{branch} was {how}"),
            Refusal::BranchClosing { branch } => write!(f, "{branch} is being closed"),
            Refusal::NameTaken { name, branch } => {
                write!(f, "name is in use by {branch}, name=`{name}`")
            }
            Refusal::CheckTaken { branch } => write!(f, "{branch} has a check of that name"),
            Refusal::Invalid(invalid) => invalid.fmt(f),
            Refusal::TooLarge { field, size, max } => {
                write!(f, "{field} has {size} {}, at most {max} are allowed", field.text().1)
            }
            Refusal::Conflict { listed, count } => {
                write!(f, "keys changed on both sides: {count}, among them")?;
                for (i, (stream, key)) in listed.iter().enumerate() {
                    write!(f, "{} {stream}[{key}]", if i == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            Refusal::OffsetMismatch { expected, actual } => {
                write!(f, "the stream ends at offset {actual}, expected {expected}")
            }
            Refusal::VersionMismatch { expected, actual } => {
                let (actual, expected) = (Version(*actual), Version(*expected));
                write!(f, "the key's version is {actual}, expected {expected}")
            }
            Refusal::NotANumber { index } => {
                write!(f, "the value set at index {index} is no decimal number of 64 bits")
            }
            Refusal::NumberOverflow { value, delta } => {
                write!(f, "the sum leaves 64 bits, value=`{value}`, delta=`{delta}`")
            }
            Refusal::BaseMoved { branch, base, current } => {
                write!(f, "tables of {branch} moved from version {base} to {current}")
            }
            Refusal::TablesMoved { branch, expected, current } => {
                write!(f, "tables of the target {branch} moved from {expected} to {current}")
            }
            Refusal::ChecksMoved { branch, at } => {
                write!(f, "checks of the target {branch} changed at index {at}")
            }
            Refusal::TableRootGone { oldest_valid, newest_valid } => {
                write!(f, "tables are kept only from index {oldest_valid} to {newest_valid}")
            }
            Refusal::NotClosing { branch, closing } => {
                write!(f, "{branch} is not closing since index {closing} for this")
            }
            Refusal::UsedSince { branch, last_used } => {
                write!(f, "{branch} was used at index {last_used}")
            }
            Refusal::NeedsTarget { branch, parent } => {
                write!(f, "{parent}, the parent of {branch}, was dropped: the target must be named")
            }
            Refusal::SessionExpired { .. }
            | Refusal::OutcomeForgotten { .. }
            | Refusal::WindowFull { .. }
            | Refusal::TooManySessions { .. }
            | Refusal::TooManyBranches { .. }
            | Refusal::TooDeep { .. }
            | Refusal::TooManyStreams { .. }
            | Refusal::TooManyChecks { .. } => self.fmt_session_or_quota(f),
        }
    }
}

impl Refusal {
    fn fmt_session_or_quota(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::SessionExpired { session } => write!(f, "{session} was closed"),
            Refusal::OutcomeForgotten { session, seq } => {
                write!(f, "write {seq} of {session} was answered before; its outcome is gone")
            }
            Refusal::WindowFull { session } => write!(f, "{session} has too many open writes"),
            Refusal::TooManySessions { count } => write!(f, "too many open sessions: {count}"),
            Refusal::TooManyBranches { count } => write!(f, "too many branches: {count}"),
            Refusal::TooDeep { depth } => write!(f, "too many forks up to main: {depth}"),
            Refusal::TooManyStreams { branch, count } => {
                write!(f, "{branch} has own records in too many streams: {count}")
            }
            Refusal::TooManyChecks { branch, count } => {
                write!(f, "{branch} has too many checks: {count}")
            }
            _ => unreachable!("every other refusal is written by the caller"),
        }
    }
}

impl std::error::Error for Refusal {}
