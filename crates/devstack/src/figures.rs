//! Computes a run's figures from its arrivals, without IO or clock.

use std::collections::{BTreeMap, HashSet};
use tidegate_core::number::{real, whole};

use serde::Serialize;

use crate::setup::LocalPlan;

const SECOND_NS: u64 = 1_000_000_000;
/// The number of first windows that do not count: utilisation counts from the fifth with mail.
const WARM_UP: u64 = 4;
/// The number of windows over which a worst value is taken.
const STRETCH: usize = 30;
/// A campaign counts as waiting while this many windows' worth of its share is still to arrive: the
/// end of a backlog cannot fill its windows.
const LEFT: f64 = 2.0;

/// A mail that reached the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailArrival {
    /// When, in nanoseconds since the epoch.
    pub at_ns: u64,
    pub campaign: String,
    /// The mail's first recipient, which no other mail of the plan has.
    pub key: String,
    pub recipients: u32,
}

impl MailArrival {
    /// The whole second since the epoch in which it arrived.
    pub fn second(&self) -> u64 {
        self.at_ns / SECOND_NS
    }
}

/// Everything that is computed from the arrivals of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunFigures {
    /// Mails of the plan that arrived, each counted once.
    pub arrived: u64,
    /// Mails of the plan that have not arrived.
    pub missing: u64,
    /// Arrivals of a mail that had arrived before.
    pub duplicates: u64,
    /// Arrivals that are not of the plan.
    pub foreign: u64,
    /// The most recipients that arrived in any half-open second.
    pub worst_second: u64,
    /// Seconds between the first and the last arrival.
    pub sending_seconds: f64,
    /// Seconds from the first arrival to the last mail of each campaign; only campaigns whose mails
    /// have all arrived are in it.
    pub ended_after_seconds: BTreeMap<String, f64>,
    pub phases: RunPhases,
    pub series: ArrivalSeries,
}

/// The figures of `arrivals`, which must be in order of time. `mine` tells whether a campaign and
/// key belong to the plan.
pub fn figures(
    plan: &LocalPlan,
    arrivals: &[MailArrival],
    mine: impl Fn(&str, &str) -> bool,
) -> RunFigures {
    let (mut keys, mut distinct) = (HashSet::new(), Vec::new());
    let (mut duplicates, mut foreign) = (0, 0);
    for arrival in arrivals {
        if !mine(&arrival.campaign, &arrival.key) {
            foreign += 1;
        } else if keys.insert(arrival.key.as_str()) {
            distinct.push(arrival);
        } else {
            duplicates += 1;
        }
    }
    let arrived = distinct.len() as u64;
    let series = ArrivalSeries::of(plan, arrivals);
    RunFigures {
        arrived,
        missing: plan.mails().saturating_sub(arrived),
        duplicates,
        foreign,
        worst_second: tidegate_fakes::worst_second(
            arrivals.iter().map(|a| (a.at_ns, a.recipients)),
        ),
        sending_seconds: match (arrivals.first(), arrivals.last()) {
            (Some(first), Some(last)) => seconds(last.at_ns - first.at_ns),
            _ => 0.0,
        },
        ended_after_seconds: ends(plan, &distinct),
        phases: phases(plan, &series, &distinct),
        series,
    }
}

/// For each campaign whose mails have all arrived: seconds from the first arrival of the run to its
/// last mail.
fn ends(plan: &LocalPlan, distinct: &[&MailArrival]) -> BTreeMap<String, f64> {
    let Some(first) = distinct.first() else { return BTreeMap::new() };
    let ended = plan.campaigns.iter().filter_map(|campaign| {
        let of_it = || distinct.iter().filter(|arrival| arrival.campaign == campaign.name);
        let last = of_it().next_back()?;
        let all = of_it().count() as u64 == campaign.mails;
        all.then(|| (campaign.name.clone(), seconds(last.at_ns - first.at_ns)))
    });
    ended.collect()
}

fn seconds(ns: u64) -> f64 {
    real(ns) / real(SECOND_NS)
}

/// Recipients that arrived, by whole second of the wall clock and by campaign; duplicates count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ArrivalSeries {
    /// The first second, since the epoch.
    pub start: u64,
    /// The campaigns' names: the columns of `recipients`, before a last one for all other mail.
    pub campaigns: Vec<String>,
    /// One row for each second, from the first arrival to the last.
    pub recipients: Vec<Vec<u64>>,
}

impl ArrivalSeries {
    /// Counts `arrivals`, which must be in order of time.
    pub fn of(plan: &LocalPlan, arrivals: &[MailArrival]) -> Self {
        let campaigns: Vec<_> = plan.campaigns.iter().map(|c| c.name.clone()).collect();
        let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
            return Self { campaigns, ..Self::default() };
        };
        let start = first.second();
        let empty = vec![0; campaigns.len() + 1];
        let mut recipients: Vec<_> = (start..=last.second()).map(|_| empty.clone()).collect();
        for arrival in arrivals {
            let column = plan.position(&arrival.campaign).unwrap_or(campaigns.len());
            let row = usize::try_from(arrival.second().saturating_sub(start)).ok();
            if let Some(row) = row.and_then(|row| recipients.get_mut(row)) {
                row[column] += u64::from(arrival.recipients);
            }
        }
        Self { start, campaigns, recipients }
    }

    /// The rows of the seconds `from..to` since the epoch, as far as there are any.
    pub fn rows(&self, from: u64, to: u64) -> &[Vec<u64>] {
        let place = |second: u64| {
            let row = usize::try_from(second.saturating_sub(self.start)).unwrap_or(usize::MAX);
            row.min(self.recipients.len())
        };
        let (from, to) = (place(from), place(to));
        self.recipients.get(from..to).unwrap_or_default()
    }
}

/// The three phases of a run for which utilisation and shares are reported.
///
/// A run of 940 and 60 mails at 14 a second with weights 90/10 lasts about 73 s. Both campaigns
/// have mail until about second 44 (60 mails at 1.4 a second), then the big one gets the whole
/// quota. `all_waiting` covers the first part, `after_first_end` the second, and `backlogged` both.
/// The first four windows are left out, in which the pollers start, and the last two windows' worth
/// of mail, which cannot fill its windows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunPhases {
    /// From the fifth window with mail, while at least two windows' worth was still to arrive.
    pub backlogged: RunPhase,
    /// The part of it in which every campaign had two windows of its share still to come.
    pub all_waiting: RunPhase,
    /// The part of it from the second window after the campaign that ended first sent its last mail. A
    /// single late mail (a retry) does not count as its end.
    pub after_first_end: RunPhase,
}

/// A number of consecutive windows of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunPhase {
    /// First window of the phase, in whole seconds since the first mail arrived.
    pub from: u64,
    pub windows: u64,
    pub recipients: u64,
    /// Recipients over quota times windows; none without a window.
    pub utilisation: Option<f64>,
    /// The lowest utilisation of any 30 consecutive windows; none if the phase has fewer.
    pub worst_30_windows: Option<f64>,
    /// Share of each campaign that had mails waiting throughout the phase, by name.
    pub shares: BTreeMap<String, ShareInPhase>,
}

/// A campaign's share of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ShareInPhase {
    /// The campaign's part of the recipients of the phase, 0 to 1.
    pub share: f64,
    /// The share that follows from its weight, among the campaigns that had mails waiting.
    pub wanted: f64,
    /// The largest difference of the two in any 30 consecutive windows, in percentage points; none if the
    /// phase has fewer.
    pub worst_30_windows_points: Option<f64>,
}

fn phases(plan: &LocalPlan, series: &ArrivalSeries, distinct: &[&MailArrival]) -> RunPhases {
    let Some(last) = distinct.last() else { return RunPhases::default() };
    let warm = series.start + WARM_UP;
    let total = until_left(plan.quota * LEFT, plan.total(), distinct.iter().copied());
    // The window of the last arrival is not full and does not count.
    let backlog_end = total.min(last.second());
    let waiting = plan.campaigns.iter().enumerate().filter(|(_, campaign)| campaign.mails > 0);
    let waiting_end = waiting.clone().map(|(index, campaign)| {
        let of_it = distinct.iter().copied().filter(|arrival| arrival.campaign == campaign.name);
        until_left(plan.quota * plan.share(index) * LEFT, campaign.total(), of_it)
    });
    let waiting_end = waiting_end.min().unwrap_or_default().min(backlog_end);
    let everyone: Vec<usize> = waiting.map(|(index, _)| index).collect();
    let (ended, after) = match first_end(plan, distinct) {
        Some((campaign, after)) => (Some(campaign), after),
        None => (None, backlog_end),
    };
    let others: Vec<usize> =
        everyone.iter().copied().filter(|index| Some(*index) != ended).collect();
    let phase =
        |from: u64, to: u64, waiting: &[usize]| phase(plan, series, from.max(warm), to, waiting);
    RunPhases {
        backlogged: phase(warm, backlog_end, &[]),
        all_waiting: phase(warm, waiting_end, &everyone),
        after_first_end: phase(after, backlog_end, &others),
    }
}

/// The second in which the number of recipients that had not arrived yet fell below `least` (at least 1);
/// `u64::MAX` if it never did. Of 100 recipients with `least` 28 it is the second of the 73rd recipient.
fn until_left<'a>(least: f64, total: u64, arrivals: impl Iterator<Item = &'a MailArrival>) -> u64 {
    let least = whole(least.ceil()).max(1);
    let mut left = total;
    for arrival in arrivals {
        left = left.saturating_sub(u64::from(arrival.recipients));
        if left < least {
            return arrival.second();
        }
    }
    u64::MAX
}

/// The campaign that ended first, and the second window after its end, if others went on. A
/// campaign ends with its last mail, but at the latest three windows after less than one window of
/// its share was left: a mail that is retried after 60 s must not postpone the end, because the
/// others use the share meanwhile.
fn first_end(plan: &LocalPlan, distinct: &[&MailArrival]) -> Option<(usize, u64)> {
    let sending = plan.campaigns.iter().enumerate().filter(|(_, campaign)| campaign.mails > 0);
    let others = sending.clone().count() > 1;
    let ends = sending.filter_map(|(index, campaign)| {
        let of_it = || distinct.iter().copied().filter(|arrival| arrival.campaign == campaign.name);
        let ran_out = until_left(plan.quota * plan.share(index), campaign.total(), of_it());
        let all = of_it().count() as u64 == campaign.mails;
        let last = of_it().next_back().filter(|_| all).map_or(u64::MAX, MailArrival::second);
        let after = last.saturating_add(2).min(ran_out.saturating_add(3));
        (after < u64::MAX).then_some((index, after))
    });
    ends.min_by_key(|(_, after)| *after).filter(|_| others)
}

fn phase(plan: &LocalPlan, all: &ArrivalSeries, from: u64, to: u64, waiting: &[usize]) -> RunPhase {
    let rows = all.rows(from, to);
    let recipients = sum(rows);
    let utilisation = |rows: &[Vec<u64>]| ratio(sum(rows), plan.quota * real(rows.len() as u64));
    let stretches = || rows.windows(STRETCH);
    let weights: f64 = waiting.iter().map(|index| plan.share(*index)).sum();
    let shares = waiting.iter().map(|&index| {
        let wanted = plan.share(index) / weights;
        let of = |rows: &[Vec<u64>]| {
            let its: u64 = rows.iter().map(|row| row[index]).sum();
            ratio(its, real(sum(rows)))
        };
        let off = |rows| of(rows).map(|share| (share - wanted).abs() * 100.0);
        let share = ShareInPhase {
            share: of(rows).unwrap_or_default(),
            wanted,
            worst_30_windows_points: stretches().filter_map(off).reduce(f64::max),
        };
        (plan.campaigns[index].name.clone(), share)
    });
    RunPhase {
        from: from.saturating_sub(all.start),
        windows: rows.len() as u64,
        recipients,
        utilisation: utilisation(rows),
        worst_30_windows: stretches().filter_map(utilisation).reduce(f64::min),
        shares: if rows.is_empty() { BTreeMap::new() } else { shares.collect() },
    }
}

fn sum(rows: &[Vec<u64>]) -> u64 {
    rows.iter().flatten().sum()
}

fn ratio(part: u64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| real(part) / whole)
}

#[cfg(test)]
mod tests;
