//! Tail: a stream's records as server-sent events, for as long as the caller listens.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch_api::Problem;
use anabranch_api::http::{TailQuery, TailStart};
use anabranch_log::{Happened, Kind};
use anabranch_node::Space;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive, KeepAliveStream};
use futures_core::Stream;
use serde::Serialize;
use tokio::sync::{mpsc, watch};

use super::extract::{Path, Query};
use super::failure::Failure;
use super::{App, convert, stream};

/// A comment is sent when nothing else was for this long.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// How often a waiting tail looks whether it should end.
const WAIT: Duration = Duration::from_millis(250);
/// Events between the reader and the socket; a slow caller holds the reader back.
const BUFFER: usize = 16;
const PAGE: usize = 64;

pub(crate) async fn tail(
    State(app): State<App>,
    Path((branch, name)): Path<(String, String)>,
    Query(query): Query<TailQuery>,
    headers: HeaderMap,
) -> Result<Sse<KeepAliveStream<Events>>, Failure> {
    let permit = app.tails.clone().try_acquire_owned().map_err(|_| {
        Problem::new(Kind::TooMany, Happened::No, format!("{} tails are open", super::TAILS))
    })?;
    // A browser that reconnects says which event it saw last.
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse::<u64>().ok());
    let start = seen.map(|seen| seen.saturating_add(1)).or(query.start);
    // The first look is part of the answer: an unknown branch is refused, not an empty stream.
    let (looked_branch, looked_name) = (branch.clone(), name.clone());
    let length =
        app.call(move |space| Ok(space.read(&looked_branch, &looked_name, 0, 0)?.length)).await?;
    let offset = start.unwrap_or(length);
    let (sender, receiver) = mpsc::channel(BUFFER);
    let reader = Reader { space: app.space, branch, name, offset, sender, stopped: app.stopped };
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        reader.run();
    });
    Ok(Sse::new(Events(receiver)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

struct Reader {
    space: Space,
    branch: String,
    name: String,
    offset: u64,
    sender: mpsc::Sender<Event>,
    stopped: watch::Receiver<bool>,
}

impl Reader {
    fn run(mut self) {
        if !self.send("start", None, &TailStart { offset: self.offset }) {
            return;
        }
        loop {
            match self.step() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    self.send("problem", None, &Failure::from(error).0);
                    return;
                }
            }
        }
    }

    /// Sends what there is, or waits a moment; false when nobody listens or the server stops.
    fn step(&mut self) -> anabranch_node::Result<bool> {
        if *self.stopped.borrow() || self.sender.is_closed() {
            return Ok(false);
        }
        let page = stream::page(&self.space, &self.branch, &self.name, (self.offset, PAGE))?;
        if page.records.is_empty() {
            self.space.wait(&self.branch, &self.name, self.offset, WAIT)?;
            return Ok(true);
        }
        for record in page.records {
            self.offset = record.offset + 1;
            if !self.send("record", Some(record.offset), &convert::record(record)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn send(&self, name: &str, id: Option<u64>, data: &impl Serialize) -> bool {
        let event = Event::default().event(name);
        let event = id.map_or(event.clone(), |id| event.id(id.to_string()));
        match event.json_data(data) {
            Ok(event) => self.sender.blocking_send(event).is_ok(),
            Err(_) => false,
        }
    }
}

/// The caller's end: events as they come.
pub(crate) struct Events(mpsc::Receiver<Event>);

impl Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|event| event.map(Ok))
    }
}
