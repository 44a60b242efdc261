//! SQL, tables and checks.

use serde::{Deserialize, Serialize};

use super::By;
use crate::SqlValue;

/// `POST …/sql`: all statements are one transaction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SqlRequest {
    /// One or more statements; `BEGIN` and `COMMIT` are the server's.
    pub sql: String,
    /// Values of `?1`, `?2`, ….
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<SqlValue>,
    /// Refuse statements that would write.
    #[serde(default)]
    pub read_only: bool,
    /// Most rows returned (inclusive); left out is [`crate::PAGE_ROWS`], which is also the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rows: Option<usize>,
    /// Longest run in milliseconds, at most [`crate::SQL_TIMEOUT_MS`]; left out is 30 000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Who and why.
    #[serde(default)]
    pub by: By,
}

/// Result of SQL statements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SqlReply {
    /// Column names of the last statement that returns rows.
    pub columns: Vec<String>,
    /// Its rows, up to the limit.
    pub rows: Vec<Vec<SqlValue>>,
    /// Whether rows beyond the limit were left out.
    pub truncated: bool,
    /// Rows changed by all statements.
    pub changes: u64,
    /// Index of the commit; `null` when nothing was written.
    pub index: Option<u64>,
    /// Index that the answer covers.
    pub read_index: u64,
    /// Set when a live fork answered at its last good base: what clashes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<String>,
}

/// Answer of `GET …/tables`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableList {
    /// Tables of the branch.
    pub tables: Vec<TableInfo>,
}

/// One table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableInfo {
    /// Name.
    pub table: String,
    /// Columns in order.
    pub columns: Vec<ColumnInfo>,
    /// Number of rows.
    pub rows: u64,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnInfo {
    /// Name.
    pub name: String,
    /// Declared type; may be empty.
    #[serde(rename = "type")]
    pub declared: String,
}

/// `POST …/checks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddCheckRequest {
    /// Name, at most 128 bytes.
    pub name: String,
    /// A query that must return no rows before a promotion lands.
    pub sql: String,
    /// Who and why.
    #[serde(default)]
    pub by: By,
}

/// Answer of `GET …/checks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckList {
    /// Checks of the branch, by name.
    pub checks: Vec<Check>,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Name.
    pub name: String,
    /// The query.
    pub sql: String,
}

/// Answer of `POST …/checks/run`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckResults {
    /// What each check found.
    pub results: Vec<CheckResult>,
}

/// A check and what it found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// Name.
    pub name: String,
    /// The query.
    pub sql: String,
    /// Column names.
    pub columns: Vec<String>,
    /// Offending rows, up to a limit.
    pub rows: Vec<Vec<SqlValue>>,
    /// Whether it returned no rows.
    pub passed: bool,
    /// Why it could not run; counts as failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
