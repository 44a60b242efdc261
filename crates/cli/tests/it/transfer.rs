//! Import and export: what goes out comes back equal.

use serde_json::{Value, json};

use super::Place;

fn rows(place: &Place, sql: &str) -> Value {
    place.json(&["sql", sql])[0]["rows"].clone()
}

#[test]
fn csv_types_nulls_and_rejects() {
    let place = Place::served();
    place.write(
        "my data.csv",
        "id,name,ratio,code\n1,ann,1.5,007\n2,,2,008\n3,\"a,\"\"b\"\"\nc\",,x\n4,too,few\n\
         5,é,1e3,\n",
    );
    let said = place.run(&["import", "my data.csv"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("my_data: id INTEGER, name TEXT, ratio REAL, code TEXT"), "{said:?}");
    let expected = json!([
        [1, "ann", 1.5, "007"],
        [2, null, 2.0, "008"],
        [3, "a,\"b\"\nc", null, "x"],
        [5, "é", 1000.0, null]
    ]);
    assert_eq!(rows(&place, "SELECT * FROM my_data"), expected);
    let reject: Value = serde_json::from_str(&place.read("my data.csv.rejects.jsonl")).unwrap();
    assert_eq!((&reject["line"], &reject["reason"]), (&6.into(), &"3 fields instead of 4".into()));
    assert_eq!(reject["text"], "4,too,few");
    let branches = place.json(&["branches", "--all"]);
    assert_eq!(branches[1]["name"], "import-1");
    assert_eq!(branches[1]["status"]["state"], "promoted");
}

#[test]
fn csv_round_trip_with_a_null_marker() {
    let place = Place::served();
    place.ok(&["sql", "CREATE TABLE t(i INTEGER, r REAL, s TEXT)"]);
    place.ok(&[
        "sql",
        "INSERT INTO t VALUES (9223372036854775807, 0.1, ''), (-9223372036854775808, 1e300, NULL),
         (NULL, -0.5, 'a,b\"c' || char(10) || 'd' || char(13) || 'é'), (0, NULL, '\\N?'),
         (7, 5e-324, ' x '), (8, 3, '123')",
    ]);
    // The empty text and NULL would be the same: refused, and nothing is left behind.
    let said = place.run(&["export", "--table", "t", "--output", "t.csv"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("--null"), "{said:?}");
    assert!(!place.path("t.csv").exists() && !place.path("t.csv.part").exists());
    place.ok(&["export", "--table", "t", "--null", "\\N", "--output", "t.csv"]);
    place.ok(&["sql", "CREATE TABLE u(i INTEGER, r REAL, s TEXT)"]);
    place.ok(&["import", "t.csv", "--table", "u", "--null", "\\N"]);
    assert_eq!(rows(&place, "SELECT * FROM u"), rows(&place, "SELECT * FROM t"));
    assert_eq!(rows(&place, "SELECT count(*) FROM u WHERE s = ''"), json!([[1]]));
    // And once more through stdout, with another separator, into a table that is made.
    let text = place.ok(&["export", "--table", "u", "--null", "\\N", "--delimiter", "\\t"]);
    place.write("v.tsv", text);
    place.ok(&["import", "v.tsv", "--null", "\\N", "--type", "s=TEXT"]);
    assert_eq!(rows(&place, "SELECT * FROM v"), rows(&place, "SELECT * FROM t"));
}

#[test]
fn jsonl_round_trip_of_every_value() {
    let place = Place::served();
    place.ok(&["sql", "CREATE TABLE t(\"the id\" INTEGER PRIMARY KEY, b, \"q\"\"\" TEXT)"]);
    place.ok(&[
        "sql",
        "INSERT INTO t VALUES (1, x'00ff', ''), (2, 9223372036854775807, NULL), (3, 1.0, '123'),
         (4, 9e999, char(0) || 'é' || char(10)), (5, NULL, '{\"base64\":1}'), (6, 'text', 'x')",
    ]);
    place.ok(&["export", "--table", "t", "--format", "jsonl", "--output", "t.jsonl"]);
    assert!(place.read("t.jsonl").starts_with("{\"the id\":1,\"b\":{\"base64\":\"AP8=\"},"));
    place.ok(&["import", "t.jsonl", "--table", "u"]);
    let types = "SELECT *, typeof(b) FROM";
    assert_eq!(rows(&place, &format!("{types} u")), rows(&place, &format!("{types} t")));
    let said = place.run(&["export", "--table", "t"]);
    assert!(said.code == 2 && said.err.contains("blobs"), "{said:?}");

    place.write("bad.jsonl", "{\"a\":1}\nnonsense\n\n{\"a\":[1]}\n{\"a\":2}\n{\"a\":1,\"a\":2}\n");
    let said = place.run(&["import", "bad.jsonl", "--json"]);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said.code, &report["rejected"]), (1, &3.into()), "{said:?}");
    let lines: Vec<Value> = place
        .read("bad.jsonl.rejects.jsonl")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["line"].clone())
        .collect();
    assert_eq!(lines, [2, 4, 6]);
    assert_eq!(rows(&place, "SELECT a FROM bad"), json!([[1], [2]]));
}

#[test]
fn large_tables_go_through_a_frozen_fork() {
    let place = Place::served();
    let numbers =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25000) ";
    place.ok(&["sql", "CREATE TABLE t(i INTEGER, s TEXT)"]);
    place.ok(&["sql", &format!("{numbers} INSERT INTO t SELECT i, 'x' || i FROM n")]);
    place.ok(&["sql", "CREATE TABLE w(i INTEGER PRIMARY KEY, s TEXT) WITHOUT ROWID"]);
    place.ok(&["sql", &format!("{numbers} INSERT INTO w SELECT i * 2, 'x' || i FROM n")]);
    for table in ["t", "w"] {
        let file = format!("{table}.csv");
        place.ok(&["export", "--table", table, "--output", &file]);
        place.ok(&["import", &file, "--table", &format!("{table}2")]);
        let missing = format!("SELECT count(*), count(DISTINCT i), sum(i) FROM {table}");
        assert_eq!(rows(&place, &missing), rows(&place, &format!("{missing}2")));
    }
    let open = place.json(&["branches"]);
    assert_eq!(open.len(), 1, "forks of exports and imports are closed: {open:?}");
}

#[test]
fn sqlite_file_with_everything_in_it() {
    let place = Place::served();
    let file = rusqlite::Connection::open(place.path("old.db")).unwrap();
    file.execute_batch(
        "CREATE TABLE author(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE);
         CREATE TABLE book(author INTEGER REFERENCES author(id), title TEXT, price REAL,
           cover BLOB, twice REAL GENERATED ALWAYS AS (price * 2), PRIMARY KEY (author, title))
           WITHOUT ROWID;
         CREATE INDEX by_title ON book(title);
         CREATE VIEW cheap AS SELECT * FROM book WHERE price < 5;
         INSERT INTO author(name) VALUES ('ann'), ('bob'), (CAST(x'ff' AS TEXT));
         INSERT INTO book(author, title, price, cover)
           VALUES (1, 'a', 1.5, x'00'), (2, 'b', NULL, NULL);",
    )
    .unwrap();
    drop(file);
    let said = place.run(&["import", "old.db"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("left out: view cheap"), "{said:?}");
    assert!(place.read("old.db.rejects.jsonl").contains("not UTF-8"));
    assert_eq!(rows(&place, "SELECT * FROM author"), json!([[1, "ann"], [2, "bob"]]));
    assert_eq!(
        rows(&place, "SELECT * FROM book"),
        json!([[1, "a", 1.5, { "base64": "AA==" }, 3.0], [2, "b", null, null, null]])
    );
    assert_eq!(
        rows(&place, "SELECT count(*) FROM sqlite_schema WHERE name='by_title'"),
        json!([[1]])
    );
    let said = place.run(&["import", "old.db", "--table", "nothing"]);
    assert_eq!(said.code, 2, "{said:?}");
    place.write("no.db", "this is no database, however long the text is".repeat(50));
    assert_eq!(place.run(&["import", "no.db"]).code, 2);
}

#[test]
fn streams_round_trip() {
    let place = Place::served();
    place.write("in.log", b"one\n\n\xff\x00\r\nlast without newline");
    place.ok(&["import", "in.log", "--stream", "s"]);
    let out = place.command(&["export", "--stream", "s"]).output().unwrap();
    assert_eq!(out.stdout, b"one\n\n\xff\x00\r\nlast without newline\n");
    place.ok(&["append", "s", "two\nlines"]);
    let said = place.run(&["export", "--stream", "s", "--output", "s.log"]);
    assert!(said.code == 2 && said.err.contains("--format jsonl"), "{said:?}");
    place.ok(&["export", "--stream", "s", "--format", "jsonl", "--output", "s.jsonl"]);
    place.ok(&["import", "s.jsonl", "--stream", "copy", "--format", "jsonl"]);
    let values = |stream| -> Vec<Value> {
        let records = place.json(&["read", stream]);
        records.into_iter().map(|record| record["value"].clone()).collect()
    };
    assert_eq!(values("copy"), values("s"));
    let mut large = vec![b'x'; (1 << 20) + 1];
    large.extend(b"\nfits\n");
    let said =
        place.run_with(&["import", "-", "--stream", "large", "--rejects", "r.jsonl"], &large);
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(place.ok(&["read", "large"]), "fits\n");
    assert!(place.read("r.jsonl").contains("larger than 1 MiB"));
}

#[test]
fn import_that_fails_leaves_nothing() {
    let place = Place::served();
    place.ok(&["sql", "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT CHECK (v <> 'bad'))"]);
    place.ok(&["checks", "add", "small", "SELECT * FROM t WHERE id > 3"]);
    // Rows that the table refuses are found one by one.
    place.write("t.csv", "id,v\n1,ok\n2,ok\n3,ok\n2,again\n9,bad\n");
    let said = place.run(&["import", "t.csv"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(rows(&place, "SELECT count(*) FROM t"), json!([[3]]));
    let rejects = place.read("t.csv.rejects.jsonl");
    assert!(rejects.contains("\"line\":5") && rejects.contains("\"line\":6"), "{rejects}");

    // Too many of them: given up, and the fork is gone.
    let said = place.run(&["import", "t.csv", "--max-rejects", "1"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("discarded the fork import-2"), "{said:?}");

    // A check says no: the rows stay on the fork for review.
    place.write("u.csv", "id,v\n4,ok\n");
    let said = place.run(&["import", "u.csv", "--table", "t"]);
    assert!(said.code == 1 && said.err.contains("anabranch preview import-3"), "{said:?}");
    let out = place.ok(&["import", "u.csv", "--table", "t", "--keep-fork"]);
    assert!(out.contains("kept the fork import-4"), "{out}");
    assert_eq!(rows(&place, "SELECT count(*) FROM t"), json!([[3]]));

    for (name, text) in
        [("twice.csv", "a,A\n1,2\n"), ("none.csv", ""), ("none.jsonl", ""), ("x.unknown", "a\n")]
    {
        place.write(name, text);
        let said = place.run(&["import", name]);
        assert!(said.code == 2 && said.err.contains("hint: "), "{name}: {said:?}");
    }
    assert_eq!(place.run(&["import", "u.csv", "--table", "t", "--type", "z=TEXT"]).code, 2);
    place.write("w.csv", "id,other\n1,2\n");
    assert_eq!(place.run(&["import", "w.csv", "--table", "t"]).code, 2);
    assert_eq!(place.run(&["import", "-"]).code, 2);
}
