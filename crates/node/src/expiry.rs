//! Idle forks: when they were last used, by this node's monotonic clock.
//!
//! The clock only decides when an expiry is *proposed*. What is measured restarts when the node
//! does, so a fork can only live longer than its time, never shorter; and the ordered operation is
//! void if the fork was used since.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_log::{BranchId, Index};

/// Deadlines of open forks that have a time to live.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    due: BTreeSet<(u64, BranchId)>,
    forks: BTreeMap<BranchId, Watched>,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    ttl_ms: u64,
    last_used: Index,
    due_ms: u64,
}

impl Idle {
    /// The fork exists, or was used: its last use is `last_used`.
    pub(crate) fn seen(&mut self, branch: BranchId, ttl_ms: u64, last_used: Index, now_ms: u64) {
        if let Some(watched) = self.forks.get(&branch) {
            if watched.last_used == last_used {
                return;
            }
            self.due.remove(&(watched.due_ms, branch));
        }
        let due_ms = now_ms.saturating_add(ttl_ms);
        self.forks.insert(branch, Watched { ttl_ms, last_used, due_ms });
        self.due.insert((due_ms, branch));
    }

    /// The fork closed.
    pub(crate) fn gone(&mut self, branch: BranchId) {
        if let Some(watched) = self.forks.remove(&branch) {
            self.due.remove(&(watched.due_ms, branch));
        }
    }

    /// Forks whose time has run out as far as is known here.
    pub(crate) fn due(&self, now_ms: u64) -> Vec<(BranchId, Index)> {
        self.due
            .iter()
            .take_while(|(due_ms, _)| *due_ms <= now_ms)
            .map(|(_, branch)| (*branch, self.forks[branch].last_used))
            .collect()
    }

    /// The fork was read: its time starts anew.
    pub(crate) fn touched(&mut self, branch: BranchId, now_ms: u64) {
        if let Some(watched) = self.forks.get_mut(&branch) {
            self.due.remove(&(watched.due_ms, branch));
            watched.due_ms = now_ms.saturating_add(watched.ttl_ms);
            self.due.insert((watched.due_ms, branch));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_fork_starts_anew() {
        let mut idle = Idle::default();
        idle.seen(BranchId(1), 100, Index(5), 0);
        assert!(idle.due(99).is_empty());
        assert_eq!(idle.due(100), [(BranchId(1), Index(5))]);
        idle.seen(BranchId(1), 100, Index(5), 90);
        assert_eq!(idle.due(100), [(BranchId(1), Index(5))], "no use, no change");
        idle.seen(BranchId(1), 100, Index(6), 90);
        assert!(idle.due(189).is_empty());
        idle.touched(BranchId(1), 150);
        assert!(idle.due(249).is_empty());
        assert_eq!(idle.due(250), [(BranchId(1), Index(6))]);
        idle.gone(BranchId(1));
        assert!(idle.due(u64::MAX).is_empty());
    }
}
