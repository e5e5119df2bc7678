//! The environment as typed values: parsed once at start, every invalid value refused with its
//! name, the value, and what is allowed.

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

/// What becomes of what is received and unsent at the window's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Unsent {
    /// It is left to the visibility timeout.
    #[default]
    Timeout,
    /// It is made visible at once.
    Release,
}

/// The poller's settings.
#[derive(Clone, Debug, PartialEq)]
// More than 12 fields: one for each setting; a policy takes its own.
pub struct PollerConfig {
    /// `TIDEGATE_CAMPAIGNS`.
    pub campaigns: Campaigns,
    /// `TIDEGATE_MERGE_QUEUE_URL`; without it the poller takes from the campaigns: direct mode.
    pub merge_queue_url: Option<String>,
    /// `TIDEGATE_EXPRESS_QUEUE_URL`.
    pub express_queue_url: Option<String>,
    /// `TIDEGATE_DEAD_LETTER_QUEUE_URL`.
    pub dead_letter_queue_url: String,
    /// `TIDEGATE_DOMAIN_LIMITS` and `TIDEGATE_DOMAIN_QUEUES`.
    pub domains: DomainsConfig,
    /// `TIDEGATE_LEDGER`.
    pub ledger: LedgerKind,
    /// `TIDEGATE_QUOTA_PER_SECOND`, `TIDEGATE_DAILY` and `TIDEGATE_DAILY_RESERVE`.
    pub cap: Cap,
    /// `TIDEGATE_RATE_MARGIN`, default 0.02.
    pub rate_margin: RateMargin,
    /// `TIDEGATE_TICK_LEAD_MS`, default 400.
    pub lead: Duration,
    /// `TIDEGATE_MAX_IN_FLIGHT`; default from rate and observed latency, at most 900.
    pub max_in_flight: Option<usize>,
    /// `AWS_LAMBDA_FUNCTION_MEMORY_SIZE`, which Lambda sets.
    pub memory: Memory,
    /// `TIDEGATE_SEND_TIMEOUT_MS`, default 5000.
    pub send_timeout: Duration,
    /// `TIDEGATE_MAX_ATTEMPTS`, default 5.
    pub max_attempts: u32,
    /// `TIDEGATE_UNSENT`, default `timeout`.
    pub unsent: Unsent,
    /// `TIDEGATE_IDLE_WINDOWS`, default 5.
    pub idle_windows: u64,
    /// `TIDEGATE_ALLOWED_SENDERS`, default all.
    pub allowed_senders: AllowedSenders,
    /// `TIDEGATE_BREAKER_…`.
    pub breaker: BreakerPolicy,
    /// `TIDEGATE_DEDUPLICATION`, default off.
    pub deduplication: Deduplication,
    /// `TIDEGATE_DEDUPLICATION_DAYS`: how long a mark is kept, default 15 days.
    pub mark_kept: Duration,
    /// `TIDEGATE_CONFIGURATION_SET`: SES's, of mails that name none.
    pub configuration_set: Option<String>,
    /// `TIDEGATE_DEFERRAL`: where deferred mail is written; without it none is deferred.
    pub deferral: Option<Location>,
    /// `TIDEGATE_CAMPAIGN_FLOOR`, default 0%.
    pub campaign_floor: Floor,
    /// `TIDEGATE_SHARED_BUCKET` and what belongs to it; none where nobody else sends.
    pub shared_bucket: Option<SharedBucketConfig>,
}

/// The scheduler's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// `TIDEGATE_POLLER_FUNCTION`: name or ARN.
    pub poller_function: String,
    /// `TIDEGATE_LEDGER`.
    pub ledger: LedgerKind,
    /// `TIDEGATE_QUOTA_PER_SECOND`, `TIDEGATE_DAILY` and `TIDEGATE_DAILY_RESERVE`.
    pub cap: Cap,
    /// `TIDEGATE_TICK_LEAD_MS`, default 400.
    pub lead: Duration,
    /// `TIDEGATE_OVERLAP_WINDOWS`, default 5 with a shared ledger, 0 with memory.
    pub overlap_windows: u64,
    /// `TIDEGATE_CAMPAIGN_QUEUES`: what the names of the queues begin with among which the campaigns
    /// are found by tag; none leaves the ledger's list alone.
    pub campaign_queues: Option<String>,
    /// `TIDEGATE_FEEDBACK` and what belongs to it; none where it is `off`, the default.
    pub feedback: Option<FeedbackConfig>,
    /// `TIDEGATE_IDLE_WAKE_SECONDS`, default 1: while every queue is empty, one tick in so many.
    pub idle_wake: u64,
    /// What the level is judged by; none where `TIDEGATE_CAMPAIGNS` is not set.
    pub back_pressure: Option<BackPressureConfig>,
    /// `TIDEGATE_DEFERRAL`: where deferred mail stands.
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
            // A day longer than SQS keeps a message: no copy outlives its mark.
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
    /// Reads the scheduler's variables through `lookup`.
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
