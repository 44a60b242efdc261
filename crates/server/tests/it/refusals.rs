//! What the door itself refuses, each as a problem.

use std::io::{Read, Write};

use anabranch_client::{Client, Happened, Kind, Options, Problem};
use anabranch_server::{ServeError, serve};

use super::Node;

const HOST: &str = "host: 127.0.0.1:7420";
const JSON: &str = "content-type: application/json";

fn problem(reply: &(u16, String)) -> Problem {
    let problem: Problem = serde_json::from_str(&reply.1).unwrap_or_else(|_| panic!("{reply:?}"));
    assert_eq!(problem.status, reply.0);
    assert_eq!(problem.outcome(), Happened::No);
    assert!(!problem.hint.is_empty());
    problem
}

#[test]
fn unknown_routes_and_methods() {
    let node = Node::start();
    let reply = node.request("GET /nonsense", &[HOST], "");
    assert_eq!((problem(&reply).kind(), reply.0), (Kind::InvalidArgument, 404));
    let reply = node.request("GET /v1/branches/main/nonsense", &[HOST], "");
    assert_eq!((problem(&reply).kind(), reply.0), (Kind::InvalidArgument, 404));
    let reply = node.request("DELETE /v1/branches/main", &[HOST], "");
    assert_eq!((problem(&reply).kind(), reply.0), (Kind::InvalidArgument, 405));
}

#[test]
fn foreign_names_are_refused() {
    let node = Node::start();
    for headers in [
        &["host: example.com"][..],
        &["host: example.com:7420"],
        &["x: no host at all"],
        &[HOST, "origin: https://example.com"],
    ] {
        let reply = node.request("GET /v1/status", headers, "");
        assert!(reply.0 == 403 || reply.0 == 400, "{headers:?}: {reply:?}");
        assert!(!reply.1.contains("shop"), "{reply:?}");
    }
    for headers in [&[HOST][..], &["host: localhost"], &[HOST, "origin: http://localhost:3000"]] {
        assert_eq!(node.request("GET /v1/status", headers, "").0, 200, "{headers:?}");
    }
}

#[test]
fn bodies_must_be_json_and_say_so() {
    let node = Node::start();
    let line = "POST /v1/branches/main/keys/kv/put";
    let good = r#"{"key":"k","value":"v"}"#;
    let reply = node.request(line, &[HOST, "content-type: text/plain"], good);
    assert_eq!((problem(&reply).kind(), reply.0), (Kind::InvalidArgument, 415));
    let reply = node.request(line, &[HOST], good);
    assert_eq!(reply.0, 415);
    for (body, what) in [
        ("", "EOF"),
        ("{", "EOF"),
        ("{\"key\":\"k\"}", "missing field `value`"),
        ("{\"key\":\"k\",\"value\":\"v\",\"valeu\":1}", "unknown field `valeu`"),
        ("{\"key\":{\"base64\":\"!\"},\"value\":\"v\"}", "not base64"),
        ("{\"key\":\"\u{1}\",\"value\":\"v\"}", "control character"),
        ("[1]", "invalid type"),
    ] {
        let reply = node.request(line, &[HOST, JSON], body);
        assert_eq!(reply.0, 400, "{body}");
        let message = problem(&reply).message;
        assert!(message.contains(what), "{body}: {message}");
    }
    let deep = format!("{{\"key\":{}", "[".repeat(100_000));
    assert_eq!(node.request(line, &[HOST, JSON], &deep).0, 400);
    let reply = node.request(line, &[HOST, "content-type: application/json; charset=utf-8"], good);
    assert_eq!(reply.0, 200);
}

#[test]
fn bytes_that_are_no_utf8_are_refused() {
    let node = Node::start();
    let reply = node.request("GET /v1/branches/%FF", &[HOST], "");
    assert_eq!((problem(&reply).kind(), reply.0), (Kind::InvalidArgument, 400));
    let mut socket = std::net::TcpStream::connect(node.addr).unwrap();
    let head = "POST /v1/branches/main/keys/kv/put HTTP/1.1\r\nhost: localhost\r\n\
                connection: close\r\ncontent-type: application/json\r\ncontent-length: 23\r\n\r\n";
    socket.write_all(head.as_bytes()).unwrap();
    socket.write_all(b"{\"key\":\"\xff\",\"value\":\"v\"}").unwrap();
    let mut reply = String::new();
    socket.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 400 "), "{reply}");
}

#[test]
fn queries_are_checked() {
    let node = Node::start();
    for line in [
        "GET /v1/branches/main/streams/s/read?start=x",
        "GET /v1/branches/main/streams/s/read?strat=1",
        "GET /v1/branches/main/streams/s/read?start=-1",
        "GET /v1/branches/main/diff?against=sideways",
        "GET /v1/branches/main/keys/kv/get",
        "GET /v1/branches/main/keys/kv/get?key=a&key_base64=YQ==",
        "GET /v1/branches/main/keys/kv/get?key_base64=!",
        "GET /v1/branches/main/streams/not%20a%20name/read",
    ] {
        let reply = node.request(line, &[HOST], "");
        assert_eq!((problem(&reply).kind(), reply.0), (Kind::InvalidArgument, 400), "{line}");
    }
}

#[test]
fn sizes_are_bounded() {
    let node = Node::start();
    let client = node.client();
    let error = client.append("main", "s", [vec![b'x'; (1 << 20) + 1]]).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::TooLarge, Happened::No));
    client.append("main", "s", [vec![b'x'; 1 << 20]]).unwrap();
    let many: Vec<&str> = vec!["x"; 4097];
    assert_eq!(client.append("main", "s", many).unwrap_err().kind, Kind::TooLarge);
    // The largest append, in the longest form that JSON has for it.
    client.append("main", "s", vec![vec![1u8; 1 << 20]; 4]).unwrap();
    // Beyond the body limit: refused by the client before it is sent, and by the server.
    let error = client.append("main", "s", vec![vec![1u8; 1 << 20]; 6]).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::TooLarge, Happened::No));
    let head = "POST /v1/branches/main/sql HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                content-type: application/json\r\ncontent-length: 33554433\r\n\r\n";
    let reply = node.raw(head);
    assert_eq!((problem(&reply).kind(), reply.0), (Kind::TooLarge, 413));
}

#[test]
fn retries_find_the_first_outcome() {
    let node = Node::start();
    let opened = node.request("POST /v1/sessions", &[HOST, JSON], "{}");
    let session = serde_json::from_str::<serde_json::Value>(&opened.1).unwrap()["session"].clone();
    let body = format!(
        r#"{{"key":"n","delta":5,"by":{{"write":{{"session":{session},"seq":1,"answered":0}}}}}}"#
    );
    for _ in 0..3 {
        let reply = node.request("POST /v1/branches/main/keys/kv/incr", &[HOST, JSON], &body);
        assert_eq!(reply, (200, r#"{"value":5}"#.to_owned()));
    }
}

#[test]
fn other_machines_are_not_served() {
    let node = Node::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let space = node.space.clone();
    let result = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
        serve(space, listener, std::future::pending()).await
    });
    assert!(matches!(result, Err(ServeError::NotLoopback { .. })));
    let bad = Client::new(Options { addr: "example.com".into(), ..Options::default() });
    assert!(bad.is_err());
}
