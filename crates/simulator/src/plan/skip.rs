//! A sample of the windows that were simulated last, which shows those to come.
//!
//! A forecast of days would take hours if each of its windows were simulated. While the same campaigns may be sent and
//! the same faults are active, all windows are statistically alike. So a run simulates some windows after each change,
//! and measures them. Where they are as the weights, holds and limits let expect, which is known for every time to come
//! too, the rest of the run is stepped through and not simulated. Else simulation resumes shortly
//! before the next change.
//!
//! Example: 900,000 mails of `big` and 50,000 of `small` at 14/s with weights 90 and 10. After 12 windows to settle, 30
//! windows are measured; they show 12.35 and 1.37 recipients per window, as is due. `small` ends after some 36,400
//! windows, and from then on `big` has all slots.
//!
//! The steps go from one change to the next.
//!
//! In a stretch every window sends the same: each campaign its share of the capacity, as far as holds, its limit and the
//! daily quota let it. A stretch ends where a campaign's mails do, and where a hold, a limit or the daily quota changes.
//! The windows of a stretch are one record, a multiple of the average window.

use std::time::Duration;

use tidegate_core::number::{real, whole};
use tidegate_core::turns;

use super::gate::DailyLimit;
use super::record::{MailState, Sum, Sums, WindowRecord};
use super::scenario::{Scenario, SendFault};
use super::state::{SimulationState, grid_rate};

pub(super) const HORIZON: u64 = 120 * 86_400;

/// A rate is good enough to step with when its relative standard error is at most this.
const MAX_RATE_ERROR: f64 = 0.01;
const MAX_MEASURED_WINDOWS: u64 = 1_800;
/// Shares are only measured over at least this many recipients.
const MIN_SENT: f64 = 300.0;
/// Windows show that they are as expected only if this many recipients are expected in them.
const MIN_EXPECTED: f64 = 400.0;

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
        let campaigns = exact.iter().filter(|due| **due > 0.0).count() as u64;
        let (settle, windows) = self.measured_windows(last, expected, campaigns, scenario.quota);
        // Measure only windows since the last change, after those in which the rate settles.
        let first = self.unchanged_since + settle;
        if last.end() < first + windows {
            return None;
        }
        let newest = self.records.iter().rev().take_while(|record| record.from >= first);
        let mut newest: Vec<&WindowRecord> = newest.collect();
        let enough = whole((MIN_EXPECTED / expected.max(1e-9)).ceil());
        let enough = enough.clamp(windows, MAX_MEASURED_WINDOWS);
        let enough = if expected > 0.0 { enough } else { windows };
        let recent = usize::try_from(enough).ok().and_then(|enough| newest.get(..enough));
        // The exact rates are only known while all windows were served at one rate and no fault was active.
        if let Some(recent) = recent
            && last.faults == 0
            && (expected <= 0.0
                || recent.iter().all(|record| (record.rate - last.rate).abs() < 1e-9))
        {
            let each = self.average(recent, last);
            if self.is_as(&each, &exact, real(enough), 0.002) {
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
        let windows = real(newest.len() as u64);
        if self.has_last_mails_waiting(last) || !self.is_sure(windows, &each, error, scenario) {
            return None;
        }
        let capacity = each.of_campaigns();
        let (_, due) = self.gates.share(capacity, |index| last.has_mail(index));
        let by_share = self.is_as(&each, &due, windows, 1.0);
        Some(Sample { each, capacity, error, by_share })
    }

    /// How many windows pass after a change before the rate is measured, and how many are measured. In each, so many
    /// recipients of so many campaigns are expected.
    fn measured_windows(
        &self,
        last: &WindowRecord,
        expected: f64,
        campaigns: u64,
        quota: f64,
    ) -> (u64, u64) {
        let (mut settle, mut windows) = if last.faults != 0 {
            (60, 240)
        } else if expected <= 0.0 {
            (5, 15)
        } else {
            // At a high rate fewer windows show as much.
            (12, whole((420.0 / quota).ceil()).clamp(10, 30))
        };
        // With several recipients per mail the rate oscillates: mails that find every slot of a window used come back
        // after a visibility timeout (30 s). The measurement must cover several of these periods.
        if self.largest() > 1.0 {
            (settle, windows) = (settle.max(60), windows.max(300));
        }
        // Where so many campaigns take turns, they are found a few in each window, the first of them have more than
        // their shares for half a minute, and each has its share only after all had a turn.
        let turn = self.turn(last);
        if turn > 0.0 {
            let round = whole((turn * real(campaigns) / expected.max(1e-9)).ceil());
            let found = campaigns / (turns::probes(whole(expected)) as u64).max(1);
            settle = settle.max(30) + found;
            windows = windows.max(round).min(MAX_MEASURED_WINDOWS);
        }
        (settle, windows)
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
            each.add(record, 1.0 / real(measured.len().max(1) as u64));
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
        let is_due = |(sent, due): (&f64, &f64)| {
            (sent - due).abs() * windows <= each_off + 0.02 * due * windows
        };
        // With large mails one mail more or less would decide, so they are excluded.
        (largest <= 1.0 || 2.0 * largest <= 0.01 * all)
            && (all - all_due).abs() <= 2.0 * largest + share * all_due
            && each.sent.iter().zip(due).all(is_due)
    }

    /// Whether the measured windows are enough to know the rate.
    fn is_sure(&self, windows: f64, each: &WindowRecord, error: f64, scenario: &Scenario) -> bool {
        let known = self.records.iter().rev().map(|record| record.rate).find(|rate| *rate > 0.0);
        // The seconds that the largest mail takes at the current rate.
        let longest = self.largest() / known.unwrap_or(scenario.quota).max(0.001);
        let sent = each.total() * windows;
        let enough = windows >= real(MAX_MEASURED_WINDOWS).max(5.0 * longest);
        enough || (sent >= MIN_SENT && error <= MAX_RATE_ERROR)
    }

    /// The slots of a campaign's turn at the rate of `record`: none if there are no turns.
    fn turn(&self, record: &WindowRecord) -> f64 {
        let slots = grid_rate(record.rate, self.gates.rate_margin()).unwrap_or(self.full);
        let is_taken = turns::are_taken(self.gates.weighted(), whole(slots));
        if is_taken { real(turns::BATCH) } else { 0.0 }
    }

    fn largest(&self) -> f64 {
        self.campaigns.iter().map(|campaign| campaign.recipients).fold(1.0, f64::max)
    }
}

impl WindowRecord {
    pub(super) fn dead_of_a_mail(&self) -> f64 {
        let accepted = self.sums[Sum::Accepted];
        if accepted > 0.0 { self.sums[Sum::Dead] / accepted } else { 0.0 }
    }

    pub(super) fn has_mail(&self, campaign: usize) -> bool {
        self.states.get(campaign).is_some_and(|state| *state != MailState::Empty)
    }

    fn of_campaigns(&self) -> f64 {
        self.total() - self.sent.last().copied().unwrap_or(0.0)
    }
}

/// Whether SES's answers get lost now. Mails then reach SES more than once, so the arrivals do not
/// show how many mails are left.
fn answers_get_lost(last: &WindowRecord, scenario: &Scenario) -> bool {
    let strikes = |index: usize| last.faults >> index.min(63) & 1 == 1;
    let mut faults = scenario.faults.iter().enumerate();
    faults.any(|(index, fault)| fault.kind == SendFault::LostAnswer && strikes(index))
}

/// The relative standard error of the mean rate. Neighbouring windows are correlated, so the
/// windows are divided into six parts, long enough to be nearly independent, and the error is
/// estimated from the means of these parts.
fn standard_error(measured: &[&WindowRecord]) -> f64 {
    const PARTS: usize = 6;
    let size = measured.len().div_ceil(PARTS).max(1);
    let means: Vec<f64> = measured
        .chunks(size)
        .map(|part| part.iter().map(|r| r.total()).sum::<f64>() / real(part.len() as u64))
        .collect();
    let parts = real(means.len() as u64);
    let mean = means.iter().sum::<f64>() / parts;
    if mean <= 0.0 || parts < 2.0 {
        return 0.0;
    }
    let variance = means.iter().map(|part| (part - mean).powi(2)).sum::<f64>() / (parts - 1.0);
    // The standard error of the mean, relative to the mean.
    (variance / parts).sqrt() / mean
}

/// Fewer windows are not worth stepping over: they are simulated.
const MIN_SKIP: u64 = 60;
/// Simulation resumes so many windows before the change that it is for.
const MARGIN_BEFORE_CHANGE: u64 = 5;
/// The numbers in a run's stretches, one for each stretch and campaign.
const MOST_NUMBERS: usize = 4_000_000;

/// The windows of a run that are stepped over.
#[derive(Clone, Debug)]
pub(super) struct Skip {
    pub(super) from: u64,
    stretches: Vec<WindowRecord>,
    /// Each campaign's recipients that are left, and when its last mail was sent, in windows from the start; `None` if
    /// simulation resumes.
    pub(super) rest: Option<Vec<(f64, Option<f64>)>>,
    /// The relative standard error of the rate.
    error: f64,
}

impl SimulationState {
    /// The stretches from this window on, or if simulation resumes, after the pollers under way: from `resumes` on. `left`
    /// are each campaign's recipients that SES has not accepted.
    pub(super) fn skip(
        &self,
        scenario: &Scenario,
        day: &DailyLimit,
        sample: &Sample,
        now: u64,
        resumes: u64,
        left: Vec<f64>,
    ) -> Option<Skip> {
        let (mut gates, mut records) = (self.gates.clone(), self.records.clone());
        let faults = scenario.faults.iter().flat_map(|fault| [Some(fault.from), fault.to]);
        let faults = faults.flatten().map(|at| at.as_secs()).filter(|at| *at >= now);
        let fault = faults.min().unwrap_or(u64::MAX);
        let sends = sample.each.total() > 0.0;
        // Campaigns' ends and all other changes are stepped over, too, if what comes then is known. With a rate that was
        // measured it is not where a limit's slots have to meet the account's.
        let is_faultless = fault == u64::MAX && sample.each.faults == 0;
        let is_known = sample.error <= 0.0 || !gates.is_any_paced();
        let to_the_end = sample.by_share && sends && is_faultless && is_known;
        let from = if to_the_end { now } else { resumes };
        let mut rest: Vec<(f64, Option<f64>)> = left.into_iter().map(|left| (left, None)).collect();
        let (mut at, mut is_last) = (from, false);
        let most = MOST_NUMBERS / rest.len().max(1);
        while records.len() < self.records.len() + most {
            let has_mail = |index: usize| rest.get(index).is_some_and(|(left, _)| *left > 0.5);
            gates.pass(scenario, at);
            let (allowed, lasts) = day.most(&records, at, sample.capacity);
            let (states, mut sent) = gates.share(sample.capacity.min(allowed), has_mail);
            if !sample.by_share {
                sent = sample.each.sent.iter().copied().take(states.len()).collect();
            }
            let is_any = sent.iter().any(|sent| *sent > 0.0);
            let change = gates.next(has_mail).min(fault);
            let never = !is_any && change.min(lasts) == u64::MAX;
            is_last = at >= HORIZON || never || !(0..rest.len()).any(has_mail);
            if is_last || (!to_the_end && at > from && (is_any || !sample.by_share)) || at >= fault
            {
                break;
            }
            let used = |sent: f64| sent * (1.0 + sample.each.dead_of_a_mail());
            let ends = |(index, sent): (usize, &f64)| {
                let (queued, run) = (rest.get(index)?, self.campaigns.get(index)?);
                let kept = real(run.reservoir) * run.recipients / used(*sent);
                let end = if to_the_end { (queued.0 / used(*sent)).ceil() } else { kept.floor() };
                (*sent > 0.0).then(|| whole(end))
            };
            let end = sent.iter().enumerate().filter_map(ends).min().unwrap_or(u64::MAX);
            let windows = (change - at).min(HORIZON - at).min(lasts).min(end);
            if windows == 0 {
                break;
            }
            let times = real(windows);
            for ((left, last), sent) in
                rest.iter_mut().zip(&mut sent).filter(|(_, sent)| **sent > 0.0)
            {
                let (before, after) = (*left, *left - used(*sent) * times);
                *last = Some(real(at) + (before / used(*sent)).min(times));
                *left = if after > 0.5 { after } else { 0.0 };
                if to_the_end {
                    *sent *= (before - *left) / used(*sent) / times;
                }
            }
            let is_of_day = allowed < sample.capacity;
            records.push(sample.stretch(at, windows, states, sent, is_of_day));
            at += windows;
        }
        let mut stretches = records.split_off(self.records.len());
        if !is_last && !to_the_end {
            let last = stretches.pop()?;
            let windows = last.windows.saturating_sub(MARGIN_BEFORE_CHANGE);
            stretches.push(last.part(windows));
        }
        let rest = (is_last || to_the_end).then_some(rest);
        let end = stretches.last().map_or(from, WindowRecord::end);
        let is_worth_it = rest.is_some() || end >= from + MIN_SKIP;
        is_worth_it.then_some(Skip { from, stretches, rest, error: sample.error })
    }

    /// Adds the records of a skip, and removes its mails from those that are still to be enqueued. Open records, of
    /// pollers that ended after its begin, are added to it.
    pub(super) fn apply(&mut self, skip: &Skip) {
        let first = self.records.len();
        self.records.extend(skip.stretches.iter().cloned());
        let end = self.records.last().map_or(0, WindowRecord::end);
        for stretch in self.records.iter_mut().skip(first) {
            let (times, lost) = (real(stretch.windows), 1.0 + stretch.dead_of_a_mail());
            for (campaign, sent) in self.campaigns.iter_mut().zip(&mut stretch.sent) {
                let mails = *sent / campaign.recipients;
                if mails > 0.0 {
                    // A relative error of the rate shifts the end by this part of the skip's length.
                    campaign.variance += (times * skip.error).powi(2);
                }
                if skip.rest.is_none() {
                    let due = mails * lost + campaign.carry;
                    let taken = whole(due).min(campaign.reservoir);
                    campaign.carry = due - real(taken);
                    campaign.reservoir -= taken;
                    *sent = real(taken) / lost * campaign.recipients;
                }
                campaign.accepted += *sent / campaign.recipients;
            }
        }
        for (campaign, (left, last)) in self.campaigns.iter_mut().zip(skip.rest.iter().flatten()) {
            campaign.left = Some(whole((left / campaign.recipients).round()));
            let at = last.map(|last| self.first_window.opens() + Duration::from_secs_f64(last));
            campaign.last = at.or(campaign.last);
        }
        self.unchanged_since = end;
        let open = std::mem::take(&mut self.open);
        if let Some(last) = self.records.last_mut().filter(|_| skip.rest.is_none()) {
            for open in &open {
                last.add(open, 1.0);
            }
        }
    }
}

impl Sample {
    /// The record of so many windows from one on, each of which sends so much.
    fn stretch(
        &self,
        from: u64,
        windows: u64,
        states: Vec<MailState>,
        sent: Vec<f64>,
        is_of_day: bool,
    ) -> WindowRecord {
        let express = self.each.sent.last().copied().unwrap_or(0.0);
        let sent: Vec<f64> = sent.into_iter().chain([express]).collect();
        let (all, measured) = (sent.iter().sum::<f64>(), &self.each);
        let load = if measured.total() > 0.0 { all / measured.total() } else { 1.0 };
        let mut sums = Sums::default();
        sums.add(&measured.sums, load);
        // These do not depend on how much a window sends.
        for of in [Sum::Pollers, Sum::Claims, Sum::Spread, Sum::Slowed, Sum::Blocked, Sum::Held] {
            sums[of] = measured.sums[of];
        }
        if is_of_day {
            sums[Sum::Held] = 1.0;
        }
        let (faults, rate) = (measured.faults, measured.rate);
        let each = WindowRecord { from, windows: 1, sent, states, faults, rate, sums };
        WindowRecord { windows, ..each.times(real(windows)) }
    }
}

impl WindowRecord {
    fn times(&self, times: f64) -> Self {
        let (states, faults, rate) = (self.states.clone(), self.faults, self.rate);
        let mut record = Self { states, faults, rate, ..Self::of(self.from, self.sent.len()) };
        record.add(self, times);
        record
    }

    /// The first windows of a record.
    fn part(&self, windows: u64) -> Self {
        let times = real(windows) / real(self.windows.max(1));
        Self { windows, ..self.times(times) }
    }
}
