//! Enforces the account's quota: recipients a second, and recipients in 24 hours.
//!
//! The token bucket: SES's "maximum sending rate", in exact integers.
//!
//! Recipients of the last 24 hours.
//!
//! The quota's own values: recipients a second, the bucket's depth, recipients a day.
//!
//! The money that text messages have cost in the current month.
//!
//! Recipients in the half-open second that ends at each arrival.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use tidegate_core::Timestamp;
use tidegate_core::rate::Rate;

use crate::value::ValueError;

/// The quota that a mail would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuotaExceeded {
    Rate,
    Daily,
}

/// The account's quota, and how a second's recipients are counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuotaRules {
    pub(crate) rate: MaxSendRate,
    pub(crate) bucket: BucketSeconds,
    /// Count any half-open second instead of using the bucket.
    pub(crate) strict: bool,
    /// Recipients that strict counting lets into one second; a mail of more passes alone.
    pub(crate) most_in_a_second: u64,
    /// Recipients in 24 hours.
    pub(crate) daily: Option<u64>,
}

/// Decides which mails the quota lets through. Times must not go back.
///
/// Both ways of counting a second are kept up to date whichever of them rules, so that the mode
/// can change while the account is used.
#[derive(Debug)]
pub(crate) struct QuotaGate {
    bucket: RecipientBucket,
    second: SlidingSecond,
    day: RollingDay,
    /// Strict counting: until when a mail larger than one second's quota is being paid for.
    owed_until_ns: u64,
}

impl QuotaGate {
    pub(crate) fn new(rules: &QuotaRules, now_ns: u64) -> Self {
        Self {
            bucket: RecipientBucket::new(rules.rate, rules.bucket, now_ns),
            second: SlidingSecond::default(),
            day: RollingDay::default(),
            owed_until_ns: 0,
        }
    }

    /// Takes over changed rules from `now_ns` on.
    pub(crate) fn retune(&mut self, now_ns: u64, rules: &QuotaRules) {
        self.bucket.retune(now_ns, rules.rate, rules.bucket);
    }

    /// Lets a mail through and counts it, or refuses it and counts nothing.
    pub(crate) fn admit(
        &mut self,
        rules: &QuotaRules,
        now_ns: u64,
        recipients: u32,
    ) -> Result<(), QuotaExceeded> {
        if rules
            .daily
            .is_some_and(|most| self.day.recipients(now_ns) + u64::from(recipients) > most)
        {
            return Err(QuotaExceeded::Daily);
        }
        let has_room = if rules.strict {
            self.has_room_in_second(now_ns, recipients, rules.most_in_a_second)
        } else {
            self.bucket.has_room(now_ns, recipients)
        };
        if !has_room {
            return Err(QuotaExceeded::Rate);
        }
        if u64::from(recipients) > rules.most_in_a_second {
            self.owed_until_ns = now_ns.saturating_add(rules.nanos_owed(recipients));
        }
        self.bucket.take(now_ns, recipients);
        self.second.add(now_ns, recipients);
        self.day.add(now_ns, recipients.into());
        Ok(())
    }

    /// Counts recipients of other software in the day only, not in the second.
    pub(crate) fn send_as_another(&mut self, now_ns: u64, recipients: u64) {
        self.day.add(now_ns, recipients);
    }

    /// Recipients accepted in the 24 hours before `now_ns`.
    pub(crate) fn sent_last_24_hours(&mut self, now_ns: u64) -> u64 {
        self.day.recipients(now_ns)
    }

    /// Recipients accepted in the second that ends at `now_ns`.
    #[cfg(feature = "sandbox")]
    pub(crate) fn sent_last_second(&mut self, now_ns: u64) -> u64 {
        self.second.recipients(now_ns)
    }

    fn has_room_in_second(&mut self, now_ns: u64, recipients: u32, most: u64) -> bool {
        let held = self.second.recipients(now_ns);
        let fits = held + u64::from(recipients) <= most || held == 0;
        fits && now_ns >= self.owed_until_ns
    }
}

impl QuotaRules {
    /// How long recipients take at the rate, or at whole recipients a second if that is slower.
    fn nanos_owed(&self, recipients: u32) -> u64 {
        let nano =
            u128::from(self.rate.nano().min(self.most_in_a_second.saturating_mul(SECOND_NS)));
        let second = u128::from(SECOND_NS);
        let owed = u128::from(recipients) * second * second / nano;
        u64::try_from(owed).unwrap_or(u64::MAX)
    }
}

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

const DAY_S: u64 = 86_400;

/// Recipients over the last 24 hours, kept by whole seconds: a second leaves the count at most
/// one second late, and a full day is 86,400 entries however many mails it had.
#[derive(Debug, Clone, Default)]
pub(crate) struct RollingDay {
    seconds: VecDeque<(u64, u64)>,
    recipients: u64,
}

impl RollingDay {
    /// Recipients in the 24 hours before `now_ns`.
    pub(crate) fn recipients(&mut self, now_ns: u64) -> u64 {
        let now = now_ns / SECOND_NS;
        while let Some(&(second, recipients)) = self.seconds.front() {
            if second + DAY_S >= now {
                break;
            }
            self.recipients -= recipients;
            self.seconds.pop_front();
        }
        self.recipients
    }

    pub(crate) fn add(&mut self, now_ns: u64, recipients: u64) {
        let now = now_ns / SECOND_NS;
        self.recipients += recipients;
        match self.seconds.back_mut() {
            Some((second, count)) if *second >= now => *count += recipients,
            _ => self.seconds.push_back((now, recipients)),
        }
    }
}

const NANO: f64 = 1e9;

/// The account's `MaxSendRate`: recipients per second, from 0.001 to 1,000,000, kept in whole
/// billionths so that a refill never rounds.
///
/// ```
/// use tidegate_fakes::MaxSendRate;
/// assert_eq!(MaxSendRate::per_second(14.0)?.as_f64(), 14.0);
/// assert!(MaxSendRate::per_second(0.0).is_err());
/// # Ok::<(), tidegate_fakes::ValueError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "Value")]
pub struct MaxSendRate(u64);

impl MaxSendRate {
    const ALLOWED: &str = "a number of recipients per second from 0.001 to 1000000";

    /// A quota in recipients per second.
    ///
    /// # Errors
    /// Outside 0.001 to 1,000,000.
    pub fn per_second(recipients: f64) -> Result<Self, ValueError> {
        nano(recipients, 0.001, 1e6).map(Self).ok_or(ValueError::new(recipients, Self::ALLOWED))
    }

    pub fn as_f64(self) -> f64 {
        from_nano(self.0)
    }

    pub(crate) fn of(rate: Rate) -> Self {
        // A rate's range lies within a quota's, so the default is never taken.
        nano(rate.as_per_second(), 0.001, 1e6).map_or_else(Self::default, Self)
    }

    /// Billionths of a recipient per second.
    pub(crate) fn nano(self) -> u64 {
        self.0
    }

    /// Whole recipients that strict mode lets into one second: the quota rounded down, at least 1.
    #[cfg(feature = "sandbox")]
    pub(crate) fn whole(self) -> u64 {
        (self.0 / 1_000_000_000).max(1)
    }
}

/// The token bucket's depth as seconds' worth of quota, from 0.001 to 86,400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "Value")]
pub struct BucketSeconds(u64);

impl BucketSeconds {
    const ALLOWED: &str = "a number of seconds from 0.001 to 86400";

    /// A depth in seconds' worth of quota.
    ///
    /// # Errors
    /// Outside 0.001 to 86,400.
    pub fn new(seconds: f64) -> Result<Self, ValueError> {
        nano(seconds, 0.001, 86_400.0).map(Self).ok_or(ValueError::new(seconds, Self::ALLOWED))
    }

    pub fn as_f64(self) -> f64 {
        from_nano(self.0)
    }

    pub(crate) fn nanos(self) -> u64 {
        self.0
    }
}

impl Default for BucketSeconds {
    fn default() -> Self {
        Self(1_000_000_000)
    }
}

impl Default for MaxSendRate {
    /// 14 recipients per second, what SES grants an account that leaves its sandbox.
    fn default() -> Self {
        Self(14_000_000_000)
    }
}

/// A limit of a period: `Max24HourSend`, the recipients in any 24 hours, or the US dollars that texts may cost in a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "Value")]
pub enum PeriodLimit {
    /// There is no limit; `GetAccount` answers -1.
    #[default]
    Unlimited,
    /// At most this many recipients or dollars.
    AtMost(u64),
}

impl PeriodLimit {
    const ALLOWED: &str = "a whole number of recipients or dollars, or `unlimited` (-1)";

    #[cfg(feature = "sandbox")]
    pub(crate) fn most(self) -> Option<u64> {
        match self {
            Self::Unlimited => None,
            Self::AtMost(most) => Some(most),
        }
    }
}

impl FromStr for PeriodLimit {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        match text {
            "unlimited" | "-1" => Ok(Self::Unlimited),
            number => number
                .parse()
                .map(Self::AtMost)
                .map_err(|_| ValueError::new(format_args!("`{text}`"), Self::ALLOWED)),
        }
    }
}

impl TryFrom<Value> for PeriodLimit {
    type Error = ValueError;

    fn try_from(value: Value) -> Result<Self, ValueError> {
        match &value {
            Value::String(text) => text.parse(),
            Value::Number(number) => number.to_string().parse(),
            other => Err(ValueError::new(other, Self::ALLOWED)),
        }
    }
}

impl fmt::Display for PeriodLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("unlimited"),
            Self::AtMost(count) => count.fmt(f),
        }
    }
}

impl Serialize for PeriodLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unlimited => serializer.serialize_str("unlimited"),
            Self::AtMost(count) => serializer.serialize_u64(*count),
        }
    }
}

macro_rules! number_setting {
    ($name:ident, $new:path) => {
        impl FromStr for $name {
            type Err = ValueError;

            fn from_str(text: &str) -> Result<Self, ValueError> {
                let refused = || ValueError::new(format_args!("`{text}`"), Self::ALLOWED);
                text.parse().map_err(|_| refused()).and_then($new)
            }
        }

        impl TryFrom<Value> for $name {
            type Error = ValueError;

            fn try_from(value: Value) -> Result<Self, ValueError> {
                value.as_f64().ok_or_else(|| ValueError::new(&value, Self::ALLOWED)).and_then($new)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.as_f64().fmt(f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_f64(self.as_f64())
            }
        }
    };
}
number_setting!(MaxSendRate, MaxSendRate::per_second);
number_setting!(BucketSeconds, BucketSeconds::new);

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked first and lies within 2^53 at the top"
)]
fn nano(number: f64, least: f64, most: f64) -> Option<u64> {
    (least..=most).contains(&number).then(|| (number * NANO).round() as u64)
}

#[expect(clippy::cast_precision_loss, reason = "at most 1e15, below 2^53")]
fn from_nano(nano: u64) -> f64 {
    nano as f64 / NANO
}

/// The parts sent in one calendar month (UTC), at a dollar each.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    month: (i32, u8),
    parts: u64,
}

impl Spent {
    /// Whether a text of `parts` stays within the limit.
    pub(crate) fn leaves(&mut self, parts: u32, limit: Option<u64>, at: Timestamp) -> bool {
        self.turn(at);
        limit.is_none_or(|limit| self.parts + u64::from(parts) <= limit)
    }

    pub(crate) fn add(&mut self, parts: u32, at: Timestamp) {
        self.turn(at);
        self.parts += u64::from(parts);
    }

    fn turn(&mut self, at: Timestamp) {
        if self.month != at.month() {
            *self = Self { month: at.month(), parts: 0 };
        }
    }
}

/// One second in nanoseconds.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// Counts recipients over `(t - 1 s, t]` for arrivals in order of time, and remembers the worst.
///
/// It is enough to look at seconds that end at an arrival: moving any second back until it ends at
/// its last arrival loses none of its arrivals. With arrivals at 0.0, 0.6 and 1.0 s the counts are
/// 1, 2 and 2: the first is exactly 1 s before the last, so no half-open second contains all three.
#[derive(Debug, Clone, Default)]
pub(crate) struct SlidingSecond {
    arrivals: VecDeque<(u64, u32)>,
    recipients: u64,
    worst: u64,
}

impl SlidingSecond {
    /// Recipients in the second that ends at `now_ns`.
    pub(crate) fn recipients(&mut self, now_ns: u64) -> u64 {
        while let Some(&(at, recipients)) = self.arrivals.front() {
            if at.saturating_add(SECOND_NS) > now_ns {
                break;
            }
            self.recipients -= u64::from(recipients);
            self.arrivals.pop_front();
        }
        self.recipients
    }

    /// Counts an arrival; times must not go back.
    pub(crate) fn add(&mut self, now_ns: u64, recipients: u32) {
        self.worst = self.worst.max(self.recipients(now_ns) + u64::from(recipients));
        self.arrivals.push_back((now_ns, recipients));
        self.recipients += u64::from(recipients);
    }

    /// The most recipients that any half-open second held.
    pub(crate) fn worst(&self) -> u64 {
        self.worst
    }
}

/// The most recipients in any half-open second of `arrivals`: nanoseconds and recipients, in order of
/// time.
///
/// ```
/// use tidegate_fakes::worst_second;
/// let arrivals = [(0, 1), (600_000_000, 1), (1_000_000_000, 1)];
/// assert_eq!(worst_second(arrivals), 2);
/// ```
pub fn worst_second(arrivals: impl IntoIterator<Item = (u64, u32)>) -> u64 {
    let mut second = SlidingSecond::default();
    for (at_ns, recipients) in arrivals {
        second.add(at_ns, recipients);
    }
    second.worst()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(quota: f64, strict: bool) -> QuotaRules {
        let rate = MaxSendRate::per_second(quota).unwrap();
        QuotaRules {
            rate,
            bucket: BucketSeconds::default(),
            strict,
            most_in_a_second: rate.whole(),
            daily: None,
        }
    }

    #[test]
    fn strict_mode_refuses_what_a_bucket_would_let_through_across_a_second() {
        let (strict, bucket) = (rules(10.0, true), rules(10.0, false));
        let passed = |rules: &QuotaRules| {
            let mut gate = QuotaGate::new(rules, 0);
            let offers = (0..100).map(|i| i * 9_999_999);
            offers.filter(|now| gate.admit(rules, *now, 1).is_ok()).count()
        };
        assert_eq!(passed(&strict), 10);
        assert_eq!(passed(&bucket), 19);
    }

    #[test]
    fn a_mail_larger_than_a_second_passes_alone_and_is_paid_for_by_silence() {
        for strict in [false, true] {
            let at = |ms: u64| ms * SECOND_NS / 1_000;
            let rules = rules(10.0, strict);
            let mut gate = QuotaGate::new(&rules, 0);
            let mut admit = |ms, recipients| gate.admit(&rules, at(ms), recipients);
            assert_eq!(admit(0, 1), Ok(()));
            assert_eq!(admit(50, 25), Err(QuotaExceeded::Rate));
            assert_eq!(admit(1_000, 25), Ok(()));
            assert_eq!(admit(2_400, 1), Err(QuotaExceeded::Rate));
            assert_eq!(admit(3_500, 1), Ok(()));
        }
    }

    #[test]
    fn a_large_mail_is_paid_for_at_the_slower_of_rate_and_whole_recipients() {
        let of = |quota, most_in_a_second| QuotaRules { most_in_a_second, ..rules(quota, true) };
        assert_eq!(of(14.5, 14).nanos_owed(28), 2 * SECOND_NS);
        assert_eq!(of(14.5, 15).nanos_owed(29), 2 * SECOND_NS);
    }

    #[test]
    fn strict_mode_gives_a_large_mail_an_empty_second_and_then_silence() {
        let rules = rules(10.0, true);
        let mut gate = QuotaGate::new(&rules, 0);
        assert_eq!(gate.admit(&rules, 0, 1), Ok(()));
        assert_eq!(gate.admit(&rules, SECOND_NS / 2, 25), Err(QuotaExceeded::Rate));
        assert_eq!(gate.admit(&rules, SECOND_NS, 25), Ok(()));
        assert_eq!(gate.admit(&rules, 3 * SECOND_NS, 1), Err(QuotaExceeded::Rate));
        assert_eq!(gate.admit(&rules, 3 * SECOND_NS + SECOND_NS / 2, 1), Ok(()));
    }

    #[test]
    fn the_daily_quota_refuses_the_mail_that_would_go_over_it_and_frees_up_a_day_later() {
        let rules = QuotaRules { daily: Some(5), ..rules(100.0, false) };
        let mut gate = QuotaGate::new(&rules, 0);
        assert_eq!(gate.admit(&rules, 0, 4), Ok(()));
        assert_eq!(gate.admit(&rules, 1, 2), Err(QuotaExceeded::Daily));
        assert_eq!(gate.admit(&rules, 2, 1), Ok(()));
        assert_eq!(gate.sent_last_24_hours(2), 5);
        assert_eq!(gate.admit(&rules, 86_402 * SECOND_NS, 5), Ok(()));
    }

    #[test]
    fn a_refused_mail_spends_nothing() {
        let rules = rules(2.0, false);
        let mut gate = QuotaGate::new(&rules, 0);
        assert_eq!(gate.admit(&rules, 0, 2), Ok(()));
        for now in 1..100 {
            assert_eq!(gate.admit(&rules, now, 1), Err(QuotaExceeded::Rate));
        }
        assert_eq!(gate.admit(&rules, SECOND_NS / 2, 1), Ok(()));
        assert_eq!(gate.sent_last_24_hours(SECOND_NS), 3);
    }

    proptest! {
        #[test]
        fn strict_mode_never_accepts_more_than_the_quota_in_any_second(
            quota in 0.1_f64..200.0,
            offers in prop::collection::vec((0_u64..60_000_000, 1_u32..=50), 1..400),
        ) {
            let rules = rules(quota, true);
            let most = rules.most_in_a_second;
            let mut gate = QuotaGate::new(&rules, 0);
            let mut accepted: Vec<(u64, u64)> = Vec::new();
            let mut now = 0;
            for (gap, recipients) in offers {
                now += gap;
                if gate.admit(&rules, now, recipients).is_ok() {
                    accepted.push((now, u64::from(recipients)));
                }
            }
            for &(from, _) in &accepted {
                let held: Vec<u64> = accepted
                    .iter()
                    .filter(|(at, _)| (from..from + SECOND_NS).contains(at))
                    .map(|(_, recipients)| *recipients)
                    .collect();
                // The one exception that is promised: a mail larger than a second's quota, alone.
                prop_assert!(held.iter().sum::<u64>() <= most || held.len() == 1);
            }
        }
    }
}

#[cfg(test)]
mod bucket_tests {
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

#[cfg(test)]
mod daily_tests {
    use super::*;

    #[test]
    fn recipients_leave_the_count_a_day_and_at_most_a_second_later() {
        let mut day = RollingDay::default();
        day.add(SECOND_NS / 2, 5);
        day.add(10 * SECOND_NS, 2);
        assert_eq!(day.recipients(DAY_S * SECOND_NS + SECOND_NS / 2), 7);
        assert_eq!(day.recipients((DAY_S + 1) * SECOND_NS + SECOND_NS / 2), 2);
        assert_eq!(day.recipients((DAY_S + 11) * SECOND_NS), 0);
    }
}

#[cfg(test)]
mod values_tests {
    use super::*;

    #[test]
    fn values_out_of_range_are_refused_with_the_value_and_what_is_allowed() {
        for text in ["0", "-1", "1000001", "nan", "inf", "fast"] {
            let error = text.parse::<MaxSendRate>().expect_err(text).to_string();
            assert!(error.contains("from 0.001 to 1000000"), "{error}");
        }
        let error = "100000".parse::<BucketSeconds>().expect_err("too deep").to_string();
        assert_eq!(error, "must be a number of seconds from 0.001 to 86400, not 100000");
        let error = "-2".parse::<PeriodLimit>().expect_err("negative").to_string();
        assert!(error.contains("not `-2`"), "{error}");
    }

    #[test]
    fn strict_mode_counts_whole_recipients_and_at_least_one() {
        let whole = |rate| MaxSendRate::per_second(rate).expect("rate").whole();
        assert_eq!([whole(14.0), whole(14.9), whole(0.2), whole(1.0)], [14, 14, 1, 1]);
    }

    #[test]
    fn a_daily_quota_reads_what_it_writes() {
        for quota in [PeriodLimit::Unlimited, PeriodLimit::AtMost(0), PeriodLimit::AtMost(9)] {
            assert_eq!(quota.to_string().parse(), Ok(quota));
            let json = serde_json::to_value(quota).expect("serialize");
            assert_eq!(PeriodLimit::try_from(json), Ok(quota));
        }
    }
}

#[cfg(test)]
mod sliding_second_tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_arrival_one_second_earlier_no_longer_counts() {
        let mut second = SlidingSecond::default();
        second.add(0, 3);
        assert_eq!(second.recipients(SECOND_NS - 1), 3);
        assert_eq!(second.recipients(SECOND_NS), 0);
    }

    proptest! {
        #[test]
        fn the_worst_second_is_the_one_a_search_finds(
            gaps in prop::collection::vec((0_u64..500_000_000, 1_u32..5), 1..80),
        ) {
            let mut second = SlidingSecond::default();
            let mut arrivals = Vec::new();
            let mut now = 0;
            for (gap, recipients) in gaps {
                now += gap;
                arrivals.push((now, recipients));
                second.add(now, recipients);
            }
            let searched = arrivals.iter().map(|&(from, _)| {
                let held = arrivals.iter().filter(|(at, _)| (from..from + SECOND_NS).contains(at));
                held.map(|&(_, recipients)| u64::from(recipients)).sum::<u64>()
            });
            prop_assert_eq!(Some(second.worst()), searched.max());
        }
    }
}
