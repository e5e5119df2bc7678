//! A scenario from a running stack: the one way from what stands to a forecast, for `plan --live`,
//! `send` and the console.

use crate::status::{CampaignStatus, QuotaStatus, StackFacts, Status, StatusSettings};
use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::channel::{Channel, Words};
use tidegate_core::control::{Control, Hold, HoldReason};
use tidegate_core::format::{count, counted, percent, rate, span};
use tidegate_core::number::whole;
use tidegate_core::rate::Rate;
use tidegate_delivery::quota;

use tidegate_simulator::Deployment;
use tidegate_simulator::plan::{CampaignLoad, DailyQuotaSettings, Scenario};

/// A scenario with the messages on the stack's queues, its settings, weights, quota and holds, and
/// what it leaves out as assumptions.
pub fn scenario_of(facts: &StackFacts) -> Scenario {
    let StatusSettings { stack, poller, scheduler, ses_price, .. } = &facts.settings;
    let status = Status::of(facts);
    let channel = poller.rules.channel;
    let mut scenario = Scenario { channel, ses_price: *ses_price, ..Scenario::new(facts.at) };
    let load = |campaign: &CampaignStatus| CampaignLoad {
        name: campaign.name.clone(),
        weight: campaign.weight,
        mails: campaign.backlog.all() + status.to_come(&campaign.name),
        recipients: 1,
    };
    scenario.campaigns = status.campaigns.iter().map(load).collect();
    scenario.assumptions = assumptions(&status, channel);
    match per_second(&status.quota, &facts.standing.control) {
        Some(quota) => scenario.quota = quota,
        None => scenario.assumptions.push(format!(
            "the quota, which {} does not tell, is {}",
            channel.words().service,
            rate(scenario.quota)
        )),
    }
    scenario.daily = daily(facts);
    scenario.control = holds(facts);
    scenario.merge = poller.merge_queue_url.is_some();
    scenario.express = poller.express_queue_url.is_some().then_some(0.0);
    scenario.name.clone_from(stack);
    let deployed = Deployment { poller: poller.clone(), scheduler: scheduler.clone() };
    scenario.deployed = Some(Box::new(deployed));
    scenario
}

/// The account's quota under all caps and the rate factor, in recipients per second. The daily quota
/// is not in it: the simulation spreads that itself.
fn per_second(quota: &QuotaStatus, control: &Control) -> Option<f64> {
    let remembered = control.last_known_quota.map(Rate::as_per_second);
    let account = quota.account_per_second.or(remembered).or(quota.configured_cap)?;
    let caps = [quota.configured_cap, quota.operator_cap, Some(Rate::MAX.as_per_second())];
    Some(caps.into_iter().flatten().fold(account, f64::min) * quota.factor)
}

/// The daily quota as SES tells it, else as the ledger remembers it.
fn daily(facts: &StackFacts) -> Option<DailyQuotaSettings> {
    let pace = facts.settings.poller.cap.daily.pace;
    let Some(account) = &facts.account else {
        let known = facts.quota().daily?;
        return Some(DailyQuotaSettings { quota: known.quota, sent: known.sent, pace });
    };
    let quota = quota::of_day(account)?;
    Some(DailyQuotaSettings { quota, sent: whole(account.sent_last_24_hours), pace })
}

/// The limits and the holds in force, without those that follow from the daily quota: the simulation sets and lifts
/// these itself. The account is held as long as SES says so.
fn holds(facts: &StackFacts) -> Control {
    let mut control = facts.standing.control.clone();
    control.expire(facts.at.into());
    let Control { mut holds, campaign_holds, .. } = control;
    holds.lift(HoldReason::DailyQuota);
    holds.lift(HoldReason::DailyBudget);
    match facts.account.as_ref().map(|account| account.sending_enabled) {
        Some(true) => drop(holds.lift(HoldReason::Account)),
        Some(false) => drop(holds.add(HoldReason::Account, Hold::new("", facts.at))),
        None => {}
    }
    let Control { limits, adapted, .. } = facts.standing.control.clone();
    Control { holds, campaign_holds, limits, adapted, ..Control::default() }
}

fn assumptions(status: &Status, channel: Channel) -> Vec<String> {
    let Words { message, unit, service, .. } = channel.words();
    let mut said =
        vec![format!("each waiting {message} has one {unit}, because SQS counts messages")];
    if let Some(cap) = status.quota.operator_cap {
        said.push(format!("the operator's cap of {} stays", rate(cap)));
    }
    if status.quota.factor < 1.0 {
        let factor = percent(status.quota.factor);
        said.push(format!(
            "the rate stays at {factor}, to which {service}'s refusals have lowered it"
        ));
    }
    if status.breaker.state != "allowing" {
        let passes = "works again, so that the circuit breaker lets mail pass";
        said.push(format!("{service} {passes}"));
    }
    if status.level.level > BackPressureLevel::Clear {
        let level = status.level.level;
        said.push(format!("no waiting {message} is deferred, although the level is {level}"));
    }
    let merging = status.queues.get("merge").map_or(0, |queue| queue.all());
    if merging > 0 {
        let mails = counted(merging, message);
        said.push(format!(
            "the {mails} on the merge queue are left out: of which campaign they are is not known"
        ));
    }
    for limit in status.limits.iter().filter(|limit| limit.queued() > 0) {
        let takes = limit.longest().map(|takes| format!(", which take {}", span(takes)));
        said.push(format!(
            "the {} recipients that wait for the limit of {} ({}) are left out{}",
            count(limit.queued()),
            limit.name(),
            limit.limit,
            takes.unwrap_or_default()
        ));
    }
    said
}
