//! Applying: what follows from an operation whose place in the order is decided.
//!
//! A function of the log alone: the same entries give the same state, page maps, hash chain and
//! history, when they are first applied and when they are applied again after a restart.

use std::sync::Arc;

use anabranch_log::{
    BranchId, Change, Digest, Entry, ForkKind, Kind, Operation, Outcome, TableVersion, WriteId,
};
use anabranch_replica::{Event, Order, RaftIndex, Term};
use anabranch_sql::{Body, InstallError, PageError};
use anabranch_store::{Frame, JournalRecord, Position, chain};

use super::{Engine, Fence};
use crate::body::{self, Applied, INLINE_CHANGES};
use crate::tables::{Commit, Source};

/// An operation with its place.
#[derive(Clone, Copy)]
struct Ordered<'a> {
    entry: &'a Entry,
    digest: Digest,
    raft_index: RaftIndex,
}

/// A table change while it is applied.
struct TableChange<'a> {
    /// As encoded by `anabranch_sql`; of a change that takes a fork's pages, nothing.
    body: Option<&'a [u8]>,
    /// Where its row images went, if they do not stand in the history.
    chunks: &'a [[u8; 32]],
}

impl Engine {
    pub(super) fn apply(
        &mut self,
        index: RaftIndex,
        term: Term,
        order: &Order,
    ) -> std::result::Result<Option<Event>, Fence> {
        assert_eq!(index, self.raft.0.next(), "entries are applied once, in order");
        let mut checkpoint = false;
        if let Order::Records(records) = order {
            for (id, digest) in records {
                checkpoint |= self.apply_one(index, *id, *digest)?;
            }
        }
        self.raft = (index, term);
        // A checkpoint covers whole entries: the state after the one that carries the operation.
        if checkpoint && !self.replaying && self.take_checkpoint() {
            return Ok(Some(Event::Checkpointed { index }));
        }
        Ok(None)
    }

    /// Applies one operation; true if it asks for a checkpoint.
    fn apply_one(
        &mut self,
        raft_index: RaftIndex,
        id: WriteId,
        digest: Digest,
    ) -> std::result::Result<bool, Fence> {
        let Some(pending) = self.pending.remove(&id) else {
            return Err(Fence::new(Kind::Corrupt, format!("no payload for ordered id=`{id}`")));
        };
        assert_eq!(pending.digest, digest, "the order names the payload that is held");
        let entry = match pending.entry {
            Some(entry) => entry,
            None => Arc::new(self.load(pending.position)?),
        };
        let before = self.closing_view(&entry.operation);
        let applied = self.state.apply(&entry);
        if let Operation::Closing { branch, .. } = &entry.operation {
            self.closing.remove(branch);
        }
        match &applied.outcome {
            Ok(outcome) if applied.count > 0 => {
                let ordered = Ordered { entry: &entry, digest, raft_index };
                self.follow(&ordered, &applied, outcome, before.as_ref())?;
            }
            _ => self.discard_parts(&entry.operation),
        }
        let checkpoint = matches!(applied.outcome, Ok(Outcome::Checkpointed { .. }));
        if let Some(answer) = self.answers.get_mut(&id) {
            answer.outcome = Some(applied.outcome);
        }
        Ok(checkpoint && applied.count > 0)
    }

    /// The tables of a branch that the operation may close, as they are before it.
    fn closing_view(&self, operation: &Operation) -> Option<Source> {
        match operation {
            Operation::Promote { branch, .. } | Operation::Discard { branch, .. } => {
                self.view(*branch)
            }
            _ => None,
        }
    }

    fn load(&self, position: Position) -> std::result::Result<Entry, Fence> {
        let record = self
            .journal
            .read(position)
            .map_err(|error| Fence::new(Kind::Corrupt, error.to_string()))?;
        let JournalRecord::Payload { bytes, .. } = record else {
            return Err(Fence::new(Kind::Corrupt, "a payload's place holds another record"));
        };
        Entry::decode(&bytes).map_err(|error| Fence::new(Kind::Corrupt, error.to_string()))
    }

    /// Follows an applied operation: page maps, hash chain, history.
    fn follow(
        &mut self,
        ordered: &Ordered<'_>,
        applied: &anabranch_log::Applied,
        outcome: &Outcome,
        before: Option<&Source>,
    ) -> std::result::Result<(), Fence> {
        let Ordered { entry, digest, raft_index } = *ordered;
        let change = self.table_change(&entry.operation)?;
        let kept = kept_changes(&applied.changes, change.as_deref())?;
        let mut chunks = Vec::new();
        let inline = kept.len() <= INLINE_CHANGES;
        if !inline {
            for part in kept.chunks(1 << 20) {
                chunks.push(self.put_chunk(part)?);
            }
        }
        let changed = TableChange { body: change.as_deref(), chunks: &chunks };
        for follow in &applied.changes {
            self.follow_change(&entry.operation, follow, &changed, before)?;
        }
        let stored = Entry {
            operation: body::with_body(&entry.operation, if inline { kept } else { Vec::new() }),
            ..entry.clone()
        };
        let record = Applied { entry: stored, outcome: outcome.clone(), chunks };
        self.chain = chain::next(self.chain, digest, applied.first);
        let frame = Frame {
            first: applied.first,
            count: applied.count,
            raft_index: raft_index.0,
            digest,
            chain: self.chain,
            body: record.encode(),
        };
        let appended = self.history.append(&frame);
        appended.map_err(|error| Fence::of_write(&error))
    }

    fn put_chunk(&self, bytes: &[u8]) -> std::result::Result<[u8; 32], Fence> {
        let handle = self.chunks.put(bytes).map_err(|error| Fence::of_write(&error))?;
        self.chunks.hash(handle).map_err(|error| Fence::new(Kind::Corrupt, error.to_string()))
    }

    fn follow_change(
        &mut self,
        operation: &Operation,
        change: &Change,
        change_made: &TableChange<'_>,
        before: Option<&Source>,
    ) -> std::result::Result<(), Fence> {
        match *change {
            Change::Forked { child, parent, .. } => self.forked(operation, child, parent)?,
            Change::TablesCommitted { branch, version } => {
                self.tables_committed(operation, branch, version, change_made)?;
            }
            Change::TablesTaken { into, from, version } => {
                let taken = self.tables.install_base(from);
                let commits = self.tables.get(from).map(|t| t.commits.clone()).unwrap_or_default();
                let changed = body::summary_of(operation).unwrap_or_default();
                let changed: Vec<String> = changed.changed().collect();
                self.tables.committed(into, version, Some(taken), commits, changed);
            }
            Change::RootReleased { branch, version } => self.tables.released(branch, version),
            Change::Closed { branch } => {
                let before = before.expect("only promote and discard close a branch");
                self.tables.closed(branch, before);
            }
            Change::Retired { branch } => self.tables.retired(branch),
            Change::Record { .. } | Change::Spliced { .. } => {}
        }
        Ok(())
    }

    fn forked(
        &mut self,
        operation: &Operation,
        child: BranchId,
        parent: BranchId,
    ) -> std::result::Result<(), Fence> {
        let Operation::Fork { kind, at, .. } = operation else {
            return Err(Fence::new(Kind::Internal, "a fork without a fork operation"));
        };
        if *kind == ForkKind::Live {
            self.tables.forked_live(child, parent);
            return Ok(());
        }
        let sources = self
            .state
            .table_sources(parent, *at)
            .map_err(|refusal| Fence::new(Kind::Internal, refusal.to_string()))?;
        self.tables
            .forked_frozen(child, parent, &sources)
            .map_err(|_| Fence::new(Kind::Internal, "a retained table version has no page map"))
    }

    fn tables_committed(
        &mut self,
        operation: &Operation,
        branch: BranchId,
        version: TableVersion,
        change: &TableChange<'_>,
    ) -> std::result::Result<(), Fence> {
        let body = change
            .body
            .ok_or_else(|| Fence::new(Kind::Corrupt, "a table change without its pages"))?;
        let live = self.tables.get(branch).is_some_and(|tables| tables.live);
        let head = if live {
            None
        } else {
            let base = self.tables.install_base(branch);
            let delta = Body::decode_pages(body)
                .map_err(|error| Fence::new(Kind::Corrupt, error.to_string()))?
                .ok_or_else(|| Fence::new(Kind::Corrupt, "a commit without its pages"))?;
            let installed = anabranch_sql::install(&base, &*self.pages, &delta);
            Some(installed.map_err(|error| {
                let kind = match &error {
                    InstallError::Page(PageError::Full) => Kind::DiskFull,
                    InstallError::Page(PageError::Io { .. }) => Kind::Unavailable,
                    _ => Kind::Corrupt,
                };
                Fence::new(kind, error.to_string())
            })?)
        };
        let summary = body::summary_of(operation).unwrap_or_default();
        let changed: Vec<String> = summary.changed().collect();
        let commit = Commit { index: version.0, chunks: change.chunks.to_vec() };
        self.tables.committed(branch, version, head, [commit], changed);
        Ok(())
    }

    /// The table change of an operation, its parts put together and verified.
    fn table_change(
        &mut self,
        operation: &Operation,
    ) -> std::result::Result<Option<Vec<u8>>, Fence> {
        let corrupt = |what: &str| Fence::new(Kind::Corrupt, what.to_owned());
        let bytes = match body::tables_body(operation) {
            None => return Ok(None),
            Some(anabranch_log::Body::Inline(bytes)) => bytes.clone(),
            Some(anabranch_log::Body::Parts { transaction, parts, digest, .. }) => {
                let found = self
                    .parts
                    .iter()
                    .rev()
                    .find(|((_, number), positions)| {
                        number == transaction && positions.len() == *parts as usize
                    })
                    .map(|(key, positions)| (*key, positions.clone()));
                let (key, positions) =
                    found.ok_or_else(|| corrupt("parts of a transaction are missing"))?;
                let mut bytes = Vec::new();
                for position in positions {
                    match self.journal.read(position) {
                        Ok(JournalRecord::Part { bytes: part, .. }) => bytes.extend(part),
                        Ok(_) => return Err(corrupt("a part's place holds another record")),
                        Err(error) => return Err(corrupt(&error.to_string())),
                    }
                }
                if body::digest(&bytes) != *digest {
                    return Err(corrupt("parts of a transaction do not match their digest"));
                }
                self.parts.remove(&key);
                bytes
            }
        };
        Ok(Some(bytes))
    }
}

/// What the history keeps of a table change: on a fork the row images, which its diff and its
/// promotion need; on the root branch nothing.
fn kept_changes(changes: &[Change], body: Option<&[u8]>) -> std::result::Result<Vec<u8>, Fence> {
    let on_fork = changes.iter().any(|change| {
        matches!(change, Change::TablesCommitted { branch, .. } if *branch != BranchId::MAIN)
    });
    match body {
        Some(body) if on_fork => {
            let mut body =
                Body::decode(body).map_err(|error| Fence::new(Kind::Corrupt, error.to_string()))?;
            body.pages = None;
            Ok(body.encode())
        }
        _ => Ok(Vec::new()),
    }
}
