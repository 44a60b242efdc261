//! Where SQLite's pages live: the chunk store, and for derived views memory only.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_sql::{PageError, PageRef, PageStore};
use anabranch_store::{ChunkHandle, ChunkStore, ReadError, WriteError};

/// Pages in the content-addressed chunk store: put at apply, durable at the next checkpoint (the
/// journal carries them until then).
pub(crate) struct ChunkPages {
    chunks: Arc<ChunkStore>,
}

impl ChunkPages {
    pub(crate) fn new(chunks: Arc<ChunkStore>) -> ChunkPages {
        ChunkPages { chunks }
    }
}

/// The chunk of a page.
pub(crate) fn handle_of(page: PageRef) -> ChunkHandle {
    ChunkHandle(page.0)
}

/// The page of a chunk.
pub(crate) fn page_of(handle: ChunkHandle) -> PageRef {
    PageRef(handle.0)
}

impl PageStore for ChunkPages {
    fn put(&self, bytes: &[u8]) -> Result<PageRef, PageError> {
        let handle = self.chunks.put(bytes).map_err(|error| match error {
            WriteError::DiskFull { .. } => PageError::Full,
            other => PageError::Io { detail: other.to_string() },
        })?;
        assert!(handle.0.get() & SCRATCH == 0, "chunk handles stay below the scratch bit");
        Ok(page_of(handle))
    }

    fn get(&self, page: PageRef) -> Result<Arc<[u8]>, PageError> {
        self.chunks.get(handle_of(page)).map_err(|error| match error {
            ReadError::Io { .. } => PageError::Io { detail: error.to_string() },
            other => PageError::Corrupt { page, detail: other.to_string() },
        })
    }
}

/// Marks a reference that is only valid in one scratch store.
const SCRATCH: u64 = 1 << 63;

/// Pages of one derived view: written ones stay in memory and die with the view, the others come
/// from the store below.
pub(crate) struct ScratchPages {
    below: Arc<dyn PageStore>,
    written: Mutex<Vec<Arc<[u8]>>>,
}

impl ScratchPages {
    pub(crate) fn new(below: Arc<dyn PageStore>) -> ScratchPages {
        ScratchPages { below, written: Mutex::new(Vec::new()) }
    }
}

impl PageStore for ScratchPages {
    fn put(&self, bytes: &[u8]) -> Result<PageRef, PageError> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.push(Arc::from(bytes));
        let number = written.len() as u64 | SCRATCH;
        Ok(PageRef(NonZeroU64::new(number).expect("the scratch bit is set")))
    }

    fn get(&self, page: PageRef) -> Result<Arc<[u8]>, PageError> {
        let number = page.0.get();
        if number & SCRATCH == 0 {
            return self.below.get(page);
        }
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        usize::try_from((number & !SCRATCH) - 1)
            .ok()
            .and_then(|at| written.get(at).cloned())
            .ok_or(PageError::Missing { page })
    }
}
