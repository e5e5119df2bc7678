//! The token bucket: SES's "maximum sending rate", in exact integers.

use super::{BucketSeconds, MaxSendRate};

/// One recipient, in the bucket's unit: billionths of a recipient per second times nanoseconds.
/// In this unit a refill is a whole number, so nothing is ever rounded away.
const RECIPIENT: i128 = 1_000_000_000_000_000_000;

/// Refills continuously at the quota, up to its depth; starts full.
///
/// An example with 14 recipients a second and a depth of 1 s, 14 recipients: ten mails at 0 s leave
/// 4. After 500 ms the level is 4 + 7 = 11, and a mail of 12 is refused. After a further 72 ms it
/// is just above 12, and the mail passes. A mail of 50 recipients waits until the bucket is full,
/// leaves it at 14 - 50 = -36, and the next mail of one recipient passes when the level is 1 again,
/// 37/14 = 2.64 s later.
///
/// A mail of more recipients than the bucket can ever hold is let through when the bucket is
/// full and leaves it in debt, so that its recipients are paid for by the silence after it.
#[derive(Debug, Clone)]
pub(crate) struct RecipientBucket {
    quota: MaxSendRate,
    depth: i128,
    level: i128,
    refilled_ns: u64,
}

impl RecipientBucket {
    pub(crate) fn new(quota: MaxSendRate, depth: BucketSeconds, now_ns: u64) -> Self {
        let depth = units(quota, depth.nanos());
        Self { quota, depth, level: depth, refilled_ns: now_ns }
    }

    /// Changes rate and depth from `now_ns` on. What was earned until then stays, up to the new
    /// depth.
    pub(crate) fn retune(&mut self, now_ns: u64, quota: MaxSendRate, depth: BucketSeconds) {
        self.refill(now_ns);
        self.quota = quota;
        self.depth = units(quota, depth.nanos());
        self.level = self.level.min(self.depth);
    }

    /// Whether a mail with this many recipients may pass at `now_ns`.
    pub(crate) fn has_room(&mut self, now_ns: u64, recipients: u32) -> bool {
        self.refill(now_ns);
        self.level >= (i128::from(recipients) * RECIPIENT).min(self.depth)
    }

    /// Takes the recipients out, into debt if need be.
    pub(crate) fn take(&mut self, now_ns: u64, recipients: u32) {
        self.refill(now_ns);
        self.level -= i128::from(recipients) * RECIPIENT;
    }

    fn refill(&mut self, now_ns: u64) {
        let elapsed = now_ns.saturating_sub(self.refilled_ns);
        self.level = (self.level + units(self.quota, elapsed)).min(self.depth);
        self.refilled_ns = self.refilled_ns.max(now_ns);
    }
}

fn units(quota: MaxSendRate, nanos: u64) -> i128 {
    i128::from(quota.nano()) * i128::from(nanos)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn quota(rate: f64) -> MaxSendRate {
        MaxSendRate::per_second(rate).expect("rate")
    }

    fn depth(seconds: f64) -> BucketSeconds {
        BucketSeconds::new(seconds).expect("depth")
    }

    fn offer(bucket: &mut RecipientBucket, now: u64, recipients: u32) -> bool {
        let passes = bucket.has_room(now, recipients);
        if passes {
            bucket.take(now, recipients);
        }
        passes
    }

    #[test]
    fn a_full_bucket_passes_one_second_of_quota_at_once() {
        let mut bucket = RecipientBucket::new(quota(14.0), depth(1.0), 0);
        let passed = (0..40).filter(|_| offer(&mut bucket, 0, 1)).count();
        assert_eq!(passed, 14);
    }

    #[test]
    fn a_mail_larger_than_the_bucket_needs_it_full_and_is_paid_for_afterwards() {
        let mut bucket = RecipientBucket::new(quota(10.0), depth(1.0), 0);
        assert!(offer(&mut bucket, 0, 1));
        assert!(!offer(&mut bucket, SECOND / 20, 50), "not full yet");
        assert!(offer(&mut bucket, SECOND / 10, 50), "full again");
        assert!(!offer(&mut bucket, 4 * SECOND, 1), "4 s pay for 40 of the 40 owed");
        assert!(offer(&mut bucket, 4 * SECOND + SECOND / 5, 1));
    }

    #[test]
    fn a_change_of_rate_pays_the_time_before_it_at_the_old_rate() {
        let mut bucket = RecipientBucket::new(quota(10.0), depth(1.0), 0);
        bucket.take(0, 10);
        bucket.retune(SECOND / 2, quota(1000.0), depth(1.0));
        let passed = (0..100).filter(|_| offer(&mut bucket, SECOND / 2, 1)).count();
        assert_eq!(passed, 5);
    }

    #[test]
    fn a_clock_that_steps_back_gives_nothing_twice() {
        let mut bucket = RecipientBucket::new(quota(1.0), depth(1.0), 10 * SECOND);
        assert!(offer(&mut bucket, 10 * SECOND, 1));
        assert!(!offer(&mut bucket, 9 * SECOND, 1));
        assert!(!offer(&mut bucket, 10 * SECOND + SECOND / 2, 1));
        assert!(offer(&mut bucket, 11 * SECOND, 1));
    }

    proptest! {
        #[test]
        fn never_more_than_depth_and_rate_times_time(
            rate in prop_oneof![0.1_f64..30.0, 30.0_f64..10_000.0],
            seconds in 0.01_f64..3.0,
            // Bursts, and silences in which a bucket could fill beyond its depth.
            gaps in prop::collection::vec(
                prop_oneof![9 => 0_u64..1_000_000, 1 => 0_u64..6_000_000_000],
                1..300,
            ),
        ) {
            let (rate, seconds) = (quota(rate), depth(seconds));
            let start = 1_700_000_000 * SECOND;
            let mut bucket = RecipientBucket::new(rate, seconds, start);
            let mut arrivals = Vec::new();
            let mut now = start;
            for gap in gaps {
                now += gap;
                if offer(&mut bucket, now, 1) {
                    arrivals.push(now);
                }
            }
            // From every accepted arrival to every later one, not only from the start. A bucket
            // that never holds a whole recipient passes one when full, so it owes up to one.
            for (i, from) in arrivals.iter().enumerate() {
                for (j, to) in arrivals.iter().enumerate().skip(i) {
                    let passed = i128::try_from(j - i + 1).expect("small") * RECIPIENT;
                    let most = units(rate, seconds.nanos()).max(RECIPIENT) + units(rate, to - from);
                    prop_assert!(passed <= most);
                }
            }
        }

        #[test]
        fn a_continuous_offer_is_served_at_the_rate(
            rate in 0.5_f64..2_000.0,
            step in 1_000_u64..400_000,
        ) {
            let rate = quota(rate);
            let mut bucket = RecipientBucket::new(rate, depth(1.0), 0);
            let mut accepted = 0_i128;
            let mut now = 0;
            while now < 2 * SECOND {
                if offer(&mut bucket, now, 1) {
                    accepted += 1;
                }
                now += step;
            }
            prop_assert!((accepted + 1) * RECIPIENT >= units(rate, now - step));
        }
    }
}
