//! Each crate follows the workspace's lints, and the deterministic ones the stricter list.

use std::fs;
use std::path::Path;

use super::{Finding, read};

/// Crates that answer the same events with the same bytes. The same must hold for lab/src/sim,
/// which cannot have a clippy.toml of its own: `words` checks it.
const DETERMINISTIC: &[&str] = &["log", "replica", "judge"];

pub(crate) fn check(root: &Path) -> Vec<Finding> {
    let pure = read(root, "lint/pure.toml").unwrap_or_default();
    let mut findings = check_repeats(&read(root, "clippy.toml").unwrap_or_default(), &pure);
    for name in DETERMINISTIC {
        let path = format!("crates/{name}/clippy.toml");
        findings.extend(check_pure(&path, read(root, &path).as_deref(), &pure));
    }
    for path in manifests(root) {
        let text = read(root, &path).unwrap_or_default();
        findings.extend(check_manifest(&path, &text));
    }
    findings
}

/// clippy reads one file only, so the stricter list must hold the settings for everyone too.
fn check_repeats(everyone: &str, pure: &str) -> Vec<Finding> {
    let settings = everyone.lines().map(str::trim).filter(|line| {
        !line.is_empty() && !line.starts_with('#') && *line != "]" && !line.ends_with('[')
    });
    let missing = settings.filter(|setting| !pure.lines().any(|line| line.trim() == *setting));
    missing
        .map(|setting| {
            Finding::failure("lint/pure.toml", format!("lacks a line of clippy.toml: {setting}"))
        })
        .collect()
}

/// Compared by content: a checkout without symbolic links would hold the link's target as text.
fn check_pure(path: &str, text: Option<&str>, pure: &str) -> Option<Finding> {
    (text != Some(pure)).then(|| {
        Finding::failure(path, "must be a symbolic link to ../../lint/pure.toml (deterministic)")
    })
}

fn check_manifest(path: &str, text: &str) -> Option<Finding> {
    let mut lines = text.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
    (lines.next() != Some("workspace = true"))
        .then(|| Finding::failure(path, "lacks `[lints]` with `workspace = true`"))
}

fn manifests(root: &Path) -> Vec<String> {
    let mut paths = vec!["xtask/Cargo.toml".to_owned()];
    for entry in fs::read_dir(root.join("crates")).into_iter().flatten().flatten() {
        paths.push(format!("crates/{}/Cargo.toml", entry.file_name().to_string_lossy()));
    }
    paths.retain(|path| root.join(path).is_file());
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_for_everyone_that_the_pure_list_lacks_fails() {
        let everyone = "# Why.\nmax = 5\nlist = [\n    { path = \"a\" },\n]\n";
        assert!(
            check_repeats(everyone, "list = [\n    { path = \"a\" },\n]\nmax = 5\n").is_empty()
        );
        let findings = check_repeats(everyone, "max = 5\n");
        let expected = "lacks a line of clippy.toml: { path = \"a\" },";
        assert_eq!(findings, [Finding::failure("lint/pure.toml", expected)]);
    }

    #[test]
    fn a_deterministic_crate_without_the_pure_list_fails() {
        assert!(check_pure("crates/log/clippy.toml", None, "bans").is_some());
        assert!(check_pure("crates/log/clippy.toml", Some("../../lint/pure.toml"), "x").is_some());
        assert!(check_pure("crates/log/clippy.toml", Some("bans"), "bans").is_none());
    }

    #[test]
    fn a_crate_without_the_workspace_lints_fails() {
        let good = "[package]\nname = \"x\"\n\n[lints]\nworkspace = true\n";
        assert!(check_manifest("crates/x/Cargo.toml", good).is_none());
        assert!(check_manifest("crates/x/Cargo.toml", "[package]\nname = \"x\"\n").is_some());
        let own = "[lints]\nrust.unsafe_code = \"allow\"\n";
        assert!(check_manifest("crates/x/Cargo.toml", own).is_some());
    }
}
