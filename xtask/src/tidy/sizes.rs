//! How long a file, a function and a line may be.
//!
//! Test code has no limit on files and functions, and is not counted into its file. What was over
//! a limit when the limit came stands in a ratchet list with its size: it may shrink, and then its
//! line must be lowered or removed.

use super::Finding;
use super::source::{SourceFile, item_end};

const FILE_LINES_MAX: usize = 800;
const FILE_LINES_WARN: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_WIDTH_MAX: usize = 100;

/// (file, production lines)
const LONG_FILES: &[(&str, usize)] = &[];

/// (file, function, lines)
const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[];

pub(crate) fn check(sources: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        findings.extend(check_file(source, LONG_FILES));
        findings.extend(check_functions(source, LONG_FUNCTIONS));
        findings.extend(check_width(source));
    }
    findings.extend(check_ratchets(sources, LONG_FILES, LONG_FUNCTIONS));
    findings
}

fn check_file(source: &SourceFile, ratchet: &[(&str, usize)]) -> Option<Finding> {
    let lines = source.production_count();
    let known = ratchet.iter().find(|(path, _)| *path == source.path);
    let limit = known.map_or(FILE_LINES_MAX, |(_, lines)| *lines);
    if lines > limit {
        let what = format!("{lines} production lines; the limit is {limit}: split it");
        return Some(Finding::failure(&source.path, what));
    }
    (lines > FILE_LINES_WARN && known.is_none()).then(|| {
        let what = format!("{lines} production lines; think of splitting above {FILE_LINES_WARN}");
        Finding::warning(&source.path, what)
    })
}

fn check_functions(source: &SourceFile, ratchet: &[(&str, &str, usize)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for function in functions(source) {
        let known =
            ratchet.iter().find(|(path, name, _)| *path == source.path && *name == function.name);
        let limit = known.map_or(FUNCTION_LINES_MAX, |(_, _, lines)| *lines);
        if function.lines > limit {
            findings.push(Finding::failure(
                format!("{}:{}", source.path, function.first_line),
                format!("fn {} has {} lines; the limit is {limit}", function.name, function.lines),
            ));
        }
    }
    findings
}

fn check_width(source: &SourceFile) -> Vec<Finding> {
    let wide = source.text.lines().enumerate().filter(|(_, line)| {
        // An address cannot be broken.
        line.chars().count() > LINE_WIDTH_MAX && !line.contains("https://")
    });
    wide.map(|(at, line)| {
        Finding::failure(
            format!("{}:{}", source.path, at + 1),
            format!("{} columns; the limit is {LINE_WIDTH_MAX}", line.chars().count()),
        )
    })
    .collect()
}

/// A ratchet only tightens: what shrank below its line, or is gone, must leave the list.
fn check_ratchets(
    sources: &[SourceFile],
    files: &[(&str, usize)],
    long_functions: &[(&str, &str, usize)],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let find = |path: &str| sources.iter().find(|source| source.path == path);
    for (path, lines) in files {
        let now = find(path).map_or(0, SourceFile::production_count);
        if now < *lines {
            let what = format!("now {now} lines: lower its line in LONG_FILES from {lines}");
            findings.push(Finding::failure(*path, what));
        }
    }
    for (path, name, lines) in long_functions {
        let all = find(path).map(functions).unwrap_or_default();
        let same_name = all.iter().filter(|function| function.name == *name);
        let now = same_name.map(|function| function.lines).max().unwrap_or(0);
        if now < *lines {
            let what = format!("fn {name} now has {now} lines: lower LONG_FUNCTIONS from {lines}");
            findings.push(Finding::failure(*path, what));
        }
    }
    findings
}

struct Function {
    name: String,
    first_line: usize,
    /// From the line with `fn` to the closing brace, both included.
    lines: usize,
}

/// The production functions that have a body.
fn functions(source: &SourceFile) -> Vec<Function> {
    let lines: Vec<&str> = source.masked.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let test = source.test_lines.get(at).copied().unwrap_or(false);
        let Some(name) = function_name(line).filter(|_| !test) else { continue };
        let last = item_end(&lines, at);
        found.push(Function { name: name.to_owned(), first_line: at + 1, lines: last - at + 1 });
    }
    found
}

/// The name behind the word `fn`; `None` for a function type such as `fn(u8)`.
fn function_name(line: &str) -> Option<&str> {
    let start = line.trim_start();
    let rest = match start.strip_prefix("fn ") {
        Some(rest) => rest,
        None => start.split_once(" fn ")?.1,
    };
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::super::{Severity, example};
    use super::*;

    const PATH: &str = "crates/log/src/x.rs";

    fn severities(findings: &[Finding]) -> Vec<Severity> {
        findings.iter().map(|finding| finding.severity).collect()
    }

    #[test]
    fn a_long_file_warns_and_a_longer_one_fails() {
        for (count, expected) in [
            (FILE_LINES_WARN, vec![]),
            (FILE_LINES_WARN + 1, vec![Severity::Warning]),
            (FILE_LINES_MAX, vec![Severity::Warning]),
            (FILE_LINES_MAX + 1, vec![Severity::Failure]),
        ] {
            let file = example(PATH, &"// x\n".repeat(count));
            assert_eq!(severities(&check(&[file])), expected, "{count} lines");
        }
    }

    #[test]
    fn tests_do_not_count_into_their_file() {
        let tests = "    // x\n".repeat(FILE_LINES_MAX);
        let text = format!("//! X.\n#[cfg(test)]\nmod tests {{\n{tests}}}\n");
        assert_eq!(check(&[example(PATH, &text)]), []);
    }

    fn function_of(lines: usize) -> String {
        format!("pub(crate) fn long(\n) {{\n{}}}\n", "    // x\n".repeat(lines - 3))
    }

    #[test]
    fn a_long_function_fails() {
        assert_eq!(check(&[example(PATH, &function_of(FUNCTION_LINES_MAX))]), []);
        let expected =
            Finding::failure("crates/log/src/x.rs:1", "fn long has 71 lines; the limit is 70");
        assert_eq!(check(&[example(PATH, &function_of(FUNCTION_LINES_MAX + 1))]), [expected]);
    }

    #[test]
    fn a_long_test_passes() {
        let text = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function_of(200));
        assert_eq!(check(&[example(PATH, &text)]), []);
    }

    #[test]
    fn a_declaration_ends_at_its_semicolon() {
        let text = "trait A {\n    fn a(&self, b: [u8; 3]);\n    fn c(&self) {\n    }\n}\n";
        let found: Vec<(String, usize)> = functions(&example(PATH, text))
            .into_iter()
            .map(|function| (function.name, function.lines))
            .collect();
        assert_eq!(found, [("a".to_owned(), 1), ("c".to_owned(), 2)]);
    }

    #[test]
    fn a_wide_line_fails_unless_it_holds_an_address() {
        let wide = "x".repeat(LINE_WIDTH_MAX + 1);
        let expected = Finding::failure("crates/log/src/x.rs:2", "101 columns; the limit is 100");
        assert_eq!(check(&[example(PATH, &format!("//! X.\n// {}\n", &wide[3..]))]), [expected]);
        assert_eq!(check(&[example(PATH, &format!("// https://{wide}\n"))]), []);
        let umlauts = "ä".repeat(LINE_WIDTH_MAX - 3);
        assert_eq!(check(&[example(PATH, &format!("// {umlauts}\n"))]), []);
    }

    #[test]
    fn a_ratchet_lets_pass_what_it_lists_and_only_tightens() {
        let text = function_of(80);
        let file = example(PATH, &text);
        assert!(check_functions(&file, &[(PATH, "long", 80)]).is_empty());
        assert_eq!(check_functions(&file, &[(PATH, "long", 79)]).len(), 1);
        let sources = [file];
        assert!(check_ratchets(&sources, &[], &[(PATH, "long", 80)]).is_empty());
        assert_eq!(check_ratchets(&sources, &[], &[(PATH, "long", 81)]).len(), 1);
        assert_eq!(check_ratchets(&sources, &[(PATH, 900)], &[]).len(), 1);
        assert_eq!(check_ratchets(&sources, &[("gone.rs", 900)], &[]).len(), 1);
    }
}
