//! What a branch changed.

use std::sync::Arc;

use anabranch_log::{BranchId, Index, Key, Kind, StreamKind, StreamName};
use anabranch_sql::{self as sql, NetChanges};

use crate::error::{Error, Result};
use crate::names;
use crate::shared::Shared;
use crate::streams::Records;
use crate::view::{Against, ChangeKind, Diff, KeyDiff, RowDiff, TableDiff};

impl Shared {
    pub(crate) fn diff(&self, branch: &str, against: Against, max_rows: usize) -> Result<Diff> {
        self.barrier()?;
        let (id, target) = {
            let engine = self.lock();
            let id = names::branch(&engine.state, branch)?;
            let target = match against {
                Against::Base => None,
                Against::Parent => Some(engine.state.promotion_target(id)?),
            };
            (id, target)
        };
        let net = self.own_changes(id)?;
        self.diff_of(id, branch, &net, target, max_rows)
    }

    /// A branch's own table changes, netted per row.
    pub(crate) fn own_changes(&self, branch: BranchId) -> Result<NetChanges> {
        let commits = {
            let engine = self.lock();
            let tables = engine.tables.get(branch);
            tables.map(|tables| tables.commits.clone()).unwrap_or_default()
        };
        self.change_reader().net(&commits)
    }

    pub(crate) fn diff_of(
        &self,
        branch: BranchId,
        name: &str,
        net: &NetChanges,
        target: Option<BranchId>,
        max_rows: usize,
    ) -> Result<Diff> {
        let rows = match target {
            None => sql::diff(net, max_rows),
            Some(target) => {
                let view = self.snapshot_of(target)?.view;
                sql::diff_against(&view.pages, &view.root, net, max_rows)?
            }
        };
        let (streams, keys, keys_changed, index) = self.record_changes(branch, target, max_rows)?;
        let mut schema = rows.schema;
        schema.extend(rows.opaque.iter().map(|(table, why)| format!("-- `{table}`: {why}")));
        Ok(Diff {
            branch: name.to_owned(),
            against: if target.is_some() { Against::Parent } else { Against::Base },
            index,
            tables: rows.tables.into_iter().map(told).collect(),
            schema,
            streams,
            keys,
            keys_changed,
        })
    }

    #[expect(clippy::type_complexity, reason = "four parts of one diff, taken apart at once")]
    fn record_changes(
        &self,
        branch: BranchId,
        target: Option<BranchId>,
        max: usize,
    ) -> Result<(Vec<(String, u64)>, Vec<KeyDiff>, u64, u64)> {
        let engine = self.lock();
        let state = &engine.state;
        let streams = state
            .own_streams(branch)
            .into_iter()
            .filter(|(kind, _, count)| *kind == StreamKind::Plain && *count > 0)
            .map(|(_, name, count)| (name.to_string(), count))
            .collect();
        let mut found: Vec<(StreamName, Key, Option<Index>, Option<Index>)> = Vec::new();
        let mut keys_changed = 0;
        for (stream, key, ours) in state.own_keys(branch) {
            keys_changed += 1;
            if found.len() < max {
                let before = match target {
                    None => state.base_version(branch, stream, key),
                    Some(target) => state.get(target, stream, key),
                };
                let before = before.filter(|version| !version.deleted).map(|v| v.index);
                let ours = (!ours.deleted).then_some(ours.index);
                found.push((stream.clone(), key.clone(), before, ours));
            }
        }
        let index = state.applied_index().0;
        let history = Arc::clone(&engine.history);
        drop(engine);
        let mut reader = Records { history: &history, frame: None };
        let mut value = |index: Option<Index>| match index {
            Some(index) => reader.value(index),
            None => Ok(None),
        };
        let mut keys = Vec::with_capacity(found.len());
        for (stream, key, before, ours) in found {
            keys.push(KeyDiff {
                stream: stream.to_string(),
                key: key.as_bytes().to_vec(),
                old: value(before)?,
                new: value(ours)?,
            });
        }
        Ok((streams, keys, keys_changed, index))
    }

    /// The value at an index; `None` where the index is, or the record deletes a key.
    pub(crate) fn value_at(&self, index: Option<Index>) -> Result<Option<Vec<u8>>> {
        let Some(index) = index else { return Ok(None) };
        let history = Arc::clone(&self.lock().history);
        Records { history: &history, frame: None }.value(index)
    }

    /// An open fork by name, with the branch its writes would go to.
    pub(crate) fn fork_and_target(
        &self,
        name: &str,
        onto: Option<&str>,
    ) -> Result<(BranchId, BranchId)> {
        let engine = self.lock();
        let state = &engine.state;
        let id = names::branch(state, name)?;
        names::open(state, id)?;
        let target = match onto {
            Some(onto) => names::branch(state, onto)?,
            None => state.promotion_target(id)?,
        };
        if target == id {
            return Err(Error::no(Kind::InvalidArgument, "a branch cannot receive itself"));
        }
        Ok((id, target))
    }
}

fn told(table: sql::TableDiff) -> TableDiff {
    TableDiff {
        table: table.counts.table,
        columns: table.columns,
        inserts: table.counts.inserts,
        updates: table.counts.updates,
        deletes: table.counts.deletes,
        rows: table
            .rows
            .into_iter()
            .map(|row| RowDiff {
                kind: match row.kind {
                    sql::ChangeKind::Insert => ChangeKind::Insert,
                    sql::ChangeKind::Update => ChangeKind::Update,
                    sql::ChangeKind::Delete => ChangeKind::Delete,
                },
                key: row.key,
                old: row.old,
                new: row.new,
            })
            .collect(),
        truncated: table.truncated,
    }
}
