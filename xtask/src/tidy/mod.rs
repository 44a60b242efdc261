//! `cargo xtask tidy`: the rules that a compiler does not know.
//!
//! Every rule is a function from what it reads (a file's text, cargo's metadata) to findings, so
//! each can be tested on a text that breaks it. A finding names the place, the rule and what to
//! do. Failures fail the run; warnings are printed and let it pass.

mod edges;
mod files;
mod lints;
mod names;
mod sizes;
mod snippets;
mod source;
mod words;

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::generate;

/// Something that a rule does not accept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// A path from the workspace's directory, with `:line` where there is one, or a crate's name.
    place: String,
    /// What is wrong and what to do about it.
    what: String,
    severity: Severity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    Failure,
    Warning,
}

impl Finding {
    fn failure(place: impl Into<String>, what: impl Into<String>) -> Finding {
        Finding { place: place.into(), what: what.into(), severity: Severity::Failure }
    }

    fn warning(place: impl Into<String>, what: impl Into<String>) -> Finding {
        Finding { place: place.into(), what: what.into(), severity: Severity::Warning }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Failure => "error",
            Severity::Warning => "warning",
        };
        write!(out, "{severity}: {}: {}", self.place, self.what)
    }
}

/// Checks the workspace, prints every finding, and returns whether none is a failure.
pub(crate) fn run(root: &Path) -> bool {
    let (findings, counted) = match check(root) {
        Ok(checked) => checked,
        Err(what) => {
            eprintln!("error: {what}");
            return false;
        }
    };
    for finding in &findings {
        println!("{finding}");
    }
    let failures = findings.iter().filter(|found| found.severity == Severity::Failure).count();
    let warnings = findings.len() - failures;
    println!("tidy: {counted} files, {failures} errors, {warnings} warnings");
    failures == 0
}

/// All findings, and the number of source files read.
fn check(root: &Path) -> Result<(Vec<Finding>, usize), String> {
    let sources = source::collect(root)?;
    let manifest = metadata(root)?;
    let mut findings = edges::check(&manifest);
    findings.extend(lints::check(root));
    findings.extend(files::check(&sources));
    findings.extend(sizes::check(&sources));
    findings.extend(names::check(&sources));
    findings.extend(words::check(&sources));
    findings.extend(snippets::check(root, &sources));
    findings.extend(check_generated(root));
    Ok((findings, sources.len()))
}

/// A generated document must be what `cargo xtask gen` would write now.
fn check_generated(root: &Path) -> Option<Finding> {
    match generate::errors(root) {
        Ok(text) => check_current(generate::ERRORS, read(root, generate::ERRORS).as_deref(), &text),
        Err(what) => Some(Finding::failure(generate::ERRORS, what)),
    }
}

fn check_current(path: &str, found: Option<&str>, expected: &str) -> Option<Finding> {
    (found != Some(expected))
        .then(|| Finding::failure(path, "differs from the code: run `cargo xtask gen`"))
}

/// What cargo knows of the workspace's own packages. Needs neither the network nor a build.
fn metadata(root: &Path) -> Result<serde_json::Value, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

/// Does the path end in `.extension`?
fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

/// The text of a file, or `None` where there is none.
fn read(root: &Path, path: &str) -> Option<String> {
    fs::read_to_string(root.join(path)).ok()
}

/// A file for tests, at a path that looks like one of the workspace's.
#[cfg(test)]
fn example(path: &str, text: &str) -> source::SourceFile {
    source::SourceFile::new(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_or_missing_generated_document_fails() {
        assert!(check_current("a", None, "new").is_some());
        assert!(check_current("a", Some("old"), "new").is_some());
        assert!(check_current("a", Some("new"), "new").is_none());
    }

    #[test]
    fn a_finding_names_severity_place_and_rule() {
        assert_eq!(Finding::failure("a.rs:3", "is bad").to_string(), "error: a.rs:3: is bad");
        assert_eq!(Finding::warning("a.rs", "is odd").to_string(), "warning: a.rs: is odd");
    }
}
