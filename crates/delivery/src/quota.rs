//! Keeps SES's answer to `GetAccount` in the control record: the quota per second (for times when SES does
//! not answer) and the daily quota. Lifts holds whose cause is gone by that answer. The quota in force is SES's answer,
//! lowered by the configured cap and by the daily quota's pace.

use std::error::Error as StdError;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::config::Cap;
use tidegate_core::control::{Control, Hold, HoldReason};
use tidegate_core::counters::Counter;
use tidegate_core::daily::{DailyPolicy, DailyReading};
use tidegate_core::identity::EpochMillis;
use tidegate_core::number::whole;
use tidegate_core::rate::Rate;

use crate::control;
use crate::ports::{AccountStatus, Ledger, Standing};

/// SES counts the daily quota over the last 24 hours, not over a calendar day.
const DAY: Duration = Duration::from_hours(24);
/// An unchanged reading of the daily quota is written again once it is this old.
const RENEWED: Duration = Duration::from_mins(30);

/// Writes SES's answer, asked for at `asked`, into the control record. `None` as `status` means that SES did
/// not answer; then only daily holds older than 24 hours are lifted.
/// `before` is the ledger as it was read before the question to SES. Its counter `sent` is stored beside
/// SES's figure: whatever the counter grows by later is added to that figure. If the ledger does not answer,
/// nothing is kept and the next run tries again.
pub(crate) async fn keep(
    ledger: &impl Ledger,
    policy: DailyPolicy,
    before: &Standing,
    status: Option<&AccountStatus>,
    asked: Timestamp,
) {
    let counted = Counter::Sent.sum(&before.counters);
    let (version, control) = (before.control_version, before.control.clone());
    let kept = control::change(ledger, version, control, |control| {
        control.expire(asked.into());
        match status {
            Some(status) => apply(control, policy, status, counted, asked.into()),
            None => lift_yesterdays(control, asked.into()),
        }
    });
    if let Err(error) = kept.await {
        tracing::warn!(
            error = &error as &dyn StdError,
            "the account's state is not kept in the ledger"
        );
    }
}

/// Lifts daily holds that are more than 24 hours old: SES no longer counts the recipients sent before them.
fn lift_yesterdays(control: &mut Control, now: EpochMillis) {
    let yesterday = Timestamp::from(now).saturating_sub(DAY);
    for reason in [HoldReason::DailyQuota, HoldReason::DailyBudget] {
        let old =
            control.holds.get(reason).is_some_and(|hold| Timestamp::from(hold.since) < yesterday);
        if old && control.lift(None, reason) {
            control.daily = None; // it says what was a day ago
        }
    }
}

/// Changes the control record according to SES's answer. A hold set after `asked` stays, because the answer
/// may be older than its cause.
fn apply(
    control: &mut Control,
    policy: DailyPolicy,
    status: &AccountStatus,
    counted: i64,
    asked: EpochMillis,
) {
    if control.daily.is_some_and(|reading| reading.read_at > asked) {
        return; // a doubled run was faster
    }
    control.last_known_quota = of_account(status).or(control.last_known_quota);
    let reading = of_day(status).map(|quota| DailyReading {
        quota,
        sent: whole(status.sent_last_24_hours.ceil()),
        counted,
        read_at: asked,
    });
    if !says_the_same(control.daily, reading) {
        control.daily = reading;
    }
    let rate = control.last_known_quota.unwrap_or(Rate::MIN);
    let other_limit = status.spend_limit != control.spend_limit;
    control.spend_limit = status.spend_limit;
    let free = |reason| match (reason, &control.daily) {
        (HoldReason::Account, _) => status.sending_enabled,
        (HoldReason::DailyQuota, Some(reading)) => reading.frees(reading.quota, rate),
        (HoldReason::DailyBudget, Some(reading)) => {
            reading.frees(policy.open_to_campaigns(reading.quota), rate)
        }
        (HoldReason::DailyQuota | HoldReason::DailyBudget, None) => true,
        (HoldReason::SpendLimit, _) => other_limit,
        _ => false,
    };
    let gone: Vec<HoldReason> = control
        .holds
        .known()
        .filter(|(reason, hold)| {
            free(*reason) && hold.since < asked || has_new_month(*reason, hold.since, asked)
        })
        .map(|(reason, _)| reason)
        .collect();
    for reason in gone {
        control.lift(None, reason);
    }
    if !status.sending_enabled {
        let hold = Hold::new("GetAccount: SendingEnabled is false", asked);
        control.hold(None, HoldReason::Account, hold);
    }
}

/// True if money of a new month may be spent since the hold began. AWS does not say by which clock its months begin, so
/// a hold of a month's first day is tried again every hour.
fn has_new_month(reason: HoldReason, since: EpochMillis, now: EpochMillis) -> bool {
    let (since, now) = (Timestamp::from(since), Timestamp::from(now));
    let is_old = now.saturating_since(since) >= Duration::from_hours(1);
    let before = since.saturating_sub(DAY);
    reason == HoldReason::SpendLimit && is_old && before.month() != now.month()
}

/// True if `after` differs from `before` only by its time, and by less than [`RENEWED`]. While nothing is
/// sent, this saves a write a minute.
fn says_the_same(before: Option<DailyReading>, after: Option<DailyReading>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return false };
    let is_young = Timestamp::from(after.read_at).saturating_since(before.read_at.into()) < RENEWED;
    is_young && DailyReading { read_at: after.read_at, ..before } == after
}

/// The account's quota in recipients per second: `MaxSendRate`, at most 10,000. `None` if it is no rate,
/// such as 0 for an account that may not send.
pub fn of_account(status: &AccountStatus) -> Option<Rate> {
    Rate::per_second(status.max_send_rate.min(Rate::MAX.as_per_second())).ok()
}

/// The account's quota in recipients per 24 hours; `None` if SES reports no limit (-1).
pub fn of_day(status: &AccountStatus) -> Option<u64> {
    (status.max_24_hour_send >= 0.0).then(|| whole(status.max_24_hour_send))
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

    const ASKED: EpochMillis = EpochMillis::new(1_000_000);

    fn status(sent: f64) -> AccountStatus {
        AccountStatus {
            max_send_rate: 14.0,
            max_24_hour_send: 50_000.0,
            sent_last_24_hours: sent,
            sending_enabled: true,
            spend_limit: None,
        }
    }

    fn held(reasons: &[HoldReason], since: u64) -> Control {
        let mut control = Control::default();
        for reason in reasons {
            let since = EpochMillis::new(since);
            control.hold(None, *reason, Hold::new("", since));
        }
        control
    }

    /// The reasons that `control` holds, in the order of [`HoldReason`].
    fn standing(control: &Control) -> Vec<HoldReason> {
        use HoldReason::{Account, DailyBudget, DailyQuota, Paused};
        let all = [Paused, DailyQuota, DailyBudget, Account];
        let found: Vec<_> =
            all.into_iter().filter(|reason| control.holds.get(*reason).is_some()).collect();
        assert_eq!(found.len(), control.holds.len());
        found
    }

    fn after(mut control: Control, status: &AccountStatus) -> Vec<HoldReason> {
        apply(&mut control, DailyPolicy::default(), status, 7, ASKED);
        standing(&control)
    }

    #[test]
    fn daily_holds_go_once_enough_is_free() {
        use HoldReason::{DailyBudget, DailyQuota};
        let holds = || held(&[DailyQuota, DailyBudget], 0);
        // 49,500 are open to campaigns; a hundredth of 50,000 must be free.
        assert_eq!(after(holds(), &status(49_501.0)), [DailyQuota, DailyBudget]);
        assert_eq!(after(holds(), &status(49_500.0)), [DailyBudget]);
        assert_eq!(after(holds(), &status(49_001.0)), [DailyBudget]);
        assert_eq!(after(holds(), &status(49_000.0)), []);
        let unlimited = AccountStatus { max_24_hour_send: -1.0, ..status(9e9) };
        assert_eq!(after(holds(), &unlimited), []);
    }

    #[test]
    fn an_account_that_may_not_send_is_held_until_it_may() {
        let paused = AccountStatus { sending_enabled: false, ..status(0.0) };
        assert_eq!(after(Control::default(), &paused), [HoldReason::Account]);
        assert_eq!(after(held(&[HoldReason::Account], 0), &paused), [HoldReason::Account]);
        assert_eq!(after(held(&[HoldReason::Account], 0), &status(0.0)), []);
    }

    #[test]
    fn holds_of_operators_and_of_campaigns_stay() {
        let reasons = [HoldReason::Paused];
        assert_eq!(after(held(&reasons, 0), &status(0.0)), reasons);
        let mut control = Control::default();
        let hold = Hold::new("", EpochMillis::new(0));
        control.hold(Some("big"), HoldReason::Refusals, hold);
        apply(&mut control, DailyPolicy::default(), &status(0.0), 7, ASKED);
        assert!(control.holds_campaign("big"));
    }

    #[test]
    fn a_hold_younger_than_the_question_stays() {
        let young = held(&[HoldReason::Account, HoldReason::DailyQuota], ASKED.as_millis());
        assert_eq!(after(young, &status(0.0)), [HoldReason::DailyQuota, HoldReason::Account]);
    }

    #[test]
    fn where_ses_tells_nothing_for_a_day_the_days_holds_go_and_no_other() {
        use HoldReason::{Account, DailyBudget, DailyQuota};
        let day = 86_400_000;
        let after = |now: u64| {
            let mut control = held(&[DailyQuota, DailyBudget, Account], 1_000);
            lift_yesterdays(&mut control, EpochMillis::new(now));
            standing(&control)
        };
        assert_eq!(after(1_000 + day), [DailyQuota, DailyBudget, Account]);
        assert_eq!(after(1_001 + day), [Account]);
    }

    #[test]
    fn an_answer_that_a_later_one_overtook_changes_nothing() {
        let mut control = Control::default();
        apply(&mut control, DailyPolicy::default(), &status(100.0), 7, EpochMillis::new(2_000_000));
        let newest = control.clone();
        let paused = AccountStatus { sending_enabled: false, ..status(50.0) };
        apply(&mut control, DailyPolicy::default(), &paused, 3, ASKED);
        assert_eq!(control, newest);
    }

    #[test]
    fn the_quota_and_the_days_are_kept() {
        let mut control = Control::default();
        apply(&mut control, DailyPolicy::default(), &status(12.5), 7, ASKED);
        assert_eq!(control.last_known_quota.map(Rate::ceil), Some(14));
        let reading = DailyReading { quota: 50_000, sent: 13, counted: 7, read_at: ASKED };
        assert_eq!(control.daily, Some(reading));
    }

    #[test]
    fn an_unchanged_day_is_written_again_after_half_an_hour() {
        let read_after = |minutes: u64, sent: f64| {
            let mut control = Control::default();
            apply(&mut control, DailyPolicy::default(), &status(12.5), 7, ASKED);
            let later = EpochMillis::new(ASKED.as_millis() + minutes * 60_000);
            apply(&mut control, DailyPolicy::default(), &status(sent), 7, later);
            (control.daily.unwrap().read_at.as_millis() - ASKED.as_millis()) / 60_000
        };
        assert_eq!([read_after(29, 12.5), read_after(30, 12.5), read_after(1, 13.5)], [0, 30, 1]);
    }

    #[test]
    fn a_rate_that_is_not_told_is_remembered_and_a_daily_quota_that_is_gone_is_not() {
        let mut control = Control::default();
        apply(&mut control, DailyPolicy::default(), &status(12.5), 7, ASKED);
        let closed = AccountStatus { max_send_rate: 0.0, max_24_hour_send: -1.0, ..status(12.5) };
        apply(&mut control, DailyPolicy::default(), &closed, 7, ASKED);
        assert_eq!(control.last_known_quota.map(Rate::ceil), Some(14));
        assert_eq!(control.daily, None);
    }
}

#[cfg(test)]
mod quota_tests {
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
