//! What users link: a small blocking client of a space, over HTTP.
//!
//! ```no_run
//! use anabranch_client::{Client, Options, SqlCall};
//!
//! # fn main() -> anabranch_client::Result<()> {
//! let client = Client::new(Options { actor: "agent-7".into(), ..Options::default() })?;
//! client.append("main", "orders", ["one", "two"])?;
//! client.fork("trial", "main")?;
//! client.sql("trial", &SqlCall::new("CREATE TABLE note(body TEXT)"))?;
//! client.promote("trial", &Default::default())?;
//! # Ok(())
//! # }
//! ```
//!
//! **Exactly once.** Unless [`Options::sessions`] is off, the client opens a session at the first
//! write and numbers its writes. A write whose answer is lost is sent again, a bounded number of
//! times, under the same number, and the space answers with the first outcome. A write is never
//! sent twice without such a number. When the attempts are used up the error says
//! [`Happened::Unknown`]. Once an answer was lost, a refusal of a later attempt does not prove that
//! the first one failed, so it is reported as unknown too.
//!
//! **Waiting.** Every call waits at most [`Options::attempts`] times its time limit, plus less than
//! a second for each pause. Reads are repeated in the same way.

mod branch;
mod connect;
mod error;
mod key;
mod node;
mod retry;
mod session;
mod sql;
mod stream;
mod tail;

pub use anabranch_api::http::*;
pub use anabranch_api::{Bytes, Problem, SqlValue, Target};
pub use anabranch_log::{Happened, Kind};
pub use connect::{Client, Options};
pub use error::{Error, Result};
pub use key::{Cas, Scan};
pub use sql::SqlCall;
pub use tail::Tail;
