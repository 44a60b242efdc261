//! Forks, promotion, checks, history.

use std::time::Duration;

use anabranch_api::Target;
use clap::{Args, Subcommand, ValueEnum};

use super::On;
use crate::parse;

/// Make a fork
///
/// A live fork goes on receiving its parent's later writes; a frozen one is cut at one position.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch fork agent-7
  anabranch fork agent-7 --ttl 2h --intent 'reprice the catalogue'
  anabranch fork audit --frozen
  anabranch fork yesterday --at 4711
  anabranch fork try-2 --from agent-7")]
pub(crate) struct Fork {
    /// Name of the new branch
    pub(crate) name: String,
    /// The parent
    #[arg(long, value_name = "TARGET", default_value = "main")]
    pub(crate) from: Target,
    /// Cut it now: later writes of the parent stay out
    #[arg(long)]
    pub(crate) frozen: bool,
    /// Cut it at this index (inclusive) of the past; implies --frozen
    #[arg(long, value_name = "INDEX")]
    pub(crate) at: Option<u64>,
    /// Discard it after this long without use, such as 30m, 2h or 7d
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    pub(crate) ttl: Option<Duration>,
    /// Who answers for it; without it, the actor
    #[arg(long, value_name = "NAME")]
    pub(crate) owner: Option<String>,
}

/// Draw the tree of branches
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch branches
  anabranch branches --all          # promoted, discarded and expired ones too
  anabranch branches --json")]
pub(crate) struct Branches {
    /// Also those that are closed
    #[arg(long, short)]
    pub(crate) all: bool,
}

/// Against what a branch is compared.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Against {
    /// What its own changes started from
    Base,
    /// The target of its promotion, as it is now
    Parent,
}

/// Show what a branch changed
///
/// Counts are complete, also where rows are left out.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch diff agent-7
  anabranch diff agent-7 --stat
  anabranch diff agent-7 --against parent --rows 1000")]
pub(crate) struct Diff {
    /// The branch
    #[arg(value_name = "TARGET")]
    pub(crate) target: Target,
    /// Compare with what it started from, or with its parent now
    #[arg(long, value_enum, default_value = "base")]
    pub(crate) against: Against,
    /// Most rows and keys listed
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub(crate) rows: usize,
    /// Counts only
    #[arg(long)]
    pub(crate) stat: bool,
}

/// What to do with rows and keys changed on both sides.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Policy {
    /// Refuse, and list them
    Fail,
    /// The fork's version wins
    Fork,
    /// The parent's version stays
    Parent,
}

/// How a branch is promoted.
#[derive(Debug, Args)]
pub(crate) struct Promotion {
    /// The branch
    #[arg(value_name = "TARGET")]
    pub(crate) target: Target,
    /// Branch that receives the writes; without it, the parent
    #[arg(long, value_name = "BRANCH")]
    pub(crate) onto: Option<String>,
    /// What to do with rows and keys changed on both sides
    #[arg(long, value_enum, default_value = "fail")]
    pub(crate) policy: Policy,
    /// Merge changes of different columns of one row, in this table
    #[arg(long, value_name = "TABLE")]
    pub(crate) merge_cells: Vec<String>,
    /// Refuse if a table that the branch read has changed on the target since
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Show what a promotion would do now; exit code 1 if it would be refused
///
/// Prints a token that pins both sides: `promote --token` lands exactly what was seen.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch preview agent-7
  anabranch preview agent-7 --policy fork --json")]
pub(crate) struct Preview {
    #[command(flatten)]
    pub(crate) promotion: Promotion,
    /// Most rows and keys listed
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub(crate) rows: usize,
}

/// Make a branch's own writes part of its parent, in one step, after the checks
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch promote agent-7 --intent 'reviewed by ann'
  anabranch promote agent-7 --token \"$(anabranch preview agent-7 --json | jq -r .token)\"
  anabranch promote agent-7 --policy parent")]
pub(crate) struct Promote {
    #[command(flatten)]
    pub(crate) promotion: Promotion,
    /// Token of a preview: refuse if either side moved since
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
}

/// Drop a branch's own writes
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  anabranch discard agent-7 --intent 'wrong idea'")]
pub(crate) struct Discard {
    /// The branch
    #[arg(value_name = "TARGET")]
    pub(crate) target: Target,
}

/// Queries that must return no rows before a promotion lands
#[derive(Debug, Subcommand)]
pub(crate) enum Checks {
    Add(ChecksAdd),
    List(ChecksList),
    Run(ChecksRun),
    Drop(ChecksDrop),
}

/// Add a check to a branch
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  anabranch checks add no-negative-stock 'SELECT * FROM stock WHERE amount < 0'")]
pub(crate) struct ChecksAdd {
    /// Name of the check
    pub(crate) name: String,
    /// A query that must return no rows
    pub(crate) sql: String,
    #[command(flatten)]
    pub(crate) on: On,
}

/// List the checks of a branch
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  anabranch checks list --json")]
pub(crate) struct ChecksList {
    #[command(flatten)]
    pub(crate) on: On,
}

/// Run the checks of a branch on the branch as it is; exit code 1 if one fails
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  anabranch checks run -b main")]
pub(crate) struct ChecksRun {
    #[command(flatten)]
    pub(crate) on: On,
}

/// Remove a check from a branch
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  anabranch checks drop no-negative-stock")]
pub(crate) struct ChecksDrop {
    /// Name of the check
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) on: On,
}

/// List what was done, newest first: when, by whom, why
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch history
  anabranch history -b agent-7 -n 5
  anabranch history --before 4711 --json")]
pub(crate) struct History {
    /// Only operations on this branch
    #[arg(long = "branch", short = 'b', value_name = "TARGET")]
    pub(crate) target: Option<Target>,
    /// Only operations before this index (exclusive)
    #[arg(long, value_name = "INDEX")]
    pub(crate) before: Option<u64>,
    /// Most operations
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 20)]
    pub(crate) count: usize,
    /// Print the hash chain after each operation
    #[arg(long)]
    pub(crate) chain: bool,
}
