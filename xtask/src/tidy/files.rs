//! Each file says first what it is, and is reached by a `mod` line.

use std::collections::BTreeSet;

use super::Finding;
use super::source::{SourceFile, child_directory, module_declared};

pub(crate) fn check(sources: &[SourceFile]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = sources.iter().filter_map(check_opening).collect();
    findings.extend(check_reached(sources));
    findings
}

fn check_opening(source: &SourceFile) -> Option<Finding> {
    let opens = source.text.starts_with("//!");
    (source.in_source_directory() && !opens)
        .then(|| Finding::failure(&source.path, "begins without `//!`: say what the file is"))
}

/// rustc does not see a file that no `mod` line names, so it rots.
fn check_reached(sources: &[SourceFile]) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    for source in sources {
        let children = child_directory(&source.path);
        for name in source.masked.lines().filter_map(module_declared) {
            reached.insert(format!("{children}/{name}.rs"));
            reached.insert(format!("{children}/{name}/mod.rs"));
        }
    }
    let lost = sources.iter().filter(|source| {
        source.in_source_directory() && !is_root(&source.path) && !reached.contains(&source.path)
    });
    lost.map(|source| Finding::failure(&source.path, "no `mod` line names this file")).collect()
}

/// Files that cargo finds by itself.
fn is_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs") || path.contains("/src/bin/")
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn a_file_that_does_not_say_what_it_is_fails() {
        let sources = [example("crates/log/src/lib.rs", "use std::fmt;\n//! Late.\n")];
        let expected =
            Finding::failure("crates/log/src/lib.rs", "begins without `//!`: say what the file is");
        assert_eq!(check(&sources), [expected]);
        let elsewhere = [example("crates/log/tests/it/main.rs", "use std::fmt;\n")];
        assert_eq!(check(&elsewhere), []);
    }

    #[test]
    fn a_file_that_nothing_names_fails() {
        let library = example("crates/log/src/lib.rs", "//! L.\npub mod id;\nmod branch;\n");
        let sources = [
            library,
            example("crates/log/src/id.rs", "//! I.\n"),
            example("crates/log/src/branch/mod.rs", "//! B.\nmod tree;\n// mod lost;\n"),
            example("crates/log/src/branch/tree.rs", "//! T.\n"),
            example("crates/log/src/branch/lost.rs", "//! X.\n"),
        ];
        let expected =
            Finding::failure("crates/log/src/branch/lost.rs", "no `mod` line names this file");
        assert_eq!(check(&sources), [expected]);
    }
}
