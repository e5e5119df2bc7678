//! Counts recipients by second and by campaign.

use serde::{Deserialize, Serialize};

use super::MailArrival;
use crate::plan::LocalPlan;

/// Recipients that arrived, by whole second of the wall clock and by campaign; duplicates count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
