//! What one call may use, and what a connection may do.

/// Bounds of one connection. Zero means "no bound" only where it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest run of one call, in milliseconds of the machine's monotonic clock; 0 is unbounded.
    /// A write that runs out is rolled back, with its whole transaction.
    pub statement_ms: u64,
    /// Most work of one call, in SQLite virtual machine instructions (rounded up to thousands);
    /// 0 is unbounded. Unlike time it is the same on every machine and in every run.
    pub statement_ops: u64,
    /// Most pages of the branch's database (inclusive).
    pub max_pages: u32,
    /// Most rows returned by a call (inclusive); more sets `truncated`.
    pub max_rows: usize,
    /// Most bytes of values returned by a call; more sets `truncated`.
    pub max_result_bytes: usize,
    /// Longest SQL text, in bytes (inclusive).
    pub max_sql_bytes: usize,
    /// Most bytes of changed pages, and likewise of row images, in one transaction.
    pub max_commit_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            statement_ms: 30_000,
            statement_ops: 0,
            max_pages: 16 * 1024 * 1024,
            max_rows: 10_000,
            max_result_bytes: 16 * 1024 * 1024,
            max_sql_bytes: 1024 * 1024,
            max_commit_bytes: 256 * 1024 * 1024,
        }
    }
}

/// What a connection may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Queries only.
    ReadOnly,
    /// Queries, changes and schema changes.
    ReadWrite,
}

/// Inputs that SQL functions read from outside the database. Fixing them makes a run repeatable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// What `CURRENT_TIMESTAMP`, `datetime('now')` and so on see, in milliseconds since 1970;
    /// `None` is the machine's clock.
    pub now_ms: Option<u64>,
    /// Seed of `random()` and `randomblob()`; `None` is SQLite's own generator.
    pub seed: Option<u64>,
}
