//! Enforces the account's quota: recipients a second, and recipients in 24 hours.

mod bucket;
mod daily;
mod sliding;
mod values;

use bucket::RecipientBucket;
use daily::RollingDay;
pub(crate) use sliding::SlidingSecond;
pub use values::{BucketSeconds, DailyQuota, MaxSendRate};

use crate::clock::SECOND_NS;
use crate::config::SesSandboxConfig;

/// The quota that a mail would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuotaExceeded {
    Rate,
    Daily,
}

/// Decides which mails the quota lets through. Times must not go back.
///
/// Both ways of counting a second are kept up to date whichever of them rules, so that the mode
/// can change while the sandbox runs.
#[derive(Debug)]
pub(crate) struct QuotaGate {
    bucket: RecipientBucket,
    second: SlidingSecond,
    day: RollingDay,
    /// Strict mode: until when a mail larger than one second's quota is being paid for.
    owed_until_ns: u64,
}

impl QuotaGate {
    pub(crate) fn new(config: &SesSandboxConfig, now_ns: u64) -> Self {
        Self {
            bucket: RecipientBucket::new(config.quota, config.bucket_seconds, now_ns),
            second: SlidingSecond::default(),
            day: RollingDay::default(),
            owed_until_ns: 0,
        }
    }

    /// Takes over a changed configuration from `now_ns` on.
    pub(crate) fn retune(&mut self, now_ns: u64, config: &SesSandboxConfig) {
        self.bucket.retune(now_ns, config.quota, config.bucket_seconds);
    }

    /// Lets a mail through and counts it, or refuses it and counts nothing.
    pub(crate) fn admit(
        &mut self,
        config: &SesSandboxConfig,
        now_ns: u64,
        recipients: u32,
    ) -> Result<(), QuotaExceeded> {
        if let DailyQuota::Recipients(most) = config.daily_quota
            && self.day.recipients(now_ns) + u64::from(recipients) > most
        {
            return Err(QuotaExceeded::Daily);
        }
        let most = config.quota.whole();
        let has_room = if config.strict {
            self.has_room_in_second(now_ns, recipients, most)
        } else {
            self.bucket.has_room(now_ns, recipients)
        };
        if !has_room {
            return Err(QuotaExceeded::Rate);
        }
        if u64::from(recipients) > most {
            self.owed_until_ns = now_ns + u64::from(recipients) * SECOND_NS / most;
        }
        self.bucket.take(now_ns, recipients);
        self.second.add(now_ns, recipients);
        self.day.add(now_ns, recipients);
        Ok(())
    }

    /// Recipients accepted in the 24 hours before `now_ns`.
    pub(crate) fn sent_last_24_hours(&mut self, now_ns: u64) -> u64 {
        self.day.recipients(now_ns)
    }

    /// Recipients accepted in the second that ends at `now_ns`.
    pub(crate) fn sent_last_second(&mut self, now_ns: u64) -> u64 {
        self.second.recipients(now_ns)
    }

    fn has_room_in_second(&mut self, now_ns: u64, recipients: u32, most: u64) -> bool {
        let held = self.second.recipients(now_ns);
        let fits = held + u64::from(recipients) <= most || held == 0;
        fits && now_ns >= self.owed_until_ns
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn config(quota: f64, strict: bool) -> SesSandboxConfig {
        let quota = MaxSendRate::per_second(quota).expect("quota");
        SesSandboxConfig { quota, strict, ..SesSandboxConfig::default() }
    }

    #[test]
    fn strict_mode_refuses_what_a_bucket_would_let_through_across_a_second() {
        let (strict, bucket) = (config(10.0, true), config(10.0, false));
        let passed = |config: &SesSandboxConfig| {
            let mut gate = QuotaGate::new(config, 0);
            let offers = (0..100).map(|i| i * 9_999_999);
            offers.filter(|now| gate.admit(config, *now, 1).is_ok()).count()
        };
        assert_eq!(passed(&strict), 10);
        assert_eq!(passed(&bucket), 19);
    }

    #[test]
    fn strict_mode_gives_a_large_mail_an_empty_second_and_then_silence() {
        let config = config(10.0, true);
        let mut gate = QuotaGate::new(&config, 0);
        assert_eq!(gate.admit(&config, 0, 1), Ok(()));
        assert_eq!(gate.admit(&config, SECOND_NS / 2, 25), Err(QuotaExceeded::Rate));
        assert_eq!(gate.admit(&config, SECOND_NS, 25), Ok(()));
        assert_eq!(gate.admit(&config, 3 * SECOND_NS, 1), Err(QuotaExceeded::Rate));
        assert_eq!(gate.admit(&config, 3 * SECOND_NS + SECOND_NS / 2, 1), Ok(()));
    }

    #[test]
    fn the_daily_quota_refuses_the_mail_that_would_go_over_it_and_frees_up_a_day_later() {
        let config =
            SesSandboxConfig { daily_quota: DailyQuota::Recipients(5), ..config(100.0, false) };
        let mut gate = QuotaGate::new(&config, 0);
        assert_eq!(gate.admit(&config, 0, 4), Ok(()));
        assert_eq!(gate.admit(&config, 1, 2), Err(QuotaExceeded::Daily));
        assert_eq!(gate.admit(&config, 2, 1), Ok(()));
        assert_eq!(gate.sent_last_24_hours(2), 5);
        assert_eq!(gate.admit(&config, 86_402 * SECOND_NS, 5), Ok(()));
    }

    #[test]
    fn a_refused_mail_spends_nothing() {
        let config = config(2.0, false);
        let mut gate = QuotaGate::new(&config, 0);
        assert_eq!(gate.admit(&config, 0, 2), Ok(()));
        for now in 1..100 {
            assert_eq!(gate.admit(&config, now, 1), Err(QuotaExceeded::Rate));
        }
        assert_eq!(gate.admit(&config, SECOND_NS / 2, 1), Ok(()));
        assert_eq!(gate.sent_last_24_hours(SECOND_NS), 3);
    }

    proptest! {
        #[test]
        fn strict_mode_never_accepts_more_than_the_quota_in_any_second(
            quota in 0.1_f64..200.0,
            offers in prop::collection::vec((0_u64..60_000_000, 1_u32..=50), 1..400),
        ) {
            let config = config(quota, true);
            let most = config.quota.whole();
            let mut gate = QuotaGate::new(&config, 0);
            let mut accepted: Vec<(u64, u64)> = Vec::new();
            let mut now = 0;
            for (gap, recipients) in offers {
                now += gap;
                if gate.admit(&config, now, recipients).is_ok() {
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
