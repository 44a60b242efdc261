//! The end of a branch: closing in two phases, promotion (splice), discard, reopening.
//!
//! A `Closing` stops new acknowledgements. What was acknowledged before is still taken; then the
//! second phase names that `Closing` and is void unless it is still open. So what lands is what
//! was reviewed, and no acknowledged write misses its promotion.

use std::collections::{BTreeMap, BTreeSet};

use super::State;
use crate::branch::{Run, Status, Version};
use crate::{
    BranchId, Change, Closed, Index, Invalid, Key, Operation, Outcome, Purpose, Refusal,
    StreamKind, StreamName, TableVersion, TablesChange, limits,
};

/// A promotion, unpacked from its operation.
struct Promotion<'a> {
    branch: BranchId,
    closing: Index,
    into: BranchId,
    target_tables: TableVersion,
    tables: &'a TablesChange,
    /// Keys of which nothing is moved.
    leave_out: BTreeSet<(&'a StreamName, &'a Key)>,
    /// Conflicting keys that are moved, with the target's version that was reviewed.
    overwrite: BTreeMap<(&'a StreamName, &'a Key), Option<Index>>,
}

/// What a promotion moves, per stream in the order of the fork's own records: first index and
/// count of each run.
#[derive(Default)]
struct Splice {
    plain: Vec<(StreamName, Vec<(u64, u64)>)>,
    keyed: Vec<(StreamName, Vec<(u64, u64)>)>,
    /// Versions of one key, oldest first.
    keys: Vec<(StreamName, Key, Vec<Version>)>,
}

impl State {
    pub(super) fn closing(
        &mut self,
        branch: BranchId,
        purpose: Purpose,
    ) -> Result<Outcome, Refusal> {
        let of = self.open(branch)?;
        if of.parent().is_none() {
            return Err(Refusal::Invalid(Invalid::Main));
        }
        match purpose {
            Purpose::Promote { into } => self.check_target(branch, into)?,
            Purpose::Discard => {}
            Purpose::Expire { last_used } if of.last_used() == last_used => {}
            Purpose::Expire { .. } => {
                return Err(Refusal::UsedSince { branch, last_used: of.last_used() });
            }
        }
        let at = Index(self.take(1));
        self.branches.at_mut(branch).status = Status::Closing { at, purpose };
        Ok(Outcome::Closing { index: at })
    }

    pub(super) fn reopen(&mut self, branch: BranchId, closing: Index) -> Result<Outcome, Refusal> {
        self.closing_purpose(branch, closing)?;
        let index = Index(self.take(1));
        self.branches.at_mut(branch).status = Status::Open;
        Ok(Outcome::Reopened { index })
    }

    pub(super) fn discard(
        &mut self,
        branch: BranchId,
        closing: Index,
        changes: &mut Vec<Change>,
    ) -> Result<Outcome, Refusal> {
        let purpose = self.closing_purpose(branch, closing)?;
        let last_used = self.branches.at(branch).last_used();
        let expired = match purpose {
            Purpose::Discard => false,
            // Writes acknowledged before the closing may have been ordered after it.
            Purpose::Expire { last_used: seen } if seen == last_used => true,
            Purpose::Expire { .. } => return Err(Refusal::UsedSince { branch, last_used }),
            Purpose::Promote { .. } => return Err(Refusal::NotClosing { branch, closing }),
        };
        let at = Index(self.take(1));
        let how = if expired { Closed::Expired { at } } else { Closed::Discarded { at } };
        self.close(branch, how, changes);
        Ok(Outcome::Discarded { index: at })
    }

    /// The purpose of a closing that is still open.
    fn closing_purpose(&self, branch: BranchId, closing: Index) -> Result<Purpose, Refusal> {
        match self.not_closed(branch)?.status {
            Status::Closing { at, purpose } if at == closing => Ok(purpose),
            _ => Err(Refusal::NotClosing { branch, closing }),
        }
    }

    /// Ends a branch. Its forks see it as it was just before: `Levels` reads that from the status.
    fn close(&mut self, branch: BranchId, how: Closed, changes: &mut Vec<Change>) {
        self.branches.at_mut(branch).status = Status::Closed(how);
        changes.push(Change::Closed { branch });
        self.retire(branch, changes);
    }

    /// Drops the own part of a closed branch that no fork can read any more, and of each closed
    /// ancestor whose last fork that was.
    fn retire(&mut self, branch: BranchId, changes: &mut Vec<Change>) {
        let mut branch = branch;
        while self.branches.at(branch).is_retired() {
            let of = self.branches.at_mut(branch);
            of.own = None;
            changes.push(Change::Retired { branch });
            branch = of.parent().expect("main is never closed");
            self.branches.at_mut(branch).children -= 1;
        }
    }

    pub(super) fn promote(
        &mut self,
        operation: &Operation,
        changes: &mut Vec<Change>,
    ) -> Result<Outcome, Refusal> {
        let promotion = Promotion::of(operation);
        self.check_promotion(&promotion)?;
        let Promotion { branch, into, .. } = promotion;
        let splice = self.splice_of(&promotion);
        let records = splice.records();
        let keys = splice.keys.len() as u64;
        let at = self.take(1);
        self.splice(into, at, splice);
        self.touch(into, at);
        changes.push(Change::Spliced { into, from: branch, records });
        let version = TableVersion(Index(at));
        let moved = match promotion.tables {
            TablesChange::None => None,
            TablesChange::TakeFork => Some(Change::TablesTaken { into, from: branch, version }),
            TablesChange::Body(_) => Some(Change::TablesCommitted { branch: into, version }),
        };
        if let Some(change) = moved {
            changes.push(change);
            self.move_tables(into, at, changes);
        }
        self.close(branch, Closed::Promoted { into, at: Index(at) }, changes);
        Ok(Outcome::Promoted { index: Index(at), into, records, keys })
    }

    fn check_promotion(&self, promotion: &Promotion<'_>) -> Result<(), Refusal> {
        let Promotion { branch, closing, into, .. } = *promotion;
        if self.closing_purpose(branch, closing)? != (Purpose::Promote { into }) {
            return Err(Refusal::NotClosing { branch, closing });
        }
        self.check_target(branch, into)?;
        let (of, target) = (self.branches.at(branch), self.branches.at(into));
        if target.checks_changed() > closing {
            return Err(Refusal::ChecksMoved { branch: into, at: target.checks_changed() });
        }
        let takes = *promotion.tables == TablesChange::TakeFork;
        if takes && (of.is_live() || target.is_live()) {
            return Err(Refusal::Invalid(Invalid::TakeFork));
        }
        let current = target.tables();
        let moves = *promotion.tables != TablesChange::None || of.own_commits() > 0;
        let expected = if takes { of.base_tables() } else { promotion.target_tables };
        if moves && (promotion.target_tables != current || expected != current) {
            return Err(Refusal::TablesMoved { branch: into, expected, current });
        }
        self.check_conflicts(promotion)
    }

    fn check_conflicts(&self, promotion: &Promotion<'_>) -> Result<(), Refusal> {
        let Promotion { branch, into, .. } = *promotion;
        let (mut listed, mut count) = (Vec::new(), 0);
        for conflict in self.conflicts(branch, into) {
            let name = (&conflict.stream, &conflict.key);
            let settled = promotion.leave_out.contains(&name)
                || promotion.overwrite.get(&name) == Some(&conflict.theirs);
            if !settled {
                count += 1;
                if listed.len() < limits::CONFLICTS_LISTED {
                    listed.push((conflict.stream, conflict.key));
                }
            }
        }
        if count == 0 { Ok(()) } else { Err(Refusal::Conflict { listed, count }) }
    }

    /// Gathers the own part of a branch, without the keys to leave out.
    fn splice_of(&self, promotion: &Promotion<'_>) -> Splice {
        let mut splice = Splice::default();
        let Some(own) = &self.branches.at(promotion.branch).own else { return splice };
        for (stream, runs) in &own.plain {
            let runs = runs.0.iter().map(|run| (run.first, run.count)).collect();
            splice.plain.push((stream.clone(), runs));
        }
        for (stream, keyed) in &own.keyed {
            let mut left_out = BTreeSet::new();
            for (key, versions) in &keyed.keys {
                if promotion.leave_out.contains(&(stream, key)) {
                    left_out.extend(versions.iter().map(|version| version.index));
                } else {
                    let versions = versions.iter().copied().collect();
                    splice.keys.push((stream.clone(), key.clone(), versions));
                }
            }
            let runs: Vec<_> =
                keyed.runs.0.iter().flat_map(|run| without(run, &left_out)).collect();
            if !runs.is_empty() {
                splice.keyed.push((stream.clone(), runs));
            }
        }
        splice
    }

    /// Appends what was gathered to the target's streams, as one block that joins at `at`.
    fn splice(&mut self, into: BranchId, at: u64, splice: Splice) {
        for (stream, runs) in splice.plain {
            let parent_len = self.parent_length(into, StreamKind::Plain, &stream);
            let own = self.branches.at_mut(into).own_mut().plain.entry(stream).or_default();
            for (first, count) in runs {
                own.push(at, first, count, parent_len);
            }
        }
        for (stream, runs) in splice.keyed {
            let parent_len = self.parent_length(into, StreamKind::Keyed, &stream);
            let own = self.branches.at_mut(into).own_mut().keyed.entry(stream).or_default();
            for (first, count) in runs {
                own.runs.push(at, first, count, parent_len);
            }
        }
        for (stream, key, versions) in splice.keys {
            let own = self.branches.at_mut(into).own_mut().keyed.entry(stream).or_default();
            for version in versions {
                own.push(&key, Version { at, ..version });
            }
        }
    }
}

impl<'a> Promotion<'a> {
    fn of(operation: &'a Operation) -> Promotion<'a> {
        let Operation::Promote {
            branch,
            closing,
            into,
            target_tables,
            tables,
            leave_out,
            overwrite,
            summary: _,
        } = operation
        else {
            unreachable!("the dispatcher hands over promotions only")
        };
        Promotion {
            branch: *branch,
            closing: *closing,
            into: *into,
            target_tables: *target_tables,
            tables,
            leave_out: leave_out.iter().map(|(stream, key)| (stream, key)).collect(),
            overwrite: overwrite.iter().map(|o| ((&o.stream, &o.key), o.theirs)).collect(),
        }
    }
}

impl Splice {
    fn records(&self) -> u64 {
        let streams = self.plain.iter().chain(&self.keyed);
        streams.flat_map(|(_, runs)| runs).map(|(_, count)| count).sum()
    }
}

/// The parts of a run between the records to leave out.
fn without(run: &Run, left_out: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let end = run.first + run.count;
    let mut parts = Vec::new();
    let mut first = run.first;
    for gap in left_out.range(run.first..end).copied().chain([end]) {
        if gap > first {
            parts.push((first, gap - first));
        }
        first = gap + 1;
    }
    parts
}
