//! Starting the sandbox, and what a test asks of one that runs.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;

use super::config::SesSandboxConfig;
use super::engine::SesEngine;
use super::http;
use super::state::SesState;
use crate::sandbox::listener::Listener;
use crate::sandbox::mailbox::{MailRecord, SesStats};
use crate::sandbox::server::{ListenError, Sandbox, steady_clock};
use crate::ses::MemorySuppressionList;

/// The SES endpoint.
pub type SesSandbox = Sandbox<SesState>;

impl Sandbox<SesState> {
    /// Binds `addr` (port 0 takes a free one) and serves from the current tokio runtime until
    /// [`Sandbox::shutdown`], or until the handle is dropped.
    ///
    /// # Errors
    /// [`ListenError`] where the address cannot be bound.
    pub async fn start(config: SesSandboxConfig, addr: SocketAddr) -> Result<Self, ListenError> {
        Ok(Self::start_on(config, Self::bind(addr).await?))
    }

    /// Like [`Sandbox::start`], on a listener of the caller's.
    pub fn start_on(config: SesSandboxConfig, listener: Listener) -> Self {
        Self::start_at(config, listener, steady_clock())
    }

    /// Like [`Sandbox::start_on`], with a clock of the caller's for quota and times of arrival, in
    /// nanoseconds since the Unix epoch. Latencies are slept on tokio's clock.
    pub fn start_at(
        config: SesSandboxConfig,
        listener: Listener,
        clock: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        let state = |_: &str, stop| SesState {
            engine: Mutex::new(SesEngine::new(config, clock())),
            clock: Box::new(clock),
            suppressed: MemorySuppressionList::default(),
            stop,
        };
        Self::serve(listener, state, http::router)
    }

    /// Changes settings, all at once, and returns those now in force.
    pub fn change(&self, change: impl FnOnce(&mut SesSandboxConfig)) -> SesSandboxConfig {
        let now_ns = self.state.now_ns();
        let mut engine = self.state.engine();
        let mut config = engine.config().clone();
        change(&mut config);
        engine.reconfigure(now_ns, config.clone());
        config
    }

    /// Counters of what arrived.
    pub fn stats(&self) -> SesStats {
        self.state.stats()
    }

    /// At most `limit` accepted mails whose number is above `seq`; 0 begins with the oldest that is
    /// kept.
    pub fn mails(&self, seq: u64, limit: usize) -> Vec<Arc<MailRecord>> {
        self.state.engine().mails().after(seq, limit)
    }

    /// A mail by its number, and its request's body while that is kept.
    pub fn mail(&self, seq: u64) -> Option<(Arc<MailRecord>, Option<Bytes>)> {
        self.state.engine().mails().get(seq)
    }

    /// Empties mailbox and stats; the quota's state and the numbering of mails go on.
    pub fn clear(&self) {
        self.state.engine().clear();
    }
}
