//! A disk that does not wait: the real files, with every sync left out.
//!
//! Shows what the software costs by itself. Nothing on it is durable, and every row measured on it
//! says so.

use std::io;
use std::path::Path;
use std::sync::Arc;

use anabranch_store::{Disk, DiskFile, FileDisk, LockGuard, Open};

/// See the module.
pub(super) struct NoSync(FileDisk);

impl NoSync {
    pub(super) fn create(dir: &Path) -> io::Result<NoSync> {
        FileDisk::create(dir).map(NoSync)
    }
}

impl Disk for NoSync {
    fn open(&self, path: &str, mode: Open) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(NoSyncFile(self.0.open(path, mode)?)))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.0.list(dir)
    }

    fn rename(&self, source: &str, target: &str) -> io::Result<()> {
        self.0.rename(source, target)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.0.remove(path)
    }

    fn sync_dir(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.0.create_dir(dir)
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        self.0.exists(path)
    }

    fn lock(&self) -> io::Result<LockGuard> {
        self.0.lock()
    }
}

struct NoSyncFile(Arc<dyn DiskFile>);

impl DiskFile for NoSyncFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.0.set_size(size)
    }

    fn drop_cache(&self) -> io::Result<()> {
        Ok(())
    }
}
