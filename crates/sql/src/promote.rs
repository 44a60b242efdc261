//! Promotion: own net changes applied to a clone of the target's newest pages.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::apply::{Actions, Merge, MergeError, Place};
use crate::change::{CommitSet, RowIdentity};
use crate::error::SqlError;
use crate::limits::Limits;
use crate::live::Clash;
use crate::map::PageMap;
use crate::net::{NetChanges, NetRow, NetStep};
use crate::page::PageStore;
use crate::value::Value;

/// Who wins a row changed on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Nobody: the promotion is refused and the conflicts are listed.
    #[default]
    Fail,
    /// The fork.
    Fork,
    /// The parent: its row stays and the fork's change of it is left out.
    Parent,
}

/// What to promote, onto what, and how.
#[derive(Clone, Copy)]
pub struct Promotion<'a> {
    /// The target's newest tables.
    pub target: &'a PageMap,
    /// The fork's own net changes.
    pub net: &'a NetChanges,
    /// Who wins conflicts.
    pub policy: Policy,
    /// Tables (any case) in which changes of different columns of one row do not conflict.
    pub merge_cells: &'a BTreeSet<String>,
    /// Most conflicts listed (inclusive); all are counted.
    pub max_conflicts: usize,
    /// Bounds of the work; `max_commit_bytes` bounds the candidate.
    pub limits: Limits,
}

/// Why a row conflicts. The policy may decide either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictReason {
    /// Both sides changed it.
    BothChanged,
    /// Both sides inserted a row under this key.
    BothInserted,
}

impl fmt::Display for ConflictReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConflictReason::BothChanged => "changed on both sides",
            ConflictReason::BothInserted => "inserted on both sides",
        })
    }
}

/// One row changed on both sides, with all three versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowConflict {
    /// The table.
    pub table: String,
    /// Key of the row, or its rowid.
    pub key: Vec<Value>,
    /// Why.
    pub reason: ConflictReason,
    /// Column names of the three images.
    pub columns: Vec<String>,
    /// Columns in which fork and target disagree.
    pub conflicting: Vec<String>,
    /// The row both started from.
    pub base: Option<Vec<Value>>,
    /// The fork's row.
    pub ours: Option<Vec<Value>>,
    /// The target's row.
    pub theirs: Option<Vec<Value>>,
}

/// A promotion that would work: exactly what the checks must see and what one record moves.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The target's tables after the promotion.
    pub root: PageMap,
    /// The commit that leads there from the target.
    pub commit: CommitSet,
    /// Conflicts that the policy decided, up to the limit.
    pub conflicts: Vec<RowConflict>,
    /// All of them, counted.
    pub conflict_count: u64,
    /// Rows of tables without a primary key that got another rowid: table, ours, theirs.
    pub renumbered: Vec<(String, i64, i64)>,
}

/// Why there is no candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromoteError {
    /// Rows conflict and the policy does not decide them.
    Conflicts {
        /// Up to the limit.
        conflicts: Vec<RowConflict>,
        /// All of them, counted.
        count: u64,
    },
    /// A table or schema statement does not fit the target, whatever the policy.
    Clash(Box<Clash>),
    /// SQLite or the page store failed.
    Sql(SqlError),
}

impl fmt::Display for PromoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PromoteError::Conflicts { conflicts, count } => {
                write!(f, "rows changed on both sides: count=`{count}`")?;
                match conflicts.first() {
                    Some(first) => {
                        write!(f, ", first in table `{}`: {}", first.table, first.reason)
                    }
                    None => Ok(()),
                }
            }
            PromoteError::Clash(clash) => write!(f, "the fork does not fit its target: {clash}"),
            PromoteError::Sql(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PromoteError {}

impl From<SqlError> for PromoteError {
    fn from(error: SqlError) -> PromoteError {
        PromoteError::Sql(error)
    }
}

/// Builds the candidate of a promotion. Changes nothing: the candidate's pages are in the store,
/// and unreferenced ones are swept like those of any transaction that did not commit.
///
/// A row conflicts when the target's row differs from the one the fork started from, in any
/// column. Costs one look-up per own row.
pub fn promote(
    store: &Arc<dyn PageStore>,
    promotion: &Promotion<'_>,
) -> Result<Candidate, PromoteError> {
    let mut merge = Merge::open(store, promotion.target, promotion.limits)?;
    Merge::refuse_opaque(promotion.net)?;
    let mut found = Found { promotion, conflicts: Vec::new(), count: 0, left_out: BTreeSet::new() };
    let merged = merge_all(&mut merge, &mut found);
    let Found { conflicts, count, .. } = found;
    // Listed even where something else failed after them, perhaps because of them.
    if count > 0 && promotion.policy == Policy::Fail && !matches!(merged, Err(MergeError::Sql(_))) {
        return Err(PromoteError::Conflicts { conflicts, count });
    }
    merged?;
    merge.rebuild_indexes(&promotion.net.rebuild)?;
    let renumbered = merge.take_renumbered();
    let commit = merge.finish()?;
    let root = commit.root.clone();
    Ok(Candidate { root, commit, conflicts, conflict_count: count, renumbered })
}

fn merge_all(merge: &mut Merge, found: &mut Found<'_>) -> Result<(), MergeError> {
    for step in &found.promotion.net.steps {
        match step {
            NetStep::Schema(sql) => merge.schema(sql)?,
            NetStep::Drops(same) => merge.require_same(same)?,
            NetStep::Rows(tables) => {
                for (shape, rows) in tables {
                    let place = merge.place(shape)?;
                    let mut actions = Actions::default();
                    for (identity, row) in rows {
                        let identity = merge.here(&place, identity);
                        let current = merge.current(&place, &identity)?;
                        found.settle(&place, &identity, row, current, &mut actions);
                    }
                    merge.write(&place, actions)?;
                }
            }
        }
    }
    Ok(())
}

/// Conflicts found so far.
struct Found<'a> {
    promotion: &'a Promotion<'a>,
    conflicts: Vec<RowConflict>,
    count: u64,
    /// Rows that stay as the target has them, by table in lower case; what the fork did to them
    /// later is left out too, and counted once.
    left_out: BTreeSet<(String, RowIdentity)>,
}

impl Found<'_> {
    /// Decides what has to be done about one row.
    fn settle(
        &mut self,
        place: &Place,
        identity: &RowIdentity,
        row: &NetRow,
        current: Option<Vec<Value>>,
        actions: &mut Actions,
    ) {
        let NetRow { old, new } = row;
        if old.is_none() && place.numbers_rows(identity) {
            // The number of such a row is not data: it gets another one where it is taken.
            if let Some(new) = new {
                actions.inserts.push((identity.clone(), new.clone()));
            }
            return;
        }
        if current == *new {
            return;
        }
        if current != *old {
            let merged = self.merged(place, row, current.as_ref());
            if let Some(merged) = merged {
                actions.updates.push((identity.clone(), merged));
                return;
            }
            let name = (place.shape.name.to_lowercase(), identity.clone());
            if self.left_out.contains(&name) {
                return;
            }
            self.conflict(place, identity, row, current.clone());
            if self.promotion.policy != Policy::Fork {
                self.left_out.insert(name);
                return;
            }
        }
        match (new, current) {
            (Some(new), Some(_)) => actions.updates.push((identity.clone(), new.clone())),
            (Some(new), None) => actions.inserts.push((identity.clone(), new.clone())),
            (None, Some(_)) => actions.deletes.push(identity.clone()),
            (None, None) => {}
        }
    }

    /// The row with both sides' changes, if its table allows that and no column was changed
    /// differently by both.
    fn merged(
        &self,
        place: &Place,
        row: &NetRow,
        current: Option<&Vec<Value>>,
    ) -> Option<Vec<Value>> {
        let name = &place.shape.name;
        let allowed = self.promotion.merge_cells.iter().any(|t| t.eq_ignore_ascii_case(name));
        let (Some(base), Some(ours), Some(theirs)) = (&row.old, &row.new, current) else {
            return None;
        };
        if !allowed {
            return None;
        }
        let cells = base.iter().zip(ours).zip(theirs);
        cells
            .map(|((base, ours), theirs)| match (ours == base, theirs == base) {
                (true, _) => Some(theirs.clone()),
                (false, true) => Some(ours.clone()),
                (false, false) => (ours == theirs).then(|| ours.clone()),
            })
            .collect()
    }

    fn conflict(
        &mut self,
        place: &Place,
        identity: &RowIdentity,
        row: &NetRow,
        theirs: Option<Vec<Value>>,
    ) {
        self.count += 1;
        if self.conflicts.len() >= self.promotion.max_conflicts {
            return;
        }
        let columns = place.shape.columns.clone();
        let differs = |position: &usize| match (&row.new, &theirs) {
            (Some(ours), Some(theirs)) => ours.get(*position) != theirs.get(*position),
            _ => true,
        };
        let conflicting = (0..columns.len()).filter(differs).map(|at| columns[at].clone());
        self.conflicts.push(RowConflict {
            table: place.shape.name.clone(),
            key: identity.values(),
            reason: match row.old {
                None => ConflictReason::BothInserted,
                Some(_) => ConflictReason::BothChanged,
            },
            conflicting: conflicting.collect(),
            columns,
            base: row.old.clone(),
            ours: row.new.clone(),
            theirs,
        });
    }
}

impl From<MergeError> for PromoteError {
    fn from(error: MergeError) -> PromoteError {
        match error {
            MergeError::Clash(clash) => PromoteError::Clash(clash),
            MergeError::Sql(error) => PromoteError::Sql(error),
        }
    }
}
