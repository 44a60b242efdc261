//! SQLite on a branch: copy-on-write pages, row images, diff, promotion.

#![deny(unsafe_code)]

mod apply;
mod change;
mod check;
mod codec;
mod connection;
mod diff;
mod error;
mod limits;
mod live;
mod map;
mod net;
mod page;
mod preupdate;
mod promote;
mod references;
mod schema;
mod value;
mod vfs;
mod wire;

pub use change::{
    ChangeKind, CommitSet, Fingerprint, RowChange, RowIdentity, Step, TableCounts, TableKey,
    TableShape, counts,
};
pub use check::{CheckResult, run_checks, validate_check};
pub use codec::{Body, InstallError, PageDelta, install};
pub use connection::{
    Cancel, CommitError, CommitSink, Committed, Connection, RunResult, SinkRefusal,
};
pub use diff::{Diff, RowDiff, TableDiff, diff, diff_against};
pub use error::{SqlError, SqlErrorKind};
pub use limits::{Access, Environment, Limits};
pub use live::{Clash, ClashReason, LiveError, rebuild_live};
pub use map::{DecodeCache, DecodeMapError, PageMap};
pub use net::{NetChanges, NetRow, NetStep, net};
pub use page::{MemoryPages, PAGE_SIZE, PageError, PageRef, PageStore};
pub use promote::{
    Candidate, ConflictReason, Policy, PromoteError, Promotion, RowConflict, promote,
};
pub use schema::{ColumnInfo, SchemaItem, TableInfo, TableKind, row_counts, schema, table_list};
pub use value::Value;
pub use wire::Malformed;
