//! SQL values in JSON, by storage class, without loss.
//!
//! | SQLite | JSON |
//! |---|---|
//! | NULL | `null` |
//! | INTEGER up to ±(2^53 − 1) | a number without fraction or exponent |
//! | INTEGER beyond | `{"integer": "9223372036854775807"}`: other readers would round it |
//! | REAL | a number with fraction or exponent (`1.0`, `1e+300`) |
//! | REAL infinite | `{"real": "inf"}`, `{"real": "-inf"}` |
//! | TEXT | a string |
//! | BLOB | `{"base64": "…"}` |
//!
//! Read besides: any integer as a plain number, `true` and `false` as 1 and 0, `{"real": "1"}`.

use std::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::base64;

/// Integers up to this are exact in readers that hold numbers as doubles.
const EXACT: i64 = (1 << 53) - 1;

/// One value of a row or a parameter.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum SqlValue {
    /// NULL.
    #[default]
    Null,
    /// INTEGER.
    Integer(i64),
    /// REAL; never a NaN, which SQLite stores as NULL.
    Real(f64),
    /// TEXT.
    Text(String),
    /// BLOB.
    Blob(Vec<u8>),
}

impl SqlValue {
    /// Bytes of the value as stored, without SQLite's own overhead: 8 for a number.
    pub fn size_bytes(&self) -> usize {
        match self {
            SqlValue::Null => 0,
            SqlValue::Integer(_) | SqlValue::Real(_) => 8,
            SqlValue::Text(text) => text.len(),
            SqlValue::Blob(bytes) => bytes.len(),
        }
    }
}

impl From<i64> for SqlValue {
    fn from(number: i64) -> SqlValue {
        SqlValue::Integer(number)
    }
}

impl From<f64> for SqlValue {
    fn from(number: f64) -> SqlValue {
        SqlValue::Real(number)
    }
}

impl From<&str> for SqlValue {
    fn from(text: &str) -> SqlValue {
        SqlValue::Text(text.to_owned())
    }
}

impl From<String> for SqlValue {
    fn from(text: String) -> SqlValue {
        SqlValue::Text(text)
    }
}

impl fmt::Display for SqlValue {
    /// For people: NULL, numbers, the text itself, `x'…'` for a blob.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SqlValue::Null => f.write_str("NULL"),
            SqlValue::Integer(number) => write!(f, "{number}"),
            SqlValue::Real(number) => write!(f, "{number:?}"),
            SqlValue::Text(text) => f.write_str(text),
            SqlValue::Blob(bytes) => {
                f.write_str("x'")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str("'")
            }
        }
    }
}

impl Serialize for SqlValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (form, text) = match self {
            SqlValue::Integer(n) if n.unsigned_abs() <= EXACT.unsigned_abs() => {
                return serializer.serialize_i64(*n);
            }
            SqlValue::Real(n) if n.is_finite() => return serializer.serialize_f64(*n),
            SqlValue::Real(n) if n.is_nan() => return serializer.serialize_unit(),
            SqlValue::Null => return serializer.serialize_unit(),
            SqlValue::Text(text) => return serializer.serialize_str(text),
            SqlValue::Integer(n) => ("integer", n.to_string()),
            SqlValue::Real(n) => ("real", n.to_string()),
            SqlValue::Blob(bytes) => ("base64", base64::encode(bytes)),
        };
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(form, &text)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for SqlValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SqlValue, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = SqlValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("null, a number, a string, or one of {\"base64\"}, {\"integer\"}, {\"real\"}")
    }

    fn visit_unit<E: de::Error>(self) -> Result<SqlValue, E> {
        Ok(SqlValue::Null)
    }

    fn visit_bool<E: de::Error>(self, truth: bool) -> Result<SqlValue, E> {
        Ok(SqlValue::Integer(i64::from(truth)))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<SqlValue, E> {
        Ok(SqlValue::Integer(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<SqlValue, E> {
        i64::try_from(number)
            .map(SqlValue::Integer)
            .map_err(|_| E::custom("integer leaves 64 bits with sign"))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<SqlValue, E> {
        Ok(SqlValue::Real(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<SqlValue, E> {
        Ok(SqlValue::Text(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<SqlValue, E> {
        Ok(SqlValue::Text(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SqlValue, A::Error> {
        const FORMS: &[&str] = &["base64", "integer", "real"];
        let Some(form) = map.next_key::<String>()? else {
            return Err(de::Error::custom("an empty object is no value"));
        };
        if !FORMS.contains(&form.as_str()) {
            return Err(de::Error::unknown_field(&form, FORMS));
        }
        let text = map.next_value::<String>()?;
        let value = match form.as_str() {
            "base64" => SqlValue::Blob(base64::decode(&text).map_err(de::Error::custom)?),
            "integer" => SqlValue::Integer(text.parse().map_err(de::Error::custom)?),
            _ => SqlValue::Real(real(&text).ok_or_else(|| de::Error::custom("not a real"))?),
        };
        match map.next_key::<String>()? {
            None => Ok(value),
            Some(other) => Err(de::Error::unknown_field(&other, &[])),
        }
    }
}

fn real(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| !number.is_nan())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(value: &SqlValue) -> SqlValue {
        serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
    }

    #[test]
    fn forms() {
        for (value, text) in [
            (SqlValue::Null, "null"),
            (SqlValue::Integer(0), "0"),
            (SqlValue::Integer(EXACT), "9007199254740991"),
            (SqlValue::Integer(-EXACT), "-9007199254740991"),
            (SqlValue::Integer(EXACT + 1), r#"{"integer":"9007199254740992"}"#),
            (SqlValue::Integer(i64::MIN), r#"{"integer":"-9223372036854775808"}"#),
            (SqlValue::Real(1.0), "1.0"),
            (SqlValue::Real(-0.0), "-0.0"),
            (SqlValue::Real(1e300), "1e+300"),
            (SqlValue::Real(f64::INFINITY), r#"{"real":"inf"}"#),
            (SqlValue::Real(f64::NEG_INFINITY), r#"{"real":"-inf"}"#),
            (SqlValue::from(""), r#""""#),
            (SqlValue::from("1"), r#""1""#),
            (SqlValue::Blob(vec![]), r#"{"base64":""}"#),
            (SqlValue::Blob(b"a".to_vec()), r#"{"base64":"YQ=="}"#),
        ] {
            assert_eq!(serde_json::to_string(&value).unwrap(), text);
            assert_eq!(serde_json::from_str::<SqlValue>(text).unwrap(), value, "{text}");
        }
        assert_eq!(serde_json::to_string(&SqlValue::Real(f64::NAN)).unwrap(), "null");
    }

    #[test]
    fn lenient_where_nothing_is_lost_and_strict_elsewhere() {
        let read = |text| serde_json::from_str::<SqlValue>(text);
        assert_eq!(read("true").unwrap(), SqlValue::Integer(1));
        assert_eq!(read("9223372036854775807").unwrap(), SqlValue::Integer(i64::MAX));
        assert_eq!(read(r#"{"real":"1"}"#).unwrap(), SqlValue::Real(1.0));
        for bad in [
            "9223372036854775808",
            "[1]",
            "{}",
            r#"{"blob":"00"}"#,
            r#"{"real":"NaN"}"#,
            r#"{"integer":"1.5"}"#,
            r#"{"integer":1}"#,
            "1e999",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn integers(number: i64) {
            prop_assert_eq!(round_trip(&SqlValue::Integer(number)), SqlValue::Integer(number));
        }

        #[test]
        fn reals_are_bit_exact(bits: u64) {
            let number = f64::from_bits(bits);
            prop_assume!(!number.is_nan());
            let SqlValue::Real(read) = round_trip(&SqlValue::Real(number)) else {
                return Err(TestCaseError::fail("not a real"));
            };
            prop_assert_eq!(read.to_bits(), bits);
        }

        #[test]
        fn texts_and_blobs(text: String, bytes: Vec<u8>) {
            let text = SqlValue::Text(text);
            prop_assert_eq!(round_trip(&text), text);
            let blob = SqlValue::Blob(bytes);
            prop_assert_eq!(round_trip(&blob), blob);
        }
    }
}
