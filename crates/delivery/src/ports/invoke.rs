use std::future::Future;

use tidegate_core::tick::Tick;

use super::PortError;

/// Hands ticks to the poller, by invoking its function.
pub trait Invoke {
    /// Invokes the poller asynchronously (`InvocationType: Event`): Lambda accepts the tick and answers
    /// before the poller runs. There are no retries.
    ///
    /// # Errors
    /// [`PortError`] if Lambda did not accept the tick; only this tick's window is lost.
    fn tick(&self, tick: &Tick) -> impl Future<Output = Result<(), PortError>>;
}
