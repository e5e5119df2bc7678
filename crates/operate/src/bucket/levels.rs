use serde::Serialize;
use tidegate_core::Timestamp;
use tidegate_delivery::ports::BucketLevel;

use super::ACCOUNT;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BucketsReport {
    pub at: String,
    /// Every bucket that has a key on the server, the account's first. A bucket without a key is
    /// full.
    pub buckets: Vec<BucketStatus>,
}

/// The state of one bucket, by the rate and margin of its last client.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BucketStatus {
    pub bucket: String,
    /// Recipients per second that it grants: the rate less the rate margin.
    pub per_second: f64,
    /// How many takes of one recipient would be granted now.
    pub free_now: u64,
    /// Milliseconds until a take of one recipient would be granted; 0 if now.
    pub next_free_ms: f64,
    /// The same as a time of the server's clock.
    pub next_free_at: String,
    pub period_us: u64,
    /// How far ahead of its rate it may grant, in microseconds.
    pub tolerance_us: u64,
}

impl BucketsReport {
    /// Reports `levels` at `now`, which is in microseconds of the server's clock.
    #[expect(clippy::cast_precision_loss, reason = "shown with two or three decimals")]
    pub fn of(now: u64, levels: &[BucketLevel]) -> Self {
        let at = |micros: u64| Timestamp::from_nanos(micros.saturating_mul(1_000)).to_string();
        let level = |level: &BucketLevel| {
            let wait = level.terms.wait(level.full_at, now);
            BucketStatus {
                bucket: level.name.clone().unwrap_or_else(|| ACCOUNT.to_owned()),
                per_second: (1e9 / level.terms.period as f64).round() / 1e3,
                free_now: level.terms.free(level.full_at, now),
                next_free_ms: wait as f64 / 1e3,
                next_free_at: at(now + wait),
                period_us: level.terms.period,
                tolerance_us: level.terms.tolerance,
            }
        };
        Self { at: at(now), buckets: levels.iter().map(level).collect() }
    }
}
