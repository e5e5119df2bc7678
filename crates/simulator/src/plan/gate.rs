//! The gates that a campaign's mail passes: weight, holds and limit, until one of them changes by itself. And
//! the daily quota: when it is used up, and when sends of the day before free it again.
//!
//! SES counts the recipients of the last 24 hours. Once the quota is used up, as much is sent as leaves that count.
//! Example: a quota of 100,000 and a rate of 14/s use it up after about 2 h; nothing is sent until 24 hours after the
//! start, and then 14/s again, as the first sends leave the count.

use std::time::Duration;

use tidegate_core::control::{Hold, Holds};
use tidegate_core::daily::DailyPolicy;
use tidegate_core::limits::{Dimension, LimitGrid, LimitRef, LimitTable};
use tidegate_core::number::{real, whole};
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_core::{Timestamp, Window};

use super::record::{MailState, WindowRecord, sum_within};
use super::scenario::{CampaignLoad, Scenario};
use crate::world::World;

/// How long the rate of a limit that deferrals have lowered is taken to stay: it recovers in steps.
const RECOVERY: Duration = Duration::from_hours(1);

#[derive(Clone, Debug)]
struct Gate {
    weight: f64,
    limit: Option<LimitRef>,
    state: MailState,
    /// The most recipients a window.
    most: f64,
    /// The first window, counted from the start, in which this may be otherwise.
    until: u64,
}

/// The gates of a scenario's campaigns, in their order.
#[derive(Clone, Debug)]
pub(super) struct Gates {
    first: Window,
    table: LimitTable,
    rates: (Rate, RateMargin),
    of_campaigns: Vec<Gate>,
}

impl Gates {
    pub(super) fn new(scenario: &Scenario, rate_margin: RateMargin) -> Self {
        let table = scenario.control.limit_table(&scenario.limits().cloned().unwrap_or_default());
        let gate = |load: &CampaignLoad| Gate {
            weight: f64::from(load.weight),
            limit: table.find(Dimension::Campaign, &load.name),
            state: MailState::Open,
            most: f64::INFINITY,
            until: 0,
        };
        let of_campaigns = scenario.campaigns.iter().map(gate).collect();
        let quota = Rate::per_second(scenario.quota).unwrap_or(Rate::MIN);
        let rates = (quota, rate_margin);
        Self { first: Window::containing(scenario.start), table, rates, of_campaigns }
    }

    /// Brings every gate to window number `at`.
    pub(super) fn pass(&mut self, scenario: &Scenario, at: u64) {
        let Self { first, table, rates, of_campaigns } = self;
        for (gate, load) in of_campaigns.iter_mut().zip(&scenario.campaigns) {
            if gate.until <= at {
                gate.pass(scenario, load, table, *rates, *first, at);
            }
        }
    }

    /// The first window after the one passed to at which a gate of a campaign with mail may change.
    pub(super) fn next(&self, has_mail: impl Fn(usize) -> bool) -> u64 {
        let gates = self.of_campaigns.iter().enumerate().filter(|(index, _)| has_mail(*index));
        gates.map(|(_, gate)| gate.until).min().unwrap_or(u64::MAX)
    }

    /// Whether a limit has slots of its own.
    pub(super) fn is_any_paced(&self) -> bool {
        self.of_campaigns.iter().any(|gate| gate.most.is_finite())
    }

    pub(super) fn is_sent(&self, campaign: usize) -> bool {
        self.of_campaigns.get(campaign).is_some_and(|gate| gate.state.is_sent())
    }

    /// How many campaigns have a weight.
    pub(super) fn weighted(&self) -> usize {
        self.of_campaigns.iter().filter(|gate| gate.weight > 0.0).count()
    }

    pub(super) const fn rate_margin(&self) -> RateMargin {
        self.rates.1
    }

    /// Each campaign's recipients in a window, where `capacity` recipients can be sent in all: by weight, and what a
    /// limit keeps a campaign from goes to the others.
    pub(super) fn share(
        &self,
        capacity: f64,
        has_mail: impl Fn(usize) -> bool,
    ) -> (Vec<MailState>, Vec<f64>) {
        let state = |(index, gate): (usize, &Gate)| {
            if has_mail(index) { gate.state } else { MailState::Empty }
        };
        let mut states: Vec<MailState> = self.of_campaigns.iter().enumerate().map(state).collect();
        let mut sent = vec![0.0; states.len()];
        let sends =
            self.of_campaigns.iter().enumerate().zip(&states).filter(|(_, state)| state.is_sent());
        let mut open: Vec<(usize, &Gate)> = sends.map(|(gate, _)| gate).collect();
        open.sort_by(|(_, a), (_, b)| (a.most / a.weight).total_cmp(&(b.most / b.weight)));
        let mut weights: f64 = open.iter().map(|(_, gate)| gate.weight).sum();
        let mut left = capacity;
        for (index, gate) in open {
            let due = left * gate.weight / weights.max(gate.weight);
            let limited = gate.most < due;
            let gets = gate.most.min(due);
            if let (Some(sent), Some(state)) = (sent.get_mut(index), states.get_mut(index)) {
                (*sent, *state) =
                    (gets, if limited { MailState::Limited } else { MailState::Open });
            }
            (left, weights) = (left - gets, weights - gate.weight);
        }
        (states, sent)
    }
}

impl Gate {
    fn pass(
        &mut self,
        scenario: &Scenario,
        load: &CampaignLoad,
        table: &LimitTable,
        rates: (Rate, RateMargin),
        first: Window,
        at: u64,
    ) {
        let window = first.plus(at);
        let opens = window.opens();
        let control = &scenario.control;
        let all = control.holds.named();
        let own = control.campaign_holds.get(&load.name);
        let holds = all.chain(own.into_iter().flat_map(Holds::named));
        let stands = |hold: &&Hold| hold.until.is_none_or(|end| Timestamp::from(end) > opens);
        let holds: Vec<&Hold> = holds.map(|(_, hold)| hold).filter(stands).collect();
        let mut changes: Vec<Timestamp> =
            holds.iter().filter_map(|hold| hold.until).map(Timestamp::from).collect();
        (self.most, self.state) = (f64::INFINITY, MailState::Open);
        if let Some(limit) = &self.limit {
            changes.extend(table.get(limit.index).and_then(|(_, limit)| limit.next_change(window)));
            changes.extend(table.lowered(limit).map(|_| opens + RECOVERY));
            match table.grid(limit, window, rates) {
                None => {}
                Some(LimitGrid::Closed(_)) => self.state = MailState::Closed,
                Some(grid) => {
                    self.most = 1.0 / Duration::from_nanos(grid.period().max(1)).as_secs_f64();
                }
            }
        }
        if !holds.is_empty() {
            self.state = MailState::Held;
        } else if load.weight == 0 {
            self.state = MailState::Weightless;
        }
        // A hold that ends within a window ends with it.
        let after = |change: &Timestamp| {
            let change = Window::containing(*change + Duration::from_nanos(999_999_999));
            change.saturating_since(first).max(at + 1)
        };
        self.until = changes.iter().map(after).min().unwrap_or(u64::MAX);
    }
}

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
        let open = scenario.daily.map(|daily| real(policy.open_to_campaigns(daily.quota)));
        Self { open, sent: scenario.daily.map_or(0.0, |daily| real(daily.sent)) }
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
        let freed = sent(leave) / real(windows);
        if left < rate {
            return (freed, windows);
        }
        let lasts = if rate > freed { whole((left / (rate - freed)).ceil()) } else { windows };
        (f64::INFINITY, lasts.clamp(1, windows))
    }
}

/// Splits the recipients of a skip into portions of ten windows, for SES's daily count. Each is
/// (last window, recipients); rounding errors do not accumulate.
pub(super) fn portions(skip: &WindowRecord) -> impl Iterator<Item = (u64, u64)> {
    let total = skip.total();
    let each = total / real(skip.windows.max(1));
    let mut told = 0;
    (0..skip.windows.div_ceil(10)).map(move |index| {
        let end = ((index + 1) * 10).min(skip.windows);
        let due = whole((each * real(end)).round());
        let portion = due - told;
        told = due;
        (skip.from + end, portion)
    })
}
