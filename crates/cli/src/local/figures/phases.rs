//! The phases of a run, and what part of the quota each used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ArrivalSeries, MailArrival};
use crate::local::plan::LocalPlan;

/// Windows before the one from which utilisation counts: the fifth with mail.
const WARM_UP: u64 = 4;
/// A stretch, in windows.
const STRETCH: usize = 30;
/// A campaign counts as waiting while this many windows of its share are still to come: the end of a
/// backlog cannot fill its windows.
const LEFT: f64 = 2.0;

/// The phases of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunPhases {
    /// From the fifth window with mail, while at least two windows' worth was still to arrive.
    pub backlogged: RunPhase,
    /// The part of it in which every campaign had two windows of its share still to come.
    pub all_waiting: RunPhase,
    /// The part of it from the second window after the last mail of the campaign that ended first, a
    /// straggler aside.
    pub after_first_end: RunPhase,
}

/// Some windows of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunPhase {
    /// Its first window, in whole seconds since the first mail's.
    pub from: u64,
    /// How many windows it has.
    pub windows: u64,
    /// Recipients that arrived in it.
    pub recipients: u64,
    /// Recipients over quota times windows; none without a window.
    pub utilisation: Option<f64>,
    /// The least utilisation of any 30 of its windows in a row; none where it has fewer.
    pub worst_30_windows: Option<f64>,
    /// What each campaign had of it that had mails waiting all through it, by name.
    pub shares: BTreeMap<String, ShareInPhase>,
}

/// A campaign's share of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShareInPhase {
    /// Its part of the recipients, 0 to 1.
    pub share: f64,
    /// By its weight, of the campaigns that had mails waiting.
    pub wanted: f64,
    /// The largest difference of the two in any 30 windows in a row, in percentage points; none
    /// where the phase has fewer.
    pub worst_30_windows_points: Option<f64>,
}

pub(super) fn phases(
    plan: &LocalPlan,
    series: &ArrivalSeries,
    distinct: &[&MailArrival],
) -> RunPhases {
    let Some(last) = distinct.last() else { return RunPhases::default() };
    let warm = series.start + WARM_UP;
    let total = until_left(plan.quota * LEFT, plan.total(), distinct.iter().copied());
    // The last window is not a full one.
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

/// The first second at whose end fewer than `least` of `total` recipients were still to arrive (at
/// least one counts as some); the end of time where that never was.
fn until_left<'a>(least: f64, total: u64, arrivals: impl Iterator<Item = &'a MailArrival>) -> u64 {
    let least = ceil(least).max(1);
    let mut left = total;
    for arrival in arrivals {
        left = left.saturating_sub(u64::from(arrival.recipients));
        if left < least {
            return arrival.second();
        }
    }
    u64::MAX
}

/// The campaign that ended first, and the second window after its last mail, where others went on. A
/// straggler does not put its end off: it counts at the latest three windows after less than a
/// window of its share was left.
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

fn phase(
    plan: &LocalPlan,
    series: &ArrivalSeries,
    from: u64,
    to: u64,
    waiting: &[usize],
) -> RunPhase {
    let rows = series.rows(from, to);
    let recipients = sum(rows);
    let utilisation = |rows: &[Vec<u64>]| ratio(sum(rows), plan.quota * float(rows.len() as u64));
    let stretches = || rows.windows(STRETCH);
    let weights: f64 = waiting.iter().map(|index| plan.share(*index)).sum();
    let shares = waiting.iter().map(|&index| {
        let wanted = plan.share(index) / weights;
        let of = |rows: &[Vec<u64>]| {
            let its: u64 = rows.iter().map(|row| row[index]).sum();
            ratio(its, float(sum(rows)))
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
        from: from.saturating_sub(series.start),
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
    (whole > 0.0).then(|| float(part) / whole)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^52")]
fn float(count: u64) -> f64 {
    count as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
fn ceil(value: f64) -> u64 {
    value.ceil() as u64
}
