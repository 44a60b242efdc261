//! Streams and keys.

use std::time::Duration;

use anabranch_log::{Happened, Kind};
use anabranch_node::{ForkKind, SessionWrite, Space};

use crate::{Fixture, fork, me, records, values};

#[test]
fn appends_are_there_after_a_restart_and_a_checkpoint() {
    let fixture = Fixture::new();
    let space = fixture.open();
    space.append("main", "s", records(&["a", "b"]), &me()).unwrap();
    let third = space.append_at("main", "s", records(&["c"]), Some(2), &me()).unwrap();
    assert_eq!((third.offset, third.count), (2, 1));
    assert_eq!(values(&space, "main", "s"), ["a", "b", "c"]);
    let chain = space.status().chain;
    drop(space);

    let space = fixture.open();
    assert_eq!(values(&space, "main", "s"), ["a", "b", "c"]);
    assert_eq!(space.status().chain, chain, "a replay writes the same history");
    space.checkpoint(&me()).unwrap();
    space.append("main", "s", records(&["d"]), &me()).unwrap();
    drop(space);

    let space = fixture.open();
    assert!(space.status().checkpoint > 0);
    assert_eq!(values(&space, "main", "s"), ["a", "b", "c", "d"]);
}

#[test]
fn a_wrong_expected_offset_says_so_and_changes_nothing() {
    let fixture = Fixture::new();
    let space = fixture.open();
    let error = space.append_at("main", "s", records(&["a"]), Some(1), &me()).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::OffsetMismatch, Happened::No));
    assert_eq!(space.read("main", "s", 0, 10).unwrap().length, 0);
}

#[test]
fn keys_are_compared_by_version() {
    let fixture = Fixture::new();
    let space = fixture.open();
    space.put("main", "k", b"a", b"1", &me()).unwrap();
    let version = space.get("main", "k", b"a").unwrap().unwrap();
    assert_eq!(version.value, b"1");
    let newer = space.cas("main", "k", b"a", Some(version.index), Some(b"2"), &me()).unwrap();
    let error = space.cas("main", "k", b"a", Some(version.index), Some(b"3"), &me()).unwrap_err();
    assert_eq!(error.kind, Kind::VersionMismatch);
    assert!(newer > version.index);
    assert_eq!(space.incr("main", "k", b"a", 40, &me()).unwrap(), 42);
    assert_eq!(space.get("main", "k", b"a").unwrap().unwrap().value, b"42");
    space.delete("main", "k", b"a", &me()).unwrap();
    assert_eq!(space.get("main", "k", b"a").unwrap(), None);
    assert_eq!(space.incr("main", "k", b"n", -1, &me()).unwrap(), -1);
    let keys = space.scan("main", "k", b"", None, 10).unwrap();
    assert_eq!(keys.len(), 1);
}

#[test]
fn a_retry_in_the_same_session_happens_once() {
    let fixture = Fixture::new();
    let space = fixture.open();
    let session = space.open_session(&me()).unwrap();
    let write = |seq| {
        let write = Some(SessionWrite { session, seq, answered: seq - 1 });
        anabranch_node::Origin { write, ..me() }
    };
    let first = space.append_at("main", "s", records(&["a"]), None, &write(1)).unwrap();
    let retry = space.append_at("main", "s", records(&["a"]), None, &write(1)).unwrap();
    assert_eq!(first, retry);
    space.append("main", "s", records(&["b"]), &write(2)).unwrap();
    space.append("main", "s", records(&["b"]), &write(2)).unwrap();
    assert_eq!(values(&space, "main", "s"), ["a", "b"]);
    drop(space);
    let space = fixture.open();
    space.append("main", "s", records(&["b"]), &write(2)).unwrap();
    assert_eq!(values(&space, "main", "s"), ["a", "b"], "also after a restart");
    space.close_session(session, &me()).unwrap();
    let error = space.append("main", "s", records(&["c"]), &write(3)).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::SessionExpired, Happened::Unknown));
}

#[test]
fn a_tail_wakes_when_something_is_appended() {
    let fixture = Fixture::new();
    let space = fixture.open();
    assert!(!space.wait("main", "s", 0, Duration::from_millis(5)).unwrap());
    let writer = space.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        writer.append("main", "s", records(&["a"]), &me()).unwrap();
    });
    assert!(space.wait("main", "s", 0, Duration::from_secs(20)).unwrap());
    thread.join().unwrap();
}

#[test]
fn many_writers_share_flushes_and_lose_nothing() {
    let fixture = Fixture::new();
    let space = fixture.open();
    let threads: Vec<_> = (0..16)
        .map(|writer| {
            let space = space.clone();
            std::thread::spawn(move || {
                for number in 0..50 {
                    let record = format!("{writer}-{number}").into_bytes();
                    space.append("main", "s", vec![record], &me()).unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let all = values(&space, "main", "s");
    assert_eq!(all.len(), 800);
    for writer in 0..16 {
        let mine: Vec<_> =
            all.iter().filter(|record| record.starts_with(&format!("{writer}-"))).collect();
        let expected: Vec<_> = (0..50).map(|number| format!("{writer}-{number}")).collect();
        assert!(mine.into_iter().eq(expected.iter()), "writer {writer} is in order");
    }
}

#[test]
fn a_second_process_is_refused() {
    let fixture = Fixture::new();
    let _space = fixture.open();
    let error = Space::open(fixture.dir.path(), fixture.options.clone()).err().unwrap();
    assert_eq!((error.kind, error.happened), (Kind::Locked, Happened::No));
}

#[test]
fn limits_are_checked_before_the_acknowledgement() {
    let mut fixture = Fixture::new();
    fixture.options.segment_bytes = 16 << 20;
    let space = fixture.open();
    let limit = anabranch_log::limits::RECORD_BYTES;
    for (size, fits) in [(limit - 1, true), (limit, true), (limit + 1, false)] {
        let result = space.append("main", "s", vec![vec![0; size]], &me());
        assert_eq!(result.is_ok(), fits, "{size} bytes");
        if let Err(error) = result {
            assert_eq!((error.kind, error.happened), (Kind::TooLarge, Happened::No));
        }
    }
    assert_eq!(space.read("main", "s", 0, 10).unwrap().length, 2);
    let error = space.append("nowhere", "s", records(&["a"]), &me()).unwrap_err();
    assert_eq!(error.kind, Kind::UnknownBranch);
}

#[test]
fn forks_see_what_they_should() {
    let fixture = Fixture::new();
    let space = fixture.open();
    space.append("main", "s", records(&["a"]), &me()).unwrap();
    fork(&space, "main", "live", ForkKind::Live);
    fork(&space, "main", "frozen", ForkKind::Frozen);
    space.append("live", "s", records(&["l"]), &me()).unwrap();
    space.append("main", "s", records(&["b"]), &me()).unwrap();
    space.append("frozen", "s", records(&["f"]), &me()).unwrap();
    assert_eq!(values(&space, "main", "s"), ["a", "b"]);
    assert_eq!(values(&space, "live", "s"), ["a", "l", "b"]);
    assert_eq!(values(&space, "frozen", "s"), ["a", "f"]);
    space.checkpoint(&me()).unwrap();
    drop(space);
    let space = fixture.open();
    assert_eq!(values(&space, "live", "s"), ["a", "l", "b"]);
    assert_eq!(values(&space, "frozen", "s"), ["a", "f"]);
}
