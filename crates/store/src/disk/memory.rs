//! A disk in memory that remembers what is durable: for tests, of this crate and of others.
//!
//! It keeps, beside what a running process sees, what a power cut would leave: every write since
//! the last sync of its file, and every change of names since the last sync of the directory, may
//! or may not survive. [`MemoryDisk::after_crash`] makes that choice and gives the disk that the
//! next process finds. Faults (failing operations, a failing fsync, a full disk, flipped bits) are
//! switched on by the test.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile, LOCK_FILE, LockGuard, Open};

/// What survives of writes and names that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashKeeps {
    /// Everything: the process died, the machine did not.
    Everything,
    /// Nothing.
    Synced,
    /// Of every write an arbitrary set of 512-byte sectors, of the names a prefix of the changes;
    /// drawn from this seed.
    Some(u64),
}

/// A directory in memory. Clones are the same directory.
#[derive(Clone, Default)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Default)]
struct State {
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    pending_names: Vec<NameChange>,
    files: BTreeMap<u64, Content>,
    dirs: BTreeSet<String>,
    next_file: u64,
    locked: bool,
    changes: u64,
    syncs: u64,
    fail_changes_from: Option<u64>,
    fail_sync: Option<u64>,
    capacity: Option<u64>,
}

#[derive(Clone, Default)]
struct Content {
    current: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetSize(usize),
}

#[derive(Clone)]
enum NameChange {
    Bind { name: String, file: u64 },
    Rename { source: String, target: String },
    Remove { name: String },
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes: new } => write(bytes, *offset, new),
            Self::SetSize(size) => bytes.resize(*size, 0),
        }
    }
}

fn write(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    let end = offset + new.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(new);
}

impl NameChange {
    fn dir(&self) -> &str {
        let (Self::Bind { name, .. } | Self::Rename { source: name, .. } | Self::Remove { name }) =
            self;
        parent(name)
    }

    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Bind { name, file } => {
                names.insert(name.clone(), *file);
            }
            Self::Rename { source, target } => {
                if let Some(file) = names.remove(source) {
                    names.insert(target.clone(), file);
                }
            }
            Self::Remove { name } => {
                names.remove(name);
            }
        }
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// SplitMix64: enough randomness to choose what a crash keeps.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl MemoryDisk {
    /// An empty directory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk found after a crash at this moment, with all faults off and the lock free. This
    /// one stays as it is.
    #[must_use]
    pub fn after_crash(&self, keeps: CrashKeeps) -> Self {
        let mut state = self.state().clone();
        state.locked = false;
        state.fail_changes_from = None;
        state.fail_sync = None;
        state.capacity = None;
        let mut draw = match keeps {
            CrashKeeps::Everything => return Self { state: Arc::new(Mutex::new(state)) },
            CrashKeeps::Synced => None,
            CrashKeeps::Some(seed) => Some(Draw(seed)),
        };
        for content in state.files.values_mut() {
            for change in std::mem::take(&mut content.unsynced) {
                survive(change, &mut content.durable, draw.as_mut());
            }
            content.current.clone_from(&content.durable);
        }
        if let Some(draw) = &mut draw {
            let mut cut = BTreeSet::new();
            for change in std::mem::take(&mut state.pending_names) {
                // Once one change of a directory is lost, so are the later ones.
                if draw.next() % 3 == 0 {
                    cut.insert(change.dir().to_owned());
                }
                if !cut.contains(change.dir()) {
                    change.apply(&mut state.durable_names);
                }
            }
        }
        state.pending_names.clear();
        state.names = state.durable_names.clone();
        let used: BTreeSet<u64> = state.names.values().copied().collect();
        state.files.retain(|id, _| used.contains(id));
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Lets the next `changes` mutating operations (writes, syncs, names) succeed and all later
    /// ones fail.
    pub fn fail_after(&self, changes: u64) {
        let mut state = self.state();
        state.fail_changes_from = Some(state.changes + changes);
    }

    /// Lets the next `syncs` file syncs succeed and the one after fail: what it should have made
    /// durable is lost on the medium, still visible to reads, and no longer counted as dirty.
    pub fn fail_sync_after(&self, syncs: u64) {
        let mut state = self.state();
        state.fail_sync = Some(state.syncs + syncs);
    }

    /// Limits the bytes of all files together; growing beyond fails with `StorageFull`.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// How many mutating operations there were.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Every file (path, size), sorted.
    #[must_use]
    pub fn files(&self) -> Vec<(String, u64)> {
        let state = self.state();
        let size = |id| state.files.get(id).map_or(0, |content| content.current.len() as u64);
        state.names.iter().map(|(name, id)| (name.clone(), size(id))).collect()
    }

    /// A file's bytes, if there is one.
    #[must_use]
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.state();
        Some(state.files.get(state.names.get(path)?)?.current.clone())
    }

    /// Changes bytes on the medium behind everybody's back; writes beyond the end do nothing.
    pub fn damage(&self, path: &str, offset: u64, change: impl FnOnce(&mut [u8])) {
        let mut state = self.state();
        let Some(id) = state.names.get(path).copied() else { return };
        let Some(content) = state.files.get_mut(&id) else { return };
        let Ok(offset) = usize::try_from(offset) else { return };
        if let Some(bytes) = content.current.get_mut(offset..) {
            change(bytes);
        }
        content.durable.clone_from(&content.current);
        content.unsynced.clear();
    }
}

fn survive(change: Change, durable: &mut Vec<u8>, draw: Option<&mut Draw>) {
    const SECTOR: usize = 512;
    let Some(draw) = draw else { return };
    match change {
        Change::SetSize(_) => {
            if draw.next() % 2 == 0 {
                change.apply(durable);
            }
        }
        Change::Write { offset, bytes } => {
            // One write in four is lost whole, one in four survives whole.
            let luck = draw.next() % 4;
            let mut at = 0;
            while at < bytes.len() {
                let end = bytes.len().min(at + SECTOR - (offset + at) % SECTOR);
                let kept = luck == 1 || (luck > 1 && draw.next() % 2 == 0);
                if kept {
                    write(durable, offset + at, &bytes[at..end]);
                }
                at = end;
            }
        }
    }
}

impl State {
    fn change(&mut self) -> io::Result<()> {
        self.changes += 1;
        match self.fail_changes_from {
            Some(from) if self.changes > from => Err(io::Error::other("failed by the test")),
            _ => Ok(()),
        }
    }

    fn rename_in(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending_names.push(change);
    }

    fn room(&self, growth: usize) -> io::Result<()> {
        let used: usize = self.files.values().map(|content| content.current.len()).sum();
        match self.capacity {
            Some(capacity) if (used + growth) as u64 > capacity => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }
}

impl Disk for MemoryDisk {
    fn open(&self, path: &str, mode: Open) -> io::Result<Arc<dyn DiskFile>> {
        if path.starts_with('/') || path.split('/').any(|part| part == "..") {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut state = self.state();
        let known = state.names.get(path).copied();
        let id = match (mode, known) {
            (Open::Read | Open::Write, Some(id)) => id,
            (Open::Read | Open::Write, None) => return Err(io::ErrorKind::NotFound.into()),
            (Open::Create, Some(id)) => {
                state.change()?;
                let content = state.files.entry(id).or_default();
                content.current.clear();
                content.unsynced.push(Change::SetSize(0));
                id
            }
            (Open::Create, None) => {
                if !parent(path).is_empty() && !state.dirs.contains(parent(path)) {
                    return Err(io::ErrorKind::NotFound.into());
                }
                state.change()?;
                state.next_file += 1;
                let id = state.next_file;
                state.files.insert(id, Content::default());
                state.rename_in(NameChange::Bind { name: path.to_owned(), file: id });
                id
            }
        };
        Ok(Arc::new(MemoryFile { disk: self.clone(), id, writable: mode != Open::Read }))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let state = self.state();
        let in_dir = state.names.keys().filter(|name| parent(name) == dir);
        Ok(in_dir.map(|name| name.rsplit('/').next().unwrap_or_default().to_owned()).collect())
    }

    fn rename(&self, source: &str, target: &str) -> io::Result<()> {
        let mut state = self.state();
        if !state.names.contains_key(source) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change()?;
        let (source, target) = (source.to_owned(), target.to_owned());
        state.rename_in(NameChange::Rename { source, target });
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let mut state = self.state();
        if !state.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change()?;
        state.rename_in(NameChange::Remove { name: path.to_owned() });
        Ok(())
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        let mut state = self.state();
        state.change()?;
        let pending = std::mem::take(&mut state.pending_names);
        for change in pending {
            if change.dir() == dir {
                change.apply(&mut state.durable_names);
            } else {
                state.pending_names.push(change);
            }
        }
        Ok(())
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        let mut state = self.state();
        if !state.dirs.contains(dir) {
            state.change()?;
            state.dirs.insert(dir.to_owned());
        }
        Ok(())
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        Ok(self.state().names.contains_key(path))
    }

    fn lock(&self) -> io::Result<LockGuard> {
        struct Held(MemoryDisk);
        impl Drop for Held {
            fn drop(&mut self) {
                self.0.state().locked = false;
            }
        }
        if !self.exists(LOCK_FILE)? {
            self.open(LOCK_FILE, Open::Create)?;
        }
        let mut state = self.state();
        if std::mem::replace(&mut state.locked, true) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(LockGuard::new(Held(self.clone())))
    }
}

struct MemoryFile {
    disk: MemoryDisk,
    id: u64,
    writable: bool,
}

impl MemoryFile {
    fn with<T>(&self, act: impl FnOnce(&mut State, u64) -> io::Result<T>) -> io::Result<T> {
        act(&mut self.disk.state(), self.id)
    }

    fn alter(&self, change: Change) -> io::Result<()> {
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.with(|state, id| {
            state.change()?;
            let size = state.files.entry(id).or_default().current.len();
            let needed = match &change {
                Change::Write { offset, bytes } => offset + bytes.len(),
                Change::SetSize(size) => *size,
            };
            state.room(needed.saturating_sub(size))?;
            let content = state.files.entry(id).or_default();
            change.apply(&mut content.current);
            content.unsynced.push(change);
            Ok(())
        })
    }
}

fn to_usize(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput.into())
}

impl DiskFile for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let offset = to_usize(offset)?;
        self.with(|state, id| {
            let bytes = &state.files.entry(id).or_default().current;
            let rest = bytes.get(offset..).unwrap_or_default();
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.alter(Change::Write { offset: to_usize(offset)?, bytes: bytes.to_vec() })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(|state, id| {
            state.change()?;
            let fails = state.fail_sync == Some(state.syncs);
            state.syncs += 1;
            let content = state.files.entry(id).or_default();
            let unsynced = std::mem::take(&mut content.unsynced);
            if fails {
                return Err(io::Error::other("fsync failed by the test"));
            }
            for change in unsynced {
                change.apply(&mut content.durable);
            }
            Ok(())
        })
    }

    fn size(&self) -> io::Result<u64> {
        self.with(|state, id| Ok(state.files.entry(id).or_default().current.len() as u64))
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.alter(Change::SetSize(to_usize(size)?))
    }

    fn drop_cache(&self) -> io::Result<()> {
        // After a failed sync the clean pages hold what the medium does not: forget them.
        self.with(|state, id| {
            let content = state.files.entry(id).or_default();
            if content.unsynced.is_empty() {
                content.current.clone_from(&content.durable);
            }
            Ok(())
        })
    }
}
