use std::sync::{Mutex, MutexGuard, PoisonError};

use super::config::{SesSandboxConfig, SettingsChange};
use super::engine::SesEngine;
use crate::sandbox::mailbox::SesStats;
use crate::sandbox::stop::Stop;
use crate::ses::MemorySuppressionList;

/// State that all requests and the handle share.
pub struct SesState {
    engine: Mutex<SesEngine>,
    /// Nanoseconds since the Unix epoch.
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
    pub(super) suppressed: MemorySuppressionList,
    pub(super) stop: Stop,
}

impl SesState {
    pub(super) fn new(
        config: SesSandboxConfig,
        clock: impl Fn() -> u64 + Send + Sync + 'static,
        stop: Stop,
    ) -> Self {
        let engine = Mutex::new(SesEngine::new(config, clock()));
        let suppressed = MemorySuppressionList::default();
        Self { engine, clock: Box::new(clock), suppressed, stop }
    }

    pub(super) fn now_ns(&self) -> u64 {
        (self.clock)()
    }

    /// A panic while the engine was held leaves figures that are off by one request at most.
    pub(super) fn engine(&self) -> MutexGuard<'_, SesEngine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, change: SettingsChange) -> SesSandboxConfig {
        let now_ns = self.now_ns();
        let mut engine = self.engine();
        let config = engine.config().clone().changed(change);
        engine.reconfigure(now_ns, config.clone());
        config
    }

    pub(super) fn stats(&self) -> SesStats {
        self.engine().stats(self.now_ns())
    }
}
