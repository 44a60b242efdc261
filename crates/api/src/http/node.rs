//! The node and the space as a whole: status, history, sessions.

use serde::{Deserialize, Serialize};

/// Answer of `GET /healthz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// `ok`.
    pub status: String,
}

/// Answer of `GET /v1/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Name of the space.
    pub space: String,
    /// Version of the server.
    pub version: String,
    /// Last applied index.
    pub index: u64,
    /// Raft term.
    pub term: u64,
    /// Durable operations not yet ordered.
    pub unordered: u64,
    /// Index of the last checkpoint, 0 before the first.
    pub checkpoint: u64,
    /// Open branches.
    pub branches: u64,
    /// Open sessions.
    pub sessions: u64,
    /// Hash chain at `index`, hexadecimal.
    pub chain: String,
}

/// Answer of `POST /v1/sessions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionOpened {
    /// The new session.
    pub session: u64,
}

/// Answer of `POST /v1/sessions/{session}/close`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionClosed {
    /// The session that ended.
    pub session: u64,
}

/// Query of `GET /v1/history`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryQuery {
    /// Only operations on this branch; left out is the whole space.
    pub branch: Option<String>,
    /// Only operations before this index (exclusive); left out is the end.
    pub before: Option<u64>,
    /// Most entries; left out is [`crate::PAGE_ITEMS`], which is also the most.
    pub limit: Option<usize>,
}

/// Answer of `GET /v1/history`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Applied operations, newest first.
    pub entries: Vec<HistoryEntry>,
}

/// One applied operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// First index.
    pub index: u64,
    /// Number of indexes it took.
    pub count: u64,
    /// Branch it changed, by its name at that time; empty for the space itself.
    pub branch: String,
    /// What it was: `append`, `commit`, `fork`, ….
    pub kind: String,
    /// Details in one line.
    pub detail: String,
    /// Who.
    pub actor: String,
    /// Why.
    pub intent: String,
    /// The caller's wall clock, milliseconds since 1970.
    pub time_ms: u64,
    /// Hash chain after this operation, hexadecimal.
    pub chain: String,
}
