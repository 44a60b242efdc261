//! `status`, `checkpoint`, `version`.

use serde_json::json;

use super::Context;
use crate::exit::Exit;
use crate::failure::Outcome;

pub(crate) fn status(context: &Context) -> Outcome {
    let connection = context.connect()?;
    let status = connection.status()?;
    let printer = &context.printer;
    if printer.is_json() {
        printer.json(&status)?;
        return Ok(Exit::Done);
    }
    for (name, value) in [
        ("space", status.space),
        ("address", connection.address().to_owned()),
        ("version", status.version),
        ("index", status.index.to_string()),
        ("term", status.term.to_string()),
        ("unordered", status.unordered.to_string()),
        ("checkpoint", status.checkpoint.to_string()),
        ("branches", status.branches.to_string()),
        ("sessions", status.sessions.to_string()),
        ("chain", status.chain),
    ] {
        printer.line(&format!("{name:<10}  {value}"))?;
    }
    Ok(Exit::Done)
}

pub(crate) fn checkpoint(context: &Context) -> Outcome {
    let index = context.connect()?.checkpoint()?;
    context.printer.answer(&json!({ "index": index }), &format!("checkpoint at index {index}"))?;
    Ok(Exit::Done)
}

pub(crate) fn version(context: &Context) -> Outcome {
    let version = env!("CARGO_PKG_VERSION");
    context.printer.answer(&json!({ "version": version }), &format!("anabranch {version}"))?;
    Ok(Exit::Done)
}
