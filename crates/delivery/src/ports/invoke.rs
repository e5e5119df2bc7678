use std::future::Future;

use tidegate_core::tick::Tick;

use super::PortError;

/// Hands a tick to a poller.
pub trait Invoke {
    /// Invokes the poller asynchronously (an Event invoke: accepted, not awaited), without retries.
    ///
    /// # Errors
    /// [`PortError`] when the tick was not accepted; that costs this tick only.
    fn tick(&self, tick: &Tick) -> impl Future<Output = Result<(), PortError>>;
}
