//! Running statements inside the transaction.
//!
//! Each writing statement runs in a savepoint of its own, so that a statement that fails leaves
//! nothing, neither rows nor row images, whatever its conflict clause (`OR FAIL` would keep what
//! it did so far). Where SQLite rolls the whole transaction back (interrupt, full, `OR ROLLBACK`)
//! the transaction is aborted.

use std::sync::Arc;

use rusqlite::{CachedStatement, Rows};

use super::capture::{self, Capture};
use super::monitor::Stop;
use super::policy::Facts;
use super::script::{self, Piece};
use super::{CACHED_STATEMENTS, Connection, RunResult, Transaction, value_of};
use crate::change::{ChangeKind, Fingerprint, RowChange, Step};
use crate::error::{SqlError, SqlErrorKind};
use crate::limits::{Access, Limits};
use crate::page::PageError;
use crate::preupdate::Problem;
use crate::value::Value;
use crate::vfs::{ClockGuard, FileFailure};

impl Connection {
    /// Runs one or many statements inside the open transaction; on a read-write connection
    /// without one, begins it. Statements take their parameters in order from `params`; the
    /// number must fit. An error leaves nothing of the failing statement; earlier statements of
    /// the script stay, unless [`Connection::in_transaction`] says that the transaction is gone.
    ///
    /// Nothing is durable before [`Connection::commit`].
    pub fn run(&mut self, sql: &str, params: &[Value]) -> Result<RunResult, SqlError> {
        self.call(sql, |connection| {
            let mut result = RunResult::default();
            let mut left = params;
            for piece in script::statements(sql) {
                let found = connection.statement(piece, &mut left, &mut result);
                found.map_err(|mut error| {
                    error.offset = Some(piece.start + error.offset.unwrap_or(0));
                    error
                })?;
            }
            if left.is_empty() {
                return Ok(result);
            }
            let (given, used) = (params.len(), params.len() - left.len());
            Err(SqlError::new(
                SqlErrorKind::Parameters,
                format!("the statements have {used} parameters, but {given} values were given"),
            ))
        })
    }

    /// Runs one statement once per row of parameters, as one step that happens or leaves nothing;
    /// returns the number of rows changed. The way to load many rows.
    pub fn run_many<R: AsRef<[Value]>>(
        &mut self,
        sql: &str,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<u64, SqlError> {
        self.call(sql, |connection| {
            let pieces = script::statements(sql);
            let [piece] = pieces.as_slice() else {
                let message = "exactly one statement is needed to run it many times";
                return Err(SqlError::new(SqlErrorKind::Statement, message));
            };
            connection.many(*piece, rows)
        })
    }

    /// Runs one query to its end, whatever the limits on rows; `row` gets the column names and
    /// each row.
    pub(crate) fn query(
        &mut self,
        sql: &str,
        row: &mut dyn FnMut(&[String], Vec<Value>),
    ) -> Result<(), SqlError> {
        self.call(sql, |connection| {
            connection.require_query(sql)?;
            let mut statement = connection.prepare(sql)?;
            let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
            let mut rows = statement.raw_query();
            loop {
                let found = rows.next().map_err(|error| connection.explain(error.into()))?;
                let Some(found) = found else { return Ok(()) };
                let values = (0..columns.len()).map(|column| value_of(found.get_ref(column)?));
                row(&columns, values.collect::<Result<_, _>>()?);
            }
        })
    }

    /// Refuses what is not one statement that reads only, returns rows and has no parameters.
    pub(crate) fn require_query(&mut self, sql: &str) -> Result<(), SqlError> {
        let refused = |message: &str| Err(SqlError::new(SqlErrorKind::Statement, message));
        if script::statements(sql).len() != 1 {
            return refused("a query must be exactly one statement");
        }
        refuse_by_name(sql)?;
        self.facts(sql)?;
        let statement = self.prepare(sql)?;
        if !statement.readonly() {
            return refused("a query must not change anything");
        }
        if statement.column_count() == 0 {
            return refused("a query must return rows");
        }
        if statement.parameter_count() > 0 {
            return refused("a query must have no parameters");
        }
        Ok(())
    }

    /// Begins a transaction. Needed only where it should begin before its first statement, or
    /// after the last one was aborted.
    pub fn begin(&mut self) -> Result<(), SqlError> {
        match self.transaction {
            Transaction::None | Transaction::Aborted => {
                self.internal(|database| Ok(database.prepare_cached("BEGIN")?.raw_execute()?))?;
                if self.access == Access::ReadWrite {
                    self.tables_read.clear();
                }
                self.transaction = Transaction::Open;
                Ok(())
            }
            Transaction::Open => {
                Err(SqlError::new(SqlErrorKind::Refused, "a transaction is already open"))
            }
            Transaction::Lost => Err(aborted(&Transaction::Lost)),
        }
    }

    /// Rolls the open transaction back; without one it does nothing.
    pub fn rollback(&mut self) {
        if !self.database.is_autocommit() {
            let done = self.internal(|database| Ok(database.execute_batch("ROLLBACK")?));
            if done.is_err() && !self.database.is_autocommit() {
                self.transaction = Transaction::Lost;
                return;
            }
        }
        self.forget();
        if self.transaction != Transaction::Lost {
            self.transaction = Transaction::None;
        }
    }

    /// Forgets what the transaction did: SQLite has rolled it back.
    pub(super) fn forget(&mut self) {
        self.steps.clear();
        self.file.discard();
        self.captures.clear();
        self.hook.with(|log| {
            log.rows.clear();
            log.bytes = 0;
            log.problem = None;
        });
    }

    /// What every call shares: limits, clock, transaction, and what became of it.
    fn call<T>(
        &mut self,
        sql: &str,
        run: impl FnOnce(&mut Connection) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        if sql.len() > self.limits.max_sql_bytes {
            let message = format!(
                "SQL text is longer than {} bytes: bytes=`{}`",
                self.limits.max_sql_bytes,
                sql.len()
            );
            return Err(SqlError::new(SqlErrorKind::TooLarge, message));
        }
        match self.transaction {
            Transaction::None if self.access == Access::ReadWrite => self.begin()?,
            Transaction::None | Transaction::Open => {}
            Transaction::Aborted | Transaction::Lost => return Err(aborted(&self.transaction)),
        }
        let _clock = ClockGuard::set(self.environment.now_ms);
        self.monitor.arm(self.limits.statement_ms, self.limits.statement_ops);
        let result = run(self);
        self.monitor.set_armed(false);
        if result.is_err() && self.transaction == Transaction::Open && self.database.is_autocommit()
        {
            self.forget();
            self.transaction = Transaction::Aborted;
        }
        result
    }

    fn statement(
        &mut self,
        piece: Piece<'_>,
        params: &mut &[Value],
        result: &mut RunResult,
    ) -> Result<(), SqlError> {
        refuse_by_name(piece.text)?;
        let facts = self.facts(piece.text)?;
        self.tables_read.extend(facts.reads.iter().cloned());
        if facts.schema && script::verb(piece.text) != "EXPLAIN" {
            return self.define(piece, &facts, params, result);
        }
        let total = self.database.total_changes();
        let writes = self.step(piece.text, params, result)?;
        // REINDEX and the like change no row and leave the count of the statement before.
        let counted = self.database.total_changes() != total;
        let changes = if counted { self.database.changes() } else { 0 };
        self.note_reads();
        if writes {
            result.changes += changes;
            self.finish_writing(&[])?;
        }
        Ok(())
    }

    /// Runs a schema statement and records it, with the rows that came or went with it.
    fn define(
        &mut self,
        piece: Piece<'_>,
        facts: &Facts,
        params: &mut &[Value],
        result: &mut RunResult,
    ) -> Result<(), SqlError> {
        let before = self.schema_version()?;
        let mut dropped = Vec::new();
        for table in &facts.drops {
            dropped.extend(self.rows_of(table, ChangeKind::Delete)?);
        }
        let mut columns = Vec::new();
        for table in facts.alters.iter().filter(|_| script::drops_column(piece.text)) {
            columns.extend(self.fingerprints(table)?);
        }
        let writes = self.step(piece.text, params, result)?;
        self.note_reads();
        if !writes {
            return Ok(());
        }
        if facts.virtual_table {
            // Rows of shadow tables: part of making or dropping the table itself.
            self.hook.with(|log| log.rows.clear());
        }
        let dropped = Dropped { rows: dropped, columns };
        let defined = self.defined(piece.text, facts, before, dropped);
        // Statements and shapes known so far were made for the schema before.
        self.captures.clear();
        self.facts.clear();
        self.database.flush_prepared_statement_cache();
        let steps = defined.inspect_err(|_| self.undo())?;
        self.release(steps)
    }

    /// The steps that a schema statement, which has just run, stands for.
    fn defined(
        &mut self,
        sql: &str,
        facts: &Facts,
        before: i64,
        dropped: Dropped,
    ) -> Result<Vec<Step>, SqlError> {
        let skip = facts.drops.clone();
        let mut steps = self.resolve(&skip)?;
        if self.schema_version()? == before {
            // IF NOT EXISTS and the like: nothing was defined.
            return Ok(steps);
        }
        if !dropped.rows.is_empty() {
            steps.push(Step::Rows(dropped.rows));
        }
        if !dropped.columns.is_empty() {
            self.captures.clear();
            steps.extend(self.dropped(dropped.columns)?.into_iter().map(Step::Drops));
        }
        if !script::creates_table_from_query(sql) {
            let sql = sql.trim_end().trim_end_matches(';').trim_end();
            steps.push(Step::Schema(sql.to_owned()));
            return Ok(steps);
        }
        self.captures.clear();
        for table in &facts.creates {
            let made: String = self.internal(|database| {
                let sql = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1 \
                           COLLATE NOCASE";
                Ok(database.query_row(sql, [table], |row| row.get(0))?)
            })?;
            steps.push(Step::Schema(made));
            let rows = self.rows_of(table, ChangeKind::Insert)?;
            if !rows.is_empty() {
                steps.push(Step::Rows(rows));
            }
        }
        Ok(steps)
    }

    /// Every row of a table as a change; none for what is not recorded by rows.
    fn rows_of(&mut self, table: &str, kind: ChangeKind) -> Result<Vec<RowChange>, SqlError> {
        let Some(capture) = self.capture(table)? else { return Ok(Vec::new()) };
        let Capture::Rows(rows) = &*capture else { return Ok(Vec::new()) };
        let left = self.hook.with(|log| log.max_bytes.saturating_sub(log.bytes));
        let changes = self.internal(|database| rows.all(database, kind, left))?;
        let images = changes.iter().flat_map(|row| [&row.old, &row.new]).flatten().flatten();
        let bytes: usize = images.map(Value::size_bytes).sum();
        self.hook.with(|log| log.bytes += bytes);
        Ok(changes)
    }

    fn many<R: AsRef<[Value]>>(
        &mut self,
        piece: Piece<'_>,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<u64, SqlError> {
        refuse_by_name(piece.text)?;
        let facts = self.facts(piece.text)?;
        self.tables_read.extend(facts.reads.iter().cloned());
        if facts.schema {
            let message = "a schema statement cannot run many times";
            return Err(SqlError::new(SqlErrorKind::Statement, message));
        }
        let changes = self.step_many(piece.text, rows)?;
        self.note_reads();
        self.finish_writing(&[])?;
        Ok(changes)
    }

    fn step_many<R: AsRef<[Value]>>(
        &self,
        sql: &str,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<u64, SqlError> {
        let mut statement = self.prepare(sql)?;
        let count = statement.parameter_count();
        self.savepoint()?;
        let mut changes = 0;
        let mut step = |row: &[Value]| {
            if row.len() != count {
                return Err(parameters(count, row.len()));
            }
            bind(&mut statement, row)?;
            let mut returned = statement.raw_query();
            while returned.next()?.is_some() {}
            drop(returned);
            changes += self.database.changes();
            Ok(())
        };
        for row in rows {
            if let Err(error) = step(row.as_ref()) {
                let error = self.explain(error);
                self.undo();
                return Err(error);
            }
        }
        if let Some(problem) = self.hook.with(|log| log.problem.take()) {
            self.undo();
            return Err(explain_problem(problem));
        }
        Ok(changes)
    }

    /// Steps one statement to its end. If it writes (then the answer is true), a savepoint is
    /// open on success, and gone with everything since on failure.
    fn step(
        &self,
        sql: &str,
        params: &mut &[Value],
        result: &mut RunResult,
    ) -> Result<bool, SqlError> {
        let mut statement = self.prepare(sql)?;
        let count = statement.parameter_count();
        let Some((own, rest)) = params.split_at_checked(count) else {
            return Err(parameters(count, params.len()));
        };
        *params = rest;
        bind(&mut statement, own)?;
        let writes = self.access == Access::ReadWrite
            && !statement.readonly()
            && statement.is_explain() == 0;
        if writes {
            self.savepoint()?;
        }
        let mut done = self.collect(&mut statement, result, writes);
        drop(statement);
        if done.is_ok()
            && let Some(problem) = self.hook.with(|log| log.problem.take())
        {
            done = Err(explain_problem(problem));
        }
        match done {
            Ok(()) => Ok(writes),
            Err(error) => {
                let error = self.explain(error);
                if writes {
                    self.undo();
                }
                Err(error)
            }
        }
    }

    fn prepare(&self, sql: &str) -> Result<CachedStatement<'_>, SqlError> {
        self.database.prepare_cached(sql).map_err(|error| self.explain(error.into()))
    }

    /// Reads the rows of a statement; a writing one always runs to its end.
    fn collect(
        &self,
        statement: &mut CachedStatement<'_>,
        result: &mut RunResult,
        writes: bool,
    ) -> Result<(), SqlError> {
        let width = statement.column_count();
        if width > 0 {
            let columns = statement.column_names().map(str::to_owned).collect();
            *result = RunResult { columns, changes: result.changes, ..RunResult::default() };
        }
        let mut bytes = 0;
        let mut rows: Rows<'_> = statement.raw_query();
        while let Some(row) = rows.next()? {
            if width == 0 || result.truncated {
                continue;
            }
            let mut values = Vec::with_capacity(width);
            for column in 0..width {
                values.push(value_of(row.get_ref(column)?)?);
            }
            bytes += values.iter().map(Value::size_bytes).sum::<usize>();
            if result.rows.len() >= self.limits.max_rows || bytes > self.limits.max_result_bytes {
                result.truncated = true;
                if writes {
                    continue;
                }
                break;
            }
            result.rows.push(values);
            result.row_count += 1;
        }
        Ok(())
    }

    /// What a statement does; prepares it the first time, under the authorizer's eyes.
    fn facts(&mut self, sql: &str) -> Result<Arc<Facts>, SqlError> {
        if let Some(facts) = self.facts.get(sql) {
            return Ok(Arc::clone(facts));
        }
        if self.facts.len() >= CACHED_STATEMENTS {
            self.facts.clear();
        }
        self.policy.take_facts();
        self.policy.take_refusal();
        // Not from the cache: that also holds statements of this crate, which nobody judged.
        if let Err(error) = self.database.prepare(sql) {
            return Err(self.explain(error.into()));
        }
        let facts = Arc::new(self.policy.take_facts());
        self.facts.insert(sql.to_owned(), Arc::clone(&facts));
        Ok(facts)
    }

    /// Tables that a statement drops; empty for anything else.
    pub(crate) fn drops(&mut self, sql: &str) -> Result<Vec<String>, SqlError> {
        Ok(self.facts(sql)?.drops.clone())
    }

    /// Adds what statements within the last one read (full text reads its shadow tables).
    fn note_reads(&mut self) {
        let more = self.policy.take_facts().reads;
        self.tables_read.extend(more);
    }

    fn schema_version(&self) -> Result<i64, SqlError> {
        self.internal(|database| {
            let mut query = database.prepare_cached("PRAGMA schema_version")?;
            Ok(query.query_row([], |row| row.get(0))?)
        })
    }

    pub(crate) fn capture(&mut self, table: &str) -> Result<Option<Arc<Capture>>, SqlError> {
        let mut captures = std::mem::take(&mut self.captures);
        let found = self.internal(|database| capture::capture_of(database, &mut captures, table));
        self.captures = captures;
        found
    }

    /// Takes the rows out of the log as steps.
    fn resolve(&mut self, skip: &[String]) -> Result<Vec<Step>, SqlError> {
        let (names, rows) = self.hook.with(|log| {
            let rows = std::mem::take(&mut log.rows);
            (if rows.is_empty() { Vec::new() } else { log.names.clone() }, rows)
        });
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let mut captures = std::mem::take(&mut self.captures);
        let steps =
            self.internal(|database| capture::resolve(database, &mut captures, &names, rows, skip));
        self.captures = captures;
        steps
    }

    /// Ends a writing statement that succeeded: its rows become steps, its savepoint goes.
    fn finish_writing(&mut self, skip: &[String]) -> Result<(), SqlError> {
        self.monitor.set_armed(false);
        let steps = self.resolve(skip).inspect_err(|_| self.undo());
        let done = steps.and_then(|steps| self.release(steps));
        self.monitor.set_armed(true);
        done
    }

    fn savepoint(&self) -> Result<(), SqlError> {
        self.hook.with(|log| log.mark = log.bytes);
        self.command("SAVEPOINT anabranch")
    }

    fn release(&mut self, steps: Vec<Step>) -> Result<(), SqlError> {
        self.command("RELEASE anabranch")?;
        for step in steps {
            match (self.steps.last_mut(), step) {
                (Some(Step::Rows(rows)), Step::Rows(more)) => rows.extend(more),
                (_, step) => self.steps.push(step),
            }
        }
        Ok(())
    }

    /// Takes back everything since the savepoint; where SQLite rolled back everything already,
    /// there is none.
    fn undo(&self) {
        self.hook.with(|log| {
            log.rows.clear();
            log.bytes = log.mark;
            log.problem = None;
        });
        if self.database.is_autocommit() {
            return;
        }
        self.monitor.set_armed(false);
        let undone =
            self.command("ROLLBACK TO anabranch").and_then(|()| self.command("RELEASE anabranch"));
        if undone.is_err() {
            // Without its savepoint the transaction must not go on: end it, which `call` notices.
            let _ = self.command("ROLLBACK");
        }
        self.monitor.set_armed(true);
    }

    fn command(&self, sql: &'static str) -> Result<(), SqlError> {
        self.internal(|database| {
            database.prepare_cached(sql)?.raw_execute()?;
            Ok(())
        })
    }

    /// Replaces what SQLite said by what is known to be behind it.
    pub(super) fn explain(&self, error: SqlError) -> SqlError {
        let kinded = |kind, message: String| SqlError { kind, message, ..error.clone() };
        if let Some(reason) = self.policy.take_refusal() {
            return kinded(SqlErrorKind::Refused, reason);
        }
        if let Some(failure) = self.file.take_failure() {
            return file_error(&failure, &self.limits, &error);
        }
        if error.sqlite_code.is_some_and(|code| code & 0xff == rusqlite::ffi::SQLITE_INTERRUPT) {
            return match self.monitor.why() {
                Some(Stop::Cancelled) => {
                    kinded(SqlErrorKind::Cancelled, String::from("the call was cancelled"))
                }
                Some(Stop::Overflow) => match self.hook.with(|log| log.problem.take()) {
                    Some(problem) => explain_problem(problem),
                    None => error,
                },
                Some(Stop::Work) => kinded(
                    SqlErrorKind::Timeout,
                    format!("the call took more than {} operations", self.limits.statement_ops),
                ),
                Some(Stop::Time) | None => kinded(
                    SqlErrorKind::Timeout,
                    format!("the call took more than {} ms", self.limits.statement_ms),
                ),
            };
        }
        error
    }
}

/// What a schema statement may take away, as it was before.
struct Dropped {
    rows: Vec<RowChange>,
    columns: Vec<Fingerprint>,
}

/// Refuses what cannot be told from SQLite's questions, or would be told badly.
fn refuse_by_name(sql: &str) -> Result<(), SqlError> {
    let message = match script::verb(sql).as_str() {
        "BEGIN" | "COMMIT" | "END" | "ROLLBACK" | "SAVEPOINT" | "RELEASE" => {
            "BEGIN, COMMIT, ROLLBACK, SAVEPOINT and RELEASE are not allowed: the transaction is \
             opened and committed from outside"
        }
        "VACUUM" => "VACUUM is not allowed: it would copy every page that forks share",
        "ATTACH" | "DETACH" => "ATTACH and DETACH are not allowed: a branch is one database",
        _ => return Ok(()),
    };
    Err(SqlError::new(SqlErrorKind::Refused, message))
}

fn bind(statement: &mut CachedStatement<'_>, values: &[Value]) -> Result<(), SqlError> {
    for (position, value) in values.iter().enumerate() {
        statement.raw_bind_parameter(position + 1, value)?;
    }
    Ok(())
}

fn parameters(wanted: usize, left: usize) -> SqlError {
    let message = format!("a statement has {wanted} parameters, but {left} values are left for it");
    SqlError::new(SqlErrorKind::Parameters, message)
}

/// Why a connection whose transaction went away does nothing more.
pub(super) fn aborted(transaction: &Transaction) -> SqlError {
    let message = match transaction {
        Transaction::Lost => "a commit has an unknown outcome: open another connection",
        _ => "the transaction was rolled back by an earlier error",
    };
    SqlError::new(SqlErrorKind::Aborted, message)
}

fn explain_problem(problem: Problem) -> SqlError {
    match problem {
        Problem::TooLarge => SqlError::new(
            SqlErrorKind::TooLarge,
            "the transaction changes more bytes of rows than allowed",
        ),
        Problem::InvalidText { table } => SqlError::new(
            SqlErrorKind::InvalidText,
            format!("text stored in table `{table}` is not valid UTF-8; store it as BLOB"),
        ),
        Problem::Sqlite { code } => SqlError {
            sqlite_code: Some(code),
            ..SqlError::internal("the image of a changed row could not be read")
        },
    }
}

/// The error that SQLite's I/O error stands for.
pub(super) fn file_error(failure: &FileFailure, limits: &Limits, error: &SqlError) -> SqlError {
    let (kind, message) = explain_file(failure, limits);
    SqlError { kind, message, ..error.clone() }
}

fn explain_file(failure: &FileFailure, limits: &Limits) -> (SqlErrorKind, String) {
    match failure {
        FileFailure::Page(PageError::Full) => {
            (SqlErrorKind::Full, String::from("no room for another page"))
        }
        FileFailure::Page(error @ PageError::Io { .. }) => {
            (SqlErrorKind::Unavailable, error.to_string())
        }
        FileFailure::Page(error) => (SqlErrorKind::Corrupt, error.to_string()),
        FileFailure::WrongSize => {
            (SqlErrorKind::Corrupt, String::from("a stored page has another size"))
        }
        FileFailure::TooManyPages => {
            let message = format!("the branch would have more than {} pages", limits.max_pages);
            (SqlErrorKind::TooLarge, message)
        }
        FileFailure::CommitTooLarge => {
            let most = limits.max_commit_bytes;
            let message = format!("the transaction changes more than {most} bytes of pages");
            (SqlErrorKind::TooLarge, message)
        }
        FileFailure::NotAPage | FileFailure::SyncOutsideCommit | FileFailure::Panicked => {
            (SqlErrorKind::Internal, format!("defect below SQLite: {failure:?}"))
        }
    }
}
