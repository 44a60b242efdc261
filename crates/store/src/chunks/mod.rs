//! The chunk store: pages and state blobs, addressed by their content.
//!
//! A chunk's name is the BLAKE3 of its bytes; equal chunks are kept once. Chunks are appended to
//! packs; a full pack is sealed and gets an index file. Nothing is durable before
//! [`ChunkStore::sync`]; a checkpoint keeps the [`ChunkMark`] of a sync, and opening at a mark cuts
//! what was written later (replay puts it again).
//!
//! Invariants:
//! - Every pack named in the mark of the newest durable checkpoint exists: [`ChunkStore::sweep`]
//!   only retires packs, [`ChunkStore::remove_retired`] removes them after the next checkpoint.
//! - A handle stays valid until a sweep that neither was given it nor saw it put or found since
//!   its start; afterwards it answers `Unknown`, never other bytes.
//! - No I/O happens under the lock that readers take.
//!
//! Any number of threads may read and put; puts take turns.

mod cache;
mod index;
pub(crate) mod open;
pub(crate) mod pack;
mod sweep;

#[cfg(test)]
mod tests;

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::disk::Disk;
use crate::format::chunk;
use crate::{Damage, OpenError, Poisoned, ReadError, Structure, WriteError};
use cache::Cache;
use index::{Index, Location};
use pack::Writer;

pub use sweep::Swept;

/// Names a chunk within this process; never store one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkHandle(pub NonZeroU64);

/// Packs and their lengths at a moment when all of it was durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkMark {
    /// (pack number, length in bytes), ascending by number.
    pub packs: Vec<(u32, u64)>,
}

/// Sizes.
#[derive(Clone, Copy, Debug)]
pub struct ChunkOptions {
    /// The space, stamped on every pack.
    pub space: [u8; 16],
    /// A pack is sealed when it would grow beyond this many bytes (64 KiB to 1 GiB).
    pub pack_bytes: u64,
    /// Bytes of chunk contents to keep in memory.
    pub cache_bytes: usize,
}

impl ChunkOptions {
    /// Defaults: 64 MiB packs, 64 MiB cache.
    pub fn new(space: [u8; 16]) -> Self {
        Self { space, pack_bytes: 64 << 20, cache_bytes: 64 << 20 }
    }
}

/// Smallest and largest [`ChunkOptions::pack_bytes`].
pub(crate) const PACK_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 30;

/// Largest chunk.
pub const CHUNK_BYTES_MAX: usize = chunk::CONTENT_MAX as usize;

/// Marks the start of a sweep; see [`ChunkStore::begin_sweep`].
#[derive(Clone, Copy, Debug)]
pub struct SweepStart(u32);

/// The store. Share it with an `Arc`.
pub struct ChunkStore {
    disk: Arc<dyn Disk>,
    options: ChunkOptions,
    index: RwLock<Index>,
    cache: Cache,
    /// Taken before `index`, never the other way round.
    writer: Mutex<Writer>,
    /// Held for a whole sync, so that one never answers before an earlier one has ended.
    syncing: Mutex<()>,
}

impl ChunkStore {
    fn read_index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_index(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores bytes (1 byte to 8 MiB) unless they are there already. Readable at once; durable
    /// after the next [`Self::sync`]. A full disk refuses this chunk and loses nothing.
    pub fn put(&self, bytes: &[u8]) -> Result<ChunkHandle, WriteError> {
        if !(1..=CHUNK_BYTES_MAX).contains(&bytes.len()) {
            let (length, limit) = (bytes.len() as u64, CHUNK_BYTES_MAX as u64);
            return Err(WriteError::TooLarge { length, limit });
        }
        let hash = chunk::hash(bytes);
        if let Some(handle) = self.find(&hash) {
            return Ok(handle);
        }
        let content: Arc<[u8]> = bytes.into();
        let mut writer = self.writer();
        // Somebody may have put the same bytes while this thread waited for its turn.
        if let Some(handle) = self.find(&hash) {
            return Ok(handle);
        }
        let location = self.append(&mut writer, hash, &content)?;
        let handle = self.write_index().insert(hash, location, content.clone());
        drop(writer);
        self.cache.insert(handle, content);
        Ok(handle)
    }

    /// Appends to the active pack, sealing it first if it is full.
    fn append(
        &self,
        writer: &mut Writer,
        hash: [u8; 32],
        content: &[u8],
    ) -> Result<Location, WriteError> {
        let length = u32::try_from(content.len()).expect("at most 8 MiB");
        if writer.is_full(chunk::size(length), self.options.pack_bytes) {
            self.flush(writer)?;
            let pack = writer.next_pack(&*self.disk, self.options.space)?;
            self.write_index().add_pack(pack);
        } else if writer.buffer_is_full() {
            self.flush(writer)?;
        }
        let (pack, offset) = writer.push(chunk::Header { length, hash }, content);
        Ok(Location { pack, offset, length })
    }

    /// Writes the buffer to the active pack; its chunks need no longer be kept in memory.
    fn flush(&self, writer: &mut Writer) -> Result<(), WriteError> {
        writer.flush()?;
        self.write_index().written();
        Ok(())
    }

    /// Reads and verifies. The bytes are the ones put, or the answer is an error. `Unknown` for a
    /// swept handle.
    pub fn get(&self, handle: ChunkHandle) -> Result<Arc<[u8]>, ReadError> {
        if let Some(content) = self.cache.get(handle) {
            return Ok(content);
        }
        let (hash, location, pack) = {
            let index = self.read_index();
            let entry = index.entry(handle).ok_or(ReadError::Unknown)?;
            if let Some(content) = index.unwritten(handle) {
                return Ok(content);
            }
            let pack = index.pack(entry.location.pack).ok_or(ReadError::Unknown)?;
            (entry.hash, entry.location, pack)
        };
        match pack::read(&pack, hash, location) {
            Ok(content) => {
                self.cache.insert(handle, content.clone());
                Ok(content)
            }
            Err(error) => {
                if matches!(error, ReadError::Corrupt(_)) {
                    self.write_index().distrust(handle, location);
                }
                Err(error)
            }
        }
    }

    /// The content's BLAKE3. `Unknown` for a swept handle.
    pub fn hash(&self, handle: ChunkHandle) -> Result<[u8; 32], ReadError> {
        self.read_index().entry(handle).map(|entry| entry.hash).ok_or(ReadError::Unknown)
    }

    /// Looks content up by its BLAKE3. Says nothing of chunks known to be damaged, so that the
    /// next put of the same bytes makes them good.
    pub fn find(&self, hash: &[u8; 32]) -> Option<ChunkHandle> {
        self.read_index().find(hash)
    }

    /// How many chunks there are, and the bytes of their contents.
    pub fn totals(&self) -> (u64, u64) {
        self.read_index().totals()
    }

    /// Makes everything put so far durable; puts and reads go on meanwhile. A failure of the sync
    /// itself poisons; a full disk while writing does not.
    pub fn sync(&self) -> Result<(), WriteError> {
        let _syncing = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let unsynced = {
            let mut writer = self.writer();
            if writer.poisoned() {
                return Err(Poisoned.into());
            }
            self.flush(&mut writer)?;
            writer.take_unsynced()
        };
        let result = unsynced.run(&*self.disk);
        self.writer().synced(unsynced, result)?;
        self.write_sealed_indexes()
    }

    /// What the last successful [`Self::sync`] made durable, retired packs left out.
    pub fn mark(&self) -> ChunkMark {
        let writer = self.writer();
        let index = self.read_index();
        let live = writer.durable().filter(|(number, _)| !index.is_retired(*number));
        ChunkMark { packs: live.collect() }
    }

    /// Writes the index files of packs sealed since the last time. They only speed up opening.
    fn write_sealed_indexes(&self) -> Result<(), WriteError> {
        let sealed = self.writer().take_sealed();
        for number in sealed {
            let Some((pack, entries)) = self.read_index().pack_entries(number) else { continue };
            if let Err(error) = pack::write_index(&*self.disk, &pack, entries) {
                self.writer().seal_again(number);
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Offset and bytes of the padding after a chunk that was found intact in the bytes of its pack.
pub(crate) fn padding<'a>(pack: &'a [u8], found: &open::Found) -> (u64, &'a [u8]) {
    let length = found.chunk.as_ref().map_or(0, |entry| u64::from(entry.length));
    let start = found.offset + chunk::HEADER as u64 + length;
    let range = |from: u64, to: u64| Some(usize::try_from(from).ok()?..usize::try_from(to).ok()?);
    let bytes = range(start, found.offset + found.size).and_then(|range| pack.get(range));
    (start, bytes.unwrap_or_default())
}

fn pack_damage(number: u32, length: u64, what: &'static str) -> OpenError {
    OpenError::Damaged(Damage::new(pack::file_name(number), 0, length, Structure::Pack, what))
}
