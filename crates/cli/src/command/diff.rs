//! `diff`, and the drawing of changes and conflicts that preview and promote share.

use anabranch_client::{
    Against, Bytes, ChangeKind, CheckResult, Diff, KeyConflict, Preview, RowConflict, RowDiff,
    SqlValue, TableDiff,
};

use super::Context;
use crate::args;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::printer::{Printer, Style, one_line};

pub(crate) fn run(context: &Context, args: &args::Diff) -> Outcome {
    let connection = context.connect()?;
    let branch = connection.branch(&args.target)?;
    let against = match args.against {
        args::Against::Base => Against::Base,
        args::Against::Parent => Against::Parent,
    };
    let rows = if args.stat { 0 } else { args.rows };
    let diff = connection.diff(branch, against, rows)?;
    if context.printer.is_json() {
        context.printer.json(&diff)?;
    } else {
        print(&context.printer, &diff, args.stat)?;
    }
    Ok(Exit::Done)
}

/// Draws a diff.
pub(crate) fn print(printer: &Printer, diff: &Diff, stat: bool) -> Outcome<()> {
    if diff.is_empty() {
        return printer.line(&format!("{} changed nothing", diff.branch));
    }
    for statement in &diff.schema {
        printer.line(&format!("schema  {}", one_line(statement)))?;
    }
    for table in &diff.tables {
        print_table(printer, table, stat)?;
    }
    for stream in &diff.streams {
        let count = format!("+{}", stream.records);
        printer.line(&format!(
            "stream  {}  {}",
            stream.stream,
            printer.paint(Style::Good, &count)
        ))?;
    }
    if diff.keys_changed > 0 {
        printer.line(&format!("keys  {} changed", diff.keys_changed))?;
    }
    if !stat {
        for key in &diff.keys {
            let name = format!("{}/{}", key.stream, key.key);
            print_change(printer, &name, (key.old.as_ref(), key.new.as_ref()))?;
        }
        let hidden = diff.keys_changed.saturating_sub(diff.keys.len() as u64);
        if hidden > 0 {
            printer.line(&format!("  … {hidden} more keys"))?;
        }
    }
    Ok(())
}

fn print_change(
    printer: &Printer,
    name: &str,
    (old, new): (Option<&Bytes>, Option<&Bytes>),
) -> Outcome<()> {
    let value = |bytes: &Bytes| one_line(&bytes.to_string());
    let name = one_line(name);
    if let Some(old) = old {
        let text = format!("  - {name} = {}", value(old));
        printer.line(&printer.paint(Style::Bad, &text))?;
    }
    if let Some(new) = new {
        let text = format!("  + {name} = {}", value(new));
        printer.line(&printer.paint(Style::Good, &text))?;
    }
    Ok(())
}

fn print_table(printer: &Printer, table: &TableDiff, stat: bool) -> Outcome<()> {
    let counts = format!(
        "{} {} {}",
        printer.paint(Style::Good, &format!("+{}", table.inserts)),
        format_args!("~{}", table.updates),
        printer.paint(Style::Bad, &format!("-{}", table.deletes)),
    );
    printer.line(&format!("table  {}  {counts}", one_line(&table.table)))?;
    if stat {
        return Ok(());
    }
    for row in &table.rows {
        print_row(printer, &table.columns, row)?;
    }
    let hidden =
        (table.inserts + table.updates + table.deletes).saturating_sub(table.rows.len() as u64);
    if hidden > 0 {
        printer.line(&format!("  … {hidden} more rows"))?;
    }
    Ok(())
}

fn print_row(printer: &Printer, columns: &[String], row: &RowDiff) -> Outcome<()> {
    match (row.kind, &row.old, &row.new) {
        (ChangeKind::Update, Some(old), Some(new)) => {
            let changed: Vec<String> = columns
                .iter()
                .zip(old.iter().zip(new))
                .filter(|(_, (old, new))| old != new)
                .map(|(name, (old, new))| format!("{name}: {} → {}", quoted(old), quoted(new)))
                .collect();
            let key: Vec<String> = row.key.iter().map(quoted).collect();
            printer.line(&one_line(&format!("  ~ [{}] {}", key.join(", "), changed.join(", "))))
        }
        (_, old, new) => {
            if let Some(old) = old {
                let text = format!("  - {}", image(columns, old));
                printer.line(&printer.paint(Style::Bad, &one_line(&text)))?;
            }
            if let Some(new) = new {
                let text = format!("  + {}", image(columns, new));
                printer.line(&printer.paint(Style::Good, &one_line(&text)))?;
            }
            Ok(())
        }
    }
}

fn quoted(value: &SqlValue) -> String {
    match value {
        SqlValue::Text(text) => format!("'{text}'"),
        other => other.to_string(),
    }
}

fn image(columns: &[String], row: &[SqlValue]) -> String {
    let cells: Vec<String> =
        columns.iter().zip(row).map(|(name, value)| format!("{name}={}", quoted(value))).collect();
    cells.join(", ")
}

/// Draws what stands in the way of a promotion.
pub(crate) fn print_obstacles(printer: &Printer, preview: &Preview) -> Outcome<()> {
    for conflict in &preview.conflicts {
        print_conflict(printer, conflict)?;
    }
    for conflict in &preview.key_conflicts {
        print_key_conflict(printer, conflict)?;
    }
    for check in &preview.checks {
        print_check(printer, check)?;
    }
    for table in &preview.stale_reads {
        printer.line(&format!("read  {table}: changed on {} since", preview.target))?;
    }
    Ok(())
}

/// Draws a row that both sides changed.
pub(crate) fn print_conflict(printer: &Printer, conflict: &RowConflict) -> Outcome<()> {
    let key: Vec<String> = conflict.key.iter().map(quoted).collect();
    let mut title = format!("conflict  {} [{}]", conflict.table, key.join(", "));
    if !conflict.reason.is_empty() {
        title = format!("{title}: {}", conflict.reason);
    }
    printer.line(&printer.paint(Style::Bad, &one_line(&title)))?;
    let sides = [("base", &conflict.base), ("ours", &conflict.ours), ("theirs", &conflict.theirs)];
    for (name, row) in sides {
        let text = row.as_ref().map_or("(no row)".to_owned(), |row| image(&conflict.columns, row));
        printer.line(&one_line(&format!("  {name:<6}  {text}")))?;
    }
    Ok(())
}

fn print_key_conflict(printer: &Printer, conflict: &KeyConflict) -> Outcome<()> {
    let title = format!("conflict  {}/{}", conflict.stream, conflict.key);
    printer.line(&printer.paint(Style::Bad, &one_line(&title)))?;
    let sides = [("base", &conflict.base), ("ours", &conflict.ours), ("theirs", &conflict.theirs)];
    for (name, value) in sides {
        let text = value.as_ref().map_or("(absent)".to_owned(), ToString::to_string);
        printer.line(&one_line(&format!("  {name:<6}  {text}")))?;
    }
    Ok(())
}

/// Draws a check and what it found.
pub(crate) fn print_check(printer: &Printer, check: &CheckResult) -> Outcome<()> {
    let verdict = match (check.passed, &check.error) {
        (true, _) => printer.paint(Style::Good, "passed"),
        (false, None) => printer.paint(Style::Bad, "failed"),
        (false, Some(error)) => printer.paint(Style::Bad, &format!("cannot run: {error}")),
    };
    printer.line(&format!("check  {}  {verdict}", one_line(&check.name)))?;
    for row in &check.rows {
        printer.line(&one_line(&format!("  {}", image(&check.columns, row))))?;
    }
    Ok(())
}
