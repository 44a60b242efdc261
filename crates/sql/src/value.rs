//! `Value`: one SQLite value, with a total order and a binary codec.
//!
//! Equality is exact: `Integer(1)` and `Real(1.0)` differ, `0.0` and `-0.0` differ. The order is
//! SQLite's (null, numbers, text, blob; text and blobs by bytes), made total: numbers that
//! compare equal are ordered integer first.

use std::cmp::Ordering;
use std::fmt;

use crate::wire::{Malformed, Reader, put_bytes, put_varint, unzigzag, zigzag};

/// One SQLite value.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// NULL.
    #[default]
    Null,
    /// A 64-bit signed integer.
    Integer(i64),
    /// A 64-bit float; SQLite stores no NaN (it becomes NULL).
    Real(f64),
    /// Text; always valid UTF-8 (other text is refused where it enters).
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

const NULL: u8 = 0;
const INTEGER: u8 = 1;
const REAL: u8 = 2;
const TEXT: u8 = 3;
const BLOB: u8 = 4;

impl Value {
    /// Whether this is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The name SQLite gives the type: `null`, `integer`, `real`, `text` or `blob`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Integer(_) => "integer",
            Value::Real(_) => "real",
            Value::Text(_) => "text",
            Value::Blob(_) => "blob",
        }
    }

    /// Bytes of memory and of wire the value stands for, roughly; used by limits.
    pub fn size_bytes(&self) -> usize {
        match self {
            Value::Null => 1,
            Value::Integer(_) | Value::Real(_) => 9,
            Value::Text(text) => text.len() + 5,
            Value::Blob(bytes) => bytes.len() + 5,
        }
    }

    /// Appends the encoding: a type byte, then a zigzag LEB128 integer, eight bytes of an IEEE 754
    /// double (little endian), or a LEB128 length and the bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.push(NULL),
            Value::Integer(number) => {
                out.push(INTEGER);
                put_varint(out, zigzag(*number));
            }
            Value::Real(number) => {
                out.push(REAL);
                out.extend_from_slice(&number.to_bits().to_le_bytes());
            }
            Value::Text(text) => {
                out.push(TEXT);
                put_bytes(out, text.as_bytes());
            }
            Value::Blob(bytes) => {
                out.push(BLOB);
                put_bytes(out, bytes);
            }
        }
    }

    /// Decodes one value that fills `bytes` exactly.
    pub fn decode(bytes: &[u8]) -> Result<Value, Malformed> {
        let mut reader = Reader::new(bytes);
        let value = Value::read(&mut reader)?;
        reader.finish("trailing bytes after a value")?;
        Ok(value)
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Value, Malformed> {
        match reader.byte("type of a value")? {
            NULL => Ok(Value::Null),
            INTEGER => Ok(Value::Integer(unzigzag(reader.varint("integer")?))),
            REAL => Ok(Value::Real(f64::from_bits(u64::from_le_bytes(reader.array("real")?)))),
            TEXT => Ok(Value::Text(reader.text("text")?)),
            BLOB => Ok(Value::Blob(reader.bytes("blob")?.to_vec())),
            _ => reader.fail("type of a value"),
        }
    }

    /// An SQL literal that evaluates to this value.
    pub fn to_literal(&self) -> String {
        match self {
            Value::Null => String::from("NULL"),
            // The most negative integer cannot be written as a literal: the minus is an operator.
            Value::Integer(i64::MIN) => String::from("(-9223372036854775807 - 1)"),
            Value::Integer(number) => number.to_string(),
            Value::Real(number) if number.is_infinite() => {
                String::from(if *number > 0.0 { "9e999" } else { "-9e999" })
            }
            Value::Real(number) if number.is_nan() => String::from("NULL"),
            Value::Real(number) => format!("{number:?}"),
            Value::Text(text) if text.contains('\0') => {
                format!("CAST(X'{}' AS TEXT)", hex(text.as_bytes()))
            }
            Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
            Value::Blob(bytes) => format!("X'{}'", hex(bytes)),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Value::Null => 0,
            Value::Integer(_) | Value::Real(_) => 1,
            Value::Text(_) => 2,
            Value::Blob(_) => 3,
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02X}");
    }
    text
}

/// Compares without rounding: neither side is converted to the other's type blindly.
fn compare_numbers(integer: i64, real: f64) -> Ordering {
    // Floats from -2^63 (inclusive) to 2^63 (exclusive) have an i64 as integer part.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if real.is_nan() {
        return if real.is_sign_negative() { Ordering::Greater } else { Ordering::Less };
    }
    if real >= LIMIT {
        return Ordering::Less;
    }
    if real < -LIMIT {
        return Ordering::Greater;
    }
    #[expect(clippy::cast_possible_truncation, reason = "in range: tested just above")]
    let whole = real.trunc() as i64;
    integer.cmp(&whole).then_with(|| 0.0f64.total_cmp(&(real.fract() + 0.0)))
}

impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Integer(a), Value::Integer(b)) => a.cmp(b),
            (Value::Real(a), Value::Real(b)) => a.total_cmp(b),
            (Value::Integer(a), Value::Real(b)) => compare_numbers(*a, *b).then(Ordering::Less),
            (Value::Real(a), Value::Integer(b)) => {
                compare_numbers(*b, *a).reverse().then(Ordering::Greater)
            }
            (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Value::Blob(a), Value::Blob(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_literal())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Integer(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Real(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Value {
        Value::Text(value)
    }
}

impl From<Vec<u8>> for Value {
    fn from(value: Vec<u8>) -> Value {
        Value::Blob(value)
    }
}
