//! What a forkable log is: vocabulary, branch tree, sessions and the deterministic state.
//!
//! This crate is pure: no clock, no I/O, no randomness, no dependency. [`State::apply`] is a
//! function of the state and the entry alone, so replicas that apply the same entries hold the
//! same state, encode it to the same bytes and give the same answers.
//!
//! Reading order: [`Entry`] and [`Operation`] (what can be asked for), [`State`] (what it does),
//! [`Branch`] (what a branch is), `state/view.rs` (how a view is computed from own writes),
//! `state/promote.rs` (how own writes land), [`Refusal`] and [`Kind`] (how it says no).
//!
//! ```
//! use anabranch_log::*;
//!
//! # fn main() -> Result<(), Refusal> {
//! let mut state = State::new();
//! let mut run = |state: &mut State, operation| {
//!     let id = WriteId { session: SessionId::NONE, seq: 0, attempt: 0 };
//!     let (actor, intent) = (String::from("me"), String::new());
//!     state.apply(&Entry { id, answered: 0, actor, intent, time_ms: 0, operation }).outcome
//! };
//! let orders = StreamName::new("orders")?;
//! let append = |branch, text: &str| Operation::Append {
//!     branch,
//!     stream: StreamName::new("orders").unwrap(),
//!     expected: None,
//!     records: vec![text.into()],
//! };
//! run(&mut state, append(BranchId::MAIN, "a"))?;
//! run(&mut state, Operation::Fork {
//!     parent: BranchId::MAIN,
//!     name: BranchName::new("agent-7")?,
//!     kind: ForkKind::Live,
//!     at: None,
//!     owner: String::from("me"),
//!     ttl_ms: None,
//! })?;
//! let fork = state.resolve(&BranchName::new("agent-7")?)?;
//! run(&mut state, append(fork, "b"))?;
//! run(&mut state, append(BranchId::MAIN, "c"))?;
//! assert_eq!(state.length(BranchId::MAIN, &orders), 2);
//! assert_eq!(state.length(fork, &orders), 3);
//! # Ok(())
//! # }
//! ```

mod applied;
mod branch;
mod codec;
mod id;
pub mod limits;
mod operation;
mod outcome;
mod position;
mod record;
mod refusal;
mod session;
mod state;

pub use applied::{Applied, Change, Outcome};
pub use branch::{Branch, Status};
pub use codec::Malformed;
pub use id::{BranchId, Digest, NodeId, SessionId, WriteId};
pub use operation::{Body, Entry, ForkKind, Operation, Overwrite, Purpose, TablesChange};
pub use outcome::{Happened, Kind};
pub use position::{Index, Offset, TableVersion};
pub use record::{BranchName, Key, StreamKind, StreamName, number_of};
pub use refusal::{Closed, Field, Invalid, Refusal};
pub use session::Session;
pub use state::{KeyConflict, KeyVersion, State};
