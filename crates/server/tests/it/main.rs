//! Every route against a real space on disk, through the real client; and the door's own refusals
//! through a bare socket.

mod refusals;
mod routes;
mod tails;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;

use anabranch_client::{Client, Options};
use anabranch_node::Space;
use anabranch_server::{ServeError, serve};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A node of its own, in a directory of its own.
struct Node {
    addr: SocketAddr,
    space: Space,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
    _dir: tempfile::TempDir,
}

impl Node {
    fn start() -> Node {
        let dir = tempfile::tempdir().unwrap();
        let name = Some("shop".into());
        let options = anabranch_node::Options { name, ..anabranch_node::Options::default() };
        let space = Space::open(dir.path(), options).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let addr = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = space.clone();
        let thread = std::thread::spawn(move || {
            runtime.block_on(serve(served, listener, async {
                let _ = stopped.await;
            }))
        });
        Node { addr, space, stop: Some(stop), thread: Some(thread), _dir: dir }
    }

    fn client(&self) -> Client {
        Client::new(Options {
            addr: self.addr.to_string(),
            actor: "tester".into(),
            intent: "try it".into(),
            ..Options::default()
        })
        .unwrap()
    }

    /// Sends raw bytes, closes its side for writing, returns status and body.
    fn raw(&self, request: &str) -> (u16, String) {
        let mut socket = TcpStream::connect(self.addr).unwrap();
        socket.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        socket.read_to_string(&mut reply).unwrap();
        let status = reply.split(' ').nth(1).unwrap().parse().unwrap();
        let body = reply.split_once("\r\n\r\n").unwrap().1.to_owned();
        (status, body)
    }

    /// One request with these headers, on a connection that closes.
    fn request(&self, line: &str, headers: &[&str], body: &str) -> (u16, String) {
        let mut text = format!("{line} HTTP/1.1\r\nconnection: close\r\n");
        for header in headers {
            text.push_str(header);
            text.push_str("\r\n");
        }
        let length = body.len();
        self.raw(&format!("{text}content-length: {length}\r\n\r\n{body}"))
    }

    fn stop(&mut self) -> Result<(), ServeError> {
        drop(self.stop.take());
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}
