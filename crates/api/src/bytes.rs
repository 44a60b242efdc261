//! Bytes in JSON: a string when they are UTF-8, `{"base64": "…"}` otherwise. Both forms are read,
//! whichever the bytes are; the mapping loses nothing.

use std::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::base64;

/// A record, key or value.
///
/// ```
/// use anabranch_api::Bytes;
///
/// assert_eq!(serde_json::to_string(&Bytes::from("hé")).unwrap(), r#""hé""#);
/// assert_eq!(serde_json::to_string(&Bytes(vec![255])).unwrap(), r#"{"base64":"/w=="}"#);
/// ```
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub Vec<u8>);

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes(bytes)
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Bytes {
        Bytes(bytes.to_vec())
    }
}

impl From<&str> for Bytes {
    fn from(text: &str) -> Bytes {
        Bytes(text.as_bytes().to_vec())
    }
}

impl From<String> for Bytes {
    fn from(text: String) -> Bytes {
        Bytes(text.into_bytes())
    }
}

impl From<Bytes> for Vec<u8> {
    fn from(bytes: Bytes) -> Vec<u8> {
        bytes.0
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Bytes {
    /// For people: the text, or the escaped bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.0) {
            Ok(text) => f.write_str(text),
            Err(_) => write!(f, "{}", self.0.escape_ascii()),
        }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = std::str::from_utf8(&self.0) {
            return serializer.serialize_str(text);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("base64", &base64::encode(&self.0))?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        deserializer.deserialize_any(BytesVisitor)
    }
}

struct BytesVisitor;

impl<'de> Visitor<'de> for BytesVisitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or {\"base64\": \"…\"}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
        Ok(Bytes::from(text))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Bytes, E> {
        Ok(Bytes::from(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Bytes, A::Error> {
        let Some(name) = map.next_key::<String>()? else {
            return Err(de::Error::missing_field("base64"));
        };
        if name != "base64" {
            return Err(de::Error::unknown_field(&name, &["base64"]));
        }
        let bytes = base64::decode(&map.next_value::<String>()?).map_err(de::Error::custom)?;
        match map.next_key::<String>()? {
            None => Ok(Bytes(bytes)),
            Some(other) => Err(de::Error::unknown_field(&other, &[])),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_forms_are_read() {
        let read = |text| serde_json::from_str::<Bytes>(text);
        assert_eq!(read(r#""a\u0000b""#).unwrap(), Bytes(b"a\0b".to_vec()));
        assert_eq!(read(r#"{"base64":"YQ=="}"#).unwrap(), Bytes::from("a"));
        for bad in [
            "1",
            "null",
            "[]",
            "{}",
            r#"{"base64":"Y"}"#,
            r#"{"hex":"00"}"#,
            r#"{"base64":"YQ==","x":1}"#,
            r#"{"base64":1}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let text = serde_json::to_string(&Bytes(bytes.clone())).unwrap();
            prop_assert_eq!(serde_json::from_str::<Bytes>(&text).unwrap().0, bytes);
        }

        #[test]
        fn text_stays_readable(text in "\\PC{0,20}") {
            prop_assert_eq!(
                serde_json::to_value(Bytes::from(text.as_str())).unwrap(),
                serde_json::Value::String(text)
            );
        }
    }
}
