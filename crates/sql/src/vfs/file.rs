//! A database file of the VFS, without any `unsafe`: a page map and an overlay of dirty pages.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::map::PageMap;
use crate::page::{PAGE_SIZE, PageError, PageStore};

/// Why an operation on the file failed; kept until the connection asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileFailure {
    /// The page store failed.
    Page(PageError),
    /// The page store returned a page of another size.
    WrongSize,
    /// The database would have more pages than allowed.
    TooManyPages,
    /// The transaction changed more bytes than allowed.
    CommitTooLarge,
    /// SQLite wrote something else than a whole page.
    NotAPage,
    /// SQLite synced although no commit was asked for.
    SyncOutsideCommit,
    /// Code of this crate panicked below SQLite.
    Panicked,
}

/// A commit's pages, gathered at sync time.
pub(crate) struct Staged {
    pub(crate) base: PageMap,
    pub(crate) root: PageMap,
    pub(crate) page_count: u32,
    pub(crate) pages: Vec<(u32, Arc<[u8]>)>,
}

/// The file behind one connection.
pub(crate) struct BranchFile {
    store: Arc<dyn PageStore>,
    max_pages: u32,
    max_dirty: usize,
    state: Mutex<State>,
}

struct State {
    /// Pages as last committed.
    root: PageMap,
    /// Size of the file as SQLite sees it.
    page_count: u32,
    /// Pages of `root` from here on were cut off in this transaction; they read as zeros.
    visible: u32,
    /// Pages written in this transaction; numbers below `page_count`.
    dirty: BTreeMap<u32, Arc<[u8]>>,
    failure: Option<FileFailure>,
}

impl BranchFile {
    pub(crate) fn new(
        store: Arc<dyn PageStore>,
        root: PageMap,
        max_pages: u32,
        max_commit_bytes: usize,
    ) -> BranchFile {
        let page_count = root.page_count();
        let dirty = BTreeMap::new();
        BranchFile {
            store,
            max_pages,
            max_dirty: max_commit_bytes / PAGE_SIZE,
            state: Mutex::new(State {
                root,
                page_count,
                visible: page_count,
                dirty,
                failure: None,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pages as last committed.
    pub(crate) fn root(&self) -> PageMap {
        self.state().root.clone()
    }

    /// The failure since the last call, if any; the first one, which explains the others.
    pub(crate) fn take_failure(&self) -> Option<FileFailure> {
        self.state().failure.take()
    }

    pub(crate) fn fail(&self, failure: FileFailure) -> FileFailure {
        let mut state = self.state();
        state.failure.get_or_insert_with(|| failure.clone());
        failure
    }

    /// Makes `root` the committed state; the overlay is part of it now.
    pub(crate) fn publish(&self, root: PageMap) {
        let mut state = self.state();
        state.root = root;
        state.reset();
    }

    /// Forgets the overlay: the transaction was rolled back.
    pub(crate) fn discard(&self) {
        self.state().reset();
    }

    pub(super) fn size_bytes(&self) -> u64 {
        u64::from(self.state().page_count) * PAGE_SIZE as u64
    }

    /// Fills `buffer` from `offset`; bytes beyond the end are zeros. Answers whether all bytes
    /// were inside the file.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> Result<bool, FileFailure> {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let within = usize::try_from(at % PAGE_SIZE as u64).unwrap_or(0);
            let count = (PAGE_SIZE - within).min(buffer.len() - done);
            let part = &mut buffer[done..done + count];
            let number = u32::try_from(at / PAGE_SIZE as u64).unwrap_or(u32::MAX);
            match self.page(number)? {
                PageBytes::Beyond => {
                    buffer[done..].fill(0);
                    return Ok(false);
                }
                PageBytes::Hole => part.fill(0),
                PageBytes::Bytes(page) => part.copy_from_slice(&page[within..within + count]),
            }
            done += count;
        }
        Ok(true)
    }

    fn page(&self, number: u32) -> Result<PageBytes, FileFailure> {
        let found = {
            let state = self.state();
            if number >= state.page_count {
                return Ok(PageBytes::Beyond);
            }
            if let Some(page) = state.dirty.get(&number) {
                return Ok(PageBytes::Bytes(Arc::clone(page)));
            }
            if number < state.visible { state.root.get(number) } else { None }
        };
        let Some(found) = found else { return Ok(PageBytes::Hole) };
        let page = self.store.get(found).map_err(|error| self.fail(FileFailure::Page(error)))?;
        if page.len() != PAGE_SIZE {
            return Err(self.fail(FileFailure::WrongSize));
        }
        Ok(PageBytes::Bytes(page))
    }

    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> Result<(), FileFailure> {
        let number = u32::try_from(offset / PAGE_SIZE as u64).unwrap_or(u32::MAX);
        if bytes.len() != PAGE_SIZE || !offset.is_multiple_of(PAGE_SIZE as u64) {
            return Err(self.fail(FileFailure::NotAPage));
        }
        if number >= self.max_pages {
            return Err(self.fail(FileFailure::TooManyPages));
        }
        let mut state = self.state();
        if state.dirty.len() >= self.max_dirty && !state.dirty.contains_key(&number) {
            drop(state);
            return Err(self.fail(FileFailure::CommitTooLarge));
        }
        match state.dirty.get_mut(&number).and_then(Arc::get_mut) {
            Some(page) => page.copy_from_slice(bytes),
            None => {
                state.dirty.insert(number, bytes.into());
            }
        }
        state.page_count = state.page_count.max(number + 1);
        Ok(())
    }

    pub(super) fn truncate(&self, size_bytes: u64) {
        let pages = u32::try_from(size_bytes.div_ceil(PAGE_SIZE as u64)).unwrap_or(u32::MAX);
        let mut state = self.state();
        if pages < state.page_count {
            state.dirty.split_off(&pages);
            state.visible = state.visible.min(pages);
            state.page_count = pages;
        }
    }

    /// Stores the dirty pages and names the map after the commit. Pages that equal the base's are
    /// left out (content addressing tells).
    pub(super) fn stage(&self) -> Result<Staged, FileFailure> {
        let mut state = self.state();
        match state.stage(&*self.store) {
            Ok(staged) => Ok(staged),
            Err(error) => {
                let failure = FileFailure::Page(error);
                state.failure.get_or_insert_with(|| failure.clone());
                Err(failure)
            }
        }
    }
}

impl State {
    fn reset(&mut self) {
        self.dirty.clear();
        self.page_count = self.root.page_count();
        self.visible = self.page_count;
    }

    fn stage(&self, store: &dyn PageStore) -> Result<Staged, PageError> {
        let base = self.root.clone();
        let mut root = base.clone();
        let mut pages = Vec::with_capacity(self.dirty.len());
        // Cut off and grown again within one transaction: followers, who know only the final
        // size, get these pages as zeros.
        let zeros: Arc<[u8]> = vec![0; PAGE_SIZE].into();
        let regrown = (self.visible..self.page_count.min(base.page_count()))
            .filter(|number| base.get(*number).is_some() && !self.dirty.contains_key(number))
            .map(|number| (number, &zeros));
        let mut changed: Vec<(u32, &Arc<[u8]>)> =
            self.dirty.iter().map(|(number, page)| (*number, page)).chain(regrown).collect();
        changed.sort_unstable_by_key(|(number, _)| *number);
        root.resize(self.page_count);
        for (number, page) in changed {
            let stored = store.put(page)?;
            if base.get(number) != Some(stored) {
                root.set(number, stored);
                pages.push((number, Arc::clone(page)));
            }
        }
        Ok(Staged { base, root, page_count: self.page_count, pages })
    }
}

enum PageBytes {
    Beyond,
    Hole,
    Bytes(Arc<[u8]>),
}

/// Most bytes of one temporary file (sorter, transient index).
const MAX_TEMP_BYTES: usize = 256 * 1024 * 1024;

/// A temporary file: bytes in memory.
#[derive(Default)]
pub(super) struct TempFile {
    bytes: Mutex<Vec<u8>>,
}

impl TempFile {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> bool {
        let bytes = self.bytes();
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let count = buffer.len().min(bytes.len() - start);
        let (inside, beyond) = buffer.split_at_mut(count);
        inside.copy_from_slice(&bytes[start..start + count]);
        beyond.fill(0);
        beyond.is_empty()
    }

    /// False if the file would become too large.
    pub(super) fn write(&self, part: &[u8], offset: u64) -> bool {
        let Some(end) =
            usize::try_from(offset).ok().and_then(|start| start.checked_add(part.len()))
        else {
            return false;
        };
        if end > MAX_TEMP_BYTES {
            return false;
        }
        let mut bytes = self.bytes();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[end - part.len()..end].copy_from_slice(part);
        true
    }

    pub(super) fn truncate(&self, size_bytes: u64) {
        let size = usize::try_from(size_bytes).unwrap_or(usize::MAX);
        self.bytes().truncate(size);
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.bytes().len() as u64
    }
}
