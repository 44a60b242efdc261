//! Every maximum, with its unit and reason; all bounds are inclusive.
//!
//! Sizes are checked on the entry alone, before acknowledgement and again when it is applied, so
//! both answers agree. Quotas that depend on the state (see `quotas`) refuse a nil-external write
//! only at admission: nothing may refuse a write after its acknowledgement.

/// Bytes of a branch name; it is part of URLs and prompts.
pub const BRANCH_NAME_BYTES: usize = 64;
/// Bytes of a stream name.
pub const STREAM_NAME_BYTES: usize = 128;
/// Bytes of a key; keys are kept in memory.
pub const KEY_BYTES: usize = 1024;
/// Bytes of one record or one value.
pub const RECORD_BYTES: usize = 1 << 20;
/// Records of one append.
pub const BATCH_RECORDS: usize = 4096;
/// Bytes of all records of one append.
pub const BATCH_BYTES: usize = 4 << 20;
/// Bytes of an actor's or owner's name.
pub const ACTOR_BYTES: usize = 128;
/// Bytes of an intent.
pub const INTENT_BYTES: usize = 1024;
/// Bytes of the summary of a commit or promotion, kept for the history.
pub const SUMMARY_BYTES: usize = 64 << 10;
/// Bytes of table changes inside one entry; more is sent in parts.
pub const INLINE_BODY_BYTES: usize = 4 << 20;
/// Bytes of table changes sent in parts.
pub const PARTS_BYTES: u64 = 1 << 30;
/// Keys that one promotion may leave out or overwrite, each.
pub const SETTLED_KEYS: usize = 65_536;
/// Bytes of a check's name.
pub const CHECK_NAME_BYTES: usize = 128;
/// Bytes of a check's query.
pub const CHECK_SQL_BYTES: usize = 64 << 10;
/// Checks of one branch.
pub const CHECKS: usize = 256;
/// Sequence numbers that a session may have unanswered: an entry's number lies at most this far
/// above its low-water mark.
pub const SESSION_WINDOW: u64 = 1024;
/// Bytes of one outcome kept for retries.
pub const OUTCOME_BYTES: usize = 4 << 10;
/// Open sessions of a space.
pub const SESSIONS: usize = 65_536;
/// Versions of a branch's tables whose roots are kept, newest first: how far back a frozen fork
/// may be cut.
pub const RETAINED_ROOTS: usize = 256;
/// Forks between a branch and the root; it bounds the cost of every lookup.
pub const DEPTH: u32 = 64;
/// Branches ever made in a space; a closed one costs about as much memory as an idle one.
pub const BRANCHES: u64 = 1 << 24;
/// Streams that a branch may hold own records of, before admission refuses to start another.
/// A quota: writes acknowledged at the same time may overshoot it.
pub const OWN_STREAMS: usize = 65_536;
/// Conflicting keys listed in a refusal; the count beside them is complete.
pub const CONFLICTS_LISTED: usize = 3;

/// No index reaches this value, so that the length of a view, a sum over all levels, never
/// overflows. At a million operations a second it takes two thousand years.
pub(crate) const INDEX_END: u64 = 1 << 56;

const _: () = assert!(RECORD_BYTES <= BATCH_BYTES);
const _: () = assert!(
    CONFLICTS_LISTED * (STREAM_NAME_BYTES + KEY_BYTES + 8) + 64 <= OUTCOME_BYTES,
    "a refusal that lists conflicts must fit into a kept outcome"
);
const _: () = assert!(RETAINED_ROOTS >= 1);
const _: () = assert!(DEPTH as u64 + 1 < u64::MAX / INDEX_END);
