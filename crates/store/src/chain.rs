//! The hash chain over applied operations.
//!
//! Each link binds everything before it: `next = BLAKE3(tag ‖ previous ‖ digest ‖ first index)`.
//! Two replicas with equal links at an index applied the same operations, up to and including it,
//! in the same order; a frame altered, dropped or moved (even with its checksums made right again)
//! breaks every later link. The chain says nothing about whoever can rewrite all of it: for that a
//! link has to be kept elsewhere.

use crate::{Digest, Index};

/// A link: the state of the chain after an operation.
pub type Link = [u8; 32];

/// The link before the first operation.
pub const START: Link = [0; 32];

const TAG: &[u8; 16] = b"anabranch.chain1";

/// The link after the operation with this digest and first index.
#[must_use]
pub fn next(chain: Link, digest: Digest, first: Index) -> Link {
    let mut bytes = [0; 16 + 32 + 32 + 8];
    bytes[..16].copy_from_slice(TAG);
    bytes[16..48].copy_from_slice(&chain);
    bytes[48..80].copy_from_slice(&digest.0);
    bytes[80..].copy_from_slice(&first.0.to_le_bytes());
    *blake3::hash(&bytes).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_input_matters() {
        let base = next(START, Digest([1; 32]), Index(1));
        assert_ne!(base, next([1; 32], Digest([1; 32]), Index(1)));
        assert_ne!(base, next(START, Digest([2; 32]), Index(1)));
        assert_ne!(base, next(START, Digest([1; 32]), Index(2)));
        assert_eq!(base, next(START, Digest([1; 32]), Index(1)));
    }
}
