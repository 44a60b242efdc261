//! `sql`.

use std::io::IsTerminal;
use std::path::Path;

use anabranch_client::SqlCall;

use super::Context;
use crate::args::Sql;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

pub(crate) fn run(context: &Context, args: Sql) -> Outcome {
    let sql = statements(&args)?;
    let connection = context.connect()?;
    let branch = connection.branch(&args.on.target)?;
    let call = SqlCall {
        sql,
        params: args.params,
        read_only: args.read_only,
        max_rows: Some(args.max_rows),
        timeout_ms: Some(u64::try_from(args.run_timeout.as_millis()).unwrap_or(u64::MAX)),
    };
    let reply = connection.sql(branch, &call)?;
    let printer = &context.printer;
    if let Some(clash) = &reply.behind {
        printer.warn(&format!("the branch is behind its parent, at its last good base: {clash}"));
    }
    if printer.is_json() {
        printer.json(&reply)?;
        return Ok(Exit::Done);
    }
    if !reply.columns.is_empty() {
        let header: Vec<&str> = reply.columns.iter().map(String::as_str).collect();
        let rows: Vec<Vec<String>> =
            reply.rows.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect();
        printer.table(&header, &rows)?;
    }
    if reply.truncated {
        let shown = reply.rows.len();
        printer.warn(&format!("only the first {shown} rows are shown; see --max-rows"));
    }
    if let Some(index) = reply.index {
        let changed = match reply.changes {
            0 => String::new(),
            1 => "1 row changed, ".to_owned(),
            count => format!("{count} rows changed, "),
        };
        printer.note(&format!("{changed}committed at index {index}"));
    } else if reply.columns.is_empty() {
        printer.note("nothing changed");
    }
    Ok(Exit::Done)
}

fn statements(args: &Sql) -> Outcome<String> {
    let path = match (&args.file, args.statements.is_empty()) {
        (Some(path), _) => path.as_path(),
        (None, false) => return Ok(args.statements.join(";\n")),
        (None, true) if std::io::stdin().is_terminal() => {
            return Err(Failure::usage(
                "no SQL was given",
                "write it as an argument, in a --file, or to stdin",
            ));
        }
        (None, true) => Path::new("-"),
    };
    String::from_utf8(super::read_all(path)?).map_err(|_| {
        Failure::usage(format!("{}: not UTF-8", path.display()), "convert the file to UTF-8")
    })
}
