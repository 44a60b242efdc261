//! Streams: append, read, tail, list.

use serde::{Deserialize, Serialize};

use super::{Acknowledged, By};
use crate::Bytes;

/// `POST …/streams/{stream}/append`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppendRequest {
    /// 1 to 4096 records, each at most 1 MiB, together at most 4 MiB.
    pub records: Vec<Bytes>,
    /// Append only if the view's length equals this; the answer then waits for the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    /// Wait for the order and answer with the position, whatever the length.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub position: bool,
    /// Who and why.
    #[serde(default)]
    pub by: By,
}

/// Answer to an append: durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppendReply {
    /// Number of records.
    pub count: u64,
    /// Without a position asked for: the identity under which a retry finds this outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledged>,
    /// With a position asked for: where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
}

/// Place of the first record of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Index in the space.
    pub index: u64,
    /// Offset in the branch's view.
    pub offset: u64,
}

/// Query of `GET …/streams/{stream}/read`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadQuery {
    /// First offset (inclusive); left out is 0.
    pub start: Option<u64>,
    /// Most records; left out is [`crate::PAGE_ITEMS`], which is also the most.
    pub limit: Option<usize>,
}

/// Query of `GET …/streams/{stream}/tail`, which answers with server-sent events: first `start`
/// with a [`TailStart`], then `record` with a [`StreamRecord`] each, and `problem` with a
/// [`crate::Problem`] as the last one if it fails. A comment is sent when nothing else is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TailQuery {
    /// First offset (inclusive); left out is the current end: only what comes from now on.
    pub start: Option<u64>,
}

/// First event of a tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TailStart {
    /// Offset of the first record that will be sent.
    pub offset: u64,
}

/// One record, as a branch sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// Offset in the branch's view.
    pub offset: u64,
    /// Index in the space.
    pub index: u64,
    /// The bytes.
    pub value: Bytes,
}

/// Part of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPage {
    /// Consecutive records from the start asked for; the page ends early at
    /// [`crate::REPLY_BYTES`].
    pub records: Vec<StreamRecord>,
    /// Length of the view: the offset that the next record will get.
    pub length: u64,
    /// Index that the answer covers.
    pub index: u64,
}

/// Answer of `GET …/streams`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamList {
    /// Streams of the view, keyed ones too.
    pub streams: Vec<StreamInfo>,
}

/// One stream of a branch's view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamInfo {
    /// Name.
    pub stream: String,
    /// Whether its records have keys.
    pub keyed: bool,
    /// Number of records in the view (of a keyed stream: versions).
    pub length: u64,
}
