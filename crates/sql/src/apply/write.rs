//! Writing rows into the target: deletions first, then updates, then insertions.

use super::{Actions, Merge, MergeError, Place};
use crate::change::RowIdentity;
use crate::connection::{quote, value_of};
use crate::error::{SqlError, SqlErrorKind};
use crate::live::ClashReason;
use crate::value::Value;

/// A row to be written: what identifies it here, and its values by the recorded shape.
type Row = (RowIdentity, Vec<Value>);

impl Merge {
    /// Does what has to be done in one table: deletions first, so that keys are free.
    pub(crate) fn write(&mut self, place: &Place, actions: Actions) -> Result<(), MergeError> {
        let Actions { deletes, updates, inserts } = actions;
        self.delete(place, &deletes)?;
        self.update(place, &updates)?;
        self.insert(place, inserts)
    }

    fn delete(&mut self, place: &Place, rows: &[RowIdentity]) -> Result<(), MergeError> {
        for same in rows.chunk_by(same_kind) {
            let Some(first) = same.first() else { continue };
            let sql = format!("DELETE FROM {} WHERE {}", place.table(), place.condition(first).0);
            let gone =
                self.connection.run_many(&sql, same.iter().map(|row| place.condition(row).1))?;
            all_found(gone, same.len())?;
        }
        Ok(())
    }

    fn update(&mut self, place: &Place, rows: &[Row]) -> Result<(), MergeError> {
        let sets: Vec<String> =
            place.columns().into_iter().map(|column| format!("{column} = ?")).collect();
        for same in rows.chunk_by(|a, b| same_kind(&a.0, &b.0)) {
            let Some((first, _)) = same.first() else { continue };
            let condition = place.condition(first).0;
            let sql = format!("UPDATE {} SET {} WHERE {condition}", place.table(), sets.join(", "));
            let values = |(identity, row): &Row| {
                let mut values = row.clone();
                values.extend(place.condition(identity).1);
                values
            };
            match self.connection.run_many(&sql, same.iter().map(values)) {
                Ok(changed) => all_found(changed, same.len())?,
                // Rows may have exchanged the values of a unique column.
                Err(error) if error.kind == SqlErrorKind::Constraint && rows.len() > 1 => {
                    return self.replace(place, rows);
                }
                Err(error) => return Err(constraint(place, first, error)),
            }
        }
        Ok(())
    }

    /// Takes all rows out and puts all in, as they shall be; columns that only the target has
    /// keep their values.
    fn replace(&mut self, place: &Place, rows: &[Row]) -> Result<(), MergeError> {
        let rowid = place.rowid.as_deref();
        let names: Vec<String> =
            rowid.into_iter().chain(place.all.iter().map(String::as_str)).map(quote).collect();
        let mut whole = Vec::with_capacity(rows.len());
        for (identity, row) in rows {
            let mut values = self.whole(place, &names, identity)?;
            for (name, value) in place.shape.columns.iter().zip(row) {
                let at = place.all.iter().position(|there| there.eq_ignore_ascii_case(name));
                let at = at.map(|at| at + usize::from(rowid.is_some()));
                if let Some(cell) = at.and_then(|at| values.get_mut(at)) {
                    cell.clone_from(value);
                }
            }
            whole.push((identity, values));
        }
        let identities: Vec<RowIdentity> = rows.iter().map(|(row, _)| row.clone()).collect();
        self.delete(place, &identities)?;
        let marks = vec!["?"; names.len()].join(", ");
        let sql = format!("INSERT INTO {}({}) VALUES ({marks})", place.table(), names.join(", "));
        for (identity, values) in whole {
            self.connection
                .run_many(&sql, [values])
                .map_err(|error| constraint(place, identity, error))?;
        }
        Ok(())
    }

    /// Values of the named columns of one row.
    fn whole(
        &self,
        place: &Place,
        names: &[String],
        identity: &RowIdentity,
    ) -> Result<Vec<Value>, SqlError> {
        let (condition, values) = place.condition(identity);
        let sql = format!("SELECT {} FROM {} WHERE {condition}", names.join(", "), place.table());
        self.connection.internal(|database| {
            let mut query = database.prepare_cached(&sql)?;
            let mut rows = query.query(rusqlite::params_from_iter(&values))?;
            let Some(row) = rows.next()? else { return Err(vanished()) };
            (0..names.len()).map(|at| value_of(row.get_ref(at)?)).collect()
        })
    }

    fn insert(&mut self, place: &Place, rows: Vec<Row>) -> Result<(), MergeError> {
        let (numbered, plain): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|(identity, _)| place.numbers_rows(identity));
        for (identity, row) in numbered {
            self.insert_numbered(place, &identity, row)?;
        }
        if plain.is_empty() {
            return Ok(());
        }
        // A full-text row is its number and its columns.
        let rowid = place.rowid.as_deref().filter(|_| place.is_virtual);
        let sql = insert_sql(place, rowid);
        let values = |(identity, row): &Row| match (rowid, identity) {
            (Some(_), RowIdentity::Rowid(number)) => {
                std::iter::once(Value::Integer(*number)).chain(row.iter().cloned()).collect()
            }
            _ => row.clone(),
        };
        if self.connection.run_many(&sql, plain.iter().map(values)).is_ok() {
            return Ok(());
        }
        // One of them does not fit: find out which.
        for row in &plain {
            self.connection
                .run_many(&sql, [values(row)])
                .map_err(|error| constraint(place, &row.0, error))?;
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
            self.moved.insert((place.shape.name.to_lowercase(), *number), now);
        }
        Ok(())
    }
}

/// Whether one statement can address both rows.
fn same_kind(left: &RowIdentity, right: &RowIdentity) -> bool {
    std::mem::discriminant(left) == std::mem::discriminant(right)
}

/// Each row was looked up before it is written; one that is gone means that a change was lost.
fn all_found(changed: u64, wanted: usize) -> Result<(), SqlError> {
    if changed == wanted as u64 { Ok(()) } else { Err(vanished()) }
}

fn vanished() -> SqlError {
    SqlError::internal("a row to be merged is not where it was found")
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
