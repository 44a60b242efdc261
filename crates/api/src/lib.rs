//! Wire types of the HTTP door: what goes in, what comes out, and how it says no.
//!
//! Shapes and text forms only, shared by server and client so that they cannot drift apart; no
//! behaviour. `docs/http.md` is the same in prose.
//!
//! Three rules hold everywhere:
//!
//! * bytes are a JSON string when they are UTF-8 and `{"base64": "…"}` otherwise ([`Bytes`]);
//! * SQL values keep their storage class ([`SqlValue`]);
//! * a request with a field that is not known is refused, a reply may gain fields.

pub mod base64;
mod bytes;
pub mod codes;
pub mod http;
mod problem;
mod target;
mod value;

pub use bytes::Bytes;
pub use problem::{PROBLEM_JSON, Problem};
pub use target::{BadTarget, Target};
pub use value::SqlValue;

/// Longest request body in bytes. The largest append (4 MiB of records) fits even when every byte
/// of it has to be written as a six-byte JSON escape.
pub const REQUEST_BYTES: usize = 32 << 20;
/// Bytes of keys and values after which a reply ends early; at least one item is always sent.
pub const REPLY_BYTES: usize = 4 << 20;
/// Most records, keys or entries in one reply, and the default.
pub const PAGE_ITEMS: usize = 1_000;
/// Most rows that one SQL reply, diff or preview carries.
pub const PAGE_ROWS: usize = 10_000;
/// Rows and keys listed by a diff or preview that asks for no number.
pub const DIFF_ROWS: usize = 100;
/// Longest SQL call that may be asked for, in milliseconds.
pub const SQL_TIMEOUT_MS: u64 = 600_000;
/// Address that a node listens on unless told otherwise.
pub const DEFAULT_ADDR: &str = "127.0.0.1:7420";

const _: () = assert!(6 * anabranch_log::limits::BATCH_BYTES < REQUEST_BYTES);
const _: () = assert!(anabranch_log::limits::RECORD_BYTES <= REPLY_BYTES);
