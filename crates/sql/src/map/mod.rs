//! `PageMap`: page number to stored page, persistent.
//!
//! A radix tree with fan-out 16 over page numbers; a leaf slot is one [`PageRef`] (eight bytes),
//! so that a commit that dirties two pages of a 1 GiB database copies about 1.5 KiB of tree.
//! Cloning is O(1): a fork is a clone. The tree is canonical: as low as the page count allows,
//! no empty node; so two maps with the same content encode to the same bytes.
//!
//! Invariants: a page number in the tree is below `page_count`; `levels` is the least number
//! with `16^levels >= page_count`; every node holds at least one page. A number below
//! `page_count` without a page reads as zeros (SQLite never writes its lock-byte page, nor pages
//! that were allocated and freed within one transaction).

mod encode;

use std::sync::{Arc, OnceLock};

use crate::page::PageRef;

pub use encode::{DecodeCache, DecodeMapError};

const FAN_OUT: usize = 16;
const BITS: u32 = 4;

/// A persistent map from page number (from 0) to stored page.
#[derive(Clone, Debug, Default)]
pub struct PageMap {
    root: Option<Arc<Node>>,
    levels: u32,
    page_count: u32,
}

/// A node and, once it was encoded, the hash of its encoding (boxed: most nodes never need it).
#[derive(Debug)]
struct Node {
    hash: OnceLock<Box<[u8; 32]>>,
    slots: Slots,
}

#[derive(Clone, Debug)]
enum Slots {
    Inner([Option<Arc<Node>>; FAN_OUT]),
    Leaf([Option<PageRef>; FAN_OUT]),
}

impl Clone for Node {
    /// A clone is made to be changed, so it does not keep the hash.
    fn clone(&self) -> Node {
        Node::new(self.slots.clone())
    }
}

impl Node {
    fn new(slots: Slots) -> Node {
        Node { hash: OnceLock::new(), slots }
    }

    fn empty(level: u32) -> Node {
        Node::new(if level == 0 {
            Slots::Leaf([None; FAN_OUT])
        } else {
            Slots::Inner([const { None }; FAN_OUT])
        })
    }

    fn is_empty(&self) -> bool {
        match &self.slots {
            Slots::Inner(children) => children.iter().all(Option::is_none),
            Slots::Leaf(pages) => pages.iter().all(Option::is_none),
        }
    }
}

/// Position of a page below a node of this level (leaves are level 0).
fn slot(number: u32, level: u32) -> usize {
    (number >> (BITS * level)) as usize & (FAN_OUT - 1)
}

/// Pages below one slot of a node of this level.
fn span(level: u32) -> u64 {
    1 << (BITS * level)
}

/// The least number of levels that covers `page_count` pages.
fn levels_for(page_count: u32) -> u32 {
    let mut levels = u32::from(page_count > 0);
    while span(levels) < u64::from(page_count) {
        levels += 1;
    }
    levels
}

impl PageMap {
    /// The map of an empty database.
    pub fn new() -> PageMap {
        PageMap::default()
    }

    /// Size of the database in pages.
    pub fn page_count(&self) -> u32 {
        self.page_count
    }

    /// Whether the database is empty (no pages at all).
    pub fn is_empty(&self) -> bool {
        self.page_count == 0
    }

    /// The page with this number (from 0), or `None` where there is none.
    pub fn get(&self, number: u32) -> Option<PageRef> {
        if number >= self.page_count {
            return None;
        }
        let mut node = self.root.as_deref()?;
        let mut level = self.levels - 1;
        loop {
            match &node.slots {
                Slots::Inner(children) => node = children[slot(number, level)].as_deref()?,
                Slots::Leaf(pages) => return pages[slot(number, 0)],
            }
            level -= 1;
        }
    }

    /// Sets a page, growing the database to hold it. Copies the path of nodes that are shared.
    pub fn set(&mut self, number: u32, page: PageRef) {
        assert!(number < u32::MAX, "page number out of range");
        if number >= self.page_count {
            self.resize(number + 1);
        }
        let mut level = self.levels - 1;
        let mut place = &mut self.root;
        loop {
            let node = place.get_or_insert_with(|| Arc::new(Node::empty(level)));
            let node = Arc::make_mut(node);
            node.hash = OnceLock::new();
            match &mut node.slots {
                Slots::Inner(children) => place = &mut children[slot(number, level)],
                Slots::Leaf(pages) => {
                    pages[slot(number, 0)] = Some(page);
                    return;
                }
            }
            level -= 1;
        }
    }

    /// Cuts the database to `page_count` pages; does nothing if it is not longer.
    pub fn truncate(&mut self, page_count: u32) {
        if page_count < self.page_count {
            self.resize(page_count);
        }
    }

    /// Sets the size of the database; pages beyond are dropped, new ones are holes.
    pub fn resize(&mut self, page_count: u32) {
        let levels = levels_for(page_count);
        if page_count < self.page_count {
            if self.levels > 0 {
                cut(&mut self.root, self.levels - 1, 0, u64::from(page_count));
            }
            for _ in levels..self.levels {
                self.root = match self.root.take().as_deref() {
                    Some(Node { slots: Slots::Inner(children), .. }) => children[0].clone(),
                    _ => None,
                };
            }
        } else {
            for level in self.levels..levels {
                self.root = self.root.take().map(|child| {
                    let mut node = Node::empty(level);
                    if let Slots::Inner(children) = &mut node.slots {
                        children[0] = Some(child);
                    }
                    Arc::new(node)
                });
            }
        }
        self.levels = levels;
        self.page_count = page_count;
        debug_assert!(self.validate().is_ok(), "{:?}", self.validate());
    }

    /// All pages in ascending order.
    pub fn pages(&self) -> impl Iterator<Item = (u32, PageRef)> + '_ {
        Pages {
            stack: self.root.as_deref().map(|root| (root, 0, 0)).into_iter().collect(),
            map: self,
        }
    }

    /// Numbers of the pages in which two maps differ, ascending. Shared parts of the trees are
    /// not visited: the cost follows the difference.
    pub fn diff(&self, other: &PageMap) -> Vec<u32> {
        let (mut left, mut right) = (self.clone(), other.clone());
        let page_count = left.page_count.max(right.page_count);
        left.resize(page_count);
        right.resize(page_count);
        let mut numbers = Vec::new();
        if left.levels > 0 {
            let level = left.levels - 1;
            differ(left.root.as_ref(), right.root.as_ref(), level, 0, &mut numbers);
        }
        numbers
    }

    /// Visits every node (`enter`: an identity for this process and the hash, once known) and
    /// every page below the nodes entered. Where `enter` answers false the subtree is skipped,
    /// so that structure shared by many maps can be visited once.
    pub fn visit(
        &self,
        enter: &mut dyn FnMut(usize, Option<&[u8; 32]>) -> bool,
        page: &mut dyn FnMut(PageRef),
    ) {
        fn walk(
            node: &Arc<Node>,
            enter: &mut dyn FnMut(usize, Option<&[u8; 32]>) -> bool,
            page: &mut dyn FnMut(PageRef),
        ) {
            if !enter(Arc::as_ptr(node) as usize, node.hash.get().map(|hash| &**hash)) {
                return;
            }
            match &node.slots {
                Slots::Inner(children) => {
                    children.iter().flatten().for_each(|child| walk(child, enter, page));
                }
                Slots::Leaf(pages) => pages.iter().flatten().for_each(|found| page(*found)),
            }
        }
        if let Some(root) = &self.root {
            walk(root, enter, page);
        }
    }

    /// Whether two maps are the same tree in memory (equal without looking).
    pub fn same(&self, other: &PageMap) -> bool {
        self.page_count == other.page_count
            && match (&self.root, &other.root) {
                (None, None) => true,
                (Some(left), Some(right)) => Arc::ptr_eq(left, right),
                _ => false,
            }
    }

    /// Checks the invariants of the module's head.
    pub(crate) fn validate(&self) -> Result<(), &'static str> {
        fn check(node: &Node, level: u32, base: u64, end: u64) -> Result<(), &'static str> {
            if node.is_empty() {
                return Err("empty node");
            }
            match &node.slots {
                Slots::Leaf(_) if level > 0 => Err("leaf above level 0"),
                Slots::Leaf(pages) => {
                    let last = pages.iter().rposition(Option::is_some).unwrap_or(0);
                    if base + last as u64 >= end { Err("page beyond the count") } else { Ok(()) }
                }
                Slots::Inner(_) if level == 0 => Err("inner node at level 0"),
                Slots::Inner(children) => {
                    let mut base = base;
                    for child in children {
                        if let Some(child) = child {
                            check(child, level - 1, base, end)?;
                        }
                        base += span(level);
                    }
                    Ok(())
                }
            }
        }
        if self.levels != levels_for(self.page_count) {
            return Err("not the least number of levels");
        }
        match &self.root {
            Some(_) if self.levels == 0 => Err("root of an empty map"),
            Some(root) => check(root, self.levels - 1, 0, u64::from(self.page_count)),
            None => Ok(()),
        }
    }
}

impl PartialEq for PageMap {
    fn eq(&self, other: &PageMap) -> bool {
        self.page_count == other.page_count && (self.same(other) || self.diff(other).is_empty())
    }
}

impl Eq for PageMap {}

/// Drops the pages from `end` on, and nodes that become empty.
fn cut(place: &mut Option<Arc<Node>>, level: u32, base: u64, end: u64) {
    if base + span(level + 1) <= end {
        return;
    }
    if base >= end {
        *place = None;
        return;
    }
    let Some(node) = place else { return };
    let node = Arc::make_mut(node);
    node.hash = OnceLock::new();
    for position in 0..FAN_OUT {
        let start = base + position as u64 * span(level);
        match &mut node.slots {
            Slots::Inner(children) => cut(&mut children[position], level - 1, start, end),
            Slots::Leaf(pages) if start >= end => pages[position] = None,
            Slots::Leaf(_) => {}
        }
    }
    if node.is_empty() {
        *place = None;
    }
}

/// Collects where two subtrees at the same place differ.
fn differ(
    left: Option<&Arc<Node>>,
    right: Option<&Arc<Node>>,
    level: u32,
    base: u32,
    numbers: &mut Vec<u32>,
) {
    if let (Some(left), Some(right)) = (left, right)
        && Arc::ptr_eq(left, right)
    {
        return;
    }
    if left.is_none() && right.is_none() {
        return;
    }
    for position in 0..FAN_OUT {
        let start = base + (at_level(position) << (BITS * level));
        if level == 0 {
            let page = |node: Option<&Arc<Node>>| match node.map(|node| &node.slots) {
                Some(Slots::Leaf(pages)) => pages[position],
                _ => None,
            };
            if page(left) != page(right) {
                numbers.push(start);
            }
        } else {
            let left = left.and_then(|node| child(node, position));
            let right = right.and_then(|node| child(node, position));
            differ(left, right, level - 1, start, numbers);
        }
    }
}

fn child(node: &Arc<Node>, position: usize) -> Option<&Arc<Node>> {
    match &node.slots {
        Slots::Inner(children) => children[position].as_ref(),
        Slots::Leaf(_) => None,
    }
}

/// Depth-first walk; the stack holds (node, next slot, first page below the node).
struct Pages<'a> {
    stack: Vec<(&'a Node, usize, u32)>,
    map: &'a PageMap,
}

impl Iterator for Pages<'_> {
    type Item = (u32, PageRef);

    fn next(&mut self) -> Option<(u32, PageRef)> {
        loop {
            let level = self.map.levels - u32::try_from(self.stack.len()).unwrap_or(u32::MAX);
            let (node, position, base) = self.stack.last_mut()?;
            if *position == FAN_OUT {
                self.stack.pop();
                continue;
            }
            let start = *base + (at_level(*position) << (BITS * level));
            *position += 1;
            match &node.slots {
                Slots::Inner(children) => {
                    if let Some(child) = &children[*position - 1] {
                        self.stack.push((child, 0, start));
                    }
                }
                Slots::Leaf(pages) => {
                    if let Some(page) = pages[*position - 1] {
                        return Some((start, page));
                    }
                }
            }
        }
    }
}

/// A slot's position as a number of pages (before the shift to its level).
fn at_level(position: usize) -> u32 {
    u32::try_from(position).expect("positions are below the fan-out")
}
