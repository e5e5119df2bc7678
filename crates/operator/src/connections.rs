//! Connections of clients: how many there may be, and how they end.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper_util::server::graceful::GracefulConnection;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The unit in which clients are counted: an IPv4 address, or the /64 network of an IPv6 address,
/// since providers give a /64 to a single customer.
///
/// ```
/// use tidegate_operator::connections::ClientAddress;
/// let of = |text: &str| Ok::<_, std::net::AddrParseError>(ClientAddress::of(text.parse()?));
/// assert_eq!(of("::ffff:192.0.2.7")?, of("192.0.2.7")?);
/// assert_eq!(of("2001:db8::1")?, of("2001:db8::2:3")?);
/// assert_ne!(of("192.0.2.7")?, of("192.0.2.8")?);
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientAddress(IpAddr);

impl ClientAddress {
    /// The one that `ip` counts to.
    pub fn of(ip: IpAddr) -> Self {
        Self(match ip.to_canonical() {
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
            v4 @ IpAddr::V4(_) => v4,
        })
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The open connections of all ports of a server. Each holds a clone of its address's mark.
#[derive(Debug)]
pub struct Connections {
    most: usize,
    most_of_address: usize,
    /// Proxies connect for many clients: only `most` bounds them.
    proxies: Vec<IpAddr>,
    open: Mutex<BTreeMap<ClientAddress, Arc<()>>>,
}

impl Connections {
    pub fn new(most: usize, most_of_address: usize, proxies: Vec<IpAddr>) -> Self {
        Self { most, most_of_address, proxies, open: Mutex::default() }
    }

    /// A place for a connection of `peer`, until it is dropped; none if there are as many as are allowed.
    pub(crate) fn enter(&self, peer: IpAddr) -> Option<Arc<()>> {
        let open = |mark: &Arc<()>| Arc::strong_count(mark) - 1;
        let mut connections = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|_, mark| open(mark) > 0);
        let all: usize = connections.values().map(open).sum();
        let mark = connections.entry(ClientAddress::of(peer)).or_default();
        let has_room =
            open(mark) < self.most_of_address || self.proxies.contains(&peer.to_canonical());
        (all < self.most && has_room).then(|| Arc::clone(mark))
    }

    /// Serves each connection by `serve`, which is told when to end, until `stop`. Those that are still open after
    /// `patience` are closed. A connection too many gets `refusal`.
    pub async fn serve<F: Future<Output = ()> + Send + 'static>(
        &self,
        listener: TcpListener,
        refusal: &[u8],
        stop: impl Future<Output = ()>,
        patience: Duration,
        serve: impl Fn(TcpStream, IpAddr, watch::Receiver<bool>) -> F,
    ) {
        let (stopping, stopped) = watch::channel(false);
        let mut open = JoinSet::new();
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut stop => break,
                Some(_) = open.join_next() => continue,
                accepted = listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok((stream, peer)) => (stream, peer.ip()),
                Err(error) => {
                    // Most often too many open files: some are closed in a moment.
                    tracing::warn!(%error, "no connection is accepted");
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let Some(place) = self.enter(peer) else {
                tracing::warn!(%peer, "too many connections: one is closed");
                // A new connection's buffer is empty, so that this does not have to wait.
                let _ = stream.try_write(refusal);
                continue;
            };
            // Without it small answers wait for more; not having it is no failure.
            let _ = stream.set_nodelay(true);
            let connection = serve(stream, peer, stopped.clone());
            open.spawn(async move {
                connection.await;
                drop(place);
            });
        }
        drop(listener);
        stopping.send_replace(true);
        let _ = timeout(patience, async { while open.join_next().await.is_some() {} }).await;
    }
}

/// Answers the requests of a connection; once it is `stopped`, those that are under way. Errors concern its client only.
pub async fn answer(connection: impl GracefulConnection, mut stopped: watch::Receiver<bool>) {
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stopped.wait_for(|stopped| *stopped) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
