//! Checks: named queries that must return no rows.
//!
//! A check is one query of a branch. It passes when it returns no row; rows it returns are the
//! evidence against the branch. A check that cannot run has failed too.

use std::sync::Arc;

use crate::connection::{Connection, RunResult, statements};
use crate::error::{SqlError, SqlErrorKind};
use crate::limits::{Access, Limits};
use crate::map::PageMap;
use crate::page::PageStore;
use crate::value::Value;

/// What one check found.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckResult {
    /// Name of the check.
    pub name: String,
    /// Column names of the query.
    pub columns: Vec<String>,
    /// Rows that should not be there, up to the limits.
    pub rows: Vec<Vec<Value>>,
    /// How many there are in all, also beyond the limits.
    pub row_count: u64,
    /// Why the check could not run.
    pub error: Option<SqlError>,
}

impl CheckResult {
    /// Whether the check ran and found nothing.
    pub fn passed(&self) -> bool {
        self.row_count == 0 && self.error.is_none()
    }
}

/// Runs checks (name, query) on the pages of a branch, in order. The limits hold for each check.
pub fn run_checks(
    store: &Arc<dyn PageStore>,
    root: &PageMap,
    checks: &[(String, String)],
    limits: Limits,
) -> Vec<CheckResult> {
    checks.iter().map(|(name, sql)| run_check(store, root, name, sql, limits)).collect()
}

fn run_check(
    store: &Arc<dyn PageStore>,
    root: &PageMap,
    name: &str,
    sql: &str,
    limits: Limits,
) -> CheckResult {
    let run = || {
        let mut connection =
            Connection::open(Arc::clone(store), root.clone(), limits, Access::ReadOnly)?;
        let found = connection.run(sql, &[])?;
        // Of a list that was cut the rest is counted, so that the number shown is the whole one.
        let row_count =
            if found.truncated { count(&mut connection, sql)? } else { found.row_count };
        Ok::<_, SqlError>((found, row_count))
    };
    let name = name.to_owned();
    match run() {
        Ok((RunResult { columns, rows, .. }, row_count)) => {
            CheckResult { name, columns, rows, row_count, error: None }
        }
        Err(error) => CheckResult {
            name,
            columns: Vec::new(),
            rows: Vec::new(),
            row_count: 0,
            error: Some(error),
        },
    }
}

fn count(connection: &mut Connection, sql: &str) -> Result<u64, SqlError> {
    let query = sql.trim_end().trim_end_matches(';');
    let counted = connection.run(&format!("SELECT count(*) FROM ({query})"), &[])?;
    match counted.rows.first().and_then(|row| row.first()) {
        Some(Value::Integer(count)) => Ok(count.unsigned_abs()),
        _ => Err(SqlError::internal("a count is not a number")),
    }
}

/// Says whether a query can be a check on this branch: one query, reading only, that SQLite
/// accepts with the branch's tables.
pub fn validate_check(
    store: &Arc<dyn PageStore>,
    root: &PageMap,
    sql: &str,
) -> Result<(), SqlError> {
    let limits = Limits { max_rows: 1, ..Limits::default() };
    let mut connection =
        Connection::open(Arc::clone(store), root.clone(), limits, Access::ReadOnly)?;
    if statements(sql).len() != 1 {
        return Err(SqlError::new(SqlErrorKind::Statement, "a check is exactly one query"));
    }
    // As a subquery: whatever is not a query is refused by the grammar.
    let query = sql.trim_end().trim_end_matches(';');
    connection.run(&format!("SELECT 1 FROM ({query}) LIMIT 0"), &[])?;
    Ok(())
}
