use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::extract::{ConnectInfo, Extension, Query, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::unfold;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use serde::Deserialize;
use tidegate_operator::connections::{ClientAddress, Connections, answer};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

use super::access_control::Client;
use super::auth::Credential;
use super::error_response::{Answer, ErrorResponse, QueryString};
use super::{App, Shared, router};
use crate::stream::{Frame, StreamRegistry};

/// Size of the kernel's send buffer of a connection, which bounds what a client that does not read
/// can occupy.
const SOCKET_BUFFER: u32 = 64 * 1024;
/// Size of hyper's buffers of a connection, which come on top of its queue of events.
const WRITE_BUFFER: usize = 64 * 1024;
/// SSE's `retry`: how long a client waits before it reconnects.
const RETRY: Duration = Duration::from_secs(2);
/// `Retry-After` of a refused stream, in seconds.
const REFUSED_FOR_S: u64 = 5;
/// Interval of SSE comments, which keep proxies from closing a quiet stream.
const HEARTBEAT: Duration = Duration::from_secs(25);
/// Longest time for a connection's first byte, for a request's head, for an answer to be read, and
/// between requests.
pub(super) const SILENCE: Duration = Duration::from_secs(10);
/// An HTTP/2 connection is asked whether it is still there.
const PING: Duration = Duration::from_secs(25);
/// Number of connections that are allowed on top of the streams.
const OTHERS: usize = 256;
/// The same of one address: a browser opens six.
const OTHERS_OF_ADDRESS: usize = 32;
/// How long connections have to end by themselves after `stop`.
const PATIENCE: Duration = Duration::from_secs(2);

/// Listens at `address`, with small send buffers, which the connections inherit.
///
/// # Errors
/// The system's: the port is taken, or the address is none of this machine's.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SOCKET_BUFFER)?;
    socket.bind(address)?;
    socket.listen(1_024)
}

/// Serves HTTP/1.1 and HTTP/2 until `stop`; then the streams end, and connections a moment later.
pub async fn serve(listener: TcpListener, app: Arc<App>, stop: impl Future<Output = ()>) {
    let router = router(&app);
    let limits = app.shared.hub.look(|registry| registry.limits);
    let connections = Connections::new(
        usize::from(limits.streams) + OTHERS,
        usize::from(limits.streams_per_address) + OTHERS_OF_ADDRESS,
        app.access.trusted_proxies.clone(),
    );
    let builder = Arc::new(builder());
    let connection = |stream, peer: IpAddr, stopped: watch::Receiver<bool>| {
        let (builder, app, router) = (Arc::clone(&builder), Arc::clone(&app), router.clone());
        let excuses = Excuses::default();
        let of_requests = excuses.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            let (excuses, router) = (of_requests.clone(), router.clone());
            request.extensions_mut().insert(ConnectInfo(peer));
            request.extensions_mut().insert(excuses.clone());
            async move { excuses.until_head(router.oneshot(request)).await }
        });
        async move {
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                () = answer(connection, stopped) => {}
                () = excuses.silent() => {}
                () = excuses.outlived(&app) => {}
            }
        }
    };
    let stop = async {
        stop.await;
        app.shared.hub.change(StreamRegistry::close_all);
    };
    connections.serve(listener, b"", stop, PATIENCE, connection).await;
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(SILENCE)
        .max_buf_size(WRITE_BUFFER)
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .max_send_buf_size(WRITE_BUFFER)
        .max_concurrent_streams(64);
    builder
}

#[derive(Debug, Deserialize)]
pub(super) struct EventsQuery {
    /// For a page that opens a new stream itself: only a browser's own return has the header.
    last_event_id: Option<String>,
}

/// Opens an event stream (SSE) for a page.
pub(super) async fn events(
    State(app): Shared,
    Client(client): Client,
    Extension(credential): Extension<Credential>,
    Extension(excuses): Extension<Excuses>,
    query: QueryString<EventsQuery>,
    headers: HeaderMap,
) -> Answer<impl IntoResponse> {
    let Query(query) = query?;
    let header = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let last = header.map(str::to_owned).or(query.last_event_id).filter(|id| !id.is_empty());
    let client = app.auth.stream_client(&credential, ClientAddress::of(client));
    let stream = app.shared.hub.subscribe(client, last.as_deref());
    let stream = stream.map_err(|refusal| ErrorResponse::too_many(REFUSED_FOR_S, refusal))?;
    let excuse = excuses.add(Excuse::Stream(credential.clone()));
    let open = (stream, app, credential, excuse);
    let events = unfold(open, async |(mut stream, app, credential, excuse)| {
        let frame = stream.next().await?;
        let event = app.is_good(&credential).then(|| event(&frame))?;
        Some((Ok::<_, Infallible>(event), (stream, app, credential, excuse)))
    });
    let alive = KeepAlive::new().interval(HEARTBEAT).text("alive");
    // nginx hands events on as they come.
    Ok(([("x-accel-buffering", "no")], Sse::new(events).keep_alive(alive)))
}

fn event(frame: &Frame) -> Event {
    let event = Event::default().event(frame.event).data(&*frame.data);
    let event = if frame.event == "state" { event.retry(RETRY) } else { event };
    match &frame.id {
        Some(id) => event.id(id),
        None => event,
    }
}

/// A reason for which a client may be silent, for as long as it is held.
#[derive(Debug)]
pub(super) enum Excuse {
    /// We work on an answer, of which the head is not ready.
    Answer,
    /// An event stream is open, by this credential.
    Stream(Credential),
}

/// The excuses of one connection. An answer that waits to be read is none: a client that reads nothing,
/// such as one with an HTTP/2 window of 0 bytes, would keep its connection for ever.
#[derive(Clone, Debug, Default)]
pub(super) struct Excuses {
    /// Notified when a request comes, and when the head of its answer is ready.
    begun: Arc<Notify>,
    held: Arc<Mutex<Vec<Weak<Excuse>>>>,
}

impl Excuses {
    /// Adds an excuse, until the result is dropped.
    pub(super) fn add(&self, excuse: Excuse) -> Arc<Excuse> {
        let excuse = Arc::new(excuse);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|excuse| excuse.strong_count() > 0);
        held.push(Arc::downgrade(&excuse));
        excuse
    }

    /// Excuses the client until the head of its answer is ready. Then it has [`SILENCE`] to read it.
    pub(super) async fn until_head<T>(&self, answer: impl Future<Output = T>) -> T {
        let excuse = self.add(Excuse::Answer);
        self.begun.notify_one();
        let answer = answer.await;
        drop(excuse);
        self.begun.notify_one();
        answer
    }

    /// Waits until for [`SILENCE`] there was no excuse, and nothing begun.
    pub(super) async fn silent(&self) {
        loop {
            let is_excused = self.has(|_| true);
            if timeout(SILENCE, self.begun.notified()).await.is_err() && !is_excused {
                return;
            }
        }
    }

    /// Waits until a stream has outlived its session by [`SILENCE`]. Its next event would have ended it, so
    /// its client does not read.
    pub(super) async fn outlived(&self, app: &App) {
        let mut outlives = false;
        loop {
            sleep(SILENCE).await;
            let outlived = outlives;
            outlives = self.has(|excuse| match excuse {
                Excuse::Answer => false,
                Excuse::Stream(credential) => !app.is_good(credential),
            });
            if outlived && outlives {
                return;
            }
        }
    }

    fn has(&self, is: impl Fn(&Excuse) -> bool) -> bool {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().filter_map(Weak::upgrade).any(|excuse| is(&excuse))
    }
}
