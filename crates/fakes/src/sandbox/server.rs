//! The server of every sandbox: a listener, a router on shared state, and the handle on both.
//!
//! Accepting connections, and closing them as faults and shutdown want.
//!
//! A sandbox as a program: it says where it listens, and serves until a signal ends it.

use std::convert::Infallible;
use std::error::Error;
use std::future::poll_fn;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderName, HeaderValue, Request, Response};
use clap::Args;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tidegate_core::in_full;
use tokio::io::AsyncWriteExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tower_service::Service;
use tracing_subscriber::EnvFilter;

use super::listener::{ListenError, ListenOptions, Listener, Stream, begin};

/// A sandbox that serves. Dropping it ends the sandbox at once.
#[must_use = "dropping it ends the sandbox"]
pub struct Sandbox<S> {
    addr: SocketAddr,
    url: String,
    pub(super) state: Arc<S>,
    stop: CancellationToken,
    /// The server, as a set of one, which ends with the handle.
    task: JoinSet<()>,
}

impl<S> Sandbox<S> {
    /// Serves from the current tokio runtime until [`Sandbox::shutdown`], or until the handle is
    /// dropped. `state` gets the endpoint's URL.
    pub(super) fn serve(
        listener: Listener,
        state: impl FnOnce(&str, CancellationToken) -> S,
        router: impl FnOnce(Arc<S>) -> Router,
    ) -> Self {
        let addr = listener.addr;
        let url = format!("{}://{addr}", listener.scheme());
        let stop = CancellationToken::new();
        let state = Arc::new(state(&url, stop.clone()));
        let mut task = JoinSet::new();
        task.spawn(accept_all(listener, router(Arc::clone(&state)), stop.clone()));
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
        self.stop.cancel();
        if let Some(Err(error)) = self.task.join_next().await {
            tracing::error!(%error, "the server ended badly");
        }
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

/// A request's id, in the form of AWS's.
pub(super) fn next_request_id() -> String {
    static REQUESTS: AtomicU64 = AtomicU64::new(1);
    let number = REQUESTS.fetch_add(1, Ordering::Relaxed) & 0xffff_ffff_ffff;
    format!("5e5a4d00-0000-4000-8000-{number:012x}")
}

/// Gives an answer AWS's header with the request's id.
pub(super) fn with_request_id(mut response: Response<Body>, id: &str) -> Response<Body> {
    const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");
    if let Ok(id) = HeaderValue::from_str(id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// No request that a sandbox takes is larger.
const MOST_BYTES: usize = 256 << 20;
/// How long requests under way may take once the sandbox is asked to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Marks a response that must not be sent: its connection ends instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum DroppedConnection {
    #[error("closed without an answer")]
    Closed,
    #[error("reset without an answer")]
    Reset,
}

async fn accept_all(listener: Listener, router: Router, stop: CancellationToken) {
    let mut http = http1::Builder::new();
    let idle = listener.idle;
    http.timer(TokioTimer::new()).header_read_timeout(idle);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.tcp.accept() => match accepted {
                Ok((tcp, _)) => {
                    let (http, router, stop) = (http.clone(), router.clone(), stop.clone());
                    let begun = begin(tcp, listener.tls.clone());
                    connections.spawn(async move {
                        if let Some(Some(stream)) = stop.run_until_cancelled(begun).await {
                            connection(stream, http, router, idle, stop).await;
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    // Out of file descriptors, the next accept would fail at once too.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = stop.cancelled() => break,
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, ended).await.is_err() {
        tracing::warn!(connections = connections.len(), "connections cut off at the end");
    }
}

async fn connection(
    stream: Stream,
    http: http1::Builder,
    router: Router,
    idle: Option<Duration>,
    stop: CancellationToken,
) {
    let service = service_fn(move |request| Box::pin(answer(router.clone(), request, idle)));
    let mut connection = http.serve_connection(TokioIo::new(stream), service);
    let served = poll_fn(|cx| connection.poll_without_shutdown(cx));
    let ended = match stop.run_until_cancelled(served).await {
        Some(ended) => ended,
        None => {
            Pin::new(&mut connection).graceful_shutdown();
            poll_fn(|cx| connection.poll_without_shutdown(cx)).await
        }
    };
    let mut stream = connection.into_parts().io.into_inner();
    if ended.is_err_and(|error| severed(&error) == Some(DroppedConnection::Reset)) {
        // Dropped without lingering, the socket answers with a reset.
        let tcp = match &stream {
            Either::Left(tcp) => tcp,
            Either::Right(tls) => tls.get_ref().0,
        };
        let _ = tcp.set_zero_linger();
    } else {
        let _ = stream.shutdown().await;
    }
}

async fn answer(
    mut router: Router,
    request: Request<Incoming>,
    idle: Option<Duration>,
) -> Result<Response<Body>, DroppedConnection> {
    let (head, body) = request.into_parts();
    // A request of which the rest does not come in time is none.
    let read = to_bytes(Body::new(body), MOST_BYTES);
    let read = tokio::time::timeout(idle.unwrap_or(Duration::MAX), read).await;
    let Ok(Ok(body)) = read else { return Err(DroppedConnection::Closed) };
    let request = Request::from_parts(head, Body::from(body));
    let Ok(response): Result<_, Infallible> = router.call(request).await;
    match response.extensions().get::<DroppedConnection>() {
        Some(severed) => Err(*severed),
        None => Ok(response),
    }
}

fn severed(error: &hyper::Error) -> Option<DroppedConnection> {
    std::error::Error::source(error)?.downcast_ref::<DroppedConnection>().copied()
}

/// Options that every sandbox has, beside its address.
#[derive(Args, Clone, Debug)]
pub struct ProgramOptions {
    /// Say where it listens as one line of JSON: `{"address": …, "url": …}`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connections: ListenOptions,
}

/// Runs the sandbox that `start` makes of a listener on `listen`. `intro` goes before its URL in what
/// the program says, a line for each.
pub async fn run<S>(
    name: &str,
    listen: SocketAddr,
    options: &ProgramOptions,
    start: impl FnOnce(Listener) -> Sandbox<S>,
    intro: &[&str],
) -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    match serve_until_signal(listen, options, start, intro).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{name}: {}", explain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn serve_until_signal<S>(
    listen: SocketAddr,
    options: &ProgramOptions,
    start: impl FnOnce(Listener) -> Sandbox<S>,
    intro: &[&str],
) -> Result<(), Box<dyn Error>> {
    // Installed before the address is printed: its reader may send a signal at once.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let sandbox = start(Listener::bind(listen).await?.with(&options.connections)?);
    announce(&sandbox, options.json, intro)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    sandbox.shutdown().await;
    Ok(())
}

fn announce<S>(sandbox: &Sandbox<S>, json: bool, intro: &[&str]) -> io::Result<()> {
    let (addr, url) = (sandbox.addr(), sandbox.url());
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::json!({ "address": addr.to_string(), "url": url }))?;
    } else {
        intro.iter().try_for_each(|line| writeln!(out, "{line}{url}"))?;
    }
    out.flush()
}

/// The error with its causes, and what to do where that is known.
fn explain(error: &(dyn Error + 'static)) -> String {
    let mut text = in_full(error);
    if let Some(ListenError { source, .. }) = error.downcast_ref()
        && source.kind() == io::ErrorKind::AddrInUse
    {
        text += "\nAnother program holds that port: end it, or choose another with --listen \
                 (127.0.0.1:0 takes a free one).";
    }
    text
}
