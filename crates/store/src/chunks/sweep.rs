//! Getting rid of dead chunks.
//!
//! A sweep looks at sealed packs only. From one that is at least half dead the live chunks are
//! copied to the active pack, and the pack is *retired*: its file stays until a checkpoint with a
//! mark that no longer names it is durable, because an opening at the older mark needs it.

use super::{ChunkHandle, ChunkMark, ChunkStore, SweepStart, pack};
use crate::{WriteError, disk};

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Packs that the next mark no longer names.
    pub packs_retired: u64,
    /// Live chunks copied out of them.
    pub chunks_copied: u64,
    /// Dead chunks dropped with them.
    pub chunks_dropped: u64,
}

impl ChunkStore {
    /// Starts a sweep. Take the list of live chunks after this: whatever is put or found from now
    /// on, or was since the start of the sweep before (or since opening), survives it anyway.
    pub fn begin_sweep(&self) -> SweepStart {
        SweepStart(self.write_index().begin_epoch())
    }

    /// Copies live chunks out of packs that are at least half dead, and retires those packs.
    /// `live` must name every chunk that any root, checkpoint or running transaction still needs,
    /// except what `begin_sweep` protects. Damaged chunks that are live stop the sweep: their pack
    /// stays.
    pub fn sweep(
        &self,
        start: SweepStart,
        live: impl Iterator<Item = ChunkHandle>,
    ) -> Result<Swept, WriteError> {
        let SweepStart(epoch) = start;
        self.read_index().touch(live);
        let active = self.writer().active();
        let usage = self.read_index().usage(epoch);
        let mut swept = Swept::default();
        for (number, (live, all)) in usage {
            let candidate = Some(number) != active && !self.read_index().is_retired(number);
            if candidate && live * 2 <= all {
                self.empty_pack(number, epoch, &mut swept)?;
            }
        }
        Ok(swept)
    }

    fn empty_pack(&self, number: u32, epoch: u32, swept: &mut Swept) -> Result<(), WriteError> {
        let places = self.read_index().places_in(number);
        loop {
            let (live, pack) = {
                let index = self.read_index();
                (index.live_in(number, epoch, &places), index.pack(number))
            };
            let Some(pack) = pack else { return Ok(()) };
            for (handle, hash, location) in live {
                let content = pack::read(&pack, hash, location)?;
                let mut writer = self.writer();
                let copy = self.append(&mut writer, hash, &content)?;
                self.write_index().relocate(handle, location, copy, content);
                swept.chunks_copied += 1;
            }
            // Somebody may have found a dead chunk of this pack meanwhile: then copy that, too.
            let retired = self.write_index().retire(number, epoch, &places);
            if let Some(dropped) = retired {
                swept.packs_retired += 1;
                swept.chunks_dropped += dropped.len() as u64;
                for handle in dropped {
                    self.cache.remove(handle);
                }
                return Ok(());
            }
        }
    }

    /// Removes the files of retired packs that `durable`, the mark of the newest durable
    /// checkpoint, does not name. Anything else is left alone.
    pub fn remove_retired(&self, durable: &ChunkMark) -> Result<(), WriteError> {
        let retired = self.read_index().retired();
        let mut removed = false;
        for number in retired {
            if durable.packs.iter().any(|(named, _)| *named == number) {
                continue;
            }
            for name in [pack::index_name(number), pack::file_name(number)] {
                let gone = disk::remove_if_there(&*self.disk, &name);
                gone.map_err(|error| WriteError::io(name, error))?;
            }
            self.write_index().forget_pack(number);
            self.writer().forget(number);
            removed = true;
        }
        if removed {
            let synced = self.disk.sync_dir(pack::DIR);
            synced.map_err(|error| WriteError::io(pack::DIR, error))?;
        }
        Ok(())
    }
}
