use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

use super::excuses::{Excuses, SILENCE};
use super::{App, router};
use crate::rate_limit::ClientAddress;
use crate::stream::StreamRegistry;

/// Size of the kernel's send buffer of a connection, which bounds what a client that does not read
/// can occupy.
const SOCKET_BUFFER: u32 = 64 * 1024;
/// Size of hyper's buffers of a connection, which come on top of its queue of events.
const WRITE_BUFFER: usize = 64 * 1024;
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

/// The open connections: each holds a clone of its address's mark.
#[derive(Debug, Default)]
struct Connections(BTreeMap<ClientAddress, Arc<()>>);

impl Connections {
    /// A place for a connection of `address`, until it is dropped; none if `most_of_one` of it are open,
    /// or `most` of all.
    fn enter(
        &mut self,
        address: ClientAddress,
        most_of_one: usize,
        most: usize,
    ) -> Option<Arc<()>> {
        let open = |mark: &Arc<()>| Arc::strong_count(mark) - 1;
        self.0.retain(|_, mark| open(mark) > 0);
        let all: usize = self.0.values().map(open).sum();
        let mark = self.0.entry(address).or_default();
        (open(mark) < most_of_one && all < most).then(|| Arc::clone(mark))
    }
}

/// Serves HTTP/1.1 and HTTP/2 until `stop`; then the streams end, and connections a moment later.
pub async fn serve(listener: TcpListener, app: Arc<App>, stop: impl Future<Output = ()>) {
    let router = router(&app);
    let limits = app.shared.hub.look(StreamRegistry::limits);
    let mut connections = Connections::default();
    let graceful = GracefulShutdown::new();
    let builder = Arc::new(builder());
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let (connection, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Most often too many open files: some are closed in a moment.
                tracing::warn!(%error, "no connection is accepted");
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // A proxy connects for many clients.
        let is_proxy = app.access.is_trusted(peer.ip());
        let most_of_one = if is_proxy {
            usize::MAX
        } else {
            usize::from(limits.streams_per_address) + OTHERS_OF_ADDRESS
        };
        let address = ClientAddress::of(peer.ip());
        let Some(place) =
            connections.enter(address, most_of_one, usize::from(limits.streams) + OTHERS)
        else {
            tracing::warn!(%peer, "too many connections: one is closed");
            continue;
        };
        let _ = connection.set_nodelay(true);
        let (excuses, router) = (Excuses::default(), router.clone());
        let of_requests = excuses.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            let (excuses, router) = (of_requests.clone(), router.clone());
            request.extensions_mut().insert(ConnectInfo(peer));
            request.extensions_mut().insert(excuses.clone());
            async move { excuses.until_head(router.oneshot(request)).await }
        });
        let connection = builder.serve_connection(TokioIo::new(connection), service).into_owned();
        let connection = graceful.watch(connection);
        let app = Arc::clone(&app);
        tokio::spawn(async move {
            tokio::select! {
                // Errors of a connection concern its client only.
                _ = connection => {}
                () = excuses.silent() => {}
                () = excuses.outlived(&app) => {}
            }
            drop(place);
        });
    }
    app.shared.hub.change(StreamRegistry::close_all);
    let _ = timeout(PATIENCE, graceful.shutdown()).await;
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
