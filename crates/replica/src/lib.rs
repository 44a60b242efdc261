//! Sans-IO replication: unordered log and Raft order entries as one step function.
//!
//! ```text
//!             Received, Persisted, Read, Order ...            WriteVote, WriteEntries
//!   caller  ────────────────────────────────────►  Replica  ──────────────────────────►  caller
//!   (journal, vote file, clock)                     step      Acknowledge, Apply, ReadReady
//! ```
//!
//! A write arrives as payload in the caller's journal; only its id and digest come here. Once it
//! is durable it is acknowledged (*unordered log*). The leader then orders it: a Raft entry holds
//! the ids of all records durable at that time, in arrival order. That entry rides the next
//! flush; one voter commits it when it is durable, and it is applied.
//!
//! Reading order: [`Event`], [`Effect`], [`Replica`], then the parts: `unordered`, `writes`,
//! `read`, `entries`, and `raft`, the one file that names the Raft library. [`Restored`] is what a
//! restart needs. This version runs one voter; transport, the fast path over several voters and
//! membership come with several.
//!
//! # Invariants
//!
//! 1. `base <= applied <= committed <= durable <= last` in the Raft log, without a gap.
//! 2. An acknowledged record is durable and stays held until the entry that orders it is applied;
//!    an id is ordered only after its payload is durable. Positions never move.
//! 3. The leader orders a prefix of its unordered log and skips nothing; orders never mention a
//!    record twice while it is held.
//! 4. Nobody leads, and no entry is written, in a term whose vote is not durable.
//! 5. A read covers the commit index and every acknowledged record of its beginning.
//! 6. `Apply` comes once for each index, in order, beginning after the snapshot.
//!
//! [`Replica::validate`] asserts them on the fields.
//!
//! # A write, step by step
//!
//! ```
//! use anabranch_log::{Digest, NodeId, SessionId, WriteId};
//! use anabranch_replica::{Config, Effect, Event, Mark, Replica, Restored};
//!
//! let config = Config::single(NodeId(1), 7);
//! let (mut replica, effects) = Replica::start(&config, Restored::default()).unwrap();
//! // The election: its vote must be durable first.
//! let [Effect::WriteVote(vote)] = effects[..] else { panic!() };
//! let effects = replica.step(Event::VotePersisted(vote));
//! assert!(matches!(effects[0], Effect::WriteEntries { batch: 0, .. }));
//! // The caller appends the first entry to the journal (record 1), and a payload (record 2).
//! replica.step(Event::EntriesWritten { batch: 0, first: Mark(1), last: Mark(1) });
//! let id = WriteId { session: SessionId(1), seq: 1, attempt: 0 };
//! replica.step(Event::Received { id, digest: Digest([9; 32]), mark: Mark(2) });
//! // One flush makes both durable: the write is acknowledged and its order is to be written.
//! let effects = replica.step(Event::Persisted { through: Mark(2) });
//! assert_eq!(effects[0], Effect::Acknowledge { ids: vec![id], durable: Mark(2) });
//! assert!(matches!(effects.last(), Some(Effect::WriteEntries { batch: 1, .. })));
//! ```

mod config;
mod effect;
mod entries;
mod entry;
mod event;
mod order;
mod raft;
mod read;
mod replica;
mod restore;
mod unordered;
mod validate;
mod writes;

pub use config::{Config, ConfigError};
pub use effect::{Effect, Persisted};
pub use entry::{EntryKind, LogEntry, Mark, RaftIndex, Term, Vote};
pub use event::Event;
pub use order::{MAX_BATCH, MAX_ENTRY_BYTES, MalformedOrder, Order};
pub use replica::{Held, Replica, Status};
pub use restore::{Restored, StartError, StoredEntry, StoredPayload};
