//! A history segment in memory: its file and a sparse index of its frames.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::ReadError;
use crate::disk::{DiskFile, Window};
use crate::format::frame::{self, Header};
use crate::format::{Fault, superblock};

pub(crate) const DIR: &str = "history";
/// One entry of the sparse index for about so many bytes of frames.
const SPARSE_BYTES: u64 = 32 << 10;
const SCAN_BLOCK: usize = 1 << 20;

pub(crate) fn file_name(number: u32) -> String {
    format!("{DIR}/{number:010}.seg")
}

/// The number in a segment's name (without directory).
pub(crate) fn parse_name(name: &str) -> Option<u32> {
    let number = name.strip_suffix(".seg")?;
    (number.len() == 10).then_some(())?;
    number.parse().ok().filter(|number| *number > 0)
}

/// First index and offset of some of the frames, ascending.
#[derive(Clone, Debug, Default)]
pub(super) struct Sparse {
    entries: Vec<(u64, u64)>,
}

impl Sparse {
    fn note(&mut self, first: u64, offset: u64) {
        let due = self.entries.last().is_none_or(|(_, last)| offset - last >= SPARSE_BYTES);
        if due {
            self.entries.push((first, offset));
        }
    }

    /// Offset of the last noted frame that starts at or before `index`.
    pub(super) fn find(&self, index: u64) -> u64 {
        let after = self.entries.partition_point(|(first, _)| *first <= index);
        let entry = after.checked_sub(1).and_then(|place| self.entries.get(place));
        entry.map_or(superblock::AREA as u64, |(_, offset)| *offset)
    }

    /// Notes every frame of a segment; damaged stretches are left out, the frame after one is
    /// always noted.
    fn scan(file: Arc<dyn DiskFile>, end: u64) -> io::Result<Self> {
        let mut sparse = Self::default();
        let mut scan = FrameScan::new(file, end);
        let mut after_damage = false;
        while let Some(found) = scan.next()? {
            match found.frame {
                Ok(header) if after_damage => sparse.entries.push((header.first, found.offset)),
                Ok(header) => sparse.note(header.first, found.offset),
                Err(_) => {}
            }
            after_damage = found.frame.is_err();
        }
        Ok(sparse)
    }
}

pub(super) struct Segment {
    pub(super) number: u32,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) first: u64,
    /// Of a sealed segment, its length; 0 while it is the last one.
    end: AtomicU64,
    /// While it is the last one; noted as frames are appended.
    growing: Mutex<Option<Sparse>>,
    /// Of a sealed one; built when first needed.
    sealed: OnceLock<Sparse>,
}

impl Segment {
    /// A new segment, the last one.
    pub(super) fn active(number: u32, file: Arc<dyn DiskFile>, first: u64) -> Self {
        Self {
            number,
            file,
            first,
            end: AtomicU64::new(0),
            growing: Mutex::new(Some(Sparse::default())),
            sealed: OnceLock::new(),
        }
    }

    /// One found on disk: sealed, with its length; or the last one, whose frames are scanned.
    pub(super) fn found(
        number: u32,
        file: Arc<dyn DiskFile>,
        first: u64,
        end: u64,
        last: bool,
    ) -> io::Result<Self> {
        let growing = if last { Some(Sparse::scan(file.clone(), end)?) } else { None };
        let segment = Self::active(number, file, first);
        segment.end.store(if last { 0 } else { end }, Ordering::Release);
        *segment.growing.lock().unwrap_or_else(PoisonError::into_inner) = growing;
        Ok(segment)
    }

    pub(super) fn note(&self, first: u64, offset: u64) {
        if let Some(sparse) = &mut *self.growing.lock().unwrap_or_else(PoisonError::into_inner) {
            sparse.note(first, offset);
        }
    }

    /// Called once, when the next segment becomes the last one.
    pub(super) fn seal(&self, end: u64) {
        self.end.store(end, Ordering::Release);
        let mut growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sparse) = growing.take() {
            let _ = self.sealed.set(sparse);
        }
    }

    pub(super) fn sealed_end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Offset of a frame at or shortly before the one that holds `index`. Scans the segment the
    /// first time, if it was found sealed.
    pub(super) fn find(&self, index: u64) -> Result<u64, ReadError> {
        if let Some(sparse) = &*self.growing.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(sparse.find(index));
        }
        if let Some(sparse) = self.sealed.get() {
            return Ok(sparse.find(index));
        }
        let sparse = Sparse::scan(self.file.clone(), self.sealed_end())
            .map_err(|error| ReadError::io(file_name(self.number), error))?;
        Ok(self.sealed.get_or_init(|| sparse).find(index))
    }
}

/// Walks the frames of a segment by their headers.
pub(crate) struct FrameScan {
    window: Window,
    end: u64,
    at: u64,
}

/// One frame, or the bytes where one should be.
pub(crate) struct Found {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) frame: Result<Header, Fault>,
}

impl FrameScan {
    pub(crate) fn new(file: Arc<dyn DiskFile>, end: u64) -> Self {
        let window = Window::new(file, end, SCAN_BLOCK);
        Self { window, end, at: superblock::AREA as u64 }
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
        let header = Header::decode(self.window.get(offset, frame::HEADER)?);
        let frame = header.and_then(|header| {
            let fits = offset + header.size() <= self.end;
            fits.then_some(header).ok_or(Fault::Bad("reaches beyond the end"))
        });
        let size = match &frame {
            Ok(header) => header.size(),
            Err(_) => self.next_header(offset)? - offset,
        };
        self.at = offset + size;
        Ok(Some(Found { offset, size, frame }))
    }

    fn next_header(&mut self, offset: u64) -> io::Result<u64> {
        let mut at = offset + 8;
        while at + frame::HEADER as u64 <= self.end {
            if Header::decode(self.window.get(at, frame::HEADER)?).is_ok() {
                return Ok(at);
            }
            at += 8;
        }
        Ok(self.end)
    }

    /// The whole frame found: header, body, padding.
    pub(crate) fn bytes(&mut self, found: &Found) -> io::Result<&[u8]> {
        self.window.get(found.offset, usize::try_from(found.size).unwrap_or(usize::MAX))
    }
}
