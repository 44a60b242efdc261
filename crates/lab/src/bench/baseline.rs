//! What we are compared with: plain SQLite, and the least that durability costs on this disk.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Condvar, Mutex};

use super::Error;

/// SQLite with WAL and synchronous=FULL: every commit is durable.
pub(super) fn sqlite(path: &Path) -> Result<rusqlite::Connection, Error> {
    let connection = rusqlite::Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT NOT NULL)")?;
    Ok(connection)
}

/// A file that exists in full: zeros, written and synced, so that later writes allocate nothing.
pub(super) struct Preallocated {
    file: File,
    size: u64,
    at: u64,
}

impl Preallocated {
    pub(super) fn create(path: &Path, size: u64) -> Result<Preallocated, Error> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(path)?;
        let zeros = vec![0; 1 << 20];
        for start in (0..size).step_by(zeros.len()) {
            file.write_all_at(&zeros, start)?;
        }
        file.sync_all()?;
        Ok(Preallocated { file, size, at: 0 })
    }

    /// Writes after the last bytes (or at the start again) and waits until they are durable.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let length = bytes.len() as u64;
        if self.at + length > self.size {
            self.at = 0;
        }
        self.file.write_all_at(bytes, self.at)?;
        self.file.sync_data()?;
        self.at += length;
        Ok(())
    }
}

/// The least that group commit is: whoever finds nobody writing writes for all who wait.
pub(super) struct GroupCommit {
    state: Mutex<Group>,
    done: Condvar,
}

struct Group {
    file: Option<Preallocated>,
    waiting: Vec<u8>,
    /// Number of the batch that fills now; smaller ones are durable or being written.
    filling: u64,
    durable: u64,
}

impl GroupCommit {
    pub(super) fn new(file: Preallocated) -> GroupCommit {
        let state = Group { file: Some(file), waiting: Vec::new(), filling: 1, durable: 0 };
        GroupCommit { state: Mutex::new(state), done: Condvar::new() }
    }

    /// Durable on return.
    pub(super) fn append(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut state = self.state.lock().expect("nobody panics here");
        state.waiting.extend_from_slice(bytes);
        let mine = state.filling;
        while state.durable < mine {
            let Some(mut file) = state.file.take() else {
                state = self.done.wait(state).expect("nobody panics here");
                continue;
            };
            let batch = std::mem::take(&mut state.waiting);
            let number = state.filling;
            state.filling += 1;
            drop(state);
            let written = file.append(&batch);
            state = self.state.lock().expect("nobody panics here");
            state.file = Some(file);
            state.durable = number;
            self.done.notify_all();
            written?;
        }
        Ok(())
    }
}
