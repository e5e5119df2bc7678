//! The daily quota in a stretch: when it is used up, and when sends of the day before free it again.
//!
//! SES counts the recipients of the last 24 hours. Once the quota is used up, as much is sent as leaves that count.
//! Example: a quota of 100,000 and a rate of 14/s use it up after about 2 h; nothing is sent until 24 hours after the
//! start, and then 14/s again, as the first sends leave the count.

use tidegate_core::daily::DailyPolicy;

use super::record::{WindowRecord, as_f64, floor, sum_within};
use super::scenario::Scenario;

use crate::world::World;

const DAY: u64 = 86_400;
/// Changes of the count that follow each other faster, in windows, are taken together.
const STEP: u64 = 60;

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

    /// The most that campaigns may be sent in each window from `at` on, where all of them would be sent `rate`, and for
    /// how many windows that stays so.
    pub(super) fn most(&self, records: &[WindowRecord], at: u64, rate: f64) -> (f64, u64) {
        let Some(open) = self.open else { return (f64::INFINITY, u64::MAX) };
        let others = if at < DAY { self.sent } else { 0.0 };
        let sent = |span| sum_within(records, span, WindowRecord::total);
        let left = open - others - sent(at.saturating_sub(DAY)..at);
        // What leaves SES's count changes where the records of the day before do.
        let before = records.partition_point(|record| record.end() + DAY <= at);
        let change = records.get(before).filter(|_| at >= DAY).map(|record| record.end() + DAY);
        let windows = change.map_or(DAY, |change| (change - at).max(STEP));
        let windows = if at < DAY { DAY - at } else { windows };
        let leave = at.saturating_sub(DAY)..(at + windows).saturating_sub(DAY);
        let freed = sent(leave) / as_f64(windows);
        if left < rate {
            return (freed, windows);
        }
        let lasts = if rate > freed { floor((left / (rate - freed)).ceil()) } else { windows };
        (f64::INFINITY, lasts.clamp(1, windows))
    }
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
