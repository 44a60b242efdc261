//! Operations that write on one branch: records, keys, tables, checks; forks and sessions.

use std::num::NonZeroU64;

use super::State;
use super::view::length;
use crate::branch::{Branch, Keyed, Runs, Status, Value, Version};
use crate::{
    BranchId, BranchName, Change, ForkKind, Index, Invalid, Key, Offset, Outcome, Refusal,
    SessionId, StreamKind, StreamName, TableVersion, limits,
};

impl State {
    /// A plain append is taken until the branch is closed; with an offset, only while it is open.
    pub(super) fn append(
        &mut self,
        branch: BranchId,
        stream: &StreamName,
        expected: Option<Offset>,
        records: &[Vec<u8>],
        changes: &mut Vec<Change>,
    ) -> Result<Outcome, Refusal> {
        match expected {
            None => self.not_closed(branch)?,
            Some(_) => self.open(branch)?,
        };
        let offset = Offset(self.length(branch, stream));
        if let Some(expected) = expected.filter(|expected| *expected != offset) {
            return Err(Refusal::OffsetMismatch { expected, actual: offset });
        }
        let count = records.len() as u64;
        let parent_len = self.parent_length(branch, StreamKind::Plain, stream);
        let first = self.take(count);
        let own = self.branches.at_mut(branch).own_mut();
        if !own.plain.contains_key(stream) {
            own.plain.insert(stream.clone(), Runs::default());
        }
        let runs = own.plain.get_mut(stream).expect("was just made sure of");
        runs.push(first, first, count, parent_len);
        self.touch(branch, first);
        changes.extend(records.iter().zip(first..).map(|(record, index)| Change::Record {
            index: Index(index),
            branch,
            stream: stream.clone(),
            key: None,
            value: Some(record.clone()),
        }));
        Ok(Outcome::Appended { index: Index(first), offset })
    }

    /// Length of what a branch sees of its parent's stream.
    pub(super) fn parent_length(
        &self,
        branch: BranchId,
        kind: StreamKind,
        stream: &StreamName,
    ) -> u64 {
        length(self.parent_levels(branch, u64::MAX), kind, stream)
    }

    /// Sets or deletes a key; the branch takes the write.
    pub(super) fn put(
        &mut self,
        branch: BranchId,
        stream: &StreamName,
        key: &Key,
        value: Option<&[u8]>,
        changes: &mut Vec<Change>,
    ) -> Outcome {
        let parent_len = self.parent_length(branch, StreamKind::Keyed, stream);
        let index = self.take(1);
        let own = self.branches.at_mut(branch).own_mut();
        if !own.keyed.contains_key(stream) {
            own.keyed.insert(stream.clone(), Keyed::default());
        }
        let keyed = own.keyed.get_mut(stream).expect("was just made sure of");
        keyed.runs.push(index, index, 1, parent_len);
        keyed.push(key, Version { at: index, index, value: Value::of(value) });
        self.touch(branch, index);
        changes.push(Change::Record {
            index: Index(index),
            branch,
            stream: stream.clone(),
            key: Some(key.clone()),
            value: value.map(<[u8]>::to_vec),
        });
        Outcome::Put { index: Index(index) }
    }

    pub(super) fn check_version(
        &self,
        branch: BranchId,
        stream: &StreamName,
        key: &Key,
        expected: Option<Index>,
    ) -> Result<(), Refusal> {
        let newest = self.get(branch, stream, key).filter(|version| !version.deleted);
        let actual = newest.map(|version| version.index);
        if actual == expected { Ok(()) } else { Err(Refusal::VersionMismatch { expected, actual }) }
    }

    pub(super) fn incr(
        &mut self,
        branch: BranchId,
        stream: &StreamName,
        key: &Key,
        delta: i64,
        changes: &mut Vec<Change>,
    ) -> Result<Outcome, Refusal> {
        self.open(branch)?;
        let newest = self.newest_version(branch, stream, key);
        let before = match newest.map(|version| (version.index, version.value)) {
            None | Some((_, Value::Deleted)) => 0,
            Some((_, Value::Number(number))) => number,
            Some((index, Value::Bytes)) => {
                return Err(Refusal::NotANumber { index: Index(index) });
            }
        };
        let Some(value) = before.checked_add(delta) else {
            return Err(Refusal::NumberOverflow { value: before, delta });
        };
        let text = value.to_string();
        let put = self.put(branch, stream, key, Some(text.as_bytes()), changes);
        Ok(Outcome::Number { index: put.index(), value })
    }

    pub(super) fn check_fork(
        &self,
        parent: BranchId,
        name: &BranchName,
        kind: ForkKind,
        at: Option<Index>,
    ) -> Result<(), Refusal> {
        let of = self.open(parent)?;
        if let Ok(branch) = self.resolve(name) {
            return Err(Refusal::NameTaken { name: name.clone(), branch });
        }
        let (oldest, newest) = (of.forked_at(), self.applied_index());
        if at.is_some_and(|at| at < oldest || at > newest) {
            return Err(Refusal::Invalid(Invalid::ForkPosition { oldest, newest }));
        }
        if kind == ForkKind::Frozen {
            self.table_sources(parent, at)?;
        }
        if of.depth >= limits::DEPTH {
            return Err(Refusal::TooDeep { depth: of.depth + 1 });
        }
        if self.branches.len() >= limits::BRANCHES {
            return Err(Refusal::TooManyBranches { count: self.branches.len() });
        }
        Ok(())
    }

    /// Makes a fork that `check_fork` let pass.
    pub(super) fn fork(
        &mut self,
        (parent, kind, at): (BranchId, ForkKind, Option<Index>),
        name: &BranchName,
        owner: &str,
        ttl_ms: Option<u64>,
        changes: &mut Vec<Change>,
    ) -> Outcome {
        let sources = self.table_sources(parent, at).expect("check_fork found the roots");
        let base = sources.last().expect("every branch has tables").1;
        let index = self.take(1);
        let child = BranchId(self.branches.len());
        let of = self.branches.at_mut(parent);
        of.children += 1;
        let depth = of.depth + 1;
        let cut = match kind {
            ForkKind::Live => u64::MAX,
            ForkKind::Frozen => at.map_or(index, |at| at.0),
        };
        self.branches.push(Branch {
            id: child,
            name: name.clone(),
            parent,
            kind: Some(kind),
            status: Status::Open,
            owner: owner.into(),
            ttl_ms: ttl_ms.and_then(NonZeroU64::new),
            created: index,
            cut,
            base_tables: base.0.0,
            tables: base.0.0,
            last_used: index,
            depth,
            children: 0,
            own: None,
        });
        self.names.insert(name.clone(), child);
        self.touch(parent, index);
        changes.push(Change::Forked { child, parent, base });
        Outcome::Forked { branch: child, index: Index(index) }
    }

    pub(super) fn commit(
        &mut self,
        branch: BranchId,
        base: TableVersion,
        parent: Option<TableVersion>,
        changes: &mut Vec<Change>,
    ) -> Result<Outcome, Refusal> {
        let of = self.open(branch)?;
        if parent.is_some() != of.is_live() {
            return Err(Refusal::Invalid(Invalid::ParentVersion));
        }
        let current = of.tables();
        if current != base {
            return Err(Refusal::BaseMoved { branch, base, current });
        }
        let index = self.take(1);
        self.touch(branch, index);
        let version = TableVersion(Index(index));
        changes.push(Change::TablesCommitted { branch, version });
        self.move_tables(branch, index, changes);
        Ok(Outcome::Committed { index: Index(index) })
    }

    /// Gives the branch's tables a new version.
    pub(super) fn move_tables(&mut self, branch: BranchId, index: u64, changes: &mut Vec<Change>) {
        let of = self.branches.at_mut(branch);
        of.tables = index;
        let (base, root) = (Index(of.base_tables), of.kind.is_none());
        let released = of.own_mut().tables.push(Index(index), base, root);
        changes.extend(
            released.map(|version| Change::RootReleased { branch, version: TableVersion(version) }),
        );
    }

    pub(super) fn add_check(
        &mut self,
        branch: BranchId,
        name: &str,
        sql: &str,
    ) -> Result<Outcome, Refusal> {
        self.open(branch)?;
        let checks = self.checks(branch);
        if checks.contains_key(name) {
            return Err(Refusal::CheckTaken { branch });
        }
        if checks.len() >= limits::CHECKS {
            return Err(Refusal::TooManyChecks { branch, count: checks.len() as u64 });
        }
        let index = self.take(1);
        self.touch(branch, index);
        let own = self.branches.at_mut(branch).own_mut();
        own.checks.insert(name.into(), sql.into());
        own.checks_changed = index;
        Ok(Outcome::Done { index: Index(index) })
    }

    pub(super) fn drop_check(&mut self, branch: BranchId, name: &str) -> Result<Outcome, Refusal> {
        self.open(branch)?;
        if !self.checks(branch).contains_key(name) {
            return Err(Refusal::Invalid(Invalid::UnknownCheck));
        }
        let index = self.take(1);
        self.touch(branch, index);
        let own = self.branches.at_mut(branch).own_mut();
        own.checks.remove(name);
        own.checks_changed = index;
        Ok(Outcome::Done { index: Index(index) })
    }

    pub(super) fn open_session(&mut self, owner: &str) -> Result<Outcome, Refusal> {
        let count = self.sessions.open.len();
        if count >= limits::SESSIONS {
            return Err(Refusal::TooManySessions { count: count as u64 });
        }
        let index = Index(self.take(1));
        let session = self.sessions.open(owner, index);
        Ok(Outcome::Session { session, index })
    }

    pub(super) fn close_session(&mut self, session: SessionId) -> Result<Outcome, Refusal> {
        if !self.sessions.open.contains_key(&session) {
            return Err(self.sessions.absent(session));
        }
        let index = Index(self.take(1));
        self.sessions.open.remove(&session);
        Ok(Outcome::Done { index })
    }
}
