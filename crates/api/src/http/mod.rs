//! Requests and replies of `/v1`. Reads are GET with a query, writes are POST with a JSON body that
//! carries [`By`]; paths are made by [`path`].

mod branch;
mod key;
mod node;
pub mod path;
mod sql;
mod stream;

pub use branch::*;
pub use key::*;
pub use node::*;
pub use sql::*;
pub use stream::*;

use serde::{Deserialize, Serialize};

/// Who writes, why, when, and under which session number: part of every write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct By {
    /// Name of the person or agent, at most 128 bytes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub actor: String,
    /// Why, in the actor's words, at most 1 KiB.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub intent: String,
    /// The caller's wall clock, milliseconds since 1970; shown, never interpreted. 0 or left out:
    /// the server puts its own.
    #[serde(skip_serializing_if = "is_zero")]
    pub time_ms: u64,
    /// Identity of the write, so that a retry returns the first outcome. Left out: the server
    /// numbers the write itself, and a retry is a new write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<SessionWrite>,
}

/// Identity of one write within a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionWrite {
    /// Session number from [`path::SESSIONS`].
    pub session: u64,
    /// Number of the write, from 1, never used for another write.
    pub seq: u64,
    /// Every number up to and including this one has been answered to the caller.
    pub answered: u64,
}

/// Body of a write that says nothing but who and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bare {
    /// Who and why.
    #[serde(default)]
    pub by: By,
}

/// A write that took one index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Its index.
    pub index: u64,
}

/// A durable write whose place in the order is fixed before anyone can observe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledged {
    /// The session that carried it.
    pub session: u64,
    /// Its number in that session.
    pub seq: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
