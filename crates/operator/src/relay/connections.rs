//! Connections of clients: how many there may be, and how they end.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::logins::network;

/// The open connections of all ports. Each holds a clone of its address's mark.
#[derive(Debug)]
pub(super) struct Connections {
    most: usize,
    most_of_address: usize,
    open: Mutex<BTreeMap<IpAddr, Arc<()>>>,
}

impl Connections {
    pub(super) fn new(most: usize, most_of_address: usize) -> Self {
        Self { most, most_of_address, open: Mutex::default() }
    }

    /// A place for a connection of `peer`, until it is dropped; none if there are as many as are allowed.
    pub(super) fn enter(&self, peer: IpAddr) -> Option<Arc<()>> {
        let open = |mark: &Arc<()>| Arc::strong_count(mark) - 1;
        let mut connections = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|_, mark| open(mark) > 0);
        let all: usize = connections.values().map(open).sum();
        let mark = connections.entry(network(peer)).or_default();
        (all < self.most && open(mark) < self.most_of_address).then(|| Arc::clone(mark))
    }

    /// Serves each connection by `serve`, which is told when to end, until `stop`. Those that are still open after
    /// `patience` are closed. A connection too many gets `refusal`.
    pub(super) async fn serve<F: Future<Output = ()> + Send + 'static>(
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
