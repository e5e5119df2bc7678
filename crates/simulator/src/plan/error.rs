use tidegate_delivery::ports::PortError;

use crate::error::{PutError, SettingsError};

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("{field} is `{value}`; allowed is {allowed}")]
    Value { field: String, value: String, allowed: String },
    /// A weight or a variant names a campaign that does not exist.
    #[error("{field} names the campaign `{name}`; there is {known}")]
    Unknown { field: String, name: String, known: String },
    #[error("no campaign has mail: there is nothing to forecast")]
    NoMails,
    /// Every campaign with mail has the weight 0.
    #[error("every campaign with mail has the weight 0: none would be sent")]
    NoWeight,
    #[error("the settings cannot be simulated")]
    World(#[from] SettingsError),
    /// A simulated queue refuses a mail.
    #[error("a mail cannot be simulated")]
    Put(#[from] PutError),
    #[error("the simulation failed")]
    Port(#[from] PortError),
    /// The thread or the timer for the simulation cannot be started.
    #[error("the simulation cannot be started")]
    Start(#[from] std::io::Error),
    #[error("the forecast was stopped")]
    Stopped,
    /// A thread of the simulation ended without a result.
    #[error(
        "the simulation of seed {0} ended without a result: please report this with the options"
    )]
    Lost(u64),
}
