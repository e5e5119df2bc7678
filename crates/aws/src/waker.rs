//! Wakes a stack that sleeps because its queues were empty.

use std::error::Error as StdError;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidegate_delivery::ports::{Clock as _, Monotonic};

use crate::clock::SystemClock;
use crate::lambda::LambdaInvoke;

/// A woken scheduler issues ticks for a minute. It is not woken again within this time.
const AGAIN: Duration = Duration::from_secs(30);

/// Invokes a stack's scheduler, so that mail is sent within two seconds instead of at the next check of the
/// queues.
#[derive(Debug)]
pub struct Waker {
    scheduler: LambdaInvoke,
    clock: SystemClock,
    last: Mutex<Option<Monotonic>>,
}

impl Waker {
    pub(crate) fn new(scheduler: LambdaInvoke) -> Self {
        Self { scheduler, clock: SystemClock::new(), last: Mutex::default() }
    }

    /// Wakes the stack, at most once in 30 s. A failure is logged and otherwise without effect: the scheduler
    /// finds the mail by itself, later.
    pub async fn wake(&self) {
        let now = self.clock.monotonic();
        let before = self.last.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
        if before.is_some_and(|before| now.saturating_since(before) < AGAIN) {
            return;
        }
        if let Err(error) = self.scheduler.wake().await {
            tracing::warn!(
                error = &error as &dyn StdError,
                "the stack is not woken: mail may wait for TIDEGATE_IDLE_WAKE_SECONDS"
            );
        }
    }
}
