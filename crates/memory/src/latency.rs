use std::time::Duration;

use tidegate_delivery::ports::Entropy;

use crate::entropy::SeededEntropy;

/// How long a call takes: evenly between two durations.
///
/// Half of it passes before the service acts and half before its answer arrives, so a caller that
/// gives up in between has acted without knowing.
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
}

impl Latency {
    /// No time at all.
    pub const NONE: Self = Self::always(Duration::ZERO);

    /// Always `duration`.
    #[must_use]
    pub const fn always(duration: Duration) -> Self {
        Self { least: duration, most: duration }
    }

    /// Evenly from `least` to `most`; always `least` where that is the larger.
    #[must_use]
    pub const fn between(least: Duration, most: Duration) -> Self {
        Self { least, most }
    }

    /// Draws how long one call takes.
    pub(crate) fn draw(self, entropy: &SeededEntropy) -> Duration {
        let spread = self.most.saturating_sub(self.least);
        if spread.is_zero() { self.least } else { self.least + spread.mul_f64(entropy.unit()) }
    }

    /// Draws the two halves of one call.
    pub(crate) fn halves(self, entropy: &SeededEntropy) -> Halves {
        Halves(self.draw(entropy) / 2)
    }
}

/// The two halves of a call's latency.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Halves(Duration);

impl Halves {
    pub(crate) async fn request(self) {
        pass(self.0).await;
    }

    pub(crate) async fn answer(self) {
        pass(self.0).await;
    }
}

/// Lets `duration` pass; without one it does not even yield.
pub(crate) async fn pass(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}
