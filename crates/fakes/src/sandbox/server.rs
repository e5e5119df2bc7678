//! The server of every sandbox: a listener, a router on shared state, and the handle on both.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::connection::{self, Stop};
use super::listener::Listener;

/// The address cannot be bound: most often another program holds the port.
#[derive(Debug, Error)]
#[error("cannot listen on {addr}")]
pub struct ListenError {
    pub addr: SocketAddr,
    #[source]
    pub source: io::Error,
}

/// A sandbox that serves. Dropping it ends the sandbox at once.
#[must_use = "dropping it ends the sandbox"]
pub struct Sandbox<S> {
    addr: SocketAddr,
    url: String,
    pub(super) state: Arc<S>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl<S> Sandbox<S> {
    /// Binds `addr` (port 0 takes a free one).
    pub(super) async fn bind(addr: SocketAddr) -> Result<Listener, ListenError> {
        Listener::bind(addr).await.map_err(|source| ListenError { addr, source })
    }

    /// Serves from the current tokio runtime until [`Sandbox::shutdown`], or until the handle is
    /// dropped. `state` gets the endpoint's URL.
    pub(super) fn serve(
        listener: Listener,
        state: impl FnOnce(&str, Stop) -> S,
        router: impl FnOnce(Arc<S>) -> Router,
    ) -> Self {
        let addr = listener.local_addr();
        let url = format!("{}://{addr}", listener.scheme());
        let (stop, stopped) = watch::channel(false);
        let stopped = Stop::when(stopped);
        let state = Arc::new(state(&url, stopped.clone()));
        let task = tokio::spawn(connection::serve(listener, router(Arc::clone(&state)), stopped));
        Self { addr, url, state, stop, task }
    }

    /// The address it is bound to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The endpoint for an SDK, such as `http://127.0.0.1:4579`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Stops listening, lets requests in flight end (for at most 5 s; those that a fault leaves
    /// without an answer, and long polls, at once), and returns.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        if let Err(error) = (&mut self.task).await {
            tracing::error!(%error, "the server ended badly");
        }
    }
}

impl<S> Drop for Sandbox<S> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<S> std::fmt::Debug for Sandbox<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("addr", &self.addr).finish_non_exhaustive()
    }
}

/// Tells nanoseconds since the Unix epoch: the wall clock, read once, and carried on by the
/// monotonic clock. A step of the wall clock must not look like a burst or a gap to the quota.
#[expect(clippy::disallowed_methods, reason = "this is the adapter that reads the clock")]
pub(super) fn steady_clock() -> impl Fn() -> u64 + Send + Sync + 'static {
    let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, nanos);
    let started = Instant::now();
    move || epoch.saturating_add(nanos(started.elapsed()))
}

/// Gives an answer AWS's header with the request's id.
pub(super) fn with_request_id(mut response: Response) -> Response {
    const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");
    static REQUESTS: AtomicU64 = AtomicU64::new(1);
    let number = REQUESTS.fetch_add(1, Ordering::Relaxed) & 0xffff_ffff_ffff;
    if let Ok(id) = HeaderValue::from_str(&format!("5e5a4d00-0000-4000-8000-{number:012x}")) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}
