//! Streams, keys, SQL.

use std::path::PathBuf;
use std::time::Duration;

use anabranch_api::SqlValue;
use clap::Args;

use super::On;
use crate::parse;

/// Append records to a stream
///
/// Durable when it returns. Without RECORDs, every line of stdin (or of --file) is one record.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch append orders '{\"id\":1}' '{\"id\":2}'
  anabranch append orders --position '{\"id\":3}'
  anabranch append orders -b agent-7 --file orders.jsonl
  tail -F app.log | anabranch append log")]
pub(crate) struct Append {
    /// Name of the stream
    pub(crate) stream: String,
    /// Records, one each
    #[arg(value_name = "RECORD", conflicts_with = "file")]
    pub(crate) records: Vec<String>,
    /// Take every line of this file as one record, such as JSON lines
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Wait for the order and print offset and index
    #[arg(long)]
    pub(crate) position: bool,
    /// Append only if the stream has exactly this many records
    #[arg(long, value_name = "LENGTH")]
    pub(crate) expect: Option<u64>,
    #[command(flatten)]
    pub(crate) on: On,
}

/// Print records of a stream
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch read orders
  anabranch read orders --start 100 --count 10 --long
  anabranch read orders -b agent-7 --json")]
pub(crate) struct Read {
    /// Name of the stream
    pub(crate) stream: String,
    /// First offset (inclusive)
    #[arg(long, short, value_name = "OFFSET", default_value_t = 0)]
    pub(crate) start: u64,
    /// Most records; without it, all there are now
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub(crate) count: Option<u64>,
    /// Print offset and index before each record
    #[arg(long, short)]
    pub(crate) long: bool,
    #[command(flatten)]
    pub(crate) on: On,
}

/// Print records as they come, until interrupted
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch tail orders
  anabranch tail orders --start 0 -b agent-7
  anabranch tail orders -n 1 --json")]
pub(crate) struct Tail {
    /// Name of the stream
    pub(crate) stream: String,
    /// First offset (inclusive); without it, only what comes from now on
    #[arg(long, short, value_name = "OFFSET")]
    pub(crate) start: Option<u64>,
    /// End after this many records
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub(crate) count: Option<u64>,
    /// Print offset and index before each record
    #[arg(long, short)]
    pub(crate) long: bool,
    #[command(flatten)]
    pub(crate) on: On,
}

/// List the streams of a branch
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch streams
  anabranch streams -b agent-7 --json")]
pub(crate) struct Streams {
    #[command(flatten)]
    pub(crate) on: On,
}

/// Set a key
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch put config greeting hello
  anabranch put config logo --file logo.png -b agent-7")]
pub(crate) struct Put {
    /// Name of the keyed stream
    pub(crate) stream: String,
    /// The key
    pub(crate) key: String,
    /// The value
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    pub(crate) value: Option<String>,
    /// Take the value from this file; `-` is stdin
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) on: On,
}

/// Print the value of a key; exit code 1 if it is absent
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch get config greeting
  anabranch get config greeting --json        # with the version that cas compares
  anabranch get config logo --raw > logo.png")]
pub(crate) struct Get {
    /// Name of the keyed stream
    pub(crate) stream: String,
    /// The key
    pub(crate) key: String,
    /// No newline after the value
    #[arg(long)]
    pub(crate) raw: bool,
    #[command(flatten)]
    pub(crate) on: On,
}

/// Delete a key, which need not exist
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  anabranch delete config greeting -b agent-7")]
pub(crate) struct Delete {
    /// Name of the keyed stream
    pub(crate) stream: String,
    /// The key
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) on: On,
}

/// Set or delete a key only if it has the expected version
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch cas config owner alice --absent
  anabranch cas config owner bob --version 17     # the index that `get --json` prints
  anabranch cas config owner --delete --version 18")]
pub(crate) struct Cas {
    /// Name of the keyed stream
    pub(crate) stream: String,
    /// The key
    pub(crate) key: String,
    /// The new value
    #[arg(required_unless_present = "delete", conflicts_with = "delete")]
    pub(crate) value: Option<String>,
    /// Delete the key
    #[arg(long)]
    pub(crate) delete: bool,
    /// Version that the key must have
    #[arg(long, value_name = "INDEX", required_unless_present = "absent")]
    pub(crate) version: Option<u64>,
    /// The key must not exist
    #[arg(long, conflicts_with = "version")]
    pub(crate) absent: bool,
    #[command(flatten)]
    pub(crate) on: On,
}

/// Add to a decimal number and print the sum
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch incr counters visits
  anabranch incr counters stock -3")]
pub(crate) struct Incr {
    /// Name of the keyed stream
    pub(crate) stream: String,
    /// The key; absent counts as 0
    pub(crate) key: String,
    /// What to add
    #[arg(default_value_t = 1, allow_negative_numbers = true)]
    pub(crate) delta: i64,
    #[command(flatten)]
    pub(crate) on: On,
}

/// Print keys and values, in the order of the keys
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch scan config
  anabranch scan config user/ --after user/bob -n 10
  anabranch scan config --keys")]
pub(crate) struct Scan {
    /// Name of the keyed stream
    pub(crate) stream: String,
    /// Only keys that begin with this
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// Only keys greater than this (exclusive)
    #[arg(long, value_name = "KEY")]
    pub(crate) after: Option<String>,
    /// Most keys; without it, all
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub(crate) count: Option<usize>,
    /// Print keys only
    #[arg(long)]
    pub(crate) keys: bool,
    #[command(flatten)]
    pub(crate) on: On,
}

/// Run SQL on a branch, as one transaction
///
/// Without SQL and --file, the statements are read from stdin.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch sql 'SELECT * FROM flight LIMIT 5'
  anabranch sql -b agent-7 'INSERT INTO note VALUES (?1, ?2)' -p 7 -p 'hello'
  anabranch sql -b agent-7 --file schema.sql
  anabranch sql --json 'SELECT 1' | jq .rows")]
pub(crate) struct Sql {
    /// Statements; several are joined
    #[arg(value_name = "SQL", conflicts_with = "file")]
    pub(crate) statements: Vec<String>,
    /// Take the statements from this file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Value of ?1, ?2, …: JSON if it is a SQL value, text otherwise
    #[arg(
        long = "param",
        short,
        value_name = "VALUE",
        value_parser = parse::parameter,
        allow_hyphen_values = true
    )]
    pub(crate) params: Vec<SqlValue>,
    /// Refuse statements that would write
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Most rows printed
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub(crate) max_rows: usize,
    /// Longest run of the statements
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse::duration)]
    pub(crate) run_timeout: Duration,
    #[command(flatten)]
    pub(crate) on: On,
}

/// List the tables of a branch
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch tables
  anabranch tables -b agent-7 --json")]
pub(crate) struct Tables {
    #[command(flatten)]
    pub(crate) on: On,
}
