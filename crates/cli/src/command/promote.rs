//! `preview`, `promote`, `discard`.

use anabranch_client::{Policy, PromoteOptions, Promoted};
use serde_json::json;

use super::{Context, diff};
use crate::args;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::printer::{Style, one_line};

fn options(promotion: &args::Promotion, token: Option<String>) -> PromoteOptions {
    PromoteOptions {
        onto: promotion.onto.clone(),
        policy: match promotion.policy {
            args::Policy::Fail => Policy::Fail,
            args::Policy::Fork => Policy::Fork,
            args::Policy::Parent => Policy::Parent,
        },
        cell_merge: promotion.merge_cells.clone(),
        strict: promotion.strict,
        token,
    }
}

pub(crate) fn preview(context: &Context, args: &args::Preview) -> Outcome {
    let connection = context.connect()?;
    let branch = connection.branch(&args.promotion.target)?;
    let preview = connection.preview(branch, &options(&args.promotion, None), args.rows)?;
    let exit = if preview.would_land { Exit::Done } else { Exit::No };
    let printer = &context.printer;
    if printer.is_json() {
        printer.json(&preview)?;
        return Ok(exit);
    }
    diff::print(printer, &preview.diff, false)?;
    diff::print_obstacles(printer, &preview)?;
    if preview.would_land {
        let text = format!("would land on {}", preview.target);
        printer.line(&printer.paint(Style::Good, &text))?;
        printer.line(&format!("token  {}", preview.token))?;
    } else {
        let text = format!("would not land on {}", preview.target);
        printer.line(&printer.paint(Style::Bad, &text))?;
    }
    Ok(exit)
}

pub(crate) fn promote(context: &Context, args: args::Promote) -> Outcome {
    let connection = context.connect()?;
    let branch = connection.branch(&args.promotion.target)?;
    let promoted = match connection.promote(branch, &options(&args.promotion, args.token)) {
        Ok(promoted) => promoted,
        Err(error) => {
            // JSON carries the preview inside the error.
            if let Some(preview) = error.preview.as_ref().filter(|_| !context.printer.is_json()) {
                diff::print_obstacles(&context.printer, preview)?;
            }
            return Err(Failure::from(error));
        }
    };
    print(context, branch, &promoted)?;
    Ok(Exit::Done)
}

fn print(context: &Context, branch: &str, promoted: &Promoted) -> Outcome<()> {
    let printer = &context.printer;
    if printer.is_json() {
        return printer.json(promoted);
    }
    for conflict in &promoted.settled {
        diff::print_conflict(printer, conflict)?;
    }
    for left_out in &promoted.left_out {
        let text = format!("left out  {}/{}", left_out.stream, left_out.key);
        printer.line(&one_line(&text))?;
    }
    for check in &promoted.checks {
        diff::print_check(printer, check)?;
    }
    let rows = promoted.rows;
    let mut parts = Vec::new();
    if promoted.records > 0 {
        let plural = if promoted.records == 1 { "" } else { "s" };
        parts.push(format!("{} record{plural}", promoted.records));
    }
    if rows.inserts + rows.updates + rows.deletes > 0 {
        parts.push(format!("rows +{} ~{} -{}", rows.inserts, rows.updates, rows.deletes));
    }
    let what = if parts.is_empty() { "no changes".to_owned() } else { parts.join(", ") };
    let (into, index) = (&promoted.into, promoted.index);
    printer.line(&format!("promoted {branch} into {into} at index {index}: {what}"))
}

pub(crate) fn discard(context: &Context, args: &args::Discard) -> Outcome {
    let connection = context.connect()?;
    let branch = connection.branch(&args.target)?;
    let index = connection.discard(branch)?;
    let text = format!("discarded {branch} at index {index}");
    context.printer.answer(&json!({ "branch": branch, "index": index }), &text)?;
    Ok(Exit::Done)
}
