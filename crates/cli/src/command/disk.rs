//! `verify` and `inspect`: a stopped node's directory, without a node.

use std::path::Path;

use anabranch_log::Kind;
use anabranch_store::inspect::FileListing;
use anabranch_store::{Disk, FileDisk, Finding, LockGuard, OpenError, Severity};
use serde_json::json;

use super::Context;
use crate::args::{Inspect, Verify};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::printer::Style;

/// Opens a directory that exists, and keeps every node out of it.
fn open(path: &Path) -> Outcome<(FileDisk, LockGuard)> {
    let disk = FileDisk::open(path).map_err(|error| Failure::file(path, &error))?;
    if !disk.exists("identity.a").unwrap_or(false) && !disk.exists("identity.b").unwrap_or(false) {
        let message = format!("{} holds no space", path.display());
        return Err(Failure::usage(message, "name the directory that `serve --dir` uses"));
    }
    let lock = anabranch_store::disk::lock(&disk).map_err(|error| failure(path, &error))?;
    Ok((disk, lock))
}

fn failure(path: &Path, error: &OpenError) -> Failure {
    let message = format!("{}: {error}", path.display());
    match error {
        OpenError::Locked => Failure::local(Kind::Locked, message)
            .hinting("stop the node that has the directory open; this works on a stopped one"),
        _ => Failure::local(Kind::Corrupt, message),
    }
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Unused => "unused",
        Severity::Repairable => "repairable",
        Severity::Damage => "damage",
    }
}

pub(crate) fn verify(context: &Context, args: &Verify) -> Outcome {
    let path = &args.directory;
    let (disk, _lock) = open(path)?;
    let report = anabranch_store::verify(&disk).map_err(|error| failure(path, &error))?;
    let printer = &context.printer;
    let clean = report.clean();
    if printer.is_json() {
        let findings: Vec<_> = report.findings.iter().map(finding).collect();
        printer.json(&json!({
            "clean": clean, "files": report.files, "bytes": report.bytes,
            "records": report.records, "findings": findings,
        }))?;
    } else {
        for found in &report.findings {
            let damage = &found.damage;
            let name = severity(found.severity);
            let bad = found.severity != Severity::Note;
            let name = if bad { printer.paint(Style::Bad, name) } else { name.to_owned() };
            printer.line(&format!(
                "{name}  {} at {}, {} bytes: {}: {}",
                damage.file, damage.offset, damage.length, damage.structure, damage.what
            ))?;
        }
        let (files, bytes, records) = (report.files, report.bytes, report.records);
        let verdict = if clean {
            printer.paint(Style::Good, "clean")
        } else {
            printer.paint(Style::Bad, "not clean")
        };
        printer.line(&format!("{verdict}: {files} files, {bytes} bytes, {records} records"))?;
    }
    Ok(if clean { Exit::Done } else { Exit::No })
}

fn finding(found: &Finding) -> serde_json::Value {
    let damage = &found.damage;
    json!({
        "severity": severity(found.severity), "file": damage.file, "offset": damage.offset,
        "length": damage.length, "structure": damage.structure.to_string(), "what": damage.what,
    })
}

pub(crate) fn inspect(context: &Context, args: &Inspect) -> Outcome {
    let path = &args.directory;
    let (disk, _lock) = open(path)?;
    let files = anabranch_store::inspect::inspect(&disk).map_err(|error| failure(path, &error))?;
    let wanted = files.iter().filter(|file| file.file.starts_with(&args.file));
    let printer = &context.printer;
    for file in wanted {
        if printer.is_json() {
            printer.json(&listing(file, args.items))?;
            continue;
        }
        let text = format!("{}  {} bytes, {} structures", file.file, file.bytes, file.items.len());
        printer.line(&printer.paint(Style::Strong, &text))?;
        if args.items {
            file.items.iter().try_for_each(|item| printer.line(&item.to_string()))?;
        }
    }
    Ok(Exit::Done)
}

fn listing(file: &FileListing, items: bool) -> serde_json::Value {
    let mut value =
        json!({ "file": file.file, "bytes": file.bytes, "structures": file.items.len() });
    if items {
        let items = file.items.iter().map(|item| {
            json!({
                "offset": item.offset, "length": item.length,
                "structure": item.structure.to_string(), "text": item.text,
            })
        });
        value["items"] = items.collect();
    }
    value
}
