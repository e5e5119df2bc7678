use tidegate_delivery::ports::PortError;

use crate::error::{PutError, SettingsError};

/// Why there is no forecast.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A value is not allowed.
    #[error("{field} is `{value}`; allowed is {allowed}")]
    Value {
        /// Which.
        field: String,
        /// What was given.
        value: String,
        /// What may be given.
        allowed: String,
    },
    /// A weight, or a change of a variant, names no campaign.
    #[error("{field} names the campaign `{name}`; there is {known}")]
    Unknown {
        /// What names it.
        field: String,
        /// The name.
        name: String,
        /// The campaigns, in words.
        known: String,
    },
    /// No campaign has mail.
    #[error("no campaign has mail: there is nothing to forecast")]
    NoMails,
    /// Every campaign with mail has the weight 0.
    #[error("every campaign with mail has the weight 0: none would be sent")]
    NoWeight,
    /// The settings make no world.
    #[error("the settings cannot be simulated")]
    World(#[from] SettingsError),
    /// A simulated queue refuses a mail.
    #[error("a mail cannot be simulated")]
    Put(#[from] PutError),
    /// A simulated service failed.
    #[error("the simulation failed")]
    Port(#[from] PortError),
    /// No thread or timer to simulate with.
    #[error("the simulation cannot be started")]
    Start(#[from] std::io::Error),
    /// It was asked to stop.
    #[error("the forecast was stopped")]
    Stopped,
    /// A thread of the simulation ended without a result.
    #[error(
        "the simulation of seed {0} ended without a result: please report this with the options"
    )]
    Lost(u64),
}
