use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};
use serde::{Serialize, Serializer};
use tidegate_core::Timestamp;
use tidegate_core::memory::{MB_PER_PROCESSOR, Memory};
use tidegate_delivery::ports::{Clock, Entropy, Monotonic};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::shared::SharedState;
use crate::value::{LONGEST, ValueError, parse_span, show_span};

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
        let (offset_nanos, pause) = (SharedState::new(offset_nanos), SharedState::default());
        let (started, megabyte) = (Instant::now(), Duration::ZERO);
        let turn = Arc::new(Semaphore::new(1));
        SimClock { universe: *self, started, offset_nanos, pause, turn, megabyte }
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
    /// Work beside the slots is done one after the other.
    turn: Arc<Semaphore>,
    /// Time that reading and writing a megabyte of mail takes; zero unless told.
    megabyte: Duration,
}

/// How often the kernel hands out a function's share of a processor, in nanoseconds.
const PERIOD_NS: u64 = 20_000_000;
/// Of a whole processor (measured: `make bench ONLY=lambda-large`), which a function with [`MB_PER_PROCESSOR`] has.
const MEGABYTE: Duration = Duration::from_millis(4);

impl SimClock {
    /// The clock on a function with this memory, whose share of a processor works on mail.
    pub fn on(self, memory: Memory) -> Self {
        Self { megabyte: MEGABYTE * MB_PER_PROCESSOR / memory.0.max(1), ..self }
    }

    /// The time that work on `bytes` of mail takes.
    pub(crate) fn takes(&self, bytes: usize) -> Duration {
        self.megabyte * u32::try_from(bytes / 10_000).unwrap_or(u32::MAX) / 100
    }

    /// While work goes on beside, a small function's share of each period is used up after its first part, and nothing
    /// else goes on before the next one.
    async fn share(&self) {
        if self.turn.available_permits() == 0 && self.megabyte > MEGABYTE {
            let period = Duration::from_nanos(PERIOD_NS);
            let into = Duration::from_nanos(self.universe.now().as_nanos() % PERIOD_NS);
            if into > period.mul_f64(MEGABYTE.div_duration_f64(self.megabyte)) {
                wait(period.saturating_sub(into)).await;
            }
        }
    }

    /// Moves the wall clock by `nanos`, back if negative. The monotonic clock does not notice.
    pub fn step(&self, nanos: i64) {
        self.offset_nanos.with(|offset| *offset = offset.saturating_add(nanos));
    }

    /// Pauses the process right after it next reads a clock: the value is this old when the process
    /// uses it.
    pub fn pause_after_reading(&self, pause: Duration) {
        self.pause.with(|next| *next = pause);
    }
}

impl Clock for SimClock {
    fn wall(&self) -> Timestamp {
        let now = self.universe.now().saturating_sub(self.pause.with(std::mem::take)).as_nanos();
        Timestamp::from_nanos(now.saturating_add_signed(self.offset_nanos.with(|offset| *offset)))
    }

    fn monotonic(&self) -> Monotonic {
        let now = Monotonic::from_origin(self.started.elapsed());
        now.before(self.pause.with(std::mem::take))
    }

    async fn beside<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let _turn = self.turn.acquire().await;
        wait(self.takes(bytes)).await;
        work()
    }

    async fn sleep_until(&self, at: Monotonic) {
        match self.started.checked_add(at.since_origin()) {
            Some(instant) if instant > Instant::now() => {
                tokio::time::sleep_until(instant).await;
                self.share().await;
            }
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}

/// The standard normal distribution's 99th percentile.
const Z99: f64 = 2.326_347_874_040_841;

/// The latency of a call: uniformly distributed between two durations, or log-normally. Read from and
/// written as a text; each time at most one hour.
///
/// Half of it passes before the service acts, and half before its answer arrives. A caller that
/// gives up in between does not know that its call took effect.
///
/// ```
/// use std::time::Duration;
/// use tidegate_fakes::Latency;
/// let ms = Duration::from_millis;
/// assert_eq!("80ms".parse(), Ok(Latency::always(ms(80))));
/// assert_eq!("60ms..100ms".parse(), Ok(Latency::between(ms(60), ms(100))));
/// assert_eq!("p50=80ms,p99=400ms".parse(), Ok(Latency::log_normal(ms(80), ms(400))));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    least: Duration,
    most: Duration,
    /// Log-normal: `least` is the median, `most` the 99th percentile.
    skewed: bool,
}

impl Latency {
    pub const NONE: Self = Self::always(Duration::ZERO);
    /// The texts that can be read as one, in words.
    pub const ALLOWED: &str =
        "a time such as `80ms`, `50ms..5s` or `p50=80ms,p99=400ms`, in rising order, at most 1h";

    pub const fn always(duration: Duration) -> Self {
        Self { least: duration, most: duration, skewed: false }
    }

    /// Uniform from `least` to `most`; always `least` if that is larger.
    pub const fn between(least: Duration, most: Duration) -> Self {
        Self { least, most, skewed: false }
    }

    /// Log-normal by its median and its 99th percentile; always `p50` if that is larger, and never
    /// more than an hour.
    pub const fn log_normal(p50: Duration, p99: Duration) -> Self {
        Self { least: p50, most: p99, skewed: true }
    }

    /// Draws how long one call takes.
    pub(crate) fn draw(self, entropy: &SeededEntropy) -> Duration {
        let spread = self.most.saturating_sub(self.least);
        if spread.is_zero() || self.least.is_zero() && self.skewed {
            return self.least;
        }
        if self.skewed {
            let (p50, p99) = (self.least.as_secs_f64(), self.most.as_secs_f64());
            // The logarithm is normally distributed. Its 99th percentile is Z99 standard deviations
            // above its median, which gives the standard deviation.
            let spread = (p99 / p50).ln() / Z99;
            let seconds = p50 * (spread * normal(entropy)).exp();
            return Duration::from_secs_f64(seconds.min(LONGEST.as_secs_f64()));
        }
        self.least + spread.mul_f64(entropy.unit())
    }

    /// One call: half of the time that is drawn passes before `act`, and half after.
    pub(crate) async fn around<R>(self, chance: &SeededEntropy, act: impl Future<Output = R>) -> R {
        let half = self.draw(chance) / 2;
        wait(half).await;
        let done = act.await;
        wait(half).await;
        done
    }
}

impl FromStr for Latency {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let refused = || ValueError::new(format_args!("`{text}`"), Self::ALLOWED);
        let span = |part: &str| parse_span(part).ok_or_else(refused);
        let read = if let Some((least, most)) = text.split_once("..") {
            let (least, most) = (span(least)?, span(most)?);
            (least <= most).then_some(Self::between(least, most))
        } else if let Some(rest) = text.trim().strip_prefix("p50=") {
            let (p50, p99) = rest.split_once(',').ok_or_else(refused)?;
            let p99 = p99.trim().strip_prefix("p99=").ok_or_else(refused)?;
            let (p50, p99) = (span(p50)?, span(p99)?);
            (!p50.is_zero() && p50 <= p99).then_some(Self::log_normal(p50, p99))
        } else {
            Some(Self::always(span(text)?))
        };
        read.ok_or_else(refused)
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = (show_span(self.least), show_span(self.most));
        match self {
            Self { skewed: true, .. } => write!(f, "p50={least},p99={most}"),
            Self { least: from, most: to, .. } if from == to => f.write_str(&least),
            _ => write!(f, "{least}..{most}"),
        }
    }
}

impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A standard normal draw (Box and Muller's).
fn normal(entropy: &SeededEntropy) -> f64 {
    let (radius, turn) = (entropy.unit(), entropy.unit());
    // The draw is below 1, so `1.0 - radius` is above 0 and its logarithm is finite.
    (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * turn).cos()
}

/// Waits for `duration`; a zero duration does not yield to other tasks.
pub(crate) async fn wait(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}

/// Randomness that repeats: the same seed gives the same values. A clone continues the same
/// sequence.
///
/// ```
/// use tidegate_delivery::ports::Entropy;
/// use tidegate_fakes::SeededEntropy;
/// let (a, b) = (SeededEntropy::new(1), SeededEntropy::new(1));
/// assert_eq!(a.token(), b.token());
/// assert_ne!(a.token(), a.token());
/// ```
#[derive(Clone, Debug)]
pub struct SeededEntropy(SharedState<Xoshiro256PlusPlus>);

impl SeededEntropy {
    pub fn new(seed: u64) -> Self {
        Self(SharedState::new(Xoshiro256PlusPlus::seed_from_u64(seed)))
    }

    /// An independent sequence for another environment, as reproducible as this one.
    pub fn fork(&self) -> Self {
        Self::new(self.bits())
    }

    pub fn bits(&self) -> u64 {
        self.0.with(Rng::next_u64)
    }

    /// True with probability `share`; draws nothing at 0 and 1.
    pub(crate) fn chance(&self, share: f64) -> bool {
        share >= 1.0 || (share > 0.0 && self.unit() < share)
    }

    /// A text as SQS writes its ids: 128 bits as a UUID.
    pub(crate) fn uuid(&self) -> String {
        let hex = self.token();
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        parts.join("-")
    }
}

impl Entropy for SeededEntropy {
    fn token(&self) -> String {
        format!("{:016x}{:016x}", self.bits(), self.bits())
    }

    fn unit(&self) -> f64 {
        self.0.with(RngExt::random)
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

#[cfg(test)]
mod latency_tests {
    use super::*;

    fn latency(text: &str) -> Latency {
        text.parse().unwrap()
    }

    fn draws(text: &str, count: usize) -> Vec<Duration> {
        let entropy = SeededEntropy::new(7);
        let mut drawn: Vec<_> = (0..count).map(|_| latency(text).draw(&entropy)).collect();
        drawn.sort();
        drawn
    }

    #[test]
    fn every_shape_reads_what_it_writes() {
        for text in ["0ms", "80ms", "1s 500ms", "50ms..5s", "p50=80ms,p99=400ms"] {
            assert_eq!(latency(text).to_string(), text);
        }
    }

    #[test]
    fn what_is_no_latency_is_refused_with_the_value_and_the_forms_allowed() {
        let wrong =
            ["", "80", "fast", "5s..50ms", "p50=80ms", "p50=0s,p99=1s", "p50=2s,p99=1s", "2h"];
        for text in wrong {
            let error = text.parse::<Latency>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("50ms..5s"), "{error}");
        }
    }

    #[test]
    fn a_uniform_latency_stays_between_its_ends_and_uses_the_room() {
        let drawn = draws("100ms..300ms", 10_000);
        assert!(drawn[0] >= Duration::from_millis(100) && drawn[0] < Duration::from_millis(105));
        assert!(drawn[9_999] <= Duration::from_millis(300));
        assert!(drawn[9_999] > Duration::from_millis(295));
    }

    #[test]
    fn a_log_normal_latency_has_its_median_and_its_99th_percentile() {
        let drawn = draws("p50=80ms,p99=400ms", 100_000);
        let millis = |part: usize| drawn[part].as_secs_f64() * 1e3;
        assert!((millis(50_000) - 80.0).abs() < 2.0, "{}", millis(50_000));
        assert!((millis(99_000) - 400.0).abs() < 20.0, "{}", millis(99_000));
        let ms = Duration::from_millis;
        let same = Latency::log_normal(ms(5), ms(5));
        assert_eq!(same.draw(&SeededEntropy::new(7)), ms(5));
    }
}

#[cfg(test)]
mod entropy_tests {
    use super::*;

    #[test]
    fn units_lie_between_zero_and_one_and_spread_over_it() {
        let entropy = SeededEntropy::new(7);
        let units: Vec<f64> = (0..10_000).map(|_| entropy.unit()).collect();
        assert!(units.iter().all(|unit| (0.0..1.0).contains(unit)));
        let below_half = units.iter().filter(|unit| **unit < 0.5).count();
        assert!((4_800..5_200).contains(&below_half), "{below_half}");
    }

    #[test]
    fn a_fork_is_reproducible_and_unlike_its_parent() {
        let fork = || SeededEntropy::new(3).fork();
        assert_eq!(fork().token(), fork().token());
        assert_ne!(fork().token(), SeededEntropy::new(3).token());
    }

    #[test]
    fn ids_have_the_form_of_a_uuid() {
        let id = SeededEntropy::new(1).uuid();
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
    }
}
