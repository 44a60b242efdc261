//! `export`: a table or a stream to a file or to stdout, without loss.

mod output;
mod stream;
mod table;

use self::output::Output;
use super::Context;
use crate::args::Export;
use crate::exit::Exit;
use crate::failure::Outcome;

pub(crate) fn run(context: &Context, args: &Export) -> Outcome {
    let connection = context.connect()?;
    let branch = connection.branch(&args.on.target)?;
    let count = match (&args.table, &args.stream) {
        (Some(name), _) => table::export(context, &connection, (branch, name), args)?,
        (None, Some(name)) => stream::export(context, &connection, (branch, name), args)?,
        (None, None) => 0,
    };
    let what = if args.table.is_some() { "rows" } else { "records" };
    if args.output.is_some() {
        context.printer.note(&format!("wrote {count} {what}"));
    }
    Ok(Exit::Done)
}
