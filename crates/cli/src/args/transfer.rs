//! Import and export.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::On;
use crate::parse;

/// What a file that is imported is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFormat {
    /// Comma-separated values with a header line
    Csv,
    /// One JSON object per line
    Jsonl,
    /// A SQLite database, table by table
    Sqlite,
    /// One record per line, for streams
    Lines,
}

/// Load a file into tables or a stream, through a fork
///
/// Everything lands on a fork named import-1, import-2, …, which is promoted at the end: all of it
/// becomes visible at once, after the checks. Rows that cannot be taken go to a file, each with its
/// line and the reason; exit code 1 then.
///
/// Column types are found by looking at every value; a column whose values differ in type keeps
/// each as it is. An existing table keeps its columns and types.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch import flights.csv
  anabranch import flights.csv --table flight --null '\\N' --type tail=TEXT
  anabranch import events.jsonl --stream events
  anabranch import old.sqlite --keep-fork
  zstd -dc log.zst | anabranch import - --stream log")]
pub(crate) struct Import {
    /// The file; `-` is stdin, for streams only
    pub(crate) file: PathBuf,
    /// Table to load; without it, named like the file. Of a SQLite file, only these tables
    #[arg(long, short, value_name = "NAME", conflicts_with = "stream")]
    pub(crate) table: Vec<String>,
    /// Stream to append to, one record per line
    #[arg(long, value_name = "NAME")]
    pub(crate) stream: Option<String>,
    /// What the file is; without it, by its name (streams: lines)
    #[arg(long, value_enum)]
    pub(crate) format: Option<ImportFormat>,
    /// CSV text that stands for NULL
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        help = "CSV text that stands for NULL [default: the empty text]"
    )]
    pub(crate) null: String,
    /// CSV field separator
    #[arg(long, value_name = "CHAR", default_value = ",", value_parser = parse::delimiter)]
    pub(crate) delimiter: u8,
    /// Type of a column: INTEGER, REAL, TEXT, BLOB or ANY
    #[arg(long = "type", value_name = "NAME=TYPE", value_parser = parse::column_type)]
    pub(crate) types: Vec<(String, String)>,
    /// Leave the fork for review instead of promoting it
    #[arg(long)]
    pub(crate) keep_fork: bool,
    /// Where bad rows go; without it, FILE.rejects.jsonl
    #[arg(long, value_name = "FILE")]
    pub(crate) rejects: Option<PathBuf>,
    /// Give up when more rows than this are bad
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub(crate) max_rejects: u64,
    #[command(flatten)]
    pub(crate) on: On,
}

/// What a file that is exported is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Comma-separated values with a header line, for tables
    Csv,
    /// One JSON object per line
    Jsonl,
    /// One record per line, for streams
    Lines,
}

/// Write a table or a stream to a file or to stdout
///
/// Nothing is lost on the way: what a format cannot say is refused, with what to do instead.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch export --table flight > flight.csv
  anabranch export --table flight --format jsonl --output flight.jsonl
  anabranch export --table note --null '\\N'
  anabranch export --stream orders -b agent-7")]
#[command(group = clap::ArgGroup::new("what").required(true).args(["table", "stream"]))]
pub(crate) struct Export {
    /// Table to write
    #[arg(long, short, value_name = "NAME")]
    pub(crate) table: Option<String>,
    /// Stream to write
    #[arg(long, value_name = "NAME")]
    pub(crate) stream: Option<String>,
    /// What to write; without it, csv for tables and lines for streams
    #[arg(long, value_enum)]
    pub(crate) format: Option<ExportFormat>,
    /// CSV text that stands for NULL
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        help = "CSV text that stands for NULL [default: the empty text]"
    )]
    pub(crate) null: String,
    /// CSV field separator
    #[arg(long, value_name = "CHAR", default_value = ",", value_parser = parse::delimiter)]
    pub(crate) delimiter: u8,
    /// File to write; it appears when it is complete
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) on: On,
}
