//! The time that the sandbox takes to answer.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize, Serializer};

use crate::value::{LONGEST, ValueError, parse_span, show_span};

/// The standard normal distribution's 99th percentile.
const Z99: f64 = 2.326_347_874_040_841;

/// The time between a request fully read and its answer, drawn for each request.
///
/// Read from and written as a string; each time at most one hour:
///
/// ```
/// use ses_sandbox::AnswerLatency;
/// let same: AnswerLatency = "80ms".parse()?;                 // always the same
/// let uniform: AnswerLatency = "50ms..5s".parse()?;          // evenly between the two
/// let skewed: AnswerLatency = "p50=80ms,p99=400ms".parse()?; // log-normal, by median and 99th percentile
/// assert_eq!(skewed.to_string(), "p50=80ms,p99=400ms");
/// # Ok::<(), ses_sandbox::ValueError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "serde_json::Value")]
pub struct AnswerLatency(LatencyShape);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LatencyShape {
    Fixed(Duration),
    Uniform(Duration, Duration),
    LogNormal { p50: Duration, p99: Duration },
}

impl AnswerLatency {
    const ALLOWED: &str =
        "a time such as `80ms`, `50ms..5s` or `p50=80ms,p99=400ms`, in rising order, at most 1h";

    /// Draws one request's latency, at most one hour.
    pub(crate) fn draw(self, rng: &mut impl Rng) -> Duration {
        match self.0 {
            LatencyShape::Fixed(span) => span,
            LatencyShape::Uniform(least, most) => rng.random_range(least..=most),
            LatencyShape::LogNormal { p50, p99 } => {
                let normal: f64 = rng.sample(StandardNormal);
                // The logarithm is normal with mean ln(p50); its 99th percentile lies Z99
                // deviations above.
                let spread = (p99.as_secs_f64() / p50.as_secs_f64()).ln() / Z99;
                let seconds = p50.as_secs_f64() * (spread * normal).exp();
                Duration::from_secs_f64(seconds.min(LONGEST.as_secs_f64()))
            }
        }
    }
}

impl Default for AnswerLatency {
    /// No latency: the answer leaves at once.
    fn default() -> Self {
        Self(LatencyShape::Fixed(Duration::ZERO))
    }
}

impl FromStr for AnswerLatency {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let refused = || ValueError::new(format_args!("`{text}`"), Self::ALLOWED);
        let span = |part: &str| parse_span(part, Self::ALLOWED).map_err(|_| refused());
        let shape = if let Some((least, most)) = text.split_once("..") {
            let (least, most) = (span(least)?, span(most)?);
            (least <= most).then_some(LatencyShape::Uniform(least, most))
        } else if let Some(rest) = text.trim().strip_prefix("p50=") {
            let (p50, p99) = rest.split_once(',').ok_or_else(refused)?;
            let p99 = p99.trim().strip_prefix("p99=").ok_or_else(refused)?;
            let (p50, p99) = (span(p50)?, span(p99)?);
            (!p50.is_zero() && p50 <= p99).then_some(LatencyShape::LogNormal { p50, p99 })
        } else {
            Some(LatencyShape::Fixed(span(text)?))
        };
        shape.map(Self).ok_or_else(refused)
    }
}

impl TryFrom<serde_json::Value> for AnswerLatency {
    type Error = ValueError;

    fn try_from(value: serde_json::Value) -> Result<Self, ValueError> {
        let text = value.as_str().ok_or_else(|| ValueError::new(&value, Self::ALLOWED))?;
        text.parse()
    }
}

impl fmt::Display for AnswerLatency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            LatencyShape::Fixed(span) => f.write_str(&show_span(span)),
            LatencyShape::Uniform(least, most) => {
                write!(f, "{}..{}", show_span(least), show_span(most))
            }
            LatencyShape::LogNormal { p50, p99 } => {
                write!(f, "p50={},p99={}", show_span(p50), show_span(p99))
            }
        }
    }
}

impl Serialize for AnswerLatency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    fn latency(text: &str) -> AnswerLatency {
        text.parse().expect(text)
    }

    fn draws(text: &str, count: usize) -> Vec<Duration> {
        let mut rng = StdRng::seed_from_u64(7);
        let mut drawn: Vec<_> = (0..count).map(|_| latency(text).draw(&mut rng)).collect();
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
            let error = text.parse::<AnswerLatency>().expect_err(text).to_string();
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
    fn a_skewed_latency_has_the_median_and_the_99th_percentile_asked_for() {
        let drawn = draws("p50=80ms,p99=400ms", 100_000);
        let millis = |part: usize| drawn[part].as_secs_f64() * 1e3;
        assert!((millis(50_000) - 80.0).abs() < 2.0, "{}", millis(50_000));
        assert!((millis(99_000) - 400.0).abs() < 20.0, "{}", millis(99_000));
    }
}
