//! The environment as typed values. It is parsed once at start, and every invalid value is refused with
//! its name, the value, and the allowed values.

mod back_pressure;
mod campaigns;
mod deadlines;
mod domains;
mod error;
mod feedback;
mod floor;
mod queue_url;
mod renamed;
mod settings;
mod shared_bucket;
mod values;
mod variables;

use std::time::Duration;

pub use back_pressure::BackPressureConfig;
pub use campaigns::{Campaign, Campaigns, EXPRESS, is_campaign_name};
pub use deadlines::{DECIDED, LAST_START, MOVED, POLLER_TIMEOUT, QUEUE_CALL, REPORTED, SETTLED};
pub use domains::DomainsConfig;
pub use error::{ConfigError, InvalidVariable};
pub use feedback::FeedbackConfig;
pub use renamed::{RENAMED, new_name};
pub use settings::{Range, SETTINGS, Setting};
pub use shared_bucket::{
    BucketLost, BucketUrl, DEFAULT_PREFIX, InvalidBucketUrl, InvalidKeyPrefix, KeyPrefix,
    SharedBucketConfig,
};
pub use values::{Cap, LedgerKind};
use variables::Variables;

use crate::breaker::BreakerPolicy;
use crate::deduplication::Deduplication;
use crate::deferral::Location;
use crate::email::AllowedSenders;
use crate::limiter::Floor;
use crate::memory::Memory;
use crate::rate::RateMargin;

/// The treatment of messages that were received and are unsent at the end of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Unsent {
    /// The message stays invisible until its visibility timeout ends.
    #[default]
    Timeout,
    /// The message is made visible at once, by one more call to SQS.
    Release,
}

/// The poller's settings, checked and with defaults applied.
#[derive(Clone, Debug, PartialEq)]
// More than 12 fields: one for each setting; a policy takes its own.
pub struct PollerConfig {
    /// `TIDEGATE_CAMPAIGNS`: the list of campaigns, or `ledger`.
    pub campaigns: Campaigns,
    /// `TIDEGATE_MERGE_QUEUE_URL`; without it the poller receives from the campaign queues (direct
    /// mode).
    pub merge_queue_url: Option<String>,
    /// `TIDEGATE_EXPRESS_QUEUE_URL`: the queue whose mail goes before all campaigns; optional.
    pub express_queue_url: Option<String>,
    /// `TIDEGATE_DEAD_LETTER_QUEUE_URL`: the URL of a standard queue; required.
    pub dead_letter_queue_url: String,
    /// `TIDEGATE_DOMAIN_LIMITS` and `TIDEGATE_DOMAIN_QUEUES`; empty unless set.
    pub domains: DomainsConfig,
    /// `TIDEGATE_LEDGER`: `memory` (one process only) or `dynamodb:TABLE`; required.
    pub ledger: LedgerKind,
    /// `TIDEGATE_QUOTA_PER_SECOND`, `TIDEGATE_DAILY` and `TIDEGATE_DAILY_RESERVE`: caps of the
    /// account's quota.
    pub cap: Cap,
    /// `TIDEGATE_RATE_MARGIN`, 0.005 to 0.5, default 0.02.
    pub rate_margin: RateMargin,
    /// `TIDEGATE_TICK_LEAD_MS`, 0 to 1,000 ms, default 400 ms.
    pub lead: Duration,
    /// `TIDEGATE_MAX_IN_FLIGHT`: sends at the same time, 1 to 900; `None` computes it from the rate and
    /// the observed latency.
    pub max_in_flight: Option<usize>,
    /// The function's memory, from `AWS_LAMBDA_FUNCTION_MEMORY_SIZE`, which Lambda sets.
    pub memory: Memory,
    /// `TIDEGATE_SEND_TIMEOUT_MS`: the time limit of one send, 100 to 5,200 ms, default 5,000 ms.
    pub send_timeout: Duration,
    /// `TIDEGATE_MAX_ATTEMPTS`, 1 to 100, default 5.
    pub max_attempts: u32,
    /// `TIDEGATE_UNSENT`: `timeout` (the default) or `release`.
    pub unsent: Unsent,
    /// `TIDEGATE_IDLE_WINDOWS`: the longest pause, in windows, before an empty queue is asked again; 1
    /// to 60, default 5.
    pub idle_windows: u64,
    /// `TIDEGATE_ALLOWED_SENDERS`: sender addresses and domains; all senders unless set.
    pub allowed_senders: AllowedSenders,
    /// `TIDEGATE_BREAKER_…`: when sending stops because SES fails, and for how long.
    pub breaker: BreakerPolicy,
    /// `TIDEGATE_DEDUPLICATION`: `off` (the default), `resend` or `park`.
    pub deduplication: Deduplication,
    /// `TIDEGATE_DEDUPLICATION_DAYS`: how long a mark is kept, 1 to 90 days, default 15 days.
    pub mark_kept: Duration,
    /// `TIDEGATE_CONFIGURATION_SET`: SES's configuration set for mails that name none.
    pub configuration_set: Option<String>,
    /// `TIDEGATE_DEFERRAL`: the place where deferred mail is stored; `None` defers no mail.
    pub deferral: Option<Location>,
    /// `TIDEGATE_CAMPAIGN_FLOOR`: the express floor, 0% to 90%, default 0%.
    pub campaign_floor: Floor,
    /// `TIDEGATE_SHARED_BUCKET` and the variables that belong to it; `None` if no other software sends
    /// on the account's quota.
    pub shared_bucket: Option<SharedBucketConfig>,
}

/// The scheduler's settings, checked and with defaults applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// `TIDEGATE_POLLER_FUNCTION`: the poller function's name or ARN; required.
    pub poller_function: String,
    /// `TIDEGATE_LEDGER`: `memory` (one process only) or `dynamodb:TABLE`; required.
    pub ledger: LedgerKind,
    /// `TIDEGATE_QUOTA_PER_SECOND`, `TIDEGATE_DAILY` and `TIDEGATE_DAILY_RESERVE`: caps of the
    /// account's quota.
    pub cap: Cap,
    /// `TIDEGATE_TICK_LEAD_MS`, 0 to 1,000 ms, default 400 ms.
    pub lead: Duration,
    /// `TIDEGATE_OVERLAP_WINDOWS`, 0 to 20, default 5 with a shared ledger and 0 with `memory`.
    pub overlap_windows: u64,
    /// `TIDEGATE_CAMPAIGN_QUEUES`: the beginning of the names of the queues among which campaigns are
    /// found by tag; `None` leaves the ledger's list of campaigns as it is.
    pub campaign_queues: Option<String>,
    /// `TIDEGATE_FEEDBACK` and the variables that belong to it; `None` if it is `off`, the default.
    pub feedback: Option<FeedbackConfig>,
    /// `TIDEGATE_IDLE_WAKE_SECONDS`: while every queue is empty, one tick in this many seconds; 1 to
    /// 60, default 1.
    pub idle_wake: u64,
    /// The settings of the back-pressure level; `None` if `TIDEGATE_CAMPAIGNS` is not set.
    pub back_pressure: Option<BackPressureConfig>,
    /// `TIDEGATE_DEFERRAL`: the place where deferred mail is stored; `None` defers no mail.
    pub deferral: Option<Location>,
}

impl PollerConfig {
    /// Reads the poller's variables through `lookup` (in production [`std::env::var`]).
    ///
    /// # Errors
    /// [`ConfigError`] with every variable that is missing or invalid.
    ///
    /// ```
    /// use tidegate_core::config::PollerConfig;
    /// let error = PollerConfig::from_variables(|_| None).unwrap_err().to_string();
    /// assert!(error.contains("TIDEGATE_DEAD_LETTER_QUEUE_URL is not set; allowed is"));
    /// ```
    pub fn from_variables(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let mut vars = Variables::new(&lookup);
        let config = Self {
            campaigns: vars.required(
                "TIDEGATE_CAMPAIGNS",
                campaigns::ALLOWED,
                Campaigns::parse,
                Campaigns::Ledger,
            ),
            merge_queue_url: vars.queue_url("TIDEGATE_MERGE_QUEUE_URL", Some(true)),
            express_queue_url: vars.queue_url("TIDEGATE_EXPRESS_QUEUE_URL", Some(false)),
            dead_letter_queue_url: vars.required_queue_url("TIDEGATE_DEAD_LETTER_QUEUE_URL"),
            domains: vars.domains(),
            ledger: vars.ledger(),
            cap: vars.cap(),
            rate_margin: vars.setting(
                &settings::RATE_MARGIN,
                |text| RateMargin::new(settings::RATE_MARGIN.number(text)?).ok(),
                RateMargin::default(),
            ),
            lead: vars.lead(),
            max_in_flight: vars.number(&settings::MAX_IN_FLIGHT),
            memory: vars.number(&settings::MEMORY).map_or_else(Memory::default, Memory::megabytes),
            send_timeout: vars.send_timeout(),
            max_attempts: vars.number(&settings::MAX_ATTEMPTS).unwrap_or(5),
            unsent: vars.setting(
                &settings::UNSENT,
                |text| match text {
                    "timeout" => Some(Unsent::Timeout),
                    "release" => Some(Unsent::Release),
                    _ => None,
                },
                Unsent::default(),
            ),
            idle_windows: vars.number(&settings::IDLE_WINDOWS).unwrap_or(5),
            allowed_senders: vars.allowed_senders(),
            breaker: vars.breaker(),
            deduplication: vars.setting(
                &settings::DEDUPLICATION,
                |text| match text {
                    "off" => Some(Deduplication::Off),
                    "resend" => Some(Deduplication::Resend),
                    "park" => Some(Deduplication::Park),
                    _ => None,
                },
                Deduplication::default(),
            ),
            // SQS keeps a message for at most 14 days; one day more, so that no copy outlives its mark.
            mark_kept: Duration::from_hours(
                24 * vars.number(&settings::DEDUPLICATION_DAYS).unwrap_or(15),
            ),
            configuration_set: vars.configuration_set(),
            deferral: vars.deferral(),
            campaign_floor: vars.campaign_floor(),
            shared_bucket: vars.shared_bucket(),
        };
        vars.finish(config)
    }
}

impl SchedulerConfig {
    /// Reads the scheduler's variables through `lookup` (in production [`std::env::var`]).
    ///
    /// # Errors
    /// [`ConfigError`] with every variable that is missing or invalid.
    pub fn from_variables(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let mut vars = Variables::new(&lookup);
        let ledger = vars.ledger();
        let ledger_is_shared = ledger != LedgerKind::Memory;
        let overlap = if ledger_is_shared { 5 } else { 0 };
        let config = Self {
            poller_function: vars.required(
                "TIDEGATE_POLLER_FUNCTION",
                "the name or ARN of the poller function",
                |text| Some(text.to_owned()),
                String::new(),
            ),
            ledger,
            cap: vars.cap(),
            lead: vars.lead(),
            overlap_windows: vars.number(&settings::OVERLAP).unwrap_or(overlap),
            campaign_queues: vars.campaign_queues(ledger_is_shared),
            feedback: vars.feedback(),
            idle_wake: vars.number(&settings::IDLE_WAKE).unwrap_or(1),
            back_pressure: vars.back_pressure(),
            deferral: vars.deferral(),
        };
        vars.finish(config)
    }
}

#[cfg(test)]
mod tests;
