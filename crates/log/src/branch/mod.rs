//! One branch: who it is, where it stands, and what it wrote itself.
//!
//! A branch is a *filter* on the space's one order: its view of a stream is its own records and
//! the records of its parent's view, in the order in which they joined. Only the own part is
//! stored, so a fork costs the same whatever it is forked from, and a write on the parent costs
//! the same whatever was forked from it. The view itself is computed in `view.rs`.

mod keys;
mod runs;
mod tables;

use std::collections::BTreeMap;
use std::num::NonZeroU64;

pub(crate) use keys::{Keyed, Value, Version, Versions};
pub(crate) use runs::{Hit, Run, Runs};
pub(crate) use tables::Tables;

use crate::{
    BranchId, BranchName, Closed, ForkKind, Index, Purpose, StreamKind, StreamName, TableVersion,
};

/// Where a branch stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Takes writes.
    Open,
    /// Takes only what was acknowledged before: a promotion, discard or expiry is being decided.
    Closing {
        /// Index of the `Closing`, which the second phase names.
        at: Index,
        /// What shall become of it.
        purpose: Purpose,
    },
    /// Takes nothing any more.
    Closed(Closed),
}

/// One branch of a space. Read it through its methods; the state changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    pub(crate) id: BranchId,
    pub(crate) name: BranchName,
    /// Of the root: itself. Otherwise below `id`.
    pub(crate) parent: BranchId,
    /// `None` for the root only.
    pub(crate) kind: Option<ForkKind>,
    pub(crate) status: Status,
    pub(crate) owner: Box<str>,
    pub(crate) ttl_ms: Option<NonZeroU64>,
    /// Index of the fork operation; 0 for the root. Grows with `id`.
    pub(crate) created: u64,
    /// Last index of the parent's view that is seen; `u64::MAX` on a live fork. A parent that
    /// closed cuts the view as well, see `State::levels`.
    pub(crate) cut: u64,
    /// The version its tables started from; 0 for the root.
    pub(crate) base_tables: u64,
    /// Newest version of its own tables; `base_tables` until its first own change.
    pub(crate) tables: u64,
    /// First index of the last operation on it, its creation included. Never falls.
    pub(crate) last_used: u64,
    /// Forks between it and the root.
    pub(crate) depth: u32,
    /// Forks of it that are not retired: while there are any, the own part is kept.
    pub(crate) children: u32,
    /// What it wrote itself; absent until its first own write and once it is retired.
    pub(crate) own: Option<Box<Own>>,
}

/// The own part of a branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Own {
    pub(crate) plain: BTreeMap<StreamName, Runs>,
    pub(crate) keyed: BTreeMap<StreamName, Keyed>,
    pub(crate) tables: Tables,
    pub(crate) checks: BTreeMap<String, String>,
    /// Index of the last operation that changed `checks`; 0 if none did.
    pub(crate) checks_changed: u64,
}

impl Branch {
    pub(crate) fn root() -> Branch {
        Branch {
            id: BranchId::MAIN,
            name: BranchName::main(),
            parent: BranchId::MAIN,
            kind: None,
            status: Status::Open,
            owner: "".into(),
            ttl_ms: None,
            created: 0,
            cut: u64::MAX,
            base_tables: 0,
            tables: 0,
            last_used: 0,
            depth: 0,
            children: 0,
            own: None,
        }
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> BranchId {
        self.id
    }

    /// Its name. Another branch may have had it before, and may get it after this one is closed.
    #[must_use]
    pub fn name(&self) -> &BranchName {
        &self.name
    }

    /// The branch it was forked from; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<BranchId> {
        self.kind.map(|_| self.parent)
    }

    /// Live or frozen; `None` for the root.
    #[must_use]
    pub fn kind(&self) -> Option<ForkKind> {
        self.kind
    }

    /// Whether it is a live fork.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.kind == Some(ForkKind::Live)
    }

    /// Where it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Whether it takes writes.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.status == Status::Open
    }

    /// How it ended, if it did.
    #[must_use]
    pub fn closed(&self) -> Option<Closed> {
        match self.status {
            Status::Closed(how) => Some(how),
            Status::Open | Status::Closing { .. } => None,
        }
    }

    /// Whether it is closed and nothing can read its own part any more.
    #[must_use]
    pub fn is_retired(&self) -> bool {
        self.closed().is_some() && self.children == 0
    }

    /// Who answers for it.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Idle time after which the leader may expire it, in milliseconds.
    #[must_use]
    pub fn ttl_ms(&self) -> Option<u64> {
        self.ttl_ms.map(NonZeroU64::get)
    }

    /// Index of the fork operation; 0 for the root.
    #[must_use]
    pub fn created(&self) -> Index {
        Index(self.created)
    }

    /// First position at which it can be forked: where a frozen fork was cut, where a live fork
    /// was made; 0 for the root.
    #[must_use]
    pub fn forked_at(&self) -> Index {
        Index(self.created.min(self.cut))
    }

    /// Newest version of its own tables.
    #[must_use]
    pub fn tables(&self) -> TableVersion {
        TableVersion(Index(self.tables))
    }

    /// The version its tables started from. Together with [`Branch::tables`] it tells whether it
    /// changed tables.
    #[must_use]
    pub fn base_tables(&self) -> TableVersion {
        TableVersion(Index(self.base_tables))
    }

    /// First index of the last operation on it: a write, commit, check, fork of it or promotion
    /// into it.
    #[must_use]
    pub fn last_used(&self) -> Index {
        Index(self.last_used)
    }

    /// Forks between it and the root.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Forks of it that still read its own part or could.
    #[must_use]
    pub fn children(&self) -> u32 {
        self.children
    }

    /// Own records, in plain and keyed streams; 0 once retired.
    #[must_use]
    pub fn own_records(&self) -> u64 {
        let Some(own) = &self.own else { return 0 };
        let plain: u64 = own.plain.values().map(Runs::total).sum();
        let keyed: u64 = own.keyed.values().map(|keyed| keyed.runs.total()).sum();
        plain + keyed
    }

    /// Own changes of its tables: commits on it and promotions into it; 0 once retired.
    #[must_use]
    pub fn own_commits(&self) -> u64 {
        self.own.as_ref().map_or(0, |own| own.tables.total)
    }

    /// Indexes of all own changes of a fork's tables, in order. Of the root, only those of the
    /// versions still kept, at most [`crate::limits::RETAINED_ROOTS`].
    #[must_use]
    pub fn commits(&self) -> &[Index] {
        self.own.as_ref().map_or(&[], |own| own.tables.commits())
    }

    /// Index of the last operation that changed its checks; 0 if none did.
    #[must_use]
    pub fn checks_changed(&self) -> Index {
        Index(self.own.as_ref().map_or(0, |own| own.checks_changed))
    }

    /// Last index up to which anyone sees it: just before it closed.
    pub(crate) fn last_seen(&self) -> u64 {
        self.closed().map_or(u64::MAX, |how| how.at().0 - 1)
    }

    pub(crate) fn own_mut(&mut self) -> &mut Own {
        self.own.get_or_insert_default()
    }

    pub(crate) fn own_runs(&self, kind: StreamKind, stream: &StreamName) -> Option<&Runs> {
        let own = self.own.as_ref()?;
        match kind {
            StreamKind::Plain => own.plain.get(stream),
            StreamKind::Keyed => own.keyed.get(stream).map(|keyed| &keyed.runs),
        }
    }

    pub(crate) fn own_versions(&self, stream: &StreamName, key: &[u8]) -> Option<&Versions> {
        self.own.as_ref()?.keyed.get(stream)?.keys.get(key)
    }
}

/// All branches ever made, by number. Grows without moving what is there, so that the cost of a
/// fork does not depend on how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Branches {
    chunks: Vec<Vec<Branch>>,
}

/// Branches allocated at once.
const CHUNK: usize = 256;

impl Branches {
    pub(crate) fn len(&self) -> u64 {
        match self.chunks.last() {
            Some(last) => ((self.chunks.len() - 1) * CHUNK + last.len()) as u64,
            None => 0,
        }
    }

    pub(crate) fn get(&self, id: BranchId) -> Option<&Branch> {
        let at = usize::try_from(id.0).ok()?;
        self.chunks.get(at / CHUNK)?.get(at % CHUNK)
    }

    /// The branch with a number that this state gave itself.
    pub(crate) fn at(&self, id: BranchId) -> &Branch {
        self.get(id).expect("a branch number held in the state names a branch")
    }

    pub(crate) fn at_mut(&mut self, id: BranchId) -> &mut Branch {
        usize::try_from(id.0)
            .ok()
            .and_then(|at| self.chunks.get_mut(at / CHUNK)?.get_mut(at % CHUNK))
            .expect("a branch number held in the state names a branch")
    }

    pub(crate) fn push(&mut self, branch: Branch) {
        assert_eq!(branch.id.0, self.len(), "branch numbers are dense");
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(branch),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(branch);
                self.chunks.push(chunk);
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Branch> {
        self.chunks.iter().flatten()
    }
}
