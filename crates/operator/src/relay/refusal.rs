//! The reasons for which a mail is not taken.

/// Why a mail is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The client has to change something.
    #[error("{0}")]
    Invalid(String),
    /// The sender, or this client, may not.
    #[error("{0}")]
    NotAllowed(String),
    /// The message is larger than SQS takes.
    #[error("the mail has {bytes} bytes; allowed are {most}")]
    TooLarge { bytes: usize, most: usize },
    /// It would be taken later.
    #[error("{0}")]
    Busy(String),
}

impl Refusal {
    /// The kind of it, for logs and metrics.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid",
            Self::NotAllowed(_) => "not_allowed",
            Self::TooLarge { .. } => "too_large",
            Self::Busy(_) => "busy",
        }
    }
}
