//! Applying a fork's net changes to other tables than those they were made on.
//!
//! Triggers are off (what they did on the fork is among the changes), foreign key actions too; at
//! the end every reference that the changes touch is checked. Shapes are compared before rows: a
//! missing or narrower table is an error, never a silent success.

use std::fmt;
use std::sync::Arc;

use rusqlite::config::DbConfig;

use crate::change::{CommitSet, RowIdentity, Step, TableKey, TableShape};
use crate::connection::{Capture, Connection, quote, value_of};
use crate::error::{SqlError, SqlErrorKind};
use crate::limits::{Access, Limits};
use crate::live::{Clash, ClashReason};
use crate::map::PageMap;
use crate::net::NetChanges;
use crate::page::PageStore;
use crate::references;
use crate::value::Value;

/// Why changes could not be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MergeError {
    Clash(Box<Clash>),
    Sql(SqlError),
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MergeError::Clash(clash) => clash.fmt(f),
            MergeError::Sql(error) => error.fmt(f),
        }
    }
}

impl From<SqlError> for MergeError {
    fn from(error: SqlError) -> MergeError {
        MergeError::Sql(error)
    }
}

/// A table of the target in which rows of a known shape are to be changed.
pub(crate) struct Place {
    /// As recorded with the changes.
    pub(crate) shape: Arc<TableShape>,
    /// A name of the rowid; `None` for WITHOUT ROWID.
    rowid: Option<String>,
}

/// What has to be done in one table.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    pub(crate) deletes: Vec<RowIdentity>,
    pub(crate) updates: Vec<(RowIdentity, Vec<Value>)>,
    pub(crate) inserts: Vec<(RowIdentity, Vec<Value>)>,
}

/// A transaction on the target's tables.
pub(crate) struct Merge {
    connection: Connection,
    target: PageMap,
    renumbered: Vec<(String, i64, i64)>,
}

impl Place {
    /// Whether the row's number is chosen by SQLite and means nothing to anybody.
    pub(crate) fn numbers_rows(&self, identity: &RowIdentity) -> bool {
        self.shape.key == TableKey::Rowid
            || (matches!(self.shape.key, TableKey::Columns(_))
                && matches!(identity, RowIdentity::Rowid(_)))
    }

    pub(crate) fn clash(&self, row: Option<&RowIdentity>, reason: ClashReason) -> MergeError {
        let key = row.map(RowIdentity::values).unwrap_or_default();
        MergeError::Clash(Box::new(Clash { table: self.shape.name.clone(), key, reason }))
    }

    fn table(&self) -> String {
        format!("main.{}", quote(&self.shape.name))
    }

    /// The condition that finds a row, with its values.
    fn condition(&self, identity: &RowIdentity) -> (String, Vec<Value>) {
        match (identity, &self.shape.key) {
            (RowIdentity::Rowid(rowid), _) => {
                let name = self.rowid.as_deref().unwrap_or("rowid");
                (format!("{} = ?", quote(name)), vec![Value::Integer(*rowid)])
            }
            (RowIdentity::Key(values), TableKey::Columns(positions)) => {
                let names = positions.iter().filter_map(|at| self.shape.columns.get(*at));
                let parts: Vec<String> = names.map(|name| format!("{} = ?", quote(name))).collect();
                (parts.join(" AND "), values.clone())
            }
            (RowIdentity::Key(values), _) => (String::from("0"), values[..0].to_vec()),
        }
    }

    fn columns(&self) -> Vec<String> {
        self.shape.columns.iter().map(|name| quote(name)).collect()
    }
}

impl Merge {
    pub(crate) fn open(
        store: &Arc<dyn PageStore>,
        target: &PageMap,
        limits: Limits,
    ) -> Result<Merge, SqlError> {
        let limits = Limits {
            statement_ms: 0,
            statement_ops: 0,
            max_sql_bytes: limits.max_sql_bytes.max(1 << 20),
            ..limits
        };
        let mut connection =
            Connection::open(Arc::clone(store), target.clone(), limits, Access::ReadWrite)?;
        connection.internal(|database| {
            database.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
            database.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, false)?;
            Ok(())
        })?;
        connection.begin()?;
        Ok(Merge { connection, target: target.clone(), renumbered: Vec::new() })
    }

    /// Changes that rows cannot express fit nowhere but where they were made.
    pub(crate) fn refuse_opaque(net: &NetChanges) -> Result<(), MergeError> {
        match net.opaque.first() {
            None => Ok(()),
            Some((table, reason)) => Err(MergeError::Clash(Box::new(Clash {
                table: table.clone(),
                key: Vec::new(),
                reason: ClashReason::Opaque { reason: reason.clone() },
            }))),
        }
    }

    /// The target's table for rows of a shape; a clash if it has not what the rows need.
    pub(crate) fn place(&mut self, shape: &Arc<TableShape>) -> Result<Place, MergeError> {
        let place = Place { shape: Arc::clone(shape), rowid: None };
        let Some(capture) = self.connection.capture(&shape.name)? else {
            return Err(place.clash(None, ClashReason::MissingTable));
        };
        let rows = match &*capture {
            Capture::Rows(rows) => rows,
            Capture::Opaque { reason, .. } => {
                let reason = ClashReason::Opaque { reason: reason.clone() };
                return Err(place.clash(None, reason));
            }
            Capture::Ignore | Capture::Rebuild(_) => {
                return Err(place.clash(None, ClashReason::OtherKey));
            }
        };
        let there = |name: &&String| {
            rows.shape.columns.iter().any(|column| column.eq_ignore_ascii_case(name))
        };
        if let Some(column) = shape.columns.iter().find(|name| !there(name)) {
            let reason = ClashReason::MissingColumn { column: column.clone() };
            return Err(place.clash(None, reason));
        }
        let lower = |shape: &TableShape| -> Vec<String> {
            shape.key_columns().into_iter().map(str::to_lowercase).collect()
        };
        let kind = std::mem::discriminant(&shape.key) == std::mem::discriminant(&rows.shape.key);
        if !kind || lower(shape) != lower(&rows.shape) {
            return Err(place.clash(None, ClashReason::OtherKey));
        }
        Ok(Place { rowid: rows.rowid.clone(), ..place })
    }

    /// The target's row, by the columns of the recorded shape.
    pub(crate) fn current(
        &self,
        place: &Place,
        identity: &RowIdentity,
    ) -> Result<Option<Vec<Value>>, SqlError> {
        let (condition, values) = place.condition(identity);
        let columns = place.columns();
        let sql = format!("SELECT {} FROM {} WHERE {condition}", columns.join(", "), place.table());
        self.connection.internal(|database| {
            let mut query = database.prepare_cached(&sql)?;
            let mut rows = query.query(rusqlite::params_from_iter(&values))?;
            let Some(row) = rows.next()? else { return Ok(None) };
            (0..columns.len())
                .map(|at| value_of(row.get_ref(at)?))
                .collect::<Result<_, _>>()
                .map(Some)
        })
    }

    /// Does what has to be done in one table: deletions first, so that keys are free.
    pub(crate) fn write(&mut self, place: &Place, actions: Actions) -> Result<(), MergeError> {
        let Actions { deletes, updates, inserts } = actions;
        self.delete(place, &deletes)?;
        self.update(place, updates)?;
        self.insert(place, inserts)
    }

    fn delete(&mut self, place: &Place, rows: &[RowIdentity]) -> Result<(), MergeError> {
        for same in rows.chunk_by(|a, b| a.values().len() == b.values().len()) {
            let Some(first) = same.first() else { continue };
            let sql = format!("DELETE FROM {} WHERE {}", place.table(), place.condition(first).0);
            self.connection.run_many(&sql, same.iter().map(|row| place.condition(row).1))?;
        }
        Ok(())
    }

    fn update(
        &mut self,
        place: &Place,
        rows: Vec<(RowIdentity, Vec<Value>)>,
    ) -> Result<(), MergeError> {
        let Some((first, _)) = rows.first() else { return Ok(()) };
        let sets: Vec<String> =
            place.columns().into_iter().map(|column| format!("{column} = ?")).collect();
        let condition = place.condition(first).0;
        let sql = format!("UPDATE {} SET {} WHERE {condition}", place.table(), sets.join(", "));
        let values = |(identity, row): &(RowIdentity, Vec<Value>)| {
            let mut values = row.clone();
            values.extend(place.condition(identity).1);
            values
        };
        match self.connection.run_many(&sql, rows.iter().map(values)) {
            Ok(_) => Ok(()),
            // Rows may have exchanged the values of a unique column: take all out, put all in.
            Err(error) if error.kind == SqlErrorKind::Constraint && rows.len() > 1 => {
                let identities: Vec<_> =
                    rows.iter().map(|(identity, _)| identity.clone()).collect();
                self.delete(place, &identities)?;
                self.insert(place, rows)
            }
            Err(error) => Err(constraint(place, first, error)),
        }
    }

    fn insert(
        &mut self,
        place: &Place,
        rows: Vec<(RowIdentity, Vec<Value>)>,
    ) -> Result<(), MergeError> {
        let (numbered, plain): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|(identity, _)| place.numbers_rows(identity));
        for (identity, row) in numbered {
            self.insert_numbered(place, &identity, row)?;
        }
        if plain.is_empty() {
            return Ok(());
        }
        let sql = insert_sql(place, None);
        if self.connection.run_many(&sql, plain.iter().map(|(_, row)| row.as_slice())).is_ok() {
            return Ok(());
        }
        // One of them does not fit: find out which.
        for (identity, row) in &plain {
            self.connection
                .run_many(&sql, [row.as_slice()])
                .map_err(|error| constraint(place, identity, error))?;
        }
        Ok(())
    }

    /// Inserts a row under its old number if that is free, else under another.
    fn insert_numbered(
        &mut self,
        place: &Place,
        identity: &RowIdentity,
        mut row: Vec<Value>,
    ) -> Result<(), MergeError> {
        let RowIdentity::Rowid(number) = identity else {
            return Err(SqlError::internal("a numbered row without a number").into());
        };
        let taken = self.current(place, identity)?.is_some();
        let rowid = place.rowid.as_deref().filter(|_| !taken);
        if rowid.is_some() {
            row.insert(0, Value::Integer(*number));
        }
        let sql = insert_sql(place, rowid);
        self.connection
            .run_many(&sql, [row.as_slice()])
            .map_err(|error| constraint(place, identity, error))?;
        if taken {
            let now = self.connection.internal(|database| Ok(database.last_insert_rowid()))?;
            self.renumbered.push((place.shape.name.clone(), *number, now));
        }
        Ok(())
    }

    /// Runs a schema statement of the fork. A table is dropped only if nothing is left in it that
    /// the fork never saw.
    pub(crate) fn schema(&mut self, sql: &str) -> Result<(), MergeError> {
        let clash = |table: &str, reason| {
            MergeError::Clash(Box::new(Clash { table: table.to_owned(), key: Vec::new(), reason }))
        };
        let failed = |error: SqlError| match error.kind {
            SqlErrorKind::Corrupt | SqlErrorKind::Unavailable | SqlErrorKind::Internal => {
                MergeError::Sql(error)
            }
            _ => {
                let reason =
                    ClashReason::Schema { sql: sql.to_owned(), message: error.message.clone() };
                clash("", reason)
            }
        };
        for table in self.connection.drops(sql).map_err(failed)? {
            let Some(capture) = self.connection.capture(&table)? else { continue };
            if !matches!(&*capture, Capture::Rows(_)) {
                continue;
            }
            let count = format!("SELECT count(*) FROM main.{}", quote(&table));
            let rows: i64 = self
                .connection
                .internal(|database| Ok(database.query_row(&count, [], |row| row.get(0))?))?;
            if rows > 0 {
                let rows = rows.unsigned_abs();
                return Err(clash(&table, ClashReason::NotEmpty { rows }));
            }
        }
        self.connection.run(sql, &[]).map_err(failed)?;
        Ok(())
    }

    /// Builds external-content full-text indexes again.
    pub(crate) fn rebuild_indexes(&mut self, tables: &[String]) -> Result<(), MergeError> {
        for table in tables {
            let name = quote(table);
            let sql = format!("INSERT INTO main.{name}({name}) VALUES ('rebuild')");
            self.connection.run(&sql, &[])?;
        }
        Ok(())
    }

    /// Rows that got another rowid: table, the fork's, the target's.
    pub(crate) fn take_renumbered(&mut self) -> Vec<(String, i64, i64)> {
        std::mem::take(&mut self.renumbered)
    }

    /// Checks references and ends the transaction; the commit that leads from the target there.
    pub(crate) fn finish(mut self) -> Result<CommitSet, MergeError> {
        let mut taken = None;
        let mut sink = |commit: &CommitSet| {
            taken = Some(commit.clone());
            Ok(())
        };
        self.connection.commit(&mut sink).map_err(|error| match error {
            crate::connection::CommitError::Sql(error) => error,
            crate::connection::CommitError::Refused(refusal) => {
                SqlError::internal(refusal.to_string())
            }
        })?;
        let commit = taken.unwrap_or_else(|| CommitSet {
            base: self.target.clone(),
            root: self.target.clone(),
            page_count: self.target.page_count(),
            pages: Vec::new(),
            steps: Vec::new(),
            tables_read: std::collections::BTreeSet::new(),
        });
        let changed = commit.steps.iter().filter_map(|step| match step {
            Step::Rows(rows) => Some(rows),
            _ => None,
        });
        let broken = self
            .connection
            .internal(|database| references::first_broken(database, changed.flatten()))?;
        match broken {
            None => Ok(commit),
            Some((table, identity, parent)) => Err(MergeError::Clash(Box::new(Clash {
                table,
                key: identity.values(),
                reason: ClashReason::ForeignKey { parent },
            }))),
        }
    }
}

fn insert_sql(place: &Place, rowid: Option<&str>) -> String {
    let columns: Vec<String> = rowid.map(quote).into_iter().chain(place.columns()).collect();
    let marks = vec!["?"; columns.len()].join(", ");
    format!("INSERT INTO {}({}) VALUES ({marks})", place.table(), columns.join(", "))
}

/// A row that a constraint keeps out is a clash; anything else stays what it is.
fn constraint(place: &Place, identity: &RowIdentity, error: SqlError) -> MergeError {
    match error.kind {
        SqlErrorKind::Constraint => {
            let message = error.message;
            place.clash(Some(identity), ClashReason::Constraint { message })
        }
        _ => MergeError::Sql(error),
    }
}
