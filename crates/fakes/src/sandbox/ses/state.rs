use std::sync::{Mutex, MutexGuard, PoisonError};

use super::engine::SesEngine;
use crate::sandbox::connection::Stop;
use crate::sandbox::mailbox::SesStats;
use crate::ses::MemorySuppressionList;

/// State that all requests and the handle share.
pub struct SesState {
    pub(super) engine: Mutex<SesEngine>,
    /// Nanoseconds since the Unix epoch.
    pub(super) clock: Box<dyn Fn() -> u64 + Send + Sync>,
    pub(super) suppressed: MemorySuppressionList,
    pub(super) stop: Stop,
}

impl SesState {
    pub(super) fn now_ns(&self) -> u64 {
        (self.clock)()
    }

    /// A panic while the engine was held leaves figures that are off by one request at most.
    pub(super) fn engine(&self) -> MutexGuard<'_, SesEngine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stats(&self) -> SesStats {
        self.engine().stats(self.now_ns())
    }
}
