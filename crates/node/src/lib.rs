//! The loop that runs effects, and the embedded API of one space.
//!
//! [`Space`] is the whole API: append, read, get, put, cas, sql, fork, diff, promote, discard.
//! One space is one directory, one Raft group and one total order. The same code runs in the
//! simulator, over a simulated [`anabranch_store::Disk`].
//!
//! Reading order: `engine` (what happens to a write, without locks or waiting), `shared` (the lock
//! and the waiting; `submissions`, `parking` and `flusher` for crowds), `write` (one write from
//! number to answer), `recovery` (how an engine comes out
//! of a directory), `checkpoint`; then the operations: `streams`, `branches`, `sql`, `live`,
//! `diff`, `promote`; last `background`.

mod background;
mod body;
mod branches;
mod checkpoint;
mod clock;
mod diff;
mod engine;
mod error;
mod expiry;
mod flusher;
mod live;
mod names;
mod options;
mod pages;
mod parking;
mod promote;
mod reads;
mod recovery;
mod session;
mod shared;
mod space;
mod sql;
mod streams;
mod submissions;
mod sweep;
mod tables;
mod view;
mod write;

pub use anabranch_sql::{Limits, Value};
pub use clock::{Clock, MonotonicClock};
pub use error::{Error, Result};
pub use options::Options;
pub use space::{Space, Transaction};
pub use view::*;
