//! The account's limits: recipients a second, recipients in 24 hours, and what texts cost in a month.

use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::number::real;
use tidegate_core::outcome::Failure;
use tidegate_core::rate::Rate;

use super::failures;
use crate::sliding_count::{SECOND_NS, SlidingCount};

/// The account's limits, and how a second's recipients are counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuotaRules {
    pub(crate) rate: Rate,
    /// The bucket's depth, as the time in which it fills.
    pub(crate) depth: Duration,
    /// Count any half-open second instead of using the bucket.
    pub(crate) strict: bool,
    /// Recipients that strict counting lets into one second; a mail of more passes alone.
    pub(crate) most_in_a_second: u64,
    /// Recipients in 24 hours.
    pub(crate) daily: Option<u64>,
    /// The most that text messages may cost in a calendar month (UTC), at a dollar a part.
    pub(crate) spend: Option<u64>,
}

/// Decides which mails and texts the quota lets through. Times must not go back.
///
/// Both ways of counting a second are kept up to date whichever of them rules, so that the mode
/// can change while the account is used.
#[derive(Debug)]
pub(crate) struct QuotaGate {
    bucket: RecipientBucket,
    second: SlidingCount,
    day: SlidingCount,
    /// Strict counting: until when a mail larger than one second's quota is being paid for.
    owed_until_ns: u64,
    /// The month of the last text, and the parts that it has had so far.
    month: (i32, u8),
    parts: u64,
}

impl QuotaGate {
    pub(crate) fn new(rules: &QuotaRules, now_ns: u64) -> Self {
        Self {
            bucket: RecipientBucket::new(rules, now_ns),
            second: SlidingCount::default(),
            day: SlidingCount::DAY,
            owed_until_ns: 0,
            month: Timestamp::from_nanos(now_ns).month(),
            parts: 0,
        }
    }

    /// Takes over changed rules from `now_ns` on.
    pub(crate) fn retune(&mut self, now_ns: u64, rules: &QuotaRules) {
        self.bucket.retune(now_ns, rules);
    }

    /// Lets a text of these parts through and counts it, or refuses it and counts nothing.
    pub(crate) fn admit_text(
        &mut self,
        rules: &QuotaRules,
        now_ns: u64,
        parts: u32,
    ) -> Result<(), Failure> {
        let month = Timestamp::from_nanos(now_ns).month();
        if self.month != month {
            (self.month, self.parts) = (month, 0);
        }
        if rules.spend.is_some_and(|most| self.parts + u64::from(parts) > most) {
            return Err(failures::spend_limit_reached());
        }
        self.admit(rules, now_ns, parts).map_err(|refusal| match refusal.code.as_deref() {
            Some("TooManyRequestsException") => failures::throttled(),
            _ => refusal,
        })?;
        self.parts += u64::from(parts);
        Ok(())
    }

    /// Lets a mail through and counts it, or refuses it and counts nothing.
    pub(crate) fn admit(
        &mut self,
        rules: &QuotaRules,
        now_ns: u64,
        recipients: u32,
    ) -> Result<(), Failure> {
        let slots = u64::from(recipients);
        if rules.daily.is_some_and(|most| self.day.recipients(now_ns) + slots > most) {
            return Err(failures::daily_quota_exceeded());
        }
        let has_room = if rules.strict {
            let held = self.second.recipients(now_ns);
            let fits = held + slots <= rules.most_in_a_second || held == 0;
            fits && now_ns >= self.owed_until_ns
        } else {
            self.bucket.has_room(now_ns, recipients)
        };
        if !has_room {
            return Err(failures::rate_exceeded());
        }
        if slots > rules.most_in_a_second {
            self.owed_until_ns = now_ns.saturating_add(rules.nanos_owed(recipients));
        }
        self.bucket.take(now_ns, recipients);
        self.second.add(now_ns, slots);
        self.day.add(now_ns, slots);
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
}

impl QuotaRules {
    /// `Max24HourSend`, as `GetAccount` tells it: -1 without a limit.
    pub(crate) fn max_24_hour_send(&self) -> f64 {
        self.daily.map_or(-1.0, real)
    }

    /// How long recipients take at the rate, or at whole recipients a second if that is slower.
    fn nanos_owed(&self, recipients: u32) -> u64 {
        let whole = self.most_in_a_second.saturating_mul(1_000_000);
        let millionths = u128::from(self.rate.as_millionths().min(whole));
        let owed = u128::from(recipients) * 1_000_000 * u128::from(SECOND_NS) / millionths;
        u64::try_from(owed).unwrap_or(u64::MAX)
    }
}

/// One recipient, in the bucket's unit: millionths of a recipient per second times nanoseconds.
/// In this unit a refill is a whole number, so nothing is ever rounded away.
const RECIPIENT: i128 = 1_000_000_000_000_000;

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
struct RecipientBucket {
    rate: Rate,
    depth: i128,
    level: i128,
    refilled_ns: u64,
}

impl RecipientBucket {
    fn new(rules: &QuotaRules, now_ns: u64) -> Self {
        let depth = units(rules.rate, rules.depth);
        Self { rate: rules.rate, depth, level: depth, refilled_ns: now_ns }
    }

    /// Changes rate and depth from `now_ns` on. What was earned until then stays, up to the new
    /// depth.
    fn retune(&mut self, now_ns: u64, rules: &QuotaRules) {
        self.refill(now_ns);
        (self.rate, self.depth) = (rules.rate, units(rules.rate, rules.depth));
        self.level = self.level.min(self.depth);
    }

    /// Whether a mail with this many recipients may pass at `now_ns`.
    fn has_room(&mut self, now_ns: u64, recipients: u32) -> bool {
        self.refill(now_ns);
        self.level >= (i128::from(recipients) * RECIPIENT).min(self.depth)
    }

    /// Takes the recipients out, into debt if need be.
    fn take(&mut self, now_ns: u64, recipients: u32) {
        self.refill(now_ns);
        self.level -= i128::from(recipients) * RECIPIENT;
    }

    fn refill(&mut self, now_ns: u64) {
        let elapsed = Duration::from_nanos(now_ns.saturating_sub(self.refilled_ns));
        self.level = (self.level + units(self.rate, elapsed)).min(self.depth);
        self.refilled_ns = self.refilled_ns.max(now_ns);
    }
}

fn units(rate: Rate, span: Duration) -> i128 {
    i128::from(rate.as_millionths()) * i128::try_from(span.as_nanos()).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(quota: f64, strict: bool) -> QuotaRules {
        let rate = Rate::per_second(quota).unwrap();
        QuotaRules {
            rate,
            depth: Duration::from_secs(1),
            strict,
            most_in_a_second: (rate.as_millionths() / 1_000_000).max(1),
            daily: None,
            spend: None,
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
            assert_eq!(admit(50, 25), Err(failures::rate_exceeded()));
            assert_eq!(admit(1_000, 25), Ok(()));
            assert_eq!(admit(2_400, 1), Err(failures::rate_exceeded()));
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
        assert_eq!(gate.admit(&rules, SECOND_NS / 2, 25), Err(failures::rate_exceeded()));
        assert_eq!(gate.admit(&rules, SECOND_NS, 25), Ok(()));
        assert_eq!(gate.admit(&rules, 3 * SECOND_NS, 1), Err(failures::rate_exceeded()));
        assert_eq!(gate.admit(&rules, 3 * SECOND_NS + SECOND_NS / 2, 1), Ok(()));
    }

    #[test]
    fn the_daily_quota_refuses_the_mail_that_would_go_over_it_and_frees_up_a_day_later() {
        let rules = QuotaRules { daily: Some(5), ..rules(100.0, false) };
        let mut gate = QuotaGate::new(&rules, 0);
        assert_eq!(gate.admit(&rules, 0, 4), Ok(()));
        assert_eq!(gate.admit(&rules, 1, 2), Err(failures::daily_quota_exceeded()));
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
            assert_eq!(gate.admit(&rules, now, 1), Err(failures::rate_exceeded()));
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

    fn rules(rate: f64, seconds: f64) -> QuotaRules {
        QuotaRules {
            rate: Rate::per_second(rate).expect("rate"),
            depth: Duration::from_secs_f64(seconds),
            strict: false,
            most_in_a_second: 1,
            daily: None,
            spend: None,
        }
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
        let mut bucket = RecipientBucket::new(&rules(14.0, 1.0), 0);
        let passed = (0..40).filter(|_| offer(&mut bucket, 0, 1)).count();
        assert_eq!(passed, 14);
    }

    #[test]
    fn a_mail_larger_than_the_bucket_needs_it_full_and_is_paid_for_afterwards() {
        let mut bucket = RecipientBucket::new(&rules(10.0, 1.0), 0);
        assert!(offer(&mut bucket, 0, 1));
        assert!(!offer(&mut bucket, SECOND / 20, 50), "not full yet");
        assert!(offer(&mut bucket, SECOND / 10, 50), "full again");
        assert!(!offer(&mut bucket, 4 * SECOND, 1), "4 s pay for 40 of the 40 owed");
        assert!(offer(&mut bucket, 4 * SECOND + SECOND / 5, 1));
    }

    #[test]
    fn a_change_of_rate_pays_the_time_before_it_at_the_old_rate() {
        let mut bucket = RecipientBucket::new(&rules(10.0, 1.0), 0);
        bucket.take(0, 10);
        bucket.retune(SECOND / 2, &rules(1000.0, 1.0));
        let passed = (0..100).filter(|_| offer(&mut bucket, SECOND / 2, 1)).count();
        assert_eq!(passed, 5);
    }

    #[test]
    fn a_clock_that_steps_back_gives_nothing_twice() {
        let mut bucket = RecipientBucket::new(&rules(1.0, 1.0), 10 * SECOND);
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
            let rules = rules(rate, seconds);
            let start = 1_700_000_000 * SECOND;
            let mut bucket = RecipientBucket::new(&rules, start);
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
                    let most = units(rules.rate, rules.depth).max(RECIPIENT) + units(rules.rate, Duration::from_nanos(to - from));
                    prop_assert!(passed <= most);
                }
            }
        }

        #[test]
        fn a_continuous_offer_is_served_at_the_rate(
            rate in 0.5_f64..2_000.0,
            step in 1_000_u64..400_000,
        ) {
            let rules = rules(rate, 1.0);
            let mut bucket = RecipientBucket::new(&rules, 0);
            let mut accepted = 0_i128;
            let mut now = 0;
            while now < 2 * SECOND {
                if offer(&mut bucket, now, 1) {
                    accepted += 1;
                }
                now += step;
            }
            prop_assert!((accepted + 1) * RECIPIENT >= units(rules.rate, Duration::from_nanos(now - step)));
        }
    }
}

#[cfg(test)]
mod daily_tests {
    use super::*;

    #[test]
    fn recipients_leave_the_count_a_day_and_at_most_a_second_later() {
        let mut day = SlidingCount::DAY;
        day.add(SECOND_NS / 2, 5);
        day.add(10 * SECOND_NS, 2);
        assert_eq!(day.recipients(86_400 * SECOND_NS + SECOND_NS / 2), 7);
        assert_eq!(day.recipients((86_400 + 1) * SECOND_NS + SECOND_NS / 2), 2);
        assert_eq!(day.recipients((86_400 + 11) * SECOND_NS), 0);
    }
}

#[cfg(test)]
mod sliding_second_tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_arrival_one_second_earlier_no_longer_counts() {
        let mut second = SlidingCount::default();
        second.add(0, 3);
        assert_eq!(second.recipients(SECOND_NS - 1), 3);
        assert_eq!(second.recipients(SECOND_NS), 0);
    }

    proptest! {
        #[test]
        fn the_worst_second_is_the_one_a_search_finds(
            gaps in prop::collection::vec((0_u64..500_000_000, 1_u32..5), 1..80),
        ) {
            let mut second = SlidingCount::default();
            let mut arrivals = Vec::new();
            let mut now = 0;
            for (gap, recipients) in gaps {
                now += gap;
                arrivals.push((now, recipients));
                second.add(now, recipients.into());
            }
            let searched = arrivals.iter().map(|&(from, _)| {
                let held = arrivals.iter().filter(|(at, _)| (from..from + SECOND_NS).contains(at));
                held.map(|&(_, recipients)| u64::from(recipients)).sum::<u64>()
            });
            prop_assert_eq!(Some(second.worst), searched.max());
        }
    }
}
