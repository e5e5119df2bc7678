use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::client::Peer;
use super::{App, router};
use crate::stream::StreamRegistry;

/// Size of the kernel's send buffer of a connection, which bounds what a client that does not read
/// can occupy.
const SOCKET_BUFFER: u32 = 64 * 1024;
/// Size of hyper's buffers of a connection, which come on top of its queue of events.
const WRITE_BUFFER: usize = 64 * 1024;
/// Longest time for a request's headers to arrive.
const HEAD: Duration = Duration::from_secs(10);
/// An HTTP/2 connection is asked whether it is still there.
const PING: Duration = Duration::from_secs(25);
/// Number of connections that are allowed on top of the streams.
const OTHERS: usize = 256;
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
    let most = app.shared.hub.look(StreamRegistry::most_streams) + OTHERS;
    let places = Arc::new(Semaphore::new(most));
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
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::warn!(%peer, "too many connections: one is closed");
            continue;
        };
        let _ = connection.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone().layer(Extension(Peer(peer))));
        let connection = builder.serve_connection(TokioIo::new(connection), service).into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // Errors of a connection concern its client only.
            let _ = connection.await;
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
        .header_read_timeout(HEAD)
        .max_buf_size(WRITE_BUFFER)
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .max_send_buf_size(WRITE_BUFFER)
        .max_concurrent_streams(64);
    builder
}
