//! Skipping ahead over windows in which nothing changes.
//!
//! A forecast of days would take hours if each of its windows were simulated. While the same
//! campaigns have mail, the same faults are active and no quota changes, all windows are
//! statistically alike. So a run simulates some windows after each change, measures the rate of
//! every campaign, and skips to shortly before the next change: the end of a campaign's mails, the
//! begin or end of a fault, or a change by the daily quota. The skipped windows are one record, a
//! multiple of the average window.
//!
//! Example: 900,000 mails of `big` and 50,000 of `small` at 14/s with weights 90 and 10. After 12
//! windows to settle, 30 windows are measured; they show 12.35 and 1.37 recipients per window.
//! `small` lasts about 36,400 windows, so some 36,300 windows are skipped, and simulation resumes 5
//! windows before its queue runs dry.

use tidegate_core::grid::SlotGrid;
use tidegate_core::rate::{Rate, RateMargin};

use super::daily::{DailyLimit, floor};
use super::fault::SendFault;
use super::record::WindowRecord;
use super::scenario::Scenario;
use super::state::{SimulationState, as_f64};
use crate::world::World;

/// A skip shorter than this is not worth it: the windows are simulated.
const MIN_SKIP: u64 = 60;
pub(super) const HORIZON: u64 = 120 * 86_400;
/// A skip ends this many windows before the next change.
const MARGIN_BEFORE_CHANGE: u64 = 5;

/// A rate is good enough to skip with when its relative standard error is at most this.
const MAX_RATE_ERROR: f64 = 0.01;
const MAX_MEASURED_WINDOWS: u64 = 1_800;
/// Shares are only measured over at least this many recipients.
const MIN_SENT: f64 = 300.0;

/// How many windows pass after a change before the rate is measured, and how many are measured.
#[derive(Clone, Copy, Debug)]
struct MeasureWindows {
    settle: u64,
    windows: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Skip {
    pub(super) from: u64,
    pub(super) windows: u64,
    pub(super) each: WindowRecord,
    /// The relative standard error of the rate.
    pub(super) error: f64,
}

impl SimulationState {
    /// The skip that is possible now, if there is one.
    pub(super) fn find_skip(
        &self,
        world: &World,
        scenario: &Scenario,
        day: &DailyLimit,
    ) -> Option<Skip> {
        let last = self.records.last()?;
        if self.has_last_mails_waiting(last.waiting) {
            return None;
        }
        let from = super::record::number(world.next_window(), self.first_window);
        if answers_get_lost(last, scenario) {
            return None;
        }
        let binding = day.is_binding(self, last.end());
        let measure = measure(last, binding).of_mails(self.largest());
        // Measure only windows since the last change, after those in which the rate settles.
        let first = self.unchanged_since + measure.settle;
        if last.end() < first + measure.windows {
            return None;
        }
        let newest = self.records.iter().rev().take_while(|record| record.from >= first);
        let mut newest: Vec<&WindowRecord> = newest.collect();
        // The oldest sixth may still belong to the transition after the change.
        newest.truncate(newest.len() - newest.len() / 6);
        let (each, error) = self.each(&newest, scenario, world)?;
        let sent = each.total() * as_f64(newest.len() as u64);
        if !self.is_sure(as_f64(newest.len() as u64), sent, error, scenario) {
            return None;
        }
        let mut windows = HORIZON.saturating_sub(from);
        // The skip ends before a campaign's mails run out, …
        for campaign in self.campaigns.iter().zip(&each.sent) {
            windows = windows.min(windows_of_campaign(campaign, &each));
        }
        // … before a fault begins or ends, a hold ends, or a limit changes, …
        let faults = scenario.faults.iter().flat_map(|fault| [Some(fault.from), fault.to]);
        for at in faults.flatten().chain(self.changes.iter().copied()) {
            let at = at.as_secs().saturating_sub(MARGIN_BEFORE_CHANGE);
            if at + MARGIN_BEFORE_CHANGE >= from {
                windows = windows.min(at.saturating_sub(from));
            }
        }
        // … and before the daily quota changes the rate.
        let windows =
            day.windows_until_change(self, from, windows, each.total(), binding, measure.windows);
        (windows >= MIN_SKIP).then_some(Skip { from, windows, each, error })
    }

    /// Whether the measured windows are enough to know the rate.
    fn is_sure(&self, windows: f64, sent: f64, error: f64, scenario: &Scenario) -> bool {
        let known = self.records.iter().rev().map(|record| record.rate).find(|rate| *rate > 0.0);
        // The seconds that the largest mail takes at the current rate.
        let longest = self.largest() / known.unwrap_or(scenario.quota).max(0.001);
        if sent > 0.0 {
            let enough = windows >= as_f64(MAX_MEASURED_WINDOWS).max(5.0 * longest);
            return enough || (error <= MAX_RATE_ERROR && sent >= MIN_SENT);
        }
        let Some(last) = self.records.last() else { return false };
        let shares = self.shares(scenario.sendable(last)).into_iter().sum::<f64>();
        shares <= 0.0 || last.is_held() || windows >= 5.0 * longest
    }

    fn largest(&self) -> f64 {
        self.campaigns.iter().map(|campaign| campaign.recipients).fold(1.0, f64::max)
    }

    /// The expected record of each window to come, and the relative standard error of its rate.
    ///
    /// If SES's quota limits, the rate is known exactly: the slot grid's rate and the shares by
    /// weight. Averages of whole mails in a few windows would be off by some per cent, so the exact
    /// values are used whenever the measured ones agree with them.
    fn each(
        &self,
        measured: &[&WindowRecord],
        scenario: &Scenario,
        world: &World,
    ) -> Option<(WindowRecord, f64)> {
        let newest = measured.first()?;
        let windows = as_f64(measured.len() as u64);
        let mut each = WindowRecord::of(0, self.campaigns.len() + 1);
        for record in measured {
            each.add(record, 1.0 / windows);
        }
        (each.waiting, each.faults, each.rate) = (newest.waiting, newest.faults, newest.rate);
        each.holds = newest.holds;
        let shares = self.shares(scenario.sendable(&each));
        // The exact rate is only known while all windows were served at one rate and no fault was
        // active.
        let one_rate = measured.iter().all(|record| (record.rate - newest.rate).abs() < 1e-9);
        let largest = self.largest();
        let rate_margin = world.settings.poller().ok()?.rate_margin;
        let full = grid_rate(newest.rate, rate_margin).unwrap_or(0.0);
        let all = each.total() * windows;
        // With large mails one mail more or less would decide, so they are excluded.
        let is_full = one_rate
            && each.faults == 0
            && (largest <= 1.0 || 2.0 * largest <= 0.01 * all)
            && (all - full * windows).abs() <= 2.0 * largest + 0.002 * all;
        if is_full && self.has_its_shares(&each, &shares, windows, largest) {
            exactly(&mut each, &shares, full, scenario);
            return Some((each, 0.0));
        }
        Some((each, standard_error(measured)))
    }

    /// Whether each campaign with mail had its share, within the error of counting whole mails.
    fn has_its_shares(
        &self,
        each: &WindowRecord,
        shares: &[f64],
        windows: f64,
        largest: f64,
    ) -> bool {
        let campaigns: f64 = each.sent.iter().take(self.campaigns.len()).sum::<f64>() * windows;
        each.sent.iter().zip(shares).all(|(sent, share)| {
            let due = campaigns * share;
            (sent * windows - due).abs() <= 4.0 * largest + 0.02 * due
        })
    }

    /// The shares of the campaigns that can send, by their weights.
    fn shares(&self, sendable: u64) -> Vec<f64> {
        let has_mail = |index: usize| sendable >> index & 1 == 1;
        let share = |(index, campaign): (usize, &super::state::CampaignRun)| {
            if has_mail(index) { campaign.share } else { 0.0 }
        };
        let shares: Vec<f64> = self.campaigns.iter().enumerate().map(share).collect();
        let all: f64 = shares.iter().sum();
        shares.iter().map(|share| if all > 0.0 { share / all } else { 0.0 }).collect()
    }

    /// Applies a skip: removes its mails from those still to be enqueued, and adds its record.
    pub(super) fn apply_skip(&mut self, skip: &Skip) {
        let Skip { from, windows, each, error } = skip;
        let times = as_f64(*windows);
        let mut record = WindowRecord { from: *from, windows: *windows, ..each.clone() };
        // Dead letters leave the queue as well, so more mails are removed than SES accepts.
        let lost = 1.0 + each.dead_of_a_mail();
        for (campaign, sent) in self.campaigns.iter_mut().zip(&mut record.sent) {
            let mails = *sent * times / campaign.recipients * lost + campaign.carry;
            let taken = floor(mails).min(campaign.reservoir);
            campaign.carry = mails - as_f64(taken);
            campaign.reservoir -= taken;
            campaign.accepted += as_f64(taken) / lost;
            *sent = as_f64(taken) / lost * campaign.recipients;
            if campaign.reservoir > 0 || taken > 0 {
                // A relative error of the rate shifts the end by this part of the skip's length.
                campaign.variance += (times * error).powi(2);
            }
        }
        if let Some(express) = record.sent.last_mut() {
            *express *= times;
        }
        record.sums = super::record::ReportSums::default();
        record.usage = super::record::ServiceUsage::default();
        record.sums.add(&each.sums, times);
        record.usage.add(&each.usage, times);
        self.unchanged_since = record.end();
        self.push_skip(record);
    }
}

/// Replaces the measured rates by exact ones: express mail first, the other slots by share.
fn exactly(each: &mut WindowRecord, shares: &[f64], full: f64, scenario: &Scenario) {
    let express = scenario.express.unwrap_or(0.0).min(full);
    let exact = shares.iter().map(|share| share * (full - express)).chain([express]);
    for (sent, exact) in each.sent.iter_mut().zip(exact) {
        *sent = exact;
    }
}

impl WindowRecord {
    fn dead_of_a_mail(&self) -> f64 {
        let accepted = self.sums.accepted;
        if accepted > 0.0 { self.sums.dead / accepted } else { 0.0 }
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
}

/// Whether SES's answers get lost now. Mails then reach SES more than once, so the arrivals do not
/// show how many mails are left.
fn answers_get_lost(last: &WindowRecord, scenario: &Scenario) -> bool {
    let strikes = |index: usize| last.faults >> index.min(63) & 1 == 1;
    let mut faults = scenario.faults.iter().enumerate();
    faults.any(|(index, fault)| fault.kind == SendFault::LostAnswer && strikes(index))
}

fn measure(last: &WindowRecord, binding: bool) -> MeasureWindows {
    if last.faults != 0 {
        MeasureWindows { settle: 60, windows: 240 }
    } else if last.is_held() {
        MeasureWindows { settle: 5, windows: 15 }
    } else if binding {
        MeasureWindows { settle: 30, windows: 180 }
    } else {
        MeasureWindows { settle: 12, windows: 30 }
    }
}

/// For how many windows a campaign's mails that are not enqueued yet last at the measured rate.
fn windows_of_campaign(
    (campaign, sent): (&super::state::CampaignRun, &f64),
    each: &WindowRecord,
) -> u64 {
    let mails = sent / campaign.recipients * (1.0 + each.dead_of_a_mail());
    if campaign.reservoir == 0 || mails <= 0.0 {
        // The campaign's last mails are on its queue, so it is about to end: no skip.
        let ends = campaign.reservoir == 0 && mails > 0.0;
        return if ends { 0 } else { u64::MAX };
    }
    floor(as_f64(campaign.reservoir) / mails).saturating_sub(MARGIN_BEFORE_CHANGE)
}

/// Slots per second of the slot grid of a rate: the rate less the rate margin.
fn grid_rate(rate: f64, rate_margin: RateMargin) -> Option<f64> {
    let grid = SlotGrid::new(Rate::per_second(rate).ok()?, rate_margin);
    Some(1e9 / as_f64(grid.period().max(1)))
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
