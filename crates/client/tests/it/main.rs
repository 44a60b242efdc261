//! The client against a scripted server that loses answers, refuses and hangs up.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_client::{Client, Happened, Kind, Options, Problem, SqlCall};
use serde_json::{Value, json};

/// What the server does with one request.
enum Step {
    /// Answers 200 with this body.
    Reply(Value),
    /// Answers with this problem.
    Refuse(Problem),
    /// Reads the request and hangs up.
    HangUp,
    /// Answers with this text as server-sent events and hangs up.
    Events(&'static str),
}

struct Server {
    addr: String,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
    thread: JoinHandle<()>,
}

/// Serves one request per connection, one step each, then stops listening.
fn serve(steps: Vec<Step>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = requests.clone();
    let thread = std::thread::spawn(move || {
        for step in steps {
            let (mut socket, _) = listener.accept().unwrap();
            seen.lock().unwrap().push(read_request(&socket));
            let (status, kind, body) = match step {
                Step::Reply(body) => (200, "application/json", body.to_string()),
                Step::Refuse(problem) => (
                    problem.status,
                    "application/problem+json",
                    serde_json::to_string(&problem).unwrap(),
                ),
                Step::Events(text) => (200, "text/event-stream", text.to_owned()),
                Step::HangUp => continue,
            };
            let length = body.len();
            write!(
                socket,
                "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\nconnection: close\r\n\
                 content-length: {length}\r\n\r\n{body}"
            )
            .unwrap();
        }
    });
    Server { addr, requests, thread }
}

fn read_request(socket: &TcpStream) -> (String, Value) {
    let mut reader = BufReader::new(socket);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let path = line.split(' ').nth(1).unwrap().to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        if header == "\r\n" {
            break;
        }
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (path, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

impl Server {
    fn client(&self, attempts: u32, sessions: bool) -> Client {
        Client::new(Options {
            addr: self.addr.clone(),
            actor: "tester".into(),
            attempts,
            sessions,
            timeout: Duration::from_secs(5),
            ..Options::default()
        })
        .unwrap()
    }

    /// Waits for the script to end; returns what was asked.
    fn finish(self) -> Vec<(String, Value)> {
        self.thread.join().unwrap();
        Arc::into_inner(self.requests).unwrap().into_inner().unwrap()
    }
}

fn opened(session: u64) -> Step {
    Step::Reply(json!({ "session": session }))
}

fn acknowledged() -> Step {
    Step::Reply(json!({ "session": 7, "seq": 1 }))
}

fn closed() -> Step {
    Step::Reply(json!({ "session": 7 }))
}

#[test]
fn lost_answer_is_asked_for_again_under_the_same_number() {
    let server = serve(vec![opened(7), Step::HangUp, Step::HangUp, acknowledged(), closed()]);
    let client = server.client(5, true);
    client.put("main", "kv", "k", "v").unwrap();
    drop(client);
    let requests = server.finish();
    assert_eq!(requests[1], requests[2]);
    assert_eq!(requests[1], requests[3]);
    assert_eq!(requests[1].0, "/v1/branches/main/keys/kv/put");
    assert_eq!(requests[1].1["by"]["actor"], "tester");
    assert_eq!(requests[1].1["by"]["write"], json!({ "session": 7, "seq": 1, "answered": 0 }));
    assert_eq!(requests[4].0, "/v1/sessions/7/close");
}

#[test]
fn numbers_rise_and_carry_the_mark() {
    let server = serve(vec![opened(7), acknowledged(), acknowledged(), closed()]);
    let client = server.client(5, true);
    client.put("main", "kv", "k", "1").unwrap();
    client.put("main", "kv", "k", "2").unwrap();
    client.close().unwrap();
    let requests = server.finish();
    assert_eq!(requests[2].1["by"]["write"], json!({ "session": 7, "seq": 2, "answered": 1 }));
}

#[test]
fn without_a_session_nothing_is_sent_twice() {
    let server = serve(vec![Step::HangUp]);
    let error = server.client(5, false).put("main", "kv", "k", "v").unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::UnknownOutcome, Happened::Unknown));
    assert_eq!(server.finish().len(), 1);
}

#[test]
fn attempts_are_bounded_and_the_outcome_stays_unknown() {
    let server = serve(vec![opened(7), Step::HangUp, Step::HangUp, Step::HangUp]);
    let client = server.client(3, true);
    let error = client.put("main", "kv", "k", "v").unwrap_err();
    assert_eq!(error.happened, Happened::Unknown);
    assert_eq!(server.finish().len(), 4);
}

#[test]
fn refusal_after_a_lost_answer_does_not_prove_that_it_did_not_happen() {
    let refuse = Step::Refuse(Problem::new(Kind::BranchClosed, Happened::No, "closed"));
    let server = serve(vec![opened(7), Step::HangUp, refuse]);
    let client = server.client(5, true);
    let error = client.put("main", "kv", "k", "v").unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::BranchClosed, Happened::Unknown));
    server.finish();
}

#[test]
fn refusal_at_once_is_final() {
    let refuse = Step::Refuse(Problem::new(Kind::VersionMismatch, Happened::No, "is 4"));
    let server = serve(vec![opened(7), refuse]);
    let client = server.client(5, true);
    let error = client.incr("main", "kv", "k", 1).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::VersionMismatch, Happened::No));
    assert_eq!(error.message, "is 4");
    assert_eq!(server.finish().len(), 2);
}

#[test]
fn expired_session_is_replaced_once_when_nothing_was_lost() {
    let expired =
        || Step::Refuse(Problem::new(Kind::SessionExpired, Happened::Unknown, "session is gone"));
    let server = serve(vec![opened(7), expired(), opened(8), acknowledged(), closed()]);
    let client = server.client(5, true);
    client.put("main", "kv", "k", "v").unwrap();
    drop(client);
    let requests = server.finish();
    assert_eq!(requests[3].1["by"]["write"]["session"], 8);

    let server = serve(vec![opened(7), Step::HangUp, expired()]);
    let client = server.client(5, true);
    let error = client.put("main", "kv", "k", "v").unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::SessionExpired, Happened::Unknown));
    assert_eq!(server.finish().len(), 3);
}

#[test]
fn reads_are_repeated_and_never_unknown() {
    let page = json!({ "records": [], "length": 0, "index": 3 });
    let server = serve(vec![Step::HangUp, Step::Reply(page)]);
    assert_eq!(server.client(2, true).read("main", "s", 0, 10).unwrap().index, 3);
    server.finish();

    let server = serve(vec![Step::HangUp, Step::HangUp]);
    let error = server.client(2, true).sql("main", &SqlCall::query("SELECT 1")).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::Unavailable, Happened::No));
    let requests = server.finish();
    assert_eq!(requests[0].1["read_only"], true);
}

#[test]
fn tail_resumes_where_it_broke_off() {
    let server = serve(vec![
        Step::Events(
            "event: start\ndata: {\"offset\":3}\n\n: quiet\n\n\
             event: record\ndata: {\"offset\":3,\"index\":9,\"value\":\"a\"}\n\nevent: rec",
        ),
        Step::HangUp,
        Step::Events(
            "event: start\ndata: {\"offset\":4}\n\n\
             event: record\ndata: {\"offset\":4,\"index\":10,\"value\":\"b\"}\n\n\
             event: problem\ndata: {\"code\":\"branch_closed\",\"happened\":\"no\",\
             \"message\":\"closed\",\"hint\":\"h\",\"status\":410}\n\n",
        ),
    ]);
    let client = server.client(3, true);
    let items: Vec<_> = client.tail("b/1", "s", None).collect();
    assert_eq!(items[0].as_ref().unwrap().offset, 3);
    assert_eq!(items[1].as_ref().unwrap().value.as_ref(), b"b");
    assert_eq!(items[2].as_ref().unwrap_err().kind, Kind::BranchClosed);
    assert_eq!(items.len(), 3);
    let paths: Vec<_> = server.finish().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths[0], "/v1/branches/b%2F1/streams/s/tail");
    assert_eq!(paths[2], "/v1/branches/b%2F1/streams/s/tail?start=4");
}

#[test]
fn foreign_server_is_told_apart() {
    let server = serve(vec![Step::Reply(json!({ "hello": 1 }))]);
    let error = server.client(1, false).status().unwrap_err();
    assert!(error.message.contains("was not understood"), "{}", error.message);
    server.finish();
}
