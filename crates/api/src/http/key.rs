//! Keys: put, delete, cas, incr, get, scan.

use serde::{Deserialize, Serialize};

use super::By;
use crate::Bytes;

/// `POST …/keys/{stream}/put`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutRequest {
    /// 1 to 1024 bytes.
    pub key: Bytes,
    /// At most 1 MiB.
    pub value: Bytes,
    /// Who and why.
    #[serde(default)]
    pub by: By,
}

/// `POST …/keys/{stream}/delete`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteRequest {
    /// The key; it need not exist.
    pub key: Bytes,
    /// Who and why.
    #[serde(default)]
    pub by: By,
}

/// `POST …/keys/{stream}/cas`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CasRequest {
    /// The key.
    pub key: Bytes,
    /// Version that the key must have: the `index` of a get; `null` or left out: it must be
    /// absent.
    #[serde(default)]
    pub expected: Option<u64>,
    /// The new value; `null` or left out deletes.
    #[serde(default)]
    pub value: Option<Bytes>,
    /// Who and why.
    #[serde(default)]
    pub by: By,
}

/// `POST …/keys/{stream}/incr`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IncrRequest {
    /// The key; absent counts as 0.
    pub key: Bytes,
    /// What to add.
    pub delta: i64,
    /// Who and why.
    #[serde(default)]
    pub by: By,
}

/// Answer of an incr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Number {
    /// The value after the addition.
    pub value: i64,
}

/// Query of `GET …/keys/{stream}/get`: exactly one of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetQuery {
    /// The key as text.
    pub key: Option<String>,
    /// The key in base64.
    pub key_base64: Option<String>,
}

/// Answer of a get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetReply {
    /// The newest version in the view; `null` when the key is absent.
    pub found: Option<KeyValue>,
}

/// The newest version of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyValue {
    /// The key.
    pub key: Bytes,
    /// Its value.
    pub value: Bytes,
    /// Index of the record that set it: what `cas` compares.
    pub index: u64,
}

/// Query of `GET …/keys/{stream}/scan`. Of each pair give at most one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScanQuery {
    /// Only keys that begin with this text.
    pub prefix: Option<String>,
    /// The prefix in base64.
    pub prefix_base64: Option<String>,
    /// Only keys greater than this text (exclusive).
    pub after: Option<String>,
    /// The same in base64.
    pub after_base64: Option<String>,
    /// Most keys; left out is [`crate::PAGE_ITEMS`], which is also the most.
    pub limit: Option<usize>,
}

/// Answer of a scan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanReply {
    /// Live keys in bytewise order; the page ends early at [`crate::REPLY_BYTES`].
    pub keys: Vec<KeyValue>,
    /// Whether there may be more after the last one.
    pub more: bool,
}
