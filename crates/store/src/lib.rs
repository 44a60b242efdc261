//! Bytes on disk: the one place that knows what a space looks like in a directory.
//!
//! | part | file | what it keeps |
//! |---|---|---|
//! | [`identity`], [`vote`] | `identity.{a,b}`, `vote.{a,b}` | who we are, term and vote; twice |
//! | [`journal`] | `journal/*.seg` | payloads in arrival order, Raft entries, transaction parts |
//! | [`chunks`] | `chunks/*.pack` | pages and state blobs, addressed by their BLAKE3 |
//! | [`history`] | `history/*.seg` | every applied operation in index order |
//! | [`checkpoint`] | `checkpoint-*.{a,b}` | the manifest that ties the other three together |
//!
//! Promises:
//! - What is read is verified. A damaged byte becomes a typed error which names file, offset and
//!   structure, or is repaired from a second copy; wrong data is never returned.
//! - Nothing is truncated silently. What an interrupted write may leave is told apart from damage
//!   by the decision table of [`recovery`]; only the first is cut, and the cut is reported.
//! - A failed fsync poisons the writer for good: nothing later is ever called durable.
//! - All I/O goes through [`disk::Disk`]; the crate starts no thread and reads no clock.
//!
//! Media assumptions and fault budget are stated in `docs/format.md`: sectors of 512 bytes are
//! written whole or not at all; rewriting a sector with the same leading bytes leaves them
//! readable; at most one of two copies (record and identifier, file `a` and file `b`) is lost
//! between two openings.
//!
//! The crate knows nothing of consensus, branches or SQL: payloads, history bodies and chunk
//! contents are opaque here.

pub mod chain;
pub mod checkpoint;
pub mod chunks;
mod copies;
pub mod disk;
mod error;
pub mod format;
pub mod history;
pub mod identity;
pub mod inspect;
pub mod journal;
pub mod recovery;
pub mod verify;
pub mod vote;

pub use anabranch_log::{Digest, Index, SessionId, WriteId};
pub use checkpoint::CheckpointManifest;
pub use chunks::{ChunkHandle, ChunkMark, ChunkOptions, ChunkStore};
pub use disk::{Disk, DiskFile, FileDisk, LockGuard, MemoryDisk, Open};
pub use error::{AppendError, Damage, OpenError, Poisoned, ReadError, Structure, WriteError};
pub use history::{Frame, History, HistoryMark, HistoryOptions};
pub use identity::Identity;
pub use journal::{
    Fetch, Flush, Journal, JournalOptions, JournalRecord, Ordinal, Position, PreparedSegment,
    Recovered, SegmentJob, Torn,
};
pub use verify::{Finding, Report, Severity, verify};
pub use vote::Vote;
