//! Starting the sandbox.

use std::net::SocketAddr;

use tidegate_core::Timestamp;

use super::http::{SqsState, router};
use super::service::{Service, SqsSandboxConfig, SqsStats};
use crate::Universe;
use crate::sandbox::listener::Listener;
use crate::sandbox::server::{ListenError, Sandbox, steady_clock};

/// The SQS endpoint.
pub type SqsSandbox = Sandbox<SqsState>;

impl Sandbox<SqsState> {
    /// Binds `addr` (port 0 takes a free one) and serves from the current tokio runtime until
    /// [`Sandbox::shutdown`], or until the handle is dropped.
    ///
    /// # Errors
    /// [`ListenError`] where the address cannot be bound.
    pub async fn start(config: SqsSandboxConfig, addr: SocketAddr) -> Result<Self, ListenError> {
        Ok(Self::start_on(config, Self::bind(addr).await?))
    }

    /// Like [`Sandbox::start`], on a listener of the caller's.
    pub fn start_on(config: SqsSandboxConfig, listener: Listener) -> Self {
        let universe = Universe::starting_at(Timestamp::from_nanos(steady_clock()()));
        let state = |url: &str, stop| SqsState {
            service: Service::new(universe, config, url.to_owned()),
            stop,
        };
        Self::serve(listener, state, router)
    }

    /// Counters of calls, and the depth of each queue.
    pub async fn stats(&self) -> SqsStats {
        self.state.service.stats().await
    }
}
