//! Promotion: own net changes applied to a clone of the target's newest pages.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::change::CommitSet;
use crate::error::SqlError;
use crate::limits::Limits;
use crate::live::{Clash, ClashReason};
use crate::map::PageMap;
use crate::net::NetChanges;
use crate::page::PageStore;
use crate::value::Value;

/// Who wins a row changed on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Nobody: the promotion is refused and the conflicts are listed.
    #[default]
    Fail,
    /// The fork.
    Fork,
    /// The parent: its row stays and the fork's change of it is left out.
    Parent,
}

/// What to promote, onto what, and how.
#[derive(Clone, Copy)]
pub struct Promotion<'a> {
    /// The tables the fork started from, where they are still known. Needed to notice that the
    /// target changed a table whose schema the fork changed.
    pub base: Option<&'a PageMap>,
    /// The target's newest tables.
    pub target: &'a PageMap,
    /// The fork's own net changes.
    pub net: &'a NetChanges,
    /// Who wins conflicts.
    pub policy: Policy,
    /// Tables (any case) in which changes of different columns of one row do not conflict.
    pub merge_cells: &'a BTreeSet<String>,
    /// Most conflicts listed (inclusive); all are counted.
    pub max_conflicts: usize,
    /// Bounds of the work; `max_commit_bytes` bounds the candidate.
    pub limits: Limits,
}

/// Why a row conflicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConflictReason {
    /// Both sides changed it; the policy may decide.
    BothChanged,
    /// Both sides inserted a row under this key; the policy may decide.
    BothInserted,
    /// It does not fit the target's other rows, whatever the policy.
    Clash(ClashReason),
}

impl fmt::Display for ConflictReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConflictReason::BothChanged => f.write_str("changed on both sides"),
            ConflictReason::BothInserted => f.write_str("inserted on both sides"),
            ConflictReason::Clash(reason) => reason.fmt(f),
        }
    }
}

/// One row changed on both sides, with all three versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowConflict {
    /// The table.
    pub table: String,
    /// Key of the row, or its rowid.
    pub key: Vec<Value>,
    /// Why.
    pub reason: ConflictReason,
    /// Column names of the three images.
    pub columns: Vec<String>,
    /// Columns in which fork and target disagree.
    pub conflicting: Vec<String>,
    /// The row both started from.
    pub base: Option<Vec<Value>>,
    /// The fork's row.
    pub ours: Option<Vec<Value>>,
    /// The target's row.
    pub theirs: Option<Vec<Value>>,
}

/// A promotion that would work: exactly what the checks must see and what one record moves.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The target's tables after the promotion.
    pub root: PageMap,
    /// The commit that leads there from the target.
    pub commit: CommitSet,
    /// Conflicts that the policy decided, up to the limit.
    pub conflicts: Vec<RowConflict>,
    /// All of them, counted.
    pub conflict_count: u64,
    /// Rows of tables without a primary key that got another rowid: table, ours, theirs.
    pub renumbered: Vec<(String, i64, i64)>,
}

/// Why there is no candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromoteError {
    /// Rows conflict and the policy does not decide them.
    Conflicts {
        /// Up to the limit.
        conflicts: Vec<RowConflict>,
        /// All of them, counted.
        count: u64,
    },
    /// A table or schema statement does not fit the target, whatever the policy.
    Clash(Box<Clash>),
    /// SQLite or the page store failed.
    Sql(SqlError),
}

impl fmt::Display for PromoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PromoteError::Conflicts { conflicts, count } => {
                write!(f, "rows changed on both sides: count=`{count}`")?;
                match conflicts.first() {
                    Some(first) => write!(f, ", first in table `{}`: {}", first.table, first.reason),
                    None => Ok(()),
                }
            }
            PromoteError::Clash(clash) => write!(f, "the fork does not fit its target: {clash}"),
            PromoteError::Sql(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PromoteError {}

impl From<SqlError> for PromoteError {
    fn from(error: SqlError) -> PromoteError {
        PromoteError::Sql(error)
    }
}

/// Builds the candidate of a promotion. Changes nothing: the candidate's pages are in the store,
/// and unreferenced ones are swept like those of any transaction that did not commit.
pub fn promote(
    store: &Arc<dyn PageStore>,
    promotion: &Promotion<'_>,
) -> Result<Candidate, PromoteError> {
    let _ = (store, promotion.base);
    todo!()
}
