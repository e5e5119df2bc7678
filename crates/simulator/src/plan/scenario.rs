//! The scenario of a forecast: campaigns, settings, faults, and recipient domains.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::channel::{Channel, Words};
use tidegate_core::config::is_campaign_name;
use tidegate_core::control::Control;
use tidegate_core::daily::DailyPace;
use tidegate_core::limits::{Dimension, InitialLimits, LimitChanges, LimitTable};
use tidegate_core::memory::Memory;
use tidegate_core::number::real;
use tidegate_core::outcome::Failure;
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_delivery::ports::PortError;
use tidegate_fakes::{Counting, Fault, Latency, Operation, Rule, failures};

use crate::settings::{Deployment, SettingsError, WorldSettings};

/// The most mails of a campaign and the largest daily quota that a forecast accepts.
pub const MOST_MAILS: u64 = 1_000_000_000;
/// SES's limit of recipients for one mail.
pub const MOST_RECIPIENTS: u32 = 50;
/// The most parts of a text, as far as they are full.
const MOST_PARTS: u32 = 10;
pub const MOST_CAMPAIGNS: usize = 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CampaignLoad {
    pub name: String,
    /// The weight, 0 to 10,000; with weight 0 its mails are not sent.
    pub weight: u32,
    /// Mails that are on its queue at the start.
    pub mails: u64,
    /// Recipients of each mail, 1 to 50, or parts of each text, 1 to 10.
    pub recipients: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DailyQuotaSettings {
    pub quota: u64,
    /// Recipients sent in the 24 hours before the start. SES does not report when, so all of them
    /// are taken to leave the count 24 hours after the start.
    pub sent: u64,
    /// Whether it is used at the full rate until it is exhausted, or spread over the day.
    pub pace: DailyPace,
}

#[derive(Clone, Debug, Default, PartialEq)]
// More than 12 fields: one for each option of a forecast.
pub struct Scenario {
    /// The scenario's name, which tells it from its variants.
    pub name: String,
    pub channel: Channel,
    pub campaigns: Vec<CampaignLoad>,
    /// AWS's price of a part of a text, US dollars; `None` if it is not known.
    pub price_per_part: Option<f64>,
    /// SES's price of a recipient, US dollars; `None` for the one in `infra/cost/prices.json`.
    pub ses_price: Option<f64>,
    pub quota: f64,
    /// The daily quota; `None` for no limit.
    pub daily: Option<DailyQuotaSettings>,
    /// Time from handing a mail to SES until its answer.
    pub latency: Latency,
    pub sqs_latency: Latency,
    /// The rate margin; `None` for the deployment's or the default.
    pub rate_margin: Option<f64>,
    /// Whether there is a merge queue; without one it is direct mode.
    pub merge: bool,
    /// Express mails per second during the whole run; `None` without an express queue.
    pub express: Option<f64>,
    /// Shares of the mails for named recipient domains; every other mail goes to a domain of its
    /// own.
    pub domains: Vec<DomainShare>,
    /// Limits of recipient domains; `None` for the deployment's, or no limits.
    pub limits: Option<InitialLimits>,
    pub faults: Vec<PlannedFault>,
    /// The size of a mail, KB.
    pub mail_kb: u32,
    /// The start: the time at which the mails are on their queues.
    pub start: Timestamp,
    /// Whether the mails wait in the store until then.
    pub timed: bool,
    /// The configuration of the deployed functions; `None` for the template's defaults.
    pub deployed: Option<Box<Deployment>>,
    /// Whether the stack was running before the start. A new stack has no warm poller and no state
    /// in its ledger.
    pub warm: bool,
    /// The holds at the start; the rest of the record is not used.
    pub control: Control,
    /// Assumptions about the stack that the scenario comes from, in words.
    pub assumptions: Vec<String>,
}

impl Scenario {
    /// Adds mails to the campaign of the same name, or a campaign. Its mails have one number of recipients: others
    /// become as many mails as take the same slots.
    pub fn add(&mut self, load: &CampaignLoad) {
        match self.campaigns.iter_mut().find(|known| known.name == load.name) {
            Some(known) => {
                let slots = load.mails.saturating_mul(u64::from(load.recipients));
                let mails = slots.div_ceil(u64::from(known.recipients.max(1)));
                known.mails = known.mails.saturating_add(mails);
            }
            None => self.campaigns.push(load.clone()),
        }
    }

    /// A running stack with the template's defaults in merge mode and without campaigns: 14
    /// recipients per second, no daily quota, SES answers in 80 ms, SQS in 5 to 15 ms.
    pub fn new(start: Timestamp) -> Self {
        let ms = Duration::from_millis;
        Self {
            name: "as given".to_owned(),
            quota: 14.0,
            latency: Latency::always(ms(80)),
            sqs_latency: Latency::between(ms(5), ms(15)),
            merge: true,
            mail_kb: 2,
            start,
            warm: true,
            ..Self::default()
        }
    }

    /// The mails of all campaigns; saturates instead of overflowing.
    pub fn mails(&self) -> u64 {
        self.campaigns.iter().fold(0, |sum, load| sum.saturating_add(load.mails))
    }

    /// Whether a hold without an end stops all sending, so that no forecast is needed.
    pub fn is_held_for_good(&self) -> bool {
        self.control.holds.named().any(|(_, hold)| hold.until.is_none())
    }

    /// The poller's memory: the deployment's, or the template's default.
    pub(super) fn memory(&self) -> Memory {
        self.deployed.as_ref().map_or_else(Memory::default, |deployed| deployed.poller.memory)
    }

    /// The limits of recipient domains in force: the given ones, else the deployment's.
    pub(super) fn limits(&self) -> Option<&InitialLimits> {
        let deployed = self.deployed.as_ref().map(|deployed| &deployed.poller.limits.initial);
        self.limits.as_ref().or(deployed)
    }

    /// Whether a limit of a recipient domain can delay some of the mails.
    pub fn is_limited_by_domain(&self) -> bool {
        let Some(initial) = self.limits() else { return false };
        let table = LimitTable::of(initial, &LimitChanges::new());
        let limited = |share: &DomainShare| table.find(Dimension::Domain, &share.domain).is_some();
        self.domains.iter().any(limited)
    }

    /// Checks every value of the scenario.
    ///
    /// # Errors
    /// [`PlanError`] of its first wrong value.
    pub fn check(&self) -> Result<(), PlanError> {
        let Words { message, unit, .. } = self.channel.words();
        let allowed = format!("0.001 to 10000 {unit}s a second");
        check(Rate::per_second(self.quota).is_ok(), "quota", &self.quota, &allowed)?;
        self.check_channel()?;
        if let Some(share) = self.rate_margin {
            let is_one = RateMargin::new(share).is_ok();
            check(is_one, "rate margin", &share, "a share from 0.005 to 0.5")?;
        }
        if self.mails() == 0 {
            return Err(PlanError::NoMails);
        }
        let campaigns = self.campaigns.len();
        check(campaigns <= MOST_CAMPAIGNS, "campaigns", &campaigns, "1 to 1000 campaigns")?;
        let mut names = BTreeSet::new();
        for load in &self.campaigns {
            let CampaignLoad { name, weight, mails, recipients } = load;
            let field = |of: &str| format!("{of} of campaign {name}");
            let allowed = "1 to 64 letters, digits, - and _, and not express";
            check(is_campaign_name(name), "campaign", name, allowed)?;
            check(names.insert(name), "campaign", name, "each name once")?;
            check(*mails <= MOST_MAILS, &field("mails"), mails, "0 to 1000000000")?;
            let most = if self.channel == Channel::Sms { MOST_PARTS } else { MOST_RECIPIENTS };
            let (of_a_mail, allowed) =
                (field(&format!("{unit}s a {message}")), format!("1 to {most}"));
            check((1..=most).contains(recipients), &of_a_mail, recipients, &allowed)?;
            check(*weight <= 10_000, &field("weight"), weight, "0 to 10000")?;
        }
        if self.campaigns.iter().all(|load| load.weight == 0 || load.mails == 0) {
            return Err(PlanError::NoWeight);
        }
        let to_domains: f64 = self.domains.iter().map(|share| share.share).sum();
        let value = format!("{}%", to_domains * 100.0);
        check(to_domains <= 1.0 + 1e-9, "domain", &value, "shares of at most 100% together")?;
        if let Some(DailyQuotaSettings { quota, sent, .. }) = self.daily {
            let allowed = "1 to 1000000000 recipients";
            check((1..=MOST_MAILS).contains(&quota), "daily quota", &quota, allowed)?;
            check(sent <= MOST_MAILS, "sent today", &sent, "0 to 1000000000 recipients")?;
        }
        let settings = self.settings(1).poller();
        let rate_margin = settings.map_err(|error| PlanError::World(error.into()))?.rate_margin;
        // Above nine tenths of the rate, campaigns practically never end.
        let most = 0.9 * self.quota * (1.0 - f64::from(rate_margin));
        let allowed = format!("0 to {most:.3} mails a second, nine tenths of what may be sent");
        let express = self.express.unwrap_or(0.0);
        check((0.0..=most).contains(&express), "express", &express, &allowed)
    }

    /// Refuses what only mails have for texts, and what only texts have for mails.
    fn check_channel(&self) -> Result<(), PlanError> {
        let of_mail = [
            ("daily quota", self.daily.is_some()),
            ("domain", !self.domains.is_empty()),
            ("domain limits", self.limits.is_some()),
            ("SES price", self.ses_price.is_some()),
        ];
        let of_text = [("price per part", self.price_per_part.is_some())];
        let (others, allowed) = match self.channel {
            Channel::Email => (of_text.as_slice(), "only for texts (--channel sms)"),
            Channel::Sms => (of_mail.as_slice(), "only for e-mail (--channel email)"),
        };
        others.iter().try_for_each(|(field, is_given)| check(!is_given, field, &"given", allowed))
    }

    pub(super) fn settings(&self, seed: u64) -> WorldSettings {
        let campaigns: Vec<(&str, u32)> =
            self.campaigns.iter().map(|load| (load.name.as_str(), load.weight)).collect();
        let mut settings = WorldSettings {
            daily_quota: self.daily.map(|daily| daily.quota),
            latency: self.latency,
            sqs_latency: self.sqs_latency,
            counting: Counting::Bucket,
            express: self.express.is_some(),
            seed,
            deployed: self.deployed.clone(),
            ..WorldSettings::new(self.quota, self.merge).campaigns(&campaigns)
        };
        // A forecast is of a stack that sends. Whether it sleeps while all that waits is held moves no end by
        // more than a minute.
        settings = settings.variable("TIDEGATE_IDLE_WAKE_SECONDS", 1);
        if self.channel == Channel::Sms {
            settings = settings.variable("TIDEGATE_CHANNEL", "sms");
        }
        if let Some(rate_margin) = self.rate_margin {
            settings = settings.variable("TIDEGATE_RATE_MARGIN", rate_margin);
        }
        if let Some(limits) = &self.limits {
            settings = settings.variable("TIDEGATE_LIMITS", limits);
        }
        if let Some(daily) = self.daily {
            // The scenario's pace overrides the deployment's.
            let pace = if daily.pace == DailyPace::Spread { "spread" } else { "full" };
            settings = settings.variable("TIDEGATE_DAILY", pace);
        }
        settings
    }
}

/// Refuses a value that is not `right`.
fn check(right: bool, field: &str, value: &impl ToString, allowed: &str) -> Result<(), PlanError> {
    if right { Ok(()) } else { Err(refused(field, &value.to_string(), allowed)) }
}

pub(super) fn refused(field: &str, value: &str, allowed: &str) -> PlanError {
    let (field, value, allowed) = (field.to_owned(), value.to_owned(), allowed.to_owned());
    PlanError::Value { field, value, allowed }
}

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("{field} is `{value}`; allowed is {allowed}")]
    Value { field: String, value: String, allowed: String },
    /// A weight names a campaign that does not exist.
    #[error("{field} names the campaign `{name}`; there is {known}")]
    Unknown { field: String, name: String, known: String },
    #[error(
        "`daily` and `sent-today` go with a daily quota, and there is none; --daily-quota sets one"
    )]
    NoDailyQuota,
    #[error("no campaign has mail: there is nothing to forecast")]
    NoMails,
    /// Every campaign with mail has the weight 0.
    #[error("every campaign with mail has the weight 0: none would be sent")]
    NoWeight,
    #[error("the settings cannot be simulated")]
    World(#[from] SettingsError),
    #[error("the simulation failed")]
    Port(#[from] PortError),
    /// The thread or the timer for the simulation cannot be started.
    #[error("the simulation cannot be started")]
    Start(#[from] std::io::Error),
    #[error("the forecast was stopped")]
    Stopped,
    /// A thread of the simulation ended without a result.
    #[error(
        "the simulation of seed {0} ended without a result: please report this with the options"
    )]
    Lost(u64),
}

const ALLOWED: &str = "`throttle`, `5xx`, `outage`, `reset`, `lost-answer` or `rejected`, then any of `ratio=0.01`, `from=10m` and `to=1h`";

/// A duration such as `80ms`, `10m` or `1h 30m`, at most ten years.
fn span(text: &str) -> Option<Duration> {
    let longest = Duration::from_hours(24 * 3_650);
    humantime::parse_duration(text.trim()).ok().filter(|span| *span <= longest)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum SendFault {
    /// SES refuses for the rate although the quota is respected (`TooManyRequestsException`).
    Throttle,
    #[strum(serialize = "5xx", serialize = "outage")]
    ServerError,
    /// The connection breaks before SES acts.
    Reset,
    /// SES accepts the mail and its answer is lost, so the mail is sent again.
    LostAnswer,
    /// SES refuses this mail for good.
    Rejected,
}

/// A fault that strikes a share of the sends during a span of time.
///
/// ```
/// use tidegate_simulator::plan::PlannedFault;
/// let fault: PlannedFault = "5xx,ratio=0.05,from=10m,to=1h".parse()?;
/// assert_eq!((fault.ratio, fault.from.as_secs()), (0.05, 600));
/// assert!("5xx,ratio=2".parse::<PlannedFault>().is_err());
/// # Ok::<(), tidegate_simulator::plan::PlanError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedFault {
    pub kind: SendFault,
    /// The share of the sends that it strikes, 0 to 1.
    pub ratio: f64,
    /// When it begins, as a time after the start.
    pub from: Duration,
    /// When it ends, as a time after the start; `None` if it never does.
    pub to: Option<Duration>,
}

impl FromStr for PlannedFault {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let refused = || refused("fault", text, ALLOWED);
        let mut members = text.split(',').map(str::trim);
        let kind = members.next().and_then(|kind| kind.parse().ok()).ok_or_else(refused)?;
        let mut fault = Self { kind, ratio: 1.0, from: Duration::ZERO, to: None };
        for member in members {
            match member.split_once('=').ok_or_else(refused)? {
                ("ratio", share) => fault.ratio = share.parse().map_err(|_| refused())?,
                ("from", at) => fault.from = span(at).ok_or_else(refused)?,
                ("to", at) => fault.to = Some(span(at).ok_or_else(refused)?),
                _ => return Err(refused()),
            }
        }
        let rising = fault.to.is_none_or(|to| fault.from < to);
        ((0.0..=1.0).contains(&fault.ratio) && rising).then_some(fault).ok_or_else(refused)
    }
}

impl PlannedFault {
    /// The fault plan's rule for it, with the start of the forecast at `start`.
    pub(super) fn rule(&self, start: Timestamp) -> Rule<Failure> {
        let fault = match self.kind {
            SendFault::Throttle => Fault::Before(failures::rate_exceeded()),
            SendFault::ServerError => Fault::Before(failures::server_error()),
            SendFault::Reset => Fault::Before(failures::answer_lost()),
            SendFault::LostAnswer => Fault::After(failures::answer_lost()),
            SendFault::Rejected => Fault::Before(failures::rejected()),
        };
        let end = self.to.map_or(Timestamp::from_nanos(u64::MAX), |to| start + to);
        let rule = Rule::new(fault).on(Operation::Mail).chance(self.ratio);
        rule.during(start + self.from..end)
    }

    /// Whether it is active at this time after the start.
    pub(super) fn strikes_at(&self, after: Duration) -> bool {
        self.ratio > 0.0 && after >= self.from && self.to.is_none_or(|to| after < to)
    }
}

/// The part of the mails that goes to one domain; each other mail goes to a domain of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainShare {
    pub domain: String,
    /// The share of all mails, above 0 and at most 1.
    pub share: f64,
}

impl FromStr for DomainShare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            format!(
                "`{text}` is no share; allowed is a domain and a part of the mails such as gmail.com=40%"
            )
        };
        let (domain, share) = text.split_once('=').ok_or_else(wrong)?;
        let percent = share.trim().strip_suffix('%').ok_or_else(wrong)?;
        let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
        let domain = domain.trim().to_ascii_lowercase();
        let named = domain.contains('.') && !domain.contains(['@', '"', ' ', '\\']);
        if named && percent > 0.0 && percent <= 100.0 {
            Ok(Self { domain, share: percent / 100.0 })
        } else {
            Err(wrong())
        }
    }
}

/// The domain of mail number `n`. The fractional parts of the multiples of the golden ratio are
/// spread evenly over 0 to 1, so any run of mails has nearly the exact shares. Example: with
/// gmail.com=40%, mail 1 has the place 0.618 and goes elsewhere, mail 2 has 0.236 and goes to
/// gmail.com.
pub(super) fn domain_of(shares: &[DomainShare], n: u64) -> String {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let place = (real(n) * GOLDEN).fract();
    let mut sum = 0.0;
    for share in shares {
        sum += share.share;
        if place < sum {
            return share.domain.clone();
        }
    }
    format!("d{n}.example")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mails_are_spread_by_the_shares_in_every_stretch() {
        let shares = ["gmail.com=40%", "yahoo.com=15%"].map(|text| text.parse().unwrap());
        for from in [0, 12_345] {
            let of = |domain: &str| {
                (from..from + 1_000).filter(|n| domain_of(&shares, *n) == domain).count()
            };
            assert!(
                (395..=405).contains(&of("gmail.com")) && (145..=155).contains(&of("yahoo.com"))
            );
        }
        for wrong in ["gmail.com", "gmail.com=0%", "gmail.com=101%", "gmail=4%", "gmail.com=4"] {
            let error = wrong.parse::<DomainShare>().unwrap_err();
            assert!(error.contains("gmail.com=40%"), "{error}");
        }
    }
}
