//! The invariants on the fields, as code.
//!
//! Checked of every decoded state, so nothing here may panic or overflow, whatever the fields
//! hold; and after every step in the tests.

use std::collections::{BTreeMap, BTreeSet};

use super::State;
use super::view::length;
use crate::branch::{Branch, Keyed, Run, Runs, Status};
use crate::limits::{self, INDEX_END, RETAINED_ROOTS};
use crate::{BranchId, ForkKind, Purpose, StreamKind, StreamName};

/// `Err` names the rule that is broken.
type Checked = Result<(), &'static str>;

fn ensure(holds: bool, rule: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(rule) }
}

impl State {
    /// Panics if an invariant does not hold. For tests and the simulator; costs more than linear
    /// time in the size of the state.
    pub fn assert_consistent(&self) {
        if let Err(rule) = self.check() {
            panic!("inconsistent state: {rule} does not hold");
        }
    }

    /// All invariants; `Err` names the first that is broken.
    pub(crate) fn check(&self) -> Checked {
        ensure(self.next > 0 && self.next < INDEX_END, "the next index is within its bounds")?;
        self.check_tree()?;
        self.check_names()?;
        self.check_sessions()?;
        let mut plain = Vec::new();
        for branch in self.branches.iter() {
            self.check_status(branch)?;
            check_tables(branch)?;
            self.check_own(branch, &mut plain)?;
        }
        disjoint(plain, "a record is written once")
    }

    fn check_tree(&self) -> Checked {
        let Some(root) = self.branches.get(BranchId::MAIN) else {
            return Err("there is a root");
        };
        let root_like = Branch {
            base_tables: 0,
            tables: root.tables,
            last_used: root.last_used,
            children: root.children,
            own: root.own.clone(),
            ..Branch::root()
        };
        ensure(*root == root_like, "the root is main, open and from the start")?;
        let mut children = vec![0u32; usize::try_from(self.branches.len()).unwrap_or_default()];
        let mut created = 0;
        for branch in self.branches.iter().skip(1) {
            let Some(parent) = self.branches.get(branch.parent).filter(|p| p.id < branch.id) else {
                return Err("a parent is older than its fork");
            };
            ensure(branch.depth == parent.depth + 1, "a depth counts the forks to the root")?;
            ensure(branch.depth <= limits::DEPTH, "depths are bounded")?;
            ensure(created < branch.created, "branches are numbered in order of creation")?;
            ensure(branch.created < self.next, "a branch was made in the past")?;
            created = branch.created;
            match branch.kind {
                None => return Err("only the root has no kind"),
                Some(ForkKind::Live) => ensure(branch.cut == u64::MAX, "a live fork has no cut")?,
                Some(ForkKind::Frozen) => {
                    let from = parent.created.min(parent.cut);
                    let cut = branch.cut;
                    ensure(from <= cut && cut <= branch.created, "a cut lies within the parent")?;
                }
            }
            let open_then = parent.closed().is_none_or(|how| how.at().0 > branch.created);
            ensure(open_then, "a fork was made of an open branch")?;
            let used_then = parent.last_used >= branch.created;
            ensure(used_then, "a fork is a use of its parent")?;
            if !branch.is_retired() {
                let at = usize::try_from(branch.parent.0).unwrap_or_default();
                children.get_mut(at).map_or(Err("a parent exists"), |n| {
                    *n += 1;
                    Ok(())
                })?;
            }
        }
        let counted = self.branches.iter().map(|branch| branch.children).eq(children);
        ensure(counted, "forks that are not retired are counted")
    }

    fn check_names(&self) -> Checked {
        let mut names = BTreeMap::new();
        for branch in self.branches.iter() {
            if let Some(before) = names.insert(branch.name.clone(), branch.id) {
                let closed = self.branches.at(before).closed();
                let free = closed.is_some_and(|how| how.at().0 < branch.created);
                ensure(free, "a name is given to one branch at a time")?;
            }
        }
        ensure(names == self.names, "a name leads to its newest branch")
    }

    fn check_sessions(&self) -> Checked {
        let sessions = &self.sessions;
        ensure(sessions.next > 0 && sessions.next < INDEX_END, "session numbers are bounded")?;
        ensure(sessions.next <= self.next, "each session took an index")?;
        ensure(sessions.open.len() <= limits::SESSIONS, "sessions are bounded")?;
        let mut opened = 0;
        for (id, session) in &sessions.open {
            ensure(id.0 > 0 && id.0 < sessions.next, "an open session was given")?;
            ensure(opened < session.opened.0, "sessions are numbered in order")?;
            opened = session.opened.0;
            ensure(opened < self.next, "a session was opened in the past")?;
            for (seq, outcome) in &session.outcomes {
                let above = seq.checked_sub(session.answered);
                let within = above.is_some_and(|n| n > 0 && n <= limits::SESSION_WINDOW);
                ensure(within, "kept outcomes lie within the window")?;
                let index = outcome.as_ref().map_or(0, |outcome| outcome.index().0);
                ensure(index < self.next, "an outcome is of the past")?;
            }
        }
        Ok(())
    }

    fn check_status(&self, branch: &Branch) -> Checked {
        let used = branch.created <= branch.last_used && branch.last_used < self.next;
        ensure(used, "a last use lies between creation and now")?;
        ensure(branch.kind.is_some() || branch.is_open(), "the root is open")?;
        match branch.status {
            Status::Open => Ok(()),
            Status::Closing { at, purpose } => {
                let after = branch.created < at.0 && at.0 < self.next;
                ensure(after, "a closing follows the creation")?;
                match purpose {
                    Purpose::Promote { into } => self.check_receiver(branch, into),
                    Purpose::Discard => Ok(()),
                    Purpose::Expire { last_used } => {
                        ensure(last_used < at, "an expiry names an earlier use")
                    }
                }
            }
            Status::Closed(how) => {
                let after = branch.last_used < how.at().0 && how.at().0 < self.next;
                ensure(after, "a branch is not used after its end")?;
                match how {
                    crate::Closed::Promoted { into, at } => {
                        self.check_receiver(branch, into)?;
                        let receiver = self.branches.at(into);
                        let open_then = receiver.closed().is_none_or(|how| how.at() > at);
                        let used_then = receiver.last_used >= at.0;
                        ensure(open_then && used_then, "a promotion goes to an open branch")
                    }
                    crate::Closed::Discarded { .. } | crate::Closed::Expired { .. } => Ok(()),
                }
            }
        }
    }

    fn check_receiver(&self, branch: &Branch, into: BranchId) -> Checked {
        let mut at = self.branches.get(into);
        ensure(at.is_some(), "a receiver exists")?;
        while let Some(ancestor) = at {
            ensure(ancestor.id != branch.id, "a branch is not promoted into a fork of its own")?;
            at = ancestor.parent().and_then(|parent| self.branches.get(parent));
        }
        Ok(())
    }

    /// Collects the intervals of plainly written records in `plain`.
    fn check_own(&self, branch: &Branch, plain: &mut Vec<(u64, u64)>) -> Checked {
        let Some(own) = &branch.own else { return Ok(()) };
        ensure(!branch.is_retired(), "a retired branch holds nothing")?;
        ensure(**own != crate::branch::Own::default(), "an own part is not empty")?;
        ensure(own.checks.len() <= limits::CHECKS, "checks are bounded")?;
        ensure(own.checks_changed <= branch.last_used, "a change of checks is a use")?;
        let changed = own.checks.is_empty() || own.checks_changed > branch.created;
        ensure(changed, "checks were added after the creation")?;
        for (name, runs) in &own.plain {
            self.check_runs(branch, StreamKind::Plain, name, runs, plain)?;
        }
        for (name, keyed) in &own.keyed {
            self.check_runs(branch, StreamKind::Keyed, name, &keyed.runs, plain)?;
            check_keys(keyed)?;
        }
        Ok(())
    }

    fn check_runs(
        &self,
        branch: &Branch,
        kind: StreamKind,
        stream: &StreamName,
        runs: &Runs,
        plain: &mut Vec<(u64, u64)>,
    ) -> Checked {
        ensure(!runs.0.is_empty(), "a stream has records")?;
        let mut before: Option<&Run> = None;
        let mut all = Vec::with_capacity(runs.0.len());
        for run in &runs.0 {
            ensure(run.count > 0, "a run has records")?;
            ensure(run.at > branch.created, "own records follow the creation")?;
            ensure(run.at <= branch.last_used, "an own record is a use")?;
            let (last, joined) = (run.first + (run.count - 1), run.last_joined());
            ensure(joined < self.next, "a record was written in the past")?;
            ensure(joined <= branch.last_seen(), "nothing is written after the end")?;
            if run.is_plain() {
                plain.push((run.first, run.count));
            } else {
                ensure(run.first > 0 && last < run.at, "spliced records are older")?;
            }
            all.push((run.first, run.count));
            let bounds = [Some(run.at), (joined > run.at).then_some(joined)];
            for bound in bounds.into_iter().flatten() {
                let seen = length(self.parent_levels(branch.id, bound), kind, stream);
                ensure(seen == run.parent_len, "a run knows the parent's length")?;
            }
            if let Some(before) = before {
                let later = before.last_joined() < run.at;
                let together = before.at == run.at && !run.is_plain() && !before.is_plain();
                ensure(later || together, "runs join in order")?;
                let adjacent = before.first + before.count == run.first;
                let same = before.parent_len == run.parent_len;
                let alike = if run.is_plain() { before.is_plain() } else { together };
                ensure(!(adjacent && same && alike), "adjacent runs are merged")?;
            }
            before = Some(run);
        }
        disjoint(all, "a record stands in a stream once")
    }
}

fn check_tables(branch: &Branch) -> Checked {
    let based = branch.base_tables <= branch.created.min(branch.cut);
    ensure(based, "tables start from a version before the fork")?;
    let newest = branch.commits().last().map_or(branch.base_tables, |last| last.0);
    if !branch.is_retired() {
        ensure(branch.tables == newest, "the newest version is the last change")?;
    }
    let used = branch.base_tables <= branch.tables && branch.tables <= branch.last_used;
    ensure(used, "a table change is a use")?;
    let Some(own) = &branch.own else { return Ok(()) };
    let (commits, total) = (&own.tables.commits, own.tables.total);
    let ascending = commits.is_sorted_by(|a, b| a < b);
    ensure(ascending, "table versions ascend")?;
    let after = commits.first().is_none_or(|first| first.0 > branch.created);
    ensure(after, "own table versions follow the creation")?;
    let kept = match branch.kind {
        None => total.min(RETAINED_ROOTS as u64),
        Some(_) => total,
    };
    ensure(commits.len() as u64 == kept, "table versions are kept as promised")?;
    ensure(total < INDEX_END, "table versions are bounded")
}

/// Every version is a record of the runs and every record a version.
fn check_keys(keyed: &Keyed) -> Checked {
    let runs: BTreeMap<u64, &Run> = keyed.runs.0.iter().map(|run| (run.first, run)).collect();
    let mut seen = BTreeSet::new();
    for versions in keyed.keys.values() {
        let mut before = 0;
        for version in versions.iter() {
            ensure(before <= version.at, "versions of a key join in order")?;
            before = version.at;
            let Some((_, run)) = runs.range(..=version.index).next_back() else {
                return Err("a version is a record");
            };
            ensure(version.index - run.first < run.count, "a version is a record")?;
            let joined = if run.is_plain() { version.index } else { run.at };
            ensure(joined == version.at, "a version joins with its record")?;
            ensure(seen.insert(version.index), "a record is one version")?;
        }
    }
    ensure(seen.len() as u64 == keyed.runs.total(), "a record of a keyed stream is a version")
}

fn disjoint(mut intervals: Vec<(u64, u64)>, rule: &'static str) -> Checked {
    intervals.sort_unstable();
    let apart = intervals.windows(2).all(|pair| match pair {
        [(first, count), (next, _)] => first + count <= *next,
        _ => true,
    });
    ensure(apart, rule)
}

#[cfg(test)]
mod tests;
