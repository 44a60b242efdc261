//! Checks: named queries that must return no rows.
//!
//! A check is one query of a branch. It passes when it returns no row; rows it returns are the
//! evidence against the branch. A check that cannot run has failed too.

use std::sync::Arc;

use crate::connection::Connection;
use crate::error::SqlError;
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
    let mut result = CheckResult {
        name: name.to_owned(),
        columns: Vec::new(),
        rows: Vec::new(),
        row_count: 0,
        error: None,
    };
    let mut bytes = 0;
    let ran = open(store, root, limits).and_then(|mut connection| {
        connection.query(sql, &mut |columns, row| {
            if result.row_count == 0 {
                result.columns = columns.to_vec();
            }
            result.row_count += 1;
            bytes += row.iter().map(Value::size_bytes).sum::<usize>();
            if result.rows.len() < limits.max_rows && bytes <= limits.max_result_bytes {
                result.rows.push(row);
            }
        })
    });
    result.error = ran.err();
    result
}

/// Says whether a query can be a check on this branch: one query, reading only, that SQLite
/// accepts with the branch's tables. It does not run.
pub fn validate_check(
    store: &Arc<dyn PageStore>,
    root: &PageMap,
    sql: &str,
) -> Result<(), SqlError> {
    open(store, root, Limits::default())?.require_query(sql)
}

fn open(
    store: &Arc<dyn PageStore>,
    root: &PageMap,
    limits: Limits,
) -> Result<Connection, SqlError> {
    Connection::open(Arc::clone(store), root.clone(), limits, Access::ReadOnly)
}
