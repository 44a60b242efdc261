//! Streams: append, read, tail, list.

use std::time::Duration;

use anabranch_api::Bytes;
use anabranch_api::http::{
    Acknowledged, AppendReply, AppendRequest, Position, ReadQuery, StreamInfo, StreamList,
    StreamPage, path,
};
use anabranch_log::{Happened, Kind};

use crate::{Client, Error, Result, Tail};

impl Client {
    /// Appends 1 to 4096 records, together at most 4 MiB. Durable on return; the position is fixed
    /// before anyone can look. `None` if the server answered with a position.
    pub fn append(
        &self,
        branch: &str,
        stream: &str,
        records: impl IntoIterator<Item = impl Into<Bytes>>,
    ) -> Result<Option<Acknowledged>> {
        let records = records.into_iter().map(Into::into).collect();
        let request = AppendRequest { records, expected: None, position: false, by: self.by() };
        Ok(self.send_append(branch, stream, &request)?.acknowledged)
    }

    /// Appends and waits for the order; with `expected`, only if the view's length equals it.
    pub fn append_at(
        &self,
        branch: &str,
        stream: &str,
        records: impl IntoIterator<Item = impl Into<Bytes>>,
        expected: Option<u64>,
    ) -> Result<Position> {
        let records = records.into_iter().map(Into::into).collect();
        let request = AppendRequest { records, expected, position: true, by: self.by() };
        self.send_append(branch, stream, &request)?
            .position
            .ok_or_else(|| Error::new(Kind::Internal, Happened::Yes, "the server sent no position"))
    }

    fn send_append(
        &self,
        branch: &str,
        stream: &str,
        request: &AppendRequest,
    ) -> Result<AppendReply> {
        let path = path::on_stream(branch, stream, "append");
        self.write_call(&path, Duration::ZERO, |by| AppendRequest { by, ..request.clone() })
    }

    /// Reads up to `limit` records from `start` (inclusive). A page ends early when it is large;
    /// an empty one means that `start` is the end.
    pub fn read(&self, branch: &str, stream: &str, start: u64, limit: usize) -> Result<StreamPage> {
        let query = ReadQuery { start: Some(start), limit: Some(limit) };
        self.read_call(&path::on_stream(branch, stream, "read"), &query)
    }

    /// Records from `start` on (`None`: from the current end), one by one, as they come.
    pub fn tail(&self, branch: &str, stream: &str, start: Option<u64>) -> Tail {
        Tail::new(self.clone(), path::on_stream(branch, stream, "tail"), start)
    }

    /// Streams of the branch's view.
    pub fn streams(&self, branch: &str) -> Result<Vec<StreamInfo>> {
        let list: StreamList = self.read_call(&path::on_branch(branch, "streams"), &())?;
        Ok(list.streams)
    }
}
