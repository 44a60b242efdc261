//! What the store asks of a disk.
//!
//! The contract is small, so that a simulated disk can keep all of it; [`conformance`] is the same
//! contract as a test suite that every implementation runs. Paths are relative to the space
//! directory, use `/`, and never leave it.
//!
//! Durability: bytes written are durable once a later [`DiskFile::sync_data`] of that file has
//! returned `Ok`; names (create, rename, remove) once a later [`Disk::sync_dir`] of the directory
//! holding them has. Before that a crash may keep any part of them, in any order. After a failed
//! `sync_data` nothing may be assumed about the bytes since the last good one.

mod file;
mod memory;

pub mod conformance;
mod window;

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::Arc;

pub use file::FileDisk;
pub use memory::{CrashKeeps, MemoryDisk};
pub(crate) use window::Window;

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// An existing file, for reading. `NotFound` when there is none.
    Read,
    /// An existing file, for reading and writing. `NotFound` when there is none.
    Write,
    /// A new, empty file, for reading and writing; an existing one is emptied.
    Create,
}

/// A directory that holds one space.
pub trait Disk: Send + Sync {
    /// Opens `path`. A created file's name is durable only after [`Self::sync_dir`].
    fn open(&self, path: &str, mode: Open) -> io::Result<Arc<dyn DiskFile>>;

    /// Names of the files directly in `dir` (`""` is the space directory), sorted, without
    /// directories. A directory that does not exist is empty.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;

    /// Gives `source` the name `target`, atomically replacing a file of that name. Both lie in
    /// the same directory.
    fn rename(&self, source: &str, target: &str) -> io::Result<()>;

    /// Removes the name; `NotFound` when there is none. Open files stay readable.
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &str) -> io::Result<()>;

    /// Creates `dir` durably; does nothing if it exists.
    fn create_dir(&self, dir: &str) -> io::Result<()>;

    /// Whether there is a file of that name.
    fn exists(&self, path: &str) -> io::Result<bool>;

    /// Takes the directory for this process until the guard is dropped (or the process dies).
    /// `WouldBlock` when somebody has it.
    fn lock(&self) -> io::Result<LockGuard>;
}

/// An open file. Calls may come from several threads; they do not move a shared position.
pub trait DiskFile: Send + Sync {
    /// Reads from `offset` until `buffer` is full or the file ends; returns how many bytes.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`, growing the file as needed (a gap reads as zeros). On an
    /// error any part may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes size and bytes durable.
    fn sync_data(&self) -> io::Result<()>;

    /// The size in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Cuts or grows (with zeros) to `size` bytes.
    fn set_size(&self, size: u64) -> io::Result<()>;

    /// Asks for the next read to come from the medium, not from a cache. Advice only.
    fn drop_cache(&self) -> io::Result<()>;

    /// Writes zeros over `start..end` (never a hole: the point is that the blocks exist).
    fn zero_fill(&self, start: u64, end: u64) -> io::Result<()> {
        const BLOCK: usize = 256 * 1024;
        let zeros = vec![0_u8; BLOCK.min(usize::try_from(end - start).unwrap_or(BLOCK))];
        let mut at = start;
        while at < end {
            let part = usize::try_from(end - at).unwrap_or(BLOCK).min(BLOCK);
            self.write_at(&zeros[..part], at)?;
            at += part as u64;
        }
        Ok(())
    }
}

/// Keeps the directory locked while it lives.
pub struct LockGuard(#[expect(dead_code, reason = "held for its Drop")] Box<dyn Any + Send + Sync>);

impl LockGuard {
    /// Wraps whatever releases the lock when dropped.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self(Box::new(held))
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockGuard")
    }
}

/// Locks the directory, or says that somebody else has it.
pub fn lock(disk: &dyn Disk) -> Result<LockGuard, crate::OpenError> {
    disk.lock().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => crate::OpenError::Locked,
        _ => crate::OpenError::io(LOCK_FILE, error),
    })
}

/// Name of the lock file.
pub const LOCK_FILE: &str = "LOCK";

/// Reads a whole file into memory.
pub(crate) fn read_all(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let size = usize::try_from(file.size()?).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut bytes = vec![0; size];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Writes `bytes` as `path` so that a crash leaves the old file, or the new one, never a mixture:
/// beside it, synced, renamed, directory synced. Durable on return.
pub(crate) fn replace(disk: &dyn Disk, dir: &str, path: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = format!("{path}.tmp");
    let file = disk.open(&temporary, Open::Create)?;
    file.write_at(bytes, 0)?;
    file.sync_data()?;
    disk.rename(&temporary, path)?;
    disk.sync_dir(dir)
}

/// Removes a file; its absence is no error.
pub(crate) fn remove_if_there(disk: &dyn Disk, path: &str) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
