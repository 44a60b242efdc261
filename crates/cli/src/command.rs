//! One module per verb or family of verbs; each returns how the command ended.

mod branches;
mod checks;
mod completions;
mod demo;
mod diff;
mod disk;
mod export;
mod fork;
mod history;
mod import;
mod key;
mod node;
mod promote;
mod serve;
mod sql;
mod stream;
mod tables;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use crate::args::Command;
use crate::connection::{Connection, Writes};
use crate::failure::{Failure, Outcome};
use crate::printer::Printer;
use crate::settings::Settings;

/// What every command gets.
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) printer: Printer,
}

impl Context {
    /// A connection for reads and at most one write.
    pub(crate) fn connect(&self) -> Outcome<Connection> {
        Connection::open(&self.settings, Writes::Once)
    }

    /// A connection for many writes.
    pub(crate) fn connect_numbered(&self) -> Outcome<Connection> {
        Connection::open(&self.settings, Writes::Numbered)
    }
}

/// Runs one command.
pub(crate) fn run(context: &Context, command: Command) -> Outcome {
    match command {
        Command::Dev(args) => serve::dev(context, args),
        Command::Serve(args) => serve::serve(context, args),
        Command::Demo(args) => demo::run(context, &args),
        Command::Status(_) => node::status(context),
        Command::Checkpoint(_) => node::checkpoint(context),
        Command::Append(args) => stream::append(context, &args),
        Command::Read(args) => stream::read(context, &args),
        Command::Tail(args) => stream::tail(context, &args),
        Command::Streams(args) => stream::list(context, &args),
        Command::Put(args) => key::put(context, args),
        Command::Get(args) => key::get(context, &args),
        Command::Delete(args) => key::delete(context, &args),
        Command::Cas(args) => key::cas(context, args),
        Command::Incr(args) => key::incr(context, &args),
        Command::Scan(args) => key::scan(context, args),
        Command::Sql(args) => sql::run(context, args),
        Command::Tables(args) => tables::run(context, &args),
        Command::Fork(args) => fork::run(context, args),
        Command::Branches(args) => branches::run(context, &args),
        Command::Diff(args) => diff::run(context, &args),
        Command::Preview(args) => promote::preview(context, &args),
        Command::Promote(args) => promote::promote(context, args),
        Command::Discard(args) => promote::discard(context, &args),
        Command::Checks(args) => checks::run(context, &args),
        Command::History(args) => history::run(context, &args),
        Command::Import(args) => import::run(context, &args),
        Command::Export(args) => export::run(context, &args),
        Command::Verify(args) => disk::verify(context, &args),
        Command::Inspect(args) => disk::inspect(context, &args),
        Command::Completions(args) => completions::run(context, &args),
        Command::Version(_) => node::version(context),
    }
}

/// Opens a file for reading; `-` is stdin.
fn open(path: &Path) -> Outcome<Box<dyn Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdin()));
    }
    let file = File::open(path).map_err(|error| Failure::file(path, &error))?;
    Ok(Box::new(BufReader::new(file)))
}

/// Reads a whole file; `-` is stdin.
fn read_all(path: &Path) -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes).map_err(|error| Failure::file(path, &error))?;
    Ok(bytes)
}
