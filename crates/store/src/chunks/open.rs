//! Opening at a mark: cut what lies beyond, read the index files, scan what has none.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, RwLock};

use super::cache::Cache;
use super::index::{Index, Location};
use super::pack::{DIR, Pack, Writer, file_name, index_name, parse_name};
use super::{ChunkMark, ChunkOptions, ChunkStore, PACK_BYTES, pack_damage};
use crate::disk::{self, Disk, DiskFile, Open, Window};
use crate::format::chunk::{self, Header};
use crate::format::pack_index::{Entry, PackIndex};
use crate::format::superblock::{self};
use crate::format::{Fault, is_zero};
use crate::{Damage, OpenError, Structure};

impl ChunkStore {
    /// Opens at a mark: that of the newest durable checkpoint, or `None` before the first one (then
    /// the store starts empty). What was written after the mark is removed. Also says what was
    /// repaired: superblock copies, chunk headers, index files.
    ///
    /// Contents are not read here, but verified whenever they are ([`Self::get`]).
    pub fn open(
        disk: Arc<dyn Disk>,
        mark: Option<&ChunkMark>,
        options: ChunkOptions,
    ) -> Result<(Self, Vec<Damage>), OpenError> {
        if !PACK_BYTES.contains(&options.pack_bytes) {
            return Err(OpenError::InvalidOption { what: "packs have 64 KiB to 1 GiB" });
        }
        disk.create_dir(DIR).map_err(|error| OpenError::io(DIR, error))?;
        let mark: BTreeMap<u32, u64> =
            mark.map(|mark| mark.packs.iter().copied().collect()).unwrap_or_default();
        let newest = mark.last_key_value().map(|(number, _)| *number);
        remove_unmarked(&*disk, &mark, newest)?;
        let mut index = Index::default();
        let mut repaired = Vec::new();
        let mut active = None;
        for (&number, &length) in &mark {
            let sealed = Some(number) != newest;
            let opened = Opening { disk: &*disk, number, length, space: options.space };
            let pack = Arc::new(opened.pack(&mut repaired)?);
            for entry in opened.entries(&pack.file, sealed, &mut repaired)? {
                let Entry { hash, offset, length } = entry;
                index.insert_written(hash, Location { pack: number, offset, length });
            }
            index.add_pack(pack.clone());
            active = Some(pack);
        }
        index.opened();
        let store = Self {
            cache: Cache::new(options.cache_bytes),
            index: RwLock::new(index),
            writer: Mutex::new(Writer::new(mark, active)),
            syncing: Mutex::new(()),
            disk,
            options,
        };
        Ok((store, repaired))
    }
}

/// Removes packs that the mark does not name, and index files of all but sealed packs.
fn remove_unmarked(
    disk: &dyn Disk,
    mark: &BTreeMap<u32, u64>,
    newest: Option<u32>,
) -> Result<(), OpenError> {
    let names = disk.list(DIR).map_err(|error| OpenError::io(DIR, error))?;
    let mut removed = false;
    for name in names {
        let pack = parse_name(&name, ".pack").is_some_and(|number| !mark.contains_key(&number));
        let index = parse_name(&name, ".idx")
            .is_some_and(|number| !mark.contains_key(&number) || Some(number) == newest);
        if pack || index || name.strip_suffix(".tmp").is_some() {
            let path = format!("{DIR}/{name}");
            disk.remove(&path).map_err(|error| OpenError::io(path, error))?;
            removed = true;
        }
    }
    if removed {
        disk.sync_dir(DIR).map_err(|error| OpenError::io(DIR, error))?;
    }
    Ok(())
}

const SCAN_BLOCK: usize = 1 << 20;

struct Opening<'a> {
    disk: &'a dyn Disk,
    number: u32,
    length: u64,
    space: [u8; 16],
}

impl Opening<'_> {
    fn failed(&self, error: io::Error) -> OpenError {
        OpenError::io(file_name(self.number), error)
    }

    fn pack(&self, repaired: &mut Vec<Damage>) -> Result<Pack, OpenError> {
        let Self { number, length, .. } = *self;
        let name = file_name(number);
        let file = self.disk.open(&name, Open::Write).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => pack_damage(number, 0, "the file is missing"),
            _ => self.failed(error),
        })?;
        let size = file.size().map_err(|error| self.failed(error))?;
        if size < length {
            return Err(pack_damage(number, size, "the file is cut short"));
        }
        if size > length {
            file.set_size(length).and_then(|()| file.sync_data()).map_err(|e| self.failed(e))?;
        }
        let mut area = vec![0; superblock::AREA];
        file.read_at(&mut area, 0).map_err(|error| self.failed(error))?;
        let read = superblock::read_area(superblock::Kind::Pack, &area);
        let superblock = read.superblock.map_err(|fault| match fault {
            Fault::Version(found) => OpenError::Version { file: name.clone(), found },
            fault => {
                let (size, what) = (superblock::AREA as u64, fault.what());
                OpenError::Damaged(Damage::new(&*name, 0, size, Structure::Superblock, what))
            }
        })?;
        if superblock.space != self.space {
            return Err(OpenError::OtherSpace { file: name });
        }
        if superblock.number != number {
            return Err(pack_damage(number, size, "the pack of another number"));
        }
        for (at, fault) in read.bad {
            repair(&*file, at as u64, &superblock.encode()).map_err(|e| self.failed(e))?;
            let (at, size) = (at as u64, superblock::SIZE as u64);
            repaired.push(Damage::new(&*name, at, size, Structure::Superblock, fault.what()));
        }
        Ok(Pack { number, file })
    }

    fn entries(
        &self,
        file: &Arc<dyn DiskFile>,
        sealed: bool,
        repaired: &mut Vec<Damage>,
    ) -> Result<Vec<Entry>, OpenError> {
        if sealed {
            match self.read_index()? {
                Ok(entries) => return Ok(entries),
                Err(damage) => repaired.push(damage),
            }
        }
        let mut entries = Vec::new();
        let mut scan = Scan::new(file.clone(), self.length);
        while let Some(found) = scan.next().map_err(|error| self.failed(error))? {
            let size = found.size;
            let damage = |what| {
                Damage::new(file_name(self.number), found.offset, size, Structure::Chunk, what)
            };
            match found.chunk {
                Ok(entry) => entries.push(entry),
                Err(fault) => {
                    let Some(header) = scan.salvage(&found).map_err(|e| self.failed(e))? else {
                        return Err(OpenError::Damaged(damage(fault.what())));
                    };
                    repair(&**file, found.offset, &header.encode()).map_err(|e| self.failed(e))?;
                    repaired.push(damage("the header was written again from the content"));
                    entries.extend(entry(found.offset, header));
                }
            }
        }
        if sealed {
            let (number, bytes) = (self.number, self.length);
            let index = PackIndex { pack: number, bytes, entries };
            disk::replace(self.disk, DIR, &index_name(number), &index.encode())
                .map_err(|error| OpenError::io(index_name(number), error))?;
            return Ok(index.entries);
        }
        Ok(entries)
    }

    /// The entries of the index file, or why it cannot be used.
    fn read_index(&self) -> Result<Result<Vec<Entry>, Damage>, OpenError> {
        let name = index_name(self.number);
        let unusable =
            |size, what| Ok(Err(Damage::new(&*name, 0, size, Structure::PackIndex, what)));
        let bytes = match self.disk.open(&name, Open::Read) {
            Ok(file) => disk::read_all(&*file).map_err(|error| OpenError::io(&*name, error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return unusable(0, "the file is missing");
            }
            Err(error) => return Err(OpenError::io(name, error)),
        };
        let size = bytes.len() as u64;
        match PackIndex::decode(&bytes) {
            Ok(index) if index.pack == self.number && index.bytes == self.length => {
                Ok(Ok(index.entries))
            }
            Ok(_) => unusable(size, "the index of another pack"),
            Err(fault) => unusable(size, fault.what()),
        }
    }
}

fn repair(file: &dyn DiskFile, offset: u64, bytes: &[u8]) -> io::Result<()> {
    file.write_at(bytes, offset)?;
    file.sync_data()
}

fn entry(offset: u64, header: Header) -> Option<Entry> {
    let offset = u32::try_from(offset).ok()?;
    Some(Entry { hash: header.hash, offset, length: header.length })
}

/// Walks the chunks of a pack by their headers.
pub(crate) struct Scan {
    window: Window,
    end: u64,
    at: u64,
}

/// One chunk, or the bytes where one should be.
pub(crate) struct Found {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) chunk: Result<Entry, Fault>,
}

impl Scan {
    pub(crate) fn new(file: Arc<dyn DiskFile>, end: u64) -> Self {
        Self { window: Window::new(file, end, SCAN_BLOCK), end, at: superblock::AREA as u64 }
    }

    /// Goes on at `offset`, if that is further.
    pub(crate) fn skip_to(&mut self, offset: u64) {
        self.at = self.at.max(offset);
    }

    pub(crate) fn next(&mut self) -> io::Result<Option<Found>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let offset = self.at;
        let header = Header::decode(self.window.get(offset, chunk::HEADER)?);
        let chunk = header.and_then(|header| {
            let fits = offset + header.size() <= self.end;
            fits.then(|| entry(offset, header))
                .flatten()
                .ok_or(Fault::Bad("reaches beyond the end"))
        });
        let size = match &chunk {
            Ok(entry) => chunk::size(entry.length),
            Err(_) => self.next_header(offset)? - offset,
        };
        self.at = offset + size;
        Ok(Some(Found { offset, size, chunk }))
    }

    /// Where the next intact header is, or the end.
    fn next_header(&mut self, offset: u64) -> io::Result<u64> {
        let mut at = offset + 8;
        while at + chunk::HEADER as u64 <= self.end {
            if Header::decode(self.window.get(at, chunk::HEADER)?).is_ok() {
                return Ok(at);
            }
            at += 8;
        }
        Ok(self.end)
    }

    /// The whole chunk found: header, content, padding.
    pub(crate) fn bytes(&mut self, found: &Found) -> io::Result<&[u8]> {
        self.window.get(found.offset, usize::try_from(found.size).unwrap_or(usize::MAX))
    }

    /// The right header for a chunk whose header is damaged but whose content is not: the content
    /// names itself, so only its length has to be found.
    pub(crate) fn salvage(&mut self, found: &Found) -> io::Result<Option<Header>> {
        let largest = chunk::size(chunk::CONTENT_MAX);
        if found.size > largest {
            return Ok(None);
        }
        let bytes = self.bytes(found)?;
        let Some((header, rest)) = bytes.split_at_checked(chunk::HEADER) else { return Ok(None) };
        let (said_length, said_hash) = (header.get(8..12), header.get(12..44));
        let candidates = (0..8).filter_map(|padding| {
            let (content, padding) = rest.split_at_checked(rest.len().checked_sub(padding)?)?;
            let length = u32::try_from(content.len()).ok()?;
            let usable = length > 0 && length <= chunk::CONTENT_MAX && is_zero(padding);
            usable.then(|| Header { length, hash: chunk::hash(content) })
        });
        let candidates: Vec<_> = candidates.collect();
        let by_hash = candidates.iter().find(|header| said_hash == Some(&header.hash[..]));
        let by_length = || {
            candidates.iter().find(|header| said_length == Some(&header.length.to_le_bytes()[..]))
        };
        Ok(by_hash.or_else(by_length).copied())
    }
}
