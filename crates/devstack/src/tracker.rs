//! Follows the arrivals of a run while it sends.

use std::collections::{HashSet, VecDeque};

use super::figures::MailArrival;
use super::fill::is_of_plan;
use super::plan::LocalPlan;

/// Seconds over which rates and shares are shown.
const RECENT: u64 = 10;
/// Seconds that are kept to be shown.
const KEPT: usize = 60;

/// Arrivals so far, and what follows from them for the display.
#[derive(Debug)]
pub struct Tracker {
    plan: LocalPlan,
    arrivals: Vec<MailArrival>,
    seen: HashSet<String>,
    done: Vec<u64>,
    duplicates: u64,
    seconds: VecDeque<(u64, Vec<u64>)>,
}

/// Figures for the display while a run sends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunProgress {
    /// Recipients in each of the last whole seconds, the oldest first; at most 60.
    pub last_minute: Vec<u64>,
    /// Recipients in the last whole second.
    pub last_second: u64,
    /// Recipients a second over the last 10 whole seconds, or since the first arrival.
    pub rate: f64,
    pub campaigns: Vec<CampaignProgress>,
    pub duplicates: u64,
    /// Mails of the plan that arrived.
    pub arrived: u64,
}

/// Progress of one campaign.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CampaignProgress {
    pub arrived: u64,
    pub mails: u64,
    /// The campaign's share of the recipients of the last 10 whole seconds, 0 to 1; none if nothing
    /// arrived in them.
    pub recent_share: Option<f64>,
    /// The campaign's share of all recipients so far, 0 to 1; none if nothing has arrived.
    pub share: Option<f64>,
    /// Seconds until its last mail at the current rate; none if the rate is 0.
    pub eta_seconds: Option<f64>,
}

impl Tracker {
    pub fn new(plan: LocalPlan) -> Self {
        Self {
            done: vec![0; plan.campaigns.len()],
            plan,
            arrivals: Vec::new(),
            seen: HashSet::new(),
            duplicates: 0,
            seconds: VecDeque::new(),
        }
    }

    /// Takes in what arrived since the last time, in the order of arrival.
    pub fn take(&mut self, arrivals: Vec<MailArrival>) {
        for arrival in arrivals {
            let position = self.plan.position(&arrival.campaign);
            self.count(&arrival, position);
            if is_of_plan(&self.plan, &arrival.campaign, &arrival.key) {
                if !self.seen.insert(arrival.key.clone()) {
                    self.duplicates += 1;
                } else if let Some(position) = position {
                    self.done[position] += 1;
                }
            }
            self.arrivals.push(arrival);
        }
    }

    fn count(&mut self, arrival: &MailArrival, position: Option<usize>) {
        let columns = self.done.len() + 1;
        if self.seconds.back().is_none_or(|(second, _)| *second < arrival.second()) {
            self.seconds.push_back((arrival.second(), vec![0; columns]));
        }
        if self.seconds.len() > KEPT + 1 {
            self.seconds.pop_front();
        }
        if let Some((_, counts)) = self.seconds.back_mut() {
            counts[position.unwrap_or(columns - 1)] += u64::from(arrival.recipients);
        }
    }

    pub fn arrivals(&self) -> &[MailArrival] {
        &self.arrivals
    }

    pub fn plan(&self) -> &LocalPlan {
        &self.plan
    }

    /// Mails of the plan that arrived.
    pub fn arrived(&self) -> u64 {
        self.done.iter().sum()
    }

    pub fn is_complete(&self) -> bool {
        self.arrived() == self.plan.mails()
    }

    /// The figures at `now_ns`, in nanoseconds since the epoch.
    pub fn progress(&self, now_ns: u64) -> RunProgress {
        let now = now_ns / 1_000_000_000;
        let first = self.arrivals.first().map_or(now, MailArrival::second);
        let sum = |second: u64| -> u64 {
            let found = self.seconds.iter().find(|(known, _)| *known == second);
            found.map_or(0, |(_, counts)| counts.iter().sum())
        };
        let from = now.saturating_sub(RECENT).max(first);
        let recent = self.seconds.iter().filter(|(second, _)| (from..now).contains(second));
        let mut counts = vec![0; self.done.len() + 1];
        for (_, of_second) in recent {
            for (sum, count) in counts.iter_mut().zip(of_second) {
                *sum += count;
            }
        }
        let minute = now.saturating_sub(KEPT as u64).max(first)..now;
        RunProgress {
            last_minute: minute.map(sum).collect(),
            last_second: sum(now.saturating_sub(1)),
            rate: ratio(counts.iter().sum(), now.saturating_sub(from)).unwrap_or_default(),
            campaigns: self.campaigns(&counts, now.saturating_sub(from)),
            duplicates: self.duplicates,
            arrived: self.arrived(),
        }
    }

    fn campaigns(&self, recent: &[u64], seconds: u64) -> Vec<CampaignProgress> {
        let of = |index: usize| self.done[index] * u64::from(self.plan.campaigns[index].recipients);
        let all: u64 = (0..self.done.len()).map(of).sum();
        let campaigns = self.plan.campaigns.iter().enumerate().map(|(index, campaign)| {
            let left = campaign.total() - of(index).min(campaign.total());
            let rate = ratio(recent[index], seconds).filter(|rate| *rate > 0.0);
            CampaignProgress {
                arrived: self.done[index],
                mails: campaign.mails,
                recent_share: ratio(recent[index], recent.iter().sum()),
                share: ratio(of(index), all),
                eta_seconds: rate.map(|rate| float(left) / rate),
            }
        });
        campaigns.collect()
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| float(part) / float(whole))
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^52")]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::LocalCampaign;

    const SECOND: u64 = 1_000_000_000;

    fn tracker() -> Tracker {
        let campaign = |name: &str, weight, mails| LocalCampaign {
            name: name.to_owned(),
            weight,
            mails,
            recipients: 1,
        };
        let campaigns = vec![campaign("big", 90, 900), campaign("small", 10, 60)];
        Tracker::new(LocalPlan { quota: 10.0, campaigns })
    }

    fn arrival(campaign: &str, number: u64, at_ns: u64) -> MailArrival {
        let key = format!("{campaign}-r{number:06}@example.com");
        MailArrival { at_ns, campaign: campaign.to_owned(), key, recipients: 1 }
    }

    /// Ten a second, one of them of the small campaign.
    fn steady(seconds: u64) -> Vec<MailArrival> {
        let one = |second: u64, slot: u64| {
            let at = (1_000 + second) * SECOND + slot * SECOND / 10;
            if slot == 9 {
                arrival("small", second, at)
            } else {
                arrival("big", second * 9 + slot, at)
            }
        };
        (0..seconds).flat_map(|second| (0..10).map(move |slot| one(second, slot))).collect()
    }

    #[test]
    fn rate_shares_and_eta_are_those_of_the_last_ten_whole_seconds() {
        let mut tracker = tracker();
        tracker.take(steady(30));
        let progress = tracker.progress(1_030 * SECOND + 5);
        assert!((progress.rate - 10.0).abs() < 1e-9);
        assert_eq!((progress.last_second, progress.arrived), (10, 300));
        assert_eq!(progress.last_minute, [10; 30]);
        let small = &progress.campaigns[1];
        assert_eq!((small.arrived, small.mails), (30, 60));
        assert!((small.recent_share.unwrap() - 0.1).abs() < 1e-9);
        assert!((small.eta_seconds.unwrap() - 30.0).abs() < 1e-9);
        // Ten seconds later nothing more has come.
        let silent = tracker.progress(1_040 * SECOND);
        assert_eq!((silent.last_second, silent.campaigns[0].eta_seconds), (0, None));
        assert_eq!(silent.last_minute.iter().filter(|count| **count == 0).count(), 10);
    }

    #[test]
    fn the_first_seconds_count_from_the_first_arrival() {
        let mut tracker = tracker();
        assert_eq!(tracker.progress(5).campaigns[0].share, None);
        tracker.take(steady(2));
        assert!((tracker.progress(1_002 * SECOND).rate - 10.0).abs() < 1e-9);
    }

    #[test]
    fn a_mail_counts_once_and_what_is_not_planned_completes_nothing() {
        let mut tracker = tracker();
        tracker.take(steady(1));
        tracker.take(vec![
            arrival("big", 0, 1_001 * SECOND),
            arrival("big", 900, 1_001 * SECOND),
            arrival("other", 0, 1_001 * SECOND),
        ]);
        let progress = tracker.progress(1_002 * SECOND);
        assert_eq!((progress.arrived, progress.duplicates), (10, 1));
        assert_eq!(progress.last_second, 3, "they spent quota all the same");
        assert_eq!(tracker.arrivals().len(), 13);
        assert!(!tracker.is_complete());
    }
}
