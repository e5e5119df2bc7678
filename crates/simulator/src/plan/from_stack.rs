use tidegate_operate::status::StackFacts;

use super::scenario::{CampaignLoad, DailyQuotaSettings, Scenario};
use crate::settings::Deployment;

impl Scenario {
    /// A scenario from a running stack: the messages on its queues, its settings, weights and
    /// quota. Mails count as one recipient each, because SQS counts messages. A campaign that is
    /// held gets weight 0.
    pub fn from_stack(facts: &StackFacts, deployed: Deployment) -> Self {
        let mut scenario = Self::new(facts.at);
        let control = &facts.standing.control;
        let load = |campaign: &tidegate_core::config::Campaign| {
            let depth = facts.backlogs.get(&campaign.name).copied().unwrap_or_default();
            let is_held = control.holds_campaign(&campaign.name);
            let weight = control.weight(&campaign.name, campaign.weight);
            CampaignLoad {
                name: campaign.name.clone(),
                weight: if is_held { 0 } else { weight },
                mails: depth.visible + depth.in_flight + depth.delayed,
                recipients: 1,
            }
        };
        scenario.campaigns = facts.campaigns.iter().map(load).collect();
        let quota = facts.quota();
        scenario.quota = quota.in_force.or(quota.account_per_second).unwrap_or(scenario.quota);
        let policy = deployed.poller.cap.daily;
        scenario.daily = facts.account.as_ref().and_then(|account| {
            let quota = recipients(account.max_24_hour_send)?;
            let sent = recipients(account.sent_last_24_hours).unwrap_or(0);
            Some(DailyQuotaSettings { quota, sent, pace: policy.pace })
        });
        scenario.merge = deployed.poller.merge_queue_url.is_some();
        scenario.express = deployed.poller.express_queue_url.is_some().then_some(0.0);
        scenario.name.clone_from(&facts.settings.stack);
        scenario.deployed = Some(Box::new(deployed));
        scenario
    }
}

/// Converts SES's number of recipients; SES reports -1 for no limit.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is not negative")]
fn recipients(told: f64) -> Option<u64> {
    (told >= 0.0).then_some(told as u64)
}
