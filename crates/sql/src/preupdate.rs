//! Row images, as SQLite's preupdate hook reports them: before each row changes, whoever changes
//! it (statement, trigger, foreign key action, REPLACE).

#![expect(unsafe_code, reason = "rusqlite has the preupdate hook only together with libclang")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::ffi;

use crate::change::ChangeKind;
use crate::value::Value;

/// One row as the hook saw it: every column of the table, computed ones included (those that are
/// not stored as NULL).
pub(crate) struct RawRow {
    /// Position in [`RowLog::names`].
    pub(crate) table: usize,
    /// Rowid before and after; meaningless for WITHOUT ROWID tables.
    pub(crate) rowid_old: i64,
    pub(crate) rowid_new: i64,
    pub(crate) old: Option<Vec<Value>>,
    pub(crate) new: Option<Vec<Value>>,
}

/// Rows changed since the log was last emptied.
#[derive(Default)]
pub(crate) struct RowLog {
    pub(crate) names: Vec<String>,
    pub(crate) rows: Vec<RawRow>,
    /// Bytes of all images of the transaction, also of those taken out already.
    pub(crate) bytes: usize,
    /// `bytes` when the running statement began.
    pub(crate) mark: usize,
    pub(crate) max_bytes: usize,
    /// Set when collecting stops, so that the statement stops too.
    overflow: Arc<AtomicBool>,
    /// Why collecting stopped; the transaction must not commit.
    pub(crate) problem: Option<Problem>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    TooLarge,
    InvalidText { table: String },
    Sqlite { code: c_int },
}

/// The hook of one connection. Drop it after the connection.
pub(crate) struct RowHook {
    log: Arc<Mutex<RowLog>>,
}

impl RowHook {
    pub(crate) fn install(
        database: &rusqlite::Connection,
        max_bytes: usize,
        overflow: Arc<AtomicBool>,
    ) -> RowHook {
        let log = RowLog { max_bytes, overflow, ..RowLog::default() };
        let log = Arc::new(Mutex::new(log));
        // SAFETY: the handle is open. The context is the mutex inside `log`, which the returned
        // value keeps alive; its owner drops the connection first, and with it the hook.
        unsafe {
            ffi::sqlite3_preupdate_hook(
                database.handle(),
                Some(row_changes),
                Arc::as_ptr(&log).cast_mut().cast(),
            );
        }
        RowHook { log }
    }

    pub(crate) fn with<T>(&self, run: impl FnOnce(&mut RowLog) -> T) -> T {
        run(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

unsafe extern "C" fn row_changes(
    context: *mut c_void,
    database: *mut ffi::sqlite3,
    operation: c_int,
    schema: *const c_char,
    table: *const c_char,
    rowid_old: ffi::sqlite3_int64,
    rowid_new: ffi::sqlite3_int64,
) {
    let run = || {
        // SAFETY: the context is the mutex given to `install`, alive while the hook is.
        let log = unsafe { &*context.cast::<Mutex<RowLog>>() };
        // SAFETY: both names are NUL-terminated and live during the call.
        let (schema, table) = unsafe { (CStr::from_ptr(schema), CStr::from_ptr(table)) };
        if schema != c"main" {
            return;
        }
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.problem.is_some() {
            return;
        }
        let kind = match operation {
            ffi::SQLITE_INSERT => ChangeKind::Insert,
            ffi::SQLITE_DELETE => ChangeKind::Delete,
            _ => ChangeKind::Update,
        };
        let table = log.table(&table.to_string_lossy());
        let old = (kind != ChangeKind::Insert).then(|| image(database, ffi::sqlite3_preupdate_old));
        let new = (kind != ChangeKind::Delete).then(|| image(database, ffi::sqlite3_preupdate_new));
        match (old.transpose(), new.transpose()) {
            (Ok(old), Ok(new)) => {
                log.add(RawRow { table, rowid_old, rowid_new, old, new });
            }
            (Err(problem), _) | (_, Err(problem)) => {
                let table = log.names[table].clone();
                log.problem = Some(match problem {
                    Problem::InvalidText { .. } => Problem::InvalidText { table },
                    other => other,
                });
            }
        }
    };
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        // SAFETY: as above. A lost row image must not become a commit without it.
        let log = unsafe { &*context.cast::<Mutex<RowLog>>() };
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        log.problem = Some(Problem::Sqlite { code: ffi::SQLITE_INTERNAL });
    }
}

impl RowLog {
    fn table(&mut self, name: &str) -> usize {
        // Changes come in stretches of one table.
        if let Some(row) = self.rows.last()
            && self.names[row.table] == name
        {
            return row.table;
        }
        self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }

    fn add(&mut self, row: RawRow) {
        let images = [&row.old, &row.new];
        let values = images.into_iter().flatten().flatten();
        self.bytes += values.map(Value::size_bytes).sum::<usize>() + 16;
        if self.bytes > self.max_bytes {
            self.problem = Some(Problem::TooLarge);
            self.overflow.store(true, Ordering::Relaxed);
        } else {
            self.rows.push(row);
        }
    }
}

type Getter = unsafe extern "C" fn(*mut ffi::sqlite3, c_int, *mut *mut ffi::sqlite3_value) -> c_int;

/// Every column of the row that is changing.
fn image(database: *mut ffi::sqlite3, get: Getter) -> Result<Vec<Value>, Problem> {
    // SAFETY: called from within the hook, with the connection it was called for.
    let count = unsafe { ffi::sqlite3_preupdate_count(database) };
    let mut values = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    for column in 0..count {
        let mut value = ptr::null_mut();
        // SAFETY: as above; the column is in range and `value` is a place for the answer.
        match unsafe { get(database, column, &raw mut value) } {
            ffi::SQLITE_OK => values.push(read_value(value)?),
            // A computed column that is not stored.
            ffi::SQLITE_RANGE => values.push(Value::Null),
            code => return Err(Problem::Sqlite { code }),
        }
    }
    Ok(values)
}

fn read_value(value: *mut ffi::sqlite3_value) -> Result<Value, Problem> {
    if value.is_null() {
        return Err(Problem::Sqlite { code: ffi::SQLITE_NOMEM });
    }
    // SAFETY: a value returned by the getter is valid until the hook returns.
    let kind = unsafe { ffi::sqlite3_value_type(value) };
    match kind {
        // SAFETY: as above.
        ffi::SQLITE_INTEGER => Ok(Value::Integer(unsafe { ffi::sqlite3_value_int64(value) })),
        // SAFETY: as above.
        ffi::SQLITE_FLOAT => Ok(Value::Real(unsafe { ffi::sqlite3_value_double(value) })),
        ffi::SQLITE_TEXT => {
            // SAFETY: as above; the text comes first, since it may convert, then its length.
            let bytes = unsafe { copy(ffi::sqlite3_value_text(value).cast(), value) };
            let text = String::from_utf8(bytes);
            text.map(Value::Text).map_err(|_| Problem::InvalidText { table: String::new() })
        }
        ffi::SQLITE_BLOB => {
            // SAFETY: as above.
            Ok(Value::Blob(unsafe { copy(ffi::sqlite3_value_blob(value).cast(), value) }))
        }
        _ => Ok(Value::Null),
    }
}

/// # Safety
/// `bytes` is the text or blob pointer just taken from `value`.
unsafe fn copy(bytes: *const u8, value: *mut ffi::sqlite3_value) -> Vec<u8> {
    // SAFETY: the value is live.
    let count = unsafe { ffi::sqlite3_value_bytes(value) };
    match usize::try_from(count) {
        // SAFETY: SQLite keeps `count` bytes behind the pointer while the value is unchanged.
        Ok(count) if count > 0 && !bytes.is_null() => unsafe {
            std::slice::from_raw_parts(bytes, count).to_vec()
        },
        _ => Vec::new(),
    }
}
