//! Parsers of the command line's values: latencies, numbers, campaigns and weights.

use std::str::FromStr;

use tidegate_fakes::Latency;

use super::scenario::{CampaignLoad, PlanError, Scenario, refused};

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
    text.parse().map_err(|_| refused("latency", text, Latency::ALLOWED))
}

/// A whole number, with `k` for thousands or `M` for millions.
///
/// # Errors
/// [`PlanError::Value`] on any other text.
pub fn count(text: &str) -> Result<u64, PlanError> {
    let (digits, times) = match text.trim() {
        text if text.ends_with('k') => (text.trim_end_matches('k'), 1_000),
        text if text.ends_with('M') => (text.trim_end_matches('M'), 1_000_000),
        text => (text, 1),
    };
    let number = digits.replace('_', "").parse::<u64>().ok();
    let number = number.and_then(|number| number.checked_mul(times));
    number.ok_or_else(|| refused("number", text, "a whole number such as 50000, 50k or 2M"))
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
            let (name, mails) = (name.trim().to_owned(), count(mails).ok()?);
            Some(Self { name, weight: 1, mails, recipients })
        };
        let allowed =
            "NAME=MAILS or NAME=MAILSxRECIPIENTS, such as big=40000, news=20k or teams=500x8";
        read().ok_or_else(|| refused("campaign", text, allowed))
    }
}

/// Weights by name such as `big=90,small=10`, separated by commas or spaces, or one for each campaign: `90/10`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WeightList {
    Named(Vec<(String, u32)>),
    /// In the order of the campaigns.
    Each(Vec<u32>),
}

impl FromStr for WeightList {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let allowed = "CAMPAIGN=WEIGHT, such as big=90,small=10, or one for each campaign, such as 90/10, with weights from 0 to 10000";
        let weight = |text: &str| text.trim().parse().ok().filter(|weight| *weight <= 10_000);
        let named = |part: &str| {
            let (name, given) = part.split_once('=')?;
            Some((name.trim().to_owned(), weight(given)?))
        };
        let list = if text.contains('=') {
            let parts = text.split([',', ' ']).filter(|part| !part.trim().is_empty());
            parts.map(named).collect::<Option<_>>().map(Self::Named)
        } else {
            text.split('/').map(weight).collect::<Option<_>>().map(Self::Each)
        };
        list.ok_or_else(|| refused("weights", text, allowed))
    }
}

impl WeightList {
    /// Sets the weights of `scenario`'s campaigns.
    ///
    /// # Errors
    /// [`PlanError::Unknown`] where one names no campaign, [`PlanError::Value`] where there are more or fewer than
    /// campaigns; nothing is set then.
    pub fn set(&self, scenario: &mut Scenario) -> Result<(), PlanError> {
        let mut campaigns = scenario.campaigns.clone();
        match self {
            Self::Named(weights) => {
                for (name, weight) in weights {
                    let Some(load) = campaigns.iter_mut().find(|load| load.name == *name) else {
                        let (field, known) = ("a weight".to_owned(), names(scenario, ", "));
                        return Err(PlanError::Unknown { field, name: name.clone(), known });
                    };
                    load.weight = *weight;
                }
            }
            Self::Each(weights) if weights.len() == campaigns.len() => {
                let pairs = campaigns.iter_mut().zip(weights);
                pairs.for_each(|(load, weight)| load.weight = *weight);
            }
            Self::Each(weights) => {
                let given = weights.iter().map(u32::to_string).collect::<Vec<_>>().join("/");
                let allowed = format!("one number for each of {}", names(scenario, "/"));
                return Err(refused("weights", &given, &allowed));
            }
        }
        scenario.campaigns = campaigns;
        Ok(())
    }
}

/// The campaigns' names.
fn names(scenario: &Scenario, separator: &str) -> String {
    let names: Vec<&str> = scenario.campaigns.iter().map(|load| load.name.as_str()).collect();
    names.join(separator)
}
