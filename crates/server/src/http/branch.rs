//! Fork, list, diff, preview, promote, discard.

use anabranch_api::http::{
    Bare, BranchInfo, BranchList, Diff, DiffQuery, Done, ForkRequest, Forked, Preview,
    PreviewRequest, PromoteRequest, Promoted,
};
use anabranch_api::{DIFF_ROWS, PAGE_ROWS};
use axum::Json;
use axum::extract::State;

use super::extract::{Body, Path, Query};
use super::failure::Failure;
use super::{App, convert};

fn rows(limit: Option<usize>) -> usize {
    limit.unwrap_or(DIFF_ROWS).min(PAGE_ROWS)
}

pub(crate) async fn list(State(app): State<App>) -> Result<Json<BranchList>, Failure> {
    let branches = app.call(anabranch_node::Space::branches).await?;
    Ok(Json(BranchList { branches: branches.into_iter().map(convert::branch_info).collect() }))
}

pub(crate) async fn one(
    State(app): State<App>,
    Path(branch): Path<String>,
) -> Result<Json<BranchInfo>, Failure> {
    let info = app.call(move |space| space.branch(&branch)).await?;
    Ok(Json(convert::branch_info(info)))
}

pub(crate) async fn fork(
    State(app): State<App>,
    Body(request): Body<ForkRequest>,
) -> Result<Json<Forked>, Failure> {
    let (request, by) = convert::to_fork_request(request);
    let forked = app.call(move |space| space.fork(&request, &by)).await?;
    Ok(Json(Forked { id: forked.id, index: forked.index }))
}

pub(crate) async fn diff(
    State(app): State<App>,
    Path(branch): Path<String>,
    Query(query): Query<DiffQuery>,
) -> Result<Json<Diff>, Failure> {
    let against = convert::to_against(query.against.unwrap_or_default());
    let limit = rows(query.limit);
    let diff = app.call(move |space| space.diff(&branch, against, limit)).await?;
    Ok(Json(convert::diff(diff)))
}

pub(crate) async fn preview(
    State(app): State<App>,
    Path(branch): Path<String>,
    Body(request): Body<PreviewRequest>,
) -> Result<Json<Preview>, Failure> {
    let limit = rows(request.limit);
    let options = convert::to_promote_options(request.options);
    let preview = app.call(move |space| space.preview(&branch, &options, limit)).await?;
    Ok(Json(convert::preview(preview)))
}

pub(crate) async fn promote(
    State(app): State<App>,
    Path(branch): Path<String>,
    Body(request): Body<PromoteRequest>,
) -> Result<Json<Promoted>, Failure> {
    let options = convert::to_promote_options(request.options);
    let by = convert::origin(request.by);
    let promoted = app.call(move |space| space.promote(&branch, &options, &by)).await?;
    Ok(Json(convert::promoted(promoted)))
}

pub(crate) async fn discard(
    State(app): State<App>,
    Path(branch): Path<String>,
    Body(request): Body<Bare>,
) -> Result<Json<Done>, Failure> {
    let by = convert::origin(request.by);
    let index = app.call(move |space| space.discard(&branch, &by)).await?;
    Ok(Json(Done { index }))
}
