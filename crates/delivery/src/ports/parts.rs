use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::Window;
use tidegate_core::parts::{Upkeep, campaign_of, part_of};

use super::{Idle, LedgerReport, Standing};

/// What stands in one part of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Sums by counter; in part 0 the totals, too.
    pub counters: BTreeMap<String, i64>,
    /// Queues found empty.
    pub idle: BTreeMap<String, Idle>,
    /// Campaigns that have left the list, and when that was noted.
    pub left: BTreeMap<String, Window>,
}

/// What a report changes in one part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartChange {
    /// Added to the sums.
    pub counters: BTreeMap<String, i64>,
    /// Queues found empty, or (`None`) no longer.
    pub idle: BTreeMap<String, Option<Idle>>,
    /// Campaigns that have left the list, and (`None`) those that are back or past.
    pub left: BTreeMap<String, Option<Window>>,
    /// Campaigns of which nothing is kept any more.
    pub past: Vec<String>,
}

impl LedgerReport {
    /// What it changes, by part. Queues that are no campaign's belong to part 0, as totals do.
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
            // While there were fewer parts it had another.
            let places = (0..=parts.max(&1).ilog2()).map(|fewer| part_of(name, parts >> fewer));
            for part in places.collect::<BTreeSet<u32>>() {
                changes.entry(part).or_default().past.push(name.clone());
            }
        }
        changes
    }
}

impl Standing {
    /// Adds what the parts hold, where there are `count` of them.
    pub fn with_parts(mut self, parts: BTreeMap<u32, Part>, count: u32) -> Self {
        self.parts = parts.keys().next_back().map_or(0, |last| last + 1);
        for (place, part) in parts {
            for (counter, sum) in part.counters {
                let total = self.counters.entry(counter).or_default();
                *total = total.saturating_add(sum);
            }
            // Of the time when there were fewer parts, something may be left elsewhere.
            let here = |name: &str| name.starts_with('.') || part_of(name, count) == place;
            self.idle.extend(part.idle.into_iter().filter(|(queue, _)| here(queue)));
            self.left.extend(part.left.into_iter().filter(|(name, _)| here(name)));
        }
        self
    }
}
