//! Applying a fork's net changes to other tables than those they were made on.
//!
//! Triggers are off (what they did on the fork is among the changes), foreign key actions too; at
//! the end every reference that the changes touch is checked. Shapes are compared before rows: a
//! missing or narrower table is an error, never a silent success.

mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rusqlite::config::DbConfig;

use crate::change::{CommitSet, Fingerprint, RowIdentity, TableKey, TableShape};
use crate::connection::{Capture, Connection, quote, value_of};
use crate::error::{SqlError, SqlErrorKind};
use crate::limits::{Access, Limits};
use crate::live::{Clash, ClashReason};
use crate::map::PageMap;
use crate::net::{NetChanges, net};
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
    /// Every stored column that the table has there, also those the shape does not know.
    all: Vec<String>,
    /// Whether the table is virtual (full text).
    is_virtual: bool,
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
    /// Where rows that got another number are now: (table in lower case, the fork's number) to the
    /// number here. Later changes of such a row follow it.
    moved: BTreeMap<(String, i64), i64>,
}

impl Place {
    /// Whether the row's number is chosen by SQLite and means nothing to anybody. Numbers of
    /// full-text rows are data: they usually name a row of another table.
    pub(crate) fn numbers_rows(&self, identity: &RowIdentity) -> bool {
        (self.shape.key == TableKey::Rowid && !self.is_virtual)
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
        let (renumbered, moved) = (Vec::new(), BTreeMap::new());
        Ok(Merge { connection, target: target.clone(), renumbered, moved })
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
        let place =
            Place { shape: Arc::clone(shape), rowid: None, all: Vec::new(), is_virtual: false };
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
        Ok(Place {
            rowid: rows.rowid.clone(),
            all: rows.shape.columns.clone(),
            is_virtual: rows.is_virtual,
            ..place
        })
    }

    /// The identity here of a row that the fork knows by `identity`.
    pub(crate) fn here(&self, place: &Place, identity: &RowIdentity) -> RowIdentity {
        let RowIdentity::Rowid(number) = identity else { return identity.clone() };
        let moved = self.moved.get(&(place.shape.name.to_lowercase(), *number));
        RowIdentity::Rowid(*moved.unwrap_or(number))
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
        let before = self.root_pages()?;
        self.connection.run(sql, &[]).map_err(failed)?;
        self.follow_renames(&before)
    }

    /// Where the tables with moved rows are: a rename keeps the root page.
    fn root_pages(&self) -> Result<BTreeMap<String, i64>, SqlError> {
        if self.moved.is_empty() {
            return Ok(BTreeMap::new());
        }
        self.connection.internal(|database| {
            let mut query = database.prepare_cached(
                "SELECT name, rootpage FROM sqlite_schema WHERE type = 'table' AND rootpage > 0",
            )?;
            let found = query.query_map([], |row| {
                Ok((row.get::<_, String>(0)?.to_lowercase(), row.get::<_, i64>(1)?))
            })?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    fn follow_renames(&mut self, before: &BTreeMap<String, i64>) -> Result<(), MergeError> {
        let after: BTreeMap<i64, String> =
            self.root_pages()?.into_iter().map(|(name, page)| (page, name)).collect();
        self.moved = std::mem::take(&mut self.moved)
            .into_iter()
            .filter_map(|((table, number), now)| {
                let name = after.get(before.get(&table)?)?;
                Some(((name.clone(), number), now))
            })
            .collect();
        Ok(())
    }

    /// Compares a column that the fork drops with what the fork saw in it before.
    pub(crate) fn require_same(&mut self, same: &Fingerprint) -> Result<(), MergeError> {
        let found = self.connection.fingerprint(&same.table, &same.columns)?;
        if found.as_ref() == Some(same) {
            return Ok(());
        }
        Err(MergeError::Clash(Box::new(Clash {
            table: same.table.clone(),
            key: Vec::new(),
            reason: ClashReason::SchemaAndRows,
        })))
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
        let net = net(&commit.steps);
        let broken =
            self.connection.internal(|database| references::first_broken(database, &net))?;
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
