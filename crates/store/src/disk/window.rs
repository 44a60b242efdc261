//! Reading a file from front to back in large blocks.

use std::io;
use std::sync::Arc;

use super::DiskFile;

/// A view of the part of a file around the place being read.
pub(crate) struct Window {
    file: Arc<dyn DiskFile>,
    /// Bytes from here on are not looked at.
    end: u64,
    block: usize,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    pub(crate) fn new(file: Arc<dyn DiskFile>, end: u64, block: usize) -> Self {
        Self { file, end, block, start: 0, bytes: Vec::new() }
    }

    /// The file has grown.
    pub(crate) fn extend_end(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// The `length` bytes at `offset`, fewer where the file (or the end set) comes first.
    pub(crate) fn get(&mut self, offset: u64, length: usize) -> io::Result<&[u8]> {
        let rest = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = length.min(rest);
        let have = self.start + self.bytes.len() as u64;
        if offset < self.start || offset + wanted as u64 > have {
            self.bytes.resize(wanted.max(self.block.min(rest)), 0);
            let read = self.file.read_at(&mut self.bytes, offset)?;
            self.bytes.truncate(read);
            self.start = offset;
        }
        let at = usize::try_from(offset - self.start).unwrap_or(usize::MAX);
        let rest = self.bytes.get(at..).unwrap_or_default();
        Ok(&rest[..wanted.min(rest.len())])
    }
}
