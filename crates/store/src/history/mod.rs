//! The history: every applied operation, in index order.
//!
//! Frames are appended to segments; a segment is sealed when the next frame would make it longer
//! than a fixed size, so where segments end depends on the content alone and every replica writes
//! the same bytes. Nothing is durable before [`History::sync`]; a checkpoint keeps the
//! [`HistoryMark`] of a sync, and opening at a mark cuts what was written later (replay appends it
//! again, byte for byte).
//!
//! Invariants:
//! - `frame.first` is [`History::next`] at the time of the append; `next` grows by `frame.count`.
//! - `frame.chain` is [`chain::next`] of the link before it.
//! - The superblock of a segment holds the bytes of all segments before it, so that none can
//!   become shorter unnoticed.
//!
//! Any number of threads may read while one appends; reads do no I/O under a lock.

mod open;
mod segment;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::chain::{self, Link};
use crate::disk::{Disk, Open, Window};
use crate::format::superblock::{self, Superblock};
use crate::format::{crc32c, frame};
use crate::{Damage, Digest, Index, Poisoned, ReadError, Structure, WriteError};
use segment::Segment;

pub(crate) use segment::{DIR, FrameScan, file_name, parse_name};

/// One applied operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its first index.
    pub first: Index,
    /// Indexes it takes (0 when it took none: then `first` is the next free one).
    pub count: u64,
    /// The Raft entry that ordered it.
    pub raft_index: u64,
    /// Digest of its payload.
    pub digest: Digest,
    /// The hash chain after it.
    pub chain: Link,
    /// Opaque; at most [`BODY_BYTES_MAX`].
    pub body: Vec<u8>,
}

/// Longest body of a frame.
pub const BODY_BYTES_MAX: usize = 256 << 20;

/// How far the history is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryMark {
    /// The newest segment; 0 when there is none.
    pub segment: u32,
    /// Its length in bytes.
    pub length: u64,
    /// The index the next frame starts at.
    pub next: Index,
    /// The hash chain so far.
    pub chain: Link,
}

impl HistoryMark {
    /// Before the first frame.
    pub const START: Self = Self { segment: 0, length: 0, next: Index(1), chain: chain::START };
}

/// Sizes.
#[derive(Clone, Copy, Debug)]
pub struct HistoryOptions {
    /// The space, stamped on every segment.
    pub space: [u8; 16],
    /// A segment is sealed when it would grow beyond this many bytes (64 KiB to 1 GiB). Must be
    /// the same on all replicas, and for the life of the space.
    pub segment_bytes: u64,
}

impl HistoryOptions {
    /// Defaults: 16 MiB segments.
    pub fn new(space: [u8; 16]) -> Self {
        Self { space, segment_bytes: 16 << 20 }
    }
}

/// Frames gather in memory until there are so many bytes.
const BUFFER_BYTES: usize = 256 << 10;
const READ_BLOCK: usize = 48 << 10;
const ITERATE_BLOCK: usize = 1 << 20;

/// The history of a space. Share it with an `Arc`; appends take turns.
pub struct History {
    disk: Arc<dyn Disk>,
    options: HistoryOptions,
    shared: RwLock<Shared>,
    /// Taken before `shared`, never the other way round.
    writer: Mutex<Writer>,
    /// Held for a whole sync, so that one never answers before an earlier one has ended.
    syncing: Mutex<()>,
}

/// What readers need.
struct Shared {
    segments: BTreeMap<u32, Arc<Segment>>,
    /// End of the last segment, the tail included.
    end: u64,
    next: Index,
    chain: Link,
    tail: Tail,
}

/// Bytes of the last segment that are not written yet.
#[derive(Default)]
struct Tail {
    start: u64,
    bytes: Vec<u8>,
}

struct Writer {
    /// Bytes in all segments before the last one.
    prior: u64,
    durable: HistoryMark,
    /// Segments written since their last sync.
    dirty: BTreeMap<u32, Arc<Segment>>,
    names_dirty: bool,
    poisoned: bool,
}

/// A place in the history.
#[derive(Clone, Copy)]
struct Cursor {
    segment: u32,
    offset: u64,
}

impl History {
    fn read_shared(&self) -> RwLockReadGuard<'_, Shared> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_shared(&self) -> RwLockWriteGuard<'_, Shared> {
        self.shared.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a frame: readable at once, durable after the next [`Self::sync`]. `first` must be
    /// [`Self::next`] and `chain` the next link (asserted: anything else is a bug of the caller).
    /// A full disk refuses the frame and loses nothing.
    pub fn append(&self, frame: &Frame) -> Result<(), WriteError> {
        if frame.body.len() > BODY_BYTES_MAX {
            let (length, limit) = (frame.body.len() as u64, BODY_BYTES_MAX as u64);
            return Err(WriteError::TooLarge { length, limit });
        }
        let mut writer = self.writer();
        if writer.poisoned {
            return Err(Poisoned.into());
        }
        let (next, link, end, buffered, none) = {
            let shared = self.read_shared();
            let none = shared.segments.is_empty();
            (shared.next, shared.chain, shared.end, shared.tail.bytes.len(), none)
        };
        assert_eq!(frame.first, next, "frames are appended in index order");
        let expected = chain::next(link, frame.digest, frame.first);
        assert!(frame.chain == expected, "the frame carries the next link of the chain");
        let size = frame::size(frame.body.len() as u64);
        let empty = end <= superblock::AREA as u64;
        if none || (!empty && end + size > self.options.segment_bytes) {
            self.write_tail(&mut writer)?;
            self.next_segment(&mut writer)?;
        } else if buffered >= BUFFER_BYTES {
            self.write_tail(&mut writer)?;
        }
        let header = frame::Header {
            length: u32::try_from(frame.body.len()).expect("at most 256 MiB"),
            crc: crc32c(&frame.body),
            first: frame.first.0,
            count: frame.count,
            raft_index: frame.raft_index,
            digest: frame.digest.0,
            chain: frame.chain,
        };
        let mut shared = self.write_shared();
        let offset = shared.end;
        if let Some((_, segment)) = shared.segments.last_key_value() {
            segment.note(frame.first.0, offset);
        }
        let length = shared.tail.bytes.len() + usize::try_from(size).expect("below 1 GiB");
        shared.tail.bytes.extend_from_slice(&header.encode());
        shared.tail.bytes.extend_from_slice(&frame.body);
        shared.tail.bytes.resize(length, 0);
        shared.end += size;
        shared.next = Index(header.end());
        shared.chain = frame.chain;
        Ok(())
    }

    /// Writes the tail. On failure it is kept: the same call may succeed later.
    fn write_tail(&self, writer: &mut Writer) -> Result<(), WriteError> {
        let end = {
            // Only the holder of `writer` changes the tail; readers share this lock.
            let shared = self.read_shared();
            let Some((number, segment)) = shared.segments.last_key_value() else { return Ok(()) };
            if shared.tail.bytes.is_empty() {
                return Ok(());
            }
            let written = segment.file.write_at(&shared.tail.bytes, shared.tail.start);
            written.map_err(|error| WriteError::io(file_name(*number), error))?;
            writer.dirty.insert(*number, segment.clone());
            shared.end
        };
        self.write_shared().tail = Tail { start: end, bytes: Vec::new() };
        Ok(())
    }

    fn next_segment(&self, writer: &mut Writer) -> Result<(), WriteError> {
        let (number, first, chain, prior) = {
            let shared = self.read_shared();
            let newest = shared.segments.last_key_value().map_or(0, |(number, _)| *number);
            (newest + 1, shared.next, shared.chain, writer.prior + shared.end)
        };
        let name = file_name(number);
        let superblock = Superblock {
            kind: superblock::Kind::History,
            number,
            space: self.options.space,
            size: 0,
            first: first.0,
            prior,
            chain,
        };
        let created = self.disk.open(&name, Open::Create);
        let written = created.and_then(|file| {
            file.write_at(&superblock.area(), 0)?;
            Ok(file)
        });
        let file = written.map_err(|error| {
            let _ = self.disk.remove(&name);
            WriteError::io(name.clone(), error)
        })?;
        let segment = Arc::new(Segment::active(number, file, first.0));
        writer.prior = prior;
        writer.names_dirty = true;
        writer.dirty.insert(number, segment.clone());
        let mut shared = self.write_shared();
        if let Some((_, sealed)) = shared.segments.last_key_value() {
            sealed.seal(shared.end);
        }
        shared.segments.insert(number, segment);
        shared.end = superblock::AREA as u64;
        shared.tail = Tail { start: shared.end, bytes: Vec::new() };
        Ok(())
    }

    /// The frame that holds `index`, verified. `Unknown` from [`Self::next`] on.
    pub fn read(&self, index: Index) -> Result<Frame, ReadError> {
        let mut reading = Reading { history: self, block: READ_BLOCK, window: None };
        let mut cursor = self.locate(index)?;
        loop {
            match reading.step(cursor, index.0)? {
                Step::Found(frame, _) => return Ok(frame),
                Step::Before(next) => cursor = next,
                Step::End => return Err(ReadError::Unknown),
            }
        }
    }

    /// A place at or shortly before the frame that holds `index`.
    fn locate(&self, index: Index) -> Result<Cursor, ReadError> {
        let segment = {
            let shared = self.read_shared();
            if index >= shared.next || index.0 == 0 {
                return Err(ReadError::Unknown);
            }
            // The last segment that starts at or before the index holds it.
            let mut starting = shared.segments.values().rev();
            let segment = starting.find(|segment| segment.first <= index.0).cloned();
            segment.ok_or(ReadError::Unknown)?
        };
        let offset = segment.find(index.0)?;
        Ok(Cursor { segment: segment.number, offset })
    }

    /// Frames from the one holding `start` on (those of count 0 in between included), up to the
    /// end as it is when each step is made. After an error the iterator is at its end.
    pub fn iter(&self, start: Index) -> impl Iterator<Item = Result<Frame, ReadError>> + '_ {
        let mut reading = Reading { history: self, block: ITERATE_BLOCK, window: None };
        let mut cursor = match self.locate(start) {
            Ok(cursor) => Ok(Some(cursor)),
            Err(ReadError::Unknown) => Ok(None),
            Err(error) => Err(Some(error)),
        };
        let mut wanted = start.0;
        std::iter::from_fn(move || {
            loop {
                let at = match &mut cursor {
                    Ok(at) => (*at)?,
                    Err(error) => return error.take().map(Err),
                };
                match reading.step(at, wanted) {
                    Ok(Step::Found(frame, next)) => {
                        cursor = Ok(Some(next));
                        wanted = 0;
                        return Some(Ok(frame));
                    }
                    Ok(Step::Before(next)) => cursor = Ok(Some(next)),
                    Ok(Step::End) => return None,
                    Err(error) => {
                        cursor = Ok(None);
                        return Some(Err(error));
                    }
                }
            }
        })
    }

    /// Makes everything appended so far durable; appends and reads go on meanwhile. A failure of
    /// the sync itself poisons; a full disk while writing does not.
    pub fn sync(&self) -> Result<(), WriteError> {
        let _syncing = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let (dirty, names_dirty, mark) = {
            let mut writer = self.writer();
            if writer.poisoned {
                return Err(Poisoned.into());
            }
            self.write_tail(&mut writer)?;
            let dirty = std::mem::take(&mut writer.dirty);
            (dirty, std::mem::take(&mut writer.names_dirty), self.read_shared().mark())
        };
        let run = || -> Result<(), WriteError> {
            for (number, segment) in &dirty {
                let synced = segment.file.sync_data();
                synced.map_err(|error| WriteError::io(file_name(*number), error))?;
            }
            if names_dirty {
                self.disk.sync_dir(DIR).map_err(|error| WriteError::io(DIR, error))?;
            }
            Ok(())
        };
        let result = run();
        let mut writer = self.writer();
        writer.poisoned |= result.is_err();
        result?;
        writer.durable = mark;
        Ok(())
    }

    /// What the last successful [`Self::sync`] made durable.
    pub fn mark(&self) -> HistoryMark {
        self.writer().durable
    }

    /// The index the next frame starts at.
    pub fn next(&self) -> Index {
        self.read_shared().next
    }

    /// The hash chain so far.
    pub fn chain(&self) -> Link {
        self.read_shared().chain
    }
}

impl Shared {
    fn mark(&self) -> HistoryMark {
        let segment = self.segments.last_key_value().map_or(0, |(number, _)| *number);
        HistoryMark { segment, length: self.end, next: self.next, chain: self.chain }
    }
}

/// Reading forward, with the block read last.
struct Reading<'a> {
    history: &'a History,
    block: usize,
    window: Option<(u32, Window)>,
}

enum Step {
    /// A frame that holds the wanted index or starts after it.
    Found(Frame, Cursor),
    /// An earlier frame; go on here.
    Before(Cursor),
    End,
}

/// Where the bytes at a cursor are.
enum Source {
    Memory(Vec<u8>),
    Segment(Arc<Segment>, u64),
    NextSegment,
    End,
}

impl Reading<'_> {
    fn source(&self, at: Cursor) -> Source {
        let shared = self.history.read_shared();
        let last = shared.segments.last_key_value().map_or(0, |(number, _)| *number);
        let Some(segment) = shared.segments.get(&at.segment) else { return Source::End };
        let end = if at.segment == last { shared.end } else { segment.sealed_end() };
        if at.offset >= end {
            return if at.segment == last { Source::End } else { Source::NextSegment };
        }
        if at.segment == last && at.offset >= shared.tail.start {
            let from = usize::try_from(at.offset - shared.tail.start).unwrap_or(usize::MAX);
            let bytes = shared.tail.bytes.get(from..).unwrap_or_default();
            let size = frame::Header::decode(bytes).map_or(0, |header| header.size());
            let size = usize::try_from(size).unwrap_or(0).min(bytes.len());
            return Source::Memory(bytes[..size].to_vec());
        }
        let written = if at.segment == last { shared.tail.start } else { end };
        Source::Segment(segment.clone(), written)
    }

    fn step(&mut self, at: Cursor, wanted: u64) -> Result<Step, ReadError> {
        let Cursor { segment: number, offset } = at;
        let corrupt = |what| {
            let length = frame::HEADER as u64;
            let name = file_name(number);
            ReadError::Corrupt(Damage::new(name, offset, length, Structure::Frame, what))
        };
        let failed = |error| ReadError::io(file_name(number), error);
        let memory;
        let bytes = match self.source(at) {
            Source::End => return Ok(Step::End),
            Source::NextSegment => {
                let offset = superblock::AREA as u64;
                return Ok(Step::Before(Cursor { segment: number + 1, offset }));
            }
            Source::Memory(bytes) => {
                memory = bytes;
                &memory[..]
            }
            Source::Segment(segment, end) => {
                let stale = self.window.as_ref().is_none_or(|(held, _)| *held != number);
                if stale {
                    let window = Window::new(segment.file.clone(), end, self.block);
                    self.window = Some((number, window));
                }
                let (_, window) = self.window.as_mut().expect("just set");
                window.extend_end(end);
                let header =
                    frame::Header::decode(window.get(offset, frame::HEADER).map_err(failed)?)
                        .map_err(|fault| corrupt(fault.what()))?;
                let size = usize::try_from(header.size()).unwrap_or(usize::MAX);
                if wanted >= header.end() && wanted > 0 {
                    return Ok(Step::Before(Cursor {
                        segment: number,
                        offset: offset + header.size(),
                    }));
                }
                window.get(offset, size).map_err(failed)?
            }
        };
        let (header, body) = frame::decode(bytes).map_err(|fault| corrupt(fault.what()))?;
        let next = Cursor { segment: number, offset: offset + header.size() };
        if wanted > 0 && wanted >= header.end() {
            return Ok(Step::Before(next));
        }
        if wanted > 0 && wanted < header.first {
            // The frames in between are damaged beyond recognition.
            return Err(corrupt("the frames before this one cannot be read"));
        }
        let frame = Frame {
            first: Index(header.first),
            count: header.count,
            raft_index: header.raft_index,
            digest: Digest(header.digest),
            chain: header.chain,
            body: body.to_vec(),
        };
        Ok(Step::Found(frame, next))
    }
}
