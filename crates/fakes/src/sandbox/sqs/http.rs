//! The HTTP interface: one endpoint for all calls, and the statistics.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};

use crate::sandbox::server::with_request_id;
use crate::sandbox::sqs::error::SqsError;
use crate::sandbox::sqs::service::{Service, SqsStats};
use crate::sandbox::stop::Stop;

/// A batch of 1 MiB whose every byte is written as six (`\u0001`), and more.
const MOST_BYTES: usize = 8 << 20;
const TARGET: &str = "x-amz-target";
const PREFIX: &str = "AmazonSQS.";
const JSON: HeaderValue = HeaderValue::from_static("application/x-amz-json-1.0");
/// The error's code in the older protocol: what some SDKs show.
const QUERY_ERROR: HeaderName = HeaderName::from_static("x-amzn-query-error");

/// State that all requests and the handle share.
pub struct SqsState {
    pub(super) service: Service,
    pub(super) stop: Stop,
}

pub(super) fn router(state: Arc<SqsState>) -> Router {
    Router::new()
        .route("/_sandbox/stats", get(stats))
        // SDKs call the endpoint itself or the queue's URL.
        .fallback(post(call))
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .with_state(state)
}

async fn stats(State(state): State<Arc<SqsState>>) -> Json<SqsStats> {
    Json(state.service.stats().await)
}

async fn call(State(state): State<Arc<SqsState>>, headers: HeaderMap, body: Bytes) -> Response {
    let target = headers.get(TARGET).and_then(|target| target.to_str().ok());
    let operation = target.and_then(|target| target.strip_prefix(PREFIX)).unwrap_or_default();
    // A long poll gives way when the sandbox stops; what it would have received is not lost.
    let answer = tokio::select! {
        biased;
        answer = state.service.call(operation, &body) => answer,
        () = state.stop.asked() => Err(SqsError::new("ServiceUnavailable", "the sandbox stops")),
    };
    let mut response = match answer {
        Ok(body) => body.into_response(),
        Err(error) => refusal(operation, &error),
    };
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    with_request_id(response)
}

fn refusal(operation: &str, error: &SqsError) -> Response {
    tracing::info!(operation, code = error.code, reason = error.message, "refused");
    let body = serde_json::json!({
        "__type": format!("com.amazonaws.sqs#{}", error.shape()),
        "message": error.message,
    });
    let mut response = (StatusCode::BAD_REQUEST, body.to_string()).into_response();
    if let Ok(code) = HeaderValue::from_str(&format!("{};Sender", error.code)) {
        response.headers_mut().insert(QUERY_ERROR, code);
    }
    response
}
