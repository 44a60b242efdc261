//! The journal: one physical log for payloads in arrival order, Raft entries and transaction parts.
//!
//! Records go into memory with [`Journal::append`] and to disk with the next flush:
//!
//! ```text
//! append … append   take_flush ──► Flush::run (no lock held) ──► complete_flush
//!                    at most one under way; appends go on meanwhile into the next one
//! ```
//!
//! Invariants:
//! - `durable <= last`; `durable` grows only in [`Journal::complete_flush`] with an `Ok`.
//! - Ordinals are dense over the life of the space; flush numbers only grow.
//! - Nothing of flush f + 1 is written before flush f was completed: that is what makes a flush
//!   *confirmed* by any trace of a later one (see [`crate::recovery`]).
//! - A record never moves; it goes only with its whole segment.
//! - Once a flush has failed the journal is poisoned: no append, no flush, nothing durable.

pub(crate) mod analysis;
mod open;
pub(crate) mod scan;
pub(crate) mod segment;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use crate::disk::Disk;
use crate::format::identifier::{self, Identifier};
use crate::format::record::{self, Header, Kind, Summary};
use crate::format::{Fault, crc32c, padded};
use crate::{AppendError, Damage, Digest, Poisoned, ReadError, Structure, WriteError, WriteId};
use scan::identifier_of;
use segment::{DATA_START, Geometry, Segment};

pub use segment::{PreparedSegment, SegmentJob};

/// Counts journal records of the space from 1, without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ordinal(pub u64);

/// Where a record is. Valid until its segment is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Its ordinal.
    pub ordinal: Ordinal,
    /// Number of the segment.
    pub segment: u32,
    /// First byte in the segment file.
    pub offset: u32,
    /// Bytes, header and padding included.
    pub length: u32,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalRecord {
    /// A write as it arrived (the unordered log).
    Payload {
        /// Who wrote it.
        id: WriteId,
        /// BLAKE3 of `bytes`, as computed by the caller; not checked here.
        digest: Digest,
        /// Opaque.
        bytes: Vec<u8>,
    },
    /// An entry of the Raft log.
    Entry {
        /// Its index.
        index: u64,
        /// Its term.
        term: u64,
        /// Opaque kind.
        kind: u8,
        /// Opaque.
        data: Vec<u8>,
    },
    /// A part of a transaction too large for one record.
    Part {
        /// Term of the leader that stored it.
        term: u64,
        /// Which transaction.
        transaction: u64,
        /// Which part, from 0.
        part: u32,
        /// Opaque.
        bytes: Vec<u8>,
    },
    /// Says that every flush before this record's was durable. Write one when the journal goes
    /// idle: damage of the last records is then known to be damage, not an interrupted write.
    Confirm,
}

/// Sizes and permissions.
#[derive(Clone, Copy, Debug)]
pub struct JournalOptions {
    /// The space, stamped on every segment.
    pub space: [u8; 16],
    /// Bytes of new segment files: a multiple of 64 KiB, 64 KiB to 1 GiB.
    pub segment_bytes: u32,
    /// Records from this ordinal on must be there (a checkpoint's `journal_from`; 1 without one).
    pub needed_from: Ordinal,
    /// An empty directory is a new journal (only right for a new space).
    pub create: bool,
    /// Go on without the records of the newest flush that are damaged; they are moved aside.
    pub accept_loss: bool,
}

impl JournalOptions {
    /// Defaults: 16 MiB segments, everything needed, nothing permitted.
    pub fn new(space: [u8; 16]) -> Self {
        Self {
            space,
            segment_bytes: 16 << 20,
            needed_from: Ordinal(1),
            create: false,
            accept_loss: false,
        }
    }
}

/// What an interrupted flush left behind: never acknowledged, and gone now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The segment cut.
    pub file: String,
    /// First byte cut.
    pub offset: u64,
    /// The first ordinal cut.
    pub ordinal: Ordinal,
    /// How many records could be recognised in it.
    pub records: u64,
    /// The row of the decision table.
    pub why: &'static str,
}

/// What opening found.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Payloads in arrival order.
    pub payloads: Vec<(WriteId, Digest, Position)>,
    /// Raft entries as (index, term, position), indexes ascending without gaps: a record with an
    /// index at or below an earlier one replaces that one and all after it.
    pub entries: Vec<(u64, u64, Position)>,
    /// Transaction parts as (term, transaction, part, position), in arrival order.
    pub parts: Vec<(u64, u64, u32, Position)>,
    /// The newest ordinal, durable.
    pub last: Ordinal,
    /// The cut tail, if there was one.
    pub torn: Option<Torn>,
    /// What was made good from a second copy.
    pub repaired: Vec<Damage>,
    /// Files with the bytes given up by `accept_loss`, now and earlier.
    pub kept_aside: Vec<String>,
}

/// A segment and the ordinals in it, once there are any.
struct Known {
    segment: Arc<Segment>,
    /// First and last ordinal, inclusive.
    ordinals: Option<(u64, u64)>,
}

/// Records of one segment that wait for the next flush.
struct Batch {
    segment: Arc<Segment>,
    offset: u32,
    data: Vec<u8>,
    slot: u32,
    identifiers: Vec<Identifier>,
}

/// What a flush writes into one segment.
struct Part {
    segment: Arc<Segment>,
    offset: u32,
    data: Vec<u8>,
    identifiers_offset: u32,
    identifiers: Vec<u8>,
}

/// The journal of a space. One owner appends; reads can be taken out with [`Journal::fetch`].
pub struct Journal {
    disk: Arc<dyn Disk>,
    space: [u8; 16],
    geometry: Geometry,
    /// All segments but the spares; the last one is the current one.
    segments: BTreeMap<u32, Known>,
    current: Arc<Segment>,
    /// Where the next record and its identifier go in the current segment.
    offset: u32,
    slot: u32,
    /// Prepared and unused, numbered on from the current one.
    spares: VecDeque<Arc<Segment>>,
    /// Given out and not yet handed back.
    job_out: Option<SegmentJob>,
    last: u64,
    durable: u64,
    /// The newest record is a confirm (or there is none).
    confirmed: bool,
    flush: u64,
    pending: Vec<Batch>,
    pending_count: u32,
    in_flight: Option<Arc<Vec<Part>>>,
    poisoned: bool,
}

impl Journal {
    /// Takes a record into memory and says where it will be. It is on disk after the next flush.
    /// A refused record leaves no trace.
    pub fn append(&mut self, record: &JournalRecord) -> Result<Position, AppendError> {
        if self.poisoned {
            return Err(AppendError::Poisoned);
        }
        let (summary, prefix, bytes) = record::content(record);
        let length = prefix.as_slice().len() as u64 + bytes.len() as u64;
        let limit = self.geometry.content_max().into();
        if length > limit {
            return Err(AppendError::TooLarge { length, limit });
        }
        // More than once only when a spare of an earlier, smaller configuration comes first.
        while !self.fits(length) {
            self.roll()?;
        }
        self.confirmed = summary.kind() == Kind::Confirm;
        Ok(self.write(&summary, prefix.as_slice(), bytes))
    }

    /// Whether a record fits before the seal, for which room is always kept.
    fn fits(&self, length: u64) -> bool {
        let geometry = self.current.geometry;
        let end = u64::from(self.offset) + record::size(length) + record::size(0);
        end <= geometry.identifiers_start().into() && self.slot + 2 <= geometry.slots()
    }

    fn roll(&mut self) -> Result<(), AppendError> {
        let next = self.spares.pop_front().ok_or(AppendError::NeedsSegment)?;
        self.write(&Summary::Seal, &[], &[]);
        self.segments.insert(next.number, Known { segment: next.clone(), ordinals: None });
        self.current = next;
        (self.offset, self.slot) = (DATA_START, 0);
        Ok(())
    }

    fn write(&mut self, summary: &Summary, prefix: &[u8], bytes: &[u8]) -> Position {
        let (offset, slot) = (self.offset, self.slot);
        let continues =
            self.pending.last().is_some_and(|batch| batch.segment.number == self.current.number);
        if !continues {
            let segment = self.current.clone();
            let (data, identifiers) = (Vec::new(), Vec::new());
            self.pending.push(Batch { segment, offset, data, slot, identifiers });
        }
        let batch = self.pending.last_mut().expect("just made sure");
        let start = batch.data.len();
        let length = prefix.len() + bytes.len();
        batch.data.reserve(record::HEADER + length + 8);
        batch.data.extend_from_slice(&[0; record::HEADER]);
        batch.data.extend_from_slice(prefix);
        batch.data.extend_from_slice(bytes);
        let content = start + record::HEADER;
        let header = Header {
            kind: summary.kind(),
            flush: self.flush,
            ordinal: self.last + 1,
            place: self.pending_count,
            length: u32::try_from(length).expect("checked against the segment size"),
            crc: crc32c(&batch.data[content..]),
        };
        batch.data[start..content].copy_from_slice(&header.encode());
        let size = padded((batch.data.len() - start) as u64);
        batch.data.resize(start + usize::try_from(size).expect("below 1 GiB"), 0);
        batch.identifiers.push(identifier_of(&header, summary, offset, 0));
        let size = u32::try_from(size).expect("below 1 GiB");
        self.pending_count += 1;
        self.last += 1;
        self.offset += size;
        self.slot += 1;
        let last = self.last;
        let known = self.segments.get_mut(&self.current.number).expect("the current one is known");
        known.ordinals = Some((known.ordinals.map_or(last, |(first, _)| first), last));
        let (ordinal, segment) = (Ordinal(last), self.current.number);
        Position { ordinal, segment, offset, length: size }
    }

    /// Largest `bytes` or `data` a record may have.
    pub fn record_bytes_max(&self) -> usize {
        self.geometry.content_max() as usize - record::PREFIX_MAX
    }

    /// The ordinal of the newest appended record; 0 before the first.
    pub fn last(&self) -> Ordinal {
        Ordinal(self.last)
    }

    /// The newest ordinal known to be durable.
    pub fn durable(&self) -> Ordinal {
        Ordinal(self.durable)
    }

    /// Whether there is something to flush.
    pub fn pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether a [`JournalRecord::Confirm`] would tell anything: the newest record is not one.
    pub fn unconfirmed(&self) -> bool {
        !self.confirmed && !self.poisoned
    }

    /// Whether a flush failed. Reads still work; open the journal again to go on.
    pub fn poisoned(&self) -> bool {
        self.poisoned
    }

    /// Everything pending, to be written with [`Flush::run`]; `None` if there is nothing, a flush
    /// is under way, or the journal is poisoned. Owns all it needs: run it without holding the
    /// journal, then give it back to [`Self::complete_flush`].
    pub fn take_flush(&mut self) -> Option<Flush> {
        if self.pending.is_empty() || self.in_flight.is_some() || self.poisoned {
            return None;
        }
        let count = std::mem::take(&mut self.pending_count);
        let parts: Vec<_> = self.pending.drain(..).map(|batch| batch.into_part(count)).collect();
        let parts = Arc::new(parts);
        self.in_flight = Some(parts.clone());
        let number = self.flush;
        self.flush += 1;
        Some(Flush { parts, number, last: self.last })
    }

    /// Ends a flush with the result of its run; returns the newest durable ordinal (inclusive). An
    /// error poisons the journal: what the flush wrote is unknown from then on.
    #[expect(clippy::needless_pass_by_value, reason = "taking the flush back is the contract")]
    pub fn complete_flush(
        &mut self,
        flush: Flush,
        result: io::Result<()>,
    ) -> Result<Ordinal, Poisoned> {
        assert!(flush.number < self.flush, "a flush of this journal");
        assert!(self.in_flight.is_some(), "a flush is completed once");
        if self.poisoned || result.is_err() {
            // The bytes stay in memory, so that reads go on answering.
            self.poisoned = true;
            return Err(Poisoned);
        }
        self.in_flight = None;
        assert!(flush.last > self.durable && flush.last <= self.last);
        self.durable = flush.last;
        Ok(Ordinal(self.durable))
    }

    /// Reads and verifies a record, also one still in memory. `Unknown` once its segment is
    /// removed.
    pub fn read(&self, at: Position) -> Result<JournalRecord, ReadError> {
        self.fetch(at).run()
    }

    /// The first half of a read; the second ([`Fetch::run`]) does the I/O and needs no journal.
    pub fn fetch(&self, at: Position) -> Fetch {
        let from = match self.in_memory(at) {
            Some(bytes) => Source::Memory(bytes.to_vec()),
            None => match self.segments.get(&at.segment) {
                Some(known) => Source::Segment(known.segment.clone()),
                None => Source::Nowhere,
            },
        };
        Fetch { at, from }
    }

    fn in_memory(&self, at: Position) -> Option<&[u8]> {
        let within = |segment: &Segment, offset: u32, data: &[u8]| {
            let start = usize::try_from(at.offset.checked_sub(offset)?).ok()?;
            let end = start.checked_add(usize::try_from(at.length).ok()?)?;
            (segment.number == at.segment && end <= data.len()).then_some(start..end)
        };
        let in_flight = self.in_flight.iter().flat_map(|parts| parts.iter());
        let in_flight = in_flight.map(|part| (&part.segment, part.offset, &part.data));
        let pending = self.pending.iter().map(|batch| (&batch.segment, batch.offset, &batch.data));
        in_flight.chain(pending).find_map(|(segment, offset, data)| {
            within(segment, offset, data).map(|range| &data[range])
        })
    }

    /// A job that creates the next segment, when one should be prepared: none is spare and the
    /// current one is half full. Run it without holding the journal, then
    /// [`Self::install_segment`].
    pub fn segment_job(&mut self) -> Option<SegmentJob> {
        let geometry = self.current.geometry;
        let half_full =
            self.offset > geometry.identifiers_start() / 2 || self.slot > geometry.slots() / 2;
        (half_full && self.spares.is_empty()).then(|| self.new_job()).flatten()
    }

    fn new_job(&mut self) -> Option<SegmentJob> {
        if self.job_out.is_some() || self.poisoned {
            return None;
        }
        let number = self.newest_segment() + 1;
        let (disk, space, geometry) = (self.disk.clone(), self.space, self.geometry);
        let job = SegmentJob { disk, number, space, geometry, made: Arc::default() };
        self.job_out = Some(job.clone());
        Some(job)
    }

    fn newest_segment(&self) -> u32 {
        self.spares.back().map_or(self.current.number, |spare| spare.number)
    }

    /// Hands the result of a [`SegmentJob`] back. A failure leaves the journal as it was: appends
    /// go on until the current segment is full and are then refused with
    /// [`AppendError::NeedsSegment`], and the job can be tried again.
    pub fn install_segment(
        &mut self,
        prepared: Result<PreparedSegment, WriteError>,
    ) -> Result<(), WriteError> {
        self.job_out = None;
        let PreparedSegment(segment) = prepared?;
        // An append that could not wait may have done the job and be beyond it.
        if segment.number > self.newest_segment() {
            self.spares.push_back(segment);
        }
        Ok(())
    }

    /// The three steps in one, holding the journal: for when an append answered
    /// [`AppendError::NeedsSegment`]. Does nothing if a spare is there; waits for a job that is out
    /// (or does it, if nobody has begun it).
    pub fn prepare_next_segment(&mut self) -> Result<(), WriteError> {
        if self.poisoned {
            return Err(Poisoned.into());
        }
        if !self.spares.is_empty() {
            return Ok(());
        }
        match self.job_out.clone().or_else(|| self.new_job()) {
            Some(job) => self.install_segment(job.run()),
            None => Ok(()),
        }
    }

    /// Removes the segments all of whose records are below `ordinal`, oldest first, each removal
    /// durable before the next; returns how many. Only right once a durable checkpoint covers
    /// them. Never removes the current segment, nor one after which nothing is durable yet.
    pub fn remove_segments_before(&mut self, ordinal: Ordinal) -> Result<u64, WriteError> {
        let mut removed = 0;
        while let Some((&number, known)) = self.segments.first_key_value() {
            let Some((_, last)) = known.ordinals else { break };
            if last >= ordinal.0 || last >= self.durable || number == self.current.number {
                break;
            }
            let name = known.segment.name();
            let remove = self.disk.remove(&name).and_then(|()| self.disk.sync_dir(segment::DIR));
            remove.map_err(|error| WriteError::io(name, error))?;
            self.segments.remove(&number);
            removed += 1;
        }
        Ok(removed)
    }
}

impl Batch {
    fn into_part(self, count: u32) -> Part {
        let mut identifiers = Vec::with_capacity(self.identifiers.len() * identifier::SIZE);
        for identifier in self.identifiers {
            identifiers.extend_from_slice(&Identifier { count, ..identifier }.encode());
        }
        Part {
            identifiers_offset: self.segment.geometry.slot_offset(self.slot),
            segment: self.segment,
            offset: self.offset,
            data: self.data,
            identifiers,
        }
    }
}

/// A flush under way.
#[must_use = "a flush that is not completed stops the journal"]
pub struct Flush {
    parts: Arc<Vec<Part>>,
    number: u64,
    last: u64,
}

impl Flush {
    /// Writes records and identifiers and syncs each file touched (one, unless the flush crosses a
    /// segment's end) once. On `Ok` all of it is durable; on an error nothing is known.
    pub fn run(&self) -> io::Result<()> {
        for part in self.parts.iter() {
            part.segment.file.write_at(&part.data, part.offset.into())?;
            part.segment.file.write_at(&part.identifiers, part.identifiers_offset.into())?;
        }
        self.parts.iter().try_for_each(|part| part.segment.file.sync_data())
    }

    /// The newest ordinal in it.
    pub fn last(&self) -> Ordinal {
        Ordinal(self.last)
    }
}

enum Source {
    Memory(Vec<u8>),
    Segment(Arc<Segment>),
    Nowhere,
}

/// A read under way.
#[must_use = "the read happens in `run`"]
pub struct Fetch {
    at: Position,
    from: Source,
}

impl Fetch {
    /// Reads and verifies.
    pub fn run(self) -> Result<JournalRecord, ReadError> {
        let name = segment::file_name(self.at.segment);
        let bytes = match self.from {
            Source::Memory(bytes) => bytes,
            Source::Segment(segment) => {
                let mut bytes = vec![0; self.at.length as usize];
                let read = segment.file.read_at(&mut bytes, self.at.offset.into());
                let read = read.map_err(|error| ReadError::io(&*name, error))?;
                bytes.truncate(read);
                bytes
            }
            Source::Nowhere => return Err(ReadError::Unknown),
        };
        let found = record::decode(&bytes).and_then(|(header, summary, rest)| {
            if header.ordinal != self.at.ordinal.0 {
                return Err(Fault::Bad("a record of another place"));
            }
            Ok(record::assemble(summary, rest))
        });
        match found {
            Ok(record) => record.ok_or(ReadError::Unknown),
            Err(fault) => {
                let Position { offset, length, .. } = self.at;
                let (offset, length) = (offset.into(), length.into());
                let structure = Structure::Record;
                Err(ReadError::Corrupt(Damage::new(name, offset, length, structure, fault.what())))
            }
        }
    }
}
