//! SQL, tables and checks.

use std::time::Duration;

use anabranch_api::SqlValue;
use anabranch_api::http::{
    AddCheckRequest, Bare, Check, CheckList, CheckResult, CheckResults, Done, SqlReply, SqlRequest,
    TableInfo, TableList, path,
};

use crate::{Client, Result};

/// What to run and within which limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SqlCall {
    /// One or more statements; together one transaction.
    pub sql: String,
    /// Values of `?1`, `?2`, ….
    pub params: Vec<SqlValue>,
    /// Refuse statements that would write. Such a call needs no session and is repeated freely.
    pub read_only: bool,
    /// Most rows returned; `None` is the server's most.
    pub max_rows: Option<usize>,
    /// Longest run in milliseconds; `None` is the server's default.
    pub timeout_ms: Option<u64>,
}

impl SqlCall {
    /// Statements that may write.
    #[must_use]
    pub fn new(sql: impl Into<String>) -> SqlCall {
        SqlCall { sql: sql.into(), ..SqlCall::default() }
    }

    /// Statements that only read.
    #[must_use]
    pub fn query(sql: impl Into<String>) -> SqlCall {
        SqlCall { read_only: true, ..SqlCall::new(sql) }
    }

    /// The same call with parameters.
    #[must_use]
    pub fn with(mut self, params: impl IntoIterator<Item = impl Into<SqlValue>>) -> SqlCall {
        self.params = params.into_iter().map(Into::into).collect();
        self
    }
}

impl Client {
    /// Runs statements as one transaction; what they wrote is committed on return.
    pub fn sql(&self, branch: &str, call: &SqlCall) -> Result<SqlReply> {
        let path = path::on_branch(branch, "sql");
        let request = |by| SqlRequest {
            sql: call.sql.clone(),
            params: call.params.clone(),
            read_only: call.read_only,
            max_rows: call.max_rows,
            timeout_ms: call.timeout_ms,
            by,
        };
        let extra = Duration::from_millis(call.timeout_ms.unwrap_or_default());
        if call.read_only {
            return self.ask(&path, &request(self.by()), extra);
        }
        self.write_call(&path, extra, request)
    }

    /// Tables of a branch.
    pub fn tables(&self, branch: &str) -> Result<Vec<TableInfo>> {
        let list: TableList = self.read_call(&path::on_branch(branch, "tables"), &())?;
        Ok(list.tables)
    }

    /// Adds a check: a query that must return no rows before a promotion lands on the branch.
    /// Returns the index.
    pub fn add_check(&self, branch: &str, name: &str, sql: &str) -> Result<u64> {
        let path = path::on_branch(branch, "checks");
        let done: Done = self.write_call(&path, Duration::ZERO, |by| AddCheckRequest {
            name: name.to_owned(),
            sql: sql.to_owned(),
            by,
        })?;
        Ok(done.index)
    }

    /// Removes a check; returns the index.
    pub fn drop_check(&self, branch: &str, name: &str) -> Result<u64> {
        let path = path::drop_check(branch, name);
        let done: Done = self.write_call(&path, Duration::ZERO, |by| Bare { by })?;
        Ok(done.index)
    }

    /// Checks of a branch.
    pub fn checks(&self, branch: &str) -> Result<Vec<Check>> {
        let list: CheckList = self.read_call(&path::on_branch(branch, "checks"), &())?;
        Ok(list.checks)
    }

    /// Runs the checks of a branch on the branch as it is.
    pub fn run_checks(&self, branch: &str) -> Result<Vec<CheckResult>> {
        let path = path::on_branch(branch, "checks/run");
        let results: CheckResults = self.ask(&path, &Bare::default(), Duration::ZERO)?;
        Ok(results.results)
    }
}
