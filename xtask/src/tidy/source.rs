//! Rust files as the rules see them: with comments and literals masked, and test code told apart.
//!
//! This is a scanner, not a parser: it knows comments, strings, characters and braces. Masked text
//! has the same lines and columns as the file, so a position in one is a position in the other.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// One `.rs` file.
pub(crate) struct SourceFile {
    /// From the workspace's directory, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// `text` with the inside of comments and literals replaced by spaces.
    pub(crate) masked: String,
    /// Per line: whether it exists only for tests.
    pub(crate) test_lines: Vec<bool>,
}

impl SourceFile {
    pub(crate) fn new(path: &str, text: &str) -> SourceFile {
        let masked = mask(text);
        let test_lines =
            if is_test_path(path) { vec![true; text.lines().count()] } else { test_lines(&masked) };
        SourceFile { path: path.to_owned(), text: text.to_owned(), masked, test_lines }
    }

    /// Lines that are built into what people run.
    pub(crate) fn production_count(&self) -> usize {
        self.test_lines.iter().filter(|test| !**test).count()
    }

    /// (line from 1, masked text) of every production line.
    pub(crate) fn production_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.masked.lines().zip(&self.test_lines).enumerate();
        lines.filter(|(_, (_, test))| !**test).map(|(at, (line, _))| (at + 1, line))
    }

    /// Is this file below `crates/NAME/src/` or `xtask/src/`?
    pub(crate) fn in_source_directory(&self) -> bool {
        self.path.split('/').any(|part| part == "src")
    }
}

/// Every `.rs` file of the workspace's members, in path order.
pub(crate) fn collect(root: &Path) -> Result<Vec<SourceFile>, String> {
    let mut paths = BTreeSet::new();
    for top in ["crates", "xtask", "examples"] {
        walk(root, top, &mut paths).map_err(|error| format!("{top}: {error}"))?;
    }
    let mut sources = Vec::new();
    for path in &paths {
        let text = fs::read_to_string(root.join(path)).map_err(|e| format!("{path}: {e}"))?;
        sources.push(SourceFile::new(path, &text));
    }
    mark_test_modules(&mut sources);
    Ok(sources)
}

fn walk(root: &Path, directory: &str, paths: &mut BTreeSet<String>) -> std::io::Result<()> {
    let full = root.join(directory);
    if !full.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(full)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{directory}/{name}");
        if entry.file_type()?.is_dir() {
            if name != "target" {
                walk(root, &path, paths)?;
            }
        } else if super::has_extension(&path, "rs") {
            paths.insert(path);
        }
    }
    Ok(())
}

/// `tests/`, `benches/`, and modules called `tests` hold only test code.
fn is_test_path(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "benches" | "tests.rs"))
}

/// A file whose `mod` line stands under `#[cfg(test)]` is test code, and so is all below it.
fn mark_test_modules(sources: &mut [SourceFile]) {
    let mut roots = Vec::new();
    for source in sources.iter() {
        for name in test_module_names(&source.masked) {
            roots.push(format!("{}/{name}", child_directory(&source.path)));
        }
    }
    for source in sources {
        let stem = source.path.strip_suffix(".rs").unwrap_or(&source.path);
        let within = |root: &String| stem == root || stem.starts_with(&format!("{root}/"));
        if roots.iter().any(within) {
            source.test_lines.fill(true);
        }
    }
}

/// Where the child modules of a file live.
pub(crate) fn child_directory(path: &str) -> String {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let (directory, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    match name {
        "mod" | "lib" | "main" => directory.to_owned(),
        _ => stem.to_owned(),
    }
}

fn test_module_names(masked: &str) -> Vec<&str> {
    let lines: Vec<&str> = masked.lines().map(str::trim).collect();
    let pairs = lines.windows(2).filter(|pair| is_test_attribute(pair[0]));
    pairs.filter_map(|pair| module_declared(pair[1])).collect()
}

/// The name in `mod name;`, with or without `pub`.
pub(crate) fn module_declared(line: &str) -> Option<&str> {
    let line = line.trim();
    let rest = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) => rest,
        None => line,
    };
    rest.trim_start().strip_prefix("mod ")?.trim().strip_suffix(';').map(str::trim)
}

fn is_test_attribute(line: &str) -> bool {
    line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test")
}

/// Marks each item under `#[cfg(test)]`, from the attribute to its closing brace or semicolon.
fn test_lines(masked: &str) -> Vec<bool> {
    let lines: Vec<&str> = masked.lines().collect();
    let mut marks = vec![false; lines.len()];
    let mut at = 0;
    while at < lines.len() {
        if !is_test_attribute(lines[at].trim()) {
            at += 1;
            continue;
        }
        let last = item_end(&lines, at);
        marks[at..=last].fill(true);
        at = last + 1;
    }
    marks
}

/// The line on which the item that begins at or after `first` ends.
pub(crate) fn item_end(lines: &[&str], first: usize) -> usize {
    let mut depth = 0_i64;
    let mut round = 0_i64;
    for (at, line) in lines.iter().enumerate().skip(first) {
        for character in line.chars() {
            match character {
                '(' | '[' => round += 1,
                ')' | ']' => round -= 1,
                '{' => depth += 1,
                '}' => {
                    depth -= 1;
                    if depth <= 0 && round == 0 {
                        return at;
                    }
                }
                ';' if depth == 0 && round == 0 => return at,
                _ => {}
            }
        }
    }
    lines.len().saturating_sub(1)
}

/// Replaces the inside of comments and of string, byte and character literals by spaces.
pub(crate) fn mask(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < characters.len() {
        let Some(end) = literal_or_comment(&characters, at) else {
            out.push(characters[at]);
            at += 1;
            continue;
        };
        for character in &characters[at..end] {
            out.push(if *character == '\n' { '\n' } else { ' ' });
        }
        at = end;
    }
    out
}

/// The end of the comment or literal that begins at `at`, if one does.
fn literal_or_comment(text: &[char], at: usize) -> Option<usize> {
    let next = text.get(at + 1).copied();
    match text[at] {
        '/' if next == Some('/') => {
            let length = text[at..].iter().position(|c| *c == '\n');
            Some(length.map_or(text.len(), |length| at + length))
        }
        '/' if next == Some('*') => Some(block_comment_end(text, at)),
        '"' => Some(string_end(text, at + 1)),
        'r' if !follows_a_word(text, at) => raw_string_end(text, at + 1),
        '\'' => character_end(text, at),
        _ => None,
    }
}

fn block_comment_end(text: &[char], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at + 1 < text.len() {
        match (text[at], text[at + 1]) {
            ('/', '*') => {
                depth += 1;
                at += 2;
            }
            ('*', '/') => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    text.len()
}

fn string_end(text: &[char], inside: usize) -> usize {
    let mut at = inside;
    while at < text.len() {
        match text[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// `at` stands behind the `r`. `None` for a raw identifier such as `r#type`.
fn raw_string_end(text: &[char], at: usize) -> Option<usize> {
    let hashes = text[at..].iter().take_while(|c| **c == '#').count();
    if text.get(at + hashes) != Some(&'"') {
        return None;
    }
    let inside = at + hashes + 1;
    let closes = |end: usize| {
        text[end] == '"'
            && text[end + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
    };
    Some((inside..text.len()).find(|end| closes(*end)).map_or(text.len(), |end| end + 1 + hashes))
}

/// `None` for a lifetime.
fn character_end(text: &[char], at: usize) -> Option<usize> {
    if text.get(at + 1) == Some(&'\\') {
        let rest = text.get(at + 3..)?;
        return rest.iter().position(|c| *c == '\'').map(|length| at + 3 + length + 1);
    }
    (text.get(at + 2) == Some(&'\'')).then_some(at + 3)
}

/// Does the character before `at` belong to an identifier? Then an `r` here opens no string,
/// except behind the `b` of a raw byte string.
fn follows_a_word(text: &[char], at: usize) -> bool {
    let word = |position: usize| text[position].is_alphanumeric() || text[position] == '_';
    match at {
        0 => false,
        1 => word(0) && text[0] != 'b',
        _ => word(at - 1) && (text[at - 1] != 'b' || word(at - 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left, with one space for each gap; the length must not change.
    fn left(text: &str) -> String {
        let masked = mask(text);
        assert_eq!(masked.chars().count(), text.chars().count(), "{text}");
        masked.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_literals_are_masked() {
        assert_eq!(left("let a = \"x // {\"; // print!"), "let a = ;");
        assert_eq!(left("let b = '{'; /* a /* b */ { */ c"), "let b = ; c");
        assert_eq!(left("f(\"a\\\"b\", c)"), "f( , c)");
    }

    #[test]
    fn raw_strings_lifetimes_and_escapes_are_told_apart() {
        assert_eq!(left(r##"f(r#"a"b"#, x)"##), "f( , x)");
        assert_eq!(left(r#"f(br"\", x)"#), "f(b , x)");
        assert_eq!(left(r"['\'', '\\', '\u{7d}', x]"), "[ , , , x]");
        assert_eq!(left("fn f<'a>(x: &'a str)"), "fn f<'a>(x: &'a str)");
        assert_eq!(left("r#type + var"), "r#type + var");
    }

    #[test]
    fn masking_keeps_every_line() {
        let text = "a \"\n\n\" b\n/*\n*/\n";
        assert_eq!(mask(text).lines().count(), text.lines().count());
    }

    #[test]
    fn test_items_are_not_production() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        let source = SourceFile::new("crates/log/src/x.rs", text);
        assert_eq!(source.test_lines, [false, true, true, true, true, false]);
        assert_eq!(source.production_count(), 2);
        assert_eq!(SourceFile::new("crates/log/tests/it/main.rs", text).production_count(), 0);
    }

    #[test]
    fn a_module_file_under_cfg_test_is_test_code() {
        let mut sources = vec![
            SourceFile::new(
                "crates/log/src/branch/mod.rs",
                "#[cfg(test)]\nmod model;\nmod tree;\n",
            ),
            SourceFile::new("crates/log/src/branch/model.rs", "fn a() {}\n"),
            SourceFile::new("crates/log/src/branch/tree.rs", "fn a() {}\n"),
        ];
        mark_test_modules(&mut sources);
        let counts: Vec<usize> = sources.iter().map(SourceFile::production_count).collect();
        assert_eq!(counts, [1, 0, 1]);
    }

    #[test]
    fn module_lines_are_read() {
        assert_eq!(module_declared("mod a;"), Some("a"));
        assert_eq!(module_declared("  pub(crate) mod a;"), Some("a"));
        assert_eq!(module_declared("pub mod a;"), Some("a"));
        assert_eq!(module_declared("mod a {"), None);
        assert_eq!(module_declared("model;"), None);
    }
}
