use std::future::Future;
use std::time::Duration;

use tidegate_core::bucket::{FullAt, Pace, Terms};
use tidegate_core::rate::Rate;

use super::PortError;

/// What is to be taken, from all buckets or from none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakeRequest<'a> {
    /// The account's rate, and the rate margin of every bucket.
    pub pace: Pace,
    /// So many recipients of the account's bucket, where there are so many.
    pub wanted: u32,
    /// The fewest that are of use, as one block: a mail's recipients, or 1 to claim up to `wanted`.
    /// From 1 to `wanted`.
    pub least: u32,
    /// What is taken beside it, of other buckets.
    pub domains: &'a [DomainTake],
}

/// What is taken of a domain's bucket, as one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainTake {
    /// The domain, or the group of domains; its bucket's name.
    pub name: String,
    /// Its rate.
    pub rate: Rate,
    /// How many recipients, from 1.
    pub recipients: u32,
}

impl DomainTake {
    /// The bucket's terms, of a taker at this pace.
    pub const fn terms(&self, pace: Pace) -> Terms {
        Terms::of_domain(self.rate, pace)
    }
}

/// What a take came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// How many of the account's recipients were granted, or that none were.
    pub answer: Answer,
    /// The server's time, in microseconds since the epoch: grants are bounded by this clock.
    pub at_micros: u64,
}

/// A bucket's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// So many recipients, from `least` to `wanted`; of each domain all.
    Granted(u32),
    /// None, and nothing was taken.
    Refused {
        /// Earlier than after this it would be refused again.
        after: Duration,
        /// Whose bucket waits longest: a domain's; none for the account's.
        by: Option<String>,
    },
}

/// The buckets that every sender of the account takes from.
pub trait Bucket {
    /// Takes what is asked for, in one step that no other take comes between.
    ///
    /// # Errors
    /// [`PortError`] within about 300 ms where nobody knows whether it was granted.
    fn take(&self, request: &TakeRequest<'_>) -> impl Future<Output = Result<Taken, PortError>>;

    /// Makes ready for the first take. Failures show at the take.
    fn warm(&self) -> impl Future<Output = ()>;
}

/// How one bucket stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketLevel {
    /// The domain's name; none for the account.
    pub name: Option<String>,
    /// When it is full, in microseconds of the server's clock.
    pub full_at: FullAt,
    /// What its last taker went by.
    pub terms: Terms,
}

/// A look at the buckets.
pub trait BucketLevels {
    /// The server's time in microseconds since the epoch, and each bucket that says something: the account's
    /// first, then the domains' by name.
    ///
    /// # Errors
    /// [`PortError`].
    fn levels(&self) -> impl Future<Output = Result<(u64, Vec<BucketLevel>), PortError>>;
}
