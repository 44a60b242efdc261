//! What can go wrong with bytes, and where.
//!
//! [`Damage`] is the world's fault and always names file, offset and structure. The enums around
//! it differ in what the caller can do next: an open that fails leaves the directory as it was, a
//! refused append left no trace, a failed write may have.

use std::{fmt, io};

/// A structure of the on-disk format, as named in `docs/format.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Structure {
    /// The lock file, always empty.
    Lock,
    /// One copy of the identity.
    Identity,
    /// One copy of term and vote.
    Vote,
    /// One copy of a superblock: the start of a journal segment, pack or history segment.
    Superblock,
    /// The identifier of a journal record, kept far from it.
    Identifier,
    /// A journal record: header and payload.
    Record,
    /// A whole journal segment file.
    Segment,
    /// Bytes of a journal record, moved out of the way by an accepted loss.
    Aside,
    /// A chunk: header and content.
    Chunk,
    /// The index of a sealed pack (derived, can be built again).
    PackIndex,
    /// A whole pack file.
    Pack,
    /// A frame of the history.
    Frame,
    /// A whole history segment file.
    HistorySegment,
    /// The hash chain over history frames.
    Chain,
    /// One copy of a checkpoint manifest.
    Manifest,
    /// Bytes that no structure uses and that must be zero.
    Unused,
    /// A file whose name the format does not know.
    Unknown,
}

impl Structure {
    /// The name used in messages and in `docs/format.md`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Identity => "identity",
            Self::Vote => "vote",
            Self::Superblock => "superblock",
            Self::Identifier => "identifier",
            Self::Record => "record",
            Self::Segment => "journal segment",
            Self::Aside => "record kept aside",
            Self::Chunk => "chunk",
            Self::PackIndex => "pack index",
            Self::Pack => "pack",
            Self::Frame => "frame",
            Self::HistorySegment => "history segment",
            Self::Chain => "hash chain",
            Self::Manifest => "checkpoint manifest",
            Self::Unused => "unused bytes",
            Self::Unknown => "unknown file",
        }
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Bytes that are not what was written: where, and how we know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Path below the space directory.
    pub file: String,
    /// First byte of the damaged structure.
    pub offset: u64,
    /// Bytes of the damaged structure (0 when a file or structure is missing).
    pub length: u64,
    /// What stands there.
    pub structure: Structure,
    /// How it was noticed.
    pub what: &'static str,
}

impl Damage {
    /// Names a damaged range.
    pub fn new(
        file: impl Into<String>,
        offset: u64,
        length: u64,
        structure: Structure,
        what: &'static str,
    ) -> Self {
        Self { file: file.into(), offset, length, structure, what }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, length, structure, what } = self;
        write!(f, "{file}: {structure} at byte {offset} ({length} bytes): {what}")
    }
}

impl std::error::Error for Damage {}

/// Why a part of the store could not be opened or created. Unless a variant says otherwise the
/// directory was not changed in any way that matters.
#[derive(Debug)]
pub enum OpenError {
    /// Another process has this directory open.
    Locked,
    /// There is no such space here: `file` does not exist.
    Missing {
        /// The file looked for.
        file: String,
    },
    /// There already is a space here.
    Exists {
        /// The file found.
        file: String,
    },
    /// The file belongs to another space.
    OtherSpace {
        /// The file found.
        file: String,
    },
    /// Written by a version of the program which this one does not read.
    Version {
        /// The file found.
        file: String,
        /// The version it was written with.
        found: u8,
    },
    /// Something that was durable is damaged and there is no second copy.
    Damaged(Damage),
    /// The newest, unconfirmed flush of the journal is damaged: either a crash interrupted it or
    /// it was acknowledged and then damaged, and nothing on this disk can tell which. Opening with
    /// `accept_loss` moves the bytes aside and goes on without them.
    DamagedTail {
        /// The first damaged record.
        damage: Damage,
        /// How many records would be given up.
        records: u64,
    },
    /// The disk is full.
    DiskFull {
        /// The file that could not grow.
        file: String,
    },
    /// An option lies outside its documented bounds.
    InvalidOption {
        /// Which bound.
        what: &'static str,
    },
    /// The operating system refused.
    Io {
        /// The file concerned.
        file: String,
        /// What it said.
        source: io::Error,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked => f.write_str("the directory is in use by another process"),
            Self::Missing { file } => write!(f, "no space here, file=`{file}`"),
            Self::Exists { file } => write!(f, "there is a space here already, file=`{file}`"),
            Self::OtherSpace { file } => write!(f, "belongs to another space, file=`{file}`"),
            Self::Version { file, found } => {
                write!(f, "format version {found} is not supported, file=`{file}`")
            }
            Self::Damaged(damage) => write!(f, "damaged: {damage}"),
            Self::DamagedTail { damage, records } => {
                write!(f, "the newest flush is damaged ({records} records): {damage}")
            }
            Self::DiskFull { file } => write!(f, "disk full, file=`{file}`"),
            Self::InvalidOption { what } => write!(f, "invalid option: {what}"),
            Self::Io { file, .. } => write!(f, "input or output failed, file=`{file}`"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Damaged(damage) | Self::DamagedTail { damage, .. } => Some(damage),
            _ => None,
        }
    }
}

impl OpenError {
    /// Wraps an operating system error, telling a full disk and a lock apart from the rest.
    pub fn io(file: impl Into<String>, source: io::Error) -> Self {
        let file = file.into();
        match source.kind() {
            kind if disk_full(kind) => Self::DiskFull { file },
            _ => Self::Io { file, source },
        }
    }
}

impl From<WriteError> for OpenError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::DiskFull { file } => Self::DiskFull { file },
            WriteError::Io { file, source } => Self::Io { file, source },
            WriteError::Poisoned(_) => {
                Self::Io { file: String::new(), source: io::Error::other("writer is poisoned") }
            }
            WriteError::TooLarge { .. } => Self::InvalidOption { what: "a value is too large" },
            WriteError::Corrupt(damage) => Self::Damaged(damage),
        }
    }
}

/// Whether the kind means that the disk (or a quota) has no room left.
pub(crate) fn disk_full(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// An fsync or write of this writer failed once; what it wrote since the last successful flush is
/// unknown, and it never calls anything durable again. Reopen the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poisoned;

impl fmt::Display for Poisoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a write failed earlier; the store must be opened again")
    }
}

impl std::error::Error for Poisoned {}

/// Why a record was not taken into the journal. It left no trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// The journal is poisoned.
    Poisoned,
    /// The current segment is full and the next one is not prepared: run
    /// [`SegmentJob`](crate::SegmentJob) (this is where a full disk shows), then append again.
    NeedsSegment,
    /// No segment of the configured size can hold the record.
    TooLarge {
        /// Bytes asked for.
        length: u64,
        /// Bytes allowed.
        limit: u64,
    },
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poisoned => Poisoned.fmt(f),
            Self::NeedsSegment => f.write_str("the next journal segment is not prepared"),
            Self::TooLarge { length, limit } => {
                write!(f, "record too large, length=`{length}` limit=`{limit}`")
            }
        }
    }
}

impl std::error::Error for AppendError {}

/// Why something could not be written or made durable.
#[derive(Debug)]
pub enum WriteError {
    /// See [`Poisoned`].
    Poisoned(Poisoned),
    /// The disk is full. Nothing already written is lost; the call may be repeated.
    DiskFull {
        /// The file that could not grow.
        file: String,
    },
    /// The value exceeds a documented bound.
    TooLarge {
        /// Bytes asked for.
        length: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// Something that had to be copied is damaged.
    Corrupt(Damage),
    /// The operating system refused.
    Io {
        /// The file concerned.
        file: String,
        /// What it said.
        source: io::Error,
    },
}

impl WriteError {
    /// Wraps an operating system error, telling a full disk apart from the rest.
    pub fn io(file: impl Into<String>, source: io::Error) -> Self {
        let file = file.into();
        if disk_full(source.kind()) { Self::DiskFull { file } } else { Self::Io { file, source } }
    }
}

impl From<Poisoned> for WriteError {
    fn from(poisoned: Poisoned) -> Self {
        Self::Poisoned(poisoned)
    }
}

impl From<ReadError> for WriteError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Corrupt(damage) => Self::Corrupt(damage),
            ReadError::Io { file, source } => Self::Io { file, source },
            ReadError::Unknown => {
                Self::Io { file: String::new(), source: io::Error::other("unknown handle") }
            }
        }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poisoned(poisoned) => poisoned.fmt(f),
            Self::DiskFull { file } => write!(f, "disk full, file=`{file}`"),
            Self::TooLarge { length, limit } => {
                write!(f, "too large, length=`{length}` limit=`{limit}`")
            }
            Self::Corrupt(damage) => write!(f, "damaged: {damage}"),
            Self::Io { file, .. } => write!(f, "write failed, file=`{file}`"),
        }
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Corrupt(damage) => Some(damage),
            _ => None,
        }
    }
}

/// Why something could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// It was written and is damaged now.
    Corrupt(Damage),
    /// There never was such a thing, or it has been removed.
    Unknown,
    /// The operating system refused.
    Io {
        /// The file concerned.
        file: String,
        /// What it said.
        source: io::Error,
    },
}

impl ReadError {
    pub(crate) fn io(file: impl Into<String>, source: io::Error) -> Self {
        Self::Io { file: file.into(), source }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt(damage) => write!(f, "damaged: {damage}"),
            Self::Unknown => f.write_str("not found in the store"),
            Self::Io { file, .. } => write!(f, "read failed, file=`{file}`"),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Corrupt(damage) => Some(damage),
            Self::Unknown => None,
        }
    }
}
