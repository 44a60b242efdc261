//! The commands and the files that the documents show exist.
//!
//! Read from fenced blocks of the documents: `anabranch VERB`, `cargo run … -- VERB` and
//! `cargo xtask VERB`. The verbs are read from the clap definitions of the cli crate, as text, so
//! that nothing has to be built. What a command then prints is another test's matter.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::source::SourceFile;
use super::{Finding, read};

const DOCUMENTS: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "data/README.md",
];
const XTASK_VERBS: &[&str] = &["tidy", "test", "full", "gen", "help"];
/// clap adds this one by itself.
const BUILT_IN: &str = "help";

pub(crate) fn check(root: &Path, sources: &[SourceFile]) -> Vec<Finding> {
    let cli = sources.iter().filter(|source| source.path.starts_with("crates/cli/src/"));
    let verbs: BTreeSet<String> = cli.flat_map(verbs).collect();
    let mut findings = Vec::new();
    for path in documents(root) {
        let text = read(root, &path).unwrap_or_default();
        findings.extend(check_document(&path, &text, &verbs));
        let directory = root.join(&path).parent().map(Path::to_owned).unwrap_or_default();
        findings.extend(check_links(&path, &text, |target| directory.join(target).exists()));
    }
    findings
}

fn documents(root: &Path) -> Vec<String> {
    let mut paths: Vec<String> = DOCUMENTS.iter().map(|path| (*path).to_owned()).collect();
    for directory in ["docs", "docs/decisions"] {
        for entry in fs::read_dir(root.join(directory)).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if super::has_extension(&name, "md") {
                paths.push(format!("{directory}/{name}"));
            }
        }
    }
    paths.sort();
    paths
}

fn check_document(path: &str, text: &str, verbs: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line_number, line) in shell_lines(text) {
        let Some((tool, verb)) = command(line) else { continue };
        let known = match tool {
            Tool::Xtask => XTASK_VERBS.contains(&verb),
            Tool::Anabranch => verb == BUILT_IN || verbs.contains(verb),
        };
        if !known {
            let place = format!("{path}:{line_number}");
            findings.push(Finding::failure(place, format!("shows `{verb}`, which is no command")));
        }
    }
    findings
}

/// Every relative link leads to a file. Parts of a page (`#…`) are not looked up.
fn check_links(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, line) in text.lines().enumerate() {
        for rest in line.split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or_default();
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains("://") && !exists(file) {
                let place = format!("{path}:{}", at + 1);
                findings.push(Finding::failure(place, format!("links to `{file}`: no such file")));
            }
        }
    }
    findings
}

/// Lines of fenced blocks marked `sh`, `console` or `text`; of a block with prompts, only those.
fn shell_lines(text: &str) -> Vec<(usize, &str)> {
    let mut lines = Vec::new();
    let mut language = None;
    for (at, line) in text.lines().enumerate() {
        if let Some(fence) = line.trim_start().strip_prefix("```") {
            language = if language.is_some() { None } else { Some(fence.trim()) };
            continue;
        }
        match language {
            Some("sh" | "bash") => lines.push((at + 1, line.trim())),
            Some("console" | "text") => {
                lines.extend(line.trim().strip_prefix("$ ").map(|rest| (at + 1, rest)));
            }
            _ => {}
        }
    }
    lines
}

#[derive(Debug, PartialEq, Eq)]
enum Tool {
    Anabranch,
    Xtask,
}

/// The first word behind the tool that is no option and no option's value.
fn command(line: &str) -> Option<(Tool, &str)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (tool, rest) = match words.as_slice() {
        ["anabranch", rest @ ..] => (Tool::Anabranch, rest),
        ["cargo", "xtask", rest @ ..] => (Tool::Xtask, rest),
        ["cargo", "run", rest @ ..] => {
            let behind = rest.iter().position(|word| *word == "--")? + 1;
            (Tool::Anabranch, &rest[behind..])
        }
        _ => return None,
    };
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match *word {
            "--dir" | "--addr" | "--color" => {
                rest.next();
            }
            option if option.starts_with('-') => {}
            verb => return Some((tool, verb)),
        }
    }
    None
}

/// The variants of every enum that derives `Subcommand`, in kebab case, and `name = "…"` of those.
fn verbs(source: &SourceFile) -> Vec<String> {
    let lines: Vec<&str> = source.masked.lines().collect();
    let original: Vec<&str> = source.text.lines().collect();
    let mut verbs = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if !(line.trim_start().starts_with("#[derive(") && line.contains("Subcommand")) {
            continue;
        }
        let last = super::source::item_end(&lines, at);
        let mut depth = 0_i64;
        for inside in at..=last {
            let text = lines[inside].trim_start();
            if depth == 1 {
                verbs.extend(variant(text).map(kebab));
                verbs.extend(named(original[inside]).map(str::to_owned));
            }
            depth += balance(text);
        }
    }
    verbs
}

/// Braces and parentheses opened less those closed, brackets of attributes left out.
fn balance(line: &str) -> i64 {
    line.chars().fold(0, |sum, c| match c {
        '{' | '(' => sum + 1,
        '}' | ')' => sum - 1,
        _ => sum,
    })
}

fn variant(line: &str) -> Option<&str> {
    let end = line.find(|c: char| !c.is_alphanumeric()).unwrap_or(line.len());
    let name = &line[..end];
    name.chars().next().filter(char::is_ascii_uppercase).map(|_| name)
}

fn named(line: &str) -> Option<&str> {
    let attribute = line.trim_start().strip_prefix("#[command(")?;
    let value = attribute.split_once("name = \"")?.1;
    value.split_once('"').map(|(name, _)| name)
}

fn kebab(name: &str) -> String {
    let mut out = String::new();
    for character in name.chars() {
        if character.is_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.extend(character.to_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    const ARGUMENTS: &str = "//! Arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Shows it (see `Help {`).
    Demo(DemoArgs),
    DropCheck {
        Force: bool,
    },
    #[command(name = \"tail\")]
    Follow,
}
enum Other { Secret }
";

    #[test]
    fn verbs_are_read_from_the_definitions() {
        let found = verbs(&example("crates/cli/src/args.rs", ARGUMENTS));
        assert_eq!(found, ["demo", "drop-check", "tail", "follow"]);
    }

    #[test]
    fn a_command_that_does_not_exist_fails() {
        let text = "Run:\n```sh\ncargo run --release -- demo\nanabranch dmeo --x\n```\n\
                    ```console\n$ cargo xtask tset\nanabranch is a word here\n```\n";
        let known = verbs(&example("crates/cli/src/args.rs", ARGUMENTS)).into_iter().collect();
        let expected = [
            Finding::failure("README.md:4", "shows `dmeo`, which is no command"),
            Finding::failure("README.md:7", "shows `tset`, which is no command"),
        ];
        assert_eq!(check_document("README.md", text, &known), expected);
    }

    #[test]
    fn a_link_to_a_file_that_does_not_exist_fails() {
        let text = "# T\n[a](a.md) [b](b.md#part), [c](https://c.example/x) [d](#part)\n";
        let expected = Finding::failure("README.md:2", "links to `b.md`: no such file");
        assert_eq!(check_links("README.md", text, |file| file == "a.md"), [expected]);
    }

    #[test]
    fn options_before_the_verb_are_passed_over() {
        assert_eq!(command("anabranch --json --dir x get k"), Some((Tool::Anabranch, "get")));
        assert_eq!(command("anabranch --version"), None);
        assert_eq!(command("cargo build --release"), None);
    }
}
