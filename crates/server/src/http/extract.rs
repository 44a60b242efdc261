//! Bodies, queries and path segments, with refusals as problems.

use std::time::Duration;

use anabranch_api::{Problem, REQUEST_BYTES};
use anabranch_log::{Happened, Kind};
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;

use super::failure::Failure;

/// How long a body may take to arrive.
const PATIENCE: Duration = Duration::from_mins(1);

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        if !is_json(request.headers()) {
            let problem =
                Problem::invalid("the body must be sent as `content-type: application/json`");
            return Err(problem.with_status(415).into());
        }
        let announced = request.headers().get(header::CONTENT_LENGTH);
        let announced = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|length| length > REQUEST_BYTES) {
            return Err(too_large().into());
        }
        let arrived = tokio::time::timeout(PATIENCE, Bytes::from_request(request, state));
        let Ok(arrived) = arrived.await else {
            let message = format!("the body did not arrive within {PATIENCE:?}");
            return Err(Problem::new(Kind::Timeout, Happened::No, message).with_status(408).into());
        };
        let bytes = arrived.map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => too_large(),
            _ => Problem::invalid(format!("the body did not arrive: {}", rejection.body_text())),
        })?;
        match serde_json::from_slice(&bytes) {
            Ok(value) => Ok(Body(value)),
            Err(error) => Err(Problem::invalid(format!("body: {error}")).into()),
        }
    }
}

fn too_large() -> Problem {
    let message = format!("the body is larger than {REQUEST_BYTES} bytes");
    Problem::new(Kind::TooLarge, Happened::No, message)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

/// A query string.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match axum::extract::Query::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(value)) => Ok(Query(value)),
            Err(rejection) => {
                Err(Problem::invalid(format!("query: {}", rejection.body_text())).into())
            }
        }
    }
}

/// Path segments, decoded.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(value)) => Ok(Path(value)),
            Err(rejection) => {
                Err(Problem::invalid(format!("path: {}", rejection.body_text())).into())
            }
        }
    }
}
