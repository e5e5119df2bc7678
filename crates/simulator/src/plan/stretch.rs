//! Steps through windows that are not simulated, from one change to the next.
//!
//! In a stretch every window sends the same: each campaign its share of the capacity, as far as holds, its limit and the
//! daily quota let it. A stretch ends where a campaign's mails do, and where a hold, a limit or the daily quota changes.
//! The windows of a stretch are one record, a multiple of the average window.

use std::time::Duration;

use super::daily::DailyLimit;
use super::gate::MailState;
use super::record::{ReportSums, ServiceUsage, WindowRecord, as_f64, floor};
use super::scenario::Scenario;
use super::skip::{HORIZON, Sample};
use super::state::SimulationState;

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
                let kept = as_f64(run.reservoir) * run.recipients / used(*sent);
                let end = if to_the_end { (queued.0 / used(*sent)).ceil() } else { kept.floor() };
                (*sent > 0.0).then(|| floor(end))
            };
            let end = sent.iter().enumerate().filter_map(ends).min().unwrap_or(u64::MAX);
            let windows = (change - at).min(HORIZON - at).min(lasts).min(end);
            if windows == 0 {
                break;
            }
            let times = as_f64(windows);
            for ((left, last), sent) in
                rest.iter_mut().zip(&mut sent).filter(|(_, sent)| **sent > 0.0)
            {
                let (before, after) = (*left, *left - used(*sent) * times);
                *last = Some(as_f64(at) + (before / used(*sent)).min(times));
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
            let (times, lost) = (as_f64(stretch.windows), 1.0 + stretch.dead_of_a_mail());
            for (campaign, sent) in self.campaigns.iter_mut().zip(&mut stretch.sent) {
                let mails = *sent / campaign.recipients;
                if mails > 0.0 {
                    // A relative error of the rate shifts the end by this part of the skip's length.
                    campaign.variance += (times * skip.error).powi(2);
                }
                if skip.rest.is_none() {
                    let due = mails * lost + campaign.carry;
                    let taken = floor(due).min(campaign.reservoir);
                    campaign.carry = due - as_f64(taken);
                    campaign.reservoir -= taken;
                    *sent = as_f64(taken) / lost * campaign.recipients;
                }
                campaign.accepted += *sent / campaign.recipients;
            }
        }
        for (campaign, (left, last)) in self.campaigns.iter_mut().zip(skip.rest.iter().flatten()) {
            campaign.left = Some(floor((left / campaign.recipients).round()));
            let at = last.map(|last| self.first_window.opens() + Duration::from_secs_f64(last));
            campaign.last = at.or(campaign.last);
        }
        self.unchanged_since = end;
        let open = self.take_open();
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
        let mut usage = ServiceUsage::default();
        usage.add(&measured.usage, load);
        (usage.pollers, usage.claims) = (measured.usage.pollers, measured.usage.claims);
        let of_windows = measured.sums;
        let mut sums = ReportSums::default();
        sums.add(&of_windows, load);
        (sums.spread, sums.slowed, sums.blocked) =
            (of_windows.spread, of_windows.slowed, of_windows.blocked);
        sums.held = if is_of_day { 1.0 } else { of_windows.held };
        let (faults, rate) = (measured.faults, measured.rate);
        let each = WindowRecord { from, windows: 1, sent, states, faults, rate, sums, usage };
        WindowRecord { windows, ..each.times(as_f64(windows)) }
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
        let times = as_f64(windows) / as_f64(self.windows.max(1));
        Self { windows, ..self.times(times) }
    }
}
