//! Forks, their ends, checks as state, history and status.

use anabranch_log::{
    BranchName, Entry, ForkKind as LogForkKind, Index, Kind, Operation, Outcome, Purpose,
    SessionId, limits,
};
use anabranch_store::Frame;

use crate::body::{self, Applied, Summary};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::names;
use crate::shared::Shared;
use crate::streams::unexpected;
use crate::view::{BranchInfo, ForkKind, ForkRequest, Forked, HistoryEntry, Origin, Status};
use crate::write::Target;

impl Shared {
    pub(crate) fn fork(&self, request: &ForkRequest, by: &Origin) -> Result<Forked> {
        let name = BranchName::new(&request.name)?;
        let owner = if request.owner.is_empty() { &by.actor } else { &request.owner };
        let kind = match request.kind {
            ForkKind::Live => LogForkKind::Live,
            ForkKind::Frozen => LogForkKind::Frozen,
        };
        let fork = |parent| Operation::Fork {
            parent,
            name,
            kind,
            at: request.at.map(Index),
            owner: owner.clone(),
            ttl_ms: request.ttl_ms,
        };
        match self.order(&request.parent, by, fork)? {
            Outcome::Forked { branch, index } => {
                if let Some(ttl_ms) = request.ttl_ms {
                    let now = self.clock.now_ms();
                    let mut idle =
                        self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    idle.seen(branch, ttl_ms, index, now);
                }
                self.reads.forked(branch);
                Ok(Forked { id: branch.0, index: index.0 })
            }
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) fn branches(&self) -> Result<Vec<BranchInfo>> {
        self.barrier()?;
        let engine = self.lock();
        let state = &engine.state;
        Ok(state.branches().map(|branch| names::info(state, branch)).collect())
    }

    pub(crate) fn branch(&self, name: &str) -> Result<BranchInfo> {
        self.barrier()?;
        let engine = self.lock();
        let id = names::branch(&engine.state, name)?;
        let branch = engine.state.branch(id).expect("a resolved branch is known");
        Ok(names::info(&engine.state, branch))
    }

    pub(crate) fn discard(&self, name: &str, by: &Origin) -> Result<u64> {
        match self.target_of(name, by)? {
            Target::Branch(branch) => self.close(branch, Purpose::Discard, by),
            Target::Answered(outcome) => Ok(outcome.index().0),
        }
    }

    /// Both phases of dropping a branch; returns the index of the second.
    pub(crate) fn close(
        &self,
        branch: anabranch_log::BranchId,
        purpose: Purpose,
        by: &Origin,
    ) -> Result<u64> {
        // The first phase is the node's own: a retry of the caller's write begins a new closing.
        let inner = Origin { write: None, ..by.clone() };
        let closing = self.applied(Operation::Closing { branch, purpose }, &inner)?;
        let closing = closing.index();
        // Everything acknowledged on the branch before the closing is ordered before its end.
        self.barrier()?;
        let ended = self.applied(Operation::Discard { branch, closing }, by);
        match ended {
            Ok(outcome) => {
                let mut idle = self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                idle.gone(branch);
                drop(idle);
                self.forget_branch(branch);
                Ok(outcome.index().0)
            }
            Err(error) => {
                self.reopen(branch, closing, by);
                Err(error)
            }
        }
    }

    /// Gives a closing up. If this fails too, the branch stays closing and says so to its users.
    pub(crate) fn reopen(&self, branch: anabranch_log::BranchId, closing: Index, by: &Origin) {
        let inner = Origin { write: None, ..by.clone() };
        let reopened = self.applied(Operation::Reopen { branch, closing }, &inner);
        if let Err(error) = reopened {
            tracing::warn!(%branch, %error, "a closing could not be given up");
        }
    }

    pub(crate) fn add_check(
        &self,
        branch: &str,
        name: &str,
        sql: &str,
        by: &Origin,
    ) -> Result<u64> {
        let id = names::branch(&self.lock().state, branch)?;
        // Commits under way were checked without it: let them finish first.
        let writer = self.writers.of(id);
        let _turn = crate::sql::turn(&writer);
        // A check that cannot run would refuse every promotion: find out now.
        self.check_compiles(id, sql)?;
        let add =
            |branch| Operation::AddCheck { branch, name: name.to_owned(), sql: sql.to_owned() };
        Ok(self.order(branch, by, add)?.index().0)
    }

    pub(crate) fn drop_check(&self, branch: &str, name: &str, by: &Origin) -> Result<u64> {
        let drop = |branch| Operation::DropCheck { branch, name: name.to_owned() };
        Ok(self.order(branch, by, drop)?.index().0)
    }

    pub(crate) fn checks(&self, branch: &str) -> Result<Vec<(String, String)>> {
        self.barrier()?;
        let engine = self.lock();
        let id = names::branch(&engine.state, branch)?;
        let checks = engine.state.checks(id).iter();
        Ok(checks.map(|(name, sql)| (name.clone(), sql.clone())).collect())
    }

    pub(crate) fn open_session(&self, by: &Origin) -> Result<u64> {
        let owner = by.actor.chars().take(limits::ACTOR_BYTES / 4).collect();
        match self.unnumbered(Operation::OpenSession { owner }, by)? {
            Outcome::Session { session, .. } => Ok(session.0),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) fn close_session(&self, session: u64, by: &Origin) -> Result<()> {
        let session = SessionId(session);
        let inner = Origin { write: None, ..by.clone() };
        self.unnumbered(Operation::CloseSession { session }, &inner)?;
        Ok(())
    }

    pub(crate) fn history(
        &self,
        branch: Option<&str>,
        before: Option<u64>,
        max: usize,
    ) -> Result<Vec<HistoryEntry>> {
        self.barrier()?;
        let engine = self.lock();
        let wanted = branch.map(|name| newest_branch(&engine, name)).transpose()?;
        let end = engine.state.next_index().0;
        let history = engine.history.clone();
        drop(engine);
        let mut next = before.unwrap_or(end).min(end);
        let mut entries = Vec::new();
        while next > 1 && entries.len() < max {
            let frame = history.read(Index(next - 1)).map_err(|error| {
                Error::no(
                    Kind::Corrupt,
                    format!("the history cannot be read, index=`{}`", next - 1),
                )
                .because(error)
            })?;
            next = frame.first.0;
            let applied = Applied::decode(&frame.body).map_err(|error| {
                Error::no(Kind::Corrupt, format!("the history is malformed, index=`{next}`"))
                    .because(error)
            })?;
            let touches = |id| touched(&applied).contains(&id);
            if wanted.is_none_or(touches) {
                entries.push(describe(&self.lock(), &frame, &applied));
            }
        }
        Ok(entries)
    }

    pub(crate) fn status(&self) -> Status {
        let engine = self.lock();
        let state = &engine.state;
        Status {
            space: self.name.clone(),
            index: state.applied_index().0,
            term: engine.raft.1.0,
            unordered: engine.unordered(),
            checkpoint: engine.checkpoint.index.0,
            branches: state.branches().filter(|branch| branch.is_open()).count() as u64,
            sessions: state.sessions().count() as u64,
            chain: anabranch_log::Digest(engine.chain).to_string(),
        }
    }
}

/// The newest branch of that name, also a closed one: history outlives its branch.
fn newest_branch(engine: &Engine, name: &str) -> Result<anabranch_log::BranchId> {
    let name = BranchName::new(name)?;
    engine
        .state
        .newest(&name)
        .ok_or_else(|| Error::no(Kind::UnknownBranch, format!("no such branch, branch=`{name}`")))
}

/// Branches an operation belongs to.
fn touched(applied: &Applied) -> Vec<anabranch_log::BranchId> {
    let mut branches: Vec<_> = applied.entry.operation.branch().into_iter().collect();
    match (&applied.entry.operation, &applied.outcome) {
        (Operation::Promote { into, .. }, _) => branches.push(*into),
        (_, Outcome::Forked { branch, .. }) => branches.push(*branch),
        _ => {}
    }
    branches
}

fn describe(engine: &Engine, frame: &Frame, applied: &Applied) -> HistoryEntry {
    let Entry { actor, intent, time_ms, operation, .. } = &applied.entry;
    let branch = operation.branch().map(|id| names::name_of(&engine.state, id));
    HistoryEntry {
        index: frame.first.0,
        count: frame.count,
        branch: branch.unwrap_or_default(),
        kind: operation.verb().to_owned(),
        detail: detail(engine, operation, &applied.outcome),
        actor: actor.clone(),
        intent: intent.clone(),
        time_ms: *time_ms,
        chain: anabranch_log::Digest(frame.chain).to_string(),
    }
}

fn detail(engine: &Engine, operation: &Operation, outcome: &Outcome) -> String {
    match operation {
        Operation::Append { stream, records, .. } => {
            format!("{} record(s) to {stream}", records.len())
        }
        Operation::Put { stream, key, .. }
        | Operation::Delete { stream, key, .. }
        | Operation::Cas { stream, key, .. } => format!("{stream}/{}", lossy(key.as_bytes())),
        Operation::Incr { stream, key, delta, .. } => {
            format!("{stream}/{} by {delta}", lossy(key.as_bytes()))
        }
        Operation::Fork { name, kind, owner, .. } => {
            let kind = match kind {
                LogForkKind::Live => "live",
                LogForkKind::Frozen => "frozen",
            };
            format!("{name} ({kind}, owner {owner})")
        }
        Operation::Closing { purpose, .. } => match purpose {
            Purpose::Promote { into } => {
                format!("to promote into {}", names::name_of(&engine.state, *into))
            }
            Purpose::Discard => "to discard".to_owned(),
            Purpose::Expire { .. } => "expired".to_owned(),
        },
        Operation::Promote { into, .. } => {
            let summary = body::summary_of(operation).unwrap_or_default();
            let records = match outcome {
                Outcome::Promoted { records, .. } => *records,
                _ => 0,
            };
            let target = names::name_of(&engine.state, *into);
            format!("into {target}: {records} record(s), {}", summarize(&summary))
        }
        Operation::Commit { .. } => summarize(&body::summary_of(operation).unwrap_or_default()),
        Operation::AddCheck { name, .. } | Operation::DropCheck { name, .. } => name.clone(),
        Operation::OpenSession { owner } => owner.clone(),
        Operation::CloseSession { session } => session.to_string(),
        Operation::Discard { .. } | Operation::Reopen { .. } | Operation::Checkpoint => {
            String::new()
        }
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(64).collect()
}

fn summarize(summary: &Summary) -> String {
    let mut parts: Vec<String> = summary
        .tables
        .iter()
        .map(|(table, inserts, updates, deletes)| {
            format!("{table} +{inserts} ~{updates} -{deletes}")
        })
        .collect();
    if !summary.schema.is_empty() {
        parts.push(format!("{} schema statement(s)", summary.schema.len()));
    }
    if summary.cut {
        parts.push("…".to_owned());
    }
    if parts.is_empty() { "no rows".to_owned() } else { parts.join(", ") }
}
