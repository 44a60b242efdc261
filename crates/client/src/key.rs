//! Keys: put, delete, cas, incr, get, scan.

use std::time::Duration;

use anabranch_api::http::{
    Acknowledged, CasRequest, DeleteRequest, Done, GetQuery, GetReply, IncrRequest, KeyValue,
    Number, PutRequest, ScanQuery, ScanReply, path,
};
use anabranch_api::{Bytes, base64};

use crate::{Client, Result};

/// Which keys a scan returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Only keys that begin with this.
    pub prefix: Bytes,
    /// Only keys greater than this (exclusive).
    pub after: Option<Bytes>,
    /// Most keys; `None` is the server's most.
    pub limit: Option<usize>,
}

/// A compare-and-set: from which version, to which value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cas {
    /// Index of the version that the key must have; `None`: it must be absent.
    pub expected: Option<u64>,
    /// The new value; `None` deletes.
    pub value: Option<Bytes>,
}

impl Client {
    /// Sets a key. Durable on return.
    pub fn put(
        &self,
        branch: &str,
        stream: &str,
        key: impl Into<Bytes>,
        value: impl Into<Bytes>,
    ) -> Result<Acknowledged> {
        let (key, value) = (key.into(), value.into());
        self.write_call(&path::on_keys(branch, stream, "put"), Duration::ZERO, |by| PutRequest {
            key: key.clone(),
            value: value.clone(),
            by,
        })
    }

    /// Deletes a key, which need not exist. Durable on return.
    pub fn delete(
        &self,
        branch: &str,
        stream: &str,
        key: impl Into<Bytes>,
    ) -> Result<Acknowledged> {
        let key = key.into();
        let path = path::on_keys(branch, stream, "delete");
        self.write_call(&path, Duration::ZERO, |by| DeleteRequest { key: key.clone(), by })
    }

    /// Sets or deletes a key if it has the expected version; returns the new version.
    pub fn cas(
        &self,
        branch: &str,
        stream: &str,
        key: impl Into<Bytes>,
        change: &Cas,
    ) -> Result<u64> {
        let key = key.into();
        let path = path::on_keys(branch, stream, "cas");
        let done: Done = self.write_call(&path, Duration::ZERO, |by| CasRequest {
            key: key.clone(),
            expected: change.expected,
            value: change.value.clone(),
            by,
        })?;
        Ok(done.index)
    }

    /// Adds to a decimal number (absent counts as 0); returns the new value.
    pub fn incr(
        &self,
        branch: &str,
        stream: &str,
        key: impl Into<Bytes>,
        delta: i64,
    ) -> Result<i64> {
        let key = key.into();
        let path = path::on_keys(branch, stream, "incr");
        let number: Number = self.write_call(&path, Duration::ZERO, |by| IncrRequest {
            key: key.clone(),
            delta,
            by,
        })?;
        Ok(number.value)
    }

    /// Newest version of a key in the branch's view.
    pub fn get(
        &self,
        branch: &str,
        stream: &str,
        key: impl Into<Bytes>,
    ) -> Result<Option<KeyValue>> {
        let (key, key_base64) = text_or_base64(key.into());
        let query = GetQuery { key, key_base64 };
        let reply: GetReply = self.read_call(&path::on_keys(branch, stream, "get"), &query)?;
        Ok(reply.found)
    }

    /// One page of live keys, in bytewise order.
    pub fn scan(&self, branch: &str, stream: &str, scan: &Scan) -> Result<ScanReply> {
        let (prefix, prefix_base64) = text_or_base64(scan.prefix.clone());
        let (after, after_base64) = scan.after.clone().map_or((None, None), text_or_base64);
        let query = ScanQuery { prefix, prefix_base64, after, after_base64, limit: scan.limit };
        self.read_call(&path::on_keys(branch, stream, "scan"), &query)
    }
}

fn text_or_base64(bytes: Bytes) -> (Option<String>, Option<String>) {
    match String::from_utf8(bytes.0) {
        Ok(text) => (Some(text), None),
        Err(error) => (None, Some(base64::encode(error.as_bytes()))),
    }
}
