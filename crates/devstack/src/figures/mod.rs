//! Computes a run's figures from its arrivals, without IO or clock.

mod phases;
mod series;

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

pub use phases::{RunPhase, RunPhases, ShareInPhase};
pub use series::ArrivalSeries;

use super::plan::LocalPlan;

const SECOND_NS: u64 = 1_000_000_000;

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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    let mut first_of = HashMap::new();
    let (mut duplicates, mut foreign) = (0, 0);
    for (index, arrival) in arrivals.iter().enumerate() {
        if !mine(&arrival.campaign, &arrival.key) {
            foreign += 1;
        } else if first_of.contains_key(arrival.key.as_str()) {
            duplicates += 1;
        } else {
            first_of.insert(arrival.key.as_str(), index);
        }
    }
    let mut distinct: Vec<usize> = first_of.into_values().collect();
    distinct.sort_unstable();
    let distinct: Vec<&MailArrival> = distinct.into_iter().map(|index| &arrivals[index]).collect();
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
        phases: phases::phases(plan, &series, &distinct),
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
    float(ns) / float(SECOND_NS)
}

#[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds of a run are below 2^52")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
