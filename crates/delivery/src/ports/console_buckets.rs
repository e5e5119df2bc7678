use std::future::Future;
use std::time::Duration;

use super::PortError;

/// The tokens that one console took from a bucket since its last exchange. A token is the time in which the
/// bucket regains it. All times are whole microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketCharge {
    /// The bucket's name, the same at all consoles of the stack, such as `events/address/192.0.2.7`.
    pub bucket: String,
    /// The tokens taken; zero only asks.
    pub charged: Duration,
    /// How far ahead of now the bucket would be full if nothing else had been taken from it.
    pub full_in: Duration,
    /// The bucket is full at most so far ahead of now, whatever was stored. It bounds a client's wait after the
    /// server's clock was set back.
    pub most: Duration,
}

impl BucketCharge {
    /// The time at which the bucket is full after this charge, where it was `full_at` before. All adapters
    /// compute this, in microseconds of the server's clock; `full_at` is 0 for a bucket that is not stored.
    pub fn applied(&self, full_at: u64, now: u64) -> u64 {
        let [charged, full_in, most] = [self.charged, self.full_in, self.most]
            .map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        let full_at = match charged {
            0 => full_at,
            _ => full_at.saturating_add(charged).max(now.saturating_add(full_in)),
        };
        full_at.min(now.saturating_add(most))
    }
}

/// The token buckets of event streams that all consoles of one stack share.
pub trait ConsoleBuckets {
    /// Charges the buckets, and returns for each of them, in their order, how far ahead of now it is full;
    /// zero for a full one.
    ///
    /// # Errors
    /// [`PortError`] within about 300 ms if the server does not answer; buckets may have been charged all the
    /// same.
    fn charge(
        &self,
        charges: &[BucketCharge],
    ) -> impl Future<Output = Result<Vec<Duration>, PortError>>;
}
