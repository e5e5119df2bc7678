//! Campaigns by tag: determines from the queues' tags which queues are campaigns, and when the existing
//! list is kept instead.
//!
//! A wrong tag, or a service that gives no answer for a moment, must not remove a campaign that is
//! being sent. In case of doubt a campaign stays on the list unchanged.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::config::{Campaign, is_campaign_name, is_word};
use crate::cycle::Cycle;
use crate::email::Priority;

/// The tag that makes a queue a campaign. The value is the weight, 1 to 10,000.
pub const WEIGHT_TAG: &str = "tidegate:weight";
/// The tag that names the campaign. Without it the name is the queue's name after the prefix.
pub const CAMPAIGN_TAG: &str = "tidegate:campaign";
/// The tag that names SES's tenant for which the campaign's mail is sent.
pub const TENANT_TAG: &str = "tidegate:tenant";
/// The tag that makes a queue a priority queue of the campaign that `tidegate:campaign` names. The value is
/// `critical`, `high` or `low`; a weight is not looked at.
pub const PRIORITY_TAG: &str = "tidegate:priority";

const CAMPAIGN: &str = "tag tidegate:campaign";
const PRIORITY: &str = "tag tidegate:priority";
const WEIGHTS: &str = "a whole number from 1 to 10000";
const NAMES: &str = "1 to 64 letters, digits, - and _, other than express";
const TENANTS: &str = "1 to 64 letters, digits, - and _";
const STANDARD: &str = "a standard queue, whose name does not end in .fifo";
const PRIORITIES: &str = "critical, high or low, each once for a campaign";
const LISTED: &str = "the name of a campaign";
/// The most campaigns that the list may hold.
const MOST: usize = 1_000;

/// A queue with its tags, as SQS lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaggedQueue {
    /// The queue's URL, which ends in the queue's name.
    pub url: String,
    /// The queue's tags by name, including tags that Tidegate does not use.
    pub tags: BTreeMap<String, String>,
}

/// Error for a queue whose tags or name do not give a valid campaign.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("queue {queue}: {what} is {value:?}; allowed is {allowed}")]
pub struct InvalidTag {
    /// The queue's name, from its URL.
    pub queue: String,
    /// The faulty tag, or the faulty part of the name.
    pub what: &'static str,
    /// The value that is not allowed.
    pub value: String,
    /// Description of the values that are allowed there.
    pub allowed: &'static str,
    /// True if the queue stays on the list with its earlier name and weight.
    pub kept: bool,
}

impl InvalidTag {
    fn new(url: &str, what: &'static str, value: &str, allowed: &'static str) -> Self {
        let (queue, value) = (queue_name(url).to_owned(), value.to_owned());
        Self { queue, what, value, allowed, kept: false }
    }
}

/// Reason why the existing list is kept as a whole.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Refused(String);

/// The campaigns that the tags define, and the faults found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The campaigns sorted by name; or the reason why the existing list is kept.
    pub campaigns: Result<Vec<Campaign>, Refused>,
    /// Queues with wrong tags or names.
    pub invalid: Vec<InvalidTag>,
}

/// Determines the campaigns among `queues`, whose names begin with `prefix`. `before` is the existing
/// list. `unasked` contains the names of queues whose tags could not be read; they stay as they are in
/// `before`.
///
/// A queue without the tag `tidegate:weight` is not a campaign, and without `tidegate:priority` no campaign's
/// priority queue. A queue with wrong tags stays as it is
/// in `before`, if it is there; the other queues are not affected.
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
    let stood: Vec<Role> = before.iter().flat_map(Role::all).collect();
    let is_unasked = |role: &&Role| unasked.contains(queue_name(&role.url));
    let mut roles: Vec<Role> = stood.iter().filter(is_unasked).cloned().collect();
    let mut invalid = Vec::new();
    for queue in queues {
        match role(prefix, queue) {
            Ok(found) => roles.extend(found),
            Err(mut fault) => {
                let stood = stood.iter().find(|role| queue_name(&role.url) == fault.queue);
                fault.kept = stood.is_some();
                invalid.push(fault);
                // The URL may have changed; the one from SQS is used.
                roles.extend(stood.map(|stood| Role { url: queue.url.clone(), ..stood.clone() }));
            }
        }
    }
    let (campaigns, without) = assembled(roles);
    invalid.extend(without);
    Listing { campaigns: checked(campaigns), invalid }
}

/// A queue with the campaign to which it belongs; of a priority queue's campaign only the name counts.
#[derive(Clone)]
struct Role {
    campaign: Campaign,
    /// `Normal` for the campaign's own queue.
    priority: Priority,
    url: String,
}

impl Role {
    /// The queues of a campaign on the list.
    fn all(campaign: &Campaign) -> impl Iterator<Item = Self> {
        let own = Campaign { priority_queues: BTreeMap::new(), ..campaign.clone() };
        campaign.queues().map(move |(priority, url)| Self {
            campaign: own.clone(),
            priority,
            url: url.to_owned(),
        })
    }
}

/// The campaigns with their priority queues, and the priority queues that none of them can have.
fn assembled(mut roles: Vec<Role>) -> (Vec<Campaign>, Vec<InvalidTag>) {
    roles.sort_by(|a, b| a.url.cmp(&b.url));
    let (own, others): (Vec<Role>, Vec<Role>) =
        roles.into_iter().partition(|role| role.priority == Priority::Normal);
    let own = own.into_iter().map(|role| Campaign { queue_url: role.url, ..role.campaign });
    let mut campaigns: Vec<Campaign> = own.collect();
    campaigns.sort_by(|a, b| a.name.cmp(&b.name)); // stable: of one name by URL
    let mut without = Vec::new();
    for Role { campaign: Campaign { name, .. }, priority, url } in others {
        let invalid = |what, value, allowed| InvalidTag::new(&url, what, value, allowed);
        match campaigns.binary_search_by(|listed| listed.name.cmp(&name)) {
            Ok(at) if campaigns[at].queue(priority).is_none() => {
                campaigns[at].priority_queues.insert(priority, url);
            }
            Ok(_) => without.push(invalid(PRIORITY, priority.as_str(), PRIORITIES)),
            Err(_) => without.push(invalid(CAMPAIGN, &name, LISTED)),
        }
    }
    (campaigns, without)
}

/// The queue's name, which is the last part of its URL.
pub fn queue_name(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}

/// True if both lists have the same campaigns, in any order.
pub fn same(one: &[Campaign], other: &[Campaign]) -> bool {
    let by_name = |list: &[Campaign]| {
        let mut list = list.to_vec();
        list.sort_by(|a, b| a.name.cmp(&b.name));
        list
    };
    by_name(one) == by_name(other)
}

/// The role that a queue's tags give it; none without a tag for weight or priority.
fn role(prefix: &str, queue: &TaggedQueue) -> Result<Option<Role>, InvalidTag> {
    let own = queue_name(&queue.url);
    let (weight, priority) = (queue.tags.get(WEIGHT_TAG), queue.tags.get(PRIORITY_TAG));
    if weight.or(priority).is_none() {
        return Ok(None);
    }
    let invalid = |what, value: &str, allowed| InvalidTag::new(&queue.url, what, value, allowed);
    let (what, name) = match queue.tags.get(CAMPAIGN_TAG) {
        Some(name) => (CAMPAIGN, name.as_str()),
        None if priority.is_some() => (CAMPAIGN, ""),
        None => ("the name after the prefix", own.strip_prefix(prefix).unwrap_or(own)),
    };
    if own.strip_suffix(".fifo").is_some() {
        return Err(invalid("the name", own, STANDARD));
    }
    if !is_campaign_name(name) {
        return Err(invalid(what, name, NAMES));
    }
    if let Some(priority) = priority {
        let known = Priority::ALL.into_iter().find(|known| known.as_str() == priority);
        let known = known.filter(|known| *known != Priority::Normal);
        let known = known.ok_or_else(|| invalid(PRIORITY, priority, PRIORITIES))?;
        let campaign = Campaign { name: name.to_owned(), ..Campaign::default() };
        return Ok(Some(Role { campaign, priority: known, url: queue.url.clone() }));
    }
    let weight = weight.map_or("", String::as_str);
    let digits = weight.bytes().all(|byte| byte.is_ascii_digit());
    let number = weight.parse().ok().filter(|weight| digits && (1..=10_000).contains(weight));
    let weight = number.ok_or_else(|| invalid("tag tidegate:weight", weight, WEIGHTS))?;
    let tenant = queue.tags.get(TENANT_TAG);
    if let Some(other) = tenant.filter(|tenant| !is_word(tenant)) {
        return Err(invalid("tag tidegate:tenant", other, TENANTS));
    }
    let (name, tenant) = (name.to_owned(), tenant.cloned());
    let campaign = Campaign { name, weight, tenant, ..Campaign::default() };
    Ok(Some(Role { campaign, priority: Priority::Normal, url: queue.url.clone() }))
}

fn checked(campaigns: Vec<Campaign>) -> Result<Vec<Campaign>, Refused> {
    // An empty list probably has another cause than an operator's wish, such as a wrong prefix or an incomplete
    // answer. An operator who wants to stop sending uses a hold.
    if campaigns.is_empty() {
        let fault = "no queue carries a valid tag tidegate:weight; allowed is at least one";
        return Err(Refused(fault.to_owned()));
    }
    if campaigns.len() > MOST {
        let count = campaigns.len();
        let fault = format!("{count} queues are tagged as campaigns; allowed are at most {MOST}");
        return Err(Refused(fault));
    }
    // The list is sorted by name, so equal names are neighbours.
    if let Some([first, second]) = campaigns.array_windows().find(|[a, b]| a.name == b.name) {
        return Err(Refused(format!(
            "campaign {} is both queue {} and queue {}; allowed is one queue",
            first.name,
            queue_name(&first.queue_url),
            queue_name(&second.queue_url)
        )));
    }
    let weights: Vec<u32> = campaigns.iter().map(|campaign| campaign.weight).collect();
    Cycle::new(&weights).map_err(|error| Refused(error.to_string()))?;
    Ok(campaigns)
}

#[cfg(test)]
mod tests;
