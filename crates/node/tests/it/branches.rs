//! Fork, promote, discard, history.

use anabranch_log::{Happened, Kind};
use anabranch_node::{ForkKind, ForkRequest, Policy, PromoteOptions};

use crate::{Fixture, fork, me, records, values};

#[test]
fn disjoint_forks_both_promote_in_either_order() {
    for order in [["x", "y"], ["y", "x"]] {
        let fixture = Fixture::new();
        let space = fixture.open();
        space.append("main", "s", records(&["0"]), &me()).unwrap();
        for name in ["x", "y"] {
            fork(&space, "main", name, ForkKind::Live);
            space.append(name, "s", records(&[name]), &me()).unwrap();
            space.put(name, "k", name.as_bytes(), b"v", &me()).unwrap();
        }
        for name in order {
            let landed = space.promote(name, &PromoteOptions::default(), &me()).unwrap();
            assert_eq!((landed.into.as_str(), landed.records), ("main", 2));
        }
        assert_eq!(values(&space, "main", "s"), ["0", order[0], order[1]]);
        assert_eq!(space.scan("main", "k", b"", None, 10).unwrap().len(), 2);
        let error = space.append("x", "s", records(&["late"]), &me()).unwrap_err();
        assert_eq!((error.kind, error.happened), (Kind::BranchClosed, Happened::No));
        assert!(error.message.contains("main"), "{}", error.message);
    }
}

#[test]
fn keys_changed_on_both_sides_conflict_until_settled() {
    let fixture = Fixture::new();
    let space = fixture.open();
    space.put("main", "k", b"a", b"base", &me()).unwrap();
    fork(&space, "main", "f", ForkKind::Frozen);
    space.put("f", "k", b"a", b"ours", &me()).unwrap();
    space.put("main", "k", b"a", b"theirs", &me()).unwrap();
    let error = space.promote("f", &PromoteOptions::default(), &me()).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::Conflict, Happened::No));
    let preview = error.preview.expect("a refusal shows what conflicts");
    let conflict = &preview.key_conflicts[0];
    assert_eq!(conflict.base.as_deref(), Some(&b"base"[..]));
    assert_eq!(conflict.ours.as_deref(), Some(&b"ours"[..]));
    assert_eq!(conflict.theirs.as_deref(), Some(&b"theirs"[..]));
    // The refusal reopened the branch.
    space.put("f", "k", b"b", b"more", &me()).unwrap();
    let parent = PromoteOptions { policy: Policy::Parent, ..PromoteOptions::default() };
    let landed = space.promote("f", &parent, &me()).unwrap();
    assert_eq!(landed.left_out, [("k".to_owned(), b"a".to_vec())]);
    assert_eq!(space.get("main", "k", b"a").unwrap().unwrap().value, b"theirs");
    assert_eq!(space.get("main", "k", b"b").unwrap().unwrap().value, b"more");
}

#[test]
fn a_preview_pins_both_heads() {
    let fixture = Fixture::new();
    let space = fixture.open();
    fork(&space, "main", "f", ForkKind::Live);
    space.append("f", "s", records(&["a"]), &me()).unwrap();
    let preview = space.preview("f", &PromoteOptions::default(), 10).unwrap();
    assert!(preview.would_land);
    space.append("f", "s", records(&["b"]), &me()).unwrap();
    let stale = PromoteOptions { token: Some(preview.token), ..PromoteOptions::default() };
    let error = space.promote("f", &stale, &me()).unwrap_err();
    assert_eq!(error.kind, Kind::StaleToken);
    let preview = space.preview("f", &PromoteOptions::default(), 10).unwrap();
    space.append("main", "other", records(&["x"]), &me()).unwrap();
    let fresh = PromoteOptions { token: Some(preview.token), ..PromoteOptions::default() };
    space.promote("f", &fresh, &me()).expect("appends to the target move nothing that lands");
}

#[test]
fn discard_drops_and_children_keep_a_frozen_view() {
    let fixture = Fixture::new();
    let space = fixture.open();
    fork(&space, "main", "a", ForkKind::Live);
    space.append("a", "s", records(&["1"]), &me()).unwrap();
    fork(&space, "a", "b", ForkKind::Live);
    space.append("b", "s", records(&["2"]), &me()).unwrap();
    space.discard("a", &me()).unwrap();
    assert_eq!(values(&space, "b", "s"), ["1", "2"]);
    let error = space.promote("b", &PromoteOptions::default(), &me()).unwrap_err();
    assert_eq!(error.happened, Happened::No);
    let onto = PromoteOptions { onto: Some("main".into()), ..PromoteOptions::default() };
    space.promote("b", &onto, &me()).unwrap();
    assert_eq!(values(&space, "main", "s"), ["2"]);
}

#[test]
fn an_idle_fork_expires_and_a_used_one_does_not() {
    let fixture = Fixture::new();
    let space = fixture.open();
    let request = ForkRequest {
        parent: "main".into(),
        name: "short".into(),
        kind: ForkKind::Live,
        at: None,
        owner: "me".into(),
        ttl_ms: Some(40),
    };
    space.fork(&request, &me()).unwrap();
    for _ in 0..200 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        if space.branch("short").is_err() {
            break;
        }
    }
    // `branch` looks at the name only and does not count as a use.
    let error = space.branch("short").unwrap_err();
    assert_eq!(error.kind, Kind::BranchClosed);
    assert!(error.message.contains("expired"), "{}", error.message);
}

#[test]
fn history_tells_who_did_what_and_why() {
    let fixture = Fixture::new();
    let space = fixture.open();
    fork(&space, "main", "f", ForkKind::Live);
    let by = me().because("because I can");
    space.append("f", "s", records(&["a", "b"]), &by).unwrap();
    space.promote("f", &PromoteOptions::default(), &by).unwrap();
    let all = space.history(None, None, 100).unwrap();
    let kinds: Vec<_> = all.iter().rev().map(|entry| entry.kind.as_str()).collect();
    assert_eq!(kinds, ["open-session", "fork", "append", "closing", "promote"]);
    assert_eq!((all[2].count, all[2].intent.as_str()), (2, "because I can"));
    let of_f = space.history(Some("f"), None, 100).unwrap();
    assert_eq!(of_f.len(), 4);
    let older = space.history(None, Some(all[2].index), 1).unwrap();
    assert_eq!(older[0].kind, "fork");
}
