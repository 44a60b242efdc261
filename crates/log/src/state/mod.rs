//! The owner of everything: branches, names, sessions and the next index.
//!
//! [`State::apply`] is the only way to change it; it is total, deterministic, and the same for
//! replay and live. A refused entry changes nothing but its session's memory.

mod admit;
mod apply;
mod check;
mod close;
mod view;
mod write;

use std::collections::BTreeMap;

pub use view::{KeyConflict, KeyVersion};

use crate::branch::{Branch, Branches, Status};
use crate::limits::INDEX_END;
use crate::session::{Lookup, Session, Sessions};
use crate::{BranchId, BranchName, Closed, Index, Invalid, Outcome, Refusal, SessionId, WriteId};

/// State of one space after some prefix of its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Index of the next operation; above every index held anywhere below.
    pub(crate) next: u64,
    /// All branches ever made; `main` is the first.
    pub(crate) branches: Branches,
    /// For each name ever given, the newest branch of that name. All older ones are closed.
    pub(crate) names: BTreeMap<BranchName, BranchId>,
    pub(crate) sessions: Sessions,
}

impl Default for State {
    fn default() -> State {
        State::new()
    }
}

impl State {
    /// The state before everything: `main`, empty.
    #[must_use]
    pub fn new() -> State {
        let mut branches = Branches::default();
        branches.push(Branch::root());
        let names = BTreeMap::from([(BranchName::main(), BranchId::MAIN)]);
        State { next: 1, branches, names, sessions: Sessions::new() }
    }

    /// Index that the next operation will get.
    #[must_use]
    pub fn next_index(&self) -> Index {
        Index(self.next)
    }

    /// Last index used; 0 at the start.
    #[must_use]
    pub fn applied_index(&self) -> Index {
        Index(self.next - 1)
    }

    /// The open or closing branch of this name.
    ///
    /// Refused if there never was one, or if the newest of this name is closed: then the refusal
    /// says where its own writes went.
    pub fn resolve(&self, name: &BranchName) -> Result<BranchId, Refusal> {
        let Some(id) = self.names.get(name) else {
            return Err(Refusal::UnknownBranch { name: name.clone() });
        };
        match self.branches.at(*id).closed() {
            Some(how) => Err(Refusal::BranchClosed { branch: *id, how }),
            None => Ok(*id),
        }
    }

    /// The newest branch of this name, closed or not.
    #[must_use]
    pub fn newest(&self, name: &BranchName) -> Option<BranchId> {
        self.names.get(name).copied()
    }

    /// A branch by number, closed ones included.
    #[must_use]
    pub fn branch(&self, id: BranchId) -> Option<&Branch> {
        self.branches.get(id)
    }

    /// All branches ever made, in order of creation.
    pub fn branches(&self) -> impl Iterator<Item = &Branch> {
        self.branches.iter()
    }

    /// The branch that a promotion of `branch` goes to unless told otherwise: its parent, or the
    /// branch that received the parent, and so on.
    ///
    /// Refused for `main`, for a closed branch, and where the parent was dropped.
    pub fn promotion_target(&self, branch: BranchId) -> Result<BranchId, Refusal> {
        let of = self.known(branch)?;
        if let Some(how) = of.closed() {
            return Err(Refusal::BranchClosed { branch, how });
        }
        let mut target = of.parent().ok_or(Refusal::Invalid(Invalid::Main))?;
        loop {
            match self.branches.at(target).closed() {
                None => break,
                Some(Closed::Promoted { into, .. }) => target = into,
                Some(Closed::Discarded { .. } | Closed::Expired { .. }) => {
                    return Err(Refusal::NeedsTarget { branch, parent: target });
                }
            }
        }
        self.check_target(branch, target)?;
        Ok(target)
    }

    /// Checks of a branch: name and query. Forks do not inherit them: what counts at a promotion
    /// are the target's.
    #[must_use]
    pub fn checks(&self, branch: BranchId) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let own = self.branches.get(branch).and_then(|branch| branch.own.as_ref());
        own.map_or(&NONE, |own| &own.checks)
    }

    /// Open sessions, by number.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.sessions.open.iter().map(|(id, session)| (*id, session))
    }

    /// One open session.
    #[must_use]
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.open.get(&id)
    }

    /// The outcome of an earlier run of this write, as long as its session remembers it.
    #[must_use]
    pub fn outcome_of(&self, id: WriteId) -> Option<&Result<Outcome, Refusal>> {
        match self.sessions.lookup(id) {
            Lookup::Replay(outcome) => Some(outcome),
            Lookup::Fresh | Lookup::Refused(_) => None,
        }
    }

    fn known(&self, branch: BranchId) -> Result<&Branch, Refusal> {
        self.branches.get(branch).ok_or(Refusal::UnknownBranchId { branch })
    }

    /// The branch, if it takes ordered operations.
    fn open(&self, branch: BranchId) -> Result<&Branch, Refusal> {
        let of = self.known(branch)?;
        match of.status {
            Status::Open => Ok(of),
            Status::Closing { .. } => Err(Refusal::BranchClosing { branch }),
            Status::Closed(how) => Err(Refusal::BranchClosed { branch, how }),
        }
    }

    /// The branch, if it takes writes that were acknowledged before it began to close.
    fn not_closed(&self, branch: BranchId) -> Result<&Branch, Refusal> {
        let of = self.known(branch)?;
        match of.closed() {
            Some(how) => Err(Refusal::BranchClosed { branch, how }),
            None => Ok(of),
        }
    }

    /// Whether `branch` may be promoted into `into`, as far as the tree says.
    fn check_target(&self, branch: BranchId, into: BranchId) -> Result<(), Refusal> {
        self.open(into)?;
        let mut at = into;
        loop {
            if at == branch {
                return Err(Refusal::Invalid(Invalid::TargetWithin));
            }
            match self.branches.at(at).parent() {
                Some(parent) => at = parent,
                None => return Ok(()),
            }
        }
    }

    /// Takes the next indexes.
    fn take(&mut self, count: u64) -> u64 {
        let first = self.next;
        self.next += count;
        assert!(self.next < INDEX_END, "a space outlives its indexes");
        first
    }

    /// Notes that an operation of this index was about the branch.
    fn touch(&mut self, branch: BranchId, index: u64) {
        let of = self.branches.at_mut(branch);
        assert!(of.last_used <= index, "use is noted in order");
        of.last_used = index;
    }
}
