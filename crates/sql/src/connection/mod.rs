//! One SQLite connection on a private clone of a branch's pages.
//!
//! A connection is cheap to open and holds no state of the branch: open one per transaction, or
//! keep one per (branch, version). It starts from one root and moves only by its own commits;
//! when the branch moved otherwise, drop it and open another (a root is never swapped under an
//! open connection). The runner owns the transaction: statements come through [`Connection::run`],
//! BEGIN and COMMIT through [`Connection::begin`] and [`Connection::commit`].
//!
//! Invariants: `steps` holds exactly the changes of the statements that succeeded in the open
//! transaction; without a transaction it is empty and SQLite is in autocommit mode.

mod capture;
mod commit;
mod fingerprint;
mod monitor;
mod policy;
mod run;
mod script;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use rusqlite::OpenFlags;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;

use crate::change::{CommitSet, Step};
use crate::error::{SqlError, SqlErrorKind};
use crate::limits::{Access, Environment, Limits};
use crate::map::PageMap;
use crate::page::PageStore;
use crate::preupdate::RowHook;
use crate::value::Value;
use crate::vfs::{self, BranchFile, VFS_NAME};

pub(crate) use capture::{Capture, Captures, quote};
pub use monitor::Cancel;
use monitor::{Monitor, OPS_PER_TICK};
use policy::{Facts, Policy};

/// What a call returned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunResult {
    /// Column names of the last statement that returns rows.
    pub columns: Vec<String>,
    /// Its rows, up to the limits.
    pub rows: Vec<Vec<Value>>,
    /// Whether rows beyond the limits were left out.
    pub truncated: bool,
    /// Rows returned; if `truncated`, there are more.
    pub row_count: u64,
    /// Rows inserted, updated or deleted by all statements (not by triggers or foreign keys).
    pub changes: u64,
}

/// Why a sink did not take a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkRefusal {
    /// It did not happen and will not. The connection stays usable at its old root.
    NotApplied {
        /// Why.
        reason: String,
    },
    /// It may happen. The connection must be dropped.
    Unknown {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for SinkRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SinkRefusal::NotApplied { reason } => write!(f, "commit was not applied: {reason}"),
            SinkRefusal::Unknown { reason } => {
                write!(f, "outcome of the commit is unknown: {reason}")
            }
        }
    }
}

impl std::error::Error for SinkRefusal {}

/// Where a commit goes: called from within SQLite's commit, once every constraint is checked.
pub trait CommitSink {
    /// Makes the commit happen (returns when it is ordered and applied) or refuses it.
    fn commit(&mut self, commit: &CommitSet) -> Result<(), SinkRefusal>;
}

impl<F: FnMut(&CommitSet) -> Result<(), SinkRefusal>> CommitSink for F {
    fn commit(&mut self, commit: &CommitSet) -> Result<(), SinkRefusal> {
        self(commit)
    }
}

/// Why a commit did not return `Committed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitError {
    /// SQLite said no (a deferred constraint, a size limit): nothing happened.
    Sql(SqlError),
    /// The sink refused.
    Refused(SinkRefusal),
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommitError::Sql(error) => error.fmt(f),
            CommitError::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for CommitError {}

/// A finished commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Whether anything was written; if not, the sink was not called.
    pub changed: bool,
    /// The branch's pages now.
    pub root: PageMap,
}

/// One SQLite connection on a private clone of a branch's pages.
pub struct Connection {
    // First, so that SQLite is closed before the hook's context goes away.
    database: rusqlite::Connection,
    hook: RowHook,
    file: Arc<BranchFile>,
    policy: Arc<Policy>,
    monitor: Arc<Monitor>,
    limits: Limits,
    access: Access,
    environment: Environment,
    captures: Captures,
    /// Facts of the statements in rusqlite's cache.
    facts: BTreeMap<String, Arc<Facts>>,
    steps: Vec<Step>,
    tables_read: BTreeSet<String>,
    transaction: Transaction,
}

/// Where the connection's transaction stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Transaction {
    None,
    Open,
    /// SQLite rolled it back in the middle of a statement; waits for `rollback` or `begin`.
    Aborted,
    /// A commit has an unknown outcome: only dropping the connection is left.
    Lost,
}

/// Prepared statements kept per connection.
const CACHED_STATEMENTS: usize = 64;

impl Connection {
    /// Opens a connection on `root`. Costs some tens of microseconds and reads at most the first
    /// page.
    pub fn open(
        store: Arc<dyn PageStore>,
        root: PageMap,
        limits: Limits,
        access: Access,
    ) -> Result<Connection, SqlError> {
        Connection::open_in(store, root, limits, access, Environment::default())
    }

    /// As [`Connection::open`], with a fixed clock or fixed randomness for SQL functions.
    pub fn open_in(
        store: Arc<dyn PageStore>,
        root: PageMap,
        limits: Limits,
        access: Access,
        environment: Environment,
    ) -> Result<Connection, SqlError> {
        vfs::register().map_err(|code| SqlError {
            sqlite_code: Some(code),
            ..SqlError::internal("the virtual file system could not be registered")
        })?;
        let file = BranchFile::new(store, root, limits.max_pages, limits.max_commit_bytes);
        let file = Arc::new(file);
        let name = vfs::open_name(Arc::clone(&file));
        let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX
            | match access {
                Access::ReadOnly => OpenFlags::SQLITE_OPEN_READ_ONLY,
                Access::ReadWrite => {
                    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
                }
            };
        let explain = |error: SqlError| match file.take_failure() {
            Some(failure) => run::file_error(&failure, &limits, &error),
            None => error,
        };
        let mut database = rusqlite::Connection::open_with_flags_and_vfs(&name.0, flags, VFS_NAME)
            .map_err(|error| explain(error.into()))?;
        configure(&database, &limits, access).map_err(explain)?;
        if let Some(seed) = environment.seed {
            vfs::replace_random(&database, seed)?;
        }
        let monitor = Arc::new(Monitor::default());
        let ticks = Arc::clone(&monitor);
        let every = OPS_PER_TICK.cast_signed();
        database.progress_handler(every, Some(move || ticks.tick()))?;
        let policy = Arc::new(Policy::default());
        policy.install(&mut database)?;
        let hook =
            RowHook::install(&database, limits.max_commit_bytes, Arc::clone(&monitor.overflow));
        Ok(Connection {
            database,
            hook,
            file,
            policy,
            monitor,
            limits,
            access,
            environment,
            captures: Captures::new(),
            facts: BTreeMap::new(),
            steps: Vec::new(),
            tables_read: BTreeSet::new(),
            transaction: Transaction::None,
        })
    }

    /// The branch's pages as last committed through this connection (or as opened).
    pub fn root(&self) -> PageMap {
        self.file.root()
    }

    /// Tables and views read since the transaction began (on a read-only connection: since it was
    /// opened), lower case. Tables updated or deleted from count as read.
    pub fn tables_read(&self) -> BTreeSet<String> {
        self.tables_read.clone()
    }

    /// Whether a transaction is open and can go on.
    pub fn in_transaction(&self) -> bool {
        self.transaction == Transaction::Open
    }

    /// A handle that stops running calls of this connection from another thread.
    pub fn cancel_handle(&self) -> Cancel {
        Cancel::new(Arc::clone(&self.monitor))
    }

    /// Runs statements of this crate: no authorizer, no limits on time, nothing noted.
    pub(crate) fn internal<T>(
        &self,
        run: impl FnOnce(&rusqlite::Connection) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let before = self.policy.set_internal(true);
        let result = run(&self.database);
        self.policy.set_internal(before);
        result.map_err(|error| self.explain(error))
    }
}

fn configure(
    database: &rusqlite::Connection,
    limits: &Limits,
    access: Access,
) -> Result<(), SqlError> {
    database.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    let cap = |bytes: usize| i32::try_from(bytes).unwrap_or(i32::MAX);
    let longest = limits.max_commit_bytes.max(limits.max_result_bytes).max(1024 * 1024);
    database.set_limit(Limit::SQLITE_LIMIT_LENGTH, cap(longest).min(1_000_000_000))?;
    database.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    database.set_limit(Limit::SQLITE_LIMIT_WORKER_THREADS, 0)?;
    let mut settings = String::from("PRAGMA journal_mode=MEMORY; PRAGMA synchronous=NORMAL;");
    if access == Access::ReadWrite {
        use fmt::Write as _;
        let _ = write!(settings, "PRAGMA max_page_count={};", limits.max_pages.max(1));
    }
    Ok(database.execute_batch(&settings)?)
}

/// A column of a result as a value; text that is not UTF-8 is an error, never other text.
pub(crate) fn value_of(value: ValueRef<'_>) -> Result<Value, SqlError> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(bytes) => {
            if let Ok(text) = std::str::from_utf8(bytes) {
                Value::Text(text.to_owned())
            } else {
                let message = "a result is text that is not valid UTF-8; cast it to BLOB";
                return Err(SqlError::new(SqlErrorKind::InvalidText, message));
            }
        }
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    })
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(rusqlite::types::ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
