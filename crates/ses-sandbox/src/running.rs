//! Starting the sandbox, and the handles on one that runs.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use sandbox_listener::Listener;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clock::{Clock, SystemClock};
use crate::config::{Change, SandboxConfig};
use crate::engine::Engine;
use crate::http;
use crate::mailbox::Mail;
use crate::stats::Stats;

/// Why a sandbox did not start.
#[derive(Debug, Error)]
pub enum SandboxError {
    /// The address cannot be bound: most often another program holds the port.
    #[error("cannot listen on {addr}")]
    Listen {
        /// The address asked for.
        addr: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Starts sandboxes.
#[derive(Debug, Clone, Copy)]
pub struct Sandbox;

impl Sandbox {
    /// Binds `addr` (port 0 takes a free one) and serves from the current tokio runtime until
    /// [`Running::shutdown`], or until the handle is dropped.
    ///
    /// # Errors
    /// [`SandboxError::Listen`] where the address cannot be bound.
    pub async fn start(config: SandboxConfig, addr: SocketAddr) -> Result<Running, SandboxError> {
        Self::start_at(config, addr, SystemClock::start()).await
    }

    /// Like [`Sandbox::start`], with a clock of the caller's for quota and times of arrival.
    /// Latencies are slept on tokio's clock.
    ///
    /// # Errors
    /// [`SandboxError::Listen`] where the address cannot be bound.
    pub async fn start_at(
        config: SandboxConfig,
        addr: SocketAddr,
        clock: impl Clock,
    ) -> Result<Running, SandboxError> {
        let refused = |source| SandboxError::Listen { addr, source };
        let listener = Listener::bind(addr).await.map_err(refused)?;
        Self::start_on(config, listener, clock).map_err(refused)
    }

    /// Like [`Sandbox::start_at`], on a listener of the caller's.
    ///
    /// # Errors
    /// Where the listener's address cannot be told.
    pub fn start_on(
        config: SandboxConfig,
        listener: Listener,
        clock: impl Clock,
    ) -> io::Result<Running> {
        let addr = listener.local_addr()?;
        let url = format!("{}://{addr}", listener.scheme());
        let (stop, stopped) = watch::channel(false);
        let engine = Mutex::new(Engine::new(config, clock.now_ns()));
        let shared = Arc::new(Shared { engine, clock: Box::new(clock), stopped });
        let task = tokio::spawn(http::serve(listener, Arc::clone(&shared)));
        Ok(Running { addr, url, shared, stop, task })
    }
}

/// What every request and every handle shares.
pub(crate) struct Shared {
    engine: Mutex<Engine>,
    clock: Box<dyn Clock>,
    stopped: watch::Receiver<bool>,
}

impl Shared {
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// A panic while the engine was held leaves figures that are off by one request at most.
    pub(crate) fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once the sandbox is asked to stop.
    pub(crate) async fn stopped(&self) {
        // An error means that the handle is gone, which stops the sandbox too.
        let _ = self.stopped.clone().wait_for(|stopped| *stopped).await;
    }

    pub(crate) fn change(&self, change: Change) -> SandboxConfig {
        let now_ns = self.now_ns();
        let mut engine = self.engine();
        let config = engine.config().clone().changed(change);
        engine.reconfigure(now_ns, config.clone());
        config
    }

    pub(crate) fn stats(&self) -> Stats {
        self.engine().stats(self.now_ns())
    }
}

/// A sandbox that serves. Dropping it ends the sandbox at once.
#[must_use = "dropping it ends the sandbox"]
pub struct Running {
    addr: SocketAddr,
    url: String,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Running {
    /// The address it is bound to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The endpoint for an SDK, such as `http://127.0.0.1:4579`.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Settings and figures.
    pub fn control(&self) -> Control {
        Control { shared: Arc::clone(&self.shared) }
    }

    /// The mails that were accepted.
    pub fn mailbox(&self) -> Mailbox {
        Mailbox { shared: Arc::clone(&self.shared) }
    }

    /// Stops listening, lets requests in flight end (for at most 5 s; those that a fault leaves
    /// without an answer are closed at once), and returns.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        if let Err(error) = (&mut self.task).await {
            tracing::error!(%error, "the server ended badly");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("addr", &self.addr).finish_non_exhaustive()
    }
}

/// Changes and watches a running sandbox.
#[derive(Clone)]
pub struct Control {
    shared: Arc<Shared>,
}

impl Control {
    /// The settings in force.
    pub fn config(&self) -> SandboxConfig {
        self.shared.engine().config().clone()
    }

    /// Changes settings, all at once, and returns those now in force.
    pub fn change(&self, change: Change) -> SandboxConfig {
        self.shared.change(change)
    }

    /// Figures of what arrived.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}

/// Looks into a running sandbox's mailbox.
#[derive(Clone)]
pub struct Mailbox {
    shared: Arc<Shared>,
}

impl Mailbox {
    /// Up to `limit` mails that came after the mail numbered `seq`; 0 for the oldest kept.
    pub fn after(&self, seq: u64, limit: usize) -> Vec<Arc<Mail>> {
        self.shared.engine().mails().after(seq, limit)
    }

    /// A mail by its number, and its request's body while that is kept.
    pub fn get(&self, seq: u64) -> Option<(Arc<Mail>, Option<Bytes>)> {
        self.shared.engine().mails().get(seq)
    }

    /// Empties mailbox and stats; the quota's state and the numbering of mails go on.
    pub fn clear(&self) {
        self.shared.engine().clear();
    }
}
