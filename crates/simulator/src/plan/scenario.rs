use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::channel::{Channel, Words};
use tidegate_core::config::is_campaign_name;
use tidegate_core::control::Control;
use tidegate_core::daily::DailyPace;
use tidegate_core::limits::{Dimension, InitialLimits, LimitChanges, LimitTable};
use tidegate_core::memory::Memory;
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_fakes::{Counting, Latency};

use super::domains::DomainShare;
use super::error::PlanError;
use super::fault::PlannedFault;
use crate::settings::{Deployment, WorldSettings};

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DailyQuotaSettings {
    pub quota: u64,
    /// Recipients sent in the 24 hours before the start. SES does not report when, so all of them
    /// are taken to leave the count 24 hours after the start.
    pub sent: u64,
    /// Whether it is used at the full rate until it is exhausted, or spread over the day.
    pub pace: DailyPace,
}

#[derive(Clone, Debug, PartialEq)]
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
            channel: Channel::Email,
            campaigns: Vec::new(),
            price_per_part: None,
            ses_price: None,
            quota: 14.0,
            daily: None,
            latency: Latency::always(ms(80)),
            sqs_latency: Latency::between(ms(5), ms(15)),
            rate_margin: None,
            merge: true,
            express: None,
            domains: Vec::new(),
            limits: None,
            faults: Vec::new(),
            mail_kb: 2,
            start,
            deployed: None,
            warm: true,
            control: Control::default(),
            assumptions: Vec::new(),
        }
    }

    /// The mails of all campaigns; saturates instead of overflowing.
    pub fn mails(&self) -> u64 {
        self.campaigns.iter().fold(0, |sum, load| sum.saturating_add(load.mails))
    }

    pub fn recipients(&self) -> u64 {
        let of = |load: &CampaignLoad| load.mails.saturating_mul(u64::from(load.recipients));
        self.campaigns.iter().fold(0, |sum, load| sum.saturating_add(of(load)))
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
    if right {
        return Ok(());
    }
    let (field, value, allowed) = (field.to_owned(), value.to_string(), allowed.to_owned());
    Err(PlanError::Value { field, value, allowed })
}
