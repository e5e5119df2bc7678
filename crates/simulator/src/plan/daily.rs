//! The daily quota during a skip: when it is used up, and when sends of the day before free it
//! again.
//!
//! SES counts the recipients of the last 24 hours. A skip assumes a constant rate, so it must end
//! before the daily quota changes that rate. Two cases: while the quota does not limit, a skip ends
//! before the sum of the last 24 hours would reach it. While it does limit, exactly as much is sent
//! as is freed, so a skip ends where the amount sent 24 hours earlier changes. Example: a quota of
//! 100,000 and a rate of 14/s use it up after about 2 h; nothing is sent until 24 hours after the
//! start, and then 14/s again, as the first sends leave the count.

use tidegate_core::daily::DailyPolicy;

use super::record::WindowRecord;
use super::scenario::Scenario;
use super::state::{SimulationState, as_f64};
use crate::world::World;

const DAY: u64 = 86_400;
/// The step of the look-ahead, in windows.
const STEP: u64 = 60;
/// A skip ends this many windows before the quota is used up: the scheduler reads SES's count once
/// a minute, and pollers keep a reserve for sends that are not reported yet.
const BEFORE_THE_END: u64 = 90;

/// The daily quota as the simulation sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DailyLimit {
    /// The recipients that campaigns may use of it; `None` without a limit.
    open: Option<f64>,
    /// Recipients that were sent in the 24 hours before the start.
    sent: f64,
}

impl DailyLimit {
    pub(super) fn of(scenario: &Scenario, world: &World) -> Self {
        let policy = world.settings.poller().map(|config| config.cap.daily);
        let policy: DailyPolicy = policy.unwrap_or_default();
        let open = scenario.daily.map(|daily| as_f64(policy.open_to_campaigns(daily.quota)));
        Self { open, sent: scenario.daily.map_or(0.0, |daily| as_f64(daily.sent)) }
    }

    /// Recipients sent within the day before `window`.
    fn sum(&self, state: &SimulationState, window: u64) -> f64 {
        let since = window.saturating_sub(DAY);
        let others = if window < DAY { self.sent } else { 0.0 };
        others + sent_between(&state.records, since, window)
    }

    /// Whether more than 97 % of the daily quota is used, so that it limits the rate now or soon.
    pub(super) fn is_binding(&self, state: &SimulationState, window: u64) -> bool {
        self.open.is_some_and(|open| self.sum(state, window) > 0.97 * open)
    }

    /// The number of windows from `from` on, at most `windows`, until the daily quota changes the
    /// rate. `rate` is the number of recipients per window, `measured` the number of windows it was
    /// measured in.
    pub(super) fn windows_until_change(
        &self,
        state: &SimulationState,
        from: u64,
        windows: u64,
        rate: f64,
        binding: bool,
        measured: u64,
    ) -> u64 {
        let Some(open) = self.open else { return windows };
        let held = state.records.last().is_some_and(WindowRecord::is_held);
        if held && self.released(state, from.saturating_sub(2 * STEP), 2 * STEP) > 0.0 {
            // The scheduler is about to lift the hold: simulate that.
            return 0;
        }
        if binding || held {
            return self.windows_of_equal_release(state, from, measured).min(windows);
        }
        let mut sum = self.sum(state, from);
        let mut passed = 0;
        while passed < windows {
            let step = STEP.min(windows - passed);
            let at = from + passed;
            // Add what is sent in this step, and subtract what leaves the 24-hour count.
            sum += rate * as_f64(step) - self.released(state, at, step);
            if sum > open - rate * as_f64(BEFORE_THE_END) {
                return passed;
            }
            passed += step;
            // Recipients sent during the skip itself leave the count after 24 hours, which this
            // look-ahead does not model, so a skip lasts less than a day.
            if passed >= DAY - STEP {
                return passed;
            }
        }
        windows
    }

    /// Recipients that leave SES's 24-hour count in the `windows` windows from `at` on.
    fn released(&self, state: &SimulationState, at: u64, windows: u64) -> f64 {
        let others = if at < DAY && at + windows >= DAY { self.sent } else { 0.0 };
        let (from, to) = (at.saturating_sub(DAY), (at + windows).saturating_sub(DAY));
        others + sent_between(&state.records, from, to)
    }

    /// For how many windows as many recipients leave the count per window as in the measured
    /// windows, within 5 %.
    fn windows_of_equal_release(&self, state: &SimulationState, from: u64, measured: u64) -> u64 {
        let before =
            self.released(state, from.saturating_sub(measured), measured) / as_f64(measured);
        let mut passed = 0;
        while passed < DAY - STEP {
            let now = self.released(state, from + passed, STEP) / as_f64(STEP);
            // A change by more than 5 % ends the skip; the constant allows for small rates.
            if (now - before).abs() > 0.05 * before + 0.02 {
                break;
            }
            passed += STEP;
        }
        passed
    }
}

/// Recipients sent from window `from` up to `to`.
fn sent_between(records: &[WindowRecord], from: u64, to: u64) -> f64 {
    let start = records.partition_point(|record| record.end() <= from);
    let within = records.iter().skip(start).take_while(|record| record.from < to);
    let part = |record: &WindowRecord| {
        let common = record.end().min(to).saturating_sub(record.from.max(from));
        record.total() * as_f64(common) / as_f64(record.windows.max(1))
    };
    within.map(part).sum()
}

/// Splits the recipients of a skip into portions of ten windows, for SES's daily count. Each is
/// (last window, recipients); rounding errors do not accumulate.
pub(super) fn portions(skip: &WindowRecord) -> impl Iterator<Item = (u64, u64)> {
    let total = skip.total();
    let each = total / as_f64(skip.windows.max(1));
    let mut told = 0;
    (0..skip.windows.div_ceil(10)).map(move |index| {
        let end = ((index + 1) * 10).min(skip.windows);
        let due = floor((each * as_f64(end)).round());
        let portion = due - told;
        told = due;
        (skip.from + end, portion)
    })
}

/// A number of mails or windows, rounded down.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates, and is not negative"
)]
pub(super) fn floor(of: f64) -> u64 {
    of.max(0.0) as u64
}
