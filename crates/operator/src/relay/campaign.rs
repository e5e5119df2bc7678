//! The campaign of a mail: as the mail says, as the rules say, or the one for all others.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_core::config::{Campaign, EXPRESS};
use tidegate_core::email::Priority;
use tidegate_delivery::ports::QueueUrl;

use super::refusal::Refusal;

/// The file of `--rules`: campaigns by configuration set, by user and by sender, each `news`, `news.high` or `express`.
///
/// ```json
/// {"configuration_sets": {"receipts": "express"}, "users": {"shop": "orders.high"}, "senders": {"example.org": "news"}}
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CampaignRules {
    configuration_sets: BTreeMap<String, String>,
    /// SMTP users and access keys.
    users: BTreeMap<String, String>,
    /// Addresses and domains.
    senders: BTreeMap<String, String>,
}

/// The parts of a mail by which its campaign is chosen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CampaignHints<'a> {
    /// The header `X-Tidegate-Campaign`, or the SES tag `campaign`.
    pub(crate) named: Option<&'a str>,
    pub(crate) configuration_set: Option<&'a str>,
    pub(crate) user: Option<&'a str>,
    /// The sender's address without its name.
    pub(crate) sender: &'a str,
}

/// Where a mail goes, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CampaignChoice {
    /// A campaign's name, or `express`.
    pub(crate) campaign: String,
    /// The priority that came with the campaign's name; none if none did.
    pub(crate) priority: Option<Priority>,
    /// By whom it was chosen, for people.
    pub(crate) by: String,
}

/// The stack's queues that a mail can be put on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Targets {
    pub(crate) campaigns: Vec<Campaign>,
    pub(crate) express: Option<QueueUrl>,
    /// `--campaign`.
    pub(crate) default: Option<String>,
}

impl CampaignRules {
    /// Chooses the first that says something: the mail itself, the configuration set, the user, the sender's address or
    /// domain, `--campaign`, and the stack's only campaign. A configuration set or a user without a rule chooses the
    /// campaign of its own name.
    pub(crate) fn choose(
        &self,
        hints: CampaignHints<'_>,
        targets: &Targets,
    ) -> Result<CampaignChoice, Refusal> {
        if let Some(named) = hints.named {
            return targets.find(named, "the mail itself");
        }
        let listed = [
            ("configuration set", hints.configuration_set, &self.configuration_sets),
            ("user", hints.user, &self.users),
        ];
        for (what, name, rules) in listed {
            let Some(name) = name else { continue };
            let by = format!("{what} {name}");
            if let Some(campaign) = rules.get(name) {
                return targets.find(campaign, format_args!("the rule for {by}"));
            }
            if let Ok(choice) = targets.find(name, &by) {
                return Ok(choice);
            }
        }
        let sender = hints.sender.to_ascii_lowercase();
        let domain = sender.rsplit_once('@').map_or("", |(_, domain)| domain);
        for name in [sender.as_str(), domain] {
            if let Some(campaign) = self.senders.get(name) {
                return targets.find(campaign, format_args!("the rule for senders of {domain}"));
            }
        }
        match (&targets.default, &targets.campaigns[..]) {
            (Some(name), _) => targets.find(name, "--campaign"),
            (None, [only]) => targets.find(&only.name, "it is the only campaign"),
            _ => Err(targets.none("neither the mail nor a rule names its campaign")),
        }
    }

    /// Checks that the rules, `--campaign` and `others`, each with who names it, name campaigns that are there.
    pub(crate) fn check<'a>(
        &'a self,
        others: impl Iterator<Item = (&'a str, String)>,
        targets: &'a Targets,
    ) -> Result<(), Refusal> {
        let all = self.configuration_sets.iter().chain(&self.users).chain(&self.senders);
        let named = all.map(|(of, campaign)| (campaign.as_str(), format!("the rule for {of}")));
        let default = targets.default.iter().map(|name| (name.as_str(), "--campaign".to_owned()));
        let mut named = named.chain(default).chain(others);
        named.try_for_each(|(name, by)| targets.find(name, by).map(drop))
    }
}

impl Targets {
    /// Finds `news`, `news.high` or `express`.
    fn find(&self, name: &str, by: impl fmt::Display) -> Result<CampaignChoice, Refusal> {
        let missing =
            || self.none(&format!("{by} names the campaign {name:?}, which is not there"));
        let (campaign, priority) = match name.rsplit_once('.') {
            Some((campaign, word)) => (campaign, Some(word.parse().map_err(|_| missing())?)),
            None => (name, None),
        };
        let chosen = CampaignChoice { campaign: campaign.to_owned(), priority, by: by.to_string() };
        self.queue(&chosen, Priority::Normal).map(|_| chosen).ok_or_else(missing)
    }

    /// The queue for a mail of `priority`; none if the campaign is not there.
    pub(crate) fn queue(&self, chosen: &CampaignChoice, priority: Priority) -> Option<QueueUrl> {
        if chosen.campaign == EXPRESS {
            return self.express.clone();
        }
        let campaign = self.campaigns.iter().find(|known| known.name == chosen.campaign)?;
        Some(QueueUrl::new(campaign.queue_for(priority)))
    }

    fn none(&self, fault: &str) -> Refusal {
        let express = self.express.iter().map(|_| EXPRESS);
        let known = self.campaigns.iter().map(|campaign| campaign.name.as_str()).chain(express);
        let known: Vec<&str> = known.collect();
        Refusal::Invalid(format!("{fault}; allowed is one of: {}", known.join(", ")))
    }
}

#[cfg(test)]
mod tests;
