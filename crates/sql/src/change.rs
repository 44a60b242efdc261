//! What a transaction changed: full row images and schema statements, in order.
//!
//! A [`Step`] is a run of row changes or one schema statement. Row images hold every column that
//! is stored under its own name; generated columns are left out, since they are computed again.
//! Within one transaction the steps are in the order in which they happened, so applying them to
//! the same base gives the same tables.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::map::PageMap;
use crate::value::Value;

/// How rows of a table are told apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableKey {
    /// No primary key: by rowid. The rowid is not data: a promotion may assign another one.
    Rowid,
    /// `INTEGER PRIMARY KEY`: by the column at this position of the images.
    Integer(usize),
    /// A declared primary key: by the columns at these positions, in key order.
    Columns(Vec<usize>),
}

/// Name, columns and key of a table as the images of its rows use them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableShape {
    /// Table name, as in the schema.
    pub name: String,
    /// Columns of the images in declared order, without generated ones.
    pub columns: Vec<String>,
    /// What identifies a row.
    pub key: TableKey,
}

impl TableShape {
    /// Names of the key columns; empty for a table without a primary key.
    pub fn key_columns(&self) -> Vec<&str> {
        let at = |position: &usize| self.columns.get(*position).map_or("", String::as_str);
        match &self.key {
            TableKey::Rowid => Vec::new(),
            TableKey::Integer(position) => vec![at(position)],
            TableKey::Columns(positions) => positions.iter().map(at).collect(),
        }
    }
}

/// What identifies one row of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowIdentity {
    /// The rowid: `INTEGER PRIMARY KEY`, no primary key, or a primary key that contains NULL.
    Rowid(i64),
    /// Values of the declared primary key, none of them NULL.
    Key(Vec<Value>),
}

impl RowIdentity {
    /// The identity as values, for display.
    pub fn values(&self) -> Vec<Value> {
        match self {
            RowIdentity::Rowid(rowid) => vec![Value::Integer(*rowid)],
            RowIdentity::Key(values) => values.clone(),
        }
    }
}

/// What happened to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// It was not there before.
    Insert,
    /// It was there with other content.
    Update,
    /// It is gone.
    Delete,
}

/// One changed row. `old` is absent for an insert, `new` for a delete; never both. A change of
/// identity (primary key, rowid) is a delete and an insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    /// The table.
    pub table: Arc<TableShape>,
    /// Which row.
    pub identity: RowIdentity,
    /// The row before.
    pub old: Option<Vec<Value>>,
    /// The row after.
    pub new: Option<Vec<Value>>,
}

impl RowChange {
    /// What happened to the row.
    pub fn kind(&self) -> ChangeKind {
        match (&self.old, &self.new) {
            (None, _) => ChangeKind::Insert,
            (Some(_), Some(_)) => ChangeKind::Update,
            (Some(_), None) => ChangeKind::Delete,
        }
    }
}

/// What some columns of a table held, for noticing that they hold something else elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The table.
    pub table: String,
    /// Its columns, as in the schema.
    pub columns: Vec<String>,
    /// A sum over key and columns of every row, in no order. Equal content gives equal sums;
    /// it is not made to withstand somebody who looks for another content with the same sum.
    pub sum: u64,
}

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Row changes, in order.
    Rows(Vec<RowChange>),
    /// A schema statement whose effect depends on nothing but the schema. What depended on rows
    /// (CREATE TABLE AS, DROP TABLE) comes as such a statement plus row images.
    Schema(String),
    /// What the columns held that the next schema statement drops.
    Drops(Fingerprint),
    /// The full-text index of this external-content table has to be built again.
    Rebuild(String),
    /// Content of this table changed in a way that row images cannot express: the change is in
    /// the pages, but it can be neither merged nor promoted.
    Opaque {
        /// The table.
        table: String,
        /// Why.
        reason: String,
    },
}

/// What a commit is about to make durable.
#[derive(Clone, Debug)]
pub struct CommitSet {
    /// The branch's pages before the transaction.
    pub base: PageMap,
    /// The branch's pages after it. Valid once the commit is applied; the pages are in the store.
    pub root: PageMap,
    /// Database size after the commit, in pages.
    pub page_count: u32,
    /// Changed pages, ascending.
    pub pages: Vec<(u32, Arc<[u8]>)>,
    /// What changed, in order.
    pub steps: Vec<Step>,
    /// Tables and views read by the transaction, lower case.
    pub tables_read: BTreeSet<String>,
}

impl CommitSet {
    /// Complete counts per table of the steps as they happened (not netted).
    pub fn counts(&self) -> Vec<TableCounts> {
        counts(&self.steps)
    }
}

/// Changes of one table, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableCounts {
    /// The table.
    pub table: String,
    /// Rows inserted.
    pub inserts: u64,
    /// Rows updated.
    pub updates: u64,
    /// Rows deleted.
    pub deletes: u64,
}

impl TableCounts {
    pub(crate) fn add(&mut self, kind: ChangeKind) {
        match kind {
            ChangeKind::Insert => self.inserts += 1,
            ChangeKind::Update => self.updates += 1,
            ChangeKind::Delete => self.deletes += 1,
        }
    }
}

/// Counts the row changes of steps per table, by table name.
pub fn counts(steps: &[Step]) -> Vec<TableCounts> {
    let mut tables = std::collections::BTreeMap::<&str, TableCounts>::new();
    for step in steps {
        let Step::Rows(rows) = step else { continue };
        for row in rows {
            let counts = tables.entry(&row.table.name).or_default();
            counts.add(row.kind());
        }
    }
    let named = |(name, counts): (&str, TableCounts)| TableCounts { table: name.into(), ..counts };
    tables.into_iter().map(named).collect()
}
