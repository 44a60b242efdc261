//! The SQLite VFS of this crate: a database file is a private clone of a page map.
//!
//! What SQLite may rely on, and what this VFS relies on:
//! - One connection per file. Names are private and used once, so that locks are always granted,
//!   nobody else changes the file, and the pages under an open connection are never swapped (two
//!   page sets can look alike to SQLite's cache; a stale page or schema would be the result).
//! - Writes are whole pages. They go to an overlay of dirty pages in memory; the map they started
//!   from is not touched. Spilled pages of a large transaction land there as well.
//! - `xSync` of the database happens once per commit, after every constraint was checked, with
//!   `synchronous=NORMAL` and a rollback journal in memory. It hands the dirty pages to the
//!   handler installed for that commit; without one it fails, so nothing commits by accident.
//! - A failed read, write or sync is remembered, typed, in the file; SQLite sees an I/O error.
//! - Temporary files live in memory and are bounded. There are no journals, no WAL, no shared
//!   memory and no paths.
//! - Randomness is fixed; the clock can be fixed for the calling thread.

mod ffi;
mod file;

pub(crate) use ffi::{SyncHandler, open_name, register, replace_random, with_handler};
pub(crate) use file::{BranchFile, FileFailure, Staged};

use std::cell::Cell;

/// Name under which the VFS is registered with SQLite.
pub(crate) const VFS_NAME: &str = "anabranch";

thread_local! {
    static NOW_MS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Fixes SQLite's clock for this thread until it is dropped.
pub(crate) struct ClockGuard {
    before: Option<u64>,
}

impl ClockGuard {
    pub(crate) fn set(now_ms: Option<u64>) -> ClockGuard {
        ClockGuard { before: NOW_MS.replace(now_ms) }
    }
}

impl Drop for ClockGuard {
    fn drop(&mut self) {
        NOW_MS.set(self.before);
    }
}

/// Milliseconds since 1970 as SQLite should see them on this thread.
fn now_ms() -> u64 {
    NOW_MS.get().unwrap_or_else(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    })
}
