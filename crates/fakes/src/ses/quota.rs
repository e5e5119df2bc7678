//! Enforces the account's quota: recipients a second, and recipients in 24 hours.

mod bucket;
mod daily;
mod values;

use bucket::RecipientBucket;
use daily::RollingDay;
pub use values::{BucketSeconds, MaxSendRate, PeriodLimit};

use crate::sliding_second::{SECOND_NS, SlidingSecond};

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
