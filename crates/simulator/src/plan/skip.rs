//! A sample of the windows that were simulated last, which shows those to come.
//!
//! A forecast of days would take hours if each of its windows were simulated. While the same campaigns may be sent and
//! the same faults are active, all windows are statistically alike. So a run simulates some windows after each change,
//! and measures them. Where they are as the weights, holds and limits let expect, which is known for every time to come
//! too, the rest of the run is stepped through ([`super::stretch`]) and not simulated. Else simulation resumes shortly
//! before the next change.
//!
//! Example: 900,000 mails of `big` and 50,000 of `small` at 14/s with weights 90 and 10. After 12 windows to settle, 30
//! windows are measured; they show 12.35 and 1.37 recipients per window, as is due. `small` ends after some 36,400
//! windows, and from then on `big` has all slots.

use tidegate_core::turns;

use super::daily::DailyLimit;
use super::fault::SendFault;
use super::gate::MailState;
use super::record::{WindowRecord, as_f64, floor};
use super::scenario::Scenario;
use super::state::{SimulationState, grid_rate};

pub(super) const HORIZON: u64 = 120 * 86_400;

/// A rate is good enough to step with when its relative standard error is at most this.
const MAX_RATE_ERROR: f64 = 0.01;
const MAX_MEASURED_WINDOWS: u64 = 1_800;
/// Shares are only measured over at least this many recipients.
const MIN_SENT: f64 = 300.0;
/// Windows show that they are as expected only if this many recipients are expected in them.
const MIN_EXPECTED: f64 = 400.0;

/// How many windows pass after a change before the rate is measured, and how many are measured.
#[derive(Clone, Copy, Debug)]
struct MeasureWindows {
    settle: u64,
    windows: u64,
}

/// The average of the measured windows.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) each: WindowRecord,
    /// The recipients of campaigns that can be sent in a window.
    pub(super) capacity: f64,
    /// The relative standard error of the rate.
    pub(super) error: f64,
    /// Whether each campaign had its share of the capacity, as far as its limit lets it.
    pub(super) by_share: bool,
}

impl SimulationState {
    /// A sample of the last windows, if it is enough to step over those to come.
    pub(super) fn sample(&self, scenario: &Scenario, day: &DailyLimit) -> Option<Sample> {
        let last = self.records.last()?;
        if answers_get_lost(last, scenario) {
            return None;
        }
        let (full, exact) = self.expected(last, scenario, day);
        let expected: f64 = exact.iter().sum();
        let measure = measure(last, expected, scenario.quota).of_mails(self.largest());
        let campaigns = exact.iter().filter(|due| **due > 0.0).count() as u64;
        let measure = measure.of_turns(self.turn(last), campaigns, expected);
        // Measure only windows since the last change, after those in which the rate settles.
        let first = self.unchanged_since + measure.settle;
        if last.end() < first + measure.windows {
            return None;
        }
        let newest = self.records.iter().rev().take_while(|record| record.from >= first);
        let mut newest: Vec<&WindowRecord> = newest.collect();
        let enough = floor((MIN_EXPECTED / expected.max(1e-9)).ceil());
        let enough = enough.clamp(measure.windows, MAX_MEASURED_WINDOWS);
        let enough = if expected > 0.0 { enough } else { measure.windows };
        let recent = usize::try_from(enough).ok().and_then(|enough| newest.get(..enough));
        // The exact rates are only known while all windows were served at one rate and no fault was active.
        if let Some(recent) = recent
            && last.faults == 0
            && (expected <= 0.0
                || recent.iter().all(|record| (record.rate - last.rate).abs() < 1e-9))
        {
            let each = self.average(recent, last);
            if self.is_as(&each, &exact, as_f64(enough), 0.002) {
                let mut each = each;
                if let (Some(express), Some(exact)) = (each.sent.last_mut(), scenario.express) {
                    *express = exact;
                }
                return Some(Sample { each, capacity: full, error: 0.0, by_share: true });
            }
        }
        // The oldest sixth may still belong to the transition after the change.
        newest.truncate(newest.len() - newest.len() / 6);
        let (each, error) = (self.average(&newest, last), standard_error(&newest));
        let windows = as_f64(newest.len() as u64);
        if self.has_last_mails_waiting(last) || !self.is_sure(windows, &each, error, scenario) {
            return None;
        }
        let capacity = each.of_campaigns();
        let (_, due) = self.gates.share(capacity, |index| last.has_mail(index));
        let by_share = self.is_as(&each, &due, windows, 1.0);
        Some(Sample { each, capacity, error, by_share })
    }

    /// The recipients of campaigns that can be sent in a window, and each campaign's part of them.
    ///
    /// If SES's quota limits, the rate is known exactly: the slot grid's rate and the shares by weight. Averages of
    /// whole mails in a few windows would be off by some per cent.
    fn expected(
        &self,
        last: &WindowRecord,
        scenario: &Scenario,
        day: &DailyLimit,
    ) -> (f64, Vec<f64>) {
        let full = grid_rate(last.rate, self.gates.rate_margin()).unwrap_or(self.full);
        let full = full - scenario.express.unwrap_or(0.0).min(full);
        let (most, _) = day.most(&self.records, last.end(), full);
        (full, self.gates.share(full.min(most), |index| last.has_mail(index)).1)
    }

    fn average(&self, measured: &[&WindowRecord], last: &WindowRecord) -> WindowRecord {
        let mut each = WindowRecord::of(0, self.campaigns.len() + 1);
        for record in measured {
            each.add(record, 1.0 / as_f64(measured.len().max(1) as u64));
        }
        let (states, faults, rate) = (last.states.clone(), last.faults, last.rate);
        WindowRecord { states, faults, rate, ..each }
    }

    /// Whether each campaign was sent what was due, within the error of counting whole mails and turns, and all of
    /// them within `share` of it.
    fn is_as(&self, each: &WindowRecord, due: &[f64], windows: f64, share: f64) -> bool {
        let largest = self.largest();
        let each_off = 4.0 * largest + self.turn(each);
        let (all, all_due) = (each.of_campaigns() * windows, due.iter().sum::<f64>() * windows);
        // With large mails one mail more or less would decide, so they are excluded.
        (largest <= 1.0 || 2.0 * largest <= 0.01 * all)
            && (all - all_due).abs() <= 2.0 * largest + share * all_due
            && each
                .sent
                .iter()
                .zip(due)
                .all(|(sent, due)| (sent - due).abs() * windows <= each_off + 0.02 * due * windows)
    }

    /// Whether the measured windows are enough to know the rate.
    fn is_sure(&self, windows: f64, each: &WindowRecord, error: f64, scenario: &Scenario) -> bool {
        let known = self.records.iter().rev().map(|record| record.rate).find(|rate| *rate > 0.0);
        // The seconds that the largest mail takes at the current rate.
        let longest = self.largest() / known.unwrap_or(scenario.quota).max(0.001);
        let sent = each.total() * windows;
        let enough = windows >= as_f64(MAX_MEASURED_WINDOWS).max(5.0 * longest);
        enough || (sent >= MIN_SENT && error <= MAX_RATE_ERROR)
    }

    /// The slots of a campaign's turn at the rate of `record`: none if there are no turns.
    fn turn(&self, record: &WindowRecord) -> f64 {
        let slots = grid_rate(record.rate, self.gates.rate_margin()).unwrap_or(self.full);
        let is_taken = turns::are_taken(self.gates.weighted(), floor(slots));
        if is_taken { as_f64(turns::BATCH) } else { 0.0 }
    }

    fn largest(&self) -> f64 {
        self.campaigns.iter().map(|campaign| campaign.recipients).fold(1.0, f64::max)
    }
}

impl WindowRecord {
    pub(super) fn dead_of_a_mail(&self) -> f64 {
        let accepted = self.sums.accepted;
        if accepted > 0.0 { self.sums.dead / accepted } else { 0.0 }
    }

    pub(super) fn has_mail(&self, campaign: usize) -> bool {
        self.states.get(campaign).is_some_and(|state| *state != MailState::Empty)
    }

    fn of_campaigns(&self) -> f64 {
        self.total() - self.sent.last().copied().unwrap_or(0.0)
    }
}

impl MeasureWindows {
    /// With several recipients per mail the rate oscillates: mails that find every slot of a
    /// window used come back after a visibility timeout (30 s). The measurement must cover several of these
    /// periods.
    fn of_mails(self, largest: f64) -> Self {
        if largest <= 1.0 {
            return self;
        }
        Self { settle: self.settle.max(60), windows: self.windows.max(300) }
    }

    /// Where so many campaigns take turns, they are found a few in each window, the first of them have more than their
    /// shares for half a minute, and each has its share only after all had a turn.
    fn of_turns(self, turn: f64, campaigns: u64, expected: f64) -> Self {
        if turn <= 0.0 {
            return self;
        }
        let round = floor((turn * as_f64(campaigns) / expected.max(1e-9)).ceil());
        let found = campaigns / (turns::probes(floor(expected)) as u64).max(1);
        let windows = self.windows.max(round).min(MAX_MEASURED_WINDOWS);
        Self { settle: self.settle.max(30) + found, windows }
    }
}

/// Whether SES's answers get lost now. Mails then reach SES more than once, so the arrivals do not
/// show how many mails are left.
fn answers_get_lost(last: &WindowRecord, scenario: &Scenario) -> bool {
    let strikes = |index: usize| last.faults >> index.min(63) & 1 == 1;
    let mut faults = scenario.faults.iter().enumerate();
    faults.any(|(index, fault)| fault.kind == SendFault::LostAnswer && strikes(index))
}

fn measure(last: &WindowRecord, expected: f64, quota: f64) -> MeasureWindows {
    if last.faults != 0 {
        MeasureWindows { settle: 60, windows: 240 }
    } else if expected <= 0.0 {
        MeasureWindows { settle: 5, windows: 15 }
    } else {
        // At a high rate fewer windows show as much.
        let windows = floor((420.0 / quota).ceil()).clamp(10, 30);
        MeasureWindows { settle: 12, windows }
    }
}

/// The relative standard error of the mean rate. Neighbouring windows are correlated, so the
/// windows are divided into six parts, long enough to be nearly independent, and the error is
/// estimated from the means of these parts.
fn standard_error(measured: &[&WindowRecord]) -> f64 {
    const PARTS: usize = 6;
    let size = measured.len().div_ceil(PARTS).max(1);
    let means: Vec<f64> = measured
        .chunks(size)
        .map(|part| part.iter().map(|r| r.total()).sum::<f64>() / as_f64(part.len() as u64))
        .collect();
    let parts = as_f64(means.len() as u64);
    let mean = means.iter().sum::<f64>() / parts;
    if mean <= 0.0 || parts < 2.0 {
        return 0.0;
    }
    let variance = means.iter().map(|part| (part - mean).powi(2)).sum::<f64>() / (parts - 1.0);
    // The standard error of the mean, relative to the mean.
    (variance / parts).sqrt() / mean
}
