//! Every refusal becomes a [`Problem`].

use anabranch_api::{PROBLEM_JSON, Problem};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::convert;

/// A problem as a response.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) Problem);

impl From<anabranch_node::Error> for Failure {
    fn from(error: anabranch_node::Error) -> Failure {
        let mut message = error.message.clone();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            let text = cause.to_string();
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            source = cause.source();
        }
        let preview = error.preview.map(|preview| Box::new(convert::preview(*preview)));
        Failure(Problem { preview, ..Problem::new(error.kind, error.happened, message) })
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        Failure(problem)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::BAD_REQUEST);
        if status.is_server_error() {
            tracing::warn!(code = self.0.code, message = self.0.message, "call failed");
        }
        // Strings and a number: this cannot fail.
        let body = serde_json::to_vec(&self.0).unwrap_or_default();
        (status, [(header::CONTENT_TYPE, PROBLEM_JSON)], body).into_response()
    }
}
