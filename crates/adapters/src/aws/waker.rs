//! Wakes a stack that sleeps because its queues were empty.

use std::error::Error as StdError;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidegate_delivery::ports::{Clock as _, FailureKind, Monotonic};

use crate::aws::clock::SystemClock;
use crate::aws::lambda::LambdaInvoke;

/// A woken scheduler issues ticks for a minute. It is not woken again within this time.
const AGAIN: Duration = Duration::from_secs(30);

/// The pauses before a failed wake is tried again.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

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

    /// Wakes the stack, at most once in 30 s. A failure is tried again, since one wake more does no harm. One for good
    /// is logged and otherwise without effect: the scheduler finds the mail by itself, later.
    pub async fn wake(&self) {
        let now = self.clock.monotonic();
        let before = self.last.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
        if before.is_some_and(|before| now.saturating_since(before) < AGAIN) {
            return;
        }
        let mut pauses = PAUSES.into_iter();
        while let Err(error) = self.scheduler.wake().await {
            let is_final = matches!(error.kind, FailureKind::NotFound | FailureKind::Denied(_));
            match pauses.next().filter(|_| !is_final) {
                Some(pause) => self.clock.sleep_until(self.clock.monotonic() + pause).await,
                None => {
                    return tracing::warn!(
                        error = &error as &dyn StdError,
                        "the stack is not woken: mail may wait for TIDEGATE_IDLE_WAKE_SECONDS"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws::tests::fake::{Fake, FakeAnswer};

    fn refused(status: u16, code: &'static str) -> FakeAnswer {
        let headers: &'static [_] = match code {
            "TooManyRequestsException" => &[("x-amzn-errortype", "TooManyRequestsException")],
            _ => &[("x-amzn-errortype", "AccessDeniedException")],
        };
        FakeAnswer::Http(status, headers, "{}".to_owned())
    }

    async fn wakes(answers: Vec<FakeAnswer>) -> usize {
        let lambda = Fake::new(answers);
        let waker = Waker::new(LambdaInvoke::new(&lambda.lambda(), "scheduler"));
        waker.wake().await;
        waker.wake().await;
        lambda.seen().len()
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_wake_is_tried_again_until_it_succeeds_and_one_that_succeeded_is_not() {
        let ok = || FakeAnswer::Http(202, &[], String::new());
        let throttled = || refused(429, "TooManyRequestsException");
        assert_eq!(wakes(vec![ok(), ok()]).await, 1);
        assert_eq!(
            wakes(vec![throttled(), FakeAnswer::Silence, FakeAnswer::Break, ok(), ok()]).await,
            4
        );
        assert_eq!(wakes((0..9).map(|_| throttled()).collect()).await, 1 + PAUSES.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_wake_that_nobody_may_make_is_not_tried_again() {
        assert_eq!(wakes(vec![refused(403, "AccessDeniedException"), FakeAnswer::Break]).await, 1);
    }
}
