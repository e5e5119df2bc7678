//! Where stored mail may go, by the ledger as it was read.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::config::{Campaign, queue_key};
use tidegate_core::email::Priority;
use tidegate_core::identity::EpochMillis;
use tidegate_core::limits::InitialLimits;
use tidegate_core::{Timestamp, Window};

use crate::ports::{QueueUrl, Standing};

/// The queues into which stored mail may return.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Destinations {
    /// The campaign queues and priority queues, by [`queue_key`].
    pub queues: BTreeMap<String, QueueUrl>,
    /// The weights in force, by campaign name.
    pub weights: BTreeMap<String, u64>,
    /// Names of held campaigns; their mail stays in the store.
    pub held: BTreeSet<String>,
    /// The campaigns' last cancels: each ends the runs that began before it.
    pub cancels: BTreeMap<String, EpochMillis>,
    /// The level in force. Rows of a priority that it defers stay in the store.
    pub level: BackPressureLevel,
}

impl Destinations {
    /// The queues of these campaigns, and which of them are held, or have mail that is deferred as their limit has
    /// ended.
    pub fn of(campaigns: &[Campaign], standing: &Standing, now: Timestamp) -> Self {
        let (control, window) = (&standing.control, Window::containing(now));
        let limits = control.limit_table(&InitialLimits::default());
        let weight = |campaign: &Campaign| control.weight(&campaign.name, campaign.weight);
        let is_held = |campaign: &Campaign| {
            control.holds_campaign(&campaign.name) && control.probed_hold(&campaign.name).is_none()
                || weight(campaign) == 0
                || limits.defers_campaign(&campaign.name, window)
        };
        let queues = |c: &Campaign| {
            let queue = |(priority, url): (Priority, &str)| {
                (queue_key(&c.name, priority), QueueUrl::new(url))
            };
            c.queues().map(queue).collect::<Vec<_>>()
        };
        let held = campaigns.iter().filter(|campaign| is_held(campaign));
        Self {
            queues: campaigns.iter().flat_map(queues).collect(),
            weights: campaigns.iter().map(|c| (c.name.clone(), u64::from(weight(c)))).collect(),
            held: held.map(|campaign| campaign.name.clone()).collect(),
            cancels: control
                .cancels
                .iter()
                .map(|(name, cancel)| (name.clone(), cancel.at))
                .collect(),
            level: control.level(now.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::control::{Hold, HoldReason};

    use super::*;

    #[test]
    fn mail_of_a_held_campaign_and_of_one_without_weight_stays_in_the_store() {
        let campaign = |name: &str, weight| Campaign {
            name: name.to_owned(),
            queue_url: format!("https://sqs.example/{name}"),
            weight,
            ..Campaign::default()
        };
        let mut standing = Standing::default();
        let hold = Hold::new("by Ada", EpochMillis::new(0));
        standing.control.hold(Some("held"), HoldReason::Paused, hold);
        let campaigns = [campaign("held", 1), campaign("idle", 0), campaign("open", 1)];
        let destinations = Destinations::of(&campaigns, &standing, Timestamp::default());
        assert_eq!(destinations.held, ["held", "idle"].map(str::to_owned).into());
    }
}
