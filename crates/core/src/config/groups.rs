//! Values that several variables make.

use super::Campaigns;
use super::settings::{self, Range};
use super::variables::Variables;
use crate::back_pressure::{BackPressurePolicy, Thresholds};
use crate::channel::Channel;
use crate::daily::DailyPolicy;
use crate::limits::InitialLimits;
use crate::rate::Rate;
use crate::reputation::ReputationPolicy;

/// The place where the claim, the control record and the window reports are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerKind {
    /// In the memory of this process; only for local runs, since other processes do not see it.
    Memory,
    /// In the `DynamoDB` table with this name.
    DynamoDb(String),
}

/// The settings that lower the account's quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// `TIDEGATE_QUOTA_PER_SECOND`, in recipients per second; `None` leaves the account's quota.
    pub quota: Option<Rate>,
    /// `TIDEGATE_DAILY` and `TIDEGATE_DAILY_RESERVE`: how the daily quota is used over the day.
    pub daily: DailyPolicy,
}

impl Cap {
    /// The quota in force: the least of the account's quota per second, `TIDEGATE_QUOTA_PER_SECOND`,
    /// and the daily quota spread over the day if `TIDEGATE_DAILY` is `spread`.
    pub fn of(&self, account: Rate, daily_quota: Option<u64>) -> Rate {
        let day = daily_quota.and_then(|quota| self.daily.cap(quota));
        [self.quota, day].into_iter().flatten().fold(account, Rate::min)
    }
}

/// The limits with which a stack begins, and what becomes of mail that is over a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitsConfig {
    /// `TIDEGATE_CHANNEL`: an e-mail has other properties that can be limited than a text.
    pub channel: Channel,
    /// `TIDEGATE_LIMITS`; an empty list limits nothing.
    pub initial: InitialLimits,
    /// `TIDEGATE_LIMIT_QUEUES`: URLs in the order of the groups, then that of `*`. Further queues are
    /// only emptied, because a limit that was removed leaves mail in its queue.
    pub queues: Vec<String>,
    /// Whether `TIDEGATE_STORE` is set: what is left at a limit's end can be deferred.
    pub has_store: bool,
    /// Whether `TIDEGATE_SHARED_BUCKET` is set: there can be a limit for recipients.
    pub has_bucket: bool,
}

/// The most queues that may be listed: one for each of 20 groups, and one for `*`.
const MOST: usize = 21;

/// `TIDEGATE_FEEDBACK` and the variables that belong to it, unless it is `off`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedbackConfig {
    /// `TIDEGATE_FEEDBACK_QUEUE_URL`: the queue on which SES's bounces and complaints arrive.
    pub queue_url: String,
    /// The thresholds, and whether reaching them holds the campaign: `TIDEGATE_FEEDBACK` (`count` or
    /// `hold`), `TIDEGATE_BOUNCE_SHARE`, `TIDEGATE_COMPLAINT_SHARE` and `TIDEGATE_FEEDBACK_MINIMUM`.
    pub policy: ReputationPolicy,
}

/// The scheduler's settings for the back-pressure level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackPressureConfig {
    /// `TIDEGATE_CAMPAIGNS`, as the poller has it: the queues whose mail waits.
    pub campaigns: Campaigns,
    /// `TIDEGATE_MERGE_QUEUE_URL`, as the poller has it; `None` in direct mode.
    pub merge_queue_url: Option<String>,
    /// `TIDEGATE_EXPRESS_QUEUE_URL`, as the poller has it; `None` without express mail.
    pub express_queue_url: Option<String>,
    /// `TIDEGATE_LIMIT_QUEUES`, as the poller has it; empty without limit queues.
    pub limit_queues: Vec<String>,
    /// `TIDEGATE_BACK_PRESSURE_BUSY` and `TIDEGATE_BACK_PRESSURE_OVERLOADED`: the thresholds of both
    /// levels.
    pub policy: BackPressurePolicy,
    /// Whether `TIDEGATE_STORE` is set.
    pub has_store: bool,
}

impl Variables<'_> {
    pub(super) fn ledger(&mut self) -> LedgerKind {
        let parse = |text: &str| match text.strip_prefix("dynamodb:") {
            Some(table) if !table.is_empty() => Some(LedgerKind::DynamoDb(table.to_owned())),
            None if text == "memory" => Some(LedgerKind::Memory),
            _ => None,
        };
        self.read(&settings::LEDGER, parse).unwrap_or(LedgerKind::Memory)
    }

    pub(super) fn cap(&mut self) -> Cap {
        let quota = self.read(&settings::QUOTA, |text| text.parse().ok());
        let (pace, reserve) =
            (self.parsed(&settings::DAILY), self.parsed(&settings::DAILY_RESERVE));
        Cap { quota, daily: DailyPolicy { pace, reserve } }
    }

    pub(super) fn limits(&mut self, channel: Channel) -> LimitsConfig {
        let initial: InitialLimits = self.explained(&settings::LIMITS).unwrap_or_default();
        let setting = settings::LIMIT_QUEUES;
        let queues = self.read(&setting, urls).unwrap_or_default();
        let needed = initial.len();
        if queues.len() < needed && (queues.is_empty() == self.get(setting.name).is_none()) {
            let one_each = "one for each group of TIDEGATE_LIMITS in its order, then one for *";
            let allowed = format!("at least {needed} URLs of standard queues, {one_each}");
            self.refuse_with(setting.name, allowed);
        }
        let has_store = self.get(settings::STORE.name).is_some();
        let has_bucket = self.get(settings::SHARED_BUCKET.name).is_some();
        LimitsConfig { channel, initial, queues, has_store, has_bucket }
    }

    pub(super) fn feedback(&mut self) -> Option<FeedbackConfig> {
        let mode = self.text(&settings::FEEDBACK).filter(|mode| mode != "off");
        let queue = settings::FEEDBACK_QUEUE;
        let queue_url = self.text(&queue);
        if mode.is_some() && self.get(queue.name).is_none() {
            let allowed = format!("{}, where TIDEGATE_FEEDBACK is count or hold", queue.range);
            self.refuse_with(queue.name, allowed);
        }
        let policy = ReputationPolicy {
            holds: mode.as_deref() == Some("hold"),
            bounce_share: self.millionths(&settings::BOUNCE_SHARE),
            complaint_share: self.millionths(&settings::COMPLAINT_SHARE),
            minimum: self.parsed(&settings::FEEDBACK_MINIMUM),
        };
        mode.map(|_| FeedbackConfig { queue_url: queue_url.unwrap_or_default(), policy })
    }

    /// `None` if the scheduler does not know the campaigns; then it computes no level.
    pub(super) fn back_pressure(&mut self) -> Option<BackPressureConfig> {
        let policy = self.back_pressure_policy();
        // The poller needs the campaigns; the scheduler may do without.
        let is_given = self.get(settings::CAMPAIGNS.name).is_some();
        let campaigns =
            is_given.then(|| self.read(&settings::CAMPAIGNS, Campaigns::parse)).flatten();
        let merge_queue_url = self.text(&settings::MERGE_QUEUE);
        let express_queue_url = self.text(&settings::EXPRESS_QUEUE);
        let limit_queues = self.read(&settings::LIMIT_QUEUES, urls).unwrap_or_default();
        Some(BackPressureConfig {
            campaigns: campaigns?,
            merge_queue_url,
            express_queue_url,
            limit_queues,
            policy,
            has_store: self.get(settings::STORE.name).is_some(),
        })
    }

    fn back_pressure_policy(&mut self) -> BackPressurePolicy {
        let (lower, upper) = (settings::BACK_PRESSURE_BUSY, settings::BACK_PRESSURE_OVERLOADED);
        let busy = self.read(&lower, Thresholds::parse).unwrap_or_default();
        let overloaded = self.read(&upper, Thresholds::parse).unwrap_or_default();
        if self.get(upper.name).is_none() {
            return BackPressurePolicy { busy, overloaded: overloaded.at_least(&busy) };
        }
        if !overloaded.is_above(&busy) {
            let allowed = format!("nothing below {}, which is {busy}", lower.name);
            self.refuse_with(upper.name, allowed);
        }
        BackPressurePolicy { busy, overloaded }
    }
}

pub(super) fn urls(text: &str) -> Option<Vec<String>> {
    let urls: Vec<String> = text.split(',').map(|url| url.trim().to_owned()).collect();
    let distinct = urls.iter().enumerate().all(|(index, url)| !urls[..index].contains(url));
    let legal = urls.iter().all(|url| Range::StandardQueue.contains(url));
    (legal && distinct && urls.len() <= MOST).then_some(urls)
}
