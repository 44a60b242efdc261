//! The verbs together, against a node.

use super::Place;

#[test]
fn streams_from_arguments_stdin_and_files() {
    let place = Place::served();
    place.ok(&["append", "s", "one", "two"]);
    let said = place.run_with(&["append", "s"], b"three\n\nfive");
    assert_eq!((said.code, said.out.as_str()), (0, ""));
    place.write("more.jsonl", "{\"n\":6}\n{\"n\":7}\n");
    assert_eq!(place.json(&["append", "s", "--file", "more.jsonl"])[0]["count"], 2);
    assert_eq!(place.ok(&["read", "s"]), "one\ntwo\nthree\n\nfive\n{\"n\":6}\n{\"n\":7}\n");
    let long = place.ok(&["read", "s", "--start", "1", "-n", "1", "--long"]);
    assert!(long.starts_with("1\t") && long.ends_with("\ttwo\n"), "{long}");
    let said = place.run(&["append", "s", "--expect", "7", "--position", "eight"]);
    assert!(said.out.contains("offset 7"), "{said:?}");
    let said = place.run(&["append", "s", "--expect", "7", "nine"]);
    assert_eq!(said.code, 1, "{said:?}");
    let records = place.json(&["read", "s", "--start", "7"]);
    assert_eq!((&records[0]["offset"], &records[0]["value"]), (&7.into(), &"eight".into()));
    let many = (0..5000).map(|n: u32| n.to_string()).collect::<Vec<_>>().join("\n") + "\n";
    assert_eq!(place.run_with(&["append", "many"], many.as_bytes()).code, 0);
    assert_eq!(place.ok(&["read", "many"]), many);
    assert_eq!(place.ok(&["tail", "many", "--start", "4998", "-n", "2"]), "4998\n4999\n");
    assert_eq!(place.ok(&["tail", "many", "-n", "0"]), "");
    let streams = place.json(&["streams"]);
    assert_eq!(streams[0]["stream"], "many");
}

#[test]
fn keys() {
    let place = Place::served();
    place.ok(&["put", "kv", "a", "1"]);
    place.write("blob", [0u8, 159, 146, 150]);
    place.ok(&["put", "kv", "blob", "--file", "blob"]);
    assert_eq!(place.ok(&["get", "kv", "a"]), "1\n");
    assert_eq!(place.ok(&["get", "kv", "a", "--raw"]), "1");
    let found = place.json(&["get", "kv", "blob"]);
    assert_eq!(found[0]["value"]["base64"], "AJ+Slg==");
    assert_eq!(place.run(&["get", "kv", "none"]).code, 1);
    assert_eq!(place.ok(&["incr", "kv", "a"]), "2\n");
    assert_eq!(place.ok(&["incr", "kv", "a", "-5"]), "-3\n");
    let version = place.json(&["get", "kv", "a"])[0]["index"].to_string();
    place.ok(&["cas", "kv", "a", "x", "--version", &version]);
    assert_eq!(place.run(&["cas", "kv", "a", "y", "--version", &version]).code, 1);
    assert_eq!(place.run(&["cas", "kv", "a", "y", "--absent"]).code, 1);
    place.ok(&["cas", "kv", "b", "y", "--absent"]);
    assert_eq!(place.ok(&["scan", "kv", "--keys"]), "a\nb\nblob\n");
    assert_eq!(place.ok(&["scan", "kv", "b", "--after", "b", "--keys"]), "blob\n");
    assert_eq!(place.ok(&["scan", "kv", "-n", "1"]), "a\tx\n");
    place.ok(&["delete", "kv", "a"]);
    assert_eq!(place.run(&["get", "kv", "a", "--quiet"]).err, "");
}

#[test]
fn fork_review_promote() {
    let place = Place::served();
    place.ok(&["sql", "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)"]);
    place.ok(&["sql", "INSERT INTO t VALUES (?1, ?2)", "-p", "1", "-p", "one"]);
    place.ok(&["checks", "add", "no-empty", "SELECT * FROM t WHERE v = ''"]);
    place.ok(&["fork", "a", "--ttl", "2h", "--intent", "try"]);
    let said = place.run_with(&["sql", "-b", "a"], b"INSERT INTO t VALUES (2, '')");
    assert_eq!(said.code, 0, "{said:?}");
    let diff = place.ok(&["diff", "a"]);
    assert!(diff.contains("table  t  +1 ~0 -0") && diff.contains("+ id=2, v=''"), "{diff}");
    assert_eq!(place.ok(&["diff", "a", "--stat"]), "table  t  +1 ~0 -0\n");

    // A failed check: the answer is no, and says why.
    let said = place.run(&["preview", "a"]);
    assert_eq!(said.code, 1);
    assert!(said.out.contains("check  no-empty  failed"), "{said:?}");
    assert!(said.out.contains("would not land on main"), "{said:?}");
    let said = place.run(&["promote", "a"]);
    assert_eq!(said.code, 1);
    assert!(said.out.contains("check  no-empty  failed"), "{said:?}");
    assert!(said.err.starts_with("error: ") && said.err.contains("\nhint: "), "{said:?}");
    let said = place.run(&["promote", "a", "--json"]);
    let problem: serde_json::Value = serde_json::from_str(&said.err).unwrap();
    assert_eq!(problem["code"], "check_failed");
    assert_eq!(problem["preview"]["checks"][0]["passed"], false);

    place.ok(&["sql", "-b", "@a", "UPDATE t SET v = 'two' WHERE id = 2"]);
    let token = place.json(&["preview", "default@a"])[0]["token"].clone();
    place.ok(&["append", "log", "-b", "a", "did it"]);
    let stale = place.run(&["promote", "a", "--token", token.as_str().unwrap()]);
    assert_eq!(stale.code, 1, "{stale:?}");
    let token = place.json(&["preview", "a"])[0]["token"].clone();
    let out = place.ok(&["promote", "a", "--token", token.as_str().unwrap()]);
    assert!(
        out.contains("promoted a into main") && out.contains("1 record, rows +1 ~0 -0"),
        "{out}"
    );
    let rows = &place.json(&["sql", "SELECT * FROM t"])[0]["rows"];
    assert_eq!(*rows, serde_json::json!([[1, "one"], [2, "two"]]));
    assert_eq!(place.ok(&["read", "log"]), "did it\n");

    let tree = place.ok(&["branches", "--all"]);
    assert!(tree.starts_with("main\n└─ a · live · promoted into main at "), "{tree}");
    assert_eq!(place.ok(&["branches"]), "main\n");
    let history = place.json(&["history", "-n", "100"]);
    assert!(history.iter().any(|entry| entry["kind"] == "promote" && entry["actor"] == "tester"));
    let table = place.ok(&["history", "--branch", "main", "-n", "3"]);
    assert!(table.starts_with("index"), "{table}");
}

#[test]
fn conflicts_are_drawn() {
    let place = Place::served();
    place
        .ok(&["sql", "CREATE TABLE t(id INTEGER PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1)"]);
    place.ok(&["put", "kv", "k", "0"]);
    place.ok(&["fork", "a"]);
    place.ok(&["sql", "-b", "a", "UPDATE t SET v = 2"]);
    place.ok(&["put", "-b", "a", "kv", "k", "2"]);
    place.ok(&["sql", "UPDATE t SET v = 3"]);
    let said = place.run(&["promote", "a"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("conflict  t [1]"), "{said:?}");
    for side in ["  base    id=1, v=1", "  ours    id=1, v=2", "  theirs  id=1, v=3"] {
        assert!(said.out.contains(side), "{side}: {said:?}");
    }
    place.ok(&["promote", "a", "--policy", "fork"]);
    assert_eq!(place.json(&["sql", "SELECT v FROM t"])[0]["rows"][0][0], 2);
    place.ok(&["fork", "b", "--frozen"]);
    place.ok(&["discard", "b"]);
    let closed = place.json(&["branches", "--all"]);
    assert_eq!(closed[2]["status"]["state"], "discarded");
}

#[test]
fn checks_tables_status() {
    let place = Place::served();
    place.ok(&["sql", "CREATE TABLE t(v INT)"]);
    place.ok(&["sql", "INSERT INTO t VALUES (-1)"]);
    place.ok(&["checks", "add", "c", "SELECT * FROM t WHERE v < 0"]);
    assert_eq!(place.json(&["checks", "list"])[0]["name"], "c");
    let said = place.run(&["checks", "run"]);
    assert!(said.code == 1 && said.out.contains("  v=-1"), "{said:?}");
    place.ok(&["sql", "UPDATE t SET v = 1"]);
    place.ok(&["checks", "run"]);
    // Direct SQL passes the same gate.
    let said = place.run(&["sql", "UPDATE t SET v = -1"]);
    assert!(said.code == 1 && said.err.contains("`c`"), "{said:?}");
    place.ok(&["checks", "drop", "c"]);
    assert!(place.json(&["checks", "list"]).is_empty());
    assert_eq!(place.json(&["tables"])[0]["rows"], 1);
    place.ok(&["checkpoint"]);
    let status = &place.json(&["status"])[0];
    assert!(status["checkpoint"].as_u64() > Some(0) && status["space"] == "default", "{status}");
}

#[test]
fn what_was_acknowledged_is_there_after_a_restart_and_without_a_node() {
    let mut place = Place::served();
    place.ok(&["append", "s", "one"]);
    place.ok(&["sql", "CREATE TABLE t(v INT)"]);
    assert_eq!(place.stop(), Some(0));
    assert_eq!(place.ok(&["--dir", "data", "read", "s"]), "one\n");
    place.ok(&["--dir", "data", "append", "s", "two"]);
    let said = place.run(&["verify", "data"]);
    assert!(said.code == 0 && said.out.contains("clean: "), "{said:?}");
    let files = place.json(&["inspect", "data", "--file", "journal/", "--items"]);
    assert!(files[0]["items"].as_array().is_some_and(|items| !items.is_empty()));
    place.start();
    assert_eq!(place.ok(&["read", "s"]), "one\ntwo\n");
    assert_eq!(place.json(&["tables"])[0]["table"], "t");
}

#[test]
fn tail_follows() {
    use std::io::{BufRead, BufReader};
    let place = Place::served();
    place.ok(&["append", "s", "old"]);
    let mut tail = place.command(&["tail", "s", "--start", "0"]).spawn().unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "old");
    place.ok(&["append", "s", "new"]);
    assert_eq!(lines.next().unwrap().unwrap(), "new");
    tail.kill().unwrap();
    tail.wait().unwrap();
}

#[test]
fn demo_tells_its_story() {
    let place = Place::new();
    let said = place.run(&["demo", "--days", "3", "--dir", "flights"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.starts_with("Anabranch: "), "{said:?}");
    assert!(!said.out.contains('\u{1b}'), "{said:?}");
    assert_eq!(place.run(&["verify", "flights"]).code, 0);
    // A directory that is in use is left alone.
    assert_eq!(place.run(&["demo", "--days", "3", "--dir", "flights"]).code, 2);
    let story = place.json(&["demo", "--days", "2"]);
    assert_eq!(story[0]["directory"], "anabranch-demo");
}
