//! An Amazon SQS endpoint in memory, for benchmarks and tests: it answers in a fraction of a
//! millisecond however deep its queues are, so that a benchmark does not measure the fake.
//!
//! It speaks SQS's JSON protocol as the SDKs do, over [`MemoryQueues`](crate::MemoryQueues): visibility,
//! groups, deduplication, delays, long polls and limits are theirs. Point an SDK at it with
//! `AWS_ENDPOINT_URL_SQS=http://127.0.0.1:4580`; signatures are not checked.
//!
//! The last segment of a URL names the queue, whatever comes before it; a queue is FIFO if its name ends
//! in `.fifo` (deduplicated by group). With [`SqsSandboxConfig::create`] it is made when it is first
//! used: so a stack that was deployed elsewhere can be pointed here, queue URLs and all.
//!
//! | call | what differs from SQS |
//! |---|---|
//! | `SendMessage`, `SendMessageBatch` | attributes are of type `String` only; no content-based deduplication |
//! | `ReceiveMessage` | short polls find what is there, unless [`QueueSettings`] says otherwise; gives the system attributes `SentTimestamp` and `ApproximateReceiveCount`; `ReceiveRequestAttemptId` is ignored |
//! | `DeleteMessage`, `DeleteMessageBatch` | |
//! | `ChangeMessageVisibility`, `ChangeMessageVisibilityBatch` | |
//! | `GetQueueAttributes` | exact numbers of messages, unless [`QueueSettings`] lets them lag, timeout, size, ARN and kind |
//! | `GetQueueUrl` | |
//! | `CreateQueue` | heeds `VisibilityTimeout` and `MaximumMessageSize`; an existing queue stays as it is, but for its tags |
//! | `DeleteQueue` | at once; its name may be used again |
//! | `ListQueues`, `ListQueueTags`, `TagQueue`, `UntagQueue` | |
//!
//! `GET /_sandbox/stats` counts the calls by operation and tells how deep each queue is; see
//! [`SqsStats`].
//!
//! ```
//! use tidegate_fakes::sandbox::sqs::{SqsSandbox, SqsSandboxConfig};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let config = SqsSandboxConfig { create: true, ..SqsSandboxConfig::default() };
//! let sandbox = SqsSandbox::start(config, "127.0.0.1:0".parse()?).await?;
//! println!("AWS_ENDPOINT_URL_SQS={}", sandbox.url());
//! assert!(sandbox.stats().await.queues.is_empty());
//! sandbox.shutdown().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod service;
mod wire;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Serialize;
use tidegate_delivery::ports::{EntryError, QueueDepth};

use crate::QueueSettings;
use crate::sandbox::listener::Listener;
use crate::sandbox::server::{ListenError, Sandbox, steady_clock, with_request_id};

pub use service::SqsState;

/// A batch of 1 MiB whose every byte is written as six (`\u0001`), and more.
const MOST_BYTES: usize = 8 << 20;
const TARGET: &str = "x-amz-target";
const PREFIX: &str = "AmazonSQS.";
const JSON: HeaderValue = HeaderValue::from_static("application/x-amz-json-1.0");
/// The error's code in the older protocol: what some SDKs show.
const QUERY_ERROR: HeaderName = HeaderName::from_static("x-amzn-query-error");

/// Settings of the sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SqsSandboxConfig {
    /// Whether a queue is created at its first use; otherwise such a call is refused, as SQS does.
    pub create: bool,
    /// Settings of new queues.
    pub queues: QueueSettings,
}

/// Counters of calls, and the depth of each queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SqsStats {
    /// Calls by operation, refused and unknown ones too.
    pub calls: BTreeMap<String, u64>,
    /// Number of messages on each queue, by name; exact where SQS's are approximate.
    pub queues: BTreeMap<String, QueueDepth>,
}

/// The SQS endpoint.
pub type SqsSandbox = Sandbox<SqsState>;

impl Sandbox<SqsState> {
    /// Binds `addr` (port 0 takes a free one) and serves from the current tokio runtime until
    /// [`Sandbox::shutdown`], or until the handle is dropped.
    ///
    /// # Errors
    /// [`ListenError`] where the address cannot be bound.
    pub async fn start(config: SqsSandboxConfig, addr: SocketAddr) -> Result<Self, ListenError> {
        Ok(Self::start_on(config, Self::bind(addr).await?))
    }

    /// Like [`Sandbox::start`], on a listener of the caller's.
    pub fn start_on(config: SqsSandboxConfig, listener: Listener) -> Self {
        let now_ns = steady_clock()();
        Self::serve(listener, |url, stop| SqsState::new(config, url, now_ns, stop), router)
    }

    /// Counters of calls, and the depth of each queue.
    pub async fn stats(&self) -> SqsStats {
        self.state.stats().await
    }
}

fn router(state: Arc<SqsState>) -> Router {
    Router::new()
        .route("/_sandbox/stats", get(stats))
        // SDKs call the endpoint itself or the queue's URL.
        .fallback(post(call))
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .with_state(state)
}

async fn stats(State(state): State<Arc<SqsState>>) -> Json<SqsStats> {
    Json(state.stats().await)
}

async fn call(State(state): State<Arc<SqsState>>, headers: HeaderMap, body: Bytes) -> Response {
    let target = headers.get(TARGET).and_then(|target| target.to_str().ok());
    let operation = target.and_then(|target| target.strip_prefix(PREFIX)).unwrap_or_default();
    // A long poll gives way when the sandbox stops; what it would have received is not lost.
    let answer = tokio::select! {
        biased;
        answer = state.call(operation, &body) => answer,
        () = state.stop.asked() => Err(service::refused("ServiceUnavailable", "the sandbox stops")),
    };
    let mut response = match answer {
        Ok(body) => body.into_response(),
        Err(error) => refusal(operation, &error),
    };
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    with_request_id(response)
}

fn refusal(operation: &str, error: &EntryError) -> Response {
    tracing::info!(operation, code = error.code, reason = error.message, "refused");
    let body = serde_json::json!({
        "__type": format!("com.amazonaws.sqs#{}", service::shape(&error.code)),
        "message": error.message,
    });
    let mut response = (StatusCode::BAD_REQUEST, body.to_string()).into_response();
    if let Ok(code) = HeaderValue::from_str(&format!("{};Sender", error.code)) {
        response.headers_mut().insert(QUERY_ERROR, code);
    }
    response
}
