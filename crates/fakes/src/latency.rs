use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use tidegate_delivery::ports::Entropy;

use crate::entropy::SeededEntropy;
use crate::value::{LONGEST, ValueError, parse_span, show_span};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "serde_json::Value")]
pub struct Latency {
    least: Duration,
    most: Duration,
    /// Log-normal: `least` is the median, `most` the 99th percentile.
    skewed: bool,
}

impl Latency {
    pub const NONE: Self = Self::always(Duration::ZERO);
    const ALLOWED: &str =
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
    pub(crate) async fn around<R>(
        self,
        entropy: &SeededEntropy,
        act: impl Future<Output = R>,
    ) -> R {
        let half = self.draw(entropy) / 2;
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
        let span = |part: &str| parse_span(part, Self::ALLOWED).map_err(|_| refused());
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

impl TryFrom<serde_json::Value> for Latency {
    type Error = ValueError;

    fn try_from(value: serde_json::Value) -> Result<Self, ValueError> {
        let text = value.as_str().ok_or_else(|| ValueError::new(&value, Self::ALLOWED))?;
        text.parse()
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

#[cfg(test)]
mod tests {
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
