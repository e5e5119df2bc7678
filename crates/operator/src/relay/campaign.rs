//! The campaign of a mail: as the mail says, as the rules say, or the one for all others.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
mod tests {
    use super::*;

    fn targets(names: &[&str]) -> Targets {
        let campaign = |name: &&str| Campaign {
            name: (*name).to_owned(),
            queue_url: format!("https://sqs.example/1/{name}"),
            weight: 1,
            tenant: None,
            priority_queues: BTreeMap::new(),
        };
        Targets {
            campaigns: names.iter().map(campaign).collect(),
            express: Some(QueueUrl::new("https://sqs.example/1/express")),
            default: None,
        }
    }

    fn rules() -> CampaignRules {
        serde_json::from_str(
            r#"{"configuration_sets": {"receipts": "express"}, "users": {"shop": "orders.high"},
                "senders": {"example.org": "news", "alerts@example.org": "orders"}}"#,
        )
        .unwrap()
    }

    fn chosen(hints: CampaignHints<'_>, targets: &Targets) -> (String, Option<Priority>) {
        let choice = rules().choose(hints, targets).unwrap();
        (choice.campaign, choice.priority)
    }

    #[test]
    fn the_first_that_says_something_chooses() {
        let targets = targets(&["news", "orders", "big"]);
        let all = CampaignHints {
            named: Some("big.low"),
            configuration_set: Some("receipts"),
            user: Some("shop"),
            sender: "Any@Example.org",
        };
        assert_eq!(chosen(all, &targets), ("big".to_owned(), Some(Priority::Low)));
        let unnamed = CampaignHints { named: None, ..all };
        assert_eq!(chosen(unnamed, &targets), ("express".to_owned(), None));
        let by_user = CampaignHints { configuration_set: Some("other"), ..unnamed };
        assert_eq!(chosen(by_user, &targets), ("orders".to_owned(), Some(Priority::High)));
        let by_domain = CampaignHints { user: None, ..by_user };
        assert_eq!(chosen(by_domain, &targets).0, "news");
        let by_address = CampaignHints { sender: "alerts@example.org", ..by_domain };
        assert_eq!(chosen(by_address, &targets).0, "orders");
        let by_its_name = CampaignHints { user: Some("big"), ..by_address };
        assert_eq!(chosen(by_its_name, &targets).0, "big");
    }

    #[test]
    fn the_only_campaign_takes_what_nobody_names_and_of_several_the_default() {
        let stranger = CampaignHints { sender: "a@example.net", ..CampaignHints::default() };
        assert_eq!(chosen(stranger, &targets(&["solo"])).0, "solo");
        let several = targets(&["news", "orders"]);
        let error = rules().choose(stranger, &several).unwrap_err().to_string();
        assert!(error.ends_with("allowed is one of: news, orders, express"), "{error}");
        let default = Targets { default: Some("orders".to_owned()), ..several };
        assert_eq!(chosen(stranger, &default).0, "orders");
    }

    #[test]
    fn a_campaign_that_is_not_there_is_refused_with_those_that_are() {
        let targets = targets(&["news", "orders"]);
        for name in ["nwes", "news.highest", "news.high.low", ""] {
            let hints = CampaignHints { named: Some(name), ..CampaignHints::default() };
            let error = rules().choose(hints, &targets).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("news, orders"), "{error}");
        }
        let check = |others: &[&'static str], targets: &Targets| {
            let others = others.iter().map(|name| (*name, "a key pair".to_owned()));
            rules().check(others, targets).map_err(|fault| fault.to_string())
        };
        assert_eq!(check(&["news", "express"], &targets), Ok(()));
        assert!(check(&["nwes"], &targets).unwrap_err().contains("a key pair names"));
        let fewer = Targets { campaigns: Vec::new(), ..targets };
        assert!(check(&[], &fewer).unwrap_err().contains("the rule for shop"));
    }
}
