use tidegate_core::config::ConfigError;
use tidegate_core::rate::InvalidRate;
use tidegate_delivery::ports::{EntryError, PortError};

#[derive(Clone, Debug, thiserror::Error)]
pub enum SettingsError {
    /// The account's quota or the rate that SES enforces is out of range.
    #[error("a quota is out of range")]
    Quota(#[from] InvalidRate),
    /// The poller or the scheduler would refuse these variables at start-up.
    #[error("the functions would not start")]
    Variables(#[from] ConfigError),
}

/// A simulated queue did not accept messages.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    #[error("{queue} takes no message")]
    Batch { queue: String, source: PortError },
    /// The queue refused one message, for example because it is too large.
    #[error("{queue} refuses a message: {}", .entry.message)]
    Entry { queue: String, entry: EntryError },
}
