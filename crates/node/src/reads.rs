//! Read sets: which tables were read on a fork, and on which version of its parent.
//!
//! Kept in memory by the node that runs the statements. A fork that this node did not see being
//! made may have read anything: then every table counts as read since the fork was made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use anabranch_log::{BranchId, TableVersion};

/// Read sets of open forks.
#[derive(Default)]
pub(crate) struct Reads {
    forks: Mutex<BTreeMap<BranchId, ReadSet>>,
}

/// Tables read on one fork, lower case, each with the version of its first read.
pub(crate) type ReadSet = BTreeMap<String, TableVersion>;

impl Reads {
    /// A fork was made here: its reads are known from the start.
    pub(crate) fn forked(&self, branch: BranchId) {
        self.lock().insert(branch, ReadSet::new());
    }

    /// Statements on the branch read these tables.
    pub(crate) fn read(&self, branch: BranchId, tables: BTreeSet<String>, version: TableVersion) {
        if let Some(set) = self.lock().get_mut(&branch) {
            for table in tables {
                set.entry(table).or_insert(version);
            }
        }
    }

    /// What was read; `None` if that is not known.
    pub(crate) fn of(&self, branch: BranchId) -> Option<ReadSet> {
        self.lock().get(&branch).cloned()
    }

    /// The branch closed.
    pub(crate) fn forget(&self, branch: BranchId) {
        self.lock().remove(&branch);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<BranchId, ReadSet>> {
        self.forks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
