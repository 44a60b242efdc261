//! Status, history, sessions, checkpoint.

use anabranch_api::PAGE_ITEMS;
use anabranch_api::http::{
    Bare, Done, Health, History, HistoryQuery, SessionClosed, SessionOpened, Status,
};
use axum::Json;
use axum::extract::State;

use super::extract::{Body, Path, Query};
use super::failure::Failure;
use super::{App, convert};

pub(crate) async fn healthz() -> Json<Health> {
    Json(Health { status: "ok".to_owned() })
}

pub(crate) async fn status(State(app): State<App>) -> Result<Json<Status>, Failure> {
    let status = app.call(|space| Ok(space.status())).await?;
    Ok(Json(convert::status(status)))
}

pub(crate) async fn checkpoint(
    State(app): State<App>,
    Body(request): Body<Bare>,
) -> Result<Json<Done>, Failure> {
    let by = convert::origin(request.by);
    let index = app.call(move |space| space.checkpoint(&by)).await?;
    Ok(Json(Done { index }))
}

pub(crate) async fn open_session(
    State(app): State<App>,
    Body(request): Body<Bare>,
) -> Result<Json<SessionOpened>, Failure> {
    let by = convert::origin(request.by);
    let session = app.call(move |space| space.open_session(&by)).await?;
    Ok(Json(SessionOpened { session }))
}

pub(crate) async fn close_session(
    State(app): State<App>,
    Path(session): Path<u64>,
    Body(request): Body<Bare>,
) -> Result<Json<SessionClosed>, Failure> {
    let by = convert::origin(request.by);
    app.call(move |space| space.close_session(session, &by)).await?;
    Ok(Json(SessionClosed { session }))
}

pub(crate) async fn history(
    State(app): State<App>,
    Query(query): Query<HistoryQuery>,
) -> Result<Json<History>, Failure> {
    let limit = query.limit.unwrap_or(PAGE_ITEMS).min(PAGE_ITEMS);
    let call = move |space: &anabranch_node::Space| {
        space.history(query.branch.as_deref(), query.before, limit)
    };
    let entries = app.call(call).await?;
    Ok(Json(History { entries: entries.into_iter().map(convert::history_entry).collect() }))
}
