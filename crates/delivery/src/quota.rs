//! The quota of a scheduler's run: SES's answer, lowered by the configured cap and by the daily quota's
//! pace.

use tidegate_core::config::Cap;
use tidegate_core::control::Control;
use tidegate_core::rate::Rate;

use crate::ports::AccountStatus;

/// The account's quota in recipients per second: `MaxSendRate`, at most 10,000. `None` if it is no rate,
/// such as 0 for an account that may not send.
pub fn of_account(status: &AccountStatus) -> Option<Rate> {
    Rate::per_second(status.max_send_rate.min(Rate::MAX.as_per_second())).ok()
}

/// The account's quota in recipients per 24 hours; `None` if SES reports no limit (-1).
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative; a float casts to the nearest that fits"
)]
pub fn of_day(status: &AccountStatus) -> Option<u64> {
    (status.max_24_hour_send >= 0.0).then_some(status.max_24_hour_send as u64)
}

/// The quota in force if SES has answered; `None` if SES's answer contains no rate.
pub fn told(status: &AccountStatus, cap: &Cap) -> Option<Rate> {
    of_account(status).map(|account| cap.of(account, of_day(status)))
}

/// The quota in force if SES has not answered: the last known quota, else the configured one. `None` if
/// neither is known; then nothing may be sent.
pub fn remembered(control: Option<&Control>, cap: &Cap) -> Option<Rate> {
    let known = control.and_then(|control| control.last_known_quota);
    let day = control.and_then(|control| control.daily).map(|reading| reading.quota);
    known.or(cap.quota).map(|rate| cap.of(rate, day))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::daily::{DailyPace, DailyPolicy, DailyReading, Reserve};
    use tidegate_core::identity::EpochMillis;

    fn rate(value: f64) -> Rate {
        Rate::per_second(value).unwrap()
    }

    fn cap(quota: Option<f64>) -> Cap {
        Cap { quota: quota.map(rate), daily: DailyPolicy::default() }
    }

    fn spread(quota: Option<f64>) -> Cap {
        let daily = DailyPolicy { pace: DailyPace::Spread, reserve: Reserve::Recipients(400) };
        Cap { daily, ..cap(quota) }
    }

    fn status(max_send_rate: f64, max_24_hour_send: f64) -> AccountStatus {
        AccountStatus {
            max_send_rate,
            max_24_hour_send,
            sent_last_24_hours: 0.0,
            sending_enabled: true,
            spend_limit: None,
        }
    }

    #[test]
    fn the_cap_lowers_the_quota_and_never_raises_it() {
        let told = |max, quota| told(&status(max, -1.0), &cap(quota));
        assert_eq!(told(14.0, None), Some(rate(14.0)));
        assert_eq!(told(14.0, Some(5.0)), Some(rate(5.0)));
        assert_eq!(told(14.0, Some(50.0)), Some(rate(14.0)));
        assert_eq!(told(0.0, Some(50.0)), None);
        assert_eq!(told(50_000.0, None), Some(Rate::MAX));
    }

    #[test]
    fn spread_over_the_day_the_quota_is_the_lowest_of_all() {
        assert_eq!(told(&status(14.0, 86_800.0), &spread(None)), Some(rate(1.0)));
        assert_eq!(told(&status(14.0, 86_800.0), &spread(Some(0.5))), Some(rate(0.5)));
        assert_eq!(told(&status(14.0, -1.0), &spread(None)), Some(rate(14.0)));
        assert_eq!(told(&status(14.0, 86_800.0), &cap(None)), Some(rate(14.0)));
    }

    #[test]
    fn without_an_answer_the_last_known_quota_counts_then_the_cap_then_none() {
        let known = Control { last_known_quota: Some(rate(14.0)), ..Control::default() };
        assert_eq!(remembered(Some(&known), &cap(Some(50.0))), Some(rate(14.0)));
        assert_eq!(remembered(Some(&known), &cap(None)), Some(rate(14.0)));
        assert_eq!(remembered(Some(&Control::default()), &cap(Some(5.0))), Some(rate(5.0)));
        assert_eq!(remembered(None, &cap(None)), None);
        let read_at = EpochMillis::new(0);
        let daily = Some(DailyReading { quota: 86_800, sent: 0, counted: 0, read_at });
        let known = Control { daily, ..known };
        assert_eq!(remembered(Some(&known), &spread(None)), Some(rate(1.0)));
    }
}
