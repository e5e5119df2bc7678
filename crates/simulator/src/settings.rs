use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::config::{
    Campaign, Cap, ConfigError, LimitsConfig, PollerConfig, SchedulerConfig, queue_key,
};
use tidegate_core::daily::DailyPolicy;
use tidegate_core::email::Priority;
use tidegate_core::limits::InitialLimits;
use tidegate_core::rate::{InvalidRate, Rate};
use tidegate_delivery::ports::QueueUrl;
use tidegate_fakes::{Counting, Latency, QueueSettings, SesSettings};

const LIMITS: &str = "TIDEGATE_LIMITS";

/// The configuration of a stack's functions.
#[derive(Clone, Debug, PartialEq)]
pub struct Deployment {
    pub poller: PollerConfig,
    pub scheduler: SchedulerConfig,
}

/// The settings of a [`World`](crate::World). Create them with [`WorldSettings::new`] and change
/// their fields.
#[derive(Clone, Debug, Default)]
// More than 12 fields: one for each setting of a simulation.
pub struct WorldSettings {
    /// The account's quota in recipients per second, as SES reports it and, by default, enforces
    /// it.
    pub quota: f64,
    /// The rate that SES enforces, if it differs from the quota it reports.
    pub real_quota: Option<f64>,
    pub counting: Counting,
    /// The account's daily quota in recipients; `None` for no limit.
    pub daily_quota: Option<u64>,
    /// The most that text messages may cost in a month, at a dollar a part.
    pub spend_limit: Option<u64>,
    /// Time from writing a request to SES's answer.
    pub latency: Latency,
    /// How long a call to SQS takes.
    pub sqs_latency: Latency,
    /// The behaviour of all queues, except for the largest message.
    pub queues: QueueSettings,
    pub campaigns: Vec<(String, u32)>,
    /// SES's tenants of campaigns, by campaign.
    pub tenants: BTreeMap<String, String>,
    /// The campaigns' priority queues, each named as `queue_key` does.
    pub priority_queues: Vec<(String, Priority)>,
    /// Whether there is a merge queue; without one it is direct mode.
    pub merge: bool,
    pub express: bool,
    /// Additional environment variables of the functions, by name.
    pub variables: Vec<(&'static str, String)>,
    /// The functions' configuration except for their queues; `variables` override it.
    pub deployed: Option<Box<Deployment>>,
    pub overlap_windows: u64,
    /// How far the environments' wall clocks are ahead of true time, in nanoseconds, in the order
    /// of their start. Environments beyond the list have the true time.
    pub clocks: Vec<i64>,
    pub epoch: Timestamp,
    pub seed: u64,
}

impl WorldSettings {
    /// Two campaigns with weights 90 and 10. SES answers in about 80 ms and counts every sliding
    /// second; SQS answers in 5 to 15 ms.
    pub fn new(quota: f64, merge: bool) -> Self {
        let ms = Duration::from_millis;
        Self {
            quota,
            counting: Counting::SlidingSecond,
            latency: Latency::between(ms(73), ms(87)),
            sqs_latency: Latency::between(ms(5), ms(15)),
            campaigns: vec![("big".to_owned(), 90), ("small".to_owned(), 10)],
            merge,
            overlap_windows: 10,
            epoch: Timestamp::from_millis(1_795_207_000_300),
            seed: 1,
            ..Self::default()
        }
    }

    pub fn campaigns<N: AsRef<str>>(mut self, campaigns: &[(N, u32)]) -> Self {
        let owned = campaigns.iter().map(|(name, weight)| (name.as_ref().to_owned(), *weight));
        self.campaigns = owned.collect();
        self
    }

    /// These settings with SES's tenant of a campaign.
    pub fn tenant(mut self, campaign: &str, tenant: &str) -> Self {
        self.tenants.insert(campaign.to_owned(), tenant.to_owned());
        self
    }

    /// These settings with one more of the functions' variables.
    pub fn variable(mut self, name: &'static str, value: impl std::fmt::Display) -> Self {
        self.variables.push((name, format!("{value}")));
        self
    }

    /// The URLs of the limit queues, separated by commas: six, as a stack has, or as many as the given or deployed
    /// limits need.
    fn limit_queues(&self) -> String {
        let given = self.given(LIMITS).and_then(|text| text.parse::<InitialLimits>().ok());
        let deployed =
            self.deployed.as_ref().map(|deployed| deployed.poller.limits.initial.clone());
        let needed = given.or(deployed).map_or(0, |limits| limits.len());
        let urls = (0..needed.max(6)).map(|place| url(&limit_queue(place)).to_string());
        urls.collect::<Vec<_>>().join(",")
    }

    fn given(&self, name: &str) -> Option<String> {
        let given = self.variables.iter().rev().find(|(given, _)| *given == name);
        given.map(|(_, value)| value.clone())
    }

    /// The campaigns as the JSON of `TIDEGATE_CAMPAIGNS`.
    fn listed(&self) -> String {
        let named = |(name, weight): &(String, u32)| {
            let queue = |priority: Priority| url(&queue_key(name, priority)).to_string();
            let others = self.priority_queues.iter().filter(|(of, _)| of == name);
            Campaign {
                name: name.clone(),
                queue_url: queue(Priority::Normal),
                weight: *weight,
                tenant: self.tenants.get(name).cloned(),
                priority_queues: others.map(|(_, p)| (*p, queue(*p))).collect(),
            }
        };
        let campaigns: Vec<Campaign> = self.campaigns.iter().map(named).collect();
        serde_json::to_string(&campaigns).unwrap_or_default()
    }

    /// The value of a variable that the functions ask for: a given one, or as a stack sets it.
    fn value(&self, name: &str) -> Option<String> {
        let set = || match name {
            "TIDEGATE_CAMPAIGNS" => Some(self.listed()),
            "TIDEGATE_MERGE_QUEUE_URL" => self.merge.then(|| url(MERGE).to_string()),
            "TIDEGATE_EXPRESS_QUEUE_URL" => self.express.then(|| url(EXPRESS).to_string()),
            "TIDEGATE_LIMIT_QUEUES" => Some(self.limit_queues()),
            "TIDEGATE_DEAD_LETTER_QUEUE_URL" => Some(url(DEAD_LETTERS).to_string()),
            "TIDEGATE_FEEDBACK_QUEUE_URL" => Some(url(FEEDBACK).to_string()),
            "TIDEGATE_LEDGER" => Some("dynamodb:ledger".to_owned()),
            "TIDEGATE_POLLER_FUNCTION" => Some("poller".to_owned()),
            "TIDEGATE_OVERLAP_WINDOWS" => Some(self.overlap_windows.to_string()),
            _ => None,
        };
        self.given(name).or_else(set)
    }

    /// The poller's settings, read as in production.
    ///
    /// # Errors
    /// [`ConfigError`] on what the poller refuses.
    pub fn poller(&self) -> Result<PollerConfig, ConfigError> {
        let read = PollerConfig::from_variables(|name| self.value(name))?;
        let Some(deployed) = &self.deployed else { return Ok(read) };
        let rate_margin = self
            .given("TIDEGATE_RATE_MARGIN")
            .map_or(deployed.poller.rate_margin, |_| read.rate_margin);
        let given = self.given(LIMITS).is_some();
        let initial =
            if given { read.limits.initial } else { deployed.poller.limits.initial.clone() };
        Ok(PollerConfig {
            limits: LimitsConfig { initial, ..read.limits },
            campaigns: read.campaigns,
            merge_queue_url: read.merge_queue_url,
            express_queue_url: read.express_queue_url,
            dead_letter_queue_url: read.dead_letter_queue_url,
            ledger: read.ledger,
            cap: self.cap(read.cap, deployed.poller.cap),
            rate_margin,
            rules: read.rules,
            store: read.store,
            defers: read.defers,
            ..deployed.poller.clone()
        })
    }

    /// The scheduler's settings, read as in production.
    ///
    /// # Errors
    /// [`ConfigError`] on what the scheduler refuses.
    pub fn scheduler(&self) -> Result<SchedulerConfig, ConfigError> {
        let read = SchedulerConfig::from_variables(|name| self.value(name))?;
        let Some(deployed) = &self.deployed else { return Ok(read) };
        Ok(SchedulerConfig {
            poller_function: read.poller_function,
            ledger: read.ledger,
            cap: self.cap(read.cap, deployed.scheduler.cap),
            campaign_queues: None,
            feedback: read.feedback,
            idle_wake: read.idle_wake,
            back_pressure: read.back_pressure,
            store: read.store,
            ..deployed.scheduler.clone()
        })
    }

    /// The deployed cap, with the daily pace of the variables if they set one.
    fn cap(&self, read: Cap, deployed: Cap) -> Cap {
        let paced = self.given("TIDEGATE_DAILY").is_some();
        let pace = if paced { read.daily.pace } else { deployed.daily.pace };
        Cap { daily: DailyPolicy { pace, ..deployed.daily }, ..deployed }
    }

    /// The settings of the simulated SES account.
    ///
    /// # Errors
    /// [`InvalidRate`] on a quota that is none.
    pub fn ses(&self) -> Result<SesSettings, InvalidRate> {
        let enforced = Rate::per_second(self.real_quota.unwrap_or(self.quota))?;
        Ok(SesSettings {
            counting: self.counting,
            latency: self.latency,
            max_24_hour_send: self.daily_quota,
            spend_limit: self.spend_limit,
            ..SesSettings::of_rate(enforced)
        })
    }
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum SettingsError {
    /// The account's quota or the rate that SES enforces is out of range.
    #[error("a quota is out of range")]
    Quota(#[from] InvalidRate),
    /// The poller or the scheduler would refuse these variables at start-up.
    #[error("the functions would not start")]
    Variables(#[from] ConfigError),
}

/// The merge queue's name. Campaign names contain no dots, so it cannot clash with one.
pub const MERGE: &str = "merge.fifo";
pub const EXPRESS: &str = "express";
pub const DEAD_LETTERS: &str = "dead.letters";
/// The name of the queue with SES's bounces and complaints.
pub const FEEDBACK: &str = "feedback.events";

/// The prefix of the limit queues' names.
pub(crate) const DOMAIN: &str = "domain.";

/// The name of the recipient domain's queue at `place`, from 0.
pub fn limit_queue(place: usize) -> String {
    format!("{DOMAIN}{}", place + 1)
}

/// The URL of the queue of this name; a campaign's queue has the campaign's name.
pub fn url(name: &str) -> QueueUrl {
    QueueUrl::new(format!("https://sqs.example/{name}"))
}
