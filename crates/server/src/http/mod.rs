//! Routes of `/v1` and what all of them share.

mod branch;
mod convert;
mod extract;
mod failure;
mod guard;
mod key;
mod node;
mod sql;
mod stream;
mod tail;

use std::sync::Arc;

use anabranch_api::REQUEST_BYTES;
use anabranch_log::{Happened, Kind};
use anabranch_node::Space;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, Uri};
use axum::routing::{get, post};
use tokio::sync::{Semaphore, watch};

use anabranch_api::Problem;
use failure::Failure;

/// Calls that run at the same time; more wait.
const CALLS: usize = 256;
/// Tails that are open at the same time; each holds a thread. More are refused.
const TAILS: usize = 128;

/// What every handler needs.
#[derive(Clone)]
pub(crate) struct App {
    space: Space,
    stopped: watch::Receiver<bool>,
    calls: Arc<Semaphore>,
    tails: Arc<Semaphore>,
}

pub(crate) fn router(space: Space, stopped: watch::Receiver<bool>) -> Router {
    let app = App {
        space,
        stopped,
        calls: Arc::new(Semaphore::new(CALLS)),
        tails: Arc::new(Semaphore::new(TAILS)),
    };
    let branch = Router::new()
        .route("/", get(branch::one))
        .route("/diff", get(branch::diff))
        .route("/preview", post(branch::preview))
        .route("/promote", post(branch::promote))
        .route("/discard", post(branch::discard))
        .route("/sql", post(sql::run))
        .route("/tables", get(sql::tables))
        .route("/checks", get(sql::checks).post(sql::add_check))
        .route("/checks/run", post(sql::run_checks))
        .route("/checks/{name}/drop", post(sql::drop_check))
        .route("/streams", get(stream::list))
        .route("/streams/{stream}/append", post(stream::append))
        .route("/streams/{stream}/read", get(stream::read))
        .route("/streams/{stream}/tail", get(tail::tail))
        .route("/keys/{stream}/put", post(key::put))
        .route("/keys/{stream}/delete", post(key::delete))
        .route("/keys/{stream}/cas", post(key::cas))
        .route("/keys/{stream}/incr", post(key::incr))
        .route("/keys/{stream}/get", get(key::get))
        .route("/keys/{stream}/scan", get(key::scan));
    Router::new()
        .route("/healthz", get(node::healthz))
        .route("/v1/status", get(node::status))
        .route("/v1/checkpoint", post(node::checkpoint))
        .route("/v1/sessions", post(node::open_session))
        .route("/v1/sessions/{session}/close", post(node::close_session))
        .route("/v1/history", get(node::history))
        .route("/v1/branches", get(branch::list).post(branch::fork))
        .nest("/v1/branches/{branch}", branch)
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(DefaultBodyLimit::max(REQUEST_BYTES))
        .layer(axum::middleware::from_fn(guard::guard))
        .with_state(app)
}

impl App {
    /// Runs one call of the space on a thread that may block, when there is room for it.
    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Space) -> anabranch_node::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let space = self.space.clone();
        let permit = self.calls.clone().acquire_owned().await.map_err(|_| broken())?;
        // A caller that hangs up does not stop the call: it ends, and its outcome is kept.
        let result = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            call(&space)
        });
        Ok(result.await.map_err(|_| broken())??)
    }
}

fn broken() -> Failure {
    Failure(Problem::new(Kind::Internal, Happened::Unknown, "the call ended without a result"))
}

async fn no_route(method: Method, uri: Uri) -> Failure {
    let message = format!("no route {method} {}", uri.path());
    Failure(Problem::invalid(message).with_status(404).with_hint("docs/http.md lists all routes"))
}

async fn no_method(method: Method, uri: Uri) -> Failure {
    let message = format!("{method} is not for {}", uri.path());
    Failure(Problem::invalid(message).with_status(405).with_hint("reads are GET, writes are POST"))
}
