//! Starting the sandbox, and the handle on one that runs.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sandbox_listener::Listener;
use thiserror::Error;
use tidegate_core::Timestamp;
use tidegate_memory::Universe;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::http::{ServerState, router};
use crate::service::{Service, SqsSandboxConfig, SqsStats};

/// How long requests under way may take once the sandbox is asked to stop.
const GRACE: Duration = Duration::from_secs(5);

/// The reasons why a sandbox does not start.
#[derive(Debug, Error)]
pub enum SqsSandboxError {
    /// The address cannot be bound: most often another program holds the port.
    #[error("cannot listen on {addr}")]
    Listen {
        addr: SocketAddr,
        #[source]
        source: io::Error,
    },
}

/// Entry point: starts a server on an address or a listener.
#[derive(Debug, Clone, Copy)]
pub struct SqsSandbox;

impl SqsSandbox {
    /// Binds `addr` (port 0 takes a free one) and serves from the current tokio runtime until
    /// [`SqsSandboxServer::shutdown`], or until the handle is dropped.
    ///
    /// # Errors
    /// [`SqsSandboxError::Listen`] where the address cannot be bound.
    pub async fn start(
        config: SqsSandboxConfig,
        addr: SocketAddr,
    ) -> Result<SqsSandboxServer, SqsSandboxError> {
        let refused = |source| SqsSandboxError::Listen { addr, source };
        let listener = Listener::bind(addr).await.map_err(refused)?;
        Self::start_on(config, listener).map_err(refused)
    }

    /// Like [`SqsSandbox::start`], on a listener of the caller's.
    ///
    /// # Errors
    /// Where the listener's address cannot be told.
    pub fn start_on(config: SqsSandboxConfig, listener: Listener) -> io::Result<SqsSandboxServer> {
        let addr = listener.local_addr()?;
        let url = format!("{}://{addr}", listener.scheme());
        let (stop, stopped) = watch::channel(false);
        let service = Service::new(Universe::starting_at(now()), config, url.clone());
        let state = Arc::new(ServerState { service, stopped });
        let task = tokio::spawn(serve(listener, Arc::clone(&state)));
        Ok(SqsSandboxServer { addr, url, state, stop, task })
    }
}

async fn serve(listener: Listener, state: Arc<ServerState>) {
    let stopping = Arc::clone(&state);
    let server = axum::serve(listener, router(Arc::clone(&state)))
        .with_graceful_shutdown(async move { stopping.stopped().await });
    let cut_off = async {
        state.stopped().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        ended = server => {
            if let Err(error) = ended {
                tracing::error!(%error, "the server ended badly");
            }
        }
        () = cut_off => tracing::warn!("connections cut off at the end"),
    }
}

/// The wall clock, read once: tokio's clock carries it on.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Timestamp::default() + since_epoch.unwrap_or_default()
}

/// A sandbox that serves. Dropping it ends the sandbox at once.
#[must_use = "dropping it ends the sandbox"]
pub struct SqsSandboxServer {
    addr: SocketAddr,
    url: String,
    state: Arc<ServerState>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl SqsSandboxServer {
    /// The address it is bound to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The endpoint for an SDK, such as `http://127.0.0.1:4580`.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Counters of calls, and the depth of each queue.
    pub async fn stats(&self) -> SqsStats {
        self.state.service.stats().await
    }

    /// Stops listening, lets requests in flight end (long polls at once, others within 5 s), and
    /// returns.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        if let Err(error) = (&mut self.task).await {
            tracing::error!(%error, "the server ended badly");
        }
    }
}

impl Drop for SqsSandboxServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl std::fmt::Debug for SqsSandboxServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("addr", &self.addr).finish_non_exhaustive()
    }
}
