//! Checks that every structure's tests share.

/// Compares with the bytes written down in the test (CRC and hash excluded by the caller's choice
/// of prefix: `expected` may be shorter than `bytes`).
pub(crate) fn golden(bytes: &[u8], expected: &str) {
    let hex = bytes.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    assert!(hex.starts_with(expected), "\n   bytes {hex}\nexpected {expected}");
}

/// Flips every bit of every byte and cuts at every length: the decoder must refuse all of them.
pub(crate) fn every_flip_and_cut<T>(bytes: &[u8], decode: impl Fn(&[u8]) -> Option<T>) {
    assert!(decode(bytes).is_some(), "the sample itself must decode");
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.to_vec();
            flipped[at] ^= 1 << bit;
            assert!(decode(&flipped).is_none(), "flip of bit {bit} at byte {at} was not noticed");
        }
        assert!(decode(&bytes[..at]).is_none(), "cut to {at} bytes was not noticed");
    }
}
