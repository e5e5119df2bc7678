use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};
use tidegate_delivery::ports::Entropy;

use crate::shared::SharedState;

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
