//! The status of a stack: quota and use, campaigns, holds, breaker, queues.

mod facts;
mod live;
mod runs;
#[cfg(test)]
pub(crate) mod tests;
mod view;
mod waiting;

use std::collections::BTreeMap;
use std::time::Duration;
use tidegate_core::number::real;

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::Window;
use tidegate_core::back_pressure::{BackPressureFigures, BackPressureLevel};
use tidegate_core::breaker::Breaker;
use tidegate_core::channel::Words;
use tidegate_core::config::{Campaign, queue_key};
use tidegate_core::control::{ChangeRecord, Control, Hold, HoldReason};
use tidegate_core::counters::{Counter, at_least_0};
use tidegate_core::email::Priority;
use tidegate_core::format::{span, time};
use tidegate_core::identity::EpochMillis;
use tidegate_core::idle::{EXACT, RUN};
use tidegate_core::limiter::WindowLeft;
use tidegate_core::reputation::ReputationFigures;
use tidegate_delivery::ports::{PortError, QueueDepth};

use crate::history;
use crate::redact::AddressVisibility;
use crate::shell::{CommandResult, Shell};
use crate::stack::OnStack;
use crate::suggest::SuggestedCommand;

pub use facts::{StackFacts, StatusSettings, gather};
pub use live::{CampaignRow, ExpressPace, LiveStatus};
pub use runs::RunStatus;
pub use waiting::WaitingStatus;

/// Without a claim for this many seconds the pollers have stopped, or every queue is empty.
const SERVED_WITHIN: u64 = 5;
/// While a stack sleeps, a poller checks the queues at least once in this many seconds; without a claim for
/// longer, the stack has stopped.
const LOOKED_WITHIN: u64 = EXACT + 2 * RUN;

// More than 12 fields: one for each part of a stack that is shown.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Status {
    pub stack: String,
    pub at: EpochMillis,
    /// The quota and what lowers it.
    pub quota: QuotaStatus,
    pub serving: ServingStatus,
    pub breaker: BreakerStatus,
    /// The holds on all sending and on single campaigns.
    pub holds: Vec<HoldStatus>,
    pub campaigns: Vec<CampaignStatus>,
    /// The runs that are under way or unfinished, and those of the last day.
    pub runs: Vec<RunStatus>,
    pub level: LevelStatus,
    /// The limits in force, with the mail on their queues.
    pub limits: Vec<LimitStatus>,
    /// All that waits, by where it does.
    pub waiting: WaitingStatus,
    /// All queues but the campaigns', by name: `merge`, `express`, `dead_letters`.
    pub queues: BTreeMap<&'static str, QueueDepth>,
    /// Sums since the ledger began: `sent` and `mails`, `refused`, `failed`, `retried`, `dead`, …
    pub counters: BTreeMap<String, i64>,
    /// The newest changes by operators, the newest first.
    pub changes: Vec<ChangeRecord>,
}

/// The quota and what lowers it, in recipients per second, or in parts of texts.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct QuotaStatus {
    /// The words for what has the quota.
    #[serde(skip)]
    pub words: Words,
    /// The account's rate; `None` if its service did not answer.
    pub account_per_second: Option<f64>,
    pub configured_cap: Option<f64>,
    /// An operator's cap (`tidegate rate --cap`).
    pub operator_cap: Option<f64>,
    /// The rate factor, which SES's throttling lowers: 0.05 to 1.
    pub factor: f64,
    /// The resulting quota; `None` if none is known.
    pub in_force: Option<f64>,
    /// The rate margin in force, which SES's throttling doubles up to 0.04 for a day.
    pub rate_margin: f64,
    /// The rate of the slots: the quota in force less the rate margin.
    pub slots_per_second: Option<f64>,
    /// The daily quota; `None` if the account has no limit or SES did not answer.
    pub daily: Option<DailyQuotaStatus>,
    /// US dollars that texts may cost in a month; `None` for mails, or if the service did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spend_limit: Option<u64>,
    /// Whether SES lets the account send; `None` if it did not answer.
    pub sending_enabled: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct DailyQuotaStatus {
    pub quota: u64,
    /// Recipients of the last 24 hours: SES's count, plus the ledger's since then.
    pub sent: u64,
    /// Recipients that campaigns may still use now.
    pub left_for_campaigns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ServingStatus {
    /// `serving`, `idle` (every queue was found empty), `stopped` (no window was claimed for a while),
    /// `never`.
    pub state: &'static str,
    /// The newest window that was claimed.
    pub last_window: Option<EpochMillis>,
    /// The slots and mails that the newest reported window left; `None` if the last report is old.
    pub left: Option<LeftStatus>,
}

#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct BreakerStatus {
    pub state: &'static str,
    pub since: Option<EpochMillis>,
    pub until: Option<EpochMillis>,
}

#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct HoldStatus {
    /// The campaign that it holds; `None` if it holds all sending.
    pub campaign: Option<String>,
    /// Why: `paused`, `daily_quota`, `account`, `refusals`, ….
    pub reason: String,
    /// The reason as a sentence, without the detail.
    pub what: String,
    pub detail: String,
    pub since: EpochMillis,
    /// When it ends by itself, if that is known.
    pub until: Option<EpochMillis>,
    /// Who lifts it: `the scheduler`, `its end`, or the operator's command.
    pub lifted_by: String,
}

impl HoldStatus {
    /// The command that lifts it; `None` if the scheduler does.
    pub fn lifting_command(&self) -> Option<SuggestedCommand> {
        let campaign = self.campaign.clone();
        let by_scheduler = |reason: HoldReason| reason.as_str() == self.reason;
        if self.reason == HoldReason::Paused.as_str() {
            return Some(SuggestedCommand::Resume { campaign });
        }
        if campaign.is_none() && HoldReason::LIFTED_BY_SCHEDULER.into_iter().any(by_scheduler) {
            return None;
        }
        Some(SuggestedCommand::Lift { hold: self.reason.clone(), campaign })
    }
}

#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct CampaignStatus {
    pub name: String,
    pub configured_weight: u32,
    pub weight: u32,
    /// The share by weight, 0 to 1, while every campaign has mail.
    pub share: f64,
    /// Recipients sent to since the ledger began.
    pub sent: u64,
    /// Mails that SES refused for the rate since the ledger began; each was tried again.
    pub refused: u64,
    /// The messages that were dead-lettered since the ledger began, as far as the dead-letter queue may still have
    /// them.
    pub dead: u64,
    /// Bounces and complaints of the last two to four days, with the recipients that they are judged by; none
    /// where they are not counted.
    pub feedback: Option<ReputationFigures>,
    /// The depth of all of its queues together.
    pub backlog: QueueDepth,
    /// The depths of its priority queues, by name, such as `news.high`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub priority_queues: BTreeMap<String, QueueDepth>,
    /// Whether this campaign is held, apart from holds on all sending.
    pub held: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct LevelStatus {
    /// `clear`, `busy` or `overloaded`; `clear` also if the last judgement is too old.
    pub level: BackPressureLevel,
    pub since: Option<EpochMillis>,
    /// Since when it has been known that the backlog has grown for an hour; `None` if it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growing_since: Option<EpochMillis>,
    #[serde(flatten)]
    pub figures: BackPressureFigures,
}

impl LevelStatus {
    /// Describes what the level defers, and how long the backlog takes; `None` if it is clear.
    pub fn in_words(&self) -> Option<String> {
        let deferred = match self.level {
            BackPressureLevel::Clear => return None,
            BackPressureLevel::Busy => "messages of low priority are deferred",
            BackPressureLevel::Overloaded => "messages of low and normal priority are deferred",
        };
        let since = self.since.map(|since| format!(" since {}", time(since))).unwrap_or_default();
        let takes = |seconds| format!("; the backlog takes {}", span(Duration::from_secs(seconds)));
        let takes = self.figures.backlog_seconds.map(takes).unwrap_or_default();
        Some(format!("{}{since}: {deferred}{takes}", self.level))
    }
}

#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct LimitStatus {
    /// The mail that it holds for, such as `domain:gmail.com+googlemail.com`; `*` is a limit for each other
    /// name separately.
    pub key: String,
    /// The limit as it was set, such as `5000/h, Mon-Fri 08:00-20:00 Europe/Berlin`.
    pub limit: String,
    /// Recipients per second now; `None` if only the account's quota limits it.
    pub per_second: Option<f64>,
    /// Nothing is sent now, because of the limit's hours, begin or end.
    pub closed: bool,
    /// When it opens, if it is closed and that is known.
    pub opens_at: Option<EpochMillis>,
    /// The mail that waits for it: recipients in the limit's own queue, by the pollers' reports, or a campaign's messages. `None` for a limit without either: its mail waits among other mail.
    pub waiting: Option<u64>,
}

impl LimitStatus {
    /// The name in sentences: a domain's without its kind.
    pub fn name(&self) -> &str {
        self.key.strip_prefix("domain:").unwrap_or(&self.key)
    }

    /// Recipients that wait in the limit's own queue; a campaign's limit has none.
    pub fn queued(&self) -> u64 {
        self.waiting.filter(|_| !self.key.starts_with("campaign:")).unwrap_or(0)
    }

    /// The time until the last mail that waits is sent; `None` if only the account's quota limits it.
    pub fn longest(&self) -> Option<Duration> {
        let rate = self.per_second.filter(|rate| *rate > 0.0)?;
        Duration::try_from_secs_f64((real(self.queued()) / rate).ceil()).ok()
    }
}

impl Status {
    pub fn of(facts: &StackFacts) -> Self {
        let now = EpochMillis::from(facts.at);
        let mut control = facts.standing.control.clone();
        control.expire(now);
        let addresses = facts.settings.addresses;
        let shown = |(campaign, name, hold): (Option<&str>, &str, &Hold)| HoldStatus {
            detail: addresses.within(&hold.detail),
            ..hold_status(campaign, name, hold, facts.settings.poller.rules.channel.words())
        };
        let holds: Vec<HoldStatus> = control.named_holds().map(shown).collect();
        let campaigns = campaigns(facts, &control);
        let runs = runs::runs(facts, &campaigns);
        Self {
            stack: facts.settings.stack.clone(),
            at: now,
            quota: facts.quota(),
            serving: serving(facts),
            breaker: breaker(&control.breaker),
            holds,
            campaigns,
            level: level(&control, now),
            limits: facts.limits(),
            waiting: WaitingStatus::of(facts, &runs),
            runs,
            queues: facts.depths.clone(),
            counters: facts.standing.counters.clone(),
            changes: history::newest(&facts.changes, facts.settings.changes, addresses),
        }
    }

    /// The limit of a campaign: its own, or that of every campaign.
    pub fn limit_of(&self, campaign: &str) -> Option<&LimitStatus> {
        let with_key = |key: &str| self.limits.iter().find(|limit| limit.key == key);
        with_key(&format!("campaign:{campaign}")).or_else(|| with_key("campaign:*"))
    }

    /// Rows of a campaign's runs that somebody will enqueue: they are in no queue yet.
    pub fn to_come(&self, campaign: &str) -> u64 {
        let own = self.runs.iter().filter(|run| run.campaign == campaign);
        own.map(|run| run.to_come).sum()
    }

    /// A sum since the ledger began.
    pub fn counter(&self, counter: Counter) -> u64 {
        at_least_0(counter.sum(&self.counters))
    }
}

fn serving(facts: &StackFacts) -> ServingStatus {
    let last = facts.standing.previous.map(|claim| claim.window);
    let now = Window::containing(facts.at);
    let recent = |last: Window| now.saturating_since(last) <= SERVED_WITHIN;
    let looked = |last: Window| now.saturating_since(last) <= LOOKED_WITHIN;
    // The pollers stop when a look finds every queue empty; a later look that found mail ends that.
    let empty = facts.standing.looks.empty >= facts.standing.looks.found;
    let state = match last {
        None => "never",
        Some(last) if recent(last) => "serving",
        Some(last) if empty && facts.settings.scheduler.idle_wake > 1 && looked(last) => "idle",
        Some(_) => "stopped",
    };
    let left = facts.standing.window_left.filter(|left| recent(left.window));
    let last_window = last.map(|window| window.opens().into());
    ServingStatus { state, last_window, left: left.map(LeftStatus::from) }
}

fn level(control: &Control, now: EpochMillis) -> LevelStatus {
    let reading = control.back_pressure.filter(|reading| !reading.is_old(now));
    reading.map_or_else(LevelStatus::default, |reading| LevelStatus {
        level: reading.level,
        since: Some(reading.since),
        growing_since: reading.growing_since,
        figures: reading.figures,
    })
}

fn breaker(breaker: &Breaker) -> BreakerStatus {
    let at = |window: &Window| Some(EpochMillis::from(window.opens()));
    let (state, since, until) = match breaker {
        Breaker::Allowing { .. } => ("allowing", None, None),
        Breaker::Blocking { since, until } => ("blocking", at(since), at(until)),
        Breaker::Probing { blocked, .. } => ("probing", at(blocked), None),
    };
    BreakerStatus { state, since, until }
}

fn hold_status(campaign: Option<&str>, name: &str, hold: &Hold, words: Words) -> HoldStatus {
    let Words { service, message, limit, .. } = words;
    // The meaning as a sentence that goes on from a name and a colon.
    let reason = name.parse();
    let what = match reason {
        Ok(HoldReason::Paused) => "paused by an operator".to_owned(),
        Ok(HoldReason::DailyQuota) => format!("{service}'s daily quota is used up"),
        Ok(HoldReason::DailyBudget) => {
            "the campaigns' part of the daily quota is used up".to_owned()
        }
        Ok(HoldReason::Account) => format!("{service} has stopped the account's sending"),
        Ok(HoldReason::SpendLimit) => format!("the month's {limit} is reached"),
        Ok(HoldReason::Tenant) => format!("{service} has stopped its tenant"),
        Ok(HoldReason::Refusals) => format!("one {message} after the other is refused"),
        Ok(HoldReason::Reputation) => "too many bounces or complaints".to_owned(),
        Ok(HoldReason::Cancelled) => format!("its cancelled {message}s are taken out"),
        Err(_) => name.replace('_', " "),
    };
    let by_itself = match reason {
        Ok(HoldReason::Cancelled) => Some("the pollers, once its queue has none of it"),
        Ok(HoldReason::Refusals) => Some("a mail that is accepted: one is tried every 30 s"),
        Ok(HoldReason::Tenant) => Some("the scheduler, once SES lets the tenant send"),
        _ => None,
    };
    let mut status = HoldStatus {
        campaign: campaign.map(str::to_owned),
        reason: name.to_owned(),
        what,
        detail: hold.detail.clone(),
        since: hold.since,
        until: hold.until,
        lifted_by: "the scheduler".to_owned(),
    };
    let by_hand = status.lifting_command().map(|command| format!("`{command}`"));
    let lifters = hold.until.map(|_| "its end").into_iter().chain(by_itself).map(str::to_owned);
    let lifters: Vec<String> = lifters.chain(by_hand).collect();
    if !lifters.is_empty() {
        status.lifted_by = lifters.join(", or ");
    }
    status
}

fn campaigns(facts: &StackFacts, control: &Control) -> Vec<CampaignStatus> {
    let holds = &control.campaign_holds;
    let in_force = |campaign: &Campaign| control.weight(&campaign.name, campaign.weight);
    let letters = facts.depths.get("dead_letters").map(|depth| depth.all());
    let total: u64 = facts.campaigns.iter().map(|campaign| u64::from(in_force(campaign))).sum();
    let status = |campaign: &Campaign| {
        let weight = in_force(campaign);
        let depth = |key: &str| facts.backlogs.get(key).copied().unwrap_or_default();
        let others = campaign.priority_queues.keys();
        let others = others.map(|priority| queue_key(&campaign.name, *priority));
        let priority_queues: BTreeMap<String, QueueDepth> =
            others.map(|key| (key.clone(), depth(&key))).collect();
        let own = depth(&campaign.name);
        let sum =
            |counter: Counter| at_least_0(counter.sum_of(&campaign.name, &facts.standing.counters));
        let sent = sum(Counter::Sent);
        let reputation = facts.standing.control.reputation.as_ref();
        let feedback = reputation.map(|counts| {
            let tally = counts.campaigns.get(&campaign.name).cloned().unwrap_or_default();
            tally.figures(sent)
        });
        CampaignStatus {
            name: campaign.name.clone(),
            configured_weight: campaign.weight,
            weight,
            share: f64::from(weight) / real(total.max(1)),
            sent,
            refused: sum(Counter::Refused),
            dead: sum(Counter::Dead).min(letters.unwrap_or(u64::MAX)),
            feedback,
            backlog: priority_queues.values().fold(own, |sum, more| sum + *more),
            priority_queues,
            held: holds.get(&campaign.name).is_some_and(|holds| !holds.is_empty()),
        }
    };
    facts.campaigns.iter().map(status).collect()
}

/// Reads the state of a stack, with the newest `changes` changes that operators made.
///
/// # Errors
/// [`PortError`] of ledger or queues.
pub async fn facts(
    stack: &Stack,
    addresses: AddressVisibility,
    changes: usize,
) -> Result<StackFacts, PortError> {
    let settings = StatusSettings::of(stack, addresses, changes);
    Box::pin(gather(settings, &stack.queues(), &stack.account(), &stack.ledger(), &stack.clock()))
        .await
}

/// Show what stands: quota and use, campaigns, holds, breaker, queues
///
/// Exit code: 0; 3 where the stack or a service cannot be reached.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate status --local                      the stack that `make run KEEP=1` left running
  tidegate status --stack mail --profile ops   a stack on AWS
  tidegate status --json | jq .holds           for machines")]
pub struct StatusArgs {
    #[command(flatten)]
    pub(crate) on: OnStack,
}

pub(crate) async fn run(args: &StatusArgs, shell: &Shell) -> CommandResult {
    let stack = args.on.stack.open().await?;
    let facts = facts(&stack, shell.output.addresses(), 5).await?;
    shell.done(&Status::of(&facts))
}

/// The slots of a window that no mail took, and the mails that were received for it and got none.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct LeftStatus {
    pub window: EpochMillis,
    pub slots: u64,
    /// By line (`express`, `campaigns`, `limited`: from limit queues), and in it by priority.
    pub mails: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
}

impl From<WindowLeft> for LeftStatus {
    fn from(left: WindowLeft) -> Self {
        let priorities = Priority::ALL.map(Priority::as_str);
        let line =
            |(line, mails): (_, [u64; 4])| (line, priorities.into_iter().zip(mails).collect());
        let mails = left.mails.by_line().map(line).into();
        Self { window: left.window.opens().into(), slots: left.slots, mails }
    }
}
