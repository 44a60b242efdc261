//! The tables of a live fork: the parent's newest pages with the fork's own changes on top.

use std::fmt;
use std::sync::Arc;

use crate::apply::{Actions, Merge, MergeError, Place};
use crate::change::RowIdentity;
use crate::error::SqlError;
use crate::limits::Limits;
use crate::map::PageMap;
use crate::net::{NetChanges, NetRow, NetStep};
use crate::page::PageStore;
use crate::value::Value;

/// Why an own change does not fit the tables it should be applied to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClashReason {
    /// The table is not there.
    MissingTable,
    /// The table has no such column.
    MissingColumn {
        /// The column.
        column: String,
    },
    /// The primary key is declared otherwise.
    OtherKey,
    /// Both sides inserted a row with this key (or rowid, or AUTOINCREMENT number).
    DuplicateKey,
    /// A constraint does not hold (unique, not null, check).
    Constraint {
        /// What SQLite said.
        message: String,
    },
    /// A row refers to a row that is not there.
    ForeignKey {
        /// The table referred to.
        parent: String,
    },
    /// A schema statement no longer runs.
    Schema {
        /// The statement.
        sql: String,
        /// What SQLite said.
        message: String,
    },
    /// The table is dropped here, but the other side has rows the fork never saw.
    NotEmpty {
        /// How many.
        rows: u64,
    },
    /// A column is dropped here whose content (or rows) the fork never saw as they are there.
    SchemaAndRows,
    /// The change cannot be expressed as rows.
    Opaque {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for ClashReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClashReason::MissingTable => f.write_str("the table does not exist there"),
            ClashReason::MissingColumn { column } => write!(f, "it has no column `{column}` there"),
            ClashReason::OtherKey => f.write_str("its primary key is declared otherwise there"),
            ClashReason::DuplicateKey => f.write_str("both sides inserted a row with this key"),
            ClashReason::Constraint { message } => f.write_str(message),
            ClashReason::ForeignKey { parent } => {
                write!(f, "the row it refers to in `{parent}` does not exist")
            }
            ClashReason::Schema { sql, message } => write!(f, "{message}; statement=`{sql}`"),
            ClashReason::NotEmpty { rows } => {
                write!(f, "it is dropped here but has rows={rows} there that were never seen here")
            }
            ClashReason::SchemaAndRows => {
                f.write_str("a column is dropped here that has other content there")
            }
            ClashReason::Opaque { reason } => f.write_str(reason),
        }
    }
}

/// One own change that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clash {
    /// The table.
    pub table: String,
    /// The row's key; empty where the whole table clashes.
    pub key: Vec<Value>,
    /// Why.
    pub reason: ClashReason,
}

impl fmt::Display for Clash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table `{}`", self.table)?;
        if !self.key.is_empty() {
            f.write_str(", key (")?;
            for (position, value) in self.key.iter().enumerate() {
                write!(f, "{}{value}", if position == 0 { "" } else { ", " })?;
            }
            f.write_str(")")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// Why a live fork's tables could not be derived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveError {
    /// An own change does not fit: the fork stays at its last good base.
    Clash(Box<Clash>),
    /// SQLite or the page store failed.
    Sql(SqlError),
}

impl fmt::Display for LiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LiveError::Clash(clash) => write!(f, "own changes no longer fit the parent: {clash}"),
            LiveError::Sql(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LiveError {}

impl From<SqlError> for LiveError {
    fn from(error: SqlError) -> LiveError {
        LiveError::Sql(error)
    }
}

/// Applies a fork's own net changes to its parent's newest pages. Own changes win over the
/// parent's changes of the same row; triggers do not fire; foreign keys are checked at the end.
/// The cost follows the own changes, never the parent's size.
pub fn rebuild_live(
    store: &Arc<dyn PageStore>,
    parent: &PageMap,
    net: &NetChanges,
    limits: Limits,
) -> Result<PageMap, LiveError> {
    if net.is_empty() {
        return Ok(parent.clone());
    }
    let mut merge = Merge::open(store, parent, limits)?;
    Merge::refuse_opaque(net)?;
    for step in &net.steps {
        match step {
            NetStep::Schema(sql) => merge.schema(sql)?,
            // A view only: what the parent has in the column is not lost. Promotion looks.
            NetStep::Drops(_) => {}
            NetStep::Rows(tables) => {
                for (shape, rows) in tables {
                    let place = merge.place(shape)?;
                    let mut actions = Actions::default();
                    for (identity, row) in rows {
                        let identity = &merge.here(&place, identity);
                        let current = merge.current(&place, identity)?;
                        own_wins(&place, identity, row, current.as_ref(), &mut actions)?;
                    }
                    merge.write(&place, actions)?;
                }
            }
        }
    }
    merge.rebuild_indexes(&net.rebuild)?;
    Ok(merge.finish()?.root)
}

/// What has to be done so that the row is as the fork left it.
fn own_wins(
    place: &Place,
    identity: &RowIdentity,
    row: &NetRow,
    current: Option<&Vec<Value>>,
    actions: &mut Actions,
) -> Result<(), MergeError> {
    match (&row.old, &row.new, current) {
        (_, None, None) => {}
        (_, None, Some(_)) => actions.deletes.push(identity.clone()),
        (old, Some(new), Some(now))
            if new == now && (old.is_some() || !place.numbers_rows(identity)) => {}
        // Another row has the key: which of the two the user means, only the user knows.
        (None, Some(_), Some(_)) => {
            return Err(place.clash(Some(identity), ClashReason::DuplicateKey));
        }
        (Some(_), Some(new), Some(_)) => actions.updates.push((identity.clone(), new.clone())),
        (_, Some(new), None) => actions.inserts.push((identity.clone(), new.clone())),
    }
    Ok(())
}

impl From<MergeError> for LiveError {
    fn from(error: MergeError) -> LiveError {
        match error {
            MergeError::Clash(clash) => LiveError::Clash(clash),
            MergeError::Sql(error) => LiveError::Sql(error),
        }
    }
}
