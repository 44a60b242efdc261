//! An open file of the simulated disk.

use std::io;

use anabranch_store::DiskFile;

use super::{Change, Pending, SimDisk, answered, site};

/// A handle; it outlives the name, and a restart kills it.
pub(super) struct SimFile {
    pub(super) disk: SimDisk,
    pub(super) id: u64,
    pub(super) writable: bool,
}

impl SimFile {
    fn alter(&self, code: usize, change: Change) -> io::Result<()> {
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut state = self.disk.state();
        let name = state.name_of(self.id);
        let alive = state.operate(code, &name)?;
        let end = match &change {
            Change::Write { offset, bytes } => {
                state.monitor.trace.number(*offset as u64);
                state.monitor.trace.bytes(bytes);
                let journal = name.starts_with("journal/") && name.ends_with(".seg");
                state.journal_written |= journal && bytes.iter().any(|byte| *byte != 0);
                if bytes.is_empty() { 0 } else { offset + bytes.len() }
            }
            Change::SetSize(size) => {
                state.monitor.trace.number(*size as u64);
                *size
            }
        };
        if end > state.content(self.id).current.len() {
            state.grow()?;
        }
        let content = state.content(self.id);
        change.apply(&mut content.current);
        content.pending.push(Pending { change, own: true });
        answered(alive)
    }
}

fn to_usize(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput.into())
}

impl DiskFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let offset = to_usize(offset)?;
        let mut state = self.disk.state();
        state.alive()?;
        let bytes = &state.content(self.id).current;
        let rest = bytes.get(offset..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.alter(7, Change::Write { offset: to_usize(offset)?, bytes: bytes.to_vec() })
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let name = state.name_of(self.id);
        answered(state.operate(8, &name)?)?;
        let phase = state.phase;
        let operations = state.operations;
        let content = state.content(self.id);
        let site = site::of_file(phase, &name, content);
        if state.fail_sync_from.is_some_and(|from| operations >= from) {
            state.fail_sync_from = None;
            state.monitor.failed_syncs += 1;
            state.content(self.id).pending.clear();
            return Err(io::Error::other("the simulated fsync failed"));
        }
        if state.honours(site) {
            let content = state.content(self.id);
            for pending in std::mem::take(&mut content.pending) {
                pending.change.apply(&mut content.durable);
            }
        }
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        let mut state = self.disk.state();
        state.alive()?;
        Ok(state.content(self.id).current.len() as u64)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.alter(9, Change::SetSize(to_usize(size)?))
    }

    fn drop_cache(&self) -> io::Result<()> {
        // Dirty pages stay. Clean ones may differ from the medium after a failed sync: forget them.
        let mut state = self.disk.state();
        state.alive()?;
        let content = state.content(self.id);
        if content.pending.is_empty() {
            content.current.clone_from(&content.durable);
        }
        Ok(())
    }
}
