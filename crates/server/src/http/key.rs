//! Put, delete, cas, incr, get, scan.

use anabranch_api::http::{
    Acknowledged, CasRequest, DeleteRequest, Done, GetQuery, GetReply, IncrRequest, Number,
    PutRequest, ScanQuery, ScanReply,
};
use anabranch_api::{PAGE_ITEMS, Problem, REPLY_BYTES, base64};
use anabranch_node::{KeyValue, Space};
use axum::Json;
use axum::extract::State;

use super::extract::{Body, Path, Query};
use super::failure::Failure;
use super::{App, convert};

/// Keys fetched at once: with values of 1 MiB a scan holds no more than 64 MiB.
const STEP: usize = 64;

type OnKeys = Path<(String, String)>;

pub(crate) async fn put(
    State(app): State<App>,
    Path((branch, stream)): OnKeys,
    Body(request): Body<PutRequest>,
) -> Result<Json<Acknowledged>, Failure> {
    let by = convert::origin(request.by);
    let (key, value) = (request.key, request.value);
    let call = move |space: &Space| space.put(&branch, &stream, key.as_ref(), value.as_ref(), &by);
    Ok(Json(convert::acknowledged(app.call(call).await?)))
}

pub(crate) async fn delete(
    State(app): State<App>,
    Path((branch, stream)): OnKeys,
    Body(request): Body<DeleteRequest>,
) -> Result<Json<Acknowledged>, Failure> {
    let by = convert::origin(request.by);
    let key = request.key;
    let call = move |space: &Space| space.delete(&branch, &stream, key.as_ref(), &by);
    Ok(Json(convert::acknowledged(app.call(call).await?)))
}

pub(crate) async fn cas(
    State(app): State<App>,
    Path((branch, stream)): OnKeys,
    Body(request): Body<CasRequest>,
) -> Result<Json<Done>, Failure> {
    let by = convert::origin(request.by);
    let (key, value, expected) = (request.key, request.value, request.expected);
    let call = move |space: &Space| {
        let value = value.as_ref().map(AsRef::as_ref);
        space.cas(&branch, &stream, key.as_ref(), expected, value, &by)
    };
    Ok(Json(Done { index: app.call(call).await? }))
}

pub(crate) async fn incr(
    State(app): State<App>,
    Path((branch, stream)): OnKeys,
    Body(request): Body<IncrRequest>,
) -> Result<Json<Number>, Failure> {
    let by = convert::origin(request.by);
    let (key, delta) = (request.key, request.delta);
    let call = move |space: &Space| space.incr(&branch, &stream, key.as_ref(), delta, &by);
    Ok(Json(Number { value: app.call(call).await? }))
}

pub(crate) async fn get(
    State(app): State<App>,
    Path((branch, stream)): OnKeys,
    Query(query): Query<GetQuery>,
) -> Result<Json<GetReply>, Failure> {
    let key = either("key", query.key, query.key_base64)?
        .ok_or_else(|| Problem::invalid("query: `key` or `key_base64` is missing"))?;
    let found = app.call(move |space| space.get(&branch, &stream, &key)).await?;
    Ok(Json(GetReply { found: found.map(convert::key_value) }))
}

pub(crate) async fn scan(
    State(app): State<App>,
    Path((branch, stream)): OnKeys,
    Query(query): Query<ScanQuery>,
) -> Result<Json<ScanReply>, Failure> {
    let prefix = either("prefix", query.prefix, query.prefix_base64)?.unwrap_or_default();
    let after = either("after", query.after, query.after_base64)?;
    let limit = query.limit.unwrap_or(PAGE_ITEMS).min(PAGE_ITEMS);
    let call = move |space: &Space| page(space, &branch, &stream, (prefix, after, limit));
    let (keys, more) = app.call(call).await?;
    Ok(Json(ScanReply { keys: keys.into_iter().map(convert::key_value).collect(), more }))
}

/// Scans up to `limit` keys and about [`REPLY_BYTES`] bytes; also says whether there may be more.
fn page(
    space: &Space,
    branch: &str,
    stream: &str,
    (prefix, mut after, limit): (Vec<u8>, Option<Vec<u8>>, usize),
) -> anabranch_node::Result<(Vec<KeyValue>, bool)> {
    let mut keys: Vec<KeyValue> = Vec::new();
    let mut bytes = 0;
    loop {
        let ask = STEP.min(limit - keys.len());
        let part = space.scan(branch, stream, &prefix, after.as_deref(), ask)?;
        let fetched = part.len();
        for found in part {
            bytes += found.key.len() + found.value.len();
            // At least one, however large.
            if bytes > REPLY_BYTES && !keys.is_empty() {
                return Ok((keys, true));
            }
            keys.push(found);
        }
        if fetched < ask {
            return Ok((keys, false));
        }
        if keys.len() >= limit {
            return Ok((keys, true));
        }
        after = keys.last().map(|last| last.key.clone());
    }
}

fn either(
    name: &str,
    text: Option<String>,
    coded: Option<String>,
) -> Result<Option<Vec<u8>>, Problem> {
    match (text, coded) {
        (Some(_), Some(_)) => Err(Problem::invalid(format!("query: `{name}` is given twice"))),
        (Some(text), None) => Ok(Some(text.into_bytes())),
        (None, Some(coded)) => match base64::decode(&coded) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => Err(Problem::invalid(format!("query: `{name}_base64`: {error}"))),
        },
        (None, None) => Ok(None),
    }
}
