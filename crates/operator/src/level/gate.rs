use std::time::Duration;

use thiserror::Error;
use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::email::Priority;
use tidegate_delivery::ports::{Clock, Ledger, Monotonic, PortError};

use tidegate_core::format::span;

/// The level is read at most this often; the scheduler judges it once a minute.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);

pub trait LevelSource {
    fn level(&self) -> impl Future<Output = Result<BackPressureLevel, PortError>>;
}

impl LevelSource for () {
    async fn level(&self) -> Result<BackPressureLevel, PortError> {
        Ok(BackPressureLevel::Clear)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct LedgerLevel<'a, L, C> {
    pub ledger: &'a L,
    pub clock: &'a C,
}

impl<L: Ledger, C: Clock> LevelSource for LedgerLevel<'_, L, C> {
    async fn level(&self) -> Result<BackPressureLevel, PortError> {
        super::level(self.ledger, self.clock).await
    }
}

/// How a run of `tidegate send` reacts to the back-pressure level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelPolicy {
    pub ignore: bool,
    /// The longest total wait; `None` waits as long as needed.
    pub max_wait: Option<Duration>,
}

/// The level deferred the run's mail for longer than the run may wait.
#[derive(Clone, Copy, Debug, Error)]
#[error(
    "the level is {level}, which defers messages of {priority} priority; waited for {}: run it again later, or with --even-if-deferred",
    span(*.waited)
)]
pub struct LevelTimeout {
    level: BackPressureLevel,
    priority: Priority,
    waited: Duration,
}

/// Decides before each batch whether the level defers mail of the run's priority.
pub(crate) struct LevelGate<'a, G> {
    source: &'a G,
    priority: Priority,
    policy: LevelPolicy,
    next: Option<Monotonic>,
    since: Option<Monotonic>,
}

impl<'a, G: LevelSource> LevelGate<'a, G> {
    pub(crate) fn new(source: &'a G, priority: Priority, policy: LevelPolicy) -> Self {
        Self { source, priority, policy, next: None, since: None }
    }

    /// Returns until when the next batch must wait and the level that defers it; `None` if it may
    /// be sent. If the ledger does not answer, the batch may be sent: the queue can hold it.
    pub(crate) async fn until(
        &mut self,
        clock: &impl Clock,
    ) -> Result<Option<(Monotonic, BackPressureLevel)>, LevelTimeout> {
        let now = clock.monotonic();
        // Between two readings mail may be sent, unless the last reading deferred it.
        if self.policy.ignore || (self.since.is_none() && self.next.is_some_and(|n| now < n)) {
            return Ok(None);
        }
        let level = self.source.level().await.unwrap_or_default();
        let next = now + CHECK_INTERVAL;
        self.next = Some(next);
        if !level.defers(self.priority) {
            self.since = None;
            return Ok(None);
        }
        let since = *self.since.get_or_insert(now);
        let Some(max_wait) = self.policy.max_wait else { return Ok(Some((next, level))) };
        let waited = now.saturating_since(since);
        if waited >= max_wait {
            return Err(LevelTimeout { level, priority: self.priority, waited });
        }
        Ok(Some((next.min(since + max_wait), level)))
    }
}
