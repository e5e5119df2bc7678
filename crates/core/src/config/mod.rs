//! The environment as typed values. It is parsed once at start, and every invalid value is refused with
//! its name, the value, and the allowed values.

mod campaigns;
mod deadlines;
mod groups;
mod settings;
mod shared_bucket;
mod variables;

use std::time::Duration;

use strum::EnumString;

use campaigns::is_url;
pub use campaigns::{Campaign, Campaigns, EXPRESS, is_campaign_name, is_word, queue_key};
pub use deadlines::{DECIDED, LAST_START, MOVED, POLLER_TIMEOUT, QUEUE_CALL, REPORTED, SETTLED};
pub use groups::{BackPressureConfig, Cap, FeedbackConfig, LedgerKind, LimitsConfig};
pub use settings::{DefaultValue, MOST_SENDS, Range, ReadBy, SETTINGS, Setting};
pub use shared_bucket::{BucketLost, BucketUrl, InvalidBucketUrl, SharedBucketConfig, bucket_key};
use variables::Variables;
pub use variables::{ConfigError, InvalidVariable};

use crate::breaker::BreakerPolicy;
use crate::channel::{Channel, MessageRules};
use crate::deduplication::Deduplication;
use crate::email::AllowedSenders;
use crate::limiter::Floor;
use crate::memory::Memory;
use crate::rate::RateMargin;
use crate::store::Location;
use crate::text::is_word_of;
use crate::text_message::{AllowedTexts, Origins};

/// The treatment of messages that were received and are unsent at the end of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum Unsent {
    /// The message stays invisible until its visibility timeout ends.
    #[default]
    Timeout,
    /// The message is made visible at once, by one more call to SQS.
    Release,
}

/// The poller's settings, checked and with defaults applied; [`SETTINGS`] has ranges and defaults.
#[derive(Clone, Debug, PartialEq)]
// More than 12 fields: one for each setting; a policy takes its own.
pub struct PollerConfig {
    /// `TIDEGATE_CAMPAIGNS`: the list of campaigns, or `ledger`.
    pub campaigns: Campaigns,
    /// `TIDEGATE_MERGE_QUEUE_URL`; without it the poller receives from the campaign queues (direct
    /// mode).
    pub merge_queue_url: Option<String>,
    /// `TIDEGATE_EXPRESS_QUEUE_URL`: the queue whose mail goes before all campaigns.
    pub express_queue_url: Option<String>,
    /// `TIDEGATE_DEAD_LETTER_QUEUE_URL`.
    pub dead_letter_queue_url: String,
    /// `TIDEGATE_LIMITS` and `TIDEGATE_LIMIT_QUEUES`.
    pub limits: LimitsConfig,
    /// `TIDEGATE_LEDGER`.
    pub ledger: LedgerKind,
    /// `TIDEGATE_QUOTA_PER_SECOND`, `TIDEGATE_DAILY` and `TIDEGATE_DAILY_RESERVE`: caps of the
    /// account's quota.
    pub cap: Cap,
    /// `TIDEGATE_RATE_MARGIN`.
    pub rate_margin: RateMargin,
    /// `TIDEGATE_TICK_LEAD_MS`.
    pub lead: Duration,
    /// `TIDEGATE_MAX_IN_FLIGHT`: sends at the same time; `None` computes it from the rate and the
    /// observed latency.
    pub max_in_flight: Option<usize>,
    /// The function's memory, from `AWS_LAMBDA_FUNCTION_MEMORY_SIZE`, which Lambda sets.
    pub memory: Memory,
    /// `TIDEGATE_SEND_TIMEOUT_MS`: the time limit of one send.
    pub send_timeout: Duration,
    /// `TIDEGATE_MAX_ATTEMPTS`.
    pub max_attempts: u32,
    /// `TIDEGATE_UNSENT`.
    pub unsent: Unsent,
    /// `TIDEGATE_AUDIT`: whether each window's record is logged.
    pub audit: bool,
    /// `TIDEGATE_IDLE_WINDOWS`: the longest pause, in windows, before an empty queue is asked again.
    pub idle_windows: u64,
    /// The channel, and the senders, origins and countries of its messages.
    pub rules: MessageRules,
    /// `TIDEGATE_BREAKER_…`: when sending stops because SES fails, and for how long.
    pub breaker: BreakerPolicy,
    /// `TIDEGATE_DEDUPLICATION`.
    pub deduplication: Deduplication,
    /// `TIDEGATE_DEDUPLICATION_DAYS`: how long a mark is kept.
    pub mark_kept: Duration,
    /// `TIDEGATE_CONFIGURATION_SET`: SES's configuration set for mails that name none.
    pub configuration_set: Option<String>,
    /// `TIDEGATE_STORE`: where mail waits longer than a queue should; `None` without a store.
    pub store: Option<Location>,
    /// `TIDEGATE_DEFERRAL`: whether mail of low priority is deferred while the level is above clear.
    pub defers: bool,
    /// `TIDEGATE_TRACES`: the OTLP endpoint for traces; `None` makes none.
    pub traces: Option<String>,
    /// `TIDEGATE_EVENT_BUS`: the bus that gets events of mail that SES was not given; `None` makes none.
    pub event_bus: Option<String>,
    /// `TIDEGATE_CAMPAIGN_FLOOR`: the express floor.
    pub campaign_floor: Floor,
    /// `TIDEGATE_SHARED_BUCKET` and the variables that belong to it; `None` if no other software sends
    /// on the account's quota.
    pub shared_bucket: Option<SharedBucketConfig>,
}

/// The scheduler's settings, checked and with defaults applied; [`SETTINGS`] has ranges and defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
// More than 12 fields: one for each setting.
pub struct SchedulerConfig {
    /// `TIDEGATE_CHANNEL`.
    pub channel: Channel,
    /// `TIDEGATE_ORIGINS`: the first one's type gives the quota of text messages.
    pub origins: Origins,
    /// `TIDEGATE_POLLER_FUNCTION`: the poller function's name or ARN.
    pub poller_function: String,
    /// `TIDEGATE_LEDGER`.
    pub ledger: LedgerKind,
    /// `TIDEGATE_QUOTA_PER_SECOND`, `TIDEGATE_DAILY` and `TIDEGATE_DAILY_RESERVE`: caps of the
    /// account's quota.
    pub cap: Cap,
    /// `TIDEGATE_TICK_LEAD_MS`.
    pub lead: Duration,
    /// `TIDEGATE_OVERLAP_WINDOWS`; unless set, 0 with the ledger `memory`.
    pub overlap_windows: u64,
    /// `TIDEGATE_CAMPAIGN_QUEUES`: the beginning of the names of the queues among which campaigns are
    /// found by tag; `None` leaves the ledger's list of campaigns as it is.
    pub campaign_queues: Option<String>,
    /// `TIDEGATE_FEEDBACK` and the variables that belong to it; `None` if it is `off`.
    pub feedback: Option<FeedbackConfig>,
    /// `TIDEGATE_IDLE_WAKE_SECONDS`: while every queue is empty, their messages are counted once in this many
    /// seconds; 1 keeps a tick for every window.
    pub idle_wake: u64,
    /// The settings of the back-pressure level; `None` if `TIDEGATE_CAMPAIGNS` is not set.
    pub back_pressure: Option<BackPressureConfig>,
    /// `TIDEGATE_STORE`: where mail waits longer than a queue should; `None` without a store.
    pub store: Option<Location>,
    /// `TIDEGATE_ALARM_TOPIC`: the ARN of the topic to which incidents are told; `None` tells nobody.
    pub alarm_topic: Option<String>,
    /// `TIDEGATE_EVENT_BUS`: the bus that gets events of holds, incidents and runs; `None` makes none.
    pub event_bus: Option<String>,
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
        let channel: Channel = vars.parsed(&settings::CHANNEL);
        let config = Self {
            campaigns: vars
                .read(&settings::CAMPAIGNS, Campaigns::parse)
                .unwrap_or(Campaigns::Ledger),
            merge_queue_url: vars.text(&settings::MERGE_QUEUE),
            express_queue_url: vars.text(&settings::EXPRESS_QUEUE),
            dead_letter_queue_url: vars.text(&settings::DEAD_LETTER_QUEUE).unwrap_or_default(),
            limits: vars.limits(channel),
            ledger: vars.ledger(),
            cap: vars.cap(),
            rate_margin: vars
                .read(&settings::RATE_MARGIN, |text| RateMargin::new(text.parse().ok()?).ok())
                .unwrap_or_default(),
            lead: vars.milliseconds(&settings::LEAD),
            max_in_flight: vars.read(&settings::MAX_IN_FLIGHT, |text| text.parse().ok()),
            memory: Memory(vars.parsed(&settings::MEMORY)),
            send_timeout: vars.milliseconds(&settings::SEND_TIMEOUT),
            max_attempts: vars.parsed(&settings::MAX_ATTEMPTS),
            unsent: vars.parsed(&settings::UNSENT),
            audit: vars.text(&settings::AUDIT).as_deref() == Some("on"),
            idle_windows: vars.parsed(&settings::IDLE_WINDOWS),
            rules: MessageRules {
                channel,
                senders: vars
                    .explained(&settings::ALLOWED_SENDERS)
                    .unwrap_or_else(AllowedSenders::everyone),
                texts: AllowedTexts {
                    origins: vars.explained(&settings::ORIGINS).unwrap_or_default(),
                    countries: vars.explained(&settings::ALLOWED_COUNTRIES).unwrap_or_default(),
                },
                has_store: vars.get(settings::STORE.name).is_some(),
            },
            breaker: BreakerPolicy {
                share: vars.millionths(&settings::BREAKER_SHARE),
                after: vars.parsed(&settings::BREAKER_SECONDS),
                ..BreakerPolicy::default()
            },
            deduplication: vars.parsed(&settings::DEDUPLICATION),
            // SQS keeps a message for at most 14 days; by default one day more, so that no copy outlives
            // its mark.
            mark_kept: Duration::from_hours(24 * vars.parsed::<u64>(&settings::DEDUPLICATION_DAYS)),
            configuration_set: vars
                .read(&settings::CONFIGURATION_SET, |text| is_word(text).then(|| text.to_owned())),
            store: vars.read(&settings::STORE, Location::parse),
            defers: vars.text(&settings::DEFERRAL).as_deref() == Some("on"),
            traces: vars.read(&settings::TRACES, |text| is_url(text).then(|| text.to_owned())),
            event_bus: vars.read(&settings::EVENT_BUS, event_bus),
            campaign_floor: vars.parsed(&settings::CAMPAIGN_FLOOR),
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
        // Without a shared ledger two pollers would serve a window for which two ticks arrive.
        let overlaps = ledger_is_shared || vars.get(settings::OVERLAP.name).is_some();
        let config = Self {
            channel: vars.parsed(&settings::CHANNEL),
            origins: vars.explained(&settings::ORIGINS).unwrap_or_default(),
            poller_function: vars.text(&settings::POLLER_FUNCTION).unwrap_or_default(),
            ledger,
            cap: vars.cap(),
            lead: vars.milliseconds(&settings::LEAD),
            overlap_windows: if overlaps { vars.parsed(&settings::OVERLAP) } else { 0 },
            campaign_queues: vars.campaign_queues(ledger_is_shared),
            feedback: vars.feedback(),
            idle_wake: vars.parsed(&settings::IDLE_WAKE),
            back_pressure: vars.back_pressure(),
            store: vars.read(&settings::STORE, Location::parse),
            alarm_topic: vars.read(&settings::ALARM_TOPIC, topic_arn),
            event_bus: vars.read(&settings::EVENT_BUS, event_bus),
        };
        vars.finish(config)
    }
}

/// An SNS topic's ARN, such as `arn:aws:sns:eu-west-1:123456789012:alarms`.
fn topic_arn(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.trim().split(':').collect();
    let is_topic = matches!(parts[..], ["arn", partition, "sns", region, account, name]
        if ![partition, region, account, name].contains(&""));
    is_topic.then(|| text.trim().to_owned())
}

/// The name of a bus; that of a partner has slashes.
fn event_bus(text: &str) -> Option<String> {
    is_word_of(text, 256, "/.-_").then(|| text.to_owned())
}

#[cfg(test)]
mod settings_tests;
#[cfg(test)]
mod tests;
