//! SQL on a branch: statements run on a private snapshot, the commit waits for the log.
//!
//! One call is one transaction. It runs on a copy-on-write clone of the branch's pages; when
//! SQLite asks its disk to sync, the changes become one ordered record, valid only if the branch's
//! tables are still the ones the statements saw. If they moved, one-shot calls run again; an
//! interactive transaction is refused.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_log::{
    Body as LogBody, BranchId, Kind, Operation, Outcome, Refusal, TableVersion, limits,
};
use anabranch_sql::{
    Access, Body, CommitError, CommitSet, Connection, Limits, PageMap, PageStore, RunResult,
    SinkRefusal, Step, TableKind, Value, counts, row_counts, run_checks, table_list,
};

use crate::body::{self, Summary};
use crate::error::{Error, Result};
use crate::live::View;
use crate::names;
use crate::shared::Shared;
use crate::streams::unexpected;
use crate::sweep::Pin;
use crate::view::{CheckResult, Origin, SessionWrite, SqlOptions, SqlResult, TableInfo};

/// How often a one-shot call is run again because the tables moved.
const ATTEMPTS: u32 = 32;
/// Offending rows shown per check.
const CHECK_ROWS: usize = 20;
/// Size of a part of a transaction that does not fit one record.
const PART_BYTES: usize = 1 << 20;

/// One lock per branch: one-shot writers of a branch take turns instead of running in vain.
/// Liveness only; the ordered record decides.
#[derive(Default)]
pub(crate) struct Writers {
    locks: Mutex<BTreeMap<BranchId, Arc<Mutex<()>>>>,
}

impl Writers {
    pub(crate) fn of(&self, branch: BranchId) -> Arc<Mutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(locks.entry(branch).or_default())
    }

    pub(crate) fn forget(&self, branch: BranchId) {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner).remove(&branch);
    }
}

pub(crate) fn turn(lock: &Mutex<()>) -> MutexGuard<'_, ()> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tables of a branch at one moment, and what a commit on them must say.
pub(crate) struct Snapshot {
    pub(crate) branch: BranchId,
    pub(crate) view: View,
    /// The branch's own table version.
    pub(crate) base: TableVersion,
    /// On a live fork, the version of the page map below.
    parent: Option<TableVersion>,
    pub(crate) checks: Vec<(String, String)>,
    index: u64,
    /// Keeps the pages from being swept.
    _pin: Pin,
}

impl Shared {
    /// The branch's tables now; covers everything acknowledged before the call.
    pub(crate) fn snapshot(&self, branch: &str) -> Result<Snapshot> {
        self.barrier()?;
        let id = names::branch(&self.lock().state, branch)?;
        self.snapshot_of(id)
    }

    pub(crate) fn snapshot_of(&self, id: BranchId) -> Result<Snapshot> {
        let engine = self.lock();
        let branch = engine.state.branch(id).ok_or_else(|| {
            Error::no(Kind::UnknownBranch, format!("no such branch, branch=`{id}`"))
        })?;
        let (base, live) = (branch.tables(), branch.is_live());
        let source = engine.view(id).ok_or_else(|| {
            Error::no(Kind::BranchClosed, format!("branch has no tables any more, branch=`{id}`"))
        })?;
        let index = engine.state.applied_index().0;
        let pin = self.pins.pin(&source.root);
        drop(engine);
        self.touch(id);
        let parent = live.then_some(source.origin.1);
        let checks = self.checks_of(id);
        let view = self.materialize(id, source)?;
        Ok(Snapshot { branch: id, view, base, parent, checks, index, _pin: pin })
    }

    fn checks_of(&self, branch: BranchId) -> Vec<(String, String)> {
        let engine = self.lock();
        let checks = engine.state.checks(branch).iter();
        checks.map(|(name, sql)| (name.clone(), sql.clone())).collect()
    }

    fn limits(&self, options: &SqlOptions) -> Limits {
        let own = self.options.limits;
        Limits {
            statement_ms: options.timeout_ms.min(own.statement_ms.max(1)),
            max_rows: options.max_rows.min(own.max_rows),
            ..own
        }
    }

    pub(crate) fn sql(
        &self,
        branch: &str,
        sql: &str,
        params: &[Value],
        options: &SqlOptions,
        by: &Origin,
    ) -> Result<SqlResult> {
        if options.read_only {
            let snapshot = self.snapshot(branch)?;
            return self.query(&snapshot, sql, params, options);
        }
        // A retry must not run again what has happened: its own effect could refuse it.
        if let Some(outcome) = self.first_outcome(by)? {
            let index = outcome.index().0;
            return Ok(SqlResult { index: Some(index), read_index: index, ..SqlResult::default() });
        }
        let id = names::branch(&self.lock().state, branch)?;
        let writer = self.writers.of(id);
        let _turn = turn(&writer);
        for attempt in 0..ATTEMPTS {
            let snapshot = self.snapshot(branch)?;
            let mut running = Running::open(self, snapshot, options)?;
            let result = running.run(self, sql, params)?;
            let behind = running.snapshot.view.behind.clone();
            match running.commit(self, by, attempt) {
                Ok(index) => return Ok(SqlResult { index, behind, ..result }),
                Err(error) if error.kind == Kind::TablesMoved => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::no(Kind::TablesMoved, "the tables moved again and again under this statement"))
    }

    fn query(
        &self,
        snapshot: &Snapshot,
        sql: &str,
        params: &[Value],
        options: &SqlOptions,
    ) -> Result<SqlResult> {
        let View { root, pages, behind, .. } = &snapshot.view;
        let limits = self.limits(options);
        let mut connection =
            Connection::open(Arc::clone(pages), root.clone(), limits, Access::ReadOnly)?;
        let result = connection.run(sql, params)?;
        self.reads.read(snapshot.branch, connection.tables_read(), snapshot.read_version());
        Ok(SqlResult { behind: behind.clone(), ..told(result, snapshot.index) })
    }

    pub(crate) fn begin(
        shared: &Arc<Shared>,
        branch: &str,
        options: &SqlOptions,
        by: &Origin,
    ) -> Result<Transaction> {
        let snapshot = shared.snapshot(branch)?;
        let running = Running::open(shared, snapshot, options)?;
        Ok(Transaction { running, shared: Arc::clone(shared), by: by.clone() })
    }

    pub(crate) fn tables(&self, branch: &str) -> Result<Vec<TableInfo>> {
        let View { root, pages, .. } = self.snapshot(branch)?.view;
        let rows: BTreeMap<String, u64> = row_counts(&pages, &root)?.into_iter().collect();
        Ok(table_list(&pages, &root)?
            .into_iter()
            .filter(|table| table.kind != TableKind::View)
            .map(|table| TableInfo {
                rows: rows.get(&table.name).copied().unwrap_or_default(),
                columns: table
                    .columns
                    .into_iter()
                    .map(|column| (column.name, column.declared_type))
                    .collect(),
                table: table.name,
            })
            .collect())
    }

    pub(crate) fn check_compiles(&self, branch: BranchId, sql: &str) -> Result<()> {
        let View { root, pages, .. } = self.snapshot_of(branch)?.view;
        Ok(anabranch_sql::validate_check(&pages, &root, sql)?)
    }

    pub(crate) fn run_checks(&self, branch: &str) -> Result<Vec<CheckResult>> {
        let snapshot = self.snapshot(branch)?;
        let View { root, pages, .. } = &snapshot.view;
        Ok(self.checked(pages, root, &snapshot.checks))
    }

    /// Runs checks on exactly these pages.
    pub(crate) fn checked(
        &self,
        pages: &Arc<dyn PageStore>,
        root: &PageMap,
        checks: &[(String, String)],
    ) -> Vec<CheckResult> {
        let limits = Limits { max_rows: CHECK_ROWS, ..self.options.limits };
        let results = run_checks(pages, root, checks, limits).into_iter();
        results
            .zip(checks)
            .map(|(result, (name, sql))| CheckResult {
                name: name.clone(),
                sql: sql.clone(),
                passed: result.passed(),
                columns: result.columns,
                rows: result.rows,
                row_count: result.row_count,
                error: result.error.map(|error| error.to_string()),
            })
            .collect()
    }

    /// Orders a table change: stored in parts first if it does not fit one record.
    pub(crate) fn log_body(&self, bytes: Vec<u8>) -> Result<LogBody> {
        // Half a record leaves room for the rest of the operation.
        let part = PART_BYTES.min(self.lock().journal.record_bytes_max() / 2);
        if bytes.len() <= part {
            return Ok(LogBody::Inline(bytes));
        }
        if bytes.len() as u64 > limits::PARTS_BYTES {
            let message = format!("the transaction is too large, bytes=`{}`", bytes.len());
            return Err(Error::no(Kind::TooLarge, message));
        }
        let transaction = self.lock().unique();
        let parts: Vec<&[u8]> = bytes.chunks(part).collect();
        let count = u32::try_from(parts.len()).expect("bounded by the size of a transaction");
        let last = self.lock().submit_parts(transaction, &parts)?;
        self.durable(last)?;
        let digest = body::digest(&bytes);
        Ok(LogBody::Parts { transaction, parts: count, bytes: bytes.len() as u64, digest })
    }

    /// Forgets what is only kept while a branch is open.
    pub(crate) fn forget_branch(&self, branch: BranchId) {
        self.views.forget(branch);
        self.writers.forget(branch);
        self.reads.forget(branch);
    }
}

impl Snapshot {
    /// The version of the tables below the branch that a read sees.
    pub(crate) fn read_version(&self) -> TableVersion {
        self.view.source.origin.1
    }
}

/// A transaction under way.
struct Running {
    snapshot: Snapshot,
    connection: Connection,
}

impl Running {
    fn open(shared: &Shared, snapshot: Snapshot, options: &SqlOptions) -> Result<Running> {
        let View { root, pages, .. } = &snapshot.view;
        let limits = shared.limits(options);
        let access = if options.read_only { Access::ReadOnly } else { Access::ReadWrite };
        let connection = Connection::open(Arc::clone(pages), root.clone(), limits, access)?;
        Ok(Running { snapshot, connection })
    }

    fn run(&mut self, shared: &Shared, sql: &str, params: &[Value]) -> Result<SqlResult> {
        let result = self.connection.run(sql, params)?;
        let read = self.connection.tables_read();
        shared.reads.read(self.snapshot.branch, read, self.snapshot.read_version());
        Ok(told(result, self.snapshot.index))
    }

    /// Commits; the index of the commit, or `None` if nothing was written.
    fn commit(mut self, shared: &Shared, by: &Origin, attempt: u32) -> Result<Option<u64>> {
        let mut sink =
            LogSink { shared, snapshot: &self.snapshot, by, attempt, answer: None, error: None };
        let committed = self.connection.commit(&mut sink);
        let (answer, error) = (sink.answer, sink.error);
        match committed {
            Ok(committed) if committed.changed => Ok(answer),
            Ok(_) => Ok(None),
            Err(CommitError::Refused(refusal)) => {
                Err(error
                    .unwrap_or_else(|| Error::unknown(Kind::UnknownOutcome, refusal.to_string())))
            }
            // The log has it although SQLite then failed: the record decides.
            Err(CommitError::Sql(_)) if answer.is_some() => Ok(answer),
            Err(CommitError::Sql(sql)) => Err(error.unwrap_or_else(|| sql.into())),
        }
    }
}

fn told(result: RunResult, read_index: u64) -> SqlResult {
    SqlResult {
        columns: result.columns,
        rows: result.rows,
        truncated: result.truncated,
        changes: result.changes,
        index: None,
        read_index,
        behind: None,
    }
}

/// Where SQLite's commit goes: into the log.
struct LogSink<'a> {
    shared: &'a Shared,
    snapshot: &'a Snapshot,
    by: &'a Origin,
    attempt: u32,
    answer: Option<u64>,
    error: Option<Error>,
}

impl anabranch_sql::CommitSink for LogSink<'_> {
    fn commit(&mut self, commit: &CommitSet) -> std::result::Result<(), SinkRefusal> {
        match self.order(commit) {
            Ok(index) => {
                self.answer = Some(index);
                Ok(())
            }
            Err(error) => {
                let reason = error.message.clone();
                let applied = error.happened != anabranch_log::Happened::No;
                self.error = Some(error);
                Err(if applied {
                    SinkRefusal::Unknown { reason }
                } else {
                    SinkRefusal::NotApplied { reason }
                })
            }
        }
    }
}

impl LogSink<'_> {
    fn order(&self, commit: &CommitSet) -> Result<u64> {
        let Snapshot { branch, view, base, parent, checks, .. } = self.snapshot;
        if let Some(clash) = &view.behind {
            let message = format!("the fork is behind its parent and takes no SQL writes: {clash}");
            return Err(Error::no(Kind::Conflict, message));
        }
        if !checks.is_empty() && parent.is_none() {
            let results = self.shared.checked(&view.pages, &commit.root, checks);
            if let Some(error) = failed_checks(&results) {
                return Err(error);
            }
        }
        let bytes = if parent.is_some() {
            Body::encode_changes(commit)
        } else {
            encode_with_pages(&self.snapshot.view, commit)?
        };
        let operation = Operation::Commit {
            branch: *branch,
            base: *base,
            parent: *parent,
            body: self.shared.log_body(bytes)?,
            summary: summary(&commit.steps).encode(),
        };
        match self.shared.decided(operation, self.by, self.attempt)? {
            Ok(Outcome::Committed { index }) => Ok(index.0),
            Ok(other) => Err(unexpected(&other)),
            Err(Refusal::BaseMoved { .. }) => {
                Err(Error::no(Kind::TablesMoved, "the tables changed since the statements ran"))
            }
            Err(refusal) => Err(refusal.into()),
        }
    }
}

/// The record's pages are relative to the real page map: of a frozen fork cut from a live one,
/// the first commit brings the derived pages along.
pub(crate) fn encode_with_pages(view: &View, commit: &CommitSet) -> Result<Vec<u8>> {
    let View { pages, source, .. } = view;
    let page_error = |error: anabranch_sql::PageError| {
        Error::no(Kind::Corrupt, "a page cannot be read").because(error)
    };
    if source.layers.is_empty() {
        return Body::encode_with_pages(&**pages, commit).map_err(page_error);
    }
    let mut moved = Vec::new();
    for number in source.root.diff(&commit.root) {
        if let Some(page) = commit.root.get(number) {
            moved.push((number, pages.get(page).map_err(page_error)?));
        }
    }
    let commit = CommitSet { base: source.root.clone(), pages: moved, ..commit.clone() };
    Body::encode_with_pages(&**pages, &commit).map_err(page_error)
}

/// An error that names the first failed check, or `None` if all passed.
pub(crate) fn failed_checks(results: &[CheckResult]) -> Option<Error> {
    let failed: Vec<_> = results.iter().filter(|result| !result.passed).collect();
    let first = failed.first()?;
    let why = match &first.error {
        Some(error) => error.clone(),
        None => format!("{} offending row(s)", first.row_count),
    };
    let message = format!("check `{}` failed: {why}; failed checks=`{}`", first.name, failed.len());
    Some(Error::no(Kind::CheckFailed, message))
}

/// What the history keeps of a commit.
pub(crate) fn summary(steps: &[Step]) -> Summary {
    Summary {
        tables: counts(steps)
            .into_iter()
            .map(|table| (table.table, table.inserts, table.updates, table.deletes))
            .collect(),
        schema: steps
            .iter()
            .filter_map(|step| match step {
                Step::Schema(sql) => Some(sql.clone()),
                _ => None,
            })
            .collect(),
        cut: false,
    }
}

/// An open SQL transaction on one branch. Dropping it rolls back.
///
/// It holds no lock: other writers of the branch go on, and if one of them commits first, the
/// commit of this one is refused with `tables_moved`.
pub struct Transaction {
    running: Running,
    shared: Arc<Shared>,
    by: Origin,
}

impl Transaction {
    /// Runs statements inside the transaction. An error may have rolled it back: begin again.
    pub fn run(&mut self, sql: &str, params: &[Value]) -> Result<SqlResult> {
        self.running.run(&self.shared, sql, params)
    }

    /// Runs one statement once per row of parameters; returns the number of rows changed.
    pub fn run_many(&mut self, sql: &str, rows: &[Vec<Value>]) -> Result<u64> {
        Ok(self.running.connection.run_many(sql, rows.iter().map(Vec::as_slice))?)
    }

    /// Commits; returns the index, or `None` when nothing was written. Applied on return.
    pub fn commit(mut self) -> Result<Option<u64>> {
        let branch = self.running.snapshot.branch;
        let writer = self.shared.writers.of(branch);
        let _turn = turn(&writer);
        // Checks may have been added since the beginning; adding one takes its turn, too.
        self.running.snapshot.checks = self.shared.checks_of(branch);
        self.running.commit(&self.shared, &self.by, 0)
    }

    /// Rolls back.
    pub fn rollback(mut self) {
        self.running.connection.rollback();
    }
}

/// A caller's write number for several operations of one call: only the last one may use it.
pub(crate) fn inner(by: &Origin) -> Origin {
    Origin { write: None::<SessionWrite>, ..by.clone() }
}
