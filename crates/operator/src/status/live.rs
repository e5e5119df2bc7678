use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::Serialize;
use tidegate_core::Timestamp;
use tidegate_core::config::EXPRESS;
use tidegate_core::counters::{Counter, at_least_0};
use tidegate_core::number::real;
use tidegate_core::waits::{WaitBound, WaitHistogram};

use super::{CampaignStatus, StackFacts, Status};

/// How far back the curve goes.
const HISTORY: Duration = Duration::from_mins(10);
/// Current rates are averages over this span, because reports arrive a window late and in groups.
const RATE_SPAN: Duration = Duration::from_secs(10);

/// The sums of sent recipients, by campaign, at a moment.
#[derive(Clone, Debug)]
struct Sample {
    at: Timestamp,
    total: u64,
    by_campaign: BTreeMap<String, u64>,
    /// The sum of waiting times in seconds, each times its recipients.
    waited: BTreeMap<String, u64>,
    express_waits: WaitHistogram,
    refused: u64,
    /// Windows that were served, by the same reports as the sent recipients.
    windows: u64,
}

/// Express mail lately, and how long it waited from its queue to SES's acceptance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ExpressPace {
    /// Recipients a second.
    pub per_second: f64,
    /// The mean, in seconds.
    pub waited_s: f64,
    /// The time that 99 of 100 mails did not exceed; none if all of it was sent after a failed attempt.
    #[serde(rename = "p99_s")]
    pub p99: Option<WaitBound>,
}

/// A campaign's pace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CampaignRow {
    pub name: String,
    /// Recipients per second over the last ten seconds; `None` before the second sample.
    pub rate: Option<f64>,
    /// The campaign's part of all recipients in the last ten seconds, 0 to 1; `None` if there were none.
    pub share: Option<f64>,
    /// The mean waiting time, in seconds, of the mail sent in the last ten seconds; `None` if none was sent.
    pub age_s: Option<u64>,
    /// Seconds until the backlog is sent at this rate; `None` if nothing is sent or waits.
    pub eta_s: Option<u64>,
    /// Recipients sent to since the ledger began.
    pub sent: u64,
    pub waiting: u64,
    /// Sent recipients over sent, waiting and dead-lettered ones, 0 to 1; `None` if all are 0.
    pub progress: Option<f64>,
}

/// The newest status of a stack, with samples of the last minutes, from which rates follow.
#[derive(Clone, Debug)]
pub struct LiveStatus {
    status: Status,
    samples: VecDeque<Sample>,
    error: Option<String>,
}

impl LiveStatus {
    pub fn new(facts: &StackFacts) -> Self {
        let mut live = Self { status: Status::of(facts), samples: VecDeque::new(), error: None };
        live.add_sample(facts);
        live
    }

    pub fn update(&mut self, facts: &StackFacts) {
        self.status = Status::of(facts);
        self.error = None;
        self.add_sample(facts);
    }

    /// Records why the status could not be read; the previous status stays.
    pub fn set_error(&mut self, why: String) {
        self.error = Some(why);
    }

    fn add_sample(&mut self, facts: &StackFacts) {
        let sums = &facts.standing.counters;
        let sum = |counter: Counter| at_least_0(counter.sum(sums));
        let names = self.status.campaigns.iter().map(|campaign| campaign.name.as_str());
        let names: Vec<&str> = names.chain([EXPRESS]).collect();
        let of = |counter: Counter| {
            let named = |name: &&str| ((*name).to_owned(), at_least_0(counter.sum_of(name, sums)));
            names.iter().map(named).collect()
        };
        self.samples.push_back(Sample {
            at: facts.at,
            total: sum(Counter::Sent),
            by_campaign: of(Counter::Sent),
            waited: of(Counter::Waited),
            express_waits: WaitHistogram::of_sums(sums),
            refused: sum(Counter::Refused),
            windows: sum(Counter::Windows),
        });
        while self.samples.front().is_some_and(|first| first.at + HISTORY < facts.at) {
            self.samples.pop_front();
        }
    }

    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Why the last look failed, if it did: the status, and all figures, are of the last one that did not.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The newest sample, the one about ten seconds older, and the seconds between them.
    ///
    /// A window's report may arrive just before or just after a sample, so ten seconds can contain
    /// the reports of nine or eleven windows. If more windows were reported than seconds passed,
    /// the number of windows is used as the duration. Example: 154 recipients in 11 reports within
    /// 10 s are 14/s, not 15.4/s.
    fn recent(&self) -> Option<(&Sample, &Sample, f64)> {
        let newest = self.samples.back()?;
        let before = self.samples.iter().rev().find(|sample| sample.at + RATE_SPAN <= newest.at);
        let before = before.or_else(|| self.samples.front())?;
        let seconds = newest.at.saturating_since(before.at).as_secs_f64();
        let seconds = seconds.max(real(newest.windows.saturating_sub(before.windows)));
        (seconds > 0.0).then_some((newest, before, seconds))
    }

    /// Recipients sent to a second, over the last ten seconds.
    pub fn rate(&self) -> Option<f64> {
        let (newest, before, seconds) = self.recent()?;
        Some(real(newest.total.saturating_sub(before.total)) / seconds)
    }

    /// Express mail in the last ten seconds; `None` if none was sent.
    pub fn express(&self) -> Option<ExpressPace> {
        let (newest, before, seconds) = self.recent()?;
        let (sent, waited) =
            (newest.sent_since(before, EXPRESS), newest.waited_since(before, EXPRESS));
        let (sent, waited) = (real(sent), real(waited));
        let p99 = newest.express_waits.since(&before.express_waits).percentile(99);
        let (per_second, waited_s) = (sent / seconds, waited / sent);
        (sent > 0.0).then_some(ExpressPace { per_second, waited_s, p99 })
    }

    /// Mails that SES refused for the rate since the first sample.
    pub fn refused(&self) -> u64 {
        let ends = self.samples.front().zip(self.samples.back());
        ends.map_or(0, |(first, last)| last.refused.saturating_sub(first.refused))
    }

    /// Recipients sent to a second in each of the last `points` spans of `span`, the oldest first. A span
    /// with the reports of more windows than it has seconds counts as that long, as in [`Self::rate`].
    pub fn curve(&self, points: usize, span: Duration) -> Vec<f64> {
        let Some(newest) = self.samples.back() else { return Vec::new() };
        let step = |point: usize| span.saturating_mul(u32::try_from(point).unwrap_or(u32::MAX));
        let at = |back: usize| self.sums_at(newest.at.saturating_sub(step(back)));
        let rate = |back: usize| {
            let ((from, before), (to, after)) = (at(back), at(back - 1));
            (to - from).max(0.0) / span.as_secs_f64().max(after - before)
        };
        let known = self.samples.front().map_or(newest.at, |first| first.at);
        let is_known = |back: &usize| newest.at.saturating_sub(step(*back)) >= known;
        (1..=points).rev().filter(is_known).map(rate).collect()
    }

    /// Recipients sent to and windows served up to a moment, interpolated between the samples around it.
    fn sums_at(&self, at: Timestamp) -> (f64, f64) {
        let after = self.samples.iter().find(|sample| sample.at >= at);
        let before = self.samples.iter().rev().find(|sample| sample.at <= at);
        let (Some(after), Some(before)) = (after.or(before), before.or(after)) else {
            return (0.0, 0.0);
        };
        let whole = after.at.saturating_since(before.at).as_secs_f64();
        let part = at.saturating_since(before.at).as_secs_f64();
        let part = if whole > 0.0 { part / whole } else { 1.0 };
        let between = |from: u64, to: u64| real(from) + (real(to) - real(from)) * part;
        (between(before.total, after.total), between(before.windows, after.windows))
    }

    pub fn rows(&self) -> Vec<CampaignRow> {
        let recent = self.recent();
        let sent = |name: &str| recent.map(|(newest, before, _)| newest.sent_since(before, name));
        let campaigns = &self.status.campaigns;
        let all: u64 = campaigns.iter().filter_map(|campaign| sent(&campaign.name)).sum();
        let row = |status: &CampaignStatus| {
            let sent = sent(&status.name);
            let seconds = recent.map_or(1.0, |(_, _, seconds)| seconds);
            let rate = sent.map(|sent| real(sent) / seconds);
            let waiting = status.backlog.all();
            let sending = rate.filter(|rate| *rate > 0.0 && waiting > 0);
            let age_s = recent.zip(sent).and_then(|((newest, before, _), sent)| {
                newest.waited_since(before, &status.name).checked_div(sent)
            });
            let eta = sending.map(|rate| Duration::try_from_secs_f64(real(waiting) / rate));
            let came = status.sent + waiting + status.dead;
            CampaignRow {
                name: status.name.clone(),
                rate,
                share: sent.filter(|_| all > 0).map(|sent| real(sent) / real(all)),
                age_s,
                eta_s: eta.and_then(Result::ok).map(|eta| eta.as_secs()),
                sent: status.sent,
                waiting,
                progress: (came > 0).then(|| real(status.sent) / real(came)),
            }
        };
        campaigns.iter().map(row).collect()
    }
}

impl Sample {
    /// Recipients of a campaign, or of express mail, since an earlier sample.
    fn sent_since(&self, before: &Self, name: &str) -> u64 {
        grown(&self.by_campaign, &before.by_campaign, name)
    }

    /// The seconds that they have waited, all together.
    fn waited_since(&self, before: &Self, name: &str) -> u64 {
        grown(&self.waited, &before.waited, name)
    }
}

fn grown(newest: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>, name: &str) -> u64 {
    let sum = |sums: &BTreeMap<String, u64>| sums.get(name).copied().unwrap_or(0);
    sum(newest).saturating_sub(sum(before))
}

#[cfg(test)]
mod tests;
