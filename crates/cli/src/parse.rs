//! Texts of the command line that become values.

use std::convert::Infallible;
use std::time::Duration;

use anabranch_api::SqlValue;

/// A duration: a whole number with `ms`, `s`, `m`, `h` or `d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err("write a number with a unit: 500ms, 30s, 15m, 2h or 7d".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "write a number before the unit".to_owned())?;
    let ms = number.checked_mul(unit_ms).ok_or("too long")?;
    Ok(Duration::from_millis(ms))
}

/// A SQL parameter: JSON where it is a SQL value (`5`, `1.5`, `null`, `"5"`, `{"base64":"…"}`),
/// text otherwise.
#[expect(clippy::unnecessary_wraps, reason = "the signature that clap asks for")]
pub(crate) fn parameter(text: &str) -> Result<SqlValue, Infallible> {
    Ok(serde_json::from_str(text).unwrap_or_else(|_| SqlValue::Text(text.to_owned())))
}

/// `NAME=TYPE` with a column type.
pub(crate) fn column_type(text: &str) -> Result<(String, String), String> {
    let (name, kind) = text.rsplit_once('=').ok_or("write NAME=TYPE")?;
    let kind = kind.to_ascii_uppercase();
    match kind.as_str() {
        "INTEGER" | "REAL" | "TEXT" | "BLOB" | "ANY" if !name.is_empty() => {
            Ok((name.to_owned(), kind))
        }
        _ => Err("TYPE is INTEGER, REAL, TEXT, BLOB or ANY".to_owned()),
    }
}

/// One byte that separates fields: a character or `\t`.
pub(crate) fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !b"\r\n\"".contains(byte) => Ok(*byte),
        b"\\t" => Ok(b'\t'),
        _ => Err("write one ASCII character, or \\t".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("500ms").unwrap(), Duration::from_millis(500));
        assert_eq!(duration("2h").unwrap(), Duration::from_hours(2));
        assert_eq!(duration("7d").unwrap().as_secs(), 604_800);
        for bad in ["", "5", "s", "1.5s", "-1s", "5w", "99999999999999999999s", "9999999999999999d"]
        {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn parameters_are_json_or_text() {
        for (text, value) in [
            ("5", SqlValue::Integer(5)),
            ("1.5", SqlValue::Real(1.5)),
            ("null", SqlValue::Null),
            ("\"5\"", SqlValue::from("5")),
            ("hello", SqlValue::from("hello")),
            ("[1]", SqlValue::from("[1]")),
            ("007", SqlValue::from("007")),
            ("{\"base64\":\"YQ==\"}", SqlValue::Blob(b"a".to_vec())),
        ] {
            assert_eq!(parameter(text).unwrap(), value, "{text}");
        }
    }

    #[test]
    fn types_and_delimiters() {
        assert_eq!(column_type("a=b=text").unwrap(), ("a=b".into(), "TEXT".into()));
        assert!(column_type("a=varchar").is_err() && column_type("=TEXT").is_err());
        assert_eq!((delimiter(";"), delimiter("\\t")), (Ok(b';'), Ok(b'\t')));
        assert!(delimiter("é").is_err() && delimiter("\"").is_err() && delimiter("").is_err());
    }
}
