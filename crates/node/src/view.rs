//! What the embedded API returns: plain data, no behaviour.
//!
//! Shapes only. Names of branches, streams, tables and checks are text as the user wrote them;
//! indexes, offsets and versions are `u64` with the meanings of `anabranch_log`: an index is a
//! position in the total order of the space, an offset a position in one branch's view of one
//! stream, a table version the index of the last operation that changed a branch's tables.

use anabranch_sql::Value;

/// Who writes, why, and under which client session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Name of the person or agent, at most 128 bytes; part of the entry for ever.
    pub actor: String,
    /// Why, in the actor's words, at most 1 KiB; may be empty.
    pub intent: String,
    /// Wall clock of the client in milliseconds since 1970; shown, never interpreted.
    pub time_ms: u64,
    /// The caller's own session, for exactly-once retries; `None` uses the space's session.
    pub write: Option<SessionWrite>,
}

impl Origin {
    /// An origin with an actor only.
    #[must_use]
    pub fn actor(actor: impl Into<String>) -> Origin {
        Origin { actor: actor.into(), ..Origin::default() }
    }

    /// The same origin with an intent.
    #[must_use]
    pub fn because(mut self, intent: impl Into<String>) -> Origin {
        self.intent = intent.into();
        self
    }
}

/// Identity of one write within a client session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionWrite {
    /// Session number as returned by `Space::open_session`.
    pub session: u64,
    /// Sequence number of this write, from 1, never reused for another write.
    pub seq: u64,
    /// Every sequence number up to and including this one has been answered to the caller.
    pub answered: u64,
}

/// A durable write whose place in the order is fixed before anyone can observe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// The session that carried the write.
    pub session: u64,
    /// Its number in that session.
    pub seq: u64,
}

/// An append that was ordered before the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Index of the first record.
    pub index: u64,
    /// Offset of the first record in the branch's view.
    pub offset: u64,
    /// Number of records.
    pub count: u64,
}

/// One record of a stream, as a branch sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRecord {
    /// Offset in the branch's view.
    pub offset: u64,
    /// Index of the record in the space.
    pub index: u64,
    /// The bytes, verified against their checksum on this read.
    pub value: Vec<u8>,
}

/// Part of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPage {
    /// Consecutive records from the start that was asked for.
    pub records: Vec<StreamRecord>,
    /// Length of the branch's view of the stream: the offset the next record will get.
    pub length: u64,
    /// Index that the answer covers.
    pub index: u64,
}

/// The newest version of a key in a branch's view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// Index of the record that set it: what `cas` compares.
    pub index: u64,
}

/// Name and length of one stream of a branch's view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamInfo {
    /// Name.
    pub stream: String,
    /// Whether its records have keys.
    pub keyed: bool,
    /// Number of records in the view (for a keyed stream: of versions).
    pub length: u64,
}

/// How a fork sees its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ForkKind {
    /// Goes on receiving the parent's later writes.
    Live,
    /// Cut at one position.
    Frozen,
}

/// A fork to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkRequest {
    /// Name of the parent branch.
    pub parent: String,
    /// Name of the new branch.
    pub name: String,
    /// Live or frozen.
    pub kind: ForkKind,
    /// Frozen forks only: the index to cut at; `None` is now.
    pub at: Option<u64>,
    /// Who answers for it; empty takes the actor.
    pub owner: String,
    /// Idle time after which the fork expires, in milliseconds; `None` is never.
    pub ttl_ms: Option<u64>,
}

/// Where a branch stands in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchInfo {
    /// Name.
    pub name: String,
    /// Incarnation: never reused, even when the name is.
    pub id: u64,
    /// Parent's name; `None` for the root.
    pub parent: Option<String>,
    /// `None` for the root.
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

/// A fork that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forked {
    /// The new branch's incarnation.
    pub id: u64,
    /// Index of the fork operation.
    pub index: u64,
}

/// Result of SQL statements.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SqlResult {
    /// Column names of the last statement that returns rows.
    pub columns: Vec<String>,
    /// Its rows, up to the limit.
    pub rows: Vec<Vec<Value>>,
    /// Whether rows beyond the limit were left out.
    pub truncated: bool,
    /// Rows changed by all statements.
    pub changes: u64,
    /// Index of the commit; `None` when nothing was written.
    pub index: Option<u64>,
    /// Index that the answer covers.
    pub read_index: u64,
    /// Set when a live fork answered at its last good base: what clashes.
    pub behind: Option<String>,
}

/// Options of a SQL call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlOptions {
    /// Refuse statements that would write.
    pub read_only: bool,
    /// Most rows returned (inclusive).
    pub max_rows: usize,
    /// Longest run of the whole script, in milliseconds.
    pub timeout_ms: u64,
}

impl Default for SqlOptions {
    fn default() -> Self {
        SqlOptions { read_only: false, max_rows: 10_000, timeout_ms: 30_000 }
    }
}

/// Against what a branch is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Against {
    /// What the branch's own changes started from.
    #[default]
    Base,
    /// The target of its promotion, as it is now.
    Parent,
}

/// What happened to a row or a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// Was not there before.
    Insert,
    /// Was there with another content.
    Update,
    /// Is gone.
    Delete,
}

/// One changed row.
#[derive(Clone, Debug, PartialEq)]
pub struct RowDiff {
    /// What happened.
    pub kind: ChangeKind,
    /// Primary key, or the rowid of a table without one.
    pub key: Vec<Value>,
    /// The row before, all columns; `None` for an insert.
    pub old: Option<Vec<Value>>,
    /// The row after; `None` for a delete.
    pub new: Option<Vec<Value>>,
}

/// Changes of one table. Counts are complete even where rows are cut.
#[derive(Clone, Debug, PartialEq)]
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

/// One key changed on the branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDiff {
    /// Keyed stream.
    pub stream: String,
    /// The key.
    pub key: Vec<u8>,
    /// Value in the base, if it was there.
    pub old: Option<Vec<u8>>,
    /// Value on the branch; `None` when deleted.
    pub new: Option<Vec<u8>>,
}

/// What a branch changed.
#[derive(Clone, Debug, PartialEq)]
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
    /// Own records per plain stream: name and count.
    pub streams: Vec<(String, u64)>,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Refuse the promotion and list them.
    #[default]
    Fail,
    /// The fork's version wins.
    Fork,
    /// The parent's version stays; the fork's is left out and listed.
    Parent,
}

/// A row that both sides changed.
#[derive(Clone, Debug, PartialEq)]
pub struct RowConflict {
    /// Table name.
    pub table: String,
    /// Column names, in the order of the row images.
    pub columns: Vec<String>,
    /// Primary key, or rowid.
    pub key: Vec<Value>,
    /// The row as the fork first saw it.
    pub base: Option<Vec<Value>>,
    /// The row on the fork.
    pub ours: Option<Vec<Value>>,
    /// The row on the target now.
    pub theirs: Option<Vec<Value>>,
    /// Why, where it is more than differing rows (a unique key, a foreign key).
    pub reason: String,
}

/// A key that both sides changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyConflict {
    /// Keyed stream.
    pub stream: String,
    /// The key.
    pub key: Vec<u8>,
    /// Value in the base.
    pub base: Option<Vec<u8>>,
    /// Value on the fork; `None` when deleted.
    pub ours: Option<Vec<u8>>,
    /// Value on the target now; `None` when deleted.
    pub theirs: Option<Vec<u8>>,
}

/// A check and what it found.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckResult {
    /// Name of the check.
    pub name: String,
    /// The query: it must return no rows.
    pub sql: String,
    /// Column names.
    pub columns: Vec<String>,
    /// Offending rows, up to a limit.
    pub rows: Vec<Vec<Value>>,
    /// How many there are in all.
    pub row_count: u64,
    /// Whether it returned no rows.
    pub passed: bool,
    /// Why it could not run, if it could not: counts as failed.
    pub error: Option<String>,
}

/// What a promotion would do now, pinned to both heads.
#[derive(Clone, Debug, PartialEq)]
pub struct Preview {
    /// Give this to `promote` to land exactly what was seen here.
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
    /// Whether `promote` with the same options would land.
    pub would_land: bool,
}

/// Options of preview and promote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromoteOptions {
    /// Receiver; `None` is the parent, or the branch that received the parent.
    pub onto: Option<String>,
    /// What to do with rows and keys changed on both sides.
    pub policy: Policy,
    /// Tables where changes of different columns of one row may be merged.
    pub cell_merge: Vec<String>,
    /// Refuse if a table that the fork read has changed on the target since.
    pub strict: bool,
    /// A preview's token: refuse if either head moved since.
    pub token: Option<String>,
}

/// A promotion that landed. A retry of one that landed before learns `index`, `into` and
/// `records` only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Promoted {
    /// Index of the promotion.
    pub index: u64,
    /// The branch that received the writes.
    pub into: String,
    /// Records spliced in.
    pub records: u64,
    /// Rows changed on the target: inserts, updates, deletes.
    pub rows: (u64, u64, u64),
    /// Keys left out because the parent's version stays.
    pub left_out: Vec<(String, Vec<u8>)>,
    /// Row conflicts settled by the policy.
    pub settled: Vec<RowConflict>,
    /// Checks that were run on the candidate.
    pub checks: Vec<CheckResult>,
}

/// One applied operation, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// First index.
    pub index: u64,
    /// Number of indexes it took.
    pub count: u64,
    /// Branch it changed, by name at that time; empty for the space itself.
    pub branch: String,
    /// What it was: `append`, `commit`, `fork`, …
    pub kind: String,
    /// Details in one line.
    pub detail: String,
    /// Who.
    pub actor: String,
    /// Why.
    pub intent: String,
    /// Client's wall clock, milliseconds since 1970.
    pub time_ms: u64,
    /// Hash chain after this operation, hexadecimal.
    pub chain: String,
}

/// One table of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Name.
    pub table: String,
    /// Column names with declared types.
    pub columns: Vec<(String, String)>,
    /// Number of rows.
    pub rows: u64,
}

/// State of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Name of the space.
    pub space: String,
    /// Last applied index.
    pub index: u64,
    /// Raft term.
    pub term: u64,
    /// Durable operations not yet ordered.
    pub unordered: u64,
    /// Index of the last checkpoint, 0 before the first.
    pub checkpoint: u64,
    /// Open branches.
    pub branches: u64,
    /// Open sessions.
    pub sessions: u64,
    /// Hash chain at `index`, hexadecimal.
    pub chain: String,
}
