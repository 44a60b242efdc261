//! A small file written whole: identity, vote, manifest, pack index, bytes kept aside.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic, tells the kind |
//! | 4 | 1 | version |
//! | 5 | 3 | zero |
//! | 8 | 8 | length of the content |
//! | 16 | 32 | BLAKE3 of bytes 0..16 and the content |
//! | 48 | length | content |
//!
//! The file ends with the content. BLAKE3 because a manifest may be long and everything hangs on
//! it.

use super::fields::Fields;
use super::{Fault, VERSION_WRITTEN, accepts, is_zero};

pub(crate) const HEADER: usize = 48;

pub(crate) type Magic = [u8; 4];

pub(crate) const IDENTITY: Magic = *b"ANBI";
pub(crate) const VOTE: Magic = *b"ANBV";
pub(crate) const MANIFEST: Magic = *b"ANBM";
pub(crate) const PACK_INDEX: Magic = *b"ANBX";
pub(crate) const ASIDE: Magic = *b"ANBA";

pub(crate) fn encode(magic: Magic, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + content.len());
    bytes.extend_from_slice(&magic);
    bytes.extend_from_slice(&[VERSION_WRITTEN, 0, 0, 0]);
    bytes.extend_from_slice(&(content.len() as u64).to_le_bytes());
    let hash = hash(&bytes, content);
    bytes.extend_from_slice(&hash);
    bytes.extend_from_slice(content);
    bytes
}

fn hash(head: &[u8], content: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new().update(head).update(content).finalize().as_bytes()
}

/// The content, verified.
pub(crate) fn decode(magic: Magic, bytes: &[u8]) -> Result<&[u8], Fault> {
    if is_zero(bytes) {
        return Err(Fault::Absent);
    }
    let short = Fault::Bad("cut short");
    let (head, _) = bytes.split_at_checked(16).ok_or(short)?;
    let mut fields = Fields(bytes);
    if fields.array() != Some(magic) {
        return Err(Fault::Bad("magic does not match"));
    }
    let version = fields.u8().ok_or(short)?;
    fields.zeros::<3>().ok_or(Fault::Bad("reserved bytes are not zero"))?;
    let length = fields.u64().ok_or(short)?;
    let expected: [u8; 32] = fields.array().ok_or(short)?;
    let content = fields.0;
    if u64::try_from(content.len()) != Ok(length) {
        return Err(Fault::Bad("length does not match the file"));
    }
    if hash(head, content) != expected {
        return Err(Fault::Bad("checksum does not match"));
    }
    // Only now can the version be believed.
    if accepts(version) { Ok(content) } else { Err(Fault::Version(version)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::check;

    #[test]
    fn golden() {
        check::golden(&encode(VOTE, b"content"), "414e4256010000000700000000000000");
        let whole = encode(VOTE, b"content");
        assert_eq!(whole.len(), 55);
        assert_eq!(&whole[48..], b"content");
    }

    #[test]
    fn round_trip_and_damage() {
        for content in [&b""[..], b"x", &[0; 300]] {
            let bytes = encode(MANIFEST, content);
            assert_eq!(decode(MANIFEST, &bytes), Ok(content));
            check::every_flip_and_cut(&bytes, |bytes| {
                decode(MANIFEST, bytes).ok().map(<[u8]>::len)
            });
            let mut longer = bytes.clone();
            longer.push(0);
            assert!(decode(MANIFEST, &longer).is_err(), "trailing bytes are refused");
        }
    }

    #[test]
    fn an_unknown_version_is_named_only_when_intact() {
        let mut bytes = encode(IDENTITY, b"abc");
        bytes[4] = 99;
        assert_eq!(decode(IDENTITY, &bytes), Err(Fault::Bad("checksum does not match")));
        let hash = super::hash(&bytes[..16], b"abc");
        bytes[16..48].copy_from_slice(&hash);
        assert_eq!(decode(IDENTITY, &bytes), Err(Fault::Version(99)));
    }
}
