//! Opening a journal: read everything past the cache, analyse, repair or refuse, clear the cut.
//!
//! Order of the writes, so that a crash in between finds nothing worse on the next opening: bytes
//! to be given up are copied aside first; then newer segments are cleared before older ones, and
//! in each the identifiers (durably) before the records: what remains looks ever more like an
//! interrupted flush, never like damage.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use super::analysis::{Analysis, Scanned, Stop, analyse};
use super::scan::scan;
use super::segment::{self, DATA_START, DIR, Geometry, Segment, aside_name, file_name, parse_name};
use super::{Journal, JournalOptions, JournalRecord, Known, Ordinal, Recovered, SegmentJob, Torn};
use crate::disk::{self, Disk, Open};
use crate::format::Fault;
use crate::format::envelope;
use crate::format::identifier;
use crate::format::record::{Kind, Summary};
use crate::format::superblock::{self, Superblock};
use crate::recovery::Action;
use crate::{AppendError, Damage, OpenError, Structure};

/// A segment with what a scan said of it.
struct Opened {
    segment: Arc<Segment>,
    scanned: Scanned,
    superblock_bad: Vec<usize>,
}

impl Journal {
    /// Opens the journal, or creates it (see [`JournalOptions::create`]).
    ///
    /// On return everything in [`Recovered`] is durable, the tail is confirmed, and the bytes after
    /// it are zero. Refuses with [`OpenError::Damaged`] when a record that was durable is bad, and
    /// with [`OpenError::DamagedTail`] when one of the newest flush may have been.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: JournalOptions,
    ) -> Result<(Self, Recovered), OpenError> {
        let geometry = segment::geometry(options.segment_bytes)?;
        disk.create_dir(DIR).map_err(|error| OpenError::io(DIR, error))?;
        let mut numbers = segment_numbers(&*disk)?;
        // A process killed between renaming a segment and syncing the directory left a name that
        // a power cut may still take.
        disk.sync_dir(DIR).map_err(|error| OpenError::io(DIR, error))?;
        if numbers.is_empty() {
            if !options.create {
                return Err(damaged(file_name(1), 0, "there is no journal segment"));
            }
            let (disk, space, made) = (disk.clone(), options.space, Arc::default());
            SegmentJob { disk, number: 1, space, geometry, made }.run()?;
            numbers.push(1);
        } else if numbers[0] > 1 && options.needed_from.0 <= 1 {
            return Err(damaged(file_name(1), 0, "the first segment is missing"));
        }
        let mut opened = Vec::with_capacity(numbers.len());
        for number in numbers {
            opened.push(open_segment(&*disk, number, &options)?);
        }
        let scanned: Vec<_> = opened.iter().map(|opened| &opened.scanned).collect();
        let analysis = analyse(&scanned);
        check(&analysis, &options)?;
        let mut recovered = Recovered { kept_aside: asides(&*disk)?, ..Recovered::default() };
        if let Some(stop) = &analysis.stop
            && stop.row.action == Action::SetAside
        {
            if !options.accept_loss {
                let (damage, records) = (stop.damage.clone(), stop.records);
                return Err(OpenError::DamagedTail { damage, records });
            }
            set_aside(&*disk, &opened, stop, &mut recovered)?;
        }
        let end = analysis.end(opened[0].segment.number);
        recovered.torn = clear_after(&opened, &analysis, end)?;
        repair(&opened, &analysis, options.space, &mut recovered)?;
        resync(&opened, &analysis)?;
        recovered.fill(&analysis);
        let mut journal = Self::assemble(disk, &options, geometry, &opened, &analysis, end)?;
        journal.confirm()?;
        recovered.last = Ordinal(journal.last);
        Ok((journal, recovered))
    }

    fn assemble(
        disk: Arc<dyn Disk>,
        options: &JournalOptions,
        geometry: Geometry,
        opened: &[Opened],
        analysis: &Analysis,
        (mut current, mut slot, mut offset): (u32, u32, u32),
    ) -> Result<Self, OpenError> {
        let last = analysis.kept.last();
        if last.is_some_and(|kept| kept.summary == Summary::Seal) {
            (current, slot, offset) = (current + 1, 0, DATA_START);
        }
        let (used, spares): (Vec<_>, Vec<_>) = opened
            .iter()
            .map(|opened| opened.segment.clone())
            .partition(|segment| segment.number <= current);
        let mut segments = BTreeMap::new();
        for segment in used {
            segments.insert(segment.number, Known { segment, ordinals: None });
        }
        for kept in &analysis.kept {
            let ordinal = kept.at.ordinal.0;
            if let Some(known) = segments.get_mut(&kept.at.segment) {
                known.ordinals =
                    Some((known.ordinals.map_or(ordinal, |(first, _)| first), ordinal));
            }
        }
        let Some(known) = segments.get(&current) else {
            let what = "the journal goes on in this segment, and it is missing";
            return Err(damaged(file_name(current), 0, what));
        };
        let durable = last.map_or(0, |kept| kept.at.ordinal.0);
        Ok(Self {
            disk,
            space: options.space,
            geometry,
            current: known.segment.clone(),
            segments,
            offset,
            slot,
            spares: VecDeque::from(spares),
            job_out: None,
            last: durable,
            durable,
            confirmed: last.is_none_or(|kept| kept.summary.kind() == Kind::Confirm),
            flush: analysis.newest_flush + 1,
            pending: Vec::new(),
            pending_count: 0,
            in_flight: None,
            poisoned: false,
        })
    }

    /// Makes the tail a confirmed one, so that later damage there is known to be damage.
    fn confirm(&mut self) -> Result<(), OpenError> {
        if !self.unconfirmed() {
            return Ok(());
        }
        match self.append(&JournalRecord::Confirm) {
            Ok(_) => {}
            // The next record will be in the next segment and confirms just as well.
            Err(AppendError::NeedsSegment) => return Ok(()),
            Err(error) => return Err(OpenError::io(DIR, io::Error::other(error))),
        }
        if let Some(flush) = self.take_flush() {
            let result = flush.run();
            let kind = result.as_ref().err().map(io::Error::kind);
            if self.complete_flush(flush, result).is_err() {
                let error = kind.unwrap_or(io::ErrorKind::Other).into();
                return Err(OpenError::io(self.current.name(), error));
            }
        }
        Ok(())
    }
}

fn damaged(file: String, length: u64, what: &'static str) -> OpenError {
    OpenError::Damaged(Damage::new(file, 0, length, Structure::Segment, what))
}

/// Numbers of the segment files, dense; removes what an interrupted creation left.
fn segment_numbers(disk: &dyn Disk) -> Result<Vec<u32>, OpenError> {
    let names = disk.list(DIR).map_err(|error| OpenError::io(DIR, error))?;
    let mut numbers = Vec::new();
    for name in names {
        if name.strip_suffix(".tmp").is_some() {
            let path = format!("{DIR}/{name}");
            disk.remove(&path).map_err(|error| OpenError::io(path, error))?;
        } else {
            numbers.extend(parse_name(&name));
        }
    }
    numbers.sort_unstable();
    for pair in numbers.windows(2) {
        if pair[0] + 1 != pair[1] {
            return Err(damaged(file_name(pair[0] + 1), 0, "a segment between others is missing"));
        }
    }
    Ok(numbers)
}

fn asides(disk: &dyn Disk) -> Result<Vec<String>, OpenError> {
    let names = disk.list(DIR).map_err(|error| OpenError::io(DIR, error))?;
    let asides = names.into_iter().filter(|name| name.strip_suffix(".aside").is_some());
    Ok(asides.map(|name| format!("{DIR}/{name}")).collect())
}

/// Checks a segment's size and superblock; says which copies are bad.
pub(crate) fn check_superblock(
    name: &str,
    number: u32,
    bytes: &[u8],
) -> Result<(Superblock, Geometry, Vec<usize>), OpenError> {
    let area = superblock::read_area(superblock::Kind::Journal, bytes);
    let size = bytes.len() as u64;
    let superblock = area.superblock.map_err(|fault| match fault {
        Fault::Version(found) => OpenError::Version { file: name.to_owned(), found },
        fault => OpenError::Damaged(Damage::new(
            name,
            0,
            superblock::AREA as u64,
            Structure::Superblock,
            fault.what(),
        )),
    })?;
    let geometry = Geometry::new(superblock.size)
        .filter(|_| superblock.size == size)
        .ok_or_else(|| damaged(name.to_owned(), size, "the file is not of its proper size"))?;
    if superblock.number != number {
        return Err(damaged(name.to_owned(), size, "the segment of another number"));
    }
    Ok((superblock, geometry, area.bad.into_iter().map(|(at, _)| at).collect()))
}

fn open_segment(
    disk: &dyn Disk,
    number: u32,
    options: &JournalOptions,
) -> Result<Opened, OpenError> {
    let name = file_name(number);
    let failed = |error| OpenError::io(file_name(number), error);
    let file = disk.open(&name, Open::Write).map_err(failed)?;
    // A failed fsync leaves pages in the cache that the medium does not have.
    file.drop_cache().map_err(failed)?;
    let bytes = disk::read_all(&*file).map_err(failed)?;
    let (superblock, geometry, superblock_bad) = check_superblock(&name, number, &bytes)?;
    if superblock.space != options.space {
        return Err(OpenError::OtherSpace { file: name });
    }
    let scanned = Scanned { number, geometry, scan: scan(&bytes, geometry) };
    Ok(Opened { segment: Arc::new(Segment { number, file, geometry }), scanned, superblock_bad })
}

/// Refuses what must be refused whatever the permissions.
fn check(analysis: &Analysis, options: &JournalOptions) -> Result<(), OpenError> {
    if let Some(damage) = analysis.damaged.first() {
        return Err(OpenError::Damaged(damage.clone()));
    }
    let needed = options.needed_from.0.max(1);
    if analysis.first.unwrap_or(1) > needed {
        return Err(damaged(DIR.to_owned(), 0, "the journal begins after what is needed"));
    }
    let next = analysis.kept.last().map_or(1, |kept| kept.at.ordinal.0 + 1);
    if next < needed && analysis.stop.as_ref().is_none_or(|stop| stop.ordinal < needed) {
        return Err(damaged(DIR.to_owned(), 0, "the journal ends before what is needed"));
    }
    Ok(())
}

/// Copies the bytes to be given up into files of their own, durably.
fn set_aside(
    disk: &dyn Disk,
    opened: &[Opened],
    stop: &Stop,
    recovered: &mut Recovered,
) -> Result<(), OpenError> {
    for opened in opened.iter().filter(|opened| opened.segment.number >= stop.segment) {
        let Some(remains) = remains(opened, (stop.segment, stop.slot, stop.offset)) else {
            continue;
        };
        let name = aside_name(opened.segment.number, stop.ordinal);
        let failed = |error| OpenError::io(aside_name(opened.segment.number, stop.ordinal), error);
        let mut content = opened.segment.number.to_le_bytes().to_vec();
        for (start, end) in [remains.data, remains.identifiers] {
            content.extend_from_slice(&start.to_le_bytes());
            content.extend_from_slice(&(end - start).to_le_bytes());
            let mut bytes = vec![0; (end - start) as usize];
            opened.segment.file.read_at(&mut bytes, start.into()).map_err(failed)?;
            content.extend_from_slice(&bytes);
        }
        let bytes = envelope::encode(envelope::ASIDE, &content);
        disk::replace(disk, DIR, &name, &bytes).map_err(failed)?;
        if !recovered.kept_aside.contains(&name) {
            recovered.kept_aside.push(name);
        }
    }
    Ok(())
}

/// Non-zero bytes of a segment after a place in the journal, as (start, end) in the file.
struct Remains {
    data: (u32, u32),
    identifiers: (u32, u32),
}

fn remains(opened: &Opened, (number, slot, offset): (u32, u32, u32)) -> Option<Remains> {
    let (slot, offset) = match opened.segment.number.cmp(&number) {
        std::cmp::Ordering::Less => return None,
        std::cmp::Ordering::Equal => (slot, offset),
        std::cmp::Ordering::Greater => (0, DATA_START),
    };
    let scan = &opened.scanned.scan;
    let start = opened.segment.geometry.identifiers_start();
    let size = identifier::BYTES;
    let identifiers = (start + slot * size, start + scan.slots_used.max(slot) * size);
    let data = (offset, scan.data_used.max(offset));
    let any = data.0 < data.1 || identifiers.0 < identifiers.1;
    any.then_some(Remains { data, identifiers })
}

/// Zeroes everything after the end, newest segment first, identifiers before records.
fn clear_after(
    opened: &[Opened],
    analysis: &Analysis,
    end: (u32, u32, u32),
) -> Result<Option<Torn>, OpenError> {
    let mut torn = None;
    for opened in opened.iter().rev() {
        let Some(Remains { data, identifiers }) = remains(opened, end) else { continue };
        let name = opened.segment.name();
        let file = &opened.segment.file;
        let clear = |(start, end): (u32, u32)| {
            if start < end {
                file.zero_fill(start.into(), end.into())?;
                file.sync_data()?;
            }
            Ok(())
        };
        clear(identifiers).and_then(|()| clear(data)).map_err(|e| OpenError::io(&*name, e))?;
        let next = analysis.kept.last().map_or(1, |kept| kept.at.ordinal.0 + 1);
        let stop = analysis.stop.as_ref();
        torn = Some(Torn {
            file: name,
            offset: if data.0 < data.1 { data.0.into() } else { identifiers.0.into() },
            ordinal: Ordinal(next),
            records: stop.map_or(0, |stop| stop.records),
            why: stop.map_or("bytes after the end of the journal", |stop| stop.row.why),
        });
    }
    Ok(torn)
}

/// Writes superblocks, identifiers and empty records again from their second copies.
fn repair(
    opened: &[Opened],
    analysis: &Analysis,
    space: [u8; 16],
    recovered: &mut Recovered,
) -> Result<(), OpenError> {
    for opened in opened {
        let segment = &opened.segment;
        let failed = |error| OpenError::io(segment.name(), error);
        let mut touched = false;
        for at in &opened.superblock_bad {
            let size = segment.geometry.bytes().into();
            let superblock =
                Superblock::plain(superblock::Kind::Journal, segment.number, space, size);
            segment.file.write_at(&superblock.encode(), *at as u64).map_err(failed)?;
            let what = "written again from the other copy";
            let (at, size) = (*at as u64, superblock::SIZE as u64);
            recovered.repaired.push(Damage::new(
                segment.name(),
                at,
                size,
                Structure::Superblock,
                what,
            ));
            touched = true;
        }
        for repair in analysis.repairs.iter().filter(|repair| repair.segment == segment.number) {
            segment.file.write_at(&repair.bytes, repair.offset.into()).map_err(failed)?;
            recovered.repaired.push(repair.damage.clone());
            touched = true;
        }
        if touched {
            segment.file.sync_data().map_err(failed)?;
        }
    }
    Ok(())
}

/// What the newest flush wrote may still be in the cache only (the process died before its
/// fdatasync returned): make it durable before anything is built on it.
fn resync(opened: &[Opened], analysis: &Analysis) -> Result<(), OpenError> {
    let newest = analysis.kept.iter().rev();
    let newest = newest.take_while(|kept| kept.at.ordinal.0 >= analysis.unconfirmed_from);
    let oldest = newest.map(|kept| kept.at.segment).min().unwrap_or(u32::MAX);
    for opened in opened.iter().filter(|opened| opened.segment.number >= oldest) {
        let synced = opened.segment.file.sync_data();
        synced.map_err(|error| OpenError::io(opened.segment.name(), error))?;
    }
    Ok(())
}

impl Recovered {
    fn fill(&mut self, analysis: &Analysis) {
        for kept in &analysis.kept {
            match kept.summary {
                Summary::Payload { id, digest } => self.payloads.push((id, digest, kept.at)),
                Summary::Entry { index, term, .. } => {
                    let stays = self.entries.partition_point(|(earlier, ..)| *earlier < index);
                    self.entries.truncate(stays);
                    self.entries.push((index, term, kept.at));
                }
                Summary::Part { term, transaction, part } => {
                    self.parts.push((term, transaction, part, kept.at));
                }
                Summary::Confirm | Summary::Seal => {}
            }
        }
    }
}
