//! Which chunk is where, in memory: about 70 bytes a chunk.
//!
//! Entries live in a vector; a handle is (generation, place). Entries with the same first 8 bytes
//! of their hash are chained, so the map needs no whole hashes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::ChunkHandle;
use super::pack::Pack;
use crate::format::pack_index;

const NONE: u32 = u32::MAX;

/// Where a chunk is; `offset` is that of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) pack: u32,
    pub(super) offset: u32,
    pub(super) length: u32,
}

pub(super) struct Entry {
    pub(super) hash: [u8; 32],
    pub(super) location: Location,
    /// The sweep epoch in which it was last put or found.
    touched: AtomicU32,
    /// How often this place has been given to another chunk.
    generation: u32,
    /// Next place with the same prefix.
    next: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Good,
    /// Read and found damaged: not offered any more, and written again when put again.
    Damaged,
}

#[derive(Default)]
pub(super) struct Index {
    entries: Vec<Entry>,
    free: Vec<u32>,
    by_prefix: HashMap<u64, u32>,
    packs: BTreeMap<u32, Arc<Pack>>,
    retired: BTreeSet<u32>,
    /// Chunks of the active pack that are not written yet.
    unwritten: HashMap<ChunkHandle, Arc<[u8]>>,
    epoch: u32,
    bytes: u64,
}

/// Chunks found when opening are of epoch 0, those put before the first sweep of this one.
const FIRST_EPOCH: u32 = 2;

fn prefix(hash: &[u8; 32]) -> u64 {
    hash.first_chunk::<8>().map_or(0, |prefix| u64::from_le_bytes(*prefix))
}

fn place_of(handle: ChunkHandle) -> (u32, usize) {
    let bits = handle.0.get();
    let generation = u32::try_from(bits >> 32).unwrap_or(u32::MAX);
    (generation, usize::try_from((bits & u64::from(u32::MAX)) - 1).unwrap_or(usize::MAX))
}

impl Index {
    fn handle(&self, place: u32) -> ChunkHandle {
        let generation = u64::from(self.entries[place as usize].generation);
        let bits = (generation << 32) | (u64::from(place) + 1);
        ChunkHandle(NonZeroU64::new(bits).expect("the low half is not zero"))
    }

    pub(super) fn entry(&self, handle: ChunkHandle) -> Option<&Entry> {
        let (generation, place) = place_of_checked(handle)?;
        let entry = self.entries.get(place)?;
        (entry.generation == generation && entry.state != State::Free).then_some(entry)
    }

    fn place_by_hash(&self, hash: &[u8; 32]) -> Option<u32> {
        let mut place = *self.by_prefix.get(&prefix(hash))?;
        while place != NONE {
            let entry = &self.entries[place as usize];
            if entry.hash == *hash {
                return Some(place);
            }
            place = entry.next;
        }
        None
    }

    /// A good chunk with this content; counts as touched.
    pub(super) fn find(&self, hash: &[u8; 32]) -> Option<ChunkHandle> {
        let place = self.place_by_hash(hash)?;
        let entry = &self.entries[place as usize];
        if entry.state != State::Good {
            return None;
        }
        entry.touched.store(self.epoch, Ordering::Relaxed);
        Some(self.handle(place))
    }

    /// Adds a chunk just appended; a damaged one of the same content becomes good again.
    pub(super) fn insert(
        &mut self,
        hash: [u8; 32],
        location: Location,
        content: Arc<[u8]>,
    ) -> ChunkHandle {
        let handle = self.insert_written(hash, location);
        self.unwritten.insert(handle, content);
        handle
    }

    /// Adds a chunk found on disk. The newest location of a content counts.
    pub(super) fn insert_written(&mut self, hash: [u8; 32], location: Location) -> ChunkHandle {
        if let Some(place) = self.place_by_hash(&hash) {
            let entry = &mut self.entries[place as usize];
            entry.location = location;
            entry.state = State::Good;
            entry.touched = AtomicU32::new(self.epoch);
            return self.handle(place);
        }
        let next = self.by_prefix.get(&prefix(&hash)).copied().unwrap_or(NONE);
        let touched = AtomicU32::new(self.epoch);
        let mut entry = Entry { hash, location, touched, generation: 0, next, state: State::Good };
        let place = if let Some(place) = self.free.pop() {
            entry.generation = self.entries[place as usize].generation;
            self.entries[place as usize] = entry;
            place
        } else {
            self.entries.push(entry);
            u32::try_from(self.entries.len() - 1).expect("fewer than 4 billion chunks")
        };
        assert!(place != NONE);
        self.by_prefix.insert(prefix(&hash), place);
        self.bytes += u64::from(location.length);
        self.handle(place)
    }

    /// Forgets a chunk; its handle is `Unknown` from now on.
    fn remove(&mut self, place: u32) {
        let entry = &self.entries[place as usize];
        let (key, next, length) = (prefix(&entry.hash), entry.next, entry.location.length);
        let head = self.by_prefix.get(&key).copied().unwrap_or(NONE);
        if head == place {
            if next == NONE {
                self.by_prefix.remove(&key);
            } else {
                self.by_prefix.insert(key, next);
            }
        } else {
            let mut before = head;
            while self.entries[before as usize].next != place {
                before = self.entries[before as usize].next;
            }
            self.entries[before as usize].next = next;
        }
        let entry = &mut self.entries[place as usize];
        entry.state = State::Free;
        self.bytes -= u64::from(length);
        // A place whose generations are used up is never given out again.
        if let Some(generation) = entry.generation.checked_add(1) {
            entry.generation = generation;
            self.free.push(place);
        }
    }

    pub(super) fn distrust(&mut self, handle: ChunkHandle, location: Location) {
        let Some((generation, place)) = place_of_checked(handle) else { return };
        if let Some(entry) = self.entries.get_mut(place)
            && entry.generation == generation
            && entry.state == State::Good
            && entry.location == location
        {
            entry.state = State::Damaged;
        }
    }

    pub(super) fn unwritten(&self, handle: ChunkHandle) -> Option<Arc<[u8]>> {
        self.unwritten.get(&handle).cloned()
    }

    pub(super) fn written(&mut self) {
        self.unwritten.clear();
    }

    pub(super) fn totals(&self) -> (u64, u64) {
        ((self.entries.len() - self.free.len()) as u64, self.bytes)
    }

    pub(super) fn add_pack(&mut self, pack: Arc<Pack>) {
        self.packs.insert(pack.number, pack);
    }

    pub(super) fn pack(&self, number: u32) -> Option<Arc<Pack>> {
        self.packs.get(&number).cloned()
    }

    pub(super) fn is_retired(&self, number: u32) -> bool {
        self.retired.contains(&number)
    }

    pub(super) fn retired(&self) -> Vec<u32> {
        self.retired.iter().copied().collect()
    }

    pub(super) fn forget_pack(&mut self, number: u32) {
        self.retired.remove(&number);
        self.packs.remove(&number);
    }

    /// A pack and its entries by offset, for its index file.
    pub(super) fn pack_entries(&self, number: u32) -> Option<(Arc<Pack>, Vec<pack_index::Entry>)> {
        let pack = self.pack(number)?;
        let mut entries: Vec<_> = self
            .entries
            .iter()
            .filter(|entry| entry.state != State::Free && entry.location.pack == number)
            .map(|entry| {
                let Location { offset, length, .. } = entry.location;
                pack_index::Entry { hash: entry.hash, offset, length }
            })
            .collect();
        entries.sort_unstable_by_key(|entry| entry.offset);
        Some((pack, entries))
    }

    /// Chunks added until now may be swept at once; later ones are protected.
    pub(super) fn opened(&mut self) {
        self.epoch = FIRST_EPOCH;
    }

    /// Starts an epoch and returns the one from which on chunks count as live: the one before it,
    /// so that what was put shortly before the sweep has time to be named by somebody.
    pub(super) fn begin_epoch(&mut self) -> u32 {
        self.epoch = self.epoch.saturating_add(1);
        self.epoch - 1
    }

    /// Marks handles as live.
    pub(super) fn touch(&self, handles: impl Iterator<Item = ChunkHandle>) {
        for handle in handles {
            if let Some(entry) = self.entry(handle) {
                entry.touched.store(self.epoch, Ordering::Relaxed);
            }
        }
    }

    /// Bytes in each pack: (live, all).
    pub(super) fn usage(&self, epoch: u32) -> BTreeMap<u32, (u64, u64)> {
        let mut usage: BTreeMap<u32, (u64, u64)> =
            self.packs.keys().map(|number| (*number, (0, 0))).collect();
        for entry in self.entries.iter().filter(|entry| entry.state != State::Free) {
            let (live, all) = usage.entry(entry.location.pack).or_default();
            let bytes = u64::from(entry.location.length);
            *all += bytes;
            if entry.live(epoch) {
                *live += bytes;
            }
        }
        usage
    }

    /// Places of all chunks in a pack. Nothing is ever added to a sealed pack, so for one this
    /// stays a superset.
    pub(super) fn places_in(&self, number: u32) -> Vec<u32> {
        let places = 0..u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        places.filter(|place| self.entries[*place as usize].is_in(number)).collect()
    }

    /// Those of the places that are live chunks of the pack.
    pub(super) fn live_in(
        &self,
        number: u32,
        epoch: u32,
        places: &[u32],
    ) -> Vec<(ChunkHandle, [u8; 32], Location)> {
        let live = places.iter().filter(|place| {
            let entry = &self.entries[**place as usize];
            entry.is_in(number) && entry.live(epoch)
        });
        live.map(|place| {
            let entry = &self.entries[*place as usize];
            (self.handle(*place), entry.hash, entry.location)
        })
        .collect()
    }

    /// Points a chunk to its copy, if it still is where it was copied from.
    pub(super) fn relocate(
        &mut self,
        handle: ChunkHandle,
        from: Location,
        to: Location,
        content: Arc<[u8]>,
    ) {
        let Some((generation, place)) = place_of_checked(handle) else { return };
        if let Some(entry) = self.entries.get_mut(place)
            && entry.generation == generation
            && entry.location == from
        {
            entry.location = to;
            self.unwritten.insert(handle, content);
        }
    }

    /// Drops the dead chunks of a pack and retires it, unless something in it came to life
    /// meanwhile. Returns the handles dropped.
    pub(super) fn retire(
        &mut self,
        number: u32,
        epoch: u32,
        places: &[u32],
    ) -> Option<Vec<ChunkHandle>> {
        if !self.live_in(number, epoch, places).is_empty() {
            return None;
        }
        let mut dropped = Vec::new();
        for place in places {
            if self.entries[*place as usize].is_in(number) {
                dropped.push(self.handle(*place));
                self.remove(*place);
            }
        }
        self.retired.insert(number);
        Some(dropped)
    }
}

impl Entry {
    fn is_in(&self, pack: u32) -> bool {
        self.state != State::Free && self.location.pack == pack
    }

    fn live(&self, epoch: u32) -> bool {
        self.touched.load(Ordering::Relaxed) >= epoch
    }
}

fn place_of_checked(handle: ChunkHandle) -> Option<(u32, usize)> {
    (handle.0.get() & u64::from(u32::MAX) != 0).then(|| place_of(handle))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(first: u8, last: u8) -> [u8; 32] {
        let mut hash = [0; 32];
        (hash[0], hash[31]) = (first, last);
        hash
    }

    fn at(offset: u32) -> Location {
        Location { pack: 1, offset, length: 10 }
    }

    #[test]
    fn equal_prefixes_are_told_apart() {
        let mut index = Index::default();
        let handles: Vec<_> =
            (0..5).map(|last| index.insert_written(hash(1, last), at(last.into()))).collect();
        for last in 0..5 {
            assert_eq!(index.find(&hash(1, last)), Some(handles[usize::from(last)]));
        }
        assert_eq!(index.find(&hash(1, 9)), None);
        for last in [2, 4, 0, 1, 3] {
            let (_, place) = place_of(handles[usize::from(last)]);
            index.remove(u32::try_from(place).unwrap());
            assert_eq!(index.find(&hash(1, last)), None);
        }
        assert_eq!(index.totals(), (0, 0));
        assert!(index.by_prefix.is_empty());
    }

    #[test]
    fn a_place_given_out_again_has_another_handle() {
        let mut index = Index::default();
        let old = index.insert_written(hash(1, 1), at(0));
        index.remove(0);
        assert!(index.entry(old).is_none());
        let new = index.insert_written(hash(2, 2), at(8));
        assert_eq!(place_of(new).1, place_of(old).1);
        assert_ne!(new, old);
        assert!(index.entry(old).is_none());
        assert_eq!(index.entry(new).unwrap().hash, hash(2, 2));
    }

    #[test]
    fn an_entry_is_small() {
        assert!(size_of::<Entry>() <= 60, "{}", size_of::<Entry>());
    }
}
