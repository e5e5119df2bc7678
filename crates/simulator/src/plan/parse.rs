//! Parsers of the command line's values: durations, latencies, campaigns, weights and variants.

use std::str::FromStr;

use tidegate_core::daily::DailyPace;
use tidegate_fakes::Latency;

use super::scenario::{CampaignLoad, DailyQuotaSettings, PlanError, Scenario, refused};

/// Reads a latency as `devstack --latency` does: `80ms`, `50ms..5s` or `p50=80ms,p99=400ms`.
///
/// # Errors
/// [`PlanError::Value`], which says what is allowed.
///
/// ```
/// use std::time::Duration;
/// use tidegate_fakes::Latency;
/// use tidegate_simulator::plan::latency;
/// assert_eq!(latency("80ms")?, Latency::always(Duration::from_millis(80)));
/// assert!(latency("5s..50ms").is_err());
/// # Ok::<(), tidegate_simulator::plan::PlanError>(())
/// ```
pub fn latency(text: &str) -> Result<Latency, PlanError> {
    let allowed =
        "a time such as `80ms`, `50ms..5s` or `p50=80ms,p99=400ms`, in rising order, at most 1h";
    text.parse().map_err(|_| refused("latency", text, allowed))
}

/// A whole number, with `k` for thousands or `M` for millions.
fn count(text: &str) -> Option<u64> {
    let (digits, times) = match text.trim() {
        text if text.ends_with('k') => (text.trim_end_matches('k'), 1_000),
        text if text.ends_with('M') => (text.trim_end_matches('M'), 1_000_000),
        text => (text, 1),
    };
    let digits = digits.replace('_', "");
    digits.parse::<u64>().ok()?.checked_mul(times)
}

impl FromStr for CampaignLoad {
    type Err = PlanError;

    /// `NAME=MAILS` or `NAME=MAILSxRECIPIENTS`, such as `news=20k` or `teams=500x8`; the weight is 1.
    fn from_str(text: &str) -> Result<Self, PlanError> {
        let read = || {
            let (name, mails) = text.split_once('=')?;
            let (mails, recipients) = match mails.split_once('x') {
                Some((mails, recipients)) => (mails, recipients.trim().parse().ok()?),
                None => (mails, 1),
            };
            let (name, mails) = (name.trim().to_owned(), count(mails)?);
            Some(Self { name, weight: 1, mails, recipients })
        };
        let allowed =
            "NAME=MAILS or NAME=MAILSxRECIPIENTS, such as big=40000, news=20k or teams=500x8";
        read().ok_or_else(|| refused("campaign", text, allowed))
    }
}

/// A list of weights such as `big=90,small=10`, separated by commas or spaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WeightList(pub Vec<(String, u32)>);

impl FromStr for WeightList {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let allowed = "CAMPAIGN=WEIGHT, such as big=90,small=10, with weights from 0 to 10000";
        let one = |part: &str| {
            let (name, weight) = part.split_once('=')?;
            let weight: u32 = weight.trim().parse().ok()?;
            (weight <= 10_000).then(|| (name.trim().to_owned(), weight))
        };
        let parts = text.split([',', ' ']).filter(|part| !part.trim().is_empty());
        let list: Option<Vec<_>> = parts.map(one).collect();
        let list = list.filter(|list| !list.is_empty());
        list.map(Self).ok_or_else(|| refused("weights", text, allowed))
    }
}

impl WeightList {
    /// Sets the weights of `scenario`'s campaigns.
    ///
    /// # Errors
    /// [`PlanError::Unknown`] where one names no campaign; nothing is set then.
    pub fn set(&self, scenario: &mut Scenario) -> Result<(), PlanError> {
        let mut campaigns = scenario.campaigns.clone();
        for (name, weight) in &self.0 {
            let Some(load) = campaigns.iter_mut().find(|load| load.name == *name) else {
                let (field, known) = ("a weight".to_owned(), names(scenario, ", "));
                return Err(PlanError::Unknown { field, name: name.clone(), known });
            };
            load.weight = *weight;
        }
        scenario.campaigns = campaigns;
        Ok(())
    }
}

/// The daily quota's pace: `full` or `spread`.
///
/// # Errors
/// [`PlanError::Value`] on any other word.
pub fn pace(text: &str) -> Result<DailyPace, PlanError> {
    text.trim().parse().map_err(|_| refused("daily", text, "full or spread"))
}

/// A variant of a scenario: its name and the settings that it changes.
///
/// ```
/// use tidegate_core::Timestamp;
/// use tidegate_simulator::plan::{Scenario, Variant};
/// let mut base = Scenario::new(Timestamp::from_millis(0));
/// base.campaigns = vec!["big=40k".parse()?, "small=4k".parse()?];
/// let variant: Variant = "equal: weights=big=50,small=50 quota=28".parse()?;
/// let scenario = variant.of(&base)?;
/// assert_eq!((scenario.name.as_str(), scenario.quota, scenario.campaigns[1].weight), ("equal", 28.0, 50));
/// # Ok::<(), tidegate_simulator::plan::PlanError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    pub name: String,
    /// Settings and their values, as they were written.
    changes: Vec<(String, String)>,
}

const VARIANT: &str = "`NAME: SETTING=VALUE …`, with any of weights=50/50 (in the campaigns' order, or big=50,small=50), quota=28, daily-quota=50000 (or none), daily=spread, latency=200ms, sqs-latency=20ms, rate-margin=0.05, mode=direct, express=1, fault=throttle,ratio=0.01 (or none)";

impl FromStr for Variant {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let refused = || refused("variant", text, VARIANT);
        let (name, changes) = text.split_once(':').ok_or_else(refused)?;
        let change = |part: &str| {
            let (setting, value) = part.split_once('=')?;
            Some((setting.to_owned(), value.to_owned()))
        };
        let changes: Option<Vec<_>> = changes.split_whitespace().map(change).collect();
        let changes = changes.filter(|all| !all.is_empty() && !name.trim().is_empty());
        Ok(Self { name: name.trim().to_owned(), changes: changes.ok_or_else(refused)? })
    }
}

impl Variant {
    /// `base` with this variant's changes.
    ///
    /// # Errors
    /// [`PlanError`] where a setting or its value is not allowed.
    pub fn of(&self, base: &Scenario) -> Result<Scenario, PlanError> {
        let mut scenario = Scenario { name: self.name.clone(), ..base.clone() };
        let mut faults_replaced = false;
        for (setting, value) in &self.changes {
            let number = |allowed: &str| -> Result<f64, PlanError> {
                value.parse().map_err(|_| refused(setting, value, allowed))
            };
            match setting.as_str() {
                "weights" => weights(value, &mut scenario)?,
                "quota" => scenario.quota = number("a number of recipients a second")?,
                "rate-margin" => scenario.rate_margin = Some(number("a share from 0.005 to 0.5")?),
                "express" => scenario.express = Some(number("a number of mails a second")?),
                "latency" => scenario.latency = latency(value)?,
                "sqs-latency" => scenario.sqs_latency = latency(value)?,
                "daily" => match &mut scenario.daily {
                    Some(daily) => daily.pace = pace(value)?,
                    None => return Err(refused(setting, value, "only with a daily quota")),
                },
                "daily-quota" if value == "none" => scenario.daily = None,
                "daily-quota" => {
                    let allowed = "a number of recipients in 24 hours, or none";
                    let quota = count(value).ok_or_else(|| refused(setting, value, allowed))?;
                    let (sent, pace) =
                        scenario.daily.map(|daily| (daily.sent, daily.pace)).unwrap_or_default();
                    scenario.daily = Some(DailyQuotaSettings { quota, sent, pace });
                }
                "mode" => {
                    scenario.merge = match value.as_str() {
                        "merge" => true,
                        "direct" => false,
                        _ => return Err(refused(setting, value, "merge or direct")),
                    }
                }
                "fault" => {
                    if !std::mem::replace(&mut faults_replaced, true) {
                        scenario.faults.clear();
                    }
                    if value != "none" {
                        scenario.faults.push(value.parse()?);
                    }
                }
                _ => return Err(refused("variant", setting, VARIANT)),
            }
        }
        Ok(scenario)
    }
}

/// Sets weights given by name (`big=50,small=50`) or as one number for each campaign (`50/50`).
fn weights(value: &str, scenario: &mut Scenario) -> Result<(), PlanError> {
    if value.contains('=') {
        return value.parse::<WeightList>()?.set(scenario);
    }
    let numbers: Option<Vec<u32>> = value.split('/').map(|part| part.trim().parse().ok()).collect();
    let numbers = numbers.filter(|numbers| numbers.len() == scenario.campaigns.len());
    let numbers = numbers.ok_or_else(|| {
        refused("weights", value, &format!("one number for each of {}", names(scenario, "/")))
    })?;
    for (load, weight) in scenario.campaigns.iter_mut().zip(numbers) {
        load.weight = weight;
    }
    Ok(())
}

/// The campaigns' names.
fn names(scenario: &Scenario, separator: &str) -> String {
    let names: Vec<&str> = scenario.campaigns.iter().map(|load| load.name.as_str()).collect();
    names.join(separator)
}
