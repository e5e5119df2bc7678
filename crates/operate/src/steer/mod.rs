//! Steering while it runs: pause, resume, lift, weights, a cap on the rate. Each change is made in
//! the ledger by one conditional write, is in force with the next claim (within two seconds), and is
//! kept in the history with who made it and why.

mod act;
mod error;
mod view;

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_core::control::ChangeRecord;
use tidegate_core::identity::EpochMillis;
use tidegate_core::rate::Rate;

pub use act::steer;
pub use error::SteerError;

/// The longest reason that is kept, in characters.
pub const MAX_REASON_CHARS: usize = 200;
/// Changes that an operator makes are in force after so many seconds at most: the next window's
/// claim reads them.
pub const IN_FORCE_WITHIN_S: u64 = 2;

#[derive(Clone, Debug, PartialEq)]
pub enum SteerAction {
    /// Stop a campaign, or all sending.
    Pause {
        /// The campaign, or `express`; none stops all.
        campaign: Option<String>,
        /// When it goes on by itself; none where someone resumes it.
        until: Option<EpochMillis>,
    },
    Resume {
        /// The campaign, or `express`; none resumes all sending.
        campaign: Option<String>,
    },
    /// Lift a hold, whoever set it.
    Lift {
        /// The campaign that it holds; none where it holds all.
        campaign: Option<String>,
        reason: String,
    },
    /// Override weights; those of other campaigns stay as they are.
    Weights(BTreeMap<String, u32>),
    /// Go back to the configured weights.
    ResetWeights,
    /// Cap the rate, recipients a second; none takes the cap away.
    Cap(Option<Rate>),
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
    /// What still holds what was resumed or lifted, by reason.
    pub still_held: Vec<String>,
    /// In how many seconds it is in force at most.
    pub in_force_within_s: u64,
    pub recorded: bool,
}

#[cfg(test)]
mod tests;
