//! Opening at a mark: check the segments, cut what lies beyond.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, RwLock};

use super::segment::{DIR, Segment, file_name, parse_name};
use super::{History, HistoryMark, HistoryOptions, Shared, Tail, Writer};
use crate::disk::{Disk, DiskFile, Open};
use crate::format::Fault;
use crate::format::superblock::{self, Superblock};
use crate::{Damage, OpenError, Structure};

const SEGMENT_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 30;

impl History {
    /// Opens at a mark: that of the newest durable checkpoint, or `None` before the first one (then
    /// the history starts empty). What was written after the mark is removed. Also says which
    /// superblock copies were repaired.
    ///
    /// Frames are not all read here, but verified whenever they are; a damaged frame does not
    /// prevent opening.
    pub fn open(
        disk: Arc<dyn Disk>,
        mark: Option<&HistoryMark>,
        options: HistoryOptions,
    ) -> Result<(Self, Vec<Damage>), OpenError> {
        if !SEGMENT_BYTES.contains(&options.segment_bytes) {
            return Err(OpenError::InvalidOption { what: "history segments have 64 KiB to 1 GiB" });
        }
        disk.create_dir(DIR).map_err(|error| OpenError::io(DIR, error))?;
        let mark = mark.copied().unwrap_or(HistoryMark::START);
        remove_unmarked(&*disk, mark.segment)?;
        let mut repaired = Vec::new();
        let mut found = Vec::new();
        for number in 1..=mark.segment {
            found.push(open_segment(&*disk, number, options.space, &mut repaired)?);
        }
        let mut segments = BTreeMap::new();
        let mut prior = 0;
        for (place, (superblock, file, size)) in found.iter().enumerate() {
            let number = superblock.number;
            let failed = |error| OpenError::io(file_name(number), error);
            if superblock.prior != prior {
                return Err(damaged(number, *size, "the segment does not follow the one before"));
            }
            let next = found.get(place + 1).map(|(next, ..)| next.prior);
            let last = next.is_none();
            let end = next.map_or(Some(mark.length), |next| next.checked_sub(prior));
            let Some(end) = end.filter(|end| *end <= *size && (last || *end == *size)) else {
                return Err(damaged(number, *size, "the file is not of its proper length"));
            };
            if *size > end {
                file.set_size(end).and_then(|()| file.sync_data()).map_err(failed)?;
            }
            let segment = Segment::found(number, file.clone(), superblock.first, end, last)
                .map_err(failed)?;
            segments.insert(number, Arc::new(segment));
            if !last {
                prior += end;
            }
        }
        let end = mark.length;
        let tail = Tail { start: end, bytes: Vec::new() };
        let shared = Shared { segments, end, next: mark.next, chain: mark.chain, tail };
        let writer = Writer {
            prior,
            durable: mark,
            dirty: BTreeMap::new(),
            names_dirty: false,
            poisoned: false,
        };
        let history = Self {
            disk,
            options,
            shared: RwLock::new(shared),
            writer: Mutex::new(writer),
            syncing: Mutex::new(()),
        };
        Ok((history, repaired))
    }
}

fn damaged(number: u32, size: u64, what: &'static str) -> OpenError {
    let structure = Structure::HistorySegment;
    OpenError::Damaged(Damage::new(file_name(number), 0, size, structure, what))
}

fn remove_unmarked(disk: &dyn Disk, newest: u32) -> Result<(), OpenError> {
    let names = disk.list(DIR).map_err(|error| OpenError::io(DIR, error))?;
    let mut removed = false;
    for name in names {
        if parse_name(&name).is_some_and(|number| number > newest) {
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

fn open_segment(
    disk: &dyn Disk,
    number: u32,
    space: [u8; 16],
    repaired: &mut Vec<Damage>,
) -> Result<(Superblock, Arc<dyn DiskFile>, u64), OpenError> {
    let name = file_name(number);
    let failed = |error| OpenError::io(file_name(number), error);
    let file = disk.open(&name, Open::Write).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => damaged(number, 0, "the file is missing"),
        _ => failed(error),
    })?;
    let mut area = vec![0; superblock::AREA];
    file.read_at(&mut area, 0).map_err(failed)?;
    let read = superblock::read_area(superblock::Kind::History, &area);
    let superblock = read.superblock.map_err(|fault| match fault {
        Fault::Version(found) => OpenError::Version { file: name.clone(), found },
        fault => {
            let (size, what) = (superblock::AREA as u64, fault.what());
            OpenError::Damaged(Damage::new(&*name, 0, size, Structure::Superblock, what))
        }
    })?;
    if superblock.space != space {
        return Err(OpenError::OtherSpace { file: name });
    }
    let size = file.size().map_err(failed)?;
    if superblock.number != number {
        return Err(damaged(number, size, "the segment of another number"));
    }
    for (at, fault) in read.bad {
        let written = file.write_at(&superblock.encode(), at as u64);
        written.and_then(|()| file.sync_data()).map_err(failed)?;
        let (at, size) = (at as u64, superblock::SIZE as u64);
        repaired.push(Damage::new(&*name, at, size, Structure::Superblock, fault.what()));
    }
    Ok((superblock, file, size))
}
