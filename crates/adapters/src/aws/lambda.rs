//! `Invoke` on Lambda: sends ticks to the poller as asynchronous invocations, and wakes a stack that sleeps because its
//! queues were empty.

use std::error::Error as StdError;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_lambda::Client;
use aws_sdk_lambda::config::retry::RetryConfig;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use tidegate_core::tick::Tick;
use tidegate_delivery::ports::{Clock as _, FailureKind, Invoke, Monotonic, PortError};

use super::error::{port_error, refused, time_limits};
use super::system::SystemClock;

const OPERATION: &str = "Invoke";
const TIMEOUT: Duration = Duration::from_secs(2);

/// Invokes the poller asynchronously, without retries and within 2 s.
#[derive(Clone, Debug)]
pub struct LambdaInvoke {
    client: Client,
    function: String,
}

impl LambdaInvoke {
    /// Invokes `function` (a name or an ARN) with `client`, whose retries and time limits are replaced.
    pub fn new(client: &Client, function: impl Into<String>) -> Self {
        // A retry could invoke the poller twice for one tick, and it would come too late for the window.
        let config = client.config().to_builder().retry_config(RetryConfig::disabled());
        let client =
            Client::from_conf(config.timeout_config(time_limits(TIMEOUT, TIMEOUT)).build());
        Self { client, function: function.into() }
    }

    /// Invokes the function asynchronously with an empty event: for a scheduler this means to have mail sent
    /// at once ([`tidegate_core::idle::is_wake`]).
    ///
    /// # Errors
    /// [`PortError`] if Lambda did not accept it.
    pub async fn wake(&self) -> Result<(), PortError> {
        self.event(b"{}".to_vec()).await
    }

    async fn event(&self, payload: Vec<u8>) -> Result<(), PortError> {
        let call = self.client.invoke().function_name(&self.function);
        let call = call.invocation_type(InvocationType::Event).payload(Blob::new(payload));
        call.send().await.map_err(|error| port_error(OPERATION, &self.function, error))?;
        Ok(())
    }
}

impl Invoke for LambdaInvoke {
    async fn tick(&self, tick: &Tick) -> Result<(), PortError> {
        let payload = serde_json::to_vec(tick).map_err(|error| {
            refused(OPERATION, &self.function, "a tick that cannot be written", error)
        })?;
        self.event(payload).await
    }
}

/// A woken scheduler issues ticks for a minute. It is not woken again within this time.
const AGAIN: Duration = Duration::from_secs(30);

/// The pause before a failed wake is tried again; each of the three that may follow is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

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
        {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.is_some_and(|last| now.saturating_since(last) < AGAIN) {
                return;
            }
            *last = Some(now);
        }
        let mut pauses = (0..4).map(|tried| FIRST_PAUSE * 2_u32.pow(tried));
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
    use serde_json::json;
    use tidegate_delivery::ports::FailureKind;

    use super::*;
    use crate::aws::tests::fake::{Fake, FakeAnswer};

    fn tick() -> Tick {
        let tick = br#"{"window": "2026-11-20T20:36:07Z", "rate_per_second": 14.0}"#;
        Tick::from_value(&serde_json::from_slice(tick).unwrap()).unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_tick_is_an_event_invoke_of_the_poller() {
        let lambda = Fake::once(202, "");
        LambdaInvoke::new(&lambda.lambda(), "poller").tick(&tick()).await.unwrap();
        let seen = lambda.seen();
        assert!(seen[0].path.ends_with("/2015-03-31/functions/poller/invocations"));
        assert_eq!(seen[0].header("x-amz-invocation-type"), Some("Event"));
        let expected = json!({"window": "2026-11-20T20:36:07Z", "rate_per_second": 14.0});
        assert_eq!(seen[0].body, expected);
    }

    #[tokio::test]
    async fn the_30_s_after_a_wake_are_not_renewed_by_what_asks_within_them() {
        let lambda = Fake::once(202, "");
        let waker = Waker::new(LambdaInvoke::new(&lambda.lambda(), "scheduler"));
        waker.wake().await;
        let woken = *waker.last.lock().unwrap();
        waker.wake().await;
        assert_eq!((lambda.seen().len(), *waker.last.lock().unwrap()), (1, woken));
    }

    #[tokio::test]
    async fn a_wake_is_an_event_invoke_that_does_not_come_from_eventbridge() {
        let lambda = Fake::once(202, "");
        LambdaInvoke::new(&lambda.lambda(), "scheduler").wake().await.unwrap();
        let seen = lambda.seen();
        assert!(seen[0].path.ends_with("/2015-03-31/functions/scheduler/invocations"));
        assert_eq!(seen[0].header("x-amz-invocation-type"), Some("Event"));
        assert!(tidegate_core::idle::is_wake(&seen[0].body));
    }

    async fn failure(lambda: &Fake) -> PortError {
        LambdaInvoke::new(&lambda.lambda(), "poller").tick(&tick()).await.unwrap_err()
    }

    #[tokio::test]
    async fn a_missing_function_is_told_by_name() {
        let body = r#"{"Type":"User","Message":"Function not found: arn:aws:lambda:eu-west-1:123456789012:function:poller"}"#;
        let headers = &[("x-amzn-errortype", "ResourceNotFoundException")];
        let error = failure(&Fake::new([FakeAnswer::Http(404, headers, body.to_owned())])).await;
        assert_eq!(error.kind, FailureKind::NotFound);
        assert_eq!(error.to_string(), "Invoke on poller failed: it does not exist");
        assert!(tidegate_core::in_full(&error).contains("Function not found: arn"));
    }

    #[tokio::test]
    async fn a_failed_invoke_is_not_tried_again() {
        let body = r#"{"Type":"User","Reason":"ReservedFunctionConcurrentInvocationLimitExceeded","message":"Rate Exceeded."}"#;
        let headers: &[_] = &[("x-amzn-errortype", "TooManyRequestsException")];
        let throttled = || FakeAnswer::Http(429, headers, body.to_owned());
        let lambda = Fake::new([throttled(), throttled()]);
        let error = failure(&lambda).await;
        assert_eq!(error.kind, FailureKind::Refused("TooManyRequestsException".to_owned()));
        assert_eq!(failure(&Fake::new([FakeAnswer::Break])).await.kind, FailureKind::Unreachable);
        assert_eq!(lambda.seen().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_service_costs_two_seconds() {
        let before = tokio::time::Instant::now();
        assert_eq!(failure(&Fake::new([FakeAnswer::Silence])).await.kind, FailureKind::TimedOut);
        assert_eq!(before.elapsed(), TIMEOUT);
    }
}

#[cfg(test)]
mod waker_tests {
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
        assert_eq!(wakes((0..9).map(|_| throttled()).collect()).await, 1 + 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wake_that_nobody_may_make_is_not_tried_again() {
        assert_eq!(wakes(vec![refused(403, "AccessDeniedException"), FakeAnswer::Break]).await, 1);
    }
}
