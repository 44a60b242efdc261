//! Each verb, end to end.

use anabranch_client::{
    Against, BranchStatus, Bytes, Cas, ChangeKind, ForkKind, ForkRequest, Happened, HistoryQuery,
    Kind, Policy, PromoteOptions, Scan, SqlCall, SqlValue,
};

use super::Node;

#[test]
fn node_status_checkpoint_history_sessions() {
    let node = Node::start();
    let client = node.client();
    assert_eq!(client.healthz().unwrap().status, "ok");
    client.append("main", "orders", ["one"]).unwrap();
    let status = client.status().unwrap();
    assert_eq!((status.space.as_str(), status.branches, status.sessions >= 1), ("shop", 1, true));
    let index = client.checkpoint().unwrap();
    assert!(client.status().unwrap().checkpoint >= index);

    let entries = client.history(&HistoryQuery::default()).unwrap();
    let append = entries.iter().find(|entry| entry.kind == "append").unwrap();
    assert_eq!((append.actor.as_str(), append.intent.as_str()), ("tester", "try it"));
    assert!(append.time_ms > 0 && append.chain.len() == 64);
    let query = HistoryQuery { limit: Some(1), before: Some(append.index), branch: None };
    assert!(client.history(&query).unwrap().iter().all(|entry| entry.index < append.index));

    // A closed session is replaced by the next write.
    client.close().unwrap();
    client.append("main", "orders", ["two"]).unwrap();
    assert_eq!(client.read("main", "orders", 0, 10).unwrap().length, 2);
}

#[test]
fn streams_append_read_list() {
    let node = Node::start();
    let client = node.client();
    let binary = Bytes(vec![0, 255, 10, 13]);
    client.append("main", "team/a:1", [Bytes::from("é\u{0}"), binary.clone()]).unwrap().unwrap();
    let position = client.append_at("main", "team/a:1", ["third"], Some(2)).unwrap();
    assert_eq!(position.offset, 2);
    let error = client.append_at("main", "team/a:1", ["x"], Some(2)).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::OffsetMismatch, Happened::No));
    assert_eq!(client.append_at("main", "team/a:1", ["x"], None).unwrap().offset, 3);

    let page = client.read("main", "team/a:1", 1, 2).unwrap();
    assert_eq!(page.length, 4);
    let values: Vec<_> = page.records.iter().map(|record| &record.value).collect();
    assert_eq!(values, [&binary, &Bytes::from("third")]);
    assert_eq!(page.records[1].offset, 2);
    assert!(client.read("main", "team/a:1", 4, 10).unwrap().records.is_empty());
    let streams = client.streams("main").unwrap();
    assert_eq!(
        (streams[0].stream.as_str(), streams[0].keyed, streams[0].length),
        ("team/a:1", false, 4)
    );
}

#[test]
fn reads_end_early_when_records_are_large() {
    let node = Node::start();
    let client = node.client();
    for _ in 0..7 {
        client.append("main", "big", [vec![b'x'; 1 << 20]]).unwrap();
    }
    let page = client.read("main", "big", 0, 1000).unwrap();
    assert_eq!((page.records.len(), page.length), (4, 7));
    let page = client.read("main", "big", 4, 1000).unwrap();
    assert_eq!(page.records.len(), 3);

    let small: Vec<String> = (0..1500).map(|n| n.to_string()).collect();
    client.append("main", "small", small).unwrap();
    let page = client.read("main", "small", 0, usize::MAX).unwrap();
    assert_eq!((page.records.len(), page.length), (1000, 1500));
    assert_eq!(page.records[999].value, Bytes::from("999"));
}

#[test]
fn keys() {
    let node = Node::start();
    let client = node.client();
    let binary = Bytes(vec![255, 0]);
    client.put("main", "kv", "a", "1").unwrap();
    client.put("main", "kv", binary.clone(), binary.clone()).unwrap();
    let found = client.get("main", "kv", binary.clone()).unwrap().unwrap();
    assert_eq!((found.key, found.value), (binary.clone(), binary.clone()));
    assert_eq!(client.incr("main", "kv", "a", 41).unwrap(), 42);
    assert_eq!(client.incr("main", "kv", "new", -1).unwrap(), -1);
    let error = client.incr("main", "kv", binary.clone(), 1).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::NotANumber, Happened::No));

    let version = client.get("main", "kv", "a").unwrap().unwrap().index;
    let swap = Cas { expected: Some(version), value: Some("7".into()) };
    let newer = client.cas("main", "kv", "a", &swap).unwrap();
    assert!(newer > version);
    let error = client.cas("main", "kv", "a", &swap).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::VersionMismatch, Happened::No));
    let absent = Cas { expected: None, value: Some("8".into()) };
    client.cas("main", "kv", "fresh", &absent).unwrap();
    client.cas("main", "kv", "a", &Cas { expected: Some(newer), value: None }).unwrap();
    assert_eq!(client.get("main", "kv", "a").unwrap(), None);
    client.delete("main", "kv", "fresh").unwrap();
    client.delete("main", "kv", "never there").unwrap();

    let reply = client.scan("main", "kv", &Scan::default()).unwrap();
    let keys: Vec<_> = reply.keys.iter().map(|found| found.key.clone()).collect();
    assert_eq!((keys, reply.more), (vec![Bytes::from("new"), binary.clone()], false));
    let scan = Scan { limit: Some(1), ..Scan::default() };
    assert!(client.scan("main", "kv", &scan).unwrap().more);
    let scan = Scan { prefix: Bytes(vec![255]), after: Some("new".into()), limit: None };
    assert_eq!(client.scan("main", "kv", &scan).unwrap().keys.len(), 1);
}

#[test]
fn scans_page_through_many_keys() {
    let node = Node::start();
    let client = node.client();
    for n in 0..130 {
        client.put("main", "kv", format!("k{n:03}"), format!("{n}")).unwrap();
    }
    let reply = client.scan("main", "kv", &Scan::default()).unwrap();
    assert_eq!((reply.keys.len(), reply.more), (130, false));
    let after = Some(reply.keys[99].key.clone());
    let scan = Scan { prefix: "k1".into(), after, limit: Some(20) };
    let reply = client.scan("main", "kv", &scan).unwrap();
    assert_eq!((reply.keys.len(), reply.more), (20, true));
    assert_eq!(reply.keys[0].key, Bytes::from("k100"));
}

#[test]
fn sql_keeps_every_value() {
    let node = Node::start();
    let client = node.client();
    client.sql("main", &SqlCall::new("CREATE TABLE t(a)")).unwrap();
    let values = [
        SqlValue::Null,
        SqlValue::Integer(i64::MAX),
        SqlValue::Real(0.1),
        SqlValue::Text("é\"\n".into()),
        SqlValue::Blob(vec![0, 255]),
    ];
    for value in &values {
        let call = SqlCall::new("INSERT INTO t VALUES (?1)").with([value.clone()]);
        let reply = client.sql("main", &call).unwrap();
        assert_eq!((reply.changes, reply.index.is_some()), (1, true));
    }
    let reply = client.sql("main", &SqlCall::query("SELECT a FROM t ORDER BY rowid")).unwrap();
    assert_eq!(reply.columns, ["a"]);
    let read: Vec<_> = reply.rows.into_iter().map(|mut row| row.remove(0)).collect();
    assert_eq!(read, values);

    let call = SqlCall { max_rows: Some(2), ..SqlCall::query("SELECT a FROM t") };
    let reply = client.sql("main", &call).unwrap();
    assert_eq!((reply.rows.len(), reply.truncated), (2, true));
    let error = client.sql("main", &SqlCall::query("DELETE FROM t")).unwrap_err();
    assert_eq!(error.happened, Happened::No);
    let error = client.sql("main", &SqlCall::new("SELEC 1")).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::Sql, Happened::No));
    let endless =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT max(i) FROM n";
    let call = SqlCall { timeout_ms: Some(50), ..SqlCall::query(endless) };
    assert_eq!(client.sql("main", &call).unwrap_err().kind, Kind::Timeout);
    let call = SqlCall { timeout_ms: Some(u64::MAX / 2), ..SqlCall::query("SELECT 1") };
    assert_eq!(client.sql("main", &call).unwrap_err().kind, Kind::InvalidArgument);

    let tables = client.tables("main").unwrap();
    assert_eq!((tables[0].table.as_str(), tables[0].rows), ("t", 5));
    assert_eq!(tables[0].columns[0].name, "a");
}

#[test]
fn fork_diff_preview_promote_discard() {
    let node = Node::start();
    let client = node.client();
    client.sql("main", &SqlCall::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)")).unwrap();
    client.sql("main", &SqlCall::new("INSERT INTO t VALUES (1,'a'),(2,'b')")).unwrap();
    client.fork("agent-7", "main").unwrap();
    let request = ForkRequest {
        name: "past".into(),
        parent: "agent-7".into(),
        kind: ForkKind::Frozen,
        at: None,
        owner: "someone".into(),
        ttl_ms: Some(60_000),
        by: anabranch_client::By::default(),
    };
    client.fork_with(&request).unwrap();
    let branches = client.branches().unwrap();
    assert_eq!(branches.len(), 3);
    let past = client.branch("past").unwrap();
    assert_eq!((past.kind, past.depth, past.ttl_ms), (Some(ForkKind::Frozen), 2, Some(60_000)));
    assert_eq!((past.owner.as_str(), past.parent.as_deref()), ("someone", Some("agent-7")));

    let sql =
        "UPDATE t SET v='x' WHERE id=1; DELETE FROM t WHERE id=2; INSERT INTO t VALUES (3,'c')";
    client.sql("agent-7", &SqlCall::new(sql)).unwrap();
    client.append("agent-7", "log", ["did it"]).unwrap();
    client.put("agent-7", "kv", "k", "v").unwrap();
    let diff = client.diff("agent-7", Against::Base, 100).unwrap();
    let table = &diff.tables[0];
    assert_eq!((table.inserts, table.updates, table.deletes), (1, 1, 1));
    assert_eq!(table.rows[0].kind, ChangeKind::Delete);
    assert_eq!((diff.streams[0].records, diff.keys_changed), (1, 1));
    assert!(!client.diff("agent-7", Against::Parent, 0).unwrap().is_empty());

    let preview = client.preview("agent-7", &PromoteOptions::default(), 100).unwrap();
    assert!(preview.would_land && preview.conflicts.is_empty());
    let options = PromoteOptions { token: Some(preview.token), ..PromoteOptions::default() };
    let promoted = client.promote("agent-7", &options).unwrap();
    assert_eq!(promoted.into, "main");
    assert_eq!(promoted.rows.inserts, 1);
    let error = client.append("agent-7", "log", ["late"]).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::BranchClosed, Happened::No));

    client.discard("past").unwrap();
    let states: Vec<_> = client.branches().unwrap().into_iter().map(|info| info.status).collect();
    assert!(matches!(&states[1], BranchStatus::Promoted { into, .. } if into == "main"));
    assert!(matches!(states[2], BranchStatus::Discarded { .. }));
    assert_eq!(client.branch("nobody").unwrap_err().kind, Kind::UnknownBranch);
}

#[test]
fn refused_promotion_says_why() {
    let node = Node::start();
    let client = node.client();
    client.sql("main", &SqlCall::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v INT)")).unwrap();
    client.sql("main", &SqlCall::new("INSERT INTO t VALUES (1, 1)")).unwrap();
    client.fork("a", "main").unwrap();
    client.sql("a", &SqlCall::new("UPDATE t SET v = 2")).unwrap();
    client.sql("main", &SqlCall::new("UPDATE t SET v = 3")).unwrap();
    let error = client.promote("a", &PromoteOptions::default()).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::Conflict, Happened::No));
    let preview = error.preview.expect("what it would have done");
    assert_eq!(preview.conflicts[0].theirs.as_ref().unwrap()[1], SqlValue::Integer(3));
    let options = PromoteOptions { policy: Policy::Fork, ..PromoteOptions::default() };
    assert_eq!(client.promote("a", &options).unwrap().settled.len(), 1);

    client.add_check("main", "team/small", "SELECT * FROM t WHERE v > 5").unwrap();
    client.fork("b", "main").unwrap();
    client.sql("b", &SqlCall::new("UPDATE t SET v = 6")).unwrap();
    let error = client.promote("b", &PromoteOptions::default()).unwrap_err();
    assert_eq!(error.kind, Kind::CheckFailed);
    let checks = error.preview.expect("what it would have done").checks;
    assert_eq!((checks[0].passed, checks[0].rows.len()), (false, 1));
}

#[test]
fn checks() {
    let node = Node::start();
    let client = node.client();
    client.sql("main", &SqlCall::new("CREATE TABLE t(v INT)")).unwrap();
    client.add_check("main", "none/negative", "SELECT * FROM t WHERE v < 0").unwrap();
    let checks = client.checks("main").unwrap();
    assert_eq!((checks.len(), checks[0].name.as_str()), (1, "none/negative"));
    assert!(client.run_checks("main").unwrap()[0].passed);
    client.drop_check("main", "none/negative").unwrap();
    assert!(client.checks("main").unwrap().is_empty());
}
