//! Own changes, netted per row: what a fork did, without the way it got there.
//!
//! Rows are netted between schema statements, since a schema statement may change the shape of
//! the images or the name of the table. Within such a stretch every row appears at most once,
//! with the content before its first and after its last change; a row that came and went is not
//! there at all. Netting is incremental: adding the steps of one more commit costs what they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::change::{
    ChangeKind, Fingerprint, RowChange, RowIdentity, Step, TableCounts, TableShape,
};
use crate::value::Value;

/// One row as a fork left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetRow {
    /// The row before the first change; `None` if it was not there.
    pub old: Option<Vec<Value>>,
    /// The row after the last change; `None` if it is gone. Never equal to `old`.
    pub new: Option<Vec<Value>>,
}

impl NetRow {
    /// What happened to the row.
    pub fn kind(&self) -> ChangeKind {
        match (&self.old, &self.new) {
            (None, _) => ChangeKind::Insert,
            (Some(_), Some(_)) => ChangeKind::Update,
            (Some(_), None) => ChangeKind::Delete,
        }
    }
}

/// Rows of one table, by identity.
pub(crate) type NetTable = BTreeMap<RowIdentity, NetRow>;

/// One stretch of net changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetStep {
    /// Net row changes per table.
    Rows(BTreeMap<Arc<TableShape>, BTreeMap<RowIdentity, NetRow>>),
    /// What the columns held that the next schema statement drops.
    Drops(Fingerprint),
    /// A schema statement.
    Schema(String),
}

/// Net changes of a fork: stretches of rows and schema statements, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetChanges {
    /// The stretches.
    pub steps: Vec<NetStep>,
    /// External-content full-text tables whose index has to be built again at the end.
    pub rebuild: Vec<String>,
    /// Tables changed in ways that cannot be merged, and why.
    pub opaque: Vec<(String, String)>,
}

/// Nets steps from any number of commits, in commit order.
pub fn net<'a>(steps: impl IntoIterator<Item = &'a Step>) -> NetChanges {
    let mut changes = NetChanges::default();
    for step in steps {
        changes.add(step);
    }
    changes
}

impl NetChanges {
    /// Whether nothing is left of the changes.
    pub fn is_empty(&self) -> bool {
        self.rebuild.is_empty()
            && self.opaque.is_empty()
            && self.steps.iter().all(|step| match step {
                NetStep::Rows(tables) => tables.values().all(BTreeMap::is_empty),
                NetStep::Schema(_) | NetStep::Drops(_) => false,
            })
    }

    /// Adds one more step.
    pub fn add(&mut self, step: &Step) {
        match step {
            Step::Rows(rows) => {
                if !matches!(self.steps.last(), Some(NetStep::Rows(_))) {
                    self.steps.push(NetStep::Rows(BTreeMap::new()));
                }
                if let Some(NetStep::Rows(tables)) = self.steps.last_mut() {
                    for row in rows {
                        add_row(tables, row);
                    }
                }
            }
            Step::Schema(sql) => self.steps.push(NetStep::Schema(sql.clone())),
            Step::Drops(same) => self.steps.push(NetStep::Drops(same.clone())),
            Step::Rebuild(table) => {
                if !self.rebuild.contains(table) {
                    self.rebuild.push(table.clone());
                }
            }
            Step::Opaque { table, reason } => {
                if !self.opaque.iter().any(|(known, _)| known == table) {
                    self.opaque.push((table.clone(), reason.clone()));
                }
            }
        }
    }

    /// Schema statements, in order.
    pub fn schema(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter_map(|step| match step {
            NetStep::Schema(sql) => Some(sql.as_str()),
            NetStep::Rows(_) | NetStep::Drops(_) => None,
        })
    }

    /// All net rows with their tables, stretch by stretch.
    pub fn rows(&self) -> impl Iterator<Item = (&Arc<TableShape>, &RowIdentity, &NetRow)> {
        self.steps
            .iter()
            .filter_map(|step| match step {
                NetStep::Rows(tables) => Some(tables),
                NetStep::Schema(_) | NetStep::Drops(_) => None,
            })
            .flatten()
            .flat_map(|(table, rows)| rows.iter().map(move |(key, row)| (table, key, row)))
    }

    /// Net rows per shape over all stretches: what is left of a row that changed before and after
    /// a schema statement. For showing; merging goes stretch by stretch.
    pub(crate) fn whole(&self) -> BTreeMap<&Arc<TableShape>, NetTable> {
        let mut tables = BTreeMap::<&Arc<TableShape>, NetTable>::new();
        for (table, identity, row) in self.rows() {
            add_net(tables.entry(table).or_default(), identity, row);
        }
        tables
    }

    /// Complete counts per table name.
    pub fn counts(&self) -> Vec<TableCounts> {
        let mut tables = BTreeMap::<&str, TableCounts>::new();
        for (table, rows) in &self.whole() {
            let counts = tables.entry(&table.name).or_default();
            for row in rows.values() {
                counts.add(row.kind());
            }
        }
        let named =
            |(name, counts): (&str, TableCounts)| TableCounts { table: name.into(), ..counts };
        tables.into_iter().map(named).collect()
    }
}

fn add_row(tables: &mut BTreeMap<Arc<TableShape>, NetTable>, row: &RowChange) {
    if !tables.contains_key(&row.table) {
        tables.insert(Arc::clone(&row.table), NetTable::new());
    }
    if let Some(rows) = tables.get_mut(&row.table) {
        add_net(rows, &row.identity, &NetRow { old: row.old.clone(), new: row.new.clone() });
    }
}

fn add_net(rows: &mut NetTable, identity: &RowIdentity, row: &NetRow) {
    match rows.get_mut(identity) {
        None => {
            if row.old != row.new {
                rows.insert(identity.clone(), row.clone());
            }
        }
        Some(known) => {
            known.new.clone_from(&row.new);
            if known.old == known.new {
                rows.remove(identity);
            }
        }
    }
}
