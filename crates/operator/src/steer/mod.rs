//! Control of a running stack: pause, resume, lift, weights, a cap on the rate, limits, cancels. Each change is one
//! conditional write to the ledger. It takes effect with the next claim, within two seconds, and is
//! recorded in the history with its author and reason.

mod act;
pub(crate) mod command;
mod limit;

use std::collections::BTreeMap;

use serde::Serialize;
use strum::IntoStaticStr;
use thiserror::Error;
use tidegate_core::control::{Cancel, ChangeRecord};
use tidegate_core::identity::EpochMillis;
use tidegate_core::limits::{InvalidLimit, Limit, LimitKey};
use tidegate_core::rate::Rate;
use tidegate_delivery::ports::PortError;

use crate::page::{Page, Span, Tone, View};
use crate::suggest::SuggestedCommand;

pub use act::steer;

/// The longest allowed reason, in characters.
const MAX_REASON_CHARS: usize = 200;
/// A change is in force after at most this many seconds, because the next window's claim reads it.
pub const IN_FORCE_WITHIN_S: u64 = 2;

/// A change; its name in the history is that of its command. A campaign may be `express`; where it is `None`, all
/// sending is meant.
#[derive(Clone, Debug, PartialEq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum SteerAction {
    /// Stop a campaign, or all sending; without `until` it must be resumed.
    Pause { campaign: Option<String>, until: Option<EpochMillis> },
    /// End a pause.
    Resume { campaign: Option<String> },
    /// Lift a hold, by its reason; anyone may have set it.
    Lift { campaign: Option<String>, reason: String },
    /// Take back the unsent mail of a campaign.
    Cancel { campaign: String, cancel: Cancel },
    /// Override the weights of some campaigns; the others keep theirs.
    #[strum(serialize = "weights")]
    Weights(BTreeMap<String, u32>),
    /// Go back to the configured weights.
    #[strum(serialize = "weights")]
    ResetWeights,
    /// Cap the rate in recipients per second; `None` removes the cap.
    #[strum(serialize = "rate")]
    Cap(Option<Rate>),
    /// Set a limit, or remove it (`None`).
    Limit { key: LimitKey, limit: Option<Box<Limit>> },
}

impl SteerAction {
    /// True if a poller may have something to do after it, so that a stack that sleeps must be woken.
    pub const fn is_for_pollers(&self) -> bool {
        !matches!(self, Self::Pause { .. })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    pub by: String,
    pub reason: String,
}

/// A reason that is empty or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the reason has {0} characters; allowed are 1 to {MAX_REASON_CHARS}")]
pub struct InvalidReason(usize);

impl Author {
    /// Checked before anything is done: the history is to say why.
    ///
    /// # Errors
    /// [`InvalidReason`].
    pub fn check(&self) -> Result<(), InvalidReason> {
        let length = self.reason.trim().chars().count();
        let is_valid = (1..=MAX_REASON_CHARS).contains(&length);
        if is_valid { Ok(()) } else { Err(InvalidReason(length)) }
    }

    /// The history's entry of what the author has done, to no campaign alone.
    pub fn record(&self, at: EpochMillis, action: &str, detail: String) -> ChangeRecord {
        let (by, reason) = (self.by.clone(), self.reason.trim().to_owned());
        ChangeRecord { at, by, action: action.to_owned(), campaign: None, detail, reason }
    }
}

#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub struct SteerReport {
    /// Whether anything had to be changed.
    pub changed: bool,
    /// The change, as the history keeps it.
    #[serde(flatten)]
    pub record: ChangeRecord,
    /// The reasons of holds that remain after a resume or lift.
    pub still_held: Vec<String>,
    /// The change is in force after at most this many seconds.
    pub in_force_within_s: u64,
    pub recorded: bool,
}

impl View for SteerReport {
    fn view(&self, page: &mut Page) {
        let of = self.record.campaign.as_deref().unwrap_or("all");
        let what = format!("{} {of}: {}", self.record.action, self.record.detail);
        if self.changed {
            page.spans([
                Span::new(Tone::Good, "done "),
                Span::from(what),
                Span::new(Tone::Faint, format!(", in force within {} s", self.in_force_within_s)),
            ]);
            page.line(Tone::Faint, format!("by {}: {}", self.record.by, self.record.reason));
        } else {
            page.line(Tone::Plain, format!("{what} (nothing to change)"));
        }
        if self.changed && !self.recorded {
            let lost = "the history does not have it: the ledger did not answer";
            page.line(Tone::Warning, format!("the change stands, but {lost}"));
        }
        if !self.still_held.is_empty() {
            let held = self.still_held.join(", ");
            page.line(Tone::Warning, format!("still held for {held}: see `tidegate status`"));
        }
    }
}

#[derive(Debug, Error)]
pub enum SteerError {
    #[error("there is no campaign {name}; there is {}", known.join(", "))]
    NoCampaign { name: String, known: Vec<String> },
    /// `lifts` are the commands that lift the holds that there are.
    #[error("{} is not held for {reason}; {}", of(campaign.as_deref()), allowed(lifts))]
    NoHold { campaign: Option<String>, reason: String, lifts: Vec<SuggestedCommand> },
    #[error(
        "these weights cannot be kept: {0}; allowed are 0 to 10000, not all 0, adding up to at most 10000 after division by their greatest common divisor"
    )]
    Weights(String),
    /// It is already paused without an end. A new pause with an end would end a pause that someone
    /// else left open.
    #[error(
        "it is paused without an end already, {detail}; to pause it for a time, first `{resume}`"
    )]
    PausedWithoutEnd { detail: String, resume: SuggestedCommand },
    /// The end of the pause has passed.
    #[error("the pause would end at {0}, which has passed")]
    Past(String),
    #[error(transparent)]
    Reason(#[from] InvalidReason),
    #[error("{key} has no limit; {}", if known.is_empty() { "there is no limit at all".to_owned() } else { format!("there is {}", known.join(", ")) })]
    NoLimit { key: String, known: Vec<String> },
    #[error(
        "{key} overlaps {other}, and no mail may fall under both; change that one, or remove it first"
    )]
    Overlap { key: String, other: String },
    #[error("there would be {0} limits; allowed are at most 50")]
    TooManyLimits(usize),
    #[error("{key} limits no {message}; allowed are {allowed}")]
    OtherChannel { key: String, message: &'static str, allowed: String },
    /// A limit of this kind of mail cannot have it.
    #[error("{what}; allowed is that for {of}")]
    OtherKind { what: String, of: &'static str },
    #[error(
        "nothing can be deferred at the limit's end: the stack has no store (TIDEGATE_STORE is not set)"
    )]
    NoBucket,
    #[error(
        "{0} needs the shared bucket, where all pollers count a recipient's mails: TIDEGATE_SHARED_BUCKET is not set"
    )]
    NoSharedBucket(String),
    #[error(transparent)]
    Limit(#[from] InvalidLimit),
    /// Concurrent changes by others prevented this one repeatedly.
    #[error("not changed: others changed the ledger at the same time, again and again; try again")]
    Conflict,
    #[error(transparent)]
    Ledger(#[from] PortError),
}

impl SteerError {
    /// Whether the input is invalid: nothing was changed, and a retry cannot succeed.
    pub const fn is_input(&self) -> bool {
        !matches!(self, Self::Conflict | Self::Ledger(_))
    }
}

fn of(campaign: Option<&str>) -> String {
    campaign.map_or_else(|| "all sending".to_owned(), |name| format!("the campaign {name}"))
}

fn allowed(lifts: &[SuggestedCommand]) -> String {
    if lifts.is_empty() {
        return "there is no hold at all".to_owned();
    }
    let lifts: Vec<String> = lifts.iter().map(|lift| format!("`{lift}`")).collect();
    format!("allowed is {}", lifts.join(", "))
}

#[cfg(test)]
mod tests;
