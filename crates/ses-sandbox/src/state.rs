//! The state of a running sandbox.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::clock::SandboxClock;
use crate::config::{SesSandboxConfig, SettingsChange};
use crate::engine::SesEngine;
use crate::stats::SesStats;

/// State that all requests and handles share.
pub(crate) struct SandboxState {
    engine: Mutex<SesEngine>,
    clock: Box<dyn SandboxClock>,
    stopped: watch::Receiver<bool>,
}

impl SandboxState {
    pub(crate) fn new(
        engine: Mutex<SesEngine>,
        clock: impl SandboxClock,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        Self { engine, clock: Box::new(clock), stopped }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// A panic while the engine was held leaves figures that are off by one request at most.
    pub(crate) fn engine(&self) -> MutexGuard<'_, SesEngine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once the sandbox is asked to stop.
    pub(crate) async fn stopped(&self) {
        // An error means that the handle was dropped, which stops the sandbox, too.
        let _ = self.stopped.clone().wait_for(|stopped| *stopped).await;
    }

    pub(crate) fn change(&self, change: SettingsChange) -> SesSandboxConfig {
        let now_ns = self.now_ns();
        let mut engine = self.engine();
        let config = engine.config().clone().changed(change);
        engine.reconfigure(now_ns, config.clone());
        config
    }

    pub(crate) fn stats(&self) -> SesStats {
        self.engine().stats(self.now_ns())
    }
}
