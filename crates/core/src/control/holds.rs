use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::identity::EpochMillis;

/// Why sending is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldReason {
    /// An operator paused it, and resumes it.
    Paused,
    /// SES says that the daily quota is used up. Lifted by the scheduler, once enough of it is free.
    DailyQuota,
    /// What campaigns may use of the daily quota is used up: only express mail is sent, from the
    /// reserve. Lifted by the scheduler, once enough of it is free.
    DailyBudget,
    /// SES paused or suspended the account. Lifted by the scheduler, once SES lets it send again.
    Account,
    /// SES refuses our credentials or permissions. Lifted by the operator.
    Credentials,
    /// An identity, mail-from domain, template or configuration set is missing or unverified.
    /// Lifted by the operator.
    Deployment,
    /// Ten permanent refusals in a row of one code. Lifted by the operator.
    Refusals,
    /// Too many bounces or complaints of what was sent. Lifted by the operator; it then counts anew.
    Reputation,
}

impl HoldReason {
    /// Its name in the control record and in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::DailyQuota => "daily_quota",
            Self::DailyBudget => "daily_budget",
            Self::Account => "account",
            Self::Credentials => "credentials",
            Self::Deployment => "deployment",
            Self::Refusals => "refusals",
            Self::Reputation => "reputation",
        }
    }

    /// Whether express mail is sent all the same.
    pub const fn spares_express(self) -> bool {
        matches!(self, Self::DailyBudget)
    }
}

/// A hold: nothing is sent until it is lifted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// What was said: the operator's reason, or SES's code and message.
    pub detail: String,
    /// Since when.
    pub since: EpochMillis,
    /// When it lets go by itself; none where someone has to lift it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<EpochMillis>,
}

/// Characters of a hold's detail: the record is rewritten with every claim and report.
const MAX_DETAIL: usize = 256;

impl Hold {
    /// A hold since `since`; of `detail` the first 256 characters.
    pub fn new(detail: &str, since: impl Into<EpochMillis>) -> Self {
        Self { detail: detail.chars().take(MAX_DETAIL).collect(), since: since.into(), until: None }
    }

    /// This hold, letting go by itself at `until`.
    pub fn until(self, until: Option<EpochMillis>) -> Self {
        Self { until, ..self }
    }
}

/// The holds on one thing, one a reason: each is lifted by whoever may, and sending goes on when
/// the last is gone.
///
/// ```
/// use tidegate_core::control::{Hold, HoldReason, Holds};
/// use tidegate_core::identity::EpochMillis;
/// let hold = Hold::new("typo in the subject", EpochMillis::new(0));
/// let mut holds = Holds::default();
/// assert!(holds.add(HoldReason::Paused, hold));
/// assert!(holds.lift(HoldReason::Paused));
/// assert!(holds.is_empty());
/// ```
/// A hold whose reason this version does not know (a newer one set it, and was rolled back) holds all
/// the same, is kept, and is lifted by the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Holds(BTreeMap<Reason, Hold>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
enum Reason {
    Known(HoldReason),
    Unknown(String),
}

impl Reason {
    fn as_str(&self) -> &str {
        match self {
            Self::Known(known) => known.as_str(),
            Self::Unknown(name) => name,
        }
    }
}

impl Holds {
    /// Adds a hold; false where one of this reason stands already, which is kept.
    pub fn add(&mut self, reason: HoldReason, hold: Hold) -> bool {
        let reason = Reason::Known(reason);
        let new = !self.0.contains_key(&reason);
        if new {
            self.0.insert(reason, hold);
        }
        new
    }

    /// Lifts the hold of this reason; false where none stands.
    pub fn lift(&mut self, reason: HoldReason) -> bool {
        self.0.remove(&Reason::Known(reason)).is_some()
    }

    /// Removes the holds that let go by themselves at `now` or before.
    pub fn expire(&mut self, now: EpochMillis) {
        self.0.retain(|_, hold| hold.until.is_none_or(|until| until > now));
    }

    /// The hold of this reason.
    pub fn get(&self, reason: HoldReason) -> Option<&Hold> {
        self.0.get(&Reason::Known(reason))
    }

    /// How many reasons there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether express mail is held too.
    pub fn stop_express(&self) -> bool {
        let spared =
            |reason: &Reason| matches!(reason, Reason::Known(known) if known.spares_express());
        self.0.keys().any(|reason| !spared(reason))
    }

    /// The holds whose reasons this version knows.
    pub fn known(&self) -> impl Iterator<Item = (HoldReason, &Hold)> {
        self.0.iter().filter_map(|(reason, hold)| match reason {
            Reason::Known(known) => Some((*known, hold)),
            Reason::Unknown(_) => None,
        })
    }

    /// All holds, by the names of their reasons.
    pub fn named(&self) -> impl Iterator<Item = (&str, &Hold)> {
        self.reasons().zip(self.0.values())
    }

    /// Lifts the hold whose reason has this name, known or not; false where none stands.
    pub fn lift_named(&mut self, name: &str) -> bool {
        let found = self.0.keys().find(|reason| reason.as_str() == name).cloned();
        found.is_some_and(|reason| self.0.remove(&reason).is_some())
    }

    /// The names of all reasons there are.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(Reason::as_str)
    }
}
