use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::queue_url::{is_fifo, is_name_char, is_url};
use crate::cycle::Cycle;

/// The name under which express mail is counted. No campaign may have it.
pub const EXPRESS: &str = "express";

/// One campaign: a standard queue with a share of the quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
        let queues: BTreeSet<_> = list.iter().map(|campaign| &campaign.queue_url).collect();
        let weights: Vec<u32> = list.iter().map(|campaign| campaign.weight).collect();
        (1..=1_000).contains(&list.len())
            && names.len() == list.len()
            && queues.len() == list.len()
            && list.iter().all(Self::is_valid)
            && Cycle::new(&weights).is_ok()
    }

    fn is_valid(&self) -> bool {
        is_campaign_name(&self.name)
            && is_url(&self.queue_url)
            && !is_fifo(&self.queue_url)
            && self.weight <= 10_000
            && self.tenant.as_deref().is_none_or(is_word)
    }
}

/// Whether `text` consists of 1 to 64 letters, digits, `-` and `_`.
pub fn is_word(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.chars().all(is_name_char)
}
