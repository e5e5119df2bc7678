//! Whole numbers and fractions.

/// A count as a fraction.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub const fn real(count: u64) -> f64 {
    count as f64
}

/// The whole part of a fraction; 0 for one below 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
pub const fn whole(value: f64) -> u64 {
    value as u64
}
