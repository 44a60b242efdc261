//! `Space`: the embedded API.
//!
//! Every method says what it waits for. Reads cover everything acknowledged before they began,
//! by anybody: what is durable but unordered is ordered first. Errors carry `happened`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anabranch_log::Kind;
use anabranch_sql::Value;
use anabranch_store::{Disk, FileDisk};

use crate::background::Background;
use crate::clock::{Clock, MonotonicClock};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::recovery;
use crate::shared::Shared;
pub use crate::sql::Transaction;
use crate::view::{
    Acknowledged, Against, Appended, BranchInfo, CheckResult, Diff, ForkRequest, Forked,
    HistoryEntry, KeyValue, Origin, Preview, PromoteOptions, Promoted, SqlOptions, SqlResult,
    Status, StreamInfo, StreamPage, TableInfo,
};

/// A handle on one open space; clones share it. The space closes when the last handle and the
/// last transaction are dropped: writes that were only acknowledged are ordered at the next start.
#[derive(Clone)]
pub struct Space {
    shared: Arc<Shared>,
    /// Stops its thread when the last handle goes.
    _background: Option<Arc<Background>>,
}

impl Space {
    /// Opens (or, with `options.create`, creates) the space in a directory, and applies again what
    /// came after the last checkpoint.
    ///
    /// # Errors
    /// `locked`: another process has it. `unavailable`: nothing there and `create` is off.
    /// `corrupt`: the message names file, offset and structure.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Space> {
        let dir = dir.as_ref();
        let disk = if options.create { FileDisk::create(dir) } else { FileDisk::open(dir) };
        let disk = disk.map_err(|error| {
            Error::no(Kind::Unavailable, format!("cannot use directory `{}`", dir.display()))
                .because(error)
        })?;
        Space::open_on(Arc::new(disk), Arc::new(MonotonicClock::new()), options)
    }

    /// The same on any disk and clock.
    pub fn open_on(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, options: Options) -> Result<Space> {
        let background = options.background;
        let shared = Arc::new(recovery::open(disk, options, clock)?);
        let background = background.then(|| Background::start(&shared)).transpose()?.map(Arc::new);
        Ok(Space { shared, _background: background })
    }

    /// Name of the space.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Opens a session for exactly-once writes; returns its number.
    pub fn open_session(&self, origin: &Origin) -> Result<u64> {
        self.shared.open_session(origin)
    }

    /// Ends a session.
    pub fn close_session(&self, session: u64, origin: &Origin) -> Result<()> {
        self.shared.close_session(session, origin)
    }

    /// Appends records; durable on return, position fixed before anyone can look.
    pub fn append(
        &self,
        branch: &str,
        stream: &str,
        records: Vec<Vec<u8>>,
        by: &Origin,
    ) -> Result<Acknowledged> {
        self.shared.append(branch, stream, records, by)
    }

    /// Appends and waits for the position; with `expected`, only if the view's length equals it.
    pub fn append_at(
        &self,
        branch: &str,
        stream: &str,
        records: Vec<Vec<u8>>,
        expected: Option<u64>,
        by: &Origin,
    ) -> Result<Appended> {
        self.shared.append_at(branch, stream, records, expected, by)
    }

    /// Reads up to `max` records from `start` (inclusive).
    pub fn read(&self, branch: &str, stream: &str, start: u64, max: usize) -> Result<StreamPage> {
        self.shared.read(branch, stream, start, max)
    }

    /// Waits until the view is longer than `offset`; false on timeout.
    pub fn wait(&self, branch: &str, stream: &str, offset: u64, timeout: Duration) -> Result<bool> {
        self.shared.wait_longer(branch, stream, offset, timeout)
    }

    /// Streams of the branch's view.
    pub fn streams(&self, branch: &str) -> Result<Vec<StreamInfo>> {
        self.shared.streams(branch)
    }

    /// Sets a key.
    pub fn put(
        &self,
        branch: &str,
        stream: &str,
        key: &[u8],
        value: &[u8],
        by: &Origin,
    ) -> Result<Acknowledged> {
        self.shared.put(branch, stream, key, value, by)
    }

    /// Deletes a key.
    pub fn delete(
        &self,
        branch: &str,
        stream: &str,
        key: &[u8],
        by: &Origin,
    ) -> Result<Acknowledged> {
        self.shared.delete(branch, stream, key, by)
    }

    /// Sets (or, with `None`, deletes) a key if its version is `expected` (`None`: absent); returns
    /// the new index.
    #[expect(clippy::too_many_arguments, reason = "a key, its condition and its new value")]
    pub fn cas(
        &self,
        branch: &str,
        stream: &str,
        key: &[u8],
        expected: Option<u64>,
        value: Option<&[u8]>,
        by: &Origin,
    ) -> Result<u64> {
        self.shared.cas(branch, stream, key, expected, value, by)
    }

    /// Adds to a decimal number; returns the new value.
    pub fn incr(
        &self,
        branch: &str,
        stream: &str,
        key: &[u8],
        delta: i64,
        by: &Origin,
    ) -> Result<i64> {
        self.shared.incr(branch, stream, key, delta, by)
    }

    /// Newest version of a key in the view.
    pub fn get(&self, branch: &str, stream: &str, key: &[u8]) -> Result<Option<KeyValue>> {
        self.shared.get(branch, stream, key)
    }

    /// Keys with a prefix, in order, after `after` (exclusive).
    pub fn scan(
        &self,
        branch: &str,
        stream: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        max: usize,
    ) -> Result<Vec<KeyValue>> {
        self.shared.scan(branch, stream, prefix, after, max)
    }

    /// Runs SQL statements as one transaction.
    pub fn sql(
        &self,
        branch: &str,
        sql: &str,
        params: &[Value],
        options: &SqlOptions,
        by: &Origin,
    ) -> Result<SqlResult> {
        self.shared.sql(branch, sql, params, options, by)
    }

    /// Begins an interactive transaction.
    pub fn begin(&self, branch: &str, options: &SqlOptions, by: &Origin) -> Result<Transaction> {
        Shared::begin(&self.shared, branch, options, by)
    }

    /// Tables of a branch.
    pub fn tables(&self, branch: &str) -> Result<Vec<TableInfo>> {
        self.shared.tables(branch)
    }

    /// Makes a fork.
    pub fn fork(&self, request: &ForkRequest, by: &Origin) -> Result<Forked> {
        self.shared.fork(request, by)
    }

    /// All branches, closed ones included, in order of creation.
    pub fn branches(&self) -> Result<Vec<BranchInfo>> {
        self.shared.branches()
    }

    /// One open branch (a closed one is a typed error that says where its records went).
    pub fn branch(&self, name: &str) -> Result<BranchInfo> {
        self.shared.branch(name)
    }

    /// What a branch changed; at most `max_rows` rows and keys are listed, counts are complete.
    pub fn diff(&self, branch: &str, against: Against, max_rows: usize) -> Result<Diff> {
        self.shared.diff(branch, against, max_rows)
    }

    /// What a promotion would do now.
    pub fn preview(
        &self,
        branch: &str,
        options: &PromoteOptions,
        max_rows: usize,
    ) -> Result<Preview> {
        self.shared.preview(branch, options, max_rows)
    }

    /// Makes the branch's own writes part of its target, atomically, after the target's checks.
    pub fn promote(&self, branch: &str, options: &PromoteOptions, by: &Origin) -> Result<Promoted> {
        self.shared.promote(branch, options, by)
    }

    /// Drops a branch's own writes; returns the index.
    pub fn discard(&self, branch: &str, by: &Origin) -> Result<u64> {
        self.shared.discard(branch, by)
    }

    /// Adds a check to a branch: a query that must return no rows.
    pub fn add_check(&self, branch: &str, name: &str, sql: &str, by: &Origin) -> Result<u64> {
        self.shared.add_check(branch, name, sql, by)
    }

    /// Removes a check.
    pub fn drop_check(&self, branch: &str, name: &str, by: &Origin) -> Result<u64> {
        self.shared.drop_check(branch, name, by)
    }

    /// Checks of a branch: name and query.
    pub fn checks(&self, branch: &str) -> Result<Vec<(String, String)>> {
        self.shared.checks(branch)
    }

    /// Runs the checks of a branch on the branch as it is.
    pub fn run_checks(&self, branch: &str) -> Result<Vec<CheckResult>> {
        self.shared.run_checks(branch)
    }

    /// Applied operations, newest first, before `before` (exclusive; `None` is the end).
    pub fn history(
        &self,
        branch: Option<&str>,
        before: Option<u64>,
        max: usize,
    ) -> Result<Vec<HistoryEntry>> {
        self.shared.history(branch, before, max)
    }

    /// State of the node.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Takes a checkpoint now; returns its index.
    pub fn checkpoint(&self, by: &Origin) -> Result<u64> {
        self.shared.checkpoint(by)
    }

    /// One step of background work: orders idle writes, expires forks, takes due checkpoints.
    pub fn tick(&self) -> Result<()> {
        self.shared.tick()
    }
}
