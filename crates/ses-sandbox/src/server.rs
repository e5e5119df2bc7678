//! Starting the sandbox, and the handles on one that runs.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use sandbox_listener::Listener;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clock::{SandboxClock, SteadyClock};
use crate::config::{SesSandboxConfig, SettingsChange};
use crate::engine::SesEngine;
use crate::http;
use crate::mailbox::MailRecord;
use crate::state::SandboxState;
use crate::stats::SesStats;

/// The reasons why a sandbox does not start.
#[derive(Debug, Error)]
pub enum SesSandboxError {
    /// The address cannot be bound: most often another program holds the port.
    #[error("cannot listen on {addr}")]
    Listen {
        addr: SocketAddr,
        #[source]
        source: io::Error,
    },
}

/// Entry point: starts a server on an address, a listener or a clock of the caller's.
#[derive(Debug, Clone, Copy)]
pub struct SesSandbox;

impl SesSandbox {
    /// Binds `addr` (port 0 takes a free one) and serves from the current tokio runtime until
    /// [`SesSandboxServer::shutdown`], or until the handle is dropped.
    ///
    /// # Errors
    /// [`SesSandboxError::Listen`] where the address cannot be bound.
    pub async fn start(
        config: SesSandboxConfig,
        addr: SocketAddr,
    ) -> Result<SesSandboxServer, SesSandboxError> {
        Self::start_at(config, addr, SteadyClock::start()).await
    }

    /// Like [`SesSandbox::start`], with a clock of the caller's for quota and times of arrival.
    /// Latencies are slept on tokio's clock.
    ///
    /// # Errors
    /// [`SesSandboxError::Listen`] where the address cannot be bound.
    pub async fn start_at(
        config: SesSandboxConfig,
        addr: SocketAddr,
        clock: impl SandboxClock,
    ) -> Result<SesSandboxServer, SesSandboxError> {
        let refused = |source| SesSandboxError::Listen { addr, source };
        let listener = Listener::bind(addr).await.map_err(refused)?;
        Self::start_on(config, listener, clock).map_err(refused)
    }

    /// Like [`SesSandbox::start_at`], on a listener of the caller's.
    ///
    /// # Errors
    /// Where the listener's address cannot be told.
    pub fn start_on(
        config: SesSandboxConfig,
        listener: Listener,
        clock: impl SandboxClock,
    ) -> io::Result<SesSandboxServer> {
        let addr = listener.local_addr()?;
        let url = format!("{}://{addr}", listener.scheme());
        let (stop, stopped) = watch::channel(false);
        let engine = Mutex::new(SesEngine::new(config, clock.now_ns()));
        let state = Arc::new(SandboxState::new(engine, clock, stopped));
        let task = tokio::spawn(http::serve(listener, Arc::clone(&state)));
        Ok(SesSandboxServer { addr, url, state, stop, task })
    }
}

/// A sandbox that serves. Dropping it ends the sandbox at once.
#[must_use = "dropping it ends the sandbox"]
pub struct SesSandboxServer {
    addr: SocketAddr,
    url: String,
    state: Arc<SandboxState>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl SesSandboxServer {
    /// The address it is bound to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The endpoint for an SDK, such as `http://127.0.0.1:4579`.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// A handle to change settings and to read counters.
    pub fn control(&self) -> SandboxControl {
        SandboxControl { state: Arc::clone(&self.state) }
    }

    /// A handle to read accepted mails.
    pub fn mailbox(&self) -> Mailbox {
        Mailbox { state: Arc::clone(&self.state) }
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

impl Drop for SesSandboxServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl std::fmt::Debug for SesSandboxServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("addr", &self.addr).finish_non_exhaustive()
    }
}

/// Changes and watches a running sandbox.
#[derive(Clone)]
pub struct SandboxControl {
    state: Arc<SandboxState>,
}

impl SandboxControl {
    /// The settings that are in force now.
    pub fn config(&self) -> SesSandboxConfig {
        self.state.engine().config().clone()
    }

    /// Changes settings, all at once, and returns those now in force.
    pub fn change(&self, change: SettingsChange) -> SesSandboxConfig {
        self.state.change(change)
    }

    /// Counters of what arrived.
    pub fn stats(&self) -> SesStats {
        self.state.stats()
    }
}

/// Looks into a running sandbox's mailbox.
#[derive(Clone)]
pub struct Mailbox {
    state: Arc<SandboxState>,
}

impl Mailbox {
    /// At most `limit` mails whose number is above `seq`; 0 begins with the oldest that is kept.
    pub fn after(&self, seq: u64, limit: usize) -> Vec<Arc<MailRecord>> {
        self.state.engine().mails().after(seq, limit)
    }

    /// A mail by its number, and its request's body while that is kept.
    pub fn get(&self, seq: u64) -> Option<(Arc<MailRecord>, Option<Bytes>)> {
        self.state.engine().mails().get(seq)
    }

    /// Empties mailbox and stats; the quota's state and the numbering of mails go on.
    pub fn clear(&self) {
        self.state.engine().clear();
    }
}
