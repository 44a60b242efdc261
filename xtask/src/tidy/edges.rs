//! Which crate may use which: the layers, the allowed edges, and a reason per outside dependency.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Finding;

/// Layer of each crate. A crate may depend only on lower layers.
const LAYERS: &[(&str, u8)] = &[
    ("log", 0),
    ("judge", 0),
    ("replica", 1),
    ("store", 1),
    ("sql", 1),
    ("api", 1),
    ("node", 2),
    ("client", 2),
    ("server", 3),
    ("lab", 3),
    ("cli", 4),
    ("xtask", 5),
];

/// The edges there may be. ARCHITECTURE.md says why each crate stands apart.
const EDGES: &[(&str, &[&str])] = &[
    ("log", &[]),
    ("judge", &[]),
    ("replica", &["log"]),
    ("store", &["log"]),
    ("sql", &["log"]),
    ("api", &["log"]),
    ("node", &["log", "replica", "store", "sql"]),
    ("client", &["log", "api"]),
    ("server", &["log", "api", "node"]),
    ("lab", &["log", "replica", "store", "sql", "node", "client", "judge"]),
    ("cli", &["log", "judge", "replica", "store", "sql", "api", "node", "client", "server", "lab"]),
    ("xtask", &[]),
];

/// Edges for tests only.
const TEST_EDGES: &[(&str, &str, &str)] =
    &[("server", "client", "the door is tested with the client that users link")];

/// Outside crates that any crate may use in its tests.
const FOR_TESTS: &[(&str, &str)] = &[
    ("proptest", "property tests: random schedules, shrunk to the smallest failing one"),
    ("tempfile", "directories that vanish with the test"),
];

/// Every other outside dependency, with the reason that it is worth having.
const OUTSIDE: &[(&str, &str, &str)] = &[
    ("replica", "raft", "the Raft library; named by raft.rs alone"),
    ("replica", "slog", "raft wants a logger of this type; it gets one that discards"),
    ("store", "blake3", "content hashes of chunks and the hash chain"),
    ("store", "crc-fast", "CRC-32C of every record at memory speed"),
    ("store", "rustix", "flock and fadvise without `unsafe` of ours"),
    ("sql", "rusqlite", "SQLite itself, bundled, and its C interface"),
    ("api", "serde", "wire types are derived"),
    ("api", "serde_json", "the wire format of /v1"),
    ("node", "atomic-wait", "one system call wakes a whole crowd of writers"),
    ("node", "blake3", "digests of payloads, as the store computes them"),
    ("node", "getrandom", "the operating system's chance, for ids; simulated in the lab"),
    ("node", "tracing", "what a node tells its operator"),
    ("client", "ureq", "a small blocking HTTP client, so that users link no runtime"),
    ("client", "serde", "wire types are derived"),
    ("client", "serde_json", "the wire format of /v1"),
    ("server", "axum", "HTTP routing and body limits"),
    ("server", "futures-core", "the stream trait that axum asks of server-sent events"),
    ("server", "tokio", "the runtime under axum; the node itself needs none"),
    ("server", "tracing", "what a server tells its operator"),
    ("server", "serde", "wire types are derived"),
    ("server", "serde_json", "the wire format of /v1"),
    ("lab", "hdrhistogram", "latency quantiles that lose no tail"),
    ("lab", "rusqlite", "plain SQLite, the baseline of the benchmarks"),
    ("cli", "clap", "arguments, help and man page from one definition"),
    ("cli", "clap_complete", "shell completions from the same definition"),
    ("cli", "comfy-table", "tables that fit the terminal"),
    ("cli", "csv", "import and export"),
    ("cli", "indicatif", "progress of long imports"),
    ("cli", "rusqlite", "import and export of SQLite files"),
    ("cli", "serde", "--json output"),
    ("cli", "serde_json", "--json output"),
    ("cli", "tokio", "starts the server in this process"),
    ("cli", "tracing", "hands the node's events to a subscriber"),
    ("cli", "tracing-subscriber", "prints them to stderr"),
    ("cli", "zstd", "reads the packed flight extract"),
    ("xtask", "serde_json", "reads cargo metadata"),
];

/// How many outside crates a crate may use outside its tests.
const BUDGETS: &[(&str, usize)] = &[("log", 0), ("judge", 0), ("store", 5), ("replica", 6)];

pub(crate) fn check(metadata: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    let packages = packages(metadata);
    for (name, dependencies) in &packages {
        let Some((_, allowed)) = EDGES.iter().find(|(from, _)| from == name) else {
            findings.push(Finding::failure(
                name,
                "is not in the table of crates; add it to LAYERS and EDGES with its reason in \
                 ARCHITECTURE.md",
            ));
            continue;
        };
        for dependency in dependencies {
            if packages.contains_key(&dependency.name) {
                let for_test = |edge: &&(&str, &str, &str)| {
                    dependency.only_for_tests && edge.0 == name && edge.1 == dependency.name
                };
                if TEST_EDGES.iter().any(|edge| for_test(&edge)) {
                    continue;
                }
                findings.extend(check_edge(name, &dependency.name, allowed));
            } else {
                used.insert((name.as_str(), dependency.name.as_str()));
                findings.extend(check_outside(name, dependency));
            }
        }
        findings.extend(check_budget(name, dependencies, &packages));
    }
    for (from, to, _) in OUTSIDE {
        if packages.contains_key(*from) && !used.contains(&(*from, *to)) {
            findings.push(Finding::warning(
                *from,
                format!("no longer uses `{to}`; remove its line from OUTSIDE"),
            ));
        }
    }
    findings
}

struct Dependency {
    name: String,
    only_for_tests: bool,
}

/// The workspace's packages by directory name, with what each asks for.
fn packages(metadata: &Value) -> BTreeMap<String, Vec<Dependency>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| short(value.as_str().unwrap_or_default()).to_owned();
    let packages = list(&metadata["packages"]).into_iter().map(|package| {
        let dependencies =
            list(&package["dependencies"]).into_iter().map(|dependency| Dependency {
                name: text(&dependency["name"]),
                only_for_tests: dependency["kind"] == "dev",
            });
        (text(&package["name"]), dependencies.collect())
    });
    packages.collect()
}

fn short(name: &str) -> &str {
    name.strip_prefix("anabranch-").unwrap_or(name)
}

fn check_edge(from: &str, to: &str, allowed: &[&str]) -> Option<Finding> {
    if !allowed.contains(&to) {
        return Some(Finding::failure(
            from,
            format!("must not depend on `{to}`; the edges are: {}", allowed.join(", ")),
        ));
    }
    (layer(from) <= layer(to))
        .then(|| Finding::failure(from, format!("`{to}` is not in a lower layer (LAYERS)")))
}

/// `None`, which is below all, for a crate that has no layer.
fn layer(name: &str) -> Option<u8> {
    LAYERS.iter().find(|(of, _)| *of == name).map(|(_, at)| *at)
}

fn check_outside(from: &str, dependency: &Dependency) -> Option<Finding> {
    let to = &dependency.name;
    let listed = OUTSIDE.iter().any(|(crate_name, name, _)| *crate_name == from && name == to);
    let for_tests = dependency.only_for_tests && FOR_TESTS.iter().any(|(name, _)| name == to);
    (!listed && !for_tests).then(|| {
        Finding::failure(
            from,
            format!("uses `{to}`, which has no line of reason in OUTSIDE (tidy/edges.rs)"),
        )
    })
}

fn check_budget(
    name: &str,
    dependencies: &[Dependency],
    packages: &BTreeMap<String, Vec<Dependency>>,
) -> Option<Finding> {
    let (_, budget) = BUDGETS.iter().find(|(budgeted, _)| *budgeted == name)?;
    let outside = dependencies.iter().filter(|dependency| {
        !dependency.only_for_tests && !packages.contains_key(&dependency.name)
    });
    let count = outside.count();
    (count > *budget).then(|| {
        Finding::failure(name, format!("uses {count} outside crates; its budget is {budget}"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(metadata: &Value) -> Vec<String> {
        let failures = check(metadata).into_iter();
        failures
            .filter(|found| found.severity == super::super::Severity::Failure)
            .map(|found| found.to_string())
            .collect()
    }

    fn workspace(from: &str, to: &str, kind: Option<&str>) -> Value {
        json!({ "packages": [
            { "name": from, "dependencies": [{ "name": to, "kind": kind }] },
            { "name": "anabranch-judge", "dependencies": [] },
            { "name": "anabranch-log", "dependencies": [] },
        ]})
    }

    #[test]
    fn an_edge_that_is_not_in_the_table_fails() {
        let edge = workspace("anabranch-node", "anabranch-judge", None);
        assert_eq!(
            found(&edge),
            ["error: node: must not depend on `judge`; the edges are: log, replica, store, sql"]
        );
        assert!(found(&workspace("anabranch-node", "anabranch-log", None)).is_empty());
    }

    #[test]
    fn an_edge_between_equals_fails() {
        let expected = Finding::failure("log", "`judge` is not in a lower layer (LAYERS)");
        assert_eq!(check_edge("log", "judge", &["judge"]), Some(expected));
    }

    #[test]
    fn a_test_only_edge_is_an_edge() {
        let edge = workspace("anabranch-node", "anabranch-judge", Some("dev"));
        assert_eq!(found(&edge).len(), 1);
    }

    #[test]
    fn an_outside_crate_without_a_reason_fails() {
        assert_eq!(
            found(&workspace("anabranch-node", "rand", None)),
            ["error: node: uses `rand`, which has no line of reason in OUTSIDE \
              (tidy/edges.rs)"]
        );
        assert!(found(&workspace("anabranch-node", "tracing", None)).is_empty());
    }

    #[test]
    fn crates_for_tests_are_for_tests_only() {
        assert!(found(&workspace("anabranch-node", "proptest", Some("dev"))).is_empty());
        assert_eq!(found(&workspace("anabranch-node", "proptest", None)).len(), 1);
    }

    #[test]
    fn an_unknown_crate_fails() {
        let new = workspace("anabranch-attic", "anabranch-log", None);
        assert!(found(&new)[0].starts_with("error: attic: is not in the table"));
    }

    #[test]
    fn a_crate_over_its_budget_fails() {
        let names = ["blake3", "crc-fast", "rustix", "a", "b", "c"];
        let dependencies: Vec<Value> =
            names.iter().map(|name| json!({ "name": name, "kind": null })).collect();
        let store = json!({ "packages": [
            { "name": "anabranch-store", "dependencies": dependencies }
        ]});
        let last = found(&store).pop();
        let expected = "error: store: uses 6 outside crates; its budget is 5";
        assert_eq!(last.as_deref(), Some(expected));
    }

    #[test]
    fn a_reason_without_a_dependency_warns() {
        let bare = json!({ "packages": [{ "name": "anabranch-lab", "dependencies": [] }] });
        let findings = check(&bare);
        let expected = |used: &str| {
            let what = format!("no longer uses `{used}`; remove its line from OUTSIDE");
            Finding::warning("lab", what)
        };
        assert_eq!(findings, [expected("hdrhistogram"), expected("rusqlite")]);
    }

    #[test]
    fn every_allowed_edge_goes_down() {
        assert_eq!(LAYERS.len(), EDGES.len());
        for (from, allowed) in EDGES {
            for to in *allowed {
                assert!(layer(to).is_some(), "{to} has no layer");
                assert!(layer(from) > layer(to), "{from} -> {to} does not go down");
            }
        }
    }
}
