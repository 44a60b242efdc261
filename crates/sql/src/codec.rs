//! The bytes of a commit: page deltas for followers, row changes for history and merging.
//!
//! ```text
//! body      "ASB1" | length of the page section + 1, or 0 for none | page section
//!           | length of the change section | change section
//! pages     page count | number of pages | per page: number (delta to the one before) | image
//! image     0 | 4096 bytes                       whole page
//!           1 | check: u64 LE | number of runs | per run: gap, length, bytes
//! changes   shapes | steps | tables read
//! ```
//! Numbers are LEB128 unless a width is named. Runs are the bytes that differ from the base's
//! page (from zeros where the base has none); `check` is a checksum of the resulting page, so
//! that a delta applied to another base is an error, never another page. The two sections are
//! separate so that a follower installs pages without decoding rows.

mod changes;
mod pages;

use crate::change::{CommitSet, Step};
use crate::page::{PageError, PageStore};
use crate::wire::{Malformed, Reader, put_bytes, put_varint};
use std::collections::BTreeSet;

pub use pages::{InstallError, PageDelta, install};

const MAGIC: &[u8; 4] = b"ASB1";

/// A commit as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// Page deltas against the branch's pages at the commit's base version; absent for a commit
    /// on a live fork, whose tables are derived.
    pub pages: Option<PageDelta>,
    /// What changed, in order.
    pub steps: Vec<Step>,
    /// Tables and views read by the transaction, lower case.
    pub tables_read: BTreeSet<String>,
}

impl Body {
    /// The bytes of a commit on a branch with pages of its own. Reads the base's version of the
    /// changed pages, which the transaction has just read or written.
    pub fn encode_with_pages(
        store: &dyn PageStore,
        commit: &CommitSet,
    ) -> Result<Vec<u8>, PageError> {
        let delta = PageDelta::between(store, &commit.base, commit.page_count, &commit.pages)?;
        Ok(encode(Some(&delta), &commit.steps, &commit.tables_read))
    }

    /// The bytes of a commit on a live fork: changes only.
    pub fn encode_changes(commit: &CommitSet) -> Vec<u8> {
        encode(None, &commit.steps, &commit.tables_read)
    }

    /// The bytes of this body.
    pub fn encode(&self) -> Vec<u8> {
        encode(self.pages.as_ref(), &self.steps, &self.tables_read)
    }

    /// Decodes a body that fills `bytes` exactly.
    pub fn decode(bytes: &[u8]) -> Result<Body, Malformed> {
        let (pages, changes) = sections(bytes)?;
        let pages = pages.map(PageDelta::decode).transpose()?;
        let (steps, tables_read) = changes::decode(changes)?;
        Ok(Body { pages, steps, tables_read })
    }

    /// Decodes the page section only: all that a follower needs.
    pub fn decode_pages(bytes: &[u8]) -> Result<Option<PageDelta>, Malformed> {
        sections(bytes)?.0.map(PageDelta::decode).transpose()
    }
}

fn encode(pages: Option<&PageDelta>, steps: &[Step], tables_read: &BTreeSet<String>) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    match pages {
        None => put_varint(&mut out, 0),
        Some(pages) => {
            let section = pages.encode();
            put_varint(&mut out, section.len() as u64 + 1);
            out.extend_from_slice(&section);
        }
    }
    put_bytes(&mut out, &changes::encode(steps, tables_read));
    out
}

fn sections(bytes: &[u8]) -> Result<(Option<&[u8]>, &[u8]), Malformed> {
    let mut reader = Reader::new(bytes);
    if reader.array::<4>("magic of a commit body")? != *MAGIC {
        return Err(Malformed { offset: 0, what: "magic of a commit body" });
    }
    let pages = match reader.varint("length of the page section")? {
        0 => None,
        length => {
            let Ok(length) = usize::try_from(length - 1) else {
                return reader.fail("length of the page section");
            };
            Some(reader.take(length, "page section")?)
        }
    };
    let changes = reader.bytes("change section")?;
    reader.finish("trailing bytes after a commit body")?;
    Ok((pages, changes))
}
