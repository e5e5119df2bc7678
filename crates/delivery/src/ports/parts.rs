use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::Window;
use tidegate_core::parts::{Upkeep, campaign_of, part_of};

use super::{Idle, LedgerReport, Standing};

/// The content of one part of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Sums by counter name. Part 0 also holds the totals.
    pub counters: BTreeMap<String, i64>,
    /// Queues found empty, by name.
    pub idle: BTreeMap<String, Idle>,
    /// Campaigns that have left the list, and the window in which this was noted.
    pub left: BTreeMap<String, Window>,
}

/// The changes that one report makes to one part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartChange {
    /// Amounts to add to the sums, by counter name.
    pub counters: BTreeMap<String, i64>,
    /// New states of queues: found empty, or (`None`) no longer empty.
    pub idle: BTreeMap<String, Option<Idle>>,
    /// Campaigns that have left the list, with the report's window; `None` for those that are back or past.
    pub left: BTreeMap<String, Option<Window>>,
    /// Campaigns of which all data is deleted.
    pub past: Vec<String>,
}

impl LedgerReport {
    /// Splits the report by part. A campaign's data belongs to the part given by a hash of its name; totals,
    /// and queues that belong to no campaign, belong to part 0. Counters of 0 are left out.
    ///
    /// Parts double in number as campaigns are added, so data of a past campaign may be in parts that
    /// applied earlier. It is deleted from all of them: with 8 parts and hash 13 these are 13 mod 8 = 5, 13
    /// mod 4 = 1 and 13 mod 2 = 1, and part 0.
    pub fn by_part(&self) -> BTreeMap<u32, PartChange> {
        let Upkeep { parts, left, back, past } = &self.upkeep;
        let place = |campaign: &str| part_of(campaign, *parts);
        let mut changes = BTreeMap::<u32, PartChange>::new();
        for (counter, added) in self.counters.iter().filter(|(_, added)| **added != 0) {
            let part = changes.entry(campaign_of(counter).map_or(0, place)).or_default();
            part.counters.insert(counter.clone(), *added);
        }
        for (queue, idle) in &self.idle {
            let part = if queue.starts_with('.') { 0 } else { place(queue) };
            changes.entry(part).or_default().idle.insert(queue.clone(), *idle);
        }
        let left = left.iter().map(|name| (name, Some(self.window)));
        let back = back.iter().chain(past).map(|name| (name, None));
        for (name, at) in left.chain(back) {
            changes.entry(place(name)).or_default().left.insert(name.clone(), at);
        }
        for name in past {
            // The campaign was in another part while there were fewer.
            let places = (0..=parts.max(&1).ilog2()).map(|fewer| part_of(name, parts >> fewer));
            for part in places.collect::<BTreeSet<u32>>() {
                changes.entry(part).or_default().past.push(name.clone());
            }
        }
        changes
    }
}

impl Standing {
    /// Adds the content of `parts` to the standing; `count` is the number of parts that applies now.
    /// Counters are summed over all parts.
    pub fn with_parts(mut self, parts: BTreeMap<u32, Part>, count: u32) -> Self {
        self.parts = parts.keys().next_back().map_or(0, |last| last + 1);
        for (place, part) in parts {
            for (counter, sum) in part.counters {
                let total = self.counters.entry(counter).or_default();
                *total = total.saturating_add(sum);
            }
            // Empty queues and campaigns that left count only in their present part: older parts may hold
            // outdated ones.
            let here = |name: &str| name.starts_with('.') || part_of(name, count) == place;
            self.idle.extend(part.idle.into_iter().filter(|(queue, _)| here(queue)));
            self.left.extend(part.left.into_iter().filter(|(name, _)| here(name)));
        }
        self
    }
}
