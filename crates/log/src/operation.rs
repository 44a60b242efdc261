//! What a client or the leader asks for: an [`Entry`] holds one [`Operation`].

use crate::limits;
use crate::record::check_name;
use crate::{
    BranchId, BranchName, Digest, Field, Index, Invalid, Key, Offset, Refusal, SessionId,
    StreamName, TableVersion, WriteId,
};

/// One ordered request: who, why and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Names the write for retries.
    pub id: WriteId,
    /// Low-water mark of the session: every number up to and including this one has been answered
    /// to the client, so its outcome may be forgotten. Always below `id.seq`.
    pub answered: u64,
    /// Who wrote.
    pub actor: String,
    /// Why, in the actor's words; may be empty.
    pub intent: String,
    /// The client's wall clock in milliseconds since 1970: shown, never interpreted.
    pub time_ms: u64,
    /// What is asked for.
    pub operation: Operation,
}

/// How a fork sees its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ForkKind {
    /// Goes on receiving the parent's later writes.
    Live,
    /// Cut at one position.
    Frozen,
}

/// Why a branch is being closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Its own writes shall become part of a branch.
    Promote {
        /// The receiver.
        into: BranchId,
    },
    /// Its own writes shall be dropped.
    Discard,
    /// The same, because nobody used it for the length of its TTL.
    Expire {
        /// The branch's last use as the leader saw it; void if it was used since.
        last_used: Index,
    },
}

/// What a promotion does to the target's tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TablesChange {
    /// Nothing.
    None,
    /// The target's tables stood still since a frozen fork was made: it takes the fork's pages.
    TakeFork,
    /// The change that the leader computed on the target's tables.
    Body(Body),
}

/// A table change, opaque here: encoded and decoded by the crate that runs SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The bytes themselves.
    Inline(Vec<u8>),
    /// Parts that were made durable before the entry that names them.
    Parts {
        /// Names the parts within the leader's term.
        transaction: u64,
        /// Their number, at least 1.
        parts: u32,
        /// Bytes of all parts together.
        bytes: u64,
        /// Digest of all bytes in order.
        digest: Digest,
    },
}

/// A key of the target that a promotion replaces although both sides changed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overwrite {
    /// The keyed stream.
    pub stream: StreamName,
    /// The key.
    pub key: Key,
    /// The target's newest version that was reviewed; a newer one is a conflict again.
    pub theirs: Option<Index>,
}

/// One operation. `Append` without `expected`, `Put` and `Delete` are nil-external: their answers
/// show nothing of the state, so they may be acknowledged before they are ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Adds records to a plain stream.
    Append {
        /// The branch.
        branch: BranchId,
        /// The stream; it need not exist.
        stream: StreamName,
        /// If given, the view's length must be exactly this.
        expected: Option<Offset>,
        /// The records, at least one.
        records: Vec<Vec<u8>>,
    },
    /// Sets a key.
    Put {
        /// The branch.
        branch: BranchId,
        /// The keyed stream.
        stream: StreamName,
        /// The key.
        key: Key,
        /// Its new value.
        value: Vec<u8>,
    },
    /// Deletes a key; that it is absent is no error.
    Delete {
        /// The branch.
        branch: BranchId,
        /// The keyed stream.
        stream: StreamName,
        /// The key.
        key: Key,
    },
    /// Sets or deletes a key if its newest version is the expected one.
    Cas {
        /// The branch.
        branch: BranchId,
        /// The keyed stream.
        stream: StreamName,
        /// The key.
        key: Key,
        /// Index of the newest version in the branch's view; `None` is absent or deleted.
        expected: Option<Index>,
        /// The new value; `None` deletes.
        value: Option<Vec<u8>>,
    },
    /// Adds to a decimal number; an absent key counts as 0.
    Incr {
        /// The branch.
        branch: BranchId,
        /// The keyed stream.
        stream: StreamName,
        /// The key.
        key: Key,
        /// What to add.
        delta: i64,
    },
    /// Makes a branch.
    Fork {
        /// The parent.
        parent: BranchId,
        /// Name of the new branch; free if the last branch of that name is closed.
        name: BranchName,
        /// Live or frozen.
        kind: ForkKind,
        /// Frozen only: the index (inclusive) to cut at; `None` is now.
        at: Option<Index>,
        /// Who answers for it.
        owner: String,
        /// Idle time after which the leader may expire it, in milliseconds, above 0.
        ttl_ms: Option<u64>,
    },
    /// First phase of closing: from here on nothing new is acknowledged on the branch.
    Closing {
        /// The branch.
        branch: BranchId,
        /// What shall become of it.
        purpose: Purpose,
    },
    /// Second phase: the branch's own writes become part of `into`, in one step.
    Promote {
        /// The branch, closing for this purpose.
        branch: BranchId,
        /// Index of its `Closing`.
        closing: Index,
        /// The receiver.
        into: BranchId,
        /// Version of the receiver's tables on which the candidate was built and checked.
        target_tables: TableVersion,
        /// What happens to the receiver's tables.
        tables: TablesChange,
        /// Keys settled for the receiver: no version of them is moved.
        leave_out: Vec<(StreamName, Key)>,
        /// Keys settled for the branch.
        overwrite: Vec<Overwrite>,
        /// For the history; opaque.
        summary: Vec<u8>,
    },
    /// Second phase: the branch's own writes are dropped.
    Discard {
        /// The branch, closing to be discarded or expired.
        branch: BranchId,
        /// Index of its `Closing`.
        closing: Index,
    },
    /// Gives up a closing: the branch is open again.
    Reopen {
        /// The branch.
        branch: BranchId,
        /// Index of its `Closing`.
        closing: Index,
    },
    /// A SQL transaction's changes.
    Commit {
        /// The branch.
        branch: BranchId,
        /// Version of the branch's tables on which the statements ran.
        base: TableVersion,
        /// On a live fork, and only there: the parent's version that was read.
        parent: Option<TableVersion>,
        /// The changes.
        body: Body,
        /// For the history; opaque.
        summary: Vec<u8>,
    },
    /// Adds a check to a branch.
    AddCheck {
        /// The branch.
        branch: BranchId,
        /// Its name, in the same alphabet as a stream's.
        name: String,
        /// A query that must return no rows.
        sql: String,
    },
    /// Removes a check.
    DropCheck {
        /// The branch.
        branch: BranchId,
        /// Its name.
        name: String,
    },
    /// Opens a session; the entry itself may have none.
    OpenSession {
        /// Who opened it.
        owner: String,
    },
    /// Ends a session: its outcomes are forgotten and its later writes refused.
    CloseSession {
        /// The session.
        session: SessionId,
    },
    /// Every replica takes a checkpoint exactly here.
    Checkpoint,
}

impl Operation {
    /// Whether the answer shows nothing of the state, so that it may come before the order.
    #[must_use]
    pub fn is_nil_external(&self) -> bool {
        matches!(
            self,
            Operation::Append { expected: None, .. }
                | Operation::Put { .. }
                | Operation::Delete { .. }
        )
    }

    /// The branch it acts on (of a fork, the parent); `None` for the space itself.
    #[must_use]
    pub fn branch(&self) -> Option<BranchId> {
        match self {
            Operation::Append { branch, .. }
            | Operation::Put { branch, .. }
            | Operation::Delete { branch, .. }
            | Operation::Cas { branch, .. }
            | Operation::Incr { branch, .. }
            | Operation::Closing { branch, .. }
            | Operation::Promote { branch, .. }
            | Operation::Discard { branch, .. }
            | Operation::Reopen { branch, .. }
            | Operation::Commit { branch, .. }
            | Operation::AddCheck { branch, .. }
            | Operation::DropCheck { branch, .. } => Some(*branch),
            Operation::Fork { parent, .. } => Some(*parent),
            Operation::OpenSession { .. }
            | Operation::CloseSession { .. }
            | Operation::Checkpoint => None,
        }
    }

    /// Its name in the history and in messages.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Operation::Append { .. } => "append",
            Operation::Put { .. } => "put",
            Operation::Delete { .. } => "delete",
            Operation::Cas { .. } => "cas",
            Operation::Incr { .. } => "incr",
            Operation::Fork { .. } => "fork",
            Operation::Closing { .. } => "closing",
            Operation::Promote { .. } => "promote",
            Operation::Discard { .. } => "discard",
            Operation::Reopen { .. } => "reopen",
            Operation::Commit { .. } => "commit",
            Operation::AddCheck { .. } => "add-check",
            Operation::DropCheck { .. } => "drop-check",
            Operation::OpenSession { .. } => "open-session",
            Operation::CloseSession { .. } => "close-session",
            Operation::Checkpoint => "checkpoint",
        }
    }

    /// How many indexes it takes when applied.
    #[must_use]
    pub fn index_count(&self) -> u64 {
        match self {
            Operation::Append { records, .. } => (records.len() as u64).max(1),
            _ => 1,
        }
    }
}

impl Entry {
    /// Checks all that the entry alone decides: sizes, alphabets, sequence numbers.
    ///
    /// The answer is the same before acknowledgement and when the entry is applied.
    pub fn validate(&self) -> Result<(), Refusal> {
        if self.id.session != SessionId::NONE {
            if self.answered >= self.id.seq {
                return Err(Refusal::Invalid(Invalid::SeqAnswered));
            }
            if self.id.seq - self.answered > limits::SESSION_WINDOW {
                return Err(Refusal::WindowFull { session: self.id.session });
            }
        }
        Refusal::check_size(Field::Actor, self.actor.len(), limits::ACTOR_BYTES)?;
        Refusal::check_size(Field::Intent, self.intent.len(), limits::INTENT_BYTES)?;
        self.operation.validate()
    }
}

impl Operation {
    fn validate(&self) -> Result<(), Refusal> {
        match self {
            Operation::Append { records, .. } => validate_records(records),
            Operation::Put { value, .. } | Operation::Cas { value: Some(value), .. } => {
                Refusal::check_size(Field::Value, value.len(), limits::RECORD_BYTES)
            }
            Operation::Fork { kind, at, owner, ttl_ms, .. } => {
                Refusal::check_size(Field::Owner, owner.len(), limits::ACTOR_BYTES)?;
                if *ttl_ms == Some(0) {
                    return Err(Refusal::Invalid(Invalid::TtlZero));
                }
                if at.is_some() && *kind == ForkKind::Live {
                    return Err(Refusal::Invalid(Invalid::LiveForkAt));
                }
                Ok(())
            }
            Operation::Promote { tables, leave_out, overwrite, summary, .. } => {
                Refusal::check_size(Field::Summary, summary.len(), limits::SUMMARY_BYTES)?;
                Refusal::check_size(Field::LeaveOut, leave_out.len(), limits::SETTLED_KEYS)?;
                Refusal::check_size(Field::Overwrite, overwrite.len(), limits::SETTLED_KEYS)?;
                match tables {
                    TablesChange::Body(body) => validate_body(body),
                    TablesChange::None | TablesChange::TakeFork => Ok(()),
                }
            }
            Operation::Commit { body, summary, .. } => {
                Refusal::check_size(Field::Summary, summary.len(), limits::SUMMARY_BYTES)?;
                validate_body(body)
            }
            Operation::AddCheck { name, sql, .. } => {
                check_name(name, Field::CheckName, limits::CHECK_NAME_BYTES)?;
                if sql.is_empty() {
                    return Err(Refusal::Invalid(Invalid::Empty(Field::CheckSql)));
                }
                Refusal::check_size(Field::CheckSql, sql.len(), limits::CHECK_SQL_BYTES)
            }
            Operation::DropCheck { name, .. } => {
                check_name(name, Field::CheckName, limits::CHECK_NAME_BYTES)
            }
            Operation::OpenSession { owner } => {
                Refusal::check_size(Field::Owner, owner.len(), limits::ACTOR_BYTES)
            }
            Operation::Delete { .. }
            | Operation::Cas { value: None, .. }
            | Operation::Incr { .. }
            | Operation::Closing { .. }
            | Operation::Discard { .. }
            | Operation::Reopen { .. }
            | Operation::CloseSession { .. }
            | Operation::Checkpoint => Ok(()),
        }
    }
}

fn validate_records(records: &[Vec<u8>]) -> Result<(), Refusal> {
    if records.is_empty() {
        return Err(Refusal::Invalid(Invalid::Empty(Field::Batch)));
    }
    Refusal::check_size(Field::Batch, records.len(), limits::BATCH_RECORDS)?;
    for record in records {
        Refusal::check_size(Field::Record, record.len(), limits::RECORD_BYTES)?;
    }
    let bytes = records.iter().map(Vec::len).sum();
    Refusal::check_size(Field::BatchBytes, bytes, limits::BATCH_BYTES)
}

fn validate_body(body: &Body) -> Result<(), Refusal> {
    match body {
        Body::Inline(bytes) => {
            Refusal::check_size(Field::Body, bytes.len(), limits::INLINE_BODY_BYTES)
        }
        Body::Parts { parts: 0, .. } => Err(Refusal::Invalid(Invalid::Empty(Field::Body))),
        Body::Parts { bytes, .. } if *bytes > limits::PARTS_BYTES => {
            Err(Refusal::TooLarge { field: Field::Body, size: *bytes, max: limits::PARTS_BYTES })
        }
        Body::Parts { .. } => Ok(()),
    }
}
