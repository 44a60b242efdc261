//! `checks add|list|run|drop`.

use serde_json::json;

use super::{Context, diff};
use crate::args::{Checks, ChecksAdd, ChecksDrop, ChecksList, ChecksRun};
use crate::exit::Exit;
use crate::failure::Outcome;

pub(crate) fn run(context: &Context, checks: &Checks) -> Outcome {
    match checks {
        Checks::Add(args) => add(context, args),
        Checks::List(args) => list(context, args),
        Checks::Run(args) => run_all(context, args),
        Checks::Drop(args) => remove(context, args),
    }
}

fn add(context: &Context, args: &ChecksAdd) -> Outcome {
    let connection = context.connect()?;
    let branch = connection.branch(&args.on.target)?;
    let index = connection.add_check(branch, &args.name, &args.sql)?;
    changed(context, "added", &args.name, index)
}

fn remove(context: &Context, args: &ChecksDrop) -> Outcome {
    let connection = context.connect()?;
    let branch = connection.branch(&args.on.target)?;
    let index = connection.drop_check(branch, &args.name)?;
    changed(context, "dropped", &args.name, index)
}

fn changed(context: &Context, what: &str, name: &str, index: u64) -> Outcome {
    if context.printer.is_json() {
        context.printer.json(&json!({ "name": name, "index": index }))?;
    } else {
        context.printer.note(&format!("{what} check {name} at index {index}"));
    }
    Ok(Exit::Done)
}

fn list(context: &Context, args: &ChecksList) -> Outcome {
    let connection = context.connect()?;
    let checks = connection.checks(connection.branch(&args.on.target)?)?;
    if context.printer.is_json() {
        checks.iter().try_for_each(|check| context.printer.json(check))?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> =
        checks.into_iter().map(|check| vec![check.name, check.sql]).collect();
    context.printer.table(&["check", "must return no rows"], &rows)?;
    Ok(Exit::Done)
}

fn run_all(context: &Context, args: &ChecksRun) -> Outcome {
    let connection = context.connect()?;
    let results = connection.run_checks(connection.branch(&args.on.target)?)?;
    let printer = &context.printer;
    for result in &results {
        if printer.is_json() {
            printer.json(result)?;
        } else {
            diff::print_check(printer, result)?;
        }
    }
    if results.is_empty() {
        printer.note("the branch has no checks");
    }
    let passed = results.iter().all(|result| result.passed);
    Ok(if passed { Exit::Done } else { Exit::No })
}
