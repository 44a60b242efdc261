//! Server-sent events, shutdown.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use anabranch_client::{Bytes, Kind};

use super::Node;

#[test]
fn tail_sends_what_is_there_and_what_comes() {
    let node = Node::start();
    let client = node.client();
    client.append("main", "s", ["zero", "one"]).unwrap();
    let mut tail = client.tail("main", "s", Some(1));
    assert_eq!(tail.next().unwrap().unwrap().value, Bytes::from("one"));
    let writer = node.client();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        writer.append("main", "s", [Bytes(vec![255]), Bytes::from("l1\nl2\r")]).unwrap();
    });
    let record = tail.next().unwrap().unwrap();
    assert_eq!((record.offset, record.value), (2, Bytes(vec![255])));
    assert_eq!(tail.next().unwrap().unwrap().value, Bytes::from("l1\nl2\r"));
    thread.join().unwrap();
}

#[test]
fn tail_from_the_end_skips_what_was_there() {
    let node = Node::start();
    let client = node.client();
    client.append("main", "s", ["old"]).unwrap();
    let writer = node.client();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = stop.clone();
    // Keeps writing until the tail has begun, whenever that is.
    let thread = std::thread::spawn(move || {
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            writer.append("main", "s", ["new"]).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let record = client.tail("main", "s", None).next().unwrap().unwrap();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    thread.join().unwrap();
    assert_eq!(record.value, Bytes::from("new"));
}

#[test]
fn tail_of_an_unknown_branch_is_refused_and_of_a_closed_one_ends() {
    let node = Node::start();
    let client = node.client();
    let error = client.tail("nobody", "s", None).next().unwrap().unwrap_err();
    assert_eq!(error.kind, Kind::UnknownBranch);
    client.fork("a", "main").unwrap();
    client.append("a", "s", ["x"]).unwrap();
    let mut tail = client.tail("a", "s", Some(0));
    tail.next().unwrap().unwrap();
    client.discard("a").unwrap();
    assert_eq!(tail.next().unwrap().unwrap_err().kind, Kind::BranchClosed);
    assert!(tail.next().is_none());
}

#[test]
fn last_event_id_resumes_after_it() {
    let node = Node::start();
    node.client().append("main", "s", ["a", "b", "c"]).unwrap();
    let mut socket = std::net::TcpStream::connect(node.addr).unwrap();
    socket
        .write_all(
            b"GET /v1/branches/main/streams/s/tail?start=0 HTTP/1.1\r\nhost: localhost\r\n\
              last-event-id: 1\r\n\r\n",
        )
        .unwrap();
    let mut text = String::new();
    let mut buffer = [0; 1024];
    while !text.contains("\"c\"") {
        let read = socket.read(&mut buffer).unwrap();
        assert!(read > 0, "ended: {text}");
        text.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    assert!(text.contains("text/event-stream"));
    assert!(text.contains("id: 2\n") && !text.contains("\"b\""), "{text}");
}

#[test]
fn shutdown_ends_tails_and_returns() {
    let mut node = Node::start();
    let client = node.client();
    client.append("main", "s", ["a"]).unwrap();
    let mut tail = client.tail("main", "s", Some(0));
    tail.next().unwrap().unwrap();
    let began = Instant::now();
    node.stop().unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(tail.next().unwrap().unwrap_err().kind, Kind::Unavailable);
}
