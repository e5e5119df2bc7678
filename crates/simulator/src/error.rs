use tidegate_core::config::ConfigError;
use tidegate_core::rate::InvalidRate;
use tidegate_delivery::ports::{EntryError, PortError};

/// Settings that make no world.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SettingsError {
    /// The quota, or what SES really lets through, is no rate.
    #[error("a quota is out of range")]
    Quota(#[from] InvalidRate),
    /// The functions would not start with these variables.
    #[error("the functions would not start")]
    Variables(#[from] ConfigError),
}

/// Messages that a queue did not take.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// None of a batch.
    #[error("{queue} takes no message")]
    Batch {
        /// The queue's name.
        queue: String,
        /// What it said.
        source: PortError,
    },
    /// This one: it is too large, say.
    #[error("{queue} refuses a message: {}", .entry.message)]
    Entry {
        /// The queue's name.
        queue: String,
        /// What it said.
        entry: EntryError,
    },
}
