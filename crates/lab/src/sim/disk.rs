//! A disk that can be crashed at any operation: what was not synced is kept, dropped or torn.
//!
//! Model, harsher than any one file system but within the contract of [`anabranch_store::disk`]:
//! - Bytes: every 512-byte sector is, after a power cut, as it was after the last sync of its file
//!   or after any later write to it, each sector for itself: writes persist in any order, in part.
//! - Sizes: the file's size is any that it had since its last sync; what it gained without bytes
//!   reads as zeros.
//! - Names: every create, rename and remove since the last sync of its directory is kept or not,
//!   each for itself (or, in some crashes, a prefix of them, as a journaling file system does). A
//!   rename is atomic. A created directory is durable.
//! - The death of a process alone loses nothing, but what was not synced stays unsynced: a power
//!   cut after the restart may still take it.
//!
//! Every mutating operation counts. At the one given to [`SimDisk::crash_at`] the machine stops:
//! that operation is not answered (it may persist like any other that was not synced), and all
//! later ones fail until [`SimDisk::restart`] gives the disk that the next process finds.
//!
//! Faults short of a crash: one failing fsync (what it should have made durable is gone from the
//! medium, still in the cache, and the next fsync claims success), and a full disk for a while.
//! And *mutants*: kinds of sync ([`site`]) that claim success and do nothing.

mod file;
mod settle;
pub(super) mod site;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_store::disk::LOCK_FILE;
use anabranch_store::{Disk, DiskFile, LockGuard, Open};

use super::random::Random;
use super::trace::Trace;
use file::SimFile;
use site::Phase;

/// How a life of the node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process dies; the machine goes on.
    Process,
    /// The machine loses power.
    Power,
}

/// A simulated directory. Clones are the same directory.
#[derive(Clone, Default)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Default)]
struct State {
    /// What a running process sees.
    names: BTreeMap<String, u64>,
    /// What a power cut leaves at least, before it draws from the pending changes.
    durable_names: BTreeMap<String, u64>,
    pending_names: Vec<PendingName>,
    files: BTreeMap<u64, Content>,
    dirs: BTreeMap<String, Durable>,
    next_file: u64,
    locked: bool,
    operations: u64,
    crash_at: Option<u64>,
    crashed: bool,
    /// The first file sync from this operation on fails.
    fail_sync_from: Option<u64>,
    /// Bytes other than zeros went into a journal segment since the last restart.
    journal_written: bool,
    /// Operations (first, end) in which nothing can grow.
    full: Option<(u64, u64)>,
    phase: Phase,
    monitor: Monitor,
}

/// What outlives a restart without being on the medium.
#[derive(Clone, Debug, Default)]
struct Monitor {
    ignored: Vec<String>,
    sites: BTreeMap<String, u64>,
    trace: Trace,
    failed_syncs: u64,
    refused_growth: u64,
    /// The latest operations, for the report of a violation.
    recent: VecDeque<String>,
}

/// Operations remembered for a report.
const RECENT_MAX: usize = 80;

const NAMES: [&str; 10] = [
    "",
    "empty",
    "create",
    "rename",
    "remove",
    "sync directory",
    "make directory",
    "write",
    "sync",
    "resize",
];

#[derive(Clone, Copy, PartialEq, Eq)]
struct Durable(bool);

/// Bytes of a file: as a process sees them, and as they are known to be on the medium.
#[derive(Clone, Default)]
struct Content {
    current: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Pending>,
}

#[derive(Clone)]
struct Pending {
    change: Change,
    /// Made by the process that runs now.
    own: bool,
}

#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetSize(usize),
}

#[derive(Clone)]
struct PendingName {
    change: NameChange,
    own: bool,
}

#[derive(Clone)]
enum NameChange {
    Bind { name: String, file: u64 },
    Rename { source: String, target: String, file: u64 },
    Remove { name: String },
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write { offset, bytes: new } => {
                let end = offset + new.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*offset..end].copy_from_slice(new);
            }
            Change::SetSize(size) => bytes.resize(*size, 0),
        }
    }
}

impl NameChange {
    fn target(&self) -> &str {
        match self {
            NameChange::Bind { name, .. } | NameChange::Remove { name } => name,
            NameChange::Rename { target, .. } => target,
        }
    }

    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            NameChange::Bind { name, file } => {
                names.insert(name.clone(), *file);
            }
            NameChange::Rename { source, target, file } => {
                names.remove(source);
                names.insert(target.clone(), *file);
            }
            NameChange::Remove { name } => {
                names.remove(name);
            }
        }
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

fn dead() -> io::Error {
    io::Error::other("the simulated machine has stopped")
}

impl SimDisk {
    /// An empty directory.
    #[must_use]
    pub fn new() -> SimDisk {
        SimDisk::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the machine at the mutating operation that comes after `operations` more.
    pub fn crash_at(&self, operations: u64) {
        let mut state = self.state();
        state.crash_at = Some(state.operations + operations + 1);
    }

    /// Whether the machine has stopped.
    #[must_use]
    pub fn crashed(&self) -> bool {
        self.state().crashed
    }

    /// Stops the machine now, or does nothing if it has stopped.
    pub fn stop(&self) {
        self.state().crashed = true;
    }

    /// Lets the first file sync after `operations` more operations fail.
    pub fn fail_sync_after(&self, operations: u64) {
        let mut state = self.state();
        state.fail_sync_from = Some(state.operations + operations);
    }

    /// Lets nothing grow during `count` operations after `operations` more.
    pub fn full_after(&self, operations: u64, count: u64) {
        let mut state = self.state();
        let first = state.operations + operations;
        state.full = Some((first, first + count));
    }

    /// Says what the node is doing, for the names of sync sites.
    pub fn enter(&self, phase: Phase) {
        self.state().phase = phase;
    }

    /// Makes these kinds of sync claim success without doing anything.
    pub fn ignore(&self, sites: &[String]) {
        self.state().monitor.ignored = sites.to_vec();
    }

    /// Whether anything but zeros was written to a journal segment since the last restart.
    #[must_use]
    pub fn journal_written(&self) -> bool {
        self.state().journal_written
    }

    /// The same directory on a medium of its own, to look what a process would find.
    #[must_use]
    pub fn copy(&self) -> SimDisk {
        let mut state = self.state().clone();
        state.locked = false;
        SimDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Kinds of sync seen so far, with how often.
    #[must_use]
    pub fn sites(&self) -> BTreeMap<String, u64> {
        self.state().monitor.sites.clone()
    }

    /// Hash of all operations so far, over all restarts.
    #[must_use]
    pub fn trace(&self) -> Trace {
        self.state().monitor.trace
    }

    /// Mutating operations since the last restart.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// How many fsyncs were made to fail, and how often growth was refused, over all restarts.
    #[must_use]
    pub fn faults(&self) -> (u64, u64) {
        let state = self.state();
        (state.monitor.failed_syncs, state.monitor.refused_growth)
    }

    /// The latest operations.
    #[must_use]
    pub fn recent(&self) -> Vec<String> {
        self.state().monitor.recent.iter().cloned().collect()
    }

    /// Every file (path, size), sorted.
    #[must_use]
    pub fn files(&self) -> Vec<(String, u64)> {
        let state = self.state();
        let size = |id| state.files.get(id).map_or(0, |content| content.current.len() as u64);
        state.names.iter().map(|(name, id)| (name.clone(), size(id))).collect()
    }

    /// A file's bytes as a process sees them.
    #[must_use]
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.state();
        Some(state.files.get(state.names.get(path)?)?.current.clone())
    }

    /// The disk that the next process finds. This one is stopped for good: what still holds it
    /// gets errors. Faults are off; an ignored sync stays ignored.
    #[must_use]
    pub fn restart(&self, crash: Crash, random: &mut Random) -> SimDisk {
        let mut state = {
            let mut old = self.state();
            old.crashed = true;
            old.clone()
        };
        match crash {
            Crash::Process => {
                for pending in state.files.values_mut().flat_map(|file| &mut file.pending) {
                    pending.own = false;
                }
                for pending in &mut state.pending_names {
                    pending.own = false;
                }
            }
            Crash::Power => settle::settle(&mut state, random),
        }
        let left: Vec<_> = state.names.keys().map(String::as_str).collect();
        let line = format!("-- {crash:?} crash leaves {}", left.join(" "));
        state.remember(line);
        state.locked = false;
        state.operations = 0;
        state.journal_written = false;
        state.crash_at = None;
        state.crashed = false;
        state.fail_sync_from = None;
        state.full = None;
        let mut used: BTreeSet<u64> = state.names.values().copied().collect();
        used.extend(state.durable_names.values());
        for pending in &state.pending_names {
            if let NameChange::Bind { file, .. } | NameChange::Rename { file, .. } = pending.change
            {
                used.insert(file);
            }
        }
        state.files.retain(|id, _| used.contains(id));
        SimDisk { state: Arc::new(Mutex::new(state)) }
    }
}

impl State {
    /// Counts a mutating operation; false if the machine stops at it.
    fn operate(&mut self, code: usize, path: &str) -> io::Result<bool> {
        if self.crashed {
            return Err(dead());
        }
        self.operations += 1;
        self.monitor.trace.number(code as u64);
        self.monitor.trace.bytes(path.as_bytes());
        self.crashed = self.crash_at == Some(self.operations);
        let unanswered = if self.crashed { " (not answered)" } else { "" };
        self.remember(format!("{} {} {path}{unanswered}", self.operations, NAMES[code]));
        Ok(!self.crashed)
    }

    fn remember(&mut self, line: String) {
        if self.monitor.recent.len() == RECENT_MAX {
            self.monitor.recent.pop_front();
        }
        self.monitor.recent.push_back(line);
    }

    fn alive(&self) -> io::Result<()> {
        if self.crashed { Err(dead()) } else { Ok(()) }
    }

    fn grow(&mut self) -> io::Result<()> {
        match self.full {
            Some((first, end)) if (first..end).contains(&self.operations) => {
                self.monitor.refused_growth += 1;
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }

    fn rename_in(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending_names.push(PendingName { change, own: true });
    }

    fn content(&mut self, id: u64) -> &mut Content {
        self.files.entry(id).or_default()
    }

    /// Whether the sync at this site is to be done.
    fn honours(&mut self, site: String) -> bool {
        let honoured = !self.monitor.ignored.contains(&site);
        *self.monitor.sites.entry(site).or_default() += 1;
        honoured
    }

    fn name_of(&self, id: u64) -> String {
        let found = self.names.iter().find(|(_, file)| **file == id);
        found.map(|(name, _)| name.clone()).unwrap_or_default()
    }

    fn sync_names(&mut self, dir: &str) {
        let pending = std::mem::take(&mut self.pending_names);
        for pending in pending {
            if parent(pending.change.target()) == dir {
                pending.change.apply(&mut self.durable_names);
            } else {
                self.pending_names.push(pending);
            }
        }
    }
}

fn answered(alive: bool) -> io::Result<()> {
    if alive { Ok(()) } else { Err(dead()) }
}

impl Disk for SimDisk {
    fn open(&self, path: &str, mode: Open) -> io::Result<Arc<dyn DiskFile>> {
        if path.starts_with('/') || path.split('/').any(|part| part == "..") {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut state = self.state();
        state.alive()?;
        let known = state.names.get(path).copied();
        let id = match (mode, known) {
            (Open::Read | Open::Write, Some(id)) => id,
            (Open::Read | Open::Write, None) => return Err(io::ErrorKind::NotFound.into()),
            (Open::Create, Some(id)) => {
                let alive = state.operate(1, path)?;
                let change = Change::SetSize(0);
                let content = state.content(id);
                content.current.clear();
                content.pending.push(Pending { change, own: true });
                answered(alive)?;
                id
            }
            (Open::Create, None) => {
                if !parent(path).is_empty() && !state.dirs.contains_key(parent(path)) {
                    return Err(io::ErrorKind::NotFound.into());
                }
                let alive = state.operate(2, path)?;
                state.grow()?;
                state.next_file += 1;
                let id = state.next_file;
                state.files.insert(id, Content::default());
                state.rename_in(NameChange::Bind { name: path.to_owned(), file: id });
                answered(alive)?;
                id
            }
        };
        Ok(Arc::new(SimFile { disk: self.clone(), id, writable: mode != Open::Read }))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let state = self.state();
        state.alive()?;
        let in_dir = state.names.keys().filter(|name| parent(name) == dir);
        Ok(in_dir.map(|name| name.rsplit('/').next().unwrap_or_default().to_owned()).collect())
    }

    fn rename(&self, source: &str, target: &str) -> io::Result<()> {
        let mut state = self.state();
        let Some(file) = state.names.get(source).copied() else {
            state.alive()?;
            return Err(io::ErrorKind::NotFound.into());
        };
        let alive = state.operate(3, source)?;
        state.monitor.trace.bytes(target.as_bytes());
        let (source, target) = (source.to_owned(), target.to_owned());
        state.rename_in(NameChange::Rename { source, target, file });
        answered(alive)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let mut state = self.state();
        if !state.names.contains_key(path) {
            state.alive()?;
            return Err(io::ErrorKind::NotFound.into());
        }
        let alive = state.operate(4, path)?;
        state.rename_in(NameChange::Remove { name: path.to_owned() });
        answered(alive)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        let mut state = self.state();
        answered(state.operate(5, dir)?)?;
        let site = site::of_directory(state.phase, dir, &state.pending_names);
        if state.honours(site) {
            state.sync_names(dir);
        }
        Ok(())
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        let mut state = self.state();
        state.alive()?;
        if state.dirs.get(dir) == Some(&Durable(true)) {
            return Ok(());
        }
        let alive = state.operate(6, dir)?;
        state.dirs.insert(dir.to_owned(), Durable(false));
        answered(alive)?;
        let site = site::of_new_directory(state.phase, dir);
        if state.honours(site) {
            state.dirs.insert(dir.to_owned(), Durable(true));
        }
        Ok(())
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        let state = self.state();
        state.alive()?;
        Ok(state.names.contains_key(path))
    }

    fn lock(&self) -> io::Result<LockGuard> {
        struct Held(SimDisk);
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
        drop(state);
        Ok(LockGuard::new(Held(self.clone())))
    }
}
