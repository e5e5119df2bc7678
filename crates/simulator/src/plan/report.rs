//! The forecast as it is shown and written as JSON: its assumptions, and its phases with the bottleneck of each.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_core::Window;
use tidegate_core::channel::Channel;
use tidegate_core::format::{count, time};
use tidegate_core::limits::Dimension;
use tidegate_core::number::real;

use super::cost::Cost;
use super::record::{MailState, Sum, WindowRecord};
use super::scenario::Scenario;

/// Seconds after the start, within what is thought likely.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct EndEstimate {
    pub earliest: f64,
    /// In the median of the simulated runs.
    pub expected: f64,
    pub latest: f64,
}

#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct CampaignForecast {
    pub name: String,
    pub weight: u32,
    pub mails: u64,
    pub recipients_per_mail: u32,
    /// When its last mail reaches SES, in seconds after the start; `None` if mails are left.
    pub ends_after_seconds: Option<EndEstimate>,
    pub ends_at: Option<Window>,
    pub accepted: u64,
    /// Mails that are left as nothing is sent any more, or the forecast ends.
    pub left: u64,
}

#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Timeline {
    pub bucket_seconds: u64,
    /// Recipients a minute, one number an entry, by campaign; `express` beside them where there is some.
    pub per_minute: BTreeMap<String, Vec<f64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Simulation {
    pub seeds: u64,
    /// Seconds from the start to the end, in one run.
    pub windows: u64,
    /// The windows that were simulated; the others were skipped.
    pub simulated_windows: u64,
    pub simulated_mails: u64,
}

#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
// More than 12 fields: one for each part of the forecast.
pub struct Forecast {
    /// The scenario's name, which tells it from its variants.
    pub name: String,
    pub channel: Channel,
    /// When the mails are on their queues.
    pub start: Window,
    /// The account's quota, recipients a second.
    pub quota_per_second: f64,
    /// When everything is sent; `None` if mails are left.
    pub ends_after_seconds: Option<EndEstimate>,
    /// When the first mail reaches SES, seconds after the start.
    pub first_mail_after_seconds: Option<f64>,
    pub campaigns: Vec<CampaignForecast>,
    /// Mails that end as dead letters.
    pub dead_letters: u64,
    pub phases: Vec<Phase>,
    pub timeline: Timeline,
    pub cost: Cost,
    pub warnings: Vec<String>,
    /// The forecast is right only if these hold.
    pub assumptions: Vec<String>,
    pub simulation: Simulation,
}

impl Forecast {
    pub fn mostly(&self) -> Option<Bottleneck> {
        let mut seconds: BTreeMap<Bottleneck, f64> = BTreeMap::new();
        for phase in &self.phases {
            *seconds.entry(phase.limit).or_default() += phase.to_seconds - phase.from_seconds;
        }
        seconds.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(limit, _)| limit)
    }
}

/// A forecast, and those of its variants.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct PlanReport {
    /// The one as given first, then the variants.
    pub forecasts: Vec<Forecast>,
}

impl PlanReport {
    /// Whether every campaign's mails are sent in every forecast, and none is left or a dead letter.
    pub fn all_end(&self) -> bool {
        self.forecasts.iter().all(|forecast| {
            let left = forecast.campaigns.iter().any(|campaign| campaign.left > 0);
            forecast.ends_after_seconds.is_some() && !left && forecast.dead_letters == 0
        })
    }
}

/// The most closed limits that are named.
const MOST_CLOSED: usize = 10;

/// Everything that the forecast of `scenario` assumes, in words.
pub(super) fn assumptions(scenario: &Scenario) -> Vec<String> {
    let (service, message) = (scenario.channel.words().service, scenario.channel.words().message);
    let but = if scenario.faults.is_empty() { "" } else { ", but for the faults given" };
    let mut said = vec![format!(
        "{service} takes every {message}{but}, and nothing else sends from the account"
    )];
    said.extend(scenario.assumptions.iter().cloned());
    let holds = scenario.control.named_holds().map(|(campaign, reason, hold)| {
        let of = campaign.unwrap_or("all sending");
        match hold.until {
            Some(until) => format!("{of} is held ({reason}) until {}", time(until)),
            None => format!("{of} stays held ({reason}): the hold has no end"),
        }
    });
    said.extend(holds);
    let is_all_held = scenario.control.holds.named().next().is_some();
    if is_all_held && scenario.express.is_some_and(|rate| rate > 0.0) {
        said.push("express mail that comes while all sending is held is left out".to_owned());
    }
    let table = scenario.control.limit_table(&scenario.limits().cloned().unwrap_or_default());
    let closed = scenario.campaigns.iter().filter(|load| load.mails > 0).filter_map(|load| {
        let window = Window::containing(scenario.start);
        let limit = table.find(Dimension::Campaign, &load.name)?;
        let limit = table.get(limit.index).filter(|_| table.closes_campaign(&load.name, window));
        Some(format!("{} waits for its limit to open ({})", load.name, limit?.1))
    });
    said.extend(closed.take(MOST_CLOSED));
    if let Some(daily) = scenario.daily.filter(|daily| daily.sent > 0) {
        let sent = count(daily.sent);
        said.push(format!(
            "the {sent} recipients of the last 24 hours leave SES's count 24 hours after the start"
        ));
    }
    let limits = scenario.limits().is_some_and(|limits| !limits.is_empty());
    if limits && scenario.domains.is_empty() && scenario.channel == Channel::Email {
        said.push("no two mails go to one recipient domain, so that no limit of one delays them (--domain says otherwise)".to_owned());
    }
    said
}

/// The reason why mail is not sent faster.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema, strum::Display,
)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    #[strum(to_string = "the quota")]
    Quota,
    /// The quota, of which other campaigns get their shares.
    #[strum(to_string = "its weight")]
    Weight,
    #[strum(to_string = "the daily quota")]
    DailyQuota,
    /// A hold of the scenario stops the mail.
    #[strum(to_string = "a hold")]
    Hold,
    /// A limit lets nothing through: outside its hours, before its begin, after its end.
    #[strum(to_string = "a closed limit")]
    Closed,
    /// The rate of a limit.
    #[strum(to_string = "a limit")]
    Limit,
    #[strum(to_string = "the circuit breaker")]
    Breaker,
    /// SES refuses for the rate, so the rate factor is lowered.
    #[strum(to_string = "SES's throttling")]
    Throttling,
    /// Sends that fail use slots, and are sent again.
    #[strum(to_string = "failing sends")]
    Failures,
    /// The feed brings mail more slowly than the quota allows.
    #[strum(to_string = "the queues")]
    Feed,
    /// Sends cannot start in time for their slots.
    #[strum(to_string = "late sends")]
    Lateness,
    /// The first mails are being found and fed.
    #[strum(to_string = "the start")]
    Start,
    /// Only last mails and waiting retries are left.
    #[strum(to_string = "nothing left")]
    NothingLeft,
}

#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct PhaseShare {
    pub per_second: f64,
    pub limit: Bottleneck,
}

/// A span of time during which the same campaigns have mail and the same bottleneck applies.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Phase {
    /// The begin in seconds after the start.
    pub from_seconds: f64,
    pub to_seconds: f64,
    /// Recipients a second, express mail included.
    pub per_second: f64,
    pub limit: Bottleneck,
    pub campaigns: BTreeMap<String, PhaseShare>,
}

/// The properties that are constant during a phase: which campaigns are sent, active faults, held, blocked by the
/// breaker, before the first mail.
type PhaseKey = (Vec<MailState>, u64, bool, bool, bool);

fn key(record: &WindowRecord, first: u64) -> PhaseKey {
    let windows = real(record.windows);
    (
        record.states.clone(),
        record.faults,
        record.sums[Sum::Held] > 0.5 * windows,
        record.sums[Sum::Blocked] > 0.3 * windows,
        record.from < first && record.is_any(MailState::is_sent),
    )
}

pub(super) fn phases(scenario: &Scenario, records: &[WindowRecord]) -> Vec<Phase> {
    let last = records.iter().rposition(|record| record.total() > 0.0).map_or(0, |last| last + 1);
    let records = records.get(..last).unwrap_or_default();
    let all: u64 = records.iter().map(|record| record.windows).sum();
    let shortest = (all / 20).clamp(3, 10);
    let first = records.iter().find(|record| record.total() > 0.0).map_or(0, |first| first.from);
    // First join neighbouring records with the same key, …
    let mut runs: Vec<(PhaseKey, WindowRecord)> = Vec::new();
    for record in records {
        match runs.last_mut() {
            Some((of, run)) if *of == key(record, first) => grow(run, record),
            _ => runs.push((key(record, first), record.clone())),
        }
    }
    // … then merge runs that are too short into the phase before them.
    let mut long: Vec<(PhaseKey, WindowRecord)> = Vec::new();
    for (of, run) in runs {
        match long.last_mut() {
            Some((before, sum)) if *before == of || (run.windows < shortest && !before.4) => {
                grow(sum, &run);
            }
            // A first phase that is too short is merged into the next one.
            Some((before, sum)) if sum.windows < shortest && !before.4 => {
                *before = of;
                (sum.states, sum.faults) = (run.states.clone(), run.faults);
                grow(sum, &run);
            }
            _ => long.push((of, run)),
        }
    }
    long.iter().map(|(of, run)| phase(scenario, run, of.4)).collect()
}

fn grow(run: &mut WindowRecord, by: &WindowRecord) {
    run.add(by, 1.0);
    run.windows = by.end() - run.from;
}

fn phase(scenario: &Scenario, run: &WindowRecord, starts: bool) -> Phase {
    let windows = real(run.windows.max(1));
    let limit = if starts { Bottleneck::Start } else { limit(scenario, run) };
    let several = run.states.iter().filter(|state| **state == MailState::Open).count() > 1;
    let share = |(index, load): (usize, &super::scenario::CampaignLoad)| {
        let of_it = match run.states.get(index).copied().unwrap_or_default() {
            MailState::Empty => Bottleneck::NothingLeft,
            MailState::Weightless => Bottleneck::Weight,
            MailState::Held => Bottleneck::Hold,
            MailState::Closed => Bottleneck::Closed,
            MailState::Limited if limit == Bottleneck::Quota => Bottleneck::Limit,
            MailState::Open if limit == Bottleneck::Quota && several => Bottleneck::Weight,
            MailState::Limited | MailState::Open => limit,
        };
        let per_second = run.sent.get(index).copied().unwrap_or(0.0) / windows;
        (load.name.clone(), PhaseShare { per_second, limit: of_it })
    };
    Phase {
        from_seconds: real(run.from),
        to_seconds: real(run.end()),
        per_second: run.total() / windows,
        limit,
        campaigns: scenario.campaigns.iter().enumerate().map(share).collect(),
    }
}

fn limit(scenario: &Scenario, run: &WindowRecord) -> Bottleneck {
    let (sums, windows) = (&run.sums, real(run.windows.max(1)));
    let part = |of: f64| of / windows;
    let slots = sums[Sum::Slots].max(1.0);
    // The order matters: the first cause that applies explains the effects of the later ones.
    if !run.is_any(MailState::is_sent) {
        let why = [(MailState::Held, Bottleneck::Hold), (MailState::Closed, Bottleneck::Closed)];
        let why = why.into_iter().find(|(state, _)| run.is_any(|of| of == *state));
        return why.map_or(Bottleneck::NothingLeft, |(_, limit)| limit);
    }
    if part(sums[Sum::Held]) > 0.05 || (part(sums[Sum::Spread]) > 0.5 && scenario.daily.is_some()) {
        return Bottleneck::DailyQuota;
    }
    if part(sums[Sum::Blocked]) > 0.3 {
        return Bottleneck::Breaker;
    }
    if part(sums[Sum::Slowed]) > 0.5 {
        return Bottleneck::Throttling;
    }
    if (sums[Sum::Failed] + sums[Sum::Refused]) / slots > 0.02 {
        return Bottleneck::Failures;
    }
    if !run.is_any(|state| state == MailState::Open) {
        return Bottleneck::Limit;
    }
    if (sums[Sum::Unused] + sums[Sum::Skipped]) / slots > 0.03 {
        // Slots without mail point to the feed, slots that were missed to late sends.
        return if sums[Sum::Skipped] + sums[Sum::Late] > sums[Sum::Unused] {
            Bottleneck::Lateness
        } else {
            Bottleneck::Feed
        };
    }
    Bottleneck::Quota
}
