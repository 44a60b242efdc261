//! Promotion: what would land is built, checked and shown, and only exactly that lands.
//!
//! Two phases (see `anabranch_log::Operation::Closing`): the branch is closed for new writes,
//! everything acknowledged on it is ordered, the candidate is built on the target's newest tables
//! and checked there, and one record moves streams, keys and tables together. It is valid only on
//! the tables that were checked; if they moved meanwhile, the candidate is built again. A refusal
//! reopens the branch as it was.

use std::collections::BTreeSet;
use std::sync::Arc;

use anabranch_log::{
    BranchId, Digest, Index, Key, Kind, Operation, Outcome, Overwrite, Purpose, Refusal,
    StreamName, TableVersion, TablesChange,
};
use anabranch_sql::{
    self as sql, Body, Candidate, NetChanges, PageMap, PageStore, PromoteError, Promotion,
};

use crate::body::Summary;
use crate::error::{Error, Result};
use crate::names;
use crate::shared::Shared;
use crate::sql::{Snapshot, failed_checks, inner, turn};
use crate::streams::unexpected;
use crate::view::{
    CheckResult, KeyConflict, Origin, Policy, Preview, PromoteOptions, Promoted, RowConflict,
};

/// How often a candidate is built anew because the target moved.
const ATTEMPTS: u32 = 8;
/// Conflicts listed, at most; all are counted.
const CONFLICTS_LISTED: usize = 1_000;
/// Rows listed in the preview that comes with a refusal.
const REFUSAL_ROWS: usize = 20;

/// Everything a promotion would do, at the heads it was built on.
struct Plan {
    target: Snapshot,
    net: NetChanges,
    tables: Tables,
    summary: Summary,
    leave_out: Vec<(StreamName, Key)>,
    overwrite: Vec<Overwrite>,
    conflicts: Vec<RowConflict>,
    key_conflicts: Vec<KeyConflict>,
    checks: Vec<CheckResult>,
    stale_reads: Vec<String>,
    token: String,
    /// Why it would not land.
    refusal: Option<Error>,
}

/// A branch in the first phase of its promotion.
struct Closing<'a> {
    id: BranchId,
    name: &'a str,
    target: BranchId,
    /// Index of the first phase.
    begun: Index,
}

/// What would happen to the target's tables.
enum Tables {
    None,
    /// The frozen fork's pages are the candidate.
    TakeFork,
    /// The encoded commit on the target.
    Body(Vec<u8>),
}

impl Shared {
    pub(crate) fn preview(
        &self,
        branch: &str,
        options: &PromoteOptions,
        max_rows: usize,
    ) -> Result<Preview> {
        self.barrier()?;
        let (id, target) = self.fork_and_target(branch, options.onto.as_deref())?;
        let plan = self.plan(id, target, options)?;
        self.previewed(id, branch, plan, max_rows)
    }

    fn previewed(&self, id: BranchId, name: &str, plan: Plan, max_rows: usize) -> Result<Preview> {
        let diff = self.diff_of(id, name, &plan.net, None, max_rows)?;
        let target = names::name_of(&self.lock().state, plan.target.branch);
        Ok(Preview {
            token: plan.token,
            target,
            diff,
            conflicts: plan.conflicts,
            key_conflicts: plan.key_conflicts,
            checks: plan.checks,
            stale_reads: plan.stale_reads,
            would_land: plan.refusal.is_none(),
        })
    }

    pub(crate) fn promote(
        &self,
        branch: &str,
        options: &PromoteOptions,
        by: &Origin,
    ) -> Result<Promoted> {
        if let Some(Outcome::Promoted { index, into, records, .. }) = self.first_outcome(by)? {
            return Ok(Promoted {
                index: index.0,
                into: names::name_of(&self.lock().state, into),
                records,
                ..Promoted::default()
            });
        }
        let (id, target) = self.fork_and_target(branch, options.onto.as_deref())?;
        // Writers of both branches wait their turn meanwhile: liveness only.
        let (first, second) = (id.min(target), id.max(target));
        let (first, second) = (self.writers.of(first), self.writers.of(second));
        let (_first, _second) = (turn(&first), turn(&second));
        let purpose = Purpose::Promote { into: target };
        let closing = self.applied(Operation::Closing { branch: id, purpose }, &inner(by))?;
        let closing = closing.index();
        let landed = self.barrier().and_then(|()| {
            let promotion = Closing { id, name: branch, target, begun: closing };
            self.land(&promotion, options, by)
        });
        match &landed {
            Ok(_) => {
                let mut idle = self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                idle.gone(id);
                drop(idle);
                self.forget_branch(id);
            }
            // Of an unknown outcome nothing is undone: the log decides.
            Err(error) if error.happened == anabranch_log::Happened::No => {
                self.reopen(id, closing, by);
            }
            Err(_) => {}
        }
        landed
    }

    fn land(
        &self,
        promotion: &Closing<'_>,
        options: &PromoteOptions,
        by: &Origin,
    ) -> Result<Promoted> {
        let Closing { id, name, target, begun: closing } = *promotion;
        for attempt in 0..ATTEMPTS {
            let mut plan = self.plan(id, target, options)?;
            if let Some(refusal) = plan.refusal.take() {
                let preview = self.previewed(id, name, plan, REFUSAL_ROWS)?;
                let preview = Some(Box::new(Preview { would_land: false, ..preview }));
                return Err(Error { preview, ..refusal });
            }
            let tables = match std::mem::replace(&mut plan.tables, Tables::None) {
                Tables::None => TablesChange::None,
                Tables::TakeFork => TablesChange::TakeFork,
                Tables::Body(bytes) => TablesChange::Body(self.log_body(bytes)?),
            };
            let operation = Operation::Promote {
                branch: id,
                closing,
                into: target,
                target_tables: plan.target.base,
                tables,
                leave_out: plan.leave_out.clone(),
                overwrite: plan.overwrite.clone(),
                summary: plan.summary.encode(),
            };
            match self.decided(operation, by, attempt)? {
                Ok(Outcome::Promoted { index, records, .. }) => {
                    return Ok(self.promoted(plan, index, records));
                }
                Ok(other) => return Err(unexpected(&other)),
                Err(
                    refusal @ (Refusal::TablesMoved { .. }
                    | Refusal::ChecksMoved { .. }
                    | Refusal::Conflict { .. }),
                ) if refusal.leaves_seq_unused() => {}
                Err(refusal) => return Err(refusal.into()),
            }
        }
        Err(Error::no(Kind::TablesMoved, "the target moved again and again under this promotion"))
    }

    fn promoted(&self, plan: Plan, index: Index, records: u64) -> Promoted {
        let rows = plan
            .summary
            .tables
            .iter()
            .fold((0, 0, 0), |sum, (_, i, u, d)| (sum.0 + i, sum.1 + u, sum.2 + d));
        Promoted {
            index: index.0,
            into: names::name_of(&self.lock().state, plan.target.branch),
            records,
            rows,
            left_out: plan
                .leave_out
                .iter()
                .map(|(stream, key)| (stream.to_string(), key.as_bytes().to_vec()))
                .collect(),
            settled: plan.conflicts,
            checks: plan.checks,
        }
    }

    /// Builds the candidate on the target as it is now, and finds every reason against it.
    fn plan(&self, id: BranchId, target: BranchId, options: &PromoteOptions) -> Result<Plan> {
        let net = self.own_changes(id)?;
        let target = self.snapshot_of(target)?;
        let mut plan = Plan {
            token: String::new(),
            stale_reads: self.stale_reads(id, target.branch)?,
            tables: Tables::None,
            summary: summary_of(&net),
            leave_out: Vec::new(),
            overwrite: Vec::new(),
            conflicts: Vec::new(),
            key_conflicts: Vec::new(),
            checks: Vec::new(),
            refusal: None,
            target,
            net,
        };
        self.plan_keys(&mut plan, id, options.policy)?;
        plan.token = self.token(id, &plan)?;
        let mut refusals = Vec::new();
        if options.token.as_ref().is_some_and(|token| *token != plan.token) {
            refusals.push(Error::no(Kind::StaleToken, "a head moved since the preview"));
        }
        if options.policy == Policy::Fail && !plan.key_conflicts.is_empty() {
            let count = plan.key_conflicts.len();
            let message = format!("keys changed on both sides, keys=`{count}`");
            refusals.push(Error::no(Kind::Conflict, message));
        }
        if options.strict && !plan.stale_reads.is_empty() {
            let tables = plan.stale_reads.join(", ");
            let message = format!("tables read on the fork changed on the target since: {tables}");
            refusals.push(Error::no(Kind::Conflict, message));
        }
        match self.plan_tables(&mut plan, id, options) {
            Ok((root, pages)) => {
                plan.checks = self.checked(&pages, &root, &plan.target.checks);
                refusals.extend(failed_checks(&plan.checks));
            }
            Err(error) if error.kind == Kind::Conflict => refusals.push(error),
            Err(error) => return Err(error),
        }
        plan.refusal = refusals.into_iter().reduce(|first, other| Error {
            message: format!("{}; {}", first.message, other.message),
            ..first
        });
        Ok(plan)
    }

    fn plan_keys(&self, plan: &mut Plan, id: BranchId, policy: Policy) -> Result<()> {
        let conflicts = self.lock().state.key_conflicts(id, plan.target.branch);
        for conflict in conflicts {
            let (stream, key) = (conflict.stream.clone(), conflict.key.clone());
            match policy {
                Policy::Fail => {}
                Policy::Parent => plan.leave_out.push((stream, key)),
                Policy::Fork => {
                    plan.overwrite.push(Overwrite { stream, key, theirs: conflict.theirs });
                }
            }
            plan.key_conflicts.push(KeyConflict {
                stream: conflict.stream.to_string(),
                key: conflict.key.as_bytes().to_vec(),
                base: self.value_at(conflict.base)?,
                ours: self.value_at(Some(conflict.ours))?,
                theirs: self.value_at(conflict.theirs)?,
            });
        }
        Ok(())
    }

    /// The candidate's pages. A conflict that the policy does not settle is an error of kind
    /// `conflict`, with the rows in the plan.
    fn plan_tables(
        &self,
        plan: &mut Plan,
        id: BranchId,
        options: &PromoteOptions,
    ) -> Result<(PageMap, Arc<dyn PageStore>)> {
        let view = plan.target.view.clone();
        if plan.net.is_empty() {
            return Ok((view.root, view.pages));
        }
        if let Some(head) = self.head_to_take(id, &plan.target) {
            plan.tables = Tables::TakeFork;
            return Ok((head, view.pages));
        }
        let cells: BTreeSet<String> = options.cell_merge.iter().cloned().collect();
        let promotion = Promotion {
            target: &view.root,
            net: &plan.net,
            policy: match options.policy {
                Policy::Fail => sql::Policy::Fail,
                Policy::Fork => sql::Policy::Fork,
                Policy::Parent => sql::Policy::Parent,
            },
            merge_cells: &cells,
            max_conflicts: CONFLICTS_LISTED,
            limits: self.options.limits,
        };
        match sql::promote(&view.pages, &promotion) {
            Ok(candidate) => self.take_candidate(plan, candidate, &view.pages),
            Err(PromoteError::Conflicts { conflicts, count }) => {
                plan.conflicts = conflicts.into_iter().map(told).collect();
                let message = format!("rows changed on both sides, rows=`{count}`");
                Err(Error::no(Kind::Conflict, message))
            }
            Err(PromoteError::Clash(clash)) => {
                Err(Error::no(Kind::Conflict, format!("the fork does not fit its target: {clash}")))
            }
            Err(PromoteError::Sql(error)) => Err(error.into()),
        }
    }

    fn take_candidate(
        &self,
        plan: &mut Plan,
        candidate: Candidate,
        pages: &Arc<dyn PageStore>,
    ) -> Result<(PageMap, Arc<dyn PageStore>)> {
        let live = self.lock().tables.get(plan.target.branch).is_some_and(|tables| tables.live);
        plan.conflicts = candidate.conflicts.into_iter().map(told).collect();
        plan.summary = crate::sql::summary(&candidate.commit.steps);
        if !candidate.root.same(&plan.target.view.root) {
            let body = if live {
                Body::encode_changes(&candidate.commit)
            } else {
                crate::sql::encode_with_pages(&plan.target.view, &candidate.commit)?
            };
            plan.tables = Tables::Body(body);
        }
        Ok((candidate.root, Arc::clone(pages)))
    }

    /// The frozen fork's own pages, if the target's tables stood still since it was cut.
    fn head_to_take(&self, id: BranchId, target: &Snapshot) -> Option<PageMap> {
        let engine = self.lock();
        let tables = engine.tables.get(id).filter(|tables| !tables.live)?;
        let source = tables.source.as_ref().filter(|source| source.layers.is_empty())?;
        let still = source.origin == (target.branch, target.base);
        let real = engine.tables.get(target.branch).is_some_and(|tables| !tables.live);
        tables.head.clone().filter(|_| still && real)
    }

    /// Tables read on the fork that the target changed after they were read.
    fn stale_reads(&self, id: BranchId, target: BranchId) -> Result<Vec<String>> {
        let engine = self.lock();
        let fork = engine.state.branch(id).ok_or_else(|| {
            Error::no(Kind::UnknownBranch, format!("no such branch, branch=`{id}`"))
        })?;
        let Some(tables) = engine.tables.get(target) else { return Ok(Vec::new()) };
        let changed = |table: &str, since: TableVersion| {
            tables.changed.iter().any(|(name, version)| {
                (name.is_empty() || name.eq_ignore_ascii_case(table)) && *version > since
            })
        };
        let Some(read) = self.reads.of(id) else {
            // Nobody here knows what was read: everything, since the fork was made.
            let since = TableVersion(fork.forked_at());
            let moved = tables.changed.iter().filter(|(_, version)| **version > since);
            return Ok(moved.map(|(table, _)| table.clone()).collect());
        };
        let stale = read.into_iter().filter(|(table, version)| changed(table, *version));
        Ok(stale.map(|(table, _)| table).collect())
    }

    /// Names what a preview saw: everything on the fork, and on the target its tables, its checks
    /// and the keys that conflict. What else happens on the target cannot change what lands.
    fn token(&self, id: BranchId, plan: &Plan) -> Result<String> {
        let engine = self.lock();
        let missing = || Error::no(Kind::UnknownBranch, format!("no such branch, branch=`{id}`"));
        let fork = engine.state.branch(id).ok_or_else(missing)?;
        let target = engine.state.branch(plan.target.branch).ok_or_else(missing)?;
        let mut hash = blake3::Hasher::new();
        for number in [
            id.0,
            fork.own_records(),
            fork.own_commits(),
            fork.tables().0.0,
            target.id().0,
            plan.target.base.0.0,
            plan.target.view.source.origin.1.0.0,
            target.checks_changed().0,
        ] {
            hash.update(&number.to_le_bytes());
        }
        for conflict in engine.state.key_conflicts(id, target.id()) {
            hash.update(conflict.stream.as_str().as_bytes());
            hash.update(conflict.key.as_bytes());
            hash.update(&conflict.theirs.map_or(0, |theirs| theirs.0).to_le_bytes());
        }
        Ok(Digest(*hash.finalize().as_bytes()).to_string())
    }
}

fn summary_of(net: &NetChanges) -> Summary {
    Summary {
        tables: net
            .counts()
            .into_iter()
            .map(|table| (table.table, table.inserts, table.updates, table.deletes))
            .collect(),
        schema: net.schema().map(str::to_owned).collect(),
        cut: false,
    }
}

fn told(conflict: sql::RowConflict) -> RowConflict {
    RowConflict {
        table: conflict.table,
        columns: conflict.columns,
        key: conflict.key,
        base: conflict.base,
        ours: conflict.ours,
        theirs: conflict.theirs,
        reason: conflict.reason.to_string(),
    }
}
