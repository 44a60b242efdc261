//! Append, read and list streams.

use anabranch_api::http::{
    AppendReply, AppendRequest, Position, ReadQuery, StreamList, StreamPage,
};
use anabranch_api::{PAGE_ITEMS, REPLY_BYTES};
use anabranch_node::{Space, StreamRecord};
use axum::Json;
use axum::extract::State;

use super::extract::{Body, Path, Query};
use super::failure::Failure;
use super::{App, convert};

/// Records fetched at once, first and at most: with records of 1 MiB a read holds no more than
/// 64 MiB, of which [`REPLY_BYTES`] are sent.
const STEP_FIRST: usize = 4;
const STEP_MAX: usize = 64;

pub(crate) async fn append(
    State(app): State<App>,
    Path((branch, stream)): Path<(String, String)>,
    Body(request): Body<AppendRequest>,
) -> Result<Json<AppendReply>, Failure> {
    let by = convert::origin(request.by);
    let count = request.records.len() as u64;
    let records: Vec<Vec<u8>> = request.records.into_iter().map(Into::into).collect();
    if !request.position && request.expected.is_none() {
        let call = move |space: &Space| space.append(&branch, &stream, records, &by);
        let acknowledged = Some(convert::acknowledged(app.call(call).await?));
        return Ok(Json(AppendReply { count, acknowledged, position: None }));
    }
    let expected = request.expected;
    let call = move |space: &Space| space.append_at(&branch, &stream, records, expected, &by);
    let appended = app.call(call).await?;
    let position = Some(Position { index: appended.index, offset: appended.offset });
    Ok(Json(AppendReply { count: appended.count, acknowledged: None, position }))
}

pub(crate) async fn read(
    State(app): State<App>,
    Path((branch, stream)): Path<(String, String)>,
    Query(query): Query<ReadQuery>,
) -> Result<Json<StreamPage>, Failure> {
    let start = query.start.unwrap_or(0);
    let limit = query.limit.unwrap_or(PAGE_ITEMS).min(PAGE_ITEMS);
    let page = app.call(move |space| page(space, &branch, &stream, (start, limit))).await?;
    Ok(Json(StreamPage {
        records: page.records.into_iter().map(convert::record).collect(),
        length: page.length,
        index: page.index,
    }))
}

/// Reads up to `limit` records and about [`REPLY_BYTES`] bytes from `start` on.
pub(crate) fn page(
    space: &Space,
    branch: &str,
    stream: &str,
    (start, limit): (u64, usize),
) -> anabranch_node::Result<anabranch_node::StreamPage> {
    let mut records: Vec<StreamRecord> = Vec::new();
    let mut bytes = 0;
    let mut step = STEP_FIRST;
    loop {
        let ask = step.min(limit - records.len());
        let from = start.saturating_add(records.len() as u64);
        let part = space.read(branch, stream, from, ask)?;
        let fetched = part.records.len();
        for record in part.records {
            bytes += record.value.len();
            // At least one, however large.
            if bytes > REPLY_BYTES && !records.is_empty() {
                break;
            }
            records.push(record);
        }
        if fetched < ask || records.len() >= limit || bytes >= REPLY_BYTES {
            return Ok(anabranch_node::StreamPage {
                records,
                length: part.length,
                index: part.index,
            });
        }
        step = (step * 2).min(STEP_MAX);
    }
}

pub(crate) async fn list(
    State(app): State<App>,
    Path(branch): Path<String>,
) -> Result<Json<StreamList>, Failure> {
    let streams = app.call(move |space| space.streams(&branch)).await?;
    Ok(Json(StreamList { streams: streams.into_iter().map(convert::stream_info).collect() }))
}
