//! What a demo found out: plain data, every number read back from the space or measured.
//!
//! `anabranch demo --json` prints a [`Story`] as one document; `render` makes the text of it.

use serde::Serialize;
use serde_json::Value as Json;

/// Everything a demo did and read back.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Story {
    /// Directory of the space, kept after the demo.
    pub directory: String,
    /// Days of 2013 that were used.
    pub days: u32,
    /// The data, on a fork, to main.
    pub load: Load,
    /// Forks made only to measure them.
    pub forks: ForkTimes,
    /// The first agent: its work lands.
    pub retime: Retime,
    /// The second: it meets a change on main.
    pub clash: Clash,
    /// The third: a check stops it.
    pub swap: Swap,
    /// The same question asked on three branches.
    pub views: Views,
    /// What main received meanwhile, verified record by record.
    pub arrivals: Arrivals,
    /// Every branch there was.
    pub branches: Vec<BranchLine>,
    /// The newest operations, newest first, without appends of the arrivals and closings.
    pub history: History,
    /// The space, closed and opened again.
    pub reopened: Reopened,
    /// Bytes of the directory at the end.
    pub directory_bytes: u64,
    /// Wall time of everything, in seconds.
    pub seconds: f64,
}

/// The extract on main.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Load {
    /// Tables of main with their rows.
    pub tables: Vec<(String, u64)>,
    /// Records of the stream `departures` on main.
    pub departures: u64,
    /// First day that was left to arrive later, `2013-12-25`.
    pub later_from: String,
    /// The first attempt to promote; landed only if the data had no fault.
    pub first: Verdict,
    /// Aircraft that the source has in two places at once.
    pub found: u64,
    /// The first few of them.
    pub examples: Vec<TwoPlaces>,
    /// Flights that lost their aircraft for it.
    pub set_aside: u64,
    /// The promotion that landed.
    pub landed: Verdict,
    /// Rows and records moved to main by that one promotion.
    pub rows: u64,
    /// Seconds from the first statement to the data standing on the fork.
    pub fill_seconds: f64,
    /// Rows and records put on the fork per second of it.
    pub fill_per_second: u64,
    /// Seconds of the chapter.
    pub seconds: f64,
}

/// An attempt to promote.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Verdict {
    /// Whether it landed.
    pub landed: bool,
    /// Its index, if it landed.
    pub index: Option<u64>,
    /// The kind of error, if it was refused.
    pub code: Option<&'static str>,
    /// The error's text.
    pub message: Option<String>,
    /// Checks that ran on exactly what would land: name, and whether it passed.
    pub checks: Vec<(String, bool)>,
    /// How long the call took, in milliseconds.
    pub ms: f64,
}

/// One row of the check `aircraft_in_two_places`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct TwoPlaces {
    /// Tail number.
    pub aircraft: String,
    /// The flight it is under way on, `DL 120`.
    pub flight: String,
    /// `JFK-LAX`
    pub route: String,
    /// When that flight left, universal time.
    pub left: String,
    /// When it arrived.
    pub arrived: String,
    /// The flight that leaves meanwhile.
    pub other: String,
    /// Its route.
    pub other_route: String,
    /// When it left.
    pub other_left: String,
}

/// Forks made one after the other while appends go on, then discarded.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ForkTimes {
    /// How many.
    pub count: u64,
    /// Half of them were durable and usable within this time, in milliseconds.
    pub ms_p50: f64,
    /// The slowest.
    pub ms_max: f64,
}

/// What an agent did on its fork.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Work {
    /// Name of the agent and of its fork.
    pub agent: String,
    /// Why, in its words.
    pub intent: String,
    /// `live` or `frozen`.
    pub kind: &'static str,
    /// How long the fork took, in milliseconds.
    pub fork_ms: f64,
    /// What it ran, with the number of rows or records changed.
    pub steps: Vec<(String, u64)>,
}

/// Changes of a branch.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Changes {
    /// Tables: counts are complete, rows are the first few, deletions first.
    pub tables: Vec<TableChanges>,
    /// Own records per plain stream.
    pub streams: Vec<(String, u64)>,
    /// How long the diff took, in milliseconds.
    pub ms: f64,
}

/// Changes of one table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TableChanges {
    /// Name.
    pub table: String,
    /// Rows inserted.
    pub inserts: u64,
    /// Rows updated.
    pub updates: u64,
    /// Rows deleted.
    pub deletes: u64,
    /// A few of each.
    pub rows: Vec<RowChange>,
}

/// One changed row.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RowChange {
    /// `insert`, `update` or `delete`.
    pub kind: &'static str,
    /// The primary key.
    pub key: Vec<Json>,
    /// Columns that differ: name, before, after.
    pub columns: Vec<(String, Json, Json)>,
}

/// The first agent.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Retime {
    /// What it did.
    pub work: Work,
    /// The day it worked on.
    pub day: String,
    /// Mean delay of that day, in minutes.
    pub mean_delay_minutes: f64,
    /// Its diff before the promotion.
    pub changes: Changes,
    /// The promotion.
    pub verdict: Verdict,
}

/// A row or key that both sides changed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct BothChanged {
    /// Table or keyed stream.
    pub place: String,
    /// Primary key, or key.
    pub key: String,
    /// Column; `value` for a key.
    pub column: String,
    /// As the fork first saw it.
    pub base: Json,
    /// On the fork.
    pub ours: Json,
    /// On main now.
    pub theirs: Json,
}

/// The second agent.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Clash {
    /// What it did.
    pub work: Work,
    /// What the desk did on main meanwhile.
    pub meanwhile: Vec<(String, u64)>,
    /// The promotion that was refused.
    pub refused: Verdict,
    /// Base, ours and theirs.
    pub conflicts: Vec<BothChanged>,
    /// The promotion that left main's version wherever both had changed something.
    pub settled: Verdict,
    /// Rows of the fork that landed.
    pub rows_landed: u64,
    /// Rows and keys where main's version stayed.
    pub left_out: u64,
}

/// The third agent.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Swap {
    /// What it did.
    pub work: Work,
    /// The promotion that was refused.
    pub refused: Verdict,
    /// What the check found.
    pub found: Vec<TwoPlaces>,
    /// Index of the discard.
    pub discarded: u64,
}

/// The same question, asked on several branches at the end.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Views {
    /// The day it is about.
    pub day: String,
    /// The key it is about.
    pub key: String,
    /// One row per branch.
    pub branches: Vec<View>,
}

/// What one branch answers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct View {
    /// Name.
    pub branch: String,
    /// How it sees its parent.
    pub kind: String,
    /// Flights of the day in the table.
    pub flights: u64,
    /// Of these, more than an hour late.
    pub late: u64,
    /// Length of the stream `departures`.
    pub departures: u64,
    /// Value of the key in the keyed stream `gates`.
    pub gate: String,
}

/// Appends on main during everything else.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Arrivals {
    /// Records acknowledged, each one durable, each one read back in order.
    pub acknowledged: u64,
    /// Offset of the first.
    pub first_offset: u64,
    /// Seconds during which they were appended.
    pub seconds: f64,
    /// Half were acknowledged within this time, in milliseconds.
    pub ms_p50: f64,
    /// 99 of 100 were.
    pub ms_p99: f64,
    /// The slowest.
    pub ms_max: f64,
}

/// One branch of the tree, parents before children.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct BranchLine {
    /// Name; of a group, its first and last.
    pub name: String,
    /// Lines of the tree in front of it.
    pub tree: String,
    /// How it sees its parent, and since when.
    pub kind: String,
    /// What became of it.
    pub status: String,
    /// Branches on this line; more than one for forks made only to be measured.
    pub count: u64,
}

/// The newest operations.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct History {
    /// Newest first.
    pub entries: Vec<HistoryLine>,
    /// Appends of the arrivals between them, not listed.
    pub appends_between: u64,
}

/// One operation.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HistoryLine {
    /// Its index.
    pub index: u64,
    /// Branch.
    pub branch: String,
    /// What it was, with details.
    pub what: String,
    /// Who.
    pub actor: String,
    /// Why.
    pub intent: String,
}

/// The space, closed and opened again.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Reopened {
    /// Last index before.
    pub index: u64,
    /// Hash chain at that index, the same before and after.
    pub chain: String,
    /// How long opening took, in milliseconds.
    pub ms: f64,
}
