//! Pack files: names, appending, reading, index files.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::index::Location;
use crate::disk::{self, Disk, DiskFile, Open};
use crate::format::chunk::{self, Header};
use crate::format::pack_index::{self, PackIndex};
use crate::format::superblock::{self, Superblock};
use crate::{Damage, Poisoned, ReadError, Structure, WriteError};

pub(crate) const DIR: &str = "chunks";
/// Chunks are written when so many bytes have gathered.
const BUFFER_BYTES: usize = 256 << 10;

pub(crate) fn file_name(number: u32) -> String {
    format!("{DIR}/{number:010}.pack")
}

pub(crate) fn index_name(number: u32) -> String {
    format!("{DIR}/{number:010}.idx")
}

/// The number in the name (without directory) of a pack, or of an index file.
pub(crate) fn parse_name(name: &str, ending: &str) -> Option<u32> {
    let number = name.strip_suffix(ending)?;
    (number.len() == 10).then_some(())?;
    number.parse().ok().filter(|number| *number > 0)
}

/// An open pack.
pub(super) struct Pack {
    pub(super) number: u32,
    pub(super) file: Arc<dyn DiskFile>,
}

/// Reads one chunk and verifies it against its name.
pub(super) fn read(
    pack: &Pack,
    hash: [u8; 32],
    location: Location,
) -> Result<Arc<[u8]>, ReadError> {
    let Location { offset, length, .. } = location;
    let name = || file_name(pack.number);
    let mut content = vec![0; length as usize];
    let start = u64::from(offset) + chunk::HEADER as u64;
    let read = pack.file.read_at(&mut content, start);
    let read = read.map_err(|error| ReadError::io(name(), error))?;
    if read != content.len() || chunk::hash(&content) != hash {
        let what =
            if read == content.len() { "content does not match its hash" } else { "cut short" };
        let (offset, size) = (offset.into(), chunk::size(length));
        return Err(ReadError::Corrupt(Damage::new(name(), offset, size, Structure::Chunk, what)));
    }
    Ok(content.into())
}

/// Appends to the active pack, through a buffer. Packs before the active one are sealed.
pub(super) struct Writer {
    active: Option<Arc<Pack>>,
    /// Bytes of the active pack, the buffer included.
    length: u64,
    buffer: Vec<u8>,
    /// Length of every pack at its last sync.
    durable: BTreeMap<u32, u64>,
    /// Packs written since their last sync, with their length.
    dirty: BTreeMap<u32, (Arc<Pack>, u64)>,
    names_dirty: bool,
    /// Sealed and without index file.
    sealed: Vec<u32>,
    newest: u32,
    poisoned: bool,
}

impl Writer {
    /// After opening: `packs` with their durable lengths, the last one going on as active.
    pub(super) fn new(packs: BTreeMap<u32, u64>, active: Option<Arc<Pack>>) -> Self {
        let length = active.as_ref().and_then(|active| packs.get(&active.number).copied());
        Self {
            length: length.unwrap_or(0),
            active,
            buffer: Vec::new(),
            newest: packs.last_key_value().map_or(0, |(number, _)| *number),
            durable: packs,
            dirty: BTreeMap::new(),
            names_dirty: false,
            sealed: Vec::new(),
            poisoned: false,
        }
    }

    pub(super) fn poisoned(&self) -> bool {
        self.poisoned
    }

    pub(super) fn active(&self) -> Option<u32> {
        self.active.as_ref().map(|pack| pack.number)
    }

    pub(super) fn buffer_is_full(&self) -> bool {
        self.buffer.len() >= BUFFER_BYTES
    }

    /// Whether the active pack has no room for `size` more bytes. A pack takes at least one chunk.
    pub(super) fn is_full(&self, size: u64, pack_bytes: u64) -> bool {
        let empty = self.length <= superblock::AREA as u64;
        self.active.is_none() || (!empty && self.length + size > pack_bytes)
    }

    /// Seals the active pack (flushed before) and creates the next one.
    pub(super) fn next_pack(
        &mut self,
        disk: &dyn Disk,
        space: [u8; 16],
    ) -> Result<Arc<Pack>, WriteError> {
        assert!(self.buffer.is_empty(), "the caller has flushed");
        if self.poisoned {
            return Err(Poisoned.into());
        }
        let number = self.newest + 1;
        let name = file_name(number);
        let superblock = Superblock::plain(superblock::Kind::Pack, number, space, 0);
        let create = || -> io::Result<Arc<dyn DiskFile>> {
            let file = disk.open(&name, Open::Create)?;
            file.write_at(&superblock.area(), 0)?;
            Ok(file)
        };
        let file = create().map_err(|error| {
            let _ = disk.remove(&name);
            WriteError::io(name.clone(), error)
        })?;
        if let Some(sealed) = self.active() {
            self.sealed.push(sealed);
        }
        let pack = Arc::new(Pack { number, file });
        self.newest = number;
        self.length = superblock::AREA as u64;
        self.names_dirty = true;
        self.dirty.insert(number, (pack.clone(), self.length));
        self.active = Some(pack.clone());
        Ok(pack)
    }

    /// Adds a chunk to the buffer; says where it will be.
    pub(super) fn push(&mut self, header: Header, content: &[u8]) -> (u32, u32) {
        let pack = self.active().expect("the caller has made sure of an active pack");
        let offset = u32::try_from(self.length).expect("packs are at most 1 GiB and a chunk");
        let size = header.size();
        let end = self.buffer.len() + usize::try_from(size).expect("at most 8 MiB");
        self.buffer.extend_from_slice(&header.encode());
        self.buffer.extend_from_slice(content);
        self.buffer.resize(end, 0);
        self.length += size;
        (pack, offset)
    }

    /// Writes the buffer. On failure it is kept: the same call may succeed later.
    pub(super) fn flush(&mut self) -> Result<(), WriteError> {
        if self.poisoned {
            return Err(Poisoned.into());
        }
        let Some(active) = self.active.clone().filter(|_| !self.buffer.is_empty()) else {
            return Ok(());
        };
        let offset = self.length - self.buffer.len() as u64;
        let written = active.file.write_at(&self.buffer, offset);
        written.map_err(|error| WriteError::io(file_name(active.number), error))?;
        self.buffer.clear();
        self.dirty.insert(active.number, (active, self.length));
        Ok(())
    }

    /// What was flushed and is not durable, to be synced without holding the writer.
    pub(super) fn take_unsynced(&mut self) -> Unsynced {
        assert!(self.buffer.is_empty(), "the caller has flushed");
        let packs = std::mem::take(&mut self.dirty);
        Unsynced { packs, names: std::mem::take(&mut self.names_dirty) }
    }

    /// Ends a sync. A failure poisons.
    pub(super) fn synced(
        &mut self,
        unsynced: Unsynced,
        result: Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        self.poisoned |= result.is_err();
        result?;
        for (number, (_, length)) in unsynced.packs {
            self.durable.insert(number, length);
        }
        Ok(())
    }

    /// Packs and their durable lengths.
    pub(super) fn durable(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.durable.iter().map(|(number, length)| (*number, *length))
    }

    pub(super) fn forget(&mut self, number: u32) {
        self.durable.remove(&number);
    }

    /// Puts a pack back whose index file could not be written.
    pub(super) fn seal_again(&mut self, number: u32) {
        self.sealed.push(number);
    }

    pub(super) fn take_sealed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.sealed)
    }
}

/// Packs (with their lengths) and names that wait for a sync.
pub(super) struct Unsynced {
    packs: BTreeMap<u32, (Arc<Pack>, u64)>,
    names: bool,
}

impl Unsynced {
    pub(super) fn run(&self, disk: &dyn Disk) -> Result<(), WriteError> {
        for (number, (pack, _)) in &self.packs {
            let synced = pack.file.sync_data();
            synced.map_err(|error| WriteError::io(file_name(*number), error))?;
        }
        if self.names {
            disk.sync_dir(DIR).map_err(|error| WriteError::io(DIR, error))?;
        }
        Ok(())
    }
}

/// Writes the index file of a sealed pack, beside and renamed.
pub(super) fn write_index(
    disk: &dyn Disk,
    pack: &Pack,
    entries: Vec<pack_index::Entry>,
) -> Result<(), WriteError> {
    let name = index_name(pack.number);
    let failed = |error| WriteError::io(index_name(pack.number), error);
    let bytes = pack.file.size().map_err(failed)?;
    let index = PackIndex { pack: pack.number, bytes, entries };
    disk::replace(disk, DIR, &name, &index.encode()).map_err(failed)
}
