use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::cycle::Cycle;
use crate::email::Priority;
use crate::text::is_word_of;

/// The name under which express mail is counted. No campaign may have it.
pub const EXPRESS: &str = "express";

/// One campaign: a standard queue with a share of the quota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Campaign {
    /// The campaign's name: 1 to 64 letters, digits, `-` and `_`, not `express`.
    pub name: String,
    /// The URL of the campaign's standard queue, by http or https.
    pub queue_url: String,
    /// The campaign's weight, 0 to 10,000. With weight 0 it has no share: its mail waits.
    pub weight: u32,
    /// SES's tenant for which its mail is sent: 1 to 64 letters, digits, `-` and `_`. The control record's list
    /// has it in a member of its own (`Control::tenants`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The URLs of its priority queues: of mail that is received before that in `queue_url` (`critical`,
    /// `high`), or after it (`low`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub priority_queues: BTreeMap<Priority, String>,
}

/// The name of a campaign's queue: `news` for its own one, `news.high` for a priority queue. No campaign's
/// name contains a dot.
pub fn queue_key(campaign: &str, priority: Priority) -> String {
    match priority {
        Priority::Normal => campaign.to_owned(),
        other => format!("{campaign}.{other}"),
    }
}

/// Whether a campaign may have this name: 1 to 64 letters, digits, `-` and `_`, but not `express`.
pub fn is_campaign_name(name: &str) -> bool {
    is_word(name) && name != EXPRESS
}

/// The source of the list of campaigns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Campaigns {
    /// The list stands in `TIDEGATE_CAMPAIGNS` itself, as JSON.
    Listed(Vec<Campaign>),
    /// `TIDEGATE_CAMPAIGNS` is `ledger`: the list stands in the ledger's control record.
    Ledger,
}

impl Campaigns {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text == "ledger" {
            return Some(Self::Ledger);
        }
        let list: Vec<Campaign> = serde_json::from_str(text).ok()?;
        Campaign::valid(&list).then_some(Self::Listed(list))
    }
}

impl Campaign {
    /// Whether `list` is allowed: 1 to 1,000 campaigns, each name and each queue once, and weights of
    /// which a [`Cycle`] can be made.
    pub fn valid(list: &[Self]) -> bool {
        let names: BTreeSet<_> = list.iter().map(|campaign| &campaign.name).collect();
        let queues: Vec<_> = list.iter().flat_map(Self::queues).map(|(_, url)| url).collect();
        let weights: Vec<u32> = list.iter().map(|campaign| campaign.weight).collect();
        (1..=1_000).contains(&list.len())
            && names.len() == list.len()
            && BTreeSet::from_iter(&queues).len() == queues.len()
            && list.iter().all(Self::is_valid)
            && Cycle::new(&weights).is_ok()
    }

    fn is_valid(&self) -> bool {
        is_campaign_name(&self.name)
            && self.queues().all(|(_, url)| is_url(url) && !is_fifo(url))
            && !self.priority_queues.contains_key(&Priority::Normal)
            && self.weight <= 10_000
            && self.tenant.as_deref().is_none_or(is_word)
    }

    /// The URLs of its queues in the order in which they are asked. Its own queue is that of normal priority.
    pub fn queues(&self) -> impl Iterator<Item = (Priority, &str)> {
        Priority::ALL.into_iter().filter_map(|priority| Some((priority, self.queue(priority)?)))
    }

    /// The URL of the queue to which a producer puts mail of a priority.
    pub fn queue_for(&self, priority: Priority) -> &str {
        self.queue(priority).unwrap_or(&self.queue_url)
    }

    /// The URL of its queue of a priority, if it has one.
    pub fn queue(&self, priority: Priority) -> Option<&str> {
        let own = (priority == Priority::Normal).then_some(&self.queue_url);
        own.or_else(|| self.priority_queues.get(&priority)).map(String::as_str)
    }
}

/// Whether `text` consists of 1 to 64 letters, digits, `-` and `_`.
pub fn is_word(text: &str) -> bool {
    is_word_of(text, 64, "-_")
}

pub(super) fn is_url(text: &str) -> bool {
    ["https://", "http://"]
        .iter()
        .any(|scheme| text.strip_prefix(scheme).is_some_and(|rest| rest.contains('/')))
        && !text.contains(char::is_whitespace)
}

/// Whether the queue is FIFO: SQS demands the ending `.fifo`, in lower case, for FIFO queues only.
#[expect(clippy::case_sensitive_file_extension_comparisons, reason = "SQS compares by case")]
pub(super) fn is_fifo(url: &str) -> bool {
    url.ends_with(".fifo")
}
