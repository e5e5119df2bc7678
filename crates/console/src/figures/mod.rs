//! Current figures, and their course over the last half hour, six hours and two days.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::Timestamp;
use tidegate_core::config::EXPRESS;
use tidegate_core::counters::{Counter, at_least_0};
use tidegate_core::identity::EpochMillis;
use tidegate_core::number::real;
use tidegate_delivery::ports::{MonitorReport, PastRates};
use tidegate_operator::status::{CampaignRow, ExpressPace, LiveStatus, Status};

/// Alarms and failed invocations, as they were read last; neither part before the first reading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MonitorFigures {
    /// Why they are not known.
    pub failed: Option<String>,
    pub report: Option<MonitorReport>,
}

/// All figures that a page shows, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StackFigures {
    /// Time of the look.
    pub at: EpochMillis,
    /// Error of the newest look if it failed; all other figures are then of the last good one.
    pub failed: Option<String>,
    /// Recipients a second, over the last ten seconds.
    pub rate: Option<f64>,
    /// In the order of the configuration.
    pub rows: Vec<CampaignRow>,
    /// Express mail; none where none was sent.
    pub express: Option<ExpressPace>,
    /// Mails that SES refused for the rate since the console began to look.
    pub refused: u64,
    pub monitor: MonitorFigures,
    /// The state of the stack, as `tidegate status` prints it.
    pub status: Status,
}

impl StackFigures {
    pub fn of(dashboard: &LiveStatus, monitor: &MonitorFigures) -> Self {
        let status = dashboard.status().clone();
        Self {
            at: status.at,
            failed: dashboard.error().map(str::to_owned),
            rate: dashboard.rate(),
            rows: dashboard.rows(),
            express: dashboard.express(),
            refused: dashboard.refused(),
            monitor: monitor.clone(),
            status,
        }
    }
}

/// A small number of things, as a number that is divided by.
pub(crate) fn size(count: usize) -> f64 {
    real(count as u64)
}

/// Seconds since 1970, to a tenth: what a chart has on its axis.
pub(crate) fn seconds(at: Timestamp) -> f64 {
    real(EpochMillis::from(at).as_millis() / 100) / 10.0
}

/// The length of the curves that every page has.
const RECENT: Duration = Duration::from_mins(30);
/// Their points are no closer than this.
const STEP: Duration = Duration::from_millis(1_900);

#[derive(Clone, Debug, Default, PartialEq)]
struct RatePoint {
    /// Seconds since 1970.
    at: f64,
    rate: Option<f64>,
    quota: Option<f64>,
    campaigns: BTreeMap<String, f64>,
}

impl From<&PastRates> for RatePoint {
    fn from(past: &PastRates) -> Self {
        let campaigns = past.campaigns.clone();
        Self { at: seconds(past.until), rate: Some(past.all), quota: past.quota, campaigns }
    }
}

/// The curves as JSON: one list of times, and one list of values for each curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curves {
    /// Seconds since 1970.
    t: Vec<f64>,
    /// Recipients a second.
    rate: Vec<Option<f64>>,
    quota: Vec<Option<f64>>,
    campaigns: BTreeMap<String, Vec<Option<f64>>>,
}

impl Curves {
    fn of(points: &VecDeque<RatePoint>) -> Self {
        let names = points.iter().flat_map(|point| point.campaigns.keys());
        let mut campaigns: BTreeMap<String, Vec<Option<f64>>> =
            names.map(|name| (name.clone(), Vec::new())).collect();
        for point in points {
            for (name, rates) in &mut campaigns {
                rates.push(point.campaigns.get(name).copied().map(tenths));
            }
        }
        Self {
            t: points.iter().map(|point| point.at).collect(),
            rate: points.iter().map(|point| point.rate.map(tenths)).collect(),
            quota: points.iter().map(|point| point.quota).collect(),
            campaigns,
        }
    }
}

/// The curves of the last half hour: a page that is opened has them at once.
#[derive(Clone, Debug, Default)]
pub struct RateHistory(VecDeque<RatePoint>);

impl RateHistory {
    /// Takes a look's figures, unless the newest point is less than two seconds old.
    pub fn add(&mut self, figures: &StackFigures) {
        let at = seconds(Timestamp::from(figures.at));
        if self.0.back().is_some_and(|last| at - last.at < STEP.as_secs_f64()) {
            return;
        }
        let express = figures.status.queues.contains_key("express").then(|| {
            let rate = figures.express.map_or(0.0, |express| express.per_second);
            (EXPRESS.to_owned(), rate)
        });
        let rates = figures.rows.iter().filter_map(|row| Some((row.name.clone(), row.rate?)));
        let campaigns = rates.chain(express).collect();
        let (rate, quota) = (figures.rate, figures.status.quota.in_force);
        self.0.push_back(RatePoint { at, rate, quota, campaigns });
        forget(&mut self.0, RECENT);
    }

    pub fn curves(&self) -> Curves {
        Curves::of(&self.0)
    }
}

/// Forgets what is older than `span`.
fn forget(points: &mut VecDeque<RatePoint>, span: Duration) {
    let Some(newest) = points.back().map(|point| point.at) else { return };
    while points.front().is_some_and(|first| first.at + span.as_secs_f64() < newest) {
        points.pop_front();
    }
}

/// A span of the past, longer than a page keeps itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LongSpan {
    /// Six hours, a point every 30 s.
    #[serde(rename = "6h")]
    Hours,
    /// Two days, a point every five minutes.
    #[serde(rename = "2d")]
    Days,
}

impl LongSpan {
    pub(crate) const fn length(self) -> Duration {
        match self {
            Self::Hours => Duration::from_hours(6),
            Self::Days => Duration::from_hours(48),
        }
    }

    const fn step(self) -> Duration {
        match self {
            Self::Hours => Duration::from_secs(30),
            Self::Days => Duration::from_mins(5),
        }
    }

    /// The step of the past before the console, whole minutes.
    pub(crate) const fn past_step(self) -> Duration {
        match self {
            Self::Hours => Duration::from_mins(1),
            Self::Days => Duration::from_mins(5),
        }
    }

    /// The earliest time that its curves have, if `now` is their end; seconds since 1970.
    pub fn begin(self, now: Timestamp) -> f64 {
        seconds(now) - self.length().as_secs_f64()
    }
}

/// The ledger's sums at one time: rates between two of them are exact, however seldom the stack is looked at.
#[derive(Clone, Debug)]
struct SentSums {
    at: f64,
    all: u64,
    campaigns: BTreeMap<String, u64>,
}

impl SentSums {
    fn of(figures: &StackFigures) -> Self {
        let status = &figures.status;
        let express = status.queues.contains_key("express").then(|| {
            (EXPRESS.to_owned(), at_least_0(Counter::Sent.sum_of(EXPRESS, &status.counters)))
        });
        let rows = figures.rows.iter().map(|row| (row.name.clone(), row.sent));
        let (at, all) = (seconds(figures.at.into()), status.counter(Counter::Sent));
        Self { at, all, campaigns: rows.chain(express).collect() }
    }

    /// The rates since `before`.
    fn since(&self, before: &Self, quota: Option<f64>) -> RatePoint {
        let rate = |now: u64, then: u64| real(now.saturating_sub(then)) / (self.at - before.at);
        let of_campaign = |(name, now): (&String, &u64)| {
            Some((name.clone(), rate(*now, *before.campaigns.get(name)?)))
        };
        let campaigns = self.campaigns.iter().filter_map(of_campaign).collect();
        RatePoint { at: self.at, rate: Some(rate(self.all, before.all)), quota, campaigns }
    }
}

#[derive(Clone, Debug)]
struct LongCurve {
    span: LongSpan,
    points: VecDeque<RatePoint>,
    last: Option<SentSums>,
    /// Whether the past before the console was added.
    has_past: bool,
}

impl LongCurve {
    const fn new(span: LongSpan) -> Self {
        Self { span, points: VecDeque::new(), last: None, has_past: false }
    }

    /// Adds the steps in which the curve has no point of its own.
    fn fill(&mut self, past: &[PastRates]) {
        self.has_past = true;
        let step = self.span.past_step().as_secs_f64();
        let own: Vec<f64> =
            self.points.iter().filter(|own| own.rate.is_some()).map(|own| own.at).collect();
        let is_new = |at: f64| !own.iter().any(|known| (known - at).abs() <= step);
        let added = past.iter().map(RatePoint::from).filter(|point| is_new(point.at));
        let mut points: Vec<RatePoint> = self.points.drain(..).chain(added).collect();
        points.sort_by(|a, b| a.at.total_cmp(&b.at));
        self.points = points.into();
        forget(&mut self.points, self.span.length());
    }

    fn add(&mut self, figures: &StackFigures) {
        let sums = SentSums::of(figures);
        let quota = figures.status.quota.in_force;
        match &self.last {
            Some(last) if sums.at - last.at < self.span.step().as_secs_f64() => return,
            Some(last) => self.points.push_back(sums.since(last, quota)),
            // The console was not there before: a gap.
            None => self.points.push_back(RatePoint { at: sums.at, quota, ..RatePoint::default() }),
        }
        forget(&mut self.points, self.span.length());
        self.last = Some(sums);
    }
}

/// The curves of six hours and of two days, in the order of [`LongSpan`].
#[derive(Clone, Debug)]
pub struct LongHistory([LongCurve; 2]);

impl Default for LongHistory {
    fn default() -> Self {
        Self([LongSpan::Hours, LongSpan::Days].map(LongCurve::new))
    }
}

impl LongHistory {
    pub fn add(&mut self, figures: &StackFigures) {
        self.0.iter_mut().for_each(|curve| curve.add(figures));
    }

    pub fn curves(&self, span: LongSpan) -> Curves {
        Curves::of(&self.0[span as usize].points)
    }

    /// Whether the past before the console was added to a curve.
    pub fn has_past(&self, span: LongSpan) -> bool {
        self.0[span as usize].has_past
    }

    /// Adds the past before the console to a curve, where it has no points of its own.
    pub fn fill(&mut self, span: LongSpan, past: &[PastRates]) {
        self.0[span as usize].fill(past);
    }
}

/// Rounds to tenths: a drawn curve shows no more, and half an hour of longer numbers is a lot of JSON.
fn tenths(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests;
