//! Campaigns found by tag: which queues are campaigns, by their tags, and when the list that stands
//! is kept instead.
//!
//! One bad tag, or a moment in which a service says nothing, must never take a campaign away that is
//! being sent: whatever is in doubt stays as it was.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::config::{Campaign, is_campaign_name};
use crate::cycle::{Cycle, InvalidWeights};

/// The tag that makes a queue a campaign; its value is the weight, 1 to 10,000.
pub const WEIGHT_TAG: &str = "tidegate:weight";
/// The tag that names the campaign; without it the campaign is the queue's name after the prefix.
pub const CAMPAIGN_TAG: &str = "tidegate:campaign";

const WEIGHTS: &str = "a whole number from 1 to 10000";
const NAMES: &str = "1 to 64 letters, digits, - and _, other than express";
const STANDARD: &str = "a standard queue, whose name does not end in .fifo";

/// A queue and its tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaggedQueue {
    /// Its URL, which ends in its name.
    pub url: String,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// A queue that is no campaign as it is tagged.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("queue {queue}: {what} is {value:?}; allowed is {allowed}")]
pub struct InvalidTag {
    /// The queue's name.
    pub queue: String,
    /// The tag, or what of the name is at fault.
    pub what: &'static str,
    /// Its value.
    pub value: String,
    /// What is allowed.
    pub allowed: &'static str,
    /// Whether the queue stays on the list as it stood there before.
    pub kept: bool,
}

/// Why the list that stands is kept as a whole.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refused {
    /// There is nothing to be sent. An operator who wants that pauses; a list without a campaign is
    /// no list, and what looks like it is a wrong prefix, or a service that left something out.
    #[error("no queue carries a valid tag tidegate:weight; allowed is at least one")]
    NoCampaign,
    /// A campaign is one queue.
    #[error("campaign {campaign} is both queue {first} and queue {second}; allowed is one queue")]
    TwoQueues {
        /// The campaign.
        campaign: String,
        /// A queue's name.
        first: String,
        /// Another's.
        second: String,
    },
    /// More than the list may hold.
    #[error("{0} queues are tagged as campaigns; allowed are at most 1000")]
    TooMany(usize),
    /// The weights give no cycle.
    #[error(transparent)]
    Weights(#[from] InvalidWeights),
}

/// What the tags say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The list, by name; or why the one before it stays.
    pub campaigns: Result<Vec<Campaign>, Refused>,
    /// Queues whose tags are wrong.
    pub invalid: Vec<InvalidTag>,
}

/// The campaigns among `queues`, whose names begin with `prefix`; `before` is the list that stands,
/// `unasked` are the names of queues whose tags are not known: they stay as they stand in it.
///
/// A queue without the tag `tidegate:weight` is no campaign. One whose tags are wrong stays as it
/// stands in `before`, if it does; the others do not suffer from it.
///
/// ```
/// use tidegate_core::tagged::{TaggedQueue, listing};
/// let queue = |name: &str, weight: &str| TaggedQueue {
///     url: format!("https://sqs.example/1/{name}"),
///     tags: [("tidegate:weight".to_owned(), weight.to_owned())].into(),
/// };
/// let queues = [queue("mail-campaign-spring", "30"), queue("mail-campaign-fall", "lots")];
/// let found = listing("mail-campaign-", &queues, &Default::default(), &[]);
/// assert_eq!(found.campaigns.unwrap()[0].name, "spring");
/// assert_eq!(
///     found.invalid[0].to_string(),
///     "queue mail-campaign-fall: tag tidegate:weight is \"lots\"; allowed is a whole number from 1 to 10000"
/// );
/// ```
pub fn listing(
    prefix: &str,
    queues: &[TaggedQueue],
    unasked: &BTreeSet<String>,
    before: &[Campaign],
) -> Listing {
    let (mut campaigns, mut invalid) = (Vec::new(), Vec::new());
    campaigns.extend(before.iter().filter(|c| unasked.contains(queue_name(&c.queue_url))).cloned());
    for queue in queues {
        match campaign(prefix, queue) {
            Ok(found) => campaigns.extend(found),
            Err(mut fault) => {
                let stood = before.iter().find(|c| queue_name(&c.queue_url) == fault.queue);
                fault.kept = stood.is_some();
                invalid.push(fault);
                // Its URL is how the service writes it today.
                let kept =
                    |stood: &Campaign| Campaign { queue_url: queue.url.clone(), ..stood.clone() };
                campaigns.extend(stood.map(kept));
            }
        }
    }
    campaigns.sort_by(|a, b| (&a.name, &a.queue_url).cmp(&(&b.name, &b.queue_url)));
    Listing { campaigns: checked(campaigns), invalid }
}

/// The queue's name: what its URL ends in.
pub fn queue_name(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}

/// Whether both lists say the same, in whatever order.
pub fn same(one: &[Campaign], other: &[Campaign]) -> bool {
    let by_name = |list: &[Campaign]| {
        let mut list = list.to_vec();
        list.sort_by(|a, b| a.name.cmp(&b.name));
        list
    };
    by_name(one) == by_name(other)
}

/// The campaign that a queue is; none where it has no weight.
fn campaign(prefix: &str, queue: &TaggedQueue) -> Result<Option<Campaign>, InvalidTag> {
    let own = queue_name(&queue.url);
    let Some(weight) = queue.tags.get(WEIGHT_TAG) else { return Ok(None) };
    let invalid = |what, value: &str, allowed| InvalidTag {
        queue: own.to_owned(),
        what,
        value: value.to_owned(),
        allowed,
        kept: false,
    };
    let (what, name) = match queue.tags.get(CAMPAIGN_TAG) {
        Some(name) => ("tag tidegate:campaign", name.as_str()),
        None => ("the name after the prefix", own.strip_prefix(prefix).unwrap_or(own)),
    };
    if own.strip_suffix(".fifo").is_some() {
        return Err(invalid("the name", own, STANDARD));
    }
    if !is_campaign_name(name) {
        return Err(invalid(what, name, NAMES));
    }
    let digits = weight.bytes().all(|byte| byte.is_ascii_digit());
    let number = weight.parse().ok().filter(|weight| digits && (1..=10_000).contains(weight));
    let weight = number.ok_or_else(|| invalid("tag tidegate:weight", weight, WEIGHTS))?;
    Ok(Some(Campaign { name: name.to_owned(), queue_url: queue.url.clone(), weight }))
}

fn checked(campaigns: Vec<Campaign>) -> Result<Vec<Campaign>, Refused> {
    if campaigns.is_empty() {
        return Err(Refused::NoCampaign);
    }
    if campaigns.len() > 1_000 {
        return Err(Refused::TooMany(campaigns.len()));
    }
    let neighbours = campaigns.iter().zip(campaigns.iter().skip(1));
    for (first, second) in neighbours {
        if first.name == second.name {
            return Err(Refused::TwoQueues {
                campaign: first.name.clone(),
                first: queue_name(&first.queue_url).to_owned(),
                second: queue_name(&second.queue_url).to_owned(),
            });
        }
    }
    let weights: Vec<u32> = campaigns.iter().map(|campaign| campaign.weight).collect();
    Cycle::new(&weights)?;
    Ok(campaigns)
}

#[cfg(test)]
mod tests;
