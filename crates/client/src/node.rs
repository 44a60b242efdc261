//! The node and the space as a whole.

use std::time::Duration;

use anabranch_api::http::{Bare, Done, Health, History, HistoryEntry, HistoryQuery, Status, path};

use crate::{Client, Result};

impl Client {
    /// Whether the node answers.
    pub fn healthz(&self) -> Result<Health> {
        self.read_call(path::HEALTHZ, &())
    }

    /// State of the node.
    pub fn status(&self) -> Result<Status> {
        self.read_call(path::STATUS, &())
    }

    /// Applied operations, newest first.
    pub fn history(&self, query: &HistoryQuery) -> Result<Vec<HistoryEntry>> {
        let history: History = self.read_call(path::HISTORY, query)?;
        Ok(history.entries)
    }

    /// Takes a checkpoint now; returns its index.
    pub fn checkpoint(&self) -> Result<u64> {
        let done: Done = self.write_call(path::CHECKPOINT, Duration::ZERO, |by| Bare { by })?;
        Ok(done.index)
    }
}
