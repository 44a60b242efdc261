//! A journal segment file: geometry, names, creation.
//!
//! | part | bytes |
//! |---|---|
//! | superblock area | 0..4096 |
//! | data area: records, one after the other | 4096..3/4 of the file |
//! | identifier area: 64-byte slots | 3/4 of the file..end |
//!
//! The file has its full size, written with zeros, before it gets its name, so a flush never
//! allocates. Identifiers come last because the kernel writes back in file order: an interrupted
//! flush rather lacks identifiers than records.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::disk::{Disk, DiskFile, Open};
use crate::format::superblock::{self, Superblock};
use crate::format::{identifier, record};
use crate::{OpenError, WriteError};

pub(crate) const DIR: &str = "journal";
pub(crate) const DATA_START: u32 = 4096;
/// Smallest segment; every segment is a multiple of it.
pub(crate) const BYTES_MIN: u32 = 64 << 10;
/// Largest segment.
pub(crate) const BYTES_MAX: u32 = 1 << 30;

const _: () = assert!(DATA_START as usize == superblock::AREA);

/// Where the areas of a segment of this size are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    bytes: u32,
}

impl Geometry {
    pub(crate) fn new(bytes: u64) -> Option<Self> {
        let bytes = u32::try_from(bytes).ok()?;
        let allowed = (BYTES_MIN..=BYTES_MAX).contains(&bytes) && bytes.is_multiple_of(BYTES_MIN);
        allowed.then_some(Self { bytes })
    }

    pub(crate) fn bytes(self) -> u32 {
        self.bytes
    }

    /// End of the data area, start of the identifier area.
    pub(crate) fn identifiers_start(self) -> u32 {
        self.bytes / 4 * 3
    }

    pub(crate) fn slots(self) -> u32 {
        self.bytes / 4 / identifier::BYTES
    }

    pub(crate) fn slot_offset(self, slot: u32) -> u32 {
        assert!(slot < self.slots());
        self.identifiers_start() + slot * identifier::BYTES
    }

    /// Largest content of a record: it must fit beside a seal in an empty segment.
    pub(crate) fn content_max(self) -> u32 {
        self.identifiers_start() - DATA_START - 2 * record::HEADER_BYTES
    }
}

pub(crate) fn file_name(number: u32) -> String {
    format!("{DIR}/{number:010}.seg")
}

pub(crate) fn aside_name(number: u32, ordinal: u64) -> String {
    format!("{DIR}/{number:010}-{ordinal}.aside")
}

/// The number in a segment's name (without directory).
pub(crate) fn parse_name(name: &str) -> Option<u32> {
    let number = name.strip_suffix(".seg")?;
    (number.len() == 10).then_some(())?;
    number.parse().ok().filter(|number| *number > 0)
}

/// An open segment.
pub(crate) struct Segment {
    pub(crate) number: u32,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) geometry: Geometry,
}

impl Segment {
    pub(crate) fn name(&self) -> String {
        file_name(self.number)
    }
}

/// Creates the next segment file. Run it without holding the journal, then give the result to
/// [`Journal::install_segment`](super::Journal::install_segment). Clones are the same job: whoever
/// runs it first creates the segment, the others wait for that and get the same one.
#[derive(Clone)]
pub struct SegmentJob {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) number: u32,
    pub(super) space: [u8; 16],
    pub(super) geometry: Geometry,
    pub(super) made: Arc<Mutex<Option<Arc<Segment>>>>,
}

/// A segment ready for use: full size, zero-filled, durable.
pub struct PreparedSegment(pub(super) Arc<Segment>);

impl SegmentJob {
    /// Writes the segment (a full disk shows here) and makes it durable. On failure the remains
    /// are removed, as far as that works; the next opening removes the rest.
    pub fn run(self) -> Result<PreparedSegment, WriteError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(segment) = &*made {
            return Ok(PreparedSegment(segment.clone()));
        }
        let name = file_name(self.number);
        let temporary = format!("{name}.tmp");
        let segment = self.create(&name, &temporary).map_err(|error| {
            // The name may be there already when only the directory's sync failed: leave it.
            let _ = self.disk.remove(&temporary);
            WriteError::io(name.clone(), error)
        })?;
        *made = Some(segment.clone());
        Ok(PreparedSegment(segment))
    }

    fn create(&self, name: &str, temporary: &str) -> io::Result<Arc<Segment>> {
        let geometry = self.geometry;
        let file = self.disk.open(temporary, Open::Create)?;
        let block = Superblock::plain(
            superblock::Kind::Journal,
            self.number,
            self.space,
            geometry.bytes().into(),
        );
        file.write_at(&block.area(), 0)?;
        file.zero_fill(DATA_START.into(), geometry.bytes().into())?;
        file.sync_data()?;
        self.disk.rename(temporary, name)?;
        self.disk.sync_dir(DIR)?;
        Ok(Arc::new(Segment { number: self.number, file, geometry }))
    }
}

/// Checks the configured size.
pub(crate) fn geometry(segment_bytes: u32) -> Result<Geometry, OpenError> {
    Geometry::new(segment_bytes.into()).ok_or(OpenError::InvalidOption {
        what: "journal segments are 64 KiB to 1 GiB, in steps of 64 KiB",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_fill_the_file() {
        for bytes in [BYTES_MIN, 16 << 20, BYTES_MAX] {
            let geometry = Geometry::new(bytes.into()).unwrap();
            let last = geometry.slot_offset(geometry.slots() - 1);
            assert_eq!(last + identifier::BYTES, bytes);
            assert!(geometry.identifiers_start() > DATA_START);
        }
        for bytes in [0, BYTES_MIN - 1, BYTES_MIN + 4096, BYTES_MAX + BYTES_MIN] {
            assert_eq!(Geometry::new(bytes.into()), None);
        }
    }

    #[test]
    fn names() {
        assert_eq!(file_name(7), "journal/0000000007.seg");
        assert_eq!(parse_name("0000000007.seg"), Some(7));
        for name in ["7.seg", "0000000007.seg.tmp", "0000000000.seg", "000000000x.seg"] {
            assert_eq!(parse_name(name), None);
        }
    }
}
