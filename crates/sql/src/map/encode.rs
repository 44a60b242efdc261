//! The checkpoint encoding of a page map: one blob per tree node, named by its hash.
//!
//! ```text
//! root record   "AMP1" | page count: u32 LE | 32-byte hash of the top node, absent if no page
//! node          "N" | level: u8 (0 = leaf) | which slots are used: u16 LE | 32 bytes per used slot
//! ```
//! A slot of a leaf holds the hash of a page, a slot of an inner node the hash of a node. The
//! bytes depend on the content alone: replicas that hold the same pages write the same blobs.
//! Blobs are verified against their names by whoever stores them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::{FAN_OUT, Node, PageMap, Slots, levels_for, span};
use crate::page::PageRef;
use crate::wire::{Malformed, Reader};

const ROOT_MAGIC: &[u8; 4] = b"AMP1";
const NODE_MAGIC: u8 = b'N';
const HASH_BYTES: usize = 32;

/// Why a page map could not be read from its checkpoint encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeMapError<E> {
    /// A blob could not be read.
    Blob(E),
    /// A blob is not what the format says.
    Malformed {
        /// Hash that names the blob.
        blob: [u8; 32],
        /// Where and what.
        error: Malformed,
    },
    /// The map names a page that the store does not have.
    MissingPage {
        /// Page number.
        number: u32,
        /// Hash of the page.
        hash: [u8; 32],
    },
}

impl<E: fmt::Display> fmt::Display for DecodeMapError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeMapError::Blob(error) => write!(f, "page map: {error}"),
            DecodeMapError::Malformed { error, .. } => write!(f, "page map: {error}"),
            DecodeMapError::MissingPage { number, .. } => {
                write!(f, "page map names a page that is not stored; number=`{number}`")
            }
        }
    }
}

impl<E: fmt::Display + fmt::Debug> std::error::Error for DecodeMapError<E> {}

/// Nodes decoded before, by hash, so that maps that share structure on disk share it in memory.
#[derive(Default)]
pub struct DecodeCache {
    /// The second part of the key is 0 for a full node; a node that lies across the end of a map
    /// was checked against that end only.
    nodes: BTreeMap<([u8; 32], u64), Arc<Node>>,
}

/// Stores a blob and returns its hash.
type PutNode<'a, E> = dyn FnMut(&[u8]) -> Result<[u8; 32], E> + 'a;
/// Returns a blob by its hash, verified.
type GetNode<'a, E> = dyn FnMut(&[u8; 32]) -> Result<Vec<u8>, E> + 'a;

impl PageMap {
    /// Encodes the map and returns the hash of its root record. `hash_of` gives the content hash
    /// of a page; `put_node` stores a blob and returns its hash; `known` says whether a blob with
    /// this hash is still stored. Nodes encoded before and still known are not encoded again, so
    /// the cost follows what changed since the last call on a map that shares the structure.
    pub fn encode<E>(
        &self,
        hash_of: &dyn Fn(PageRef) -> Result<[u8; 32], E>,
        put_node: &mut PutNode<'_, E>,
        known: &dyn Fn(&[u8; 32]) -> bool,
    ) -> Result<[u8; 32], E> {
        let mut record = Vec::with_capacity(8 + HASH_BYTES);
        record.extend_from_slice(ROOT_MAGIC);
        record.extend_from_slice(&self.page_count.to_le_bytes());
        if let Some(root) = &self.root {
            let hash = encode_node(root, self.levels - 1, hash_of, put_node, known)?;
            record.extend_from_slice(&hash);
        }
        put_node(&record)
    }

    /// Reads a map back. `get_node` returns a blob by hash, verified; `find_page` the stored page
    /// with a hash. Total: any blob gives a map that keeps the invariants, or an error.
    pub fn decode<E>(
        root: &[u8; 32],
        get_node: &mut GetNode<'_, E>,
        find_page: &mut dyn FnMut(&[u8; 32]) -> Option<PageRef>,
        cache: &mut DecodeCache,
    ) -> Result<PageMap, DecodeMapError<E>> {
        let record = get_node(root).map_err(DecodeMapError::Blob)?;
        let (page_count, top) = decode_root(&record)
            .map_err(|error| DecodeMapError::Malformed { blob: *root, error })?;
        let levels = levels_for(page_count);
        let mut map = PageMap { root: None, levels, page_count };
        if let Some(top) = top {
            if levels == 0 {
                let error = Malformed { offset: 8, what: "pages of an empty map" };
                return Err(DecodeMapError::Malformed { blob: *root, error });
            }
            let mut source = Source { get_node, find_page, cache, end: u64::from(page_count) };
            map.root = Some(source.node(&top, levels - 1, 0)?);
        }
        debug_assert!(map.validate().is_ok(), "{:?}", map.validate());
        Ok(map)
    }
}

fn encode_node<E>(
    node: &Arc<Node>,
    level: u32,
    hash_of: &dyn Fn(PageRef) -> Result<[u8; 32], E>,
    put_node: &mut PutNode<'_, E>,
    known: &dyn Fn(&[u8; 32]) -> bool,
) -> Result<[u8; 32], E> {
    if let Some(hash) = node.hash.get()
        && known(hash)
    {
        return Ok(**hash);
    }
    let mut used = 0u16;
    let mut hashes = Vec::with_capacity(FAN_OUT * HASH_BYTES);
    for position in 0..FAN_OUT {
        let hash = match &node.slots {
            Slots::Inner(children) => match &children[position] {
                Some(child) => encode_node(child, level - 1, hash_of, put_node, known)?,
                None => continue,
            },
            Slots::Leaf(pages) => match pages[position] {
                Some(page) => hash_of(page)?,
                None => continue,
            },
        };
        used |= 1 << position;
        hashes.extend_from_slice(&hash);
    }
    let mut blob = Vec::with_capacity(4 + hashes.len());
    blob.push(NODE_MAGIC);
    blob.push(level.to_le_bytes()[0]);
    blob.extend_from_slice(&used.to_le_bytes());
    blob.extend_from_slice(&hashes);
    let hash = put_node(&blob)?;
    // Another thread may have set it meanwhile: to the same hash, which depends on content only.
    let _ = node.hash.set(Box::new(hash));
    Ok(hash)
}

fn decode_root(record: &[u8]) -> Result<(u32, Option<[u8; 32]>), Malformed> {
    let mut reader = Reader::new(record);
    if reader.array::<4>("magic of a page map")? != *ROOT_MAGIC {
        return Err(Malformed { offset: 0, what: "magic of a page map" });
    }
    let page_count = u32::from_le_bytes(reader.array("page count")?);
    let top = match reader.remaining() {
        0 => None,
        _ => Some(reader.array("hash of the top node")?),
    };
    reader.finish("trailing bytes after a page map")?;
    Ok((page_count, top))
}

fn decode_node(blob: &[u8], level: u32) -> Result<Vec<(usize, [u8; 32])>, Malformed> {
    let mut reader = Reader::new(blob);
    if reader.byte("magic of a node")? != NODE_MAGIC {
        return Err(Malformed { offset: 0, what: "magic of a node" });
    }
    if u32::from(reader.byte("level of a node")?) != level {
        return Err(Malformed { offset: 1, what: "level of a node" });
    }
    let used = u16::from_le_bytes(reader.array("slots of a node")?);
    if used == 0 {
        return Err(Malformed { offset: 2, what: "node without slots" });
    }
    let mut slots = Vec::with_capacity(FAN_OUT);
    for position in (0..FAN_OUT).filter(|position| used & (1 << position) != 0) {
        slots.push((position, reader.array("hash in a node")?));
    }
    reader.finish("trailing bytes after a node")?;
    Ok(slots)
}

struct Source<'a, E> {
    get_node: &'a mut GetNode<'a, E>,
    find_page: &'a mut dyn FnMut(&[u8; 32]) -> Option<PageRef>,
    cache: &'a mut DecodeCache,
    end: u64,
}

impl<E> Source<'_, E> {
    fn node(
        &mut self,
        hash: &[u8; 32],
        level: u32,
        base: u64,
    ) -> Result<Arc<Node>, DecodeMapError<E>> {
        let inside = base + span(level + 1) <= self.end;
        let key = (*hash, if inside { 0 } else { self.end });
        if let Some(node) = self.cache.nodes.get(&key)
            && node.level() == level
        {
            return Ok(Arc::clone(node));
        }
        let blob = (self.get_node)(hash).map_err(DecodeMapError::Blob)?;
        let malformed = |error| DecodeMapError::Malformed { blob: *hash, error };
        let used = decode_node(&blob, level).map_err(malformed)?;
        let mut node = Node::empty(level);
        for (position, name) in used {
            let start = base + position as u64 * span(level);
            if start >= self.end {
                return Err(malformed(Malformed { offset: 2, what: "slot beyond the page count" }));
            }
            match &mut node.slots {
                Slots::Inner(children) => {
                    children[position] = Some(self.node(&name, level - 1, start)?);
                }
                Slots::Leaf(pages) => {
                    let number = u32::try_from(start).unwrap_or(u32::MAX);
                    let missing = DecodeMapError::MissingPage { number, hash: name };
                    pages[position] = Some((self.find_page)(&name).ok_or(missing)?);
                }
            }
        }
        node.hash = OnceLock::from(Box::new(*hash));
        let node = Arc::new(node);
        self.cache.nodes.insert(key, Arc::clone(&node));
        Ok(node)
    }
}

impl Node {
    fn level(&self) -> u32 {
        match &self.slots {
            Slots::Leaf(_) => 0,
            Slots::Inner(children) => {
                children.iter().flatten().next().map_or(0, |child| child.level()) + 1
            }
        }
    }
}
