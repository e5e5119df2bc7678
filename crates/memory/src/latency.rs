use std::time::Duration;

use tidegate_delivery::ports::Entropy;

use crate::entropy::SeededEntropy;

/// The latency of a call: uniformly distributed between two durations, or log-normally.
///
/// Half of it passes before the service acts, and half before its answer arrives. A caller that
/// gives up in between does not know that its call took effect.
///
/// ```
/// use std::time::Duration;
/// use tidegate_memory::Latency;
/// let ms = Duration::from_millis;
/// let ses = Latency::between(ms(60), ms(100));
/// assert_eq!(Latency::NONE, Latency::always(Duration::ZERO));
/// # let _ = ses;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    least: Duration,
    most: Duration,
    /// Log-normal: `least` is the median, `most` the 99th percentile.
    skewed: bool,
}

/// The standard normal distribution's 99th percentile.
const Z99: f64 = 2.326_347_874_040_841;
const LONGEST: f64 = 3_600.0;

impl Latency {
    pub const NONE: Self = Self::always(Duration::ZERO);

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
            return Duration::from_secs_f64((p50 * (spread * normal(entropy)).exp()).min(LONGEST));
        }
        self.least + spread.mul_f64(entropy.unit())
    }

    /// Draws the two halves of one call.
    pub(crate) fn halves(self, entropy: &SeededEntropy) -> HalfLatency {
        HalfLatency(self.draw(entropy) / 2)
    }
}

/// A standard normal draw (Box and Muller's).
fn normal(entropy: &SeededEntropy) -> f64 {
    let (radius, turn) = (entropy.unit(), entropy.unit());
    // The draw is below 1, so `1.0 - radius` is above 0 and its logarithm is finite.
    (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * turn).cos()
}

/// The two halves of a call's latency.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HalfLatency(Duration);

impl HalfLatency {
    pub(crate) async fn request(self) {
        wait(self.0).await;
    }

    pub(crate) async fn answer(self) {
        wait(self.0).await;
    }
}

/// Waits for `duration`; a zero duration does not yield to other tasks.
pub(crate) async fn wait(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_normal_latency_has_its_median_and_its_99th_percentile() {
        let ms = Duration::from_millis;
        let (latency, entropy) = (Latency::log_normal(ms(80), ms(400)), SeededEntropy::new(7));
        let mut drawn: Vec<Duration> = (0..20_000).map(|_| latency.draw(&entropy)).collect();
        drawn.sort();
        assert!((ms(77)..ms(83)).contains(&drawn[10_000]), "{:?}", drawn[10_000]);
        assert!((ms(370)..ms(430)).contains(&drawn[19_800]), "{:?}", drawn[19_800]);
        assert_eq!(Latency::log_normal(ms(5), ms(5)).draw(&entropy), ms(5));
    }
}
