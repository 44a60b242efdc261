//! The command line as clap types: derive only, no logic.

mod branch;
mod data;
mod node;
mod transfer;

use std::path::PathBuf;
use std::time::Duration;

use anabranch_api::Target;
use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use branch::*;
pub(crate) use data::*;
pub(crate) use node::*;
pub(crate) use transfer::*;

use crate::parse;

/// Streams, keys and SQL tables on one log that can be forked.
#[derive(Debug, Parser)]
#[command(
    name = "anabranch",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    after_help = "\
A TARGET is `branch`, `@branch` or `space@branch`; without one it is `main`.

Exit codes: 0 done, 1 the answer is no, 2 usage, 3 unavailable and nothing happened,
4 it cannot be told whether it happened.

Start with:
  anabranch dev                         # a node on 127.0.0.1:7420, in ./anabranch-data
  anabranch append orders '{\"id\":1}'    # in another terminal
  anabranch fork agent-7
  anabranch sql -b agent-7 'CREATE TABLE note(body TEXT)'
  anabranch diff agent-7
  anabranch promote agent-7"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Address of the node [env: ANABRANCH_ADDR] [default: 127.0.0.1:7420]
    #[arg(long, global = true, value_name = "HOST:PORT")]
    pub(crate) addr: Option<String>,
    /// Open the space in this directory instead, in this process
    #[arg(long, global = true, value_name = "DIR", conflicts_with = "addr")]
    pub(crate) dir: Option<PathBuf>,
    /// Who does it [env: ANABRANCH_ACTOR] [default: the user's name]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) actor: Option<String>,
    /// Why; kept with every write, for ever
    #[arg(long, global = true, value_name = "TEXT")]
    pub(crate) intent: Option<String>,
    /// Longest wait for one answer, such as 500ms, 30s or 5m
    #[arg(
        long,
        global = true,
        value_name = "TIME",
        default_value = "60s",
        value_parser = parse::duration
    )]
    pub(crate) timeout: Duration,
    /// Print JSON, one value per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print data and errors only
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Log what happens to stderr; twice for every request
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Colour
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

/// When to colour.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Dev(Dev),
    Serve(Serve),
    Demo(Demo),
    Status(Status),
    Checkpoint(Checkpoint),
    Append(Append),
    Read(Read),
    Tail(Tail),
    Streams(Streams),
    Put(Put),
    Get(Get),
    Delete(Delete),
    Cas(Cas),
    Incr(Incr),
    Scan(Scan),
    Sql(Sql),
    Tables(Tables),
    Fork(Fork),
    Branches(Branches),
    Diff(Diff),
    Preview(Preview),
    Promote(Promote),
    Discard(Discard),
    #[command(subcommand)]
    Checks(Checks),
    History(History),
    Import(Import),
    Export(Export),
    Verify(Verify),
    Inspect(Inspect),
    Completions(Completions),
    Version(Version),
}

impl Command {
    /// Whether it runs a node that others talk to.
    pub(crate) fn serves(&self) -> bool {
        matches!(self, Command::Dev(_) | Command::Serve(_))
    }
}

/// The branch that a command works on.
#[derive(Debug, Args)]
pub(crate) struct On {
    /// The branch
    #[arg(
        long = "branch",
        short = 'b',
        value_name = "TARGET",
        env = "ANABRANCH_BRANCH",
        hide_env_values = true,
        default_value = "main"
    )]
    pub(crate) target: Target,
}
