//! Random histories: net changes applied to the base give the fork; two forks that touch
//! different rows both land; what followers install is what the leader has.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anabranch_sql::{Body, Limits, Policy, diff_against, install, rebuild_live};
use proptest::prelude::*;

use crate::Branch;

const TABLES: [&str; 5] = [
    "CREATE TABLE t0(k INTEGER PRIMARY KEY, a, b)",
    "CREATE TABLE t1(k TEXT PRIMARY KEY, a, b)",
    "CREATE TABLE t2(k, a, b, PRIMARY KEY(k)) WITHOUT ROWID",
    "CREATE TABLE t3(k INTEGER PRIMARY KEY AUTOINCREMENT, a, b, c AS (a || '!') STORED)",
    "CREATE TABLE t4(a, k TEXT COLLATE NOCASE PRIMARY KEY, b)",
];

/// One statement on row `key` of table `table`.
#[derive(Clone, Debug)]
struct Act {
    table: usize,
    key: u32,
    kind: u8,
    value: i32,
}

fn act(keys: std::ops::Range<u32>) -> impl Strategy<Value = Act> {
    (0..TABLES.len(), keys, 0u8..6, any::<i32>()).prop_map(|(table, key, kind, value)| Act {
        table,
        key,
        kind,
        value,
    })
}

fn sql(act: &Act) -> String {
    let Act { table, key, kind, value } = act;
    let t = format!("t{table}");
    match kind {
        0 => format!("DELETE FROM {t} WHERE k = {key}"),
        1 => format!("UPDATE {t} SET a = {value}, b = NULL WHERE k = {key}"),
        2 => format!("UPDATE {t} SET b = 'b{value}' WHERE k = {key}"),
        3 => format!("INSERT OR REPLACE INTO {t}(k, a, b) VALUES ({key}, {value}, x'00')"),
        4 => format!(
            "INSERT INTO {t}(k, a) VALUES ({key}, 1.5) ON CONFLICT(k) DO UPDATE SET a = a || 'u'"
        ),
        _ => format!("INSERT OR IGNORE INTO {t}(k, a, b) VALUES ({key}, 'i', {value})"),
    }
}

fn base() -> Branch {
    let mut branch = Branch::new();
    let mut script = String::new();
    for (number, table) in TABLES.iter().enumerate() {
        let _ = write!(script, "{table};");
        for key in (0..40).step_by(3) {
            let _ = write!(script, "INSERT INTO t{number}(k, a, b) VALUES ({key}, 'a', {key});");
        }
    }
    branch.run(&script);
    branch
}

fn content(branch: &Branch) -> BTreeMap<usize, Vec<String>> {
    let rows = |table: usize| branch.rows(&format!("SELECT k, a, b FROM t{table} ORDER BY k"));
    (0..TABLES.len()).map(|table| (table, rows(table))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn forks_that_touch_different_rows_both_land(
        ours in prop::collection::vec(prop::collection::vec(act(0..20), 1..6), 1..4),
        theirs in prop::collection::vec(act(20..40), 0..12),
        schema in any::<bool>(),
    ) {
        let mut main = base();
        let mut fork = main.fork();
        let mut both = main.fork();
        for (number, commit) in ours.iter().enumerate() {
            let script: Vec<String> = commit.iter().map(sql).collect();
            let before = fork.root.clone();
            if let Some(done) = fork.run(&script.join(";")) {
                let bytes = Body::encode_with_pages(&*fork.store, &done).unwrap();
                let body = Body::decode(&bytes).unwrap();
                let followed = install(&before, &*fork.store, &body.pages.unwrap()).unwrap();
                prop_assert_eq!(&followed, &fork.root);
                prop_assert_eq!(body.steps, done.steps);
            }
            both.run(&script.join(";"));
            if schema && number == 0 {
                fork.run("CREATE INDEX extra ON t1(a)");
                both.run("CREATE INDEX extra ON t1(a)");
            }
        }
        // On the base itself, the net changes are the fork.
        let alone = fork.promote_with(&main, Policy::Fail).unwrap();
        let alone = Branch { root: alone.root, ..main.clone() };
        prop_assert_eq!(content(&alone), content(&fork));
        let live = rebuild_live(&fork.store, &main.root, &fork.net, Limits::default()).unwrap();
        prop_assert_eq!(content(&Branch { root: live, ..main.clone() }), content(&fork));
        // Next to other people's rows both are there, whole.
        for act in &theirs {
            main.run(&sql(act));
            both.run(&sql(act));
        }
        let live = rebuild_live(&fork.store, &main.root, &fork.net, Limits::default()).unwrap();
        fork.promote(&mut main);
        prop_assert_eq!(content(&main), content(&both));
        prop_assert_eq!(content(&Branch { root: live, ..main.clone() }), content(&both));
        prop_assert_eq!(main.rows("PRAGMA integrity_check"), ["'ok'"]);
        // Nothing is left to promote.
        let left = diff_against(&fork.store, &main.root, &fork.net, 100).unwrap();
        prop_assert!(left.tables.is_empty(), "{:?}", left.tables);
    }

    #[test]
    fn rows_changed_on_both_sides_are_conflicts_exactly(
        ours in prop::collection::vec(act(0..12), 1..10),
        theirs in prop::collection::vec(act(0..12), 1..10),
    ) {
        let start = base();
        let (mut fork, mut main) = (start.fork(), start.fork());
        for act in &ours { fork.run(&sql(act)); }
        for act in &theirs { main.run(&sql(act)); }
        // The definition, from the two nets: same row, different outcome.
        let mut expected = 0;
        for (table, key, row) in fork.net.rows() {
            let other = main.net.rows().find(|(t, k, _)| t.name == table.name && *k == key);
            if other.is_some_and(|(_, _, other)| other.new != row.new) {
                expected += 1;
            }
        }
        let failed = fork.promote_with(&main, Policy::Fail);
        let count = match &failed {
            Ok(candidate) => candidate.conflict_count,
            Err(anabranch_sql::PromoteError::Conflicts { count, .. }) => *count,
            Err(other) => panic!("{other}"),
        };
        prop_assert_eq!(count, expected, "{:?}", failed);
        prop_assert_eq!(failed.is_err(), expected > 0);
        // Whoever wins, wins whole rows.
        let with = |policy| {
            let candidate = fork.promote_with(&main, policy).unwrap();
            content(&Branch { root: candidate.root, ..main.clone() })
        };
        let (fork_wins, parent_wins) = (with(Policy::Fork), with(Policy::Parent));
        let live = rebuild_live(&fork.store, &main.root, &fork.net, Limits::default());
        if let Ok(root) = live {
            prop_assert_eq!(&content(&Branch { root, ..main.clone() }), &fork_wins);
        }
        if expected == 0 {
            prop_assert_eq!(fork_wins, parent_wins);
        }
    }
}
