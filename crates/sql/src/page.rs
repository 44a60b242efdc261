//! Pages and the store they live in.
//!
//! [`PageStore`] is declared here because this crate is its consumer: the node implements it over
//! content-addressed chunks on disk, the tests over memory.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a page; fixed for every database of this crate.
pub const PAGE_SIZE: usize = 4096;

/// Names one stored page within this process. It is not an identity across processes: two page
/// sets are compared across processes by the hashes of their contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageRef(pub NonZeroU64);

/// Why a page could not be stored or read. A page that fails its checksum is an error here, never
/// other bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageError {
    /// The stored bytes are not the bytes that were stored.
    Corrupt {
        /// The page.
        page: PageRef,
        /// What was found.
        detail: String,
    },
    /// The store does not have the page.
    Missing {
        /// The page.
        page: PageRef,
    },
    /// No room for another page.
    Full,
    /// The device failed.
    Io {
        /// What the operating system said.
        detail: String,
    },
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageError::Corrupt { page, detail } => {
                write!(f, "stored page is corrupt: {detail}; page=`{}`", page.0)
            }
            PageError::Missing { page } => write!(f, "stored page is missing; page=`{}`", page.0),
            PageError::Full => f.write_str("no room for another page"),
            PageError::Io { detail } => write!(f, "page store failed: {detail}"),
        }
    }
}

impl std::error::Error for PageError {}

/// Where pages are kept. Implementations are content addressed: putting equal bytes twice returns
/// the same [`PageRef`], and a reference once returned names the same bytes for ever.
pub trait PageStore: Send + Sync {
    /// Stores one page of [`PAGE_SIZE`] bytes. It need not be durable on return: a commit is
    /// durable by its log record, a checkpoint by its own sync.
    fn put(&self, page: &[u8]) -> Result<PageRef, PageError>;

    /// Reads a page back, verified; exactly [`PAGE_SIZE`] bytes.
    fn get(&self, page: PageRef) -> Result<Arc<[u8]>, PageError>;
}

/// A page store in memory, for tests, tools and scratch work. It never forgets a page.
#[derive(Default)]
pub struct MemoryPages {
    inner: Mutex<MemoryInner>,
}

#[derive(Default)]
struct MemoryInner {
    pages: Vec<Arc<[u8]>>,
    known: BTreeMap<Arc<[u8]>, PageRef>,
}

impl MemoryPages {
    /// An empty store.
    pub fn new() -> MemoryPages {
        MemoryPages::default()
    }

    /// Number of different pages stored.
    pub fn page_count(&self) -> usize {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).pages.len()
    }
}

impl PageStore for MemoryPages {
    fn put(&self, page: &[u8]) -> Result<PageRef, PageError> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = inner.known.get(page) {
            return Ok(*known);
        }
        let page: Arc<[u8]> = page.into();
        inner.pages.push(Arc::clone(&page));
        let number = NonZeroU64::new(inner.pages.len() as u64).ok_or(PageError::Full)?;
        inner.known.insert(page, PageRef(number));
        Ok(PageRef(number))
    }

    fn get(&self, page: PageRef) -> Result<Arc<[u8]>, PageError> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = usize::try_from(page.0.get() - 1).ok();
        slot.and_then(|slot| inner.pages.get(slot)).cloned().ok_or(PageError::Missing { page })
    }
}
