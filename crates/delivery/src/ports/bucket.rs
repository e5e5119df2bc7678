use std::future::Future;
use std::time::Duration;

use tidegate_core::bucket::{Pace, Terms};
use tidegate_core::rate::Rate;

use super::PortError;

/// A take of recipients, which is granted from all of its buckets or from none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakeRequest<'a> {
    /// The account's rate, and the rate margin that applies to every bucket.
    pub pace: Pace,
    /// The most recipients to take from the account's bucket.
    pub wanted: u32,
    /// The fewest recipients of use, from 1 to `wanted`. A mail needs its recipients as one block (`least` =
    /// `wanted`); `least` = 1 takes up to `wanted` single ones.
    pub least: u32,
    /// Takes from limits' buckets, granted together with the account's.
    pub limits: &'a [LimitTake],
}

/// Recipients to take from one limit's bucket, as one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitTake {
    /// The bucket's name: the limit's, such as `gmail.com` or `campaign:news`.
    pub name: String,
    /// The limit's rate, in recipients per second.
    pub rate: Rate,
    /// The number of recipients, at least 1.
    pub recipients: u32,
}

impl LimitTake {
    /// The terms of this limit's bucket for a sender that paces the account at `pace`.
    pub const fn terms(&self, pace: Pace) -> Terms {
        Terms::of_limit(self.rate, pace)
    }
}

/// The result of a take, with the server's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The number of recipients granted, or the refusal.
    pub answer: Answer,
    /// The server's time in microseconds since the epoch. Grants are bounded by this clock, not by the
    /// caller's.
    pub at_micros: u64,
}

/// A bucket's answer to a take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The recipients granted from the account's bucket, from `least` to `wanted`; from each limit's bucket
    /// all were granted.
    Granted(u32),
    /// No recipients were granted, and no bucket has changed.
    Refused {
        /// The same take is certainly refused before this time has passed.
        after: Duration,
        /// The limit whose bucket has the longest wait; `None` if it is the account's.
        by: Option<String>,
    },
}

/// The token buckets that all senders of the account share.
pub trait Bucket {
    /// Takes recipients atomically: no other take comes between the check and the grant.
    ///
    /// # Errors
    /// [`PortError`] within about 300 ms if the server does not answer; the take may have been granted all
    /// the same.
    fn take(&self, request: &TakeRequest<'_>) -> impl Future<Output = Result<Taken, PortError>>;

    /// Connects and loads what the first take needs. Errors are not returned; the next take reports them.
    fn warm(&self) -> impl Future<Output = ()>;
}
