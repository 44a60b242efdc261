//! Branches: fork, list, diff, preview, promote, discard.

use serde::{Deserialize, Serialize};

use super::{By, CheckResult};
use crate::{Bytes, SqlValue};

/// How a fork sees its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForkKind {
    /// Goes on receiving the parent's later writes.
    #[default]
    Live,
    /// Cut at one position.
    Frozen,
}

/// `POST /v1/branches`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForkRequest {
    /// Name of the new branch.
    pub name: String,
    /// Name of the parent; left out is `main`.
    #[serde(default = "main")]
    pub parent: String,
    /// Live (the default) or frozen.
    #[serde(default)]
    pub kind: ForkKind,
    /// Frozen forks only: the index to cut at (inclusive); left out is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// Who answers for it; empty takes the actor.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// Idle time after which the fork expires, in milliseconds; left out is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// Who and why.
    #[serde(default)]
    pub by: By,
}

fn main() -> String {
    "main".to_owned()
}

/// A fork that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forked {
    /// The new branch's incarnation.
    pub id: u64,
    /// Index of the fork operation.
    pub index: u64,
}

/// Answer of `GET /v1/branches`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchList {
    /// All branches, closed ones too, in order of creation.
    pub branches: Vec<BranchInfo>,
}

/// Where a branch stands in its life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum BranchStatus {
    /// Takes writes.
    Open,
    /// A promote, discard or expiry is being decided.
    Closing,
    /// Its own writes became part of another branch.
    Promoted {
        /// The receiver.
        into: String,
        /// Index of the promotion.
        at: u64,
    },
    /// Its own writes were dropped.
    Discarded {
        /// Index of the discard.
        at: u64,
    },
    /// Dropped because its time ran out.
    Expired {
        /// Index of the discard.
        at: u64,
    },
}

/// One branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchInfo {
    /// Name.
    pub name: String,
    /// Incarnation: never reused, even when the name is.
    pub id: u64,
    /// Parent's name; `null` for the root.
    pub parent: Option<String>,
    /// `null` for the root.
    pub kind: Option<ForkKind>,
    /// Where it stands.
    pub status: BranchStatus,
    /// Who answers for it.
    pub owner: String,
    /// Idle time after which it expires, in milliseconds.
    pub ttl_ms: Option<u64>,
    /// Index of the fork operation (0 for the root).
    pub created: u64,
    /// Index at which its view of the parent was cut; for a live fork, where it began.
    pub forked_at: u64,
    /// Index of the last operation that changed its tables.
    pub table_version: u64,
    /// Number of forks between it and the root.
    pub depth: u32,
    /// Records of its own (streams and keys).
    pub own_records: u64,
    /// Committed SQL changes of its own.
    pub own_commits: u64,
}

/// Against what a branch is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// What the branch's own changes started from.
    #[default]
    Base,
    /// The target of its promotion, as it is now.
    Parent,
}

/// Query of `GET …/diff`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiffQuery {
    /// Left out is the base.
    pub against: Option<Against>,
    /// Most rows and keys listed; left out is [`crate::DIFF_ROWS`], the most [`crate::PAGE_ROWS`].
    pub limit: Option<usize>,
}

/// What happened to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// Was not there before.
    Insert,
    /// Was there with another content.
    Update,
    /// Is gone.
    Delete,
}

/// One changed row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowDiff {
    /// What happened.
    pub kind: ChangeKind,
    /// Primary key, or the rowid of a table without one.
    pub key: Vec<SqlValue>,
    /// The row before; `null` for an insert.
    pub old: Option<Vec<SqlValue>>,
    /// The row after; `null` for a delete.
    pub new: Option<Vec<SqlValue>>,
}

/// Changes of one table. Counts are complete even where rows are cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableDiff {
    /// Table name.
    pub table: String,
    /// Column names, in the order of the row images.
    pub columns: Vec<String>,
    /// Rows inserted.
    pub inserts: u64,
    /// Rows updated.
    pub updates: u64,
    /// Rows deleted.
    pub deletes: u64,
    /// Changed rows, deletions first, up to the limit.
    pub rows: Vec<RowDiff>,
    /// Whether rows were left out of `rows`.
    pub truncated: bool,
}

/// Own records of one plain stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamDiff {
    /// Name.
    pub stream: String,
    /// Records appended on the branch.
    pub records: u64,
}

/// One key changed on the branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyDiff {
    /// Keyed stream.
    pub stream: String,
    /// The key.
    pub key: Bytes,
    /// Value before; `null` when it was absent.
    pub old: Option<Bytes>,
    /// Value on the branch; `null` when deleted.
    pub new: Option<Bytes>,
}

/// What a branch changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diff {
    /// The branch.
    pub branch: String,
    /// What it was compared with.
    pub against: Against,
    /// Index that the answer covers.
    pub index: u64,
    /// Own table changes, netted per row.
    pub tables: Vec<TableDiff>,
    /// Schema statements run on the branch, in order.
    pub schema: Vec<String>,
    /// Own records per plain stream.
    pub streams: Vec<StreamDiff>,
    /// Keys changed, up to the limit.
    pub keys: Vec<KeyDiff>,
    /// Number of keys changed, complete.
    pub keys_changed: u64,
}

impl Diff {
    /// Whether the branch changed nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
            && self.schema.is_empty()
            && self.streams.is_empty()
            && self.keys_changed == 0
    }
}

/// What to do with rows and keys changed on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Refuse the promotion and list them.
    #[default]
    Fail,
    /// The fork's version wins.
    Fork,
    /// The parent's version stays; the fork's is left out and listed.
    Parent,
}

/// Options of preview and promote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PromoteOptions {
    /// Receiver; `null` is the parent, or the branch that received the parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub onto: Option<String>,
    /// What to do with rows and keys changed on both sides.
    pub policy: Policy,
    /// Tables where changes of different columns of one row may be merged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cell_merge: Vec<String>,
    /// Refuse if a table that the fork read has changed on the target since.
    pub strict: bool,
    /// A preview's token: refuse if either head moved since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// `POST …/preview`. It changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreviewRequest {
    /// The options that promote would get.
    #[serde(default)]
    pub options: PromoteOptions,
    /// Most rows and keys listed; left out is [`crate::DIFF_ROWS`], the most [`crate::PAGE_ROWS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// `POST …/promote`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromoteRequest {
    /// Options.
    #[serde(default)]
    pub options: PromoteOptions,
    /// Who and why.
    #[serde(default)]
    pub by: By,
}

/// A row that both sides changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowConflict {
    /// Table name.
    pub table: String,
    /// Column names, in the order of the row images.
    pub columns: Vec<String>,
    /// Primary key, or rowid.
    pub key: Vec<SqlValue>,
    /// The row as the fork first saw it.
    pub base: Option<Vec<SqlValue>>,
    /// The row on the fork.
    pub ours: Option<Vec<SqlValue>>,
    /// The row on the target now.
    pub theirs: Option<Vec<SqlValue>>,
    /// Why, where it is more than differing rows.
    pub reason: String,
}

/// A key that both sides changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyConflict {
    /// Keyed stream.
    pub stream: String,
    /// The key.
    pub key: Bytes,
    /// Value in the base.
    pub base: Option<Bytes>,
    /// Value on the fork; `null` when deleted.
    pub ours: Option<Bytes>,
    /// Value on the target now; `null` when deleted.
    pub theirs: Option<Bytes>,
}

/// What a promotion would do now, pinned to both heads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Preview {
    /// Give this to promote to land exactly what was seen here.
    pub token: String,
    /// The branch that would receive the writes.
    pub target: String,
    /// What the branch changed.
    pub diff: Diff,
    /// Rows changed on both sides.
    pub conflicts: Vec<RowConflict>,
    /// Keys changed on both sides.
    pub key_conflicts: Vec<KeyConflict>,
    /// Checks of the target, run on the exact candidate (empty while rows conflict).
    pub checks: Vec<CheckResult>,
    /// Tables read on the fork that the target changed since (what `strict` refuses).
    pub stale_reads: Vec<String>,
    /// Whether promote with the same options would land.
    pub would_land: bool,
}

/// Numbers of rows changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowCounts {
    /// Inserted.
    pub inserts: u64,
    /// Updated.
    pub updates: u64,
    /// Deleted.
    pub deletes: u64,
}

/// A key left out of a promotion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Keyed stream.
    pub stream: String,
    /// The key.
    pub key: Bytes,
}

/// A promotion that landed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Promoted {
    /// Index of the promotion.
    pub index: u64,
    /// The branch that received the writes.
    pub into: String,
    /// Records spliced in.
    pub records: u64,
    /// Rows changed on the target.
    pub rows: RowCounts,
    /// Keys left out because the parent's version stays.
    pub left_out: Vec<LeftOut>,
    /// Row conflicts settled by the policy.
    pub settled: Vec<RowConflict>,
    /// Checks that were run on the candidate.
    pub checks: Vec<CheckResult>,
}
