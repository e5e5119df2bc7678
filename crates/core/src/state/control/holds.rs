use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use crate::identity::{EpochMillis, LONGEST_LIFE};
use crate::stored::is_default;

/// Reason for a hold. It determines who may lift it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum HoldReason {
    /// An operator paused sending and resumes it.
    Paused,
    /// SES says that the daily quota is used up. The scheduler lifts the hold once enough of it is
    /// free.
    DailyQuota,
    /// Campaigns have used their part of the daily quota. Express mail is still sent, from the reserve.
    /// The scheduler lifts the hold once enough is free.
    DailyBudget,
    /// SES paused or suspended the account. The scheduler lifts the hold once `GetAccount` allows
    /// sending.
    Account,
    /// The month's money for text messages is spent. The scheduler lifts the hold once the limit is another one or a
    /// new month has begun.
    SpendLimit,
    /// SES refuses the campaign's tenant: it is paused or unknown, or lacks an association. The scheduler lifts the
    /// hold once SES says otherwise.
    Tenant,
    /// Ten refusals in a row with one code, or 25 messages in a row that are no valid mail. One mail at a time probes,
    /// and the first that SES accepts lifts the hold.
    Refusals,
    /// Too many bounces or complaints. An operator lifts the hold; counting then starts anew.
    Reputation,
    /// An operator cancelled the campaign's mail. A poller lifts the hold once it finds none of that mail on the
    /// campaign's queue.
    Cancelled,
}

impl HoldReason {
    /// The reason's name in the control record and in logs.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The reasons for which the scheduler lifts a hold on all sending.
    pub const LIFTED_BY_SCHEDULER: [Self; 4] =
        [Self::DailyQuota, Self::DailyBudget, Self::Account, Self::SpendLimit];
}

/// A hold: nothing is sent until it is lifted or ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The operator's reason, or SES's code and message; at most 640 characters.
    pub detail: String,
    /// Time since which sending is held.
    pub since: EpochMillis,
    /// Time at which the hold ends by itself; none if it must be lifted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<EpochMillis>,
    /// The end of the last probe that SES did not accept, of a hold that a mail may lift.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probed: Option<EpochMillis>,
    /// SES's tenant that is the reason; none for any other reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// Characters of a hold's detail. The limit is small because every window reads and rewrites the
/// record.
pub(crate) const MAX_DETAIL: usize = 640;

impl Hold {
    /// A hold from `since` on, with the first 640 characters of `detail`.
    pub fn new(detail: &str, since: impl Into<EpochMillis>) -> Self {
        let detail = detail.chars().take(MAX_DETAIL).collect();
        Self { detail, since: since.into(), until: None, probed: None, tenant: None }
    }

    /// The same hold, ending by itself at `until`.
    pub fn until(self, until: Option<EpochMillis>) -> Self {
        Self { until, ..self }
    }
}

/// The holds on one campaign or on all sending, at most one per reason. Each has its own way to be
/// lifted; sending continues once no hold is left.
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
///
/// A newer version may have written a reason that this version does not know. Such a hold is kept,
/// stops sending, and is lifted by an operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Holds(BTreeMap<String, Hold>);

impl Holds {
    /// Adds a hold. If there is already one for this reason, keeps that one and returns false.
    pub fn add(&mut self, reason: HoldReason, hold: Hold) -> bool {
        let new = self.get(reason).is_none();
        self.0.entry(reason.as_str().to_owned()).or_insert(hold);
        new
    }

    /// Lifts the hold for this reason; false if there is none.
    pub fn lift(&mut self, reason: HoldReason) -> bool {
        self.lift_named(reason.as_str())
    }

    /// Removes the holds that end at `now` or earlier.
    pub fn expire(&mut self, now: EpochMillis) {
        self.0.retain(|_, hold| hold.until.is_none_or(|until| until > now));
    }

    /// Notes that SES did not accept a probe that ended at `now`.
    pub fn note_probe(&mut self, reason: HoldReason, now: EpochMillis) {
        if let Some(hold) = self.0.get_mut(reason.as_str()) {
            hold.probed = Some(now);
        }
    }

    /// The hold for this reason; none if it is not held for it.
    pub fn get(&self, reason: HoldReason) -> Option<&Hold> {
        self.0.get(reason.as_str())
    }

    /// Number of holds, which is the number of reasons.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is no hold.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if express mail is held too: there is a hold for a reason other than
    /// [`HoldReason::DailyBudget`].
    pub fn stop_express(&self) -> bool {
        self.0.keys().any(|reason| reason != HoldReason::DailyBudget.as_str())
    }

    /// The holds with reasons that this version knows.
    pub fn known(&self) -> impl Iterator<Item = (HoldReason, &Hold)> {
        self.0.iter().filter_map(|(reason, hold)| Some((reason.parse().ok()?, hold)))
    }

    /// All holds, each with its reason's name: in the order of [`HoldReason`], and then unknown ones.
    pub fn named(&self) -> impl Iterator<Item = (&str, &Hold)> {
        let mut all: Vec<_> = self.0.iter().map(|(name, hold)| (name.as_str(), hold)).collect();
        all.sort_by_key(|(name, _)| name.parse::<HoldReason>().map_err(|_| ()));
        all.into_iter()
    }

    /// Lifts the hold whose reason has this name, known or not; false if there is none.
    pub fn lift_named(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    /// The names of all reasons for which it is held, in the same order.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        self.named().map(|(name, _)| name)
    }
}

/// An operator's decision to take back the mail of a campaign: mail that was enqueued at `at` or before is not
/// sent.
///
/// ```
/// use tidegate_core::control::Cancel;
/// use tidegate_core::identity::EpochMillis;
/// let cancel = Cancel { at: EpochMillis::new(7_000), keep: false };
/// assert!(cancel.concerns(EpochMillis::new(7_000)));
/// assert!(!cancel.concerns(EpochMillis::new(7_001)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    /// Time of the cancel.
    pub at: EpochMillis,
    /// Whether cancelled mail goes to the dead-letter queue, with the code [`CANCELLED`]; else it is deleted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keep: bool,
}

/// The dead letters' code of cancelled mail.
pub const CANCELLED: &str = "Cancelled";

impl Cancel {
    /// Whether mail that came to its campaign's queue at `enqueued_at` is cancelled.
    pub fn concerns(&self, enqueued_at: EpochMillis) -> bool {
        enqueued_at <= self.at
    }

    /// Whether it has been kept for 379 days at `now`: no older mail can be left.
    pub(super) fn is_over(&self, now: EpochMillis) -> bool {
        now.saturating_since(self.at) > LONGEST_LIFE
    }
}
