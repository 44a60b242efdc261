//! A running hash of everything that happened, so that two runs can be compared by one number.

use std::fmt;

use super::random::mix;

/// Hash of a run so far: order and content matter. Not cryptographic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trace(u64);

impl Trace {
    /// Adds a number.
    pub fn number(&mut self, number: u64) {
        self.0 = mix(self.0.rotate_left(5) ^ number ^ 0x9e37_79b9_7f4a_7c15);
    }

    /// Adds bytes, with their length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        for word in bytes.chunks(8) {
            let mut padded = [0; 8];
            padded[..word.len()].copy_from_slice(word);
            self.number(u64::from_le_bytes(padded));
        }
    }

    /// The hash.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
