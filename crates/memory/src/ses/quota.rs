//! How SES counts recipients, per second and per day. The times passed in must not decrease.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::rate::Rate;
use tidegate_core::timestamp::nanos;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_hours(24);
/// One recipient in units of a millionth of a recipient per second times a nanosecond. In these
/// units a refill is an integer product, so nothing is rounded.
const RECIPIENT: i128 = 1_000_000_000_000_000;

/// How a second's recipients are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// A token bucket one second deep that refills continuously. After a pause it lets up to twice
    /// the rate into one second.
    #[default]
    Bucket,
    /// Never more than ⌈rate⌉ in any half-open second.
    SlidingSecond,
}

#[derive(Clone, Debug)]
pub(super) struct SlidingSum {
    span: Duration,
    passed: VecDeque<(Timestamp, u64)>,
    sum: u64,
}

impl SlidingSum {
    fn new(span: Duration) -> Self {
        Self { span, passed: VecDeque::new(), sum: 0 }
    }

    fn sum(&mut self, now: Timestamp) -> u64 {
        while let Some((at, recipients)) = self.passed.front()
            && *at + self.span <= now
        {
            self.sum -= recipients;
            self.passed.pop_front();
        }
        self.sum
    }

    fn add(&mut self, now: Timestamp, recipients: u64) {
        self.sum += recipients;
        self.passed.push_back((now, recipients));
    }
}

/// A token bucket that starts full. A mail with more recipients than the bucket holds passes when
/// the bucket is full and leaves it in debt.
#[derive(Clone, Debug)]
struct RateBucket {
    level: i128,
    refilled: Timestamp,
}

impl RateBucket {
    fn depth(rate: Rate) -> i128 {
        millionths(rate) * i128::from(nanos(SECOND))
    }

    fn refill(&mut self, now: Timestamp, rate: Rate) {
        let earned = i128::from(nanos(now.saturating_since(self.refilled)));
        self.level = (self.level + millionths(rate) * earned).min(Self::depth(rate));
        self.refilled = self.refilled.max(now);
    }

    fn has_room(&self, rate: Rate, recipients: u64) -> bool {
        self.level >= (i128::from(recipients) * RECIPIENT).min(Self::depth(rate))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a rate is at most 1e10 millionths")]
fn millionths(rate: Rate) -> i128 {
    (rate.as_per_second() * 1e6).round() as i128
}

/// The quota that a mail would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuotaExcess {
    Rate,
    Daily,
}

/// Admits mails. Both ways of counting are maintained all the time, so that a test can switch
/// between them.
#[derive(Clone, Debug)]
pub(super) struct SesQuota {
    rate: Rate,
    bucket: RateBucket,
    second: SlidingSum,
    /// With [`Counting::SlidingSecond`]: the time until which a mail with more recipients than a
    /// second allows blocks all others.
    owed_until: Timestamp,
    day: SlidingSum,
}

impl SesQuota {
    pub(super) fn new(rate: Rate, now: Timestamp) -> Self {
        Self {
            rate,
            bucket: RateBucket { level: RateBucket::depth(rate), refilled: now },
            second: SlidingSum::new(SECOND),
            owed_until: Timestamp::default(),
            day: SlidingSum::new(DAY),
        }
    }

    /// Changes the rate. Tokens earned until `now` are kept, up to the new depth.
    pub(super) fn set_rate(&mut self, now: Timestamp, rate: Rate) {
        // Time until now is paid at the old rate.
        self.bucket.refill(now, self.rate);
        self.rate = rate;
        self.bucket.refill(now, rate);
    }

    /// Admits a mail and counts it, or refuses it and counts nothing.
    pub(super) fn admit(
        &mut self,
        now: Timestamp,
        recipients: u64,
        counting: Counting,
        daily: Option<u64>,
    ) -> Result<(), QuotaExcess> {
        if daily.is_some_and(|most| self.sent_last_day(now).saturating_add(recipients) > most) {
            return Err(QuotaExcess::Daily);
        }
        self.bucket.refill(now, self.rate);
        let fits = match counting {
            Counting::Bucket => self.bucket.has_room(self.rate, recipients),
            Counting::SlidingSecond => self.fits_second(now, recipients),
        };
        if !fits {
            return Err(QuotaExcess::Rate);
        }
        // A mail with more recipients than a second allows passes alone, and blocks all others
        // until its recipients are paid for at the rate.
        if recipients > self.rate.ceil() {
            let seconds = u32::try_from(recipients).map_or(f64::MAX, f64::from);
            self.owed_until = now + SECOND.mul_f64(seconds / self.rate.as_per_second());
        }
        self.bucket.level -= i128::from(recipients) * RECIPIENT;
        self.second.add(now, recipients);
        self.day.add(now, recipients);
        Ok(())
    }

    /// Counts recipients of other software in the day only, not in the second.
    pub(super) fn send_as_another(&mut self, now: Timestamp, recipients: u64) {
        self.day.add(now, recipients);
    }

    pub(super) fn sent_last_day(&mut self, now: Timestamp) -> u64 {
        self.day.sum(now)
    }

    fn fits_second(&mut self, now: Timestamp, recipients: u64) -> bool {
        let held = self.second.sum(now);
        // An empty second admits any mail; otherwise a mail larger than the rate could never pass.
        now >= self.owed_until && (held == 0 || held + recipients <= self.rate.ceil())
    }
}

/// The most recipients that any half-open second of `arrivals` (in order of time) holds.
pub(super) fn worst_second(arrivals: impl Iterator<Item = (Timestamp, u64)>) -> u64 {
    let mut second = SlidingSum::new(SECOND);
    let counted = arrivals.map(|(at, recipients)| {
        second.add(at, recipients);
        second.sum(at)
    });
    counted.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_second: f64) -> Rate {
        Rate::per_second(per_second).unwrap()
    }

    fn passed(counting: Counting) -> usize {
        let start = Timestamp::from_millis(5_000);
        let mut quota = SesQuota::new(rate(10.0), start);
        let offers = (0..100).map(|i| start + Duration::from_nanos(i * 9_999_999));
        offers.filter(|now| quota.admit(*now, 1, counting, None).is_ok()).count()
    }

    #[test]
    fn a_bucket_lets_nearly_twice_the_rate_into_one_second_and_a_sliding_second_does_not() {
        assert_eq!(passed(Counting::Bucket), 19);
        assert_eq!(passed(Counting::SlidingSecond), 10);
    }

    #[test]
    fn a_mail_larger_than_a_second_passes_alone_and_is_paid_for_by_silence() {
        for counting in [Counting::Bucket, Counting::SlidingSecond] {
            let at = |ms: u64| Timestamp::from_millis(5_000 + ms);
            let mut quota = SesQuota::new(rate(10.0), at(0));
            let mut admit = |ms, recipients| quota.admit(at(ms), recipients, counting, None);
            assert_eq!(admit(0, 1), Ok(()));
            assert_eq!(admit(50, 25), Err(QuotaExcess::Rate));
            assert_eq!(admit(1_000, 25), Ok(()));
            assert_eq!(admit(2_400, 1), Err(QuotaExcess::Rate));
            assert_eq!(admit(3_500, 1), Ok(()));
        }
    }

    #[test]
    fn the_daily_quota_frees_up_a_day_later_and_refused_mails_spend_nothing() {
        let mut quota = SesQuota::new(rate(100.0), Timestamp::from_millis(0));
        let mut admit = |second: u64, recipients| {
            let now = Timestamp::from_millis(second * 1_000);
            quota.admit(now, recipients, Counting::Bucket, Some(5))
        };
        assert_eq!(admit(0, 4), Ok(()));
        assert_eq!(admit(1, 2), Err(QuotaExcess::Daily));
        assert_eq!(admit(2, 1), Ok(()));
        assert_eq!(admit(86_399, 1), Err(QuotaExcess::Daily));
        assert_eq!(admit(86_400, 4), Ok(()));
    }

    #[test]
    fn a_changed_rate_holds_from_the_change_on() {
        let at = Timestamp::from_millis;
        let mut quota = SesQuota::new(rate(10.0), at(0));
        assert_eq!(quota.admit(at(0), 10, Counting::Bucket, None), Ok(()));
        quota.set_rate(at(500), rate(2.0));
        // Five were earned, a bucket of two keeps two.
        assert_eq!(quota.admit(at(500), 2, Counting::Bucket, None), Ok(()));
        assert_eq!(quota.admit(at(999), 1, Counting::Bucket, None), Err(QuotaExcess::Rate));
        assert_eq!(quota.admit(at(1_000), 1, Counting::Bucket, None), Ok(()));
    }

    #[test]
    fn the_worst_second_is_half_open() {
        let at = Timestamp::from_millis;
        let arrivals = [(at(0), 1), (at(999), 2), (at(1_000), 3), (at(1_999), 1)];
        assert_eq!(worst_second(arrivals.into_iter()), 5);
        assert_eq!(worst_second(std::iter::empty()), 0);
    }
}
