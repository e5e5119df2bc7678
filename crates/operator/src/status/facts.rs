use std::collections::BTreeMap;

use tidegate_adapters::aws::stack::Stack;
use tidegate_core::config::{Campaign, PollerConfig, SchedulerConfig, queue_key};
use tidegate_core::control::ChangeRecord;
use tidegate_core::counters::Counter;
use tidegate_core::limits::{Adapted, Dimension, Limit, LimitGrid, LimitRef};
use tidegate_core::number::real;
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_core::runs::Run;
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::poll::limit_waiting;
use tidegate_delivery::ports::{
    Account, AccountStatus, Clock, History, Ledger, PortError, QueueDepth, QueueUrl, Queues, Runs,
    Standing,
};
use tidegate_delivery::quota;

use super::{DailyQuotaStatus, LimitStatus, QuotaStatus};
use crate::redact::AddressVisibility;

/// Runs that a status looks at: as many as a list of them has room for.
const RUNS_READ: usize = 20;

/// The stack's settings, and how its status is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusSettings {
    pub stack: String,
    /// The settings of the functions.
    pub poller: PollerConfig,
    pub scheduler: SchedulerConfig,
    /// Whether addresses in SES's messages are shown.
    pub addresses: AddressVisibility,
    /// How many changes by operators are shown.
    pub changes: usize,
    /// The account's price of SES for a recipient, US dollars, where somebody told another than the usual one.
    pub ses_price: Option<f64>,
}

impl StatusSettings {
    /// Those of a stack, of which `changes` changes by operators are shown.
    pub fn of(stack: &Stack, addresses: AddressVisibility, changes: usize) -> Self {
        let (poller, scheduler) = (stack.poller.clone(), stack.scheduler.clone());
        Self { stack: stack.label(), poller, scheduler, addresses, changes, ses_price: None }
    }
}

#[derive(Clone, Debug)]
pub struct StackFacts {
    pub at: Timestamp,
    pub settings: StatusSettings,
    pub standing: Standing,
    pub campaigns: Vec<Campaign>,
    /// How deep the campaigns' queues are, by [`queue_key`].
    pub backlogs: BTreeMap<String, QueueDepth>,
    /// How deep the other queues are.
    pub depths: BTreeMap<&'static str, QueueDepth>,
    pub account: Option<AccountStatus>,
    /// Changes by operators, the newest first.
    pub changes: Vec<ChangeRecord>,
    /// The newest runs, the newest first.
    pub runs: Vec<Run>,
}

/// Reads the ledger, each queue's depth, the account and the history.
///
/// # Errors
/// [`PortError`] of ledger or queues; an account that does not answer is left out.
pub async fn gather(
    settings: StatusSettings,
    queues: &impl Queues,
    account: &impl Account,
    ledger: &(impl Ledger + History + Runs),
    clock: &impl Clock,
) -> Result<StackFacts, PortError> {
    let poller = &settings.poller;
    let standing = ledger.read().await?;
    let campaigns = poller.campaigns.in_force(&standing.control);
    let mut backlogs = BTreeMap::new();
    for campaign in &campaigns {
        for (priority, url) in campaign.queues() {
            let depth = queues.depth(&QueueUrl::new(url)).await?;
            backlogs.insert(queue_key(&campaign.name, priority), depth);
        }
    }
    let others = [
        ("dead_letters", Some(&poller.dead_letter_queue_url)),
        ("merge", poller.merge_queue_url.as_ref()),
        ("express", poller.express_queue_url.as_ref()),
    ];
    let mut depths = BTreeMap::new();
    for (name, url) in others {
        if let Some(url) = url {
            depths.insert(name, queues.depth(&QueueUrl::new(url.as_str())).await?);
        }
    }
    Ok(StackFacts {
        at: clock.wall(),
        settings,
        standing,
        campaigns,
        backlogs,
        depths,
        account: account.account().await.ok(),
        changes: ledger.changes().await?,
        runs: ledger.runs(RUNS_READ).await?.into_iter().map(|stored| stored.run).collect(),
    })
}

impl StackFacts {
    /// Reads the ledger again, and keeps everything else.
    ///
    /// # Errors
    /// [`PortError`] of the ledger.
    pub async fn read_again(
        &self,
        ledger: &impl Ledger,
        clock: &impl Clock,
    ) -> Result<Self, PortError> {
        let standing = ledger.read().await?;
        let campaigns = self.settings.poller.campaigns.in_force(&standing.control);
        Ok(Self { at: clock.wall(), standing, campaigns, ..self.clone() })
    }

    /// The account's quota under the configured cap; none if none is known.
    fn known_quota(&self) -> Option<Rate> {
        let cap = &self.settings.poller.cap;
        match &self.account {
            Some(status) => quota::told(status, cap),
            None => quota::remembered(Some(&self.standing.control), cap),
        }
    }

    /// The rate margin in force.
    fn rate_margin(&self) -> RateMargin {
        let configured = self.settings.poller.rate_margin;
        self.standing.factor.margin(configured, Window::containing(self.at))
    }

    /// The quota and what lowers it.
    pub fn quota(&self) -> QuotaStatus {
        let (cap, reported) = (&self.settings.poller.cap, self.account.as_ref());
        let in_force = self.known_quota().map(|quota| self.standing.factor.of(quota));
        let number = |rate: Rate| rate.as_per_second();
        let margin = self.rate_margin();
        let period = in_force.map(|rate| rate.period(margin));
        QuotaStatus {
            account_per_second: reported.map(|status| status.max_send_rate),
            configured_cap: cap.quota.map(number),
            operator_cap: self.standing.factor.cap.map(number),
            factor: real(self.standing.factor.millionths()) / 1e6,
            in_force: in_force.map(number),
            rate_margin: margin.into(),
            slots_per_second: period.map(|period| 1e9 / real(period)),
            words: self.settings.poller.rules.channel.words(),
            daily: self.daily(),
            spend_limit: reported.and_then(|status| status.spend_limit),
            sending_enabled: reported.map(|status| status.sending_enabled),
        }
    }

    /// The limits in force, with the mail on their queues.
    pub fn limits(&self) -> Vec<LimitStatus> {
        let table = self.standing.control.limit_table(&self.settings.poller.limits.initial);
        let quota = self.known_quota();
        let status = |of: LimitRef| {
            let (key, limit) = table.get(of.index)?;
            let waiting = if key.dimension == Dimension::Campaign {
                Some(self.backlog_of(|name| {
                    let found = table.find(Dimension::Campaign, name);
                    found.is_some_and(|found| found.index == of.index)
                }))
            } else {
                let own = table.queue_of(&of);
                own.map(|place| limit_waiting(&self.standing.counters, place))
            };
            let key = match &of.name {
                Some(name) => format!("{}:{name}", key.dimension.as_str()),
                None => key.to_string(),
            };
            Some(self.limit(key, limit, table.lowered(&of), quota, waiting))
        };
        let all = table.indexed().map(|(index, ..)| LimitRef { index, name: None });
        // Each domain under an adaptive `*` is lowered by itself.
        let now = Window::containing(self.at);
        let is_lowered = |of: &LimitRef| {
            let lowered = table.lowered(of).filter(|_| of.name.is_some());
            lowered.is_some_and(|of| of.millionths(now) < 1_000_000 || of.opens(now).is_some())
        };
        let adapted = self.standing.control.adapted.keys();
        let lowered = adapted.filter_map(|tag| table.tagged(tag)).filter(is_lowered);
        all.chain(lowered).filter_map(status).collect()
    }

    /// The messages on the queues of those campaigns that `is_meant` tells.
    pub(super) fn backlog_of(&self, is_meant: impl Fn(&str) -> bool) -> u64 {
        let meant = self.campaigns.iter().filter(|campaign| is_meant(&campaign.name));
        let depths = meant.flat_map(|campaign| {
            campaign.queues().map(|(priority, _)| {
                self.backlogs.get(&queue_key(&campaign.name, priority)).copied()
            })
        });
        depths.flatten().map(QueueDepth::all).sum()
    }

    fn limit(
        &self,
        key: String,
        limit: &Limit,
        lowered: Option<&Adapted>,
        quota: Option<Rate>,
        waiting: Option<u64>,
    ) -> LimitStatus {
        // Without a quota, only a share of it is not known.
        let (of, margin) = (quota.unwrap_or(Rate::MAX), self.rate_margin());
        let now = Window::containing(self.at);
        let slots = limit.grid(now, of, margin, lowered);
        let per_second = match (slots, limit.rate) {
            (None | Some(LimitGrid::Closed(_)), _) => None,
            (Some(_), Some(_)) => {
                let rate = quota.and_then(|quota| limit.rate_in(now, quota, lowered));
                rate.map(Rate::as_per_second)
            }
            (Some(grid), None) => Some(1e9 / real(grid.period())),
        };
        let closed = if let Some(LimitGrid::Closed(until)) = slots { Some(until) } else { None };
        let (limit, opens_at) = (limit.to_string(), closed.flatten().map(Into::into));
        LimitStatus { key, limit, per_second, closed: closed.is_some(), opens_at, waiting }
    }

    fn daily(&self) -> Option<DailyQuotaStatus> {
        let reading = self.standing.control.daily?;
        let counted = Counter::Sent.sum(&self.standing.counters);
        let since = u64::try_from(counted.saturating_sub(reading.counted)).unwrap_or(0);
        let policy = self.settings.poller.cap.daily;
        let sent = reading.sent.saturating_add(since);
        let left_for_campaigns = policy.budget(&reading, counted, 0);
        Some(DailyQuotaStatus { quota: reading.quota, sent, left_for_campaigns })
    }
}
