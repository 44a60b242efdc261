//! The C side of the VFS. Every function here is called by SQLite; none lets a panic out.
//!
//! Ownership: `xOpen` puts a boxed [`OpenFile`] behind the `sqlite3_file` that SQLite allocated,
//! `xClose` frees it. SQLite calls the methods of a file only between the two, and only from the
//! thread that uses the connection.

#![expect(unsafe_code, reason = "SQLite's VFS is a C interface")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rusqlite::ffi;

use super::file::{BranchFile, FileFailure, Staged, TempFile};
use super::{VFS_NAME, now_ms};
use crate::page::PAGE_SIZE;

/// Takes a commit from within SQLite's sync.
pub(crate) trait SyncHandler {
    /// True if the commit happened; false makes SQLite roll back.
    fn sync(&mut self, staged: Staged) -> bool;
}

/// Files waiting to be opened by name; a name is taken once.
static WAITING: Mutex<BTreeMap<String, Arc<BranchFile>>> = Mutex::new(BTreeMap::new());

/// A private file name that SQLite can open exactly once.
pub(crate) struct OpenName(pub(crate) String);

/// Offers a file to SQLite under a fresh name. The name is gone once it was opened or dropped.
pub(crate) fn open_name(file: Arc<BranchFile>) -> OpenName {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let name = format!("branch-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    waiting(|files| files.insert(name.clone(), file));
    OpenName(name)
}

impl Drop for OpenName {
    fn drop(&mut self) {
        waiting(|files| files.remove(&self.0));
    }
}

fn waiting<T>(run: impl FnOnce(&mut BTreeMap<String, Arc<BranchFile>>) -> T) -> T {
    run(&mut WAITING.lock().unwrap_or_else(PoisonError::into_inner))
}

thread_local! {
    /// The handler of the commit running on this thread, and the file it is for.
    static HANDLER: Cell<Option<(*const BranchFile, *mut dyn SyncHandler)>> =
        const { Cell::new(None) };
}

/// Runs `commit`, during which a sync of `file` on this thread goes to `handler`.
pub(crate) fn with_handler<T>(
    file: &Arc<BranchFile>,
    handler: &mut dyn SyncHandler,
    commit: impl FnOnce() -> T,
) -> T {
    struct Restore(Option<(*const BranchFile, *mut dyn SyncHandler)>);
    impl Drop for Restore {
        fn drop(&mut self) {
            HANDLER.set(self.0);
        }
    }
    let handler: *mut (dyn SyncHandler + '_) = handler;
    // SAFETY: only the lifetime of the pointee is erased. The pointer is removed from the cell by
    // `Restore` before this function returns or unwinds, that is while `handler` is still
    // borrowed, and it is used only on this thread, by `sync_branch`.
    #[expect(clippy::transmute_ptr_to_ptr, reason = "a cast may not lengthen a lifetime")]
    let handler: *mut (dyn SyncHandler + 'static) = unsafe { std::mem::transmute(handler) };
    let _restore = Restore(HANDLER.replace(Some((Arc::as_ptr(file), handler))));
    commit()
}

/// Registers the VFS once per process; later calls return the first answer (an SQLite code).
pub(crate) fn register() -> Result<(), c_int> {
    static DONE: OnceLock<c_int> = OnceLock::new();
    let code = *DONE.get_or_init(|| {
        let name = format!("{VFS_NAME}\0").into_bytes().leak();
        let vfs = Box::leak(Box::new(vfs(name.as_ptr().cast())));
        // SAFETY: the structure and its name are leaked, so they live as long as the process, and
        // SQLite alone changes them from here on.
        unsafe { ffi::sqlite3_vfs_register(vfs, 0) }
    });
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(code) }
}

fn vfs(name: *const c_char) -> ffi::sqlite3_vfs {
    ffi::sqlite3_vfs {
        iVersion: 2,
        szOsFile: c_int::try_from(size_of::<RawFile>()).unwrap_or(c_int::MAX),
        mxPathname: 64,
        pNext: ptr::null_mut(),
        zName: name,
        pAppData: ptr::null_mut(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(last_error),
        xCurrentTimeInt64: Some(current_time_ms),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(lock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// What SQLite allocates per file: its own part first, then ours.
#[repr(C)]
struct RawFile {
    base: ffi::sqlite3_file,
    open: *mut OpenFile,
}

enum OpenFile {
    Branch(Arc<BranchFile>),
    Temp(TempFile),
}

/// Turns a panic into an I/O error: unwinding into C is undefined.
fn guarded(run: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(ffi::SQLITE_IOERR)
}

/// Runs on an open file; a panic is also remembered in the file.
///
/// # Safety
/// `file` was opened by [`open`] and not closed since.
unsafe fn on_file(file: *mut ffi::sqlite3_file, run: impl FnOnce(&OpenFile) -> c_int) -> c_int {
    // SAFETY: by the contract above `file` points to a `RawFile` whose `open` is a live box; only
    // shared references are made from it until `close`.
    let open = unsafe { &*(*file.cast::<RawFile>()).open };
    catch_unwind(AssertUnwindSafe(|| run(open))).unwrap_or_else(|_| {
        if let OpenFile::Branch(branch) = open {
            branch.fail(FileFailure::Panicked);
        }
        ffi::SQLITE_IOERR
    })
}

fn code(failure: &FileFailure, io: c_int) -> c_int {
    match failure {
        FileFailure::Page(crate::page::PageError::Full)
        | FileFailure::TooManyPages
        | FileFailure::CommitTooLarge => ffi::SQLITE_FULL,
        FileFailure::Page(_) | FileFailure::WrongSize => ffi::SQLITE_IOERR_CORRUPTFS,
        FileFailure::NotAPage | FileFailure::SyncOutsideCommit | FileFailure::Panicked => io,
    }
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    guarded(|| {
        let raw = file.cast::<RawFile>();
        // SAFETY: SQLite passes at least `szOsFile` writable bytes. A null `pMethods` tells it
        // not to call `xClose` when opening fails.
        unsafe { (*raw).base.pMethods = ptr::null() };
        let temporary = ffi::SQLITE_OPEN_TEMP_DB
            | ffi::SQLITE_OPEN_TRANSIENT_DB
            | ffi::SQLITE_OPEN_TEMP_JOURNAL
            | ffi::SQLITE_OPEN_SUBJOURNAL;
        let opened = if flags & temporary != 0 {
            OpenFile::Temp(TempFile::default())
        } else if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 && !name.is_null() {
            // SAFETY: a non-null name is a NUL-terminated string that lives during this call.
            let name = unsafe { CStr::from_ptr(name) };
            let known = name.to_str().ok().and_then(|name| waiting(|files| files.remove(name)));
            match known {
                Some(branch) => OpenFile::Branch(branch),
                None => return ffi::SQLITE_CANTOPEN,
            }
        } else {
            return ffi::SQLITE_CANTOPEN;
        };
        if !out_flags.is_null() {
            // SAFETY: non-null, and SQLite expects the flags there.
            unsafe { *out_flags = flags };
        }
        // SAFETY: as above; from here on SQLite will call `xClose`, which frees the box.
        unsafe {
            (*raw).open = Box::into_raw(Box::new(opened));
            (*raw).base.pMethods = &raw const METHODS;
        }
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    guarded(|| {
        let raw = file.cast::<RawFile>();
        // SAFETY: the box was made by `open`; SQLite closes a file once and not before.
        let open = unsafe { Box::from_raw((*raw).open) };
        // SAFETY: as above; without methods SQLite regards the file as closed.
        unsafe {
            (*raw).open = ptr::null_mut();
            (*raw).base.pMethods = ptr::null();
        }
        drop(open);
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    buffer: *mut c_void,
    count: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    let run = |open: &OpenFile| {
        let (Ok(count), Ok(offset)) = (usize::try_from(count), u64::try_from(offset)) else {
            return ffi::SQLITE_IOERR_READ;
        };
        // SAFETY: SQLite passes `count` writable bytes that nobody else uses during the call.
        let buffer = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), count) };
        let complete = match open {
            OpenFile::Branch(branch) => match branch.read(buffer, offset) {
                Ok(complete) => complete,
                Err(failure) => return code(&failure, ffi::SQLITE_IOERR_READ),
            },
            OpenFile::Temp(temp) => temp.read(buffer, offset),
        };
        if complete { ffi::SQLITE_OK } else { ffi::SQLITE_IOERR_SHORT_READ }
    };
    // SAFETY: SQLite calls this on open files only.
    unsafe { on_file(file, run) }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    count: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    let run = |open: &OpenFile| {
        let (Ok(count), Ok(offset)) = (usize::try_from(count), u64::try_from(offset)) else {
            return ffi::SQLITE_IOERR_WRITE;
        };
        // SAFETY: SQLite passes `count` readable bytes that do not change during the call.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), count) };
        match open {
            OpenFile::Branch(branch) => match branch.write(bytes, offset) {
                Ok(()) => ffi::SQLITE_OK,
                Err(failure) => code(&failure, ffi::SQLITE_IOERR_WRITE),
            },
            OpenFile::Temp(temp) if temp.write(bytes, offset) => ffi::SQLITE_OK,
            OpenFile::Temp(_) => ffi::SQLITE_FULL,
        }
    };
    // SAFETY: SQLite calls this on open files only.
    unsafe { on_file(file, run) }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: ffi::sqlite3_int64) -> c_int {
    let run = |open: &OpenFile| {
        let size = u64::try_from(size).unwrap_or(0);
        match open {
            OpenFile::Branch(branch) => branch.truncate(size),
            OpenFile::Temp(temp) => temp.truncate(size),
        }
        ffi::SQLITE_OK
    };
    // SAFETY: SQLite calls this on open files only.
    unsafe { on_file(file, run) }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    let run = |open: &OpenFile| match open {
        OpenFile::Branch(branch) => sync_branch(branch),
        OpenFile::Temp(_) => ffi::SQLITE_OK,
    };
    // SAFETY: SQLite calls this on open files only.
    unsafe { on_file(file, run) }
}

fn sync_branch(branch: &Arc<BranchFile>) -> c_int {
    // Taken out of the cell, so that the handler can never be entered twice.
    let handler = HANDLER.take().filter(|(file, _)| *file == Arc::as_ptr(branch));
    let Some((_, handler)) = handler else {
        branch.fail(FileFailure::SyncOutsideCommit);
        return ffi::SQLITE_IOERR_FSYNC;
    };
    let staged = match branch.stage() {
        Ok(staged) => staged,
        Err(failure) => return code(&failure, ffi::SQLITE_IOERR_FSYNC),
    };
    // SAFETY: `with_handler` put the pointer there on this thread and is still running, below us
    // on the stack, holding the only borrow of the handler; it was taken out of the cell above.
    let happened = unsafe { (*handler).sync(staged) };
    if happened { ffi::SQLITE_OK } else { ffi::SQLITE_IOERR_FSYNC }
}

unsafe extern "C" fn file_size(
    file: *mut ffi::sqlite3_file,
    size: *mut ffi::sqlite3_int64,
) -> c_int {
    let run = |open: &OpenFile| {
        let bytes = match open {
            OpenFile::Branch(branch) => branch.size_bytes(),
            OpenFile::Temp(temp) => temp.size_bytes(),
        };
        // SAFETY: SQLite passes a place for the size.
        unsafe { *size = i64::try_from(bytes).unwrap_or(i64::MAX) };
        ffi::SQLITE_OK
    };
    // SAFETY: SQLite calls this on open files only.
    unsafe { on_file(file, run) }
}

/// Lock and unlock: a file has one connection, so every lock is free.
unsafe extern "C" fn lock(_: *mut ffi::sqlite3_file, _level: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(_: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: SQLite passes a place for the answer.
    unsafe { *out = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_control(
    _: *mut ffi::sqlite3_file,
    _operation: c_int,
    _argument: *mut c_void,
) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_: *mut ffi::sqlite3_file) -> c_int {
    c_int::try_from(PAGE_SIZE).unwrap_or(c_int::MAX)
}

unsafe extern "C" fn device_characteristics(_: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE | ffi::SQLITE_IOCAP_SAFE_APPEND
}

unsafe extern "C" fn delete(
    _: *mut ffi::sqlite3_vfs,
    _name: *const c_char,
    _sync_dir: c_int,
) -> c_int {
    ffi::SQLITE_OK
}

/// No file exists by name: no hot journal, no WAL.
unsafe extern "C" fn access(
    _: *mut ffi::sqlite3_vfs,
    _name: *const c_char,
    _flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes a place for the answer.
    unsafe { *out = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn full_pathname(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    count: c_int,
    out: *mut c_char,
) -> c_int {
    guarded(|| {
        // SAFETY: SQLite passes a NUL-terminated name.
        let bytes = unsafe { CStr::from_ptr(name) }.to_bytes_with_nul();
        if usize::try_from(count).is_ok_and(|count| bytes.len() <= count) {
            // SAFETY: `out` has room for `count` bytes, at least as many as are copied, and it is
            // SQLite's own buffer, apart from the name.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr().cast(), out, bytes.len()) };
            ffi::SQLITE_OK
        } else {
            ffi::SQLITE_CANTOPEN
        }
    })
}

/// Fixed bytes: nothing that SQLite draws from a VFS needs to be unpredictable here.
unsafe extern "C" fn randomness(_: *mut ffi::sqlite3_vfs, count: c_int, out: *mut c_char) -> c_int {
    let filled = usize::try_from(count).unwrap_or(0);
    // SAFETY: SQLite passes `count` writable bytes.
    unsafe { ptr::write_bytes(out, 0x5a, filled) };
    count
}

unsafe extern "C" fn sleep(_: *mut ffi::sqlite3_vfs, microseconds: c_int) -> c_int {
    microseconds
}

/// Julian day of 1970-01-01 00:00 UTC, in milliseconds.
const EPOCH_JULIAN_MS: i64 = 210_866_760_000_000;

unsafe extern "C" fn current_time_ms(
    _: *mut ffi::sqlite3_vfs,
    out: *mut ffi::sqlite3_int64,
) -> c_int {
    guarded(|| {
        let now = i64::try_from(now_ms()).unwrap_or(0);
        // SAFETY: SQLite passes a place for the time.
        unsafe { *out = EPOCH_JULIAN_MS.saturating_add(now) };
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn current_time(_: *mut ffi::sqlite3_vfs, out: *mut f64) -> c_int {
    guarded(|| {
        #[expect(clippy::cast_precision_loss, reason = "SQLite's old interface has days as double")]
        let days = (EPOCH_JULIAN_MS + i64::try_from(now_ms()).unwrap_or(0)) as f64 / 86_400_000.0;
        // SAFETY: SQLite passes a place for the time.
        unsafe { *out = days };
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn last_error(
    _: *mut ffi::sqlite3_vfs,
    _count: c_int,
    _out: *mut c_char,
) -> c_int {
    0
}

/// Replaces `random()` and `randomblob()` of one connection by a generator with a fixed seed.
pub(crate) fn replace_random(
    database: &rusqlite::Connection,
    seed: u64,
) -> Result<(), rusqlite::Error> {
    for (name, arguments) in [(c"random", 0), (c"randomblob", 1)] {
        let state = Box::into_raw(Box::new(AtomicU64::new(seed)));
        // SAFETY: the handle is open; the name is static; `state` is freed by `drop_state`, which
        // SQLite calls once: when the function goes away, or at once if this call fails.
        let code = unsafe {
            ffi::sqlite3_create_function_v2(
                database.handle(),
                name.as_ptr(),
                arguments,
                ffi::SQLITE_UTF8 | ffi::SQLITE_INNOCUOUS,
                state.cast(),
                Some(random),
                None,
                None,
                Some(drop_state),
            )
        };
        if code != ffi::SQLITE_OK {
            return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        }
    }
    Ok(())
}

unsafe extern "C" fn drop_state(state: *mut c_void) {
    // SAFETY: the box made by `replace_random`, handed back once.
    drop(unsafe { Box::from_raw(state.cast::<AtomicU64>()) });
}

/// SplitMix64.
fn next_random(state: &AtomicU64) -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut mixed = state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// `random()` without, `randomblob(n)` with an argument.
unsafe extern "C" fn random(
    context: *mut ffi::sqlite3_context,
    count: c_int,
    arguments: *mut *mut ffi::sqlite3_value,
) {
    let run = || {
        // SAFETY: user data of a function made by `replace_random`, alive while it exists.
        let state = unsafe { &*ffi::sqlite3_user_data(context).cast::<AtomicU64>() };
        if count == 0 {
            // SAFETY: the context is live during the call.
            unsafe { ffi::sqlite3_result_int64(context, next_random(state).cast_signed()) };
            return;
        }
        // SAFETY: `arguments` has `count` (here one) live values.
        let wanted = unsafe { ffi::sqlite3_value_int64(*arguments) }.clamp(1, 1_000_000_000);
        // SAFETY: the connection of a live context; a negative value only asks for the limit.
        let limit = unsafe {
            ffi::sqlite3_limit(
                ffi::sqlite3_context_db_handle(context),
                ffi::SQLITE_LIMIT_LENGTH,
                -1,
            )
        };
        if wanted > i64::from(limit) {
            // SAFETY: the context is live during the call.
            unsafe { ffi::sqlite3_result_error_toobig(context) };
            return;
        }
        let wanted = usize::try_from(wanted).unwrap_or(1);
        let mut blob = Vec::with_capacity(wanted + 8);
        while blob.len() < wanted {
            blob.extend_from_slice(&next_random(state).to_le_bytes());
        }
        // SAFETY: `wanted` bytes are there, and SQLite copies them before this returns.
        unsafe {
            ffi::sqlite3_result_blob64(
                context,
                blob.as_ptr().cast(),
                wanted as u64,
                ffi::SQLITE_TRANSIENT(),
            );
        }
    };
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        // SAFETY: the context is live during the call.
        unsafe { ffi::sqlite3_result_error_code(context, ffi::SQLITE_INTERNAL) };
    }
}
