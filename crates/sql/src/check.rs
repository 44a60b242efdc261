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
    let _ = (store, root, checks, limits);
    todo!()
}

/// Says whether a query can be a check on this branch: one query, reading only, that SQLite
/// accepts with the branch's tables.
pub fn validate_check(
    store: &Arc<dyn PageStore>,
    root: &PageMap,
    sql: &str,
) -> Result<(), SqlError> {
    let _ = Connection::open(Arc::clone(store), root.clone(), Limits::default(), Access::ReadOnly);
    let _ = sql;
    todo!()
}
