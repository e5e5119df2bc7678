use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_delivery::ports::{Clock, Monotonic};
use tokio::time::Instant;

use crate::shared::SharedState;

/// The true time, which the simulated services use. An environment sees it through a [`SimClock`],
/// which may be wrong.
///
/// It runs on tokio's timers. In a paused runtime (`start_paused`, tokio's `test-util`) time jumps
/// to the next timer, in steps of 1 ms, and nothing really waits.
#[derive(Clone, Copy, Debug)]
pub struct Universe {
    origin: Instant,
    epoch: Timestamp,
}

impl Universe {
    /// A universe in which it is `epoch` now. Must be called inside a tokio runtime.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { origin: Instant::now(), epoch }
    }

    pub fn now(&self) -> Timestamp {
        self.epoch + self.elapsed()
    }

    pub fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Sleeps until the true time `at`; returns immediately if it has passed.
    pub async fn sleep_until(&self, at: Timestamp) {
        let instant = self.origin + at.saturating_since(self.epoch);
        if instant > Instant::now() {
            tokio::time::sleep_until(instant).await;
        }
    }

    /// A clock of an environment without offset.
    pub fn clock(&self) -> SimClock {
        self.clock_with_offset(0)
    }

    /// An environment's clock whose wall is `offset_nanos` ahead of true time (behind, if negative).
    pub fn clock_with_offset(&self, offset_nanos: i64) -> SimClock {
        SimClock {
            universe: *self,
            started: Instant::now(),
            offset_nanos: SharedState::new(offset_nanos),
            pause: SharedState::new(Duration::ZERO),
        }
    }
}

/// One environment's clock. A clone shows the same clock.
///
/// The wall clock may be wrong and may step. The monotonic clock counts from the creation of the
/// clock, so that code which compares the clocks of two environments fails in tests.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use tidegate_core::Timestamp;
/// use tidegate_delivery::ports::Clock;
/// use tidegate_fakes::Universe;
/// let universe = Universe::starting_at(Timestamp::from_millis(1_000_000));
/// let clock = universe.clock_with_offset(-200_000_000);
/// assert!(clock.wall() < universe.now());
/// clock.step(200_000_000);
/// assert!(clock.wall() >= Timestamp::from_millis(1_000_000));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SimClock {
    universe: Universe,
    started: Instant,
    offset_nanos: SharedState<i64>,
    /// The age of the next reading: a pause of the process that falls right after it.
    pause: SharedState<Duration>,
}

impl SimClock {
    /// Moves the wall clock by `nanos`, back if negative. The monotonic clock does not notice.
    pub fn step(&self, nanos: i64) {
        self.offset_nanos.with(|offset| *offset = offset.saturating_add(nanos));
    }

    /// Pauses the process right after it next reads a clock: the value is this old when the process
    /// uses it.
    pub fn pause_after_reading(&self, pause: Duration) {
        self.pause.with(|next| *next = pause);
    }

    /// How far the wall clock is ahead of true time, in nanoseconds.
    pub fn offset_nanos(&self) -> i64 {
        self.offset_nanos.with(|offset| *offset)
    }

    pub fn universe(&self) -> Universe {
        self.universe
    }
}

impl Clock for SimClock {
    fn wall(&self) -> Timestamp {
        let now = self.universe.now().saturating_sub(self.pause.with(std::mem::take)).as_nanos();
        Timestamp::from_nanos(now.saturating_add_signed(self.offset_nanos()))
    }

    fn monotonic(&self) -> Monotonic {
        let now = Monotonic::from_origin(self.started.elapsed());
        now.before(self.pause.with(std::mem::take))
    }

    async fn sleep_until(&self, at: Monotonic) {
        match self.started.checked_add(at.since_origin()) {
            Some(instant) if instant > Instant::now() => tokio::time::sleep_until(instant).await,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn two_environments_share_true_time_but_neither_wall_nor_monotonic_clock() {
        let universe = Universe::starting_at(Timestamp::from_nanos(7_000_000_001));
        let first = universe.clock_with_offset(200);
        tokio::time::sleep(SECOND).await;
        let second = universe.clock();
        assert_eq!(first.wall(), Timestamp::from_nanos(8_000_000_201));
        assert_eq!(second.wall(), Timestamp::from_nanos(8_000_000_001));
        assert_eq!(first.monotonic().since_origin(), SECOND);
        assert_eq!(second.monotonic().since_origin(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wall_that_steps_back_leaves_the_monotonic_clock_alone() {
        let clock = Universe::starting_at(Timestamp::from_millis(10_000)).clock();
        let until = clock.monotonic() + SECOND;
        clock.clone().step(-500_000_000);
        clock.sleep_until(until).await;
        assert_eq!(clock.monotonic(), until);
        assert_eq!(clock.wall(), Timestamp::from_millis(10_500));
    }

    #[tokio::test(start_paused = true)]
    async fn both_clocks_are_read_at_one_instant_though_a_pause_falls_in_between() {
        let clock = Universe::starting_at(Timestamp::from_millis(10_000)).clock();
        clock.sleep_until(clock.monotonic() + SECOND).await;
        clock.pause_after_reading(Duration::from_millis(300));
        let (wall, monotonic) = clock.now();
        assert_eq!(wall, Timestamp::from_millis(11_000));
        assert_eq!(monotonic.since_origin(), SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_is_never_early_and_past_instants_return_at_once() {
        let universe = Universe::starting_at(Timestamp::from_nanos(3));
        let clock = universe.clock();
        let at = Monotonic::from_origin(Duration::from_nanos(72_857_143));
        clock.sleep_until(at).await;
        assert!(clock.monotonic() >= at);
        assert!(clock.monotonic().saturating_since(at) < Duration::from_millis(1));
        let before = universe.elapsed();
        clock.sleep_until(Monotonic::default()).await;
        universe.sleep_until(Timestamp::default()).await;
        assert_eq!(universe.elapsed(), before);
    }
}
