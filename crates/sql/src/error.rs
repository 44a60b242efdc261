//! Errors of running SQL on a branch.

use std::fmt;

/// What a caller can do about an SQL error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SqlErrorKind {
    /// The statement is wrong for this database: syntax, unknown table or column, wrong type.
    Statement,
    /// A constraint said no (unique, not null, check, foreign key, trigger `RAISE`).
    Constraint,
    /// The statement is not allowed here (transaction control, ATTACH, PRAGMA writes, ...).
    Refused,
    /// The connection is read only.
    ReadOnly,
    /// The number of parameters does not fit the statements.
    Parameters,
    /// Text is not valid UTF-8; it cannot be shown, logged or merged faithfully.
    InvalidText,
    /// The time or work allowed for one call is used up. A write was rolled back.
    Timeout,
    /// Somebody asked to stop. A write was rolled back.
    Cancelled,
    /// A size limit: SQL text, pages of the branch, bytes of a commit.
    TooLarge,
    /// The page store has no room.
    Full,
    /// The transaction is gone: an earlier error rolled it back. Begin again.
    Aborted,
    /// The page store could not be reached; nothing is known to be damaged.
    Unavailable,
    /// Stored pages are damaged. Nothing was guessed.
    Corrupt,
    /// A defect of this crate or of SQLite.
    Internal,
}

/// An error of SQL on a branch. Nothing of the failing statement remains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// What kind of error.
    pub kind: SqlErrorKind,
    /// SQLite's extended result code, where SQLite said no.
    pub sqlite_code: Option<i32>,
    /// What happened, in lower case, without the SQL text.
    pub message: String,
    /// Byte offset in the SQL text at which the error was found.
    pub offset: Option<usize>,
}

impl SqlError {
    pub(crate) fn new(kind: SqlErrorKind, message: impl Into<String>) -> SqlError {
        SqlError { kind, sqlite_code: None, message: message.into(), offset: None }
    }

    pub(crate) fn internal(message: impl Into<String>) -> SqlError {
        SqlError::new(SqlErrorKind::Internal, message)
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(offset) = self.offset {
            write!(f, "; offset=`{offset}`")?;
        }
        if let Some(code) = self.sqlite_code {
            write!(f, "; sqlite=`{code}`")?;
        }
        Ok(())
    }
}

impl std::error::Error for SqlError {}

impl From<rusqlite::Error> for SqlError {
    fn from(error: rusqlite::Error) -> SqlError {
        use rusqlite::Error as E;
        match error {
            E::SqliteFailure(error, message) => {
                let message = message.unwrap_or_else(|| error.to_string());
                from_code(error.extended_code, message)
            }
            E::SqlInputError { error, msg, offset, .. } => {
                let mut mapped = from_code(error.extended_code, msg);
                mapped.offset = usize::try_from(offset).ok();
                mapped
            }
            E::MultipleStatement => {
                SqlError::new(SqlErrorKind::Statement, "more than one statement")
            }
            E::Utf8Error(..) => SqlError::new(SqlErrorKind::InvalidText, "text is not valid UTF-8"),
            E::NulError(_) => {
                SqlError::new(SqlErrorKind::Statement, "SQL text contains a NUL byte")
            }
            other => SqlError::internal(other.to_string()),
        }
    }
}

fn from_code(code: i32, message: String) -> SqlError {
    use rusqlite::ffi;
    let kind = match code & 0xff {
        ffi::SQLITE_CONSTRAINT => SqlErrorKind::Constraint,
        ffi::SQLITE_AUTH => SqlErrorKind::Refused,
        ffi::SQLITE_READONLY => SqlErrorKind::ReadOnly,
        ffi::SQLITE_INTERRUPT => SqlErrorKind::Timeout,
        ffi::SQLITE_TOOBIG | ffi::SQLITE_FULL => SqlErrorKind::TooLarge,
        ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB => SqlErrorKind::Corrupt,
        ffi::SQLITE_RANGE => SqlErrorKind::Parameters,
        ffi::SQLITE_ERROR | ffi::SQLITE_MISMATCH | ffi::SQLITE_SCHEMA => SqlErrorKind::Statement,
        _ => SqlErrorKind::Internal,
    };
    SqlError { kind, sqlite_code: Some(code), message, offset: None }
}
