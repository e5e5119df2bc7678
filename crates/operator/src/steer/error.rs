use thiserror::Error;
use tidegate_core::limits::InvalidLimit;
use tidegate_delivery::ports::PortError;

use crate::suggest::SuggestedCommand;

#[derive(Debug, Error)]
pub enum SteerError {
    #[error("there is no campaign {name}; there is {}", known.join(", "))]
    NoCampaign { name: String, known: Vec<String> },
    #[error("{} is not held for {reason}; {}", of(campaign.as_deref()), allowed(lifts))]
    NoHold {
        /// The campaign; `None` for all sending.
        campaign: Option<String>,
        reason: String,
        /// The commands that lift the holds that there are.
        lifts: Vec<SuggestedCommand>,
    },
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
    /// The time by which a campaign is to finish has passed.
    #[error("the campaign would finish by {0}, which has passed")]
    FinishPast(String),
    /// Even its greatest weight is too little.
    #[error(
        "{campaign} cannot finish by {by}: with weight {most} it ends at about {ends_at}; allowed is a later time or a greater weight"
    )]
    TooLate { campaign: String, by: String, most: u32, ends_at: String },
    /// The reason is empty or too long.
    #[error("the reason has {0} characters; allowed are 1 to 200")]
    Reason(usize),
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
    #[error(
        "{0} cannot be adaptive; allowed is that for domains, since it is the recipients' provider that defers"
    )]
    NotAdaptive(String),
    #[error(
        "the rest of {0} cannot go through another configuration set; allowed is that for a sender, a set and a tenant"
    )]
    NoOverflow(String),
    #[error("what is left of {0} cannot be deferred; allowed is that for a campaign")]
    NotDeferred(String),
    #[error(
        "nothing can be deferred at the limit's end: the stack has no bucket for deferred mail (TIDEGATE_DEFERRAL is not set)"
    )]
    NoBucket,
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
