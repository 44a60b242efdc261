//! The real disk: a directory of the file system.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::{Disk, DiskFile, LOCK_FILE, LockGuard, Open};

/// A directory of the file system that holds one space.
#[derive(Debug)]
pub struct FileDisk {
    root: PathBuf,
}

impl FileDisk {
    /// Uses an existing directory.
    pub fn open(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        if fs::metadata(&root)?.is_dir() {
            Ok(Self { root })
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    }

    /// Uses a directory, created (with its parents, durably) if there is none.
    pub fn create(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        fs::create_dir_all(&root)?;
        for dir in root.ancestors().filter(|dir| !dir.as_os_str().is_empty()).take(2) {
            sync_directory(dir)?;
        }
        Ok(Self { root })
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn path(&self, relative: &str) -> io::Result<PathBuf> {
        let path = Path::new(relative);
        if path.components().all(|part| matches!(part, Component::Normal(_))) {
            Ok(self.root.join(path))
        } else {
            Err(io::ErrorKind::InvalidInput.into())
        }
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

impl Disk for FileDisk {
    fn open(&self, path: &str, mode: Open) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        match mode {
            Open::Read => options.read(true),
            Open::Write => options.read(true).write(true),
            Open::Create => options.read(true).write(true).create(true).truncate(true),
        };
        Ok(Arc::new(RealFile(options.open(self.path(path)?)?)))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.path(dir)?) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn rename(&self, source: &str, target: &str) -> io::Result<()> {
        fs::rename(self.path(source)?, self.path(target)?)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.path(path)?)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        sync_directory(&self.path(dir)?)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        let path = self.path(dir)?;
        fs::create_dir_all(&path)?;
        sync_directory(&path)?;
        path.parent().map_or(Ok(()), sync_directory)
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        self.path(path)?.try_exists()
    }

    fn lock(&self) -> io::Result<LockGuard> {
        let path = self.root.join(LOCK_FILE);
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(LockGuard::new(file)),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

struct RealFile(File);

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.0.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }

    fn drop_cache(&self) -> io::Result<()> {
        // Clean pages only: what was never written back stays, and is synced again by recovery.
        rustix::fs::fadvise(&self.0, 0, None, rustix::fs::Advice::DontNeed)?;
        Ok(())
    }
}
