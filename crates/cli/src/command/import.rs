//! `import`: a file into tables or a stream, through a fork.
//!
//! The file is looked through first, so that most of what can be wrong is found before anything is
//! written. Then a frozen fork receives everything in batches of bounded size, each written exactly
//! once, and is promoted: all of it becomes visible in one step, after the target's checks. When
//! anything fails before that, the fork is discarded.

mod column;
mod csv;
mod jsonl;
mod load;
mod reject;
mod sqlite;
mod stream;

use std::path::Path;

use anabranch_client::{By, Client, ForkKind, ForkRequest, PromoteOptions};
use anabranch_log::Kind;
use serde::Serialize;

use self::column::Column;
pub(super) use self::column::quote;
use self::reject::Rejects;
use super::Context;
use crate::args::{Import, ImportFormat};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// Names tried for the fork, when others import at the same time.
const NAMES: u64 = 100;

/// One row of a file, or why it is none.
enum Item {
    Row(load::Row),
    Bad { line: u64, reason: String, text: String },
}

/// Takes items as they are read, with the number of bytes read so far.
type Sink<'a> = dyn FnMut(Item, u64) -> Outcome<()> + 'a;

/// Something that rows come from.
trait Source {
    /// Gives every row to `sink`, in the order of the file.
    fn each(&mut self, sink: &mut Sink<'_>) -> Outcome<()>;
    /// Bytes that will be read, if that is known.
    fn total(&self) -> Option<u64>;
}

/// A table to load.
struct Job {
    table: String,
    /// Statements that come before the rows.
    create: Vec<String>,
    columns: Vec<Column>,
    source: Box<dyn Source>,
    /// Statements that come after the rows.
    finish: Vec<String>,
}

/// What came of it.
#[derive(Serialize)]
struct Report {
    fork: String,
    branch: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tables: Vec<TableReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<stream::StreamReport>,
    rejected: u64,
    rejects: Option<String>,
    /// Index of the promotion; `null` when the fork was kept.
    promoted: Option<u64>,
}

#[derive(Serialize)]
struct TableReport {
    table: String,
    rows: u64,
    columns: Vec<Column>,
}

pub(crate) fn run(context: &Context, args: &Import) -> Outcome {
    let format = format(args)?;
    let connection = context.connect_numbered()?;
    let branch = connection.branch(&args.on.target)?.to_owned();
    let client = if context.settings.intent.is_empty() {
        connection.because(format!("import {}", name_of(&args.file)))
    } else {
        connection.because(context.settings.intent.clone())
    };
    let jobs = match (&args.stream, format) {
        (Some(_), _) => Vec::new(),
        (None, ImportFormat::Csv) => vec![csv::job(context, &client, &branch, args)?],
        (None, ImportFormat::Jsonl) => vec![jsonl::job(context, &client, &branch, args)?],
        (None, ImportFormat::Sqlite) => sqlite::jobs(context, &client, &branch, args)?,
        (None, ImportFormat::Lines) => {
            let hint = "name the stream with --stream, or choose another --format";
            return Err(Failure::usage("lines are for streams", hint));
        }
    };
    for job in &jobs {
        let columns: Vec<String> = job.columns.iter().map(ToString::to_string).collect();
        context.printer.note(&format!("{}: {}", job.table, columns.join(", ")));
    }
    let fork = make_fork(&client, &branch)?;
    let mut rejects = Rejects::new(args);
    let loaded = fill(context, &client, &fork, (args, format, jobs), &mut rejects);
    match loaded.and_then(|report| rejects.finish().map(|()| report)) {
        Ok((tables, stream)) => {
            let report = Report {
                fork,
                branch,
                tables,
                stream,
                rejected: rejects.count(),
                rejects: rejects.path(),
                promoted: None,
            };
            land(context, &client, report, args.keep_fork)
        }
        Err(failure) => {
            abandon(context, &client, &fork);
            Err(failure)
        }
    }
}

/// What the file is, by its name if nothing was said.
fn format(args: &Import) -> Outcome<ImportFormat> {
    let is_stream = args.stream.is_some();
    let stdin = args.file == Path::new("-");
    if stdin && !is_stream {
        let hint = "tables are looked through before they are loaded: save the input to a file";
        return Err(Failure::usage("stdin can only be imported into a stream", hint));
    }
    if let Some(format) = args.format {
        if is_stream && matches!(format, ImportFormat::Csv | ImportFormat::Sqlite) {
            let hint = "a stream takes --format lines or jsonl";
            return Err(Failure::usage("the format is for tables", hint));
        }
        return Ok(format);
    }
    if is_stream {
        return Ok(ImportFormat::Lines);
    }
    let extension = args.file.extension().and_then(|name| name.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "csv" | "tsv" => Ok(ImportFormat::Csv),
        "jsonl" | "ndjson" => Ok(ImportFormat::Jsonl),
        "db" | "sqlite" | "sqlite3" => Ok(ImportFormat::Sqlite),
        _ => {
            let message = format!("cannot tell what {} is", args.file.display());
            Err(Failure::usage(message, "say it with --format csv, jsonl or sqlite"))
        }
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| "-".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Makes a fork `import-<n>` with a number that was never used.
fn make_fork(client: &Client, branch: &str) -> Outcome<String> {
    frozen_fork(client, branch, "import-")
}

/// Makes a frozen fork with the first free number behind the prefix.
pub(super) fn frozen_fork(client: &Client, branch: &str, prefix: &str) -> Outcome<String> {
    let number = |name: &str| name.strip_prefix(prefix)?.parse::<u64>().ok();
    let used = client.branches()?.iter().filter_map(|info| number(&info.name)).max().unwrap_or(0);
    let mut request = ForkRequest {
        name: String::new(),
        parent: branch.to_owned(),
        kind: ForkKind::Frozen,
        at: None,
        owner: String::new(),
        ttl_ms: None,
        by: By::default(),
    };
    let first = used.saturating_add(1);
    for number in first..first.saturating_add(NAMES) {
        request.name = format!("{prefix}{number}");
        match client.fork_with(&request) {
            Ok(_) => return Ok(request.name),
            Err(error) if error.kind == Kind::NameTaken => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::local(Kind::NameTaken, format!("no free name among {NAMES} after {prefix}{used}")))
}

type Loaded = (Vec<TableReport>, Option<stream::StreamReport>);

/// Loads everything onto the fork.
fn fill(
    context: &Context,
    client: &Client,
    fork: &str,
    (args, format, jobs): (&Import, ImportFormat, Vec<Job>),
    rejects: &mut Rejects,
) -> Outcome<Loaded> {
    if let Some(name) = &args.stream {
        let report = stream::load(context, client, (fork, name), (args, format), rejects)?;
        return Ok((Vec::new(), Some(report)));
    }
    let mut tables = Vec::new();
    for mut job in jobs {
        for statement in &job.create {
            load::run(client, fork, statement)?;
        }
        let bar = context.printer.progress(&job.table, job.source.total());
        let mut loader = load::Loader::new(client, fork, &job.table, &job.columns);
        job.source.each(&mut |item, position| {
            bar.set_position(position);
            match item {
                Item::Row(row) => loader.push(row, rejects),
                Item::Bad { line, reason, text } => rejects.add(&job.table, line, &reason, &text),
            }
        })?;
        let rows = loader.finish(rejects)?;
        bar.finish_and_clear();
        for statement in &job.finish {
            load::run(client, fork, statement)?;
        }
        tables.push(TableReport { table: job.table, rows, columns: job.columns });
    }
    Ok((tables, None))
}

/// Promotes the fork, unless it is to be kept, and says what was done.
fn land(context: &Context, client: &Client, mut report: Report, keep: bool) -> Outcome {
    let fork = report.fork.clone();
    if !keep {
        let promoted = client.promote(&fork, &PromoteOptions::default());
        let promoted = promoted.map_err(|error| {
            let hint = format!("the rows are on the fork: see `anabranch preview {fork}`");
            Failure::from(error).hinting(&hint)
        })?;
        report.promoted = Some(promoted.index);
    }
    let printer = &context.printer;
    if printer.is_json() {
        printer.json(&report)?;
    } else {
        for table in &report.tables {
            printer.line(&format!("{} rows into table {}", table.rows, table.table))?;
        }
        if let Some(stream) = &report.stream {
            printer.line(&format!("{} records into stream {}", stream.records, stream.stream))?;
        }
        if let Some(index) = report.promoted {
            printer.line(&format!("promoted {fork} into {} at index {index}", report.branch))?;
        } else {
            printer.line(&format!("kept the fork {fork}"))?;
            printer.note(&format!("next: anabranch diff {fork}; anabranch promote {fork}"));
        }
    }
    if report.rejected == 0 {
        return Ok(Exit::Done);
    }
    let place = report.rejects.unwrap_or_default();
    printer.warn(&format!("{} rows were not taken: see {place}", report.rejected));
    Ok(Exit::No)
}

/// Drops what was loaded.
fn abandon(context: &Context, client: &Client, fork: &str) {
    match client.discard(fork) {
        Ok(_) => context.printer.note(&format!("discarded the fork {fork}: nothing was imported")),
        Err(error) => context.printer.warn(&format!(
            "the fork {fork} is left over ({error}); drop it with `anabranch discard {fork}`"
        )),
    }
}

/// The table that a file is loaded into.
fn table_name(args: &Import) -> Outcome<String> {
    match args.table.as_slice() {
        [] => {
            let stem = args.file.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
            let clean = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
            let name: String = stem.chars().map(clean).collect();
            Ok(if name.is_empty() { "data".to_owned() } else { name })
        }
        [name] => Ok(name.clone()),
        _ => Err(Failure::usage("the file holds one table", "give --table once")),
    }
}
