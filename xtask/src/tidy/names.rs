//! Names that say nothing: a module called `util` becomes an attic.

use super::Finding;
use super::source::{SourceFile, module_declared};

const BANNED: &[&str] = &["core", "common", "types", "util", "utils", "helper", "helpers", "misc"];

pub(crate) fn check(sources: &[SourceFile]) -> Vec<Finding> {
    sources.iter().flat_map(check_file).collect()
}

fn check_file(source: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let parts = source.path.split('/').map(|part| part.strip_suffix(".rs").unwrap_or(part));
    for part in parts.filter(|part| BANNED.contains(part)) {
        findings.push(finding(&source.path, part));
    }
    for (at, line) in source.masked.lines().enumerate() {
        // `mod x;` has a file, which is found by its path.
        let inline =
            line.trim_end().strip_suffix('{').map(|start| format!("{};", start.trim_end()));
        let Some(name) = inline.as_deref().and_then(module_declared) else { continue };
        if BANNED.contains(&name) {
            findings.push(finding(&format!("{}:{}", source.path, at + 1), name));
        }
    }
    findings
}

fn finding(place: &str, name: &str) -> Finding {
    Finding::failure(place, format!("`{name}` says nothing: name it after what it holds"))
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn a_file_or_directory_with_an_empty_name_fails() {
        for path in
            ["crates/log/src/util.rs", "crates/common/src/lib.rs", "crates/a/src/types/b.rs"]
        {
            assert_eq!(check(&[example(path, "//! X.\n")]).len(), 1, "{path}");
        }
        assert_eq!(check(&[example("crates/log/src/utility_bill.rs", "//! X.\n")]), []);
    }

    #[test]
    fn an_inline_module_with_an_empty_name_fails() {
        let text = "//! X.\n// mod util {\npub(crate) mod helpers {\n}\nmod branch {\n}\n";
        let expected = finding("crates/log/src/lib.rs:3", "helpers");
        assert_eq!(check(&[example("crates/log/src/lib.rs", text)]), [expected]);
    }
}
