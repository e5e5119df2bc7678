//! Splits a forecast into phases and finds the bottleneck of each.

use std::collections::BTreeMap;

use serde::Serialize;

use super::gate::MailState;
use super::record::{ReportSums, WindowRecord, as_f64};
use super::scenario::Scenario;

/// The reason why mail is not sent faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::Display)]
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

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PhaseShare {
    pub per_second: f64,
    pub limit: Bottleneck,
}

/// A span of time during which the same campaigns have mail and the same bottleneck applies.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    let ReportSums { held, blocked, .. } = record.sums;
    let windows = as_f64(record.windows);
    (
        record.states.clone(),
        record.faults,
        held > 0.5 * windows,
        blocked > 0.3 * windows,
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
    let windows = as_f64(run.windows.max(1));
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
        from_seconds: as_f64(run.from),
        to_seconds: as_f64(run.end()),
        per_second: run.total() / windows,
        limit,
        campaigns: scenario.campaigns.iter().enumerate().map(share).collect(),
    }
}

fn limit(scenario: &Scenario, run: &WindowRecord) -> Bottleneck {
    let (sums, windows) = (&run.sums, as_f64(run.windows.max(1)));
    let part = |of: f64| of / windows;
    let slots = sums.slots.max(1.0);
    // The order matters: the first cause that applies explains the effects of the later ones.
    if !run.is_any(MailState::is_sent) {
        let why = [(MailState::Held, Bottleneck::Hold), (MailState::Closed, Bottleneck::Closed)];
        let why = why.into_iter().find(|(state, _)| run.is_any(|of| of == *state));
        return why.map_or(Bottleneck::NothingLeft, |(_, limit)| limit);
    }
    if part(sums.held) > 0.05 || (part(sums.spread) > 0.5 && scenario.daily.is_some()) {
        return Bottleneck::DailyQuota;
    }
    if part(sums.blocked) > 0.3 {
        return Bottleneck::Breaker;
    }
    if part(sums.slowed) > 0.5 {
        return Bottleneck::Throttling;
    }
    if (sums.failed + sums.refused) / slots > 0.02 {
        return Bottleneck::Failures;
    }
    if !run.is_any(|state| state == MailState::Open) {
        return Bottleneck::Limit;
    }
    if (sums.unused + sums.skipped) / slots > 0.03 {
        // Slots without mail point to the feed, slots that were missed to late sends.
        return if sums.skipped + sums.late > sums.unused {
            Bottleneck::Lateness
        } else {
            Bottleneck::Feed
        };
    }
    Bottleneck::Quota
}
