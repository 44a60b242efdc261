//! Columns and their types: found by looking at every value, or told.

use std::fmt;

use anabranch_client::{SqlValue, TableInfo};
use serde::{Serialize, Serializer};

use crate::failure::{Failure, Outcome};

/// Integers up to this are exact as reals.
const EXACT: u64 = 1 << 53;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Integer,
    Real,
    Text,
    Blob,
    /// Every value keeps the type that it has.
    Any,
}

/// A column of the file, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Column {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: Type,
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.kind.name())
    }
}

impl Serialize for Type {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Type::Integer => "INTEGER",
            Type::Real => "REAL",
            Type::Text => "TEXT",
            Type::Blob => "BLOB",
            Type::Any => "ANY",
        }
    }

    fn named(name: &str) -> Type {
        match name {
            "INTEGER" => Type::Integer,
            "REAL" => Type::Real,
            "TEXT" => Type::Text,
            "BLOB" => Type::Blob,
            _ => Type::Any,
        }
    }

    /// What the declaration of an existing column asks for, by SQLite's rules of affinity. NUMERIC
    /// counts as any: SQLite converts there what it can without loss.
    pub(super) fn declared(declaration: &str) -> Type {
        let text = declaration.to_ascii_uppercase();
        let has = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
        if has(&["INT"]) {
            Type::Integer
        } else if has(&["CHAR", "CLOB", "TEXT"]) {
            Type::Text
        } else if has(&["REAL", "FLOA", "DOUB"]) && !has(&["BLOB"]) {
            Type::Real
        } else {
            Type::Any
        }
    }

    /// Reads a text as this type.
    pub(super) fn read(self, text: &str) -> Result<SqlValue, String> {
        match self {
            Type::Integer => match text.parse() {
                Ok(number) if !text.starts_with('+') => Ok(SqlValue::Integer(number)),
                _ => Err(format!("`{}` is no 64-bit integer", short(text))),
            },
            Type::Real => match text.parse::<f64>() {
                Ok(number) if !number.is_nan() => Ok(SqlValue::Real(number)),
                _ => Err(format!("`{}` is no number", short(text))),
            },
            Type::Text | Type::Any => Ok(SqlValue::Text(text.to_owned())),
            Type::Blob => Ok(SqlValue::Blob(text.as_bytes().to_vec())),
        }
    }

    /// Checks a value that has a type already.
    pub(super) fn check(self, value: SqlValue) -> Result<SqlValue, String> {
        match (self, value) {
            (_, SqlValue::Null) => Ok(SqlValue::Null),
            (Type::Any, value)
            | (Type::Integer, value @ SqlValue::Integer(_))
            | (Type::Real, value @ SqlValue::Real(_))
            | (Type::Text, value @ SqlValue::Text(_))
            | (Type::Blob, value @ SqlValue::Blob(_)) => Ok(value),
            (Type::Real, SqlValue::Integer(number)) if number.unsigned_abs() <= EXACT =>
            {
                #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
                Ok(SqlValue::Real(number as f64))
            }
            (wanted, value) => {
                Err(format!("`{}` is no {}", short(&value.to_string()), wanted.name()))
            }
        }
    }
}

fn short(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// What was seen of a column so far.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "a set of what was seen, any of it together")]
pub(super) struct Guess {
    integers: bool,
    reals: bool,
    texts: bool,
    blobs: bool,
    /// An integer that a real would round.
    large: bool,
}

impl Guess {
    /// Looks at a text. Only a number that is written as SQLite would write it back counts as one,
    /// so that `007` stays a text.
    pub(super) fn text(&mut self, text: &str) {
        if let Ok(number) = text.parse::<i64>()
            && number.to_string() == text
        {
            self.integer(number);
        } else if is_real(text) {
            self.reals = true;
        } else {
            self.texts = true;
        }
    }

    /// Looks at a value.
    pub(super) fn value(&mut self, value: &SqlValue) {
        match value {
            SqlValue::Null => {}
            SqlValue::Integer(number) => self.integer(*number),
            SqlValue::Real(_) => self.reals = true,
            SqlValue::Text(_) => self.texts = true,
            SqlValue::Blob(_) => self.blobs = true,
        }
    }

    fn integer(&mut self, number: i64) {
        self.integers = true;
        self.large |= number.unsigned_abs() > EXACT;
    }

    /// The type of a column of texts: what all of them can be read as.
    pub(super) fn of_texts(&self) -> Type {
        match (self.integers, self.reals, self.texts) {
            (true, false, false) => Type::Integer,
            (integers, true, false) if !(integers && self.large) => Type::Real,
            _ => Type::Text,
        }
    }

    /// The type of a column of values: their common one.
    pub(super) fn of_values(&self) -> Type {
        match (self.integers, self.reals, self.texts, self.blobs) {
            (true, false, false, false) => Type::Integer,
            (false, true, false, false) => Type::Real,
            (false, false, true, false) => Type::Text,
            (false, false, false, true) => Type::Blob,
            _ => Type::Any,
        }
    }
}

/// Digits with a fraction or an exponent, no superfluous zero in front.
fn is_real(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let mut bytes = digits.bytes();
    let starts = match (bytes.next(), bytes.next()) {
        (Some(b'0'), Some(second)) => !second.is_ascii_digit(),
        (Some(b'.'), Some(second)) => second.is_ascii_digit(),
        (Some(first), _) => first.is_ascii_digit(),
        (None, _) => false,
    };
    let number = |b: u8| b.is_ascii_digit() || b"+-.eE".contains(&b);
    starts
        && digits.bytes().all(number)
        && digits.ends_with(|c: char| c.is_ascii_digit())
        // Digits alone are an integer beyond 64 bits, which a real would round.
        && digits.contains(['.', 'e', 'E'])
        && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// The columns that a table gets, or has: types told override those found.
pub(super) fn settle(
    mut columns: Vec<Column>,
    told: &[(String, String)],
    existing: Option<&TableInfo>,
) -> Outcome<Vec<Column>> {
    let mut seen = std::collections::BTreeSet::new();
    for column in &columns {
        if column.name.is_empty() || !seen.insert(column.name.to_lowercase()) {
            let message = format!("column name `{}` is empty or given twice", column.name);
            return Err(Failure::usage(message, "give every column a name of its own"));
        }
    }
    if columns.is_empty() {
        return Err(Failure::usage("the file has no columns", "check the file and its --format"));
    }
    if let Some(table) = existing {
        for column in &mut columns {
            let found =
                table.columns.iter().find(|own| own.name.eq_ignore_ascii_case(&column.name));
            let Some(own) = found else {
                let message = format!("table {} has no column `{}`", table.table, column.name);
                return Err(Failure::usage(message, "add the column, or name another table"));
            };
            column.kind = Type::declared(&own.declared);
        }
    }
    for (name, kind) in told {
        let Some(column) = columns.iter_mut().find(|column| column.name == *name) else {
            let message = format!("--type names `{name}`, which is no column of the file");
            return Err(Failure::usage(message, "use the name as the file spells it"));
        };
        column.kind = Type::named(kind);
    }
    Ok(columns)
}

/// The statement that makes a table with these columns.
pub(super) fn create_table(table: &str, columns: &[Column]) -> String {
    let columns: Vec<String> = columns
        .iter()
        .map(|column| match column.kind {
            // Without a declared type SQLite converts nothing.
            Type::Any => quote(&column.name),
            kind => format!("{} {}", quote(&column.name), kind.name()),
        })
        .collect();
    format!("CREATE TABLE {} ({})", quote(table), columns.join(", "))
}

/// A name in SQL.
pub(in crate::command) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Type {
        let mut guess = Guess::default();
        for text in texts {
            guess.text(text);
        }
        guess.of_texts()
    }

    #[test]
    fn types_of_texts() {
        assert_eq!(of(&["1", "-2", "9223372036854775807"]), Type::Integer);
        assert_eq!(of(&["1", "2.5", "1e300", ".5", "-0.25"]), Type::Real);
        assert_eq!(of(&["007"]), Type::Text);
        assert_eq!(of(&["+1"]), Type::Text);
        assert_eq!(of(&["9223372036854775808"]), Type::Text);
        assert_eq!(of(&["9007199254740993", "0.5"]), Type::Text);
        assert_eq!(of(&["1e999"]), Type::Text);
        assert_eq!(of(&["inf", "NaN"]), Type::Text);
        assert_eq!(of(&["00.5"]), Type::Text);
        assert_eq!(of(&["5."]), Type::Text);
        assert_eq!(of(&["1", "x"]), Type::Text);
        assert_eq!(of(&[]), Type::Text);
    }

    #[test]
    fn types_of_values() {
        let of = |values: &[SqlValue]| {
            let mut guess = Guess::default();
            for value in values {
                guess.value(value);
            }
            guess.of_values()
        };
        assert_eq!(of(&[SqlValue::Null, SqlValue::Integer(1)]), Type::Integer);
        assert_eq!(of(&[SqlValue::Real(1.0), SqlValue::Integer(1)]), Type::Any);
        assert_eq!(of(&[SqlValue::Blob(vec![])]), Type::Blob);
        assert_eq!(of(&[SqlValue::Null]), Type::Any);
    }

    #[test]
    fn reading_and_checking() {
        assert_eq!(Type::Integer.read("-7"), Ok(SqlValue::Integer(-7)));
        assert!(Type::Integer.read("7.5").is_err() && Type::Integer.read("+7").is_err());
        assert_eq!(Type::Real.read("7"), Ok(SqlValue::Real(7.0)));
        assert!(Type::Real.read("x").is_err() && Type::Real.read("NaN").is_err());
        assert_eq!(Type::Real.check(SqlValue::Integer(3)), Ok(SqlValue::Real(3.0)));
        assert!(Type::Real.check(SqlValue::Integer(i64::MAX)).is_err());
        assert!(Type::Text.check(SqlValue::Integer(3)).is_err());
        assert_eq!(Type::Text.check(SqlValue::Null), Ok(SqlValue::Null));
    }

    #[test]
    fn declarations() {
        for (text, kind) in [
            ("bigint", Type::Integer),
            ("VARCHAR(10)", Type::Text),
            ("double precision", Type::Real),
            ("", Type::Any),
            ("BLOB", Type::Any),
            ("DECIMAL(3,2)", Type::Any),
        ] {
            assert_eq!(Type::declared(text), kind, "{text}");
        }
        let columns = [
            Column { name: "a\"b".into(), kind: Type::Any },
            Column { name: "c".into(), kind: Type::Real },
        ];
        assert_eq!(create_table("t", &columns), "CREATE TABLE \"t\" (\"a\"\"b\", \"c\" REAL)");
    }
}
