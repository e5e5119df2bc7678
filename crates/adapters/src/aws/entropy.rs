//! Randomness from the operating system's generator.

use tidegate_delivery::ports::Entropy;

/// The process's random generator, seeded by the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn token(&self) -> String {
        format!("{:032x}", rand::random::<u128>())
    }

    fn unit(&self) -> f64 {
        rand::random()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn tokens_are_128_bits_in_hex_and_none_is_drawn_twice() {
        let tokens: BTreeSet<String> = (0..1_000).map(|_| SystemEntropy.token()).collect();
        assert_eq!(tokens.len(), 1_000);
        assert!(tokens.iter().all(|t| t.len() == 32 && t.chars().all(|c| c.is_ascii_hexdigit())));
    }

    #[test]
    fn units_lie_in_zero_to_one_and_spread() {
        let units: Vec<f64> = (0..1_000).map(|_| SystemEntropy.unit()).collect();
        assert!(units.iter().all(|u| (0.0..1.0).contains(u)));
        assert!(units.iter().any(|u| *u < 0.1) && units.iter().any(|u| *u > 0.9));
    }
}
