//! Recently used chunk contents, within a budget of bytes.
//!
//! Eight shards, each a least-recently-used list behind its own mutex; a lock is held for a few
//! pointer changes. A shard evicts before it exceeds its share of the budget, so the sum never
//! exceeds the budget; a content larger than a share is not kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::ChunkHandle;

const SHARDS: usize = 8;
const NONE: usize = usize::MAX;
/// Counted per entry on top of its content: map, list and allocation.
const OVERHEAD: usize = 96;

pub(super) struct Cache {
    shards: [Mutex<Shard>; SHARDS],
}

struct Shard {
    budget: usize,
    used: usize,
    places: HashMap<ChunkHandle, usize>,
    /// A doubly linked list in a vector; `newest` and `oldest` are its ends.
    nodes: Vec<Node>,
    free: Vec<usize>,
    newest: usize,
    oldest: usize,
}

struct Node {
    handle: ChunkHandle,
    content: Option<Arc<[u8]>>,
    newer: usize,
    older: usize,
}

impl Cache {
    pub(super) fn new(budget: usize) -> Self {
        let shard = || {
            Mutex::new(Shard {
                budget: budget / SHARDS,
                used: 0,
                places: HashMap::new(),
                nodes: Vec::new(),
                free: Vec::new(),
                newest: NONE,
                oldest: NONE,
            })
        };
        Self { shards: std::array::from_fn(|_| shard()) }
    }

    fn shard(&self, handle: ChunkHandle) -> MutexGuard<'_, Shard> {
        let shard = usize::try_from(handle.0.get() % SHARDS as u64).unwrap_or(0);
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, handle: ChunkHandle) -> Option<Arc<[u8]>> {
        let mut shard = self.shard(handle);
        let place = *shard.places.get(&handle)?;
        shard.unlink(place);
        shard.link_newest(place);
        shard.nodes[place].content.clone()
    }

    pub(super) fn insert(&self, handle: ChunkHandle, content: Arc<[u8]>) {
        self.shard(handle).insert(handle, content);
    }

    pub(super) fn remove(&self, handle: ChunkHandle) {
        self.shard(handle).remove(handle);
    }

    #[cfg(test)]
    fn used(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap().used).sum()
    }
}

impl Shard {
    fn insert(&mut self, handle: ChunkHandle, content: Arc<[u8]>) {
        let cost = content.len() + OVERHEAD;
        if cost > self.budget || self.places.contains_key(&handle) {
            return;
        }
        while self.used + cost > self.budget {
            let oldest = self.nodes[self.oldest].handle;
            self.remove(oldest);
        }
        let node = Node { handle, content: Some(content), newer: NONE, older: NONE };
        let place = if let Some(place) = self.free.pop() {
            self.nodes[place] = node;
            place
        } else {
            self.nodes.push(node);
            self.nodes.len() - 1
        };
        self.places.insert(handle, place);
        self.link_newest(place);
        self.used += cost;
    }

    fn remove(&mut self, handle: ChunkHandle) {
        let Some(place) = self.places.remove(&handle) else { return };
        self.unlink(place);
        let content = self.nodes[place].content.take();
        self.used -= content.map_or(0, |content| content.len()) + OVERHEAD;
        self.free.push(place);
    }

    fn link_newest(&mut self, place: usize) {
        self.nodes[place].newer = NONE;
        self.nodes[place].older = self.newest;
        if self.newest == NONE {
            self.oldest = place;
        } else {
            self.nodes[self.newest].newer = place;
        }
        self.newest = place;
    }

    fn unlink(&mut self, place: usize) {
        let Node { newer, older, .. } = self.nodes[place];
        if newer == NONE {
            self.newest = older;
        } else {
            self.nodes[newer].older = older;
        }
        if older == NONE {
            self.oldest = newer;
        } else {
            self.nodes[older].newer = newer;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    fn handle(number: u64) -> ChunkHandle {
        ChunkHandle(NonZeroU64::new(number).unwrap())
    }

    fn content(byte: u8) -> Arc<[u8]> {
        vec![byte; 1000 - OVERHEAD].into()
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let cache = Cache::new(3000 * SHARDS);
        // Multiples of the shard count share a shard.
        let keys: Vec<_> = (1..=4).map(|n| handle(n * SHARDS as u64)).collect();
        for (byte, key) in keys.iter().take(3).enumerate() {
            cache.insert(*key, content(u8::try_from(byte).unwrap()));
        }
        assert_eq!(cache.get(keys[0]).unwrap()[0], 0);
        cache.insert(keys[3], content(3));
        assert!(cache.get(keys[1]).is_none(), "the one not used");
        for kept in [0, 2, 3] {
            assert_eq!(usize::from(cache.get(keys[kept]).unwrap()[0]), kept);
        }
        assert_eq!(cache.used(), 3000);
        cache.remove(keys[0]);
        cache.remove(keys[0]);
        assert_eq!(cache.used(), 2000);
        cache.insert(keys[1], vec![0; 2905].into());
        assert!(cache.get(keys[1]).is_none(), "larger than a share");
    }

    #[test]
    fn the_budget_holds_under_random_use() {
        let cache = Cache::new(20_000);
        let mut draw = 1_u64;
        for _ in 0..20_000 {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = handle(1 + (draw >> 33) % 200);
            match (draw >> 20) % 4 {
                0 => cache.remove(key),
                1 => {
                    cache.insert(key, vec![7; usize::try_from((draw >> 40) % 900).unwrap()].into());
                }
                _ => drop(cache.get(key)),
            }
            assert!(cache.used() <= 20_000);
        }
    }
}
