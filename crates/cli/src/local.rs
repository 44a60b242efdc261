//! A node in this process, on a private loopback socket.

use std::net::SocketAddr;
use std::path::Path;
use std::thread::JoinHandle;

use anabranch_log::Kind;
use anabranch_node::{Options, Space};
use anabranch_server::ServeError;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::failure::{Failure, Outcome};

/// A space that this process has open and serves to itself until dropped.
pub(crate) struct LocalNode {
    addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

impl LocalNode {
    /// Opens the space of a directory and serves it on a port that the system chooses.
    pub(crate) fn start(dir: &Path) -> Outcome<LocalNode> {
        let options = Options { create: false, ..Options::default() };
        let space = open(dir, options)?;
        let runtime = runtime(1)?;
        let listener = listen(&runtime, SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let addr = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = move || {
            runtime.block_on(anabranch_server::serve(space, listener, async {
                // An error means that the other end is gone, which is a stop too.
                let _ = stopped.await;
            }))
        };
        let thread = std::thread::Builder::new().name("node".to_owned()).spawn(serve)?;
        Ok(LocalNode { addr, stop: Some(stop), thread: Some(thread) })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for LocalNode {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Opens a space; says what to do if there is none.
pub(crate) fn open(dir: &Path, options: Options) -> Outcome<Space> {
    let create = options.create;
    if !create && !dir.is_dir() {
        let message = format!("no space in {}: no such directory", dir.display());
        return Err(Failure::usage(message, "make one with `anabranch dev --dir DIR`"));
    }
    Space::open(dir, options).map_err(Failure::from)
}

/// A runtime for a node.
pub(crate) fn runtime(threads: usize) -> Outcome<Runtime> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    Ok(runtime)
}

/// Binds a socket.
pub(crate) fn listen(runtime: &Runtime, addr: SocketAddr) -> Outcome<TcpListener> {
    anabranch_server::check_loopback(addr)
        .map_err(|error| Failure::usage(error.to_string(), "listen on 127.0.0.1 or [::1]"))?;
    runtime.block_on(TcpListener::bind(addr)).map_err(|error| {
        Failure::local(Kind::Unavailable, format!("cannot listen on {addr}: {error}"))
            .hinting("stop what uses the port, or choose another with --listen")
    })
}
