//! Control of a running stack: pause, resume, lift, weights, a cap on the rate. Each change is one
//! conditional write to the ledger. It takes effect with the next claim, within two seconds, and is
//! recorded in the history with its author and reason.

mod act;
mod error;
mod finish;
mod limit;
mod view;

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_core::control::{Cancel, ChangeRecord};
use tidegate_core::identity::EpochMillis;
use tidegate_core::limits::{Limit, LimitKey};
use tidegate_core::rate::Rate;
use tidegate_core::weight_rule::WeightRule;

pub use act::steer;
pub use error::SteerError;
pub use finish::check_finish;

/// The longest allowed reason, in characters.
pub const MAX_REASON_CHARS: usize = 200;
/// A change is in force after at most this many seconds, because the next window's claim reads it.
pub const IN_FORCE_WITHIN_S: u64 = 2;

#[derive(Clone, Debug, PartialEq)]
pub enum SteerAction {
    /// Stop a campaign, or all sending.
    Pause {
        /// The campaign, or `express`; `None` stops all sending.
        campaign: Option<String>,
        /// When it ends by itself; `None` if it must be resumed.
        until: Option<EpochMillis>,
    },
    Resume {
        /// The campaign, or `express`; `None` resumes all sending.
        campaign: Option<String>,
    },
    /// Lift a hold, by its reason; anyone may have set it.
    Lift {
        /// The campaign that it holds; `None` if it holds all sending.
        campaign: Option<String>,
        reason: String,
    },
    /// Take back the unsent mail of a campaign.
    Cancel {
        /// The campaign, or `express`.
        campaign: String,
        cancel: Cancel,
    },
    /// Override the weights of some campaigns; the others keep theirs.
    Weights(BTreeMap<String, u32>),
    /// Let the time change a campaign's weight.
    WeightRule { campaign: String, rule: WeightRule },
    /// Go back to the configured weights, and remove their rules.
    ResetWeights,
    /// Cap the rate in recipients per second; `None` removes the cap.
    Cap(Option<Rate>),
    /// Set or remove a limit.
    Limit {
        key: LimitKey,
        /// `None` removes it.
        limit: Option<Box<Limit>>,
    },
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

#[derive(Clone, Debug, PartialEq, Serialize)]
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

#[cfg(test)]
mod tests;
