//! Front doors of a node: today HTTP with JSON and server-sent events.
//!
//! The door decides nothing about storage or order: each request becomes one call of
//! [`anabranch_node::Space`], on a thread that may block, and its result becomes JSON. What it
//! promises itself:
//!
//! * It listens on loopback addresses only, because there are no tokens yet, and answers only
//!   requests addressed to a loopback name, so that no web page reaches it by DNS rebinding.
//! * A write is read from JSON only when the content type says so: no plain HTML form can send one.
//! * Every refusal, also of an unknown route or a malformed body, is an
//!   [`anabranch_api::Problem`] that says whether the operation happened.
//! * Requests, replies, concurrent calls and open tails are bounded.
//! * On shutdown tails end, and calls that were begun are answered, for at most [`GRACE`].

mod http;

use std::future::{Future, IntoFuture};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use std::{error, fmt};

use anabranch_node::Space;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// How long calls in progress may take to end after a shutdown began.
pub const GRACE: Duration = Duration::from_secs(10);

/// Why a node does not serve.
#[derive(Debug)]
pub enum ServeError {
    /// The address can be reached from other machines, and there is no protection yet.
    NotLoopback {
        /// The address.
        addr: SocketAddr,
    },
    /// The socket failed.
    Io(io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::NotLoopback { addr } => write!(
                f,
                "{addr} is no loopback address: without access tokens a node serves only its own \
                 machine"
            ),
            ServeError::Io(_) => f.write_str("the socket failed"),
        }
    }
}

impl error::Error for ServeError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            ServeError::NotLoopback { .. } => None,
            ServeError::Io(error) => Some(error),
        }
    }
}

/// Refuses an address that other machines can reach.
pub fn check_loopback(addr: SocketAddr) -> Result<(), ServeError> {
    if addr.ip().is_loopback() { Ok(()) } else { Err(ServeError::NotLoopback { addr }) }
}

/// Serves a space over HTTP until `shutdown` completes.
///
/// Returns when every call that was begun is answered, at the latest [`GRACE`] after `shutdown`.
/// The caller keeps its own handle of the space; the door holds one until it returns.
pub async fn serve(
    space: Space,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    check_loopback(listener.local_addr().map_err(ServeError::Io)?)?;
    let (stop, stopped) = watch::channel(false);
    let router = http::router(space, stopped.clone());
    // Small replies must not wait for the acknowledgement of the ones before.
    let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
    let server = axum::serve(listener, router)
        .with_graceful_shutdown(async move {
            shutdown.await;
            stop.send_replace(true);
        })
        .into_future();
    let mut stopped = stopped;
    let overdue = async move {
        // The sender lives in the server's future, so an error means that it is gone.
        let _ = stopped.wait_for(|stopped| *stopped).await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        result = server => result.map_err(ServeError::Io),
        () = overdue => {
            tracing::warn!("calls did not end within {GRACE:?} of the shutdown");
            Ok(())
        }
    }
}
