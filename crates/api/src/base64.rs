//! Base64 with the standard alphabet and padding (RFC 4648 §4), strict in both directions: one
//! text for each byte string, and every other text is refused.

use std::fmt;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A text that is not base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotBase64;

impl fmt::Display for NotBase64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not base64 (standard alphabet, padded)")
    }
}

impl std::error::Error for NotBase64 {}

/// The text of these bytes.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0u32, |group, byte| group << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            if place <= chunk.len() {
                let six = group >> (18 - 6 * place) & 63;
                text.push(char::from(ALPHABET[six as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

/// The bytes of this text.
pub fn decode(text: &str) -> Result<Vec<u8>, NotBase64> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return Err(NotBase64);
    }
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    if padding > 2 {
        return Err(NotBase64);
    }
    let digits = &text[..text.len() - padding];
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in digits.chunks(4) {
        let mut group = 0u32;
        for byte in chunk {
            group = group << 6 | value(*byte).ok_or(NotBase64)?;
        }
        group <<= 6 * (4 - chunk.len());
        let [_, a, b, c] = group.to_be_bytes();
        // Bits beyond the last whole byte must be zero, or two texts would mean the same bytes.
        match chunk.len() {
            4 => bytes.extend([a, b, c]),
            3 if c == 0 => bytes.extend([a, b]),
            2 if b == 0 && c == 0 => bytes.push(a),
            _ => return Err(NotBase64),
        }
    }
    Ok(bytes)
}

fn value(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn vectors_of_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(encode(&[0xff, 0xfe, 0xfb]), "//77");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["Z", "Zg", "Zg=", "Zh==", "Zm9=", "====", "Zg==Zg==", "Zm 9", "_-77", "é="] {
            assert_eq!(decode(text), Err(NotBase64), "{text}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
        }

        #[test]
        fn one_text_for_each_byte_string(text in "[A-Za-z0-9+/]{0,8}={0,3}") {
            if let Ok(bytes) = decode(&text) {
                prop_assert_eq!(encode(&bytes), text);
            }
        }
    }
}
