//! The reasons for which a mail is not taken.

/// When a client should hand a mail over again that is not taken now: the level is read as often.
pub(super) const TRY_AGAIN_SECONDS: u64 = 60;

/// Why a mail is not taken. Its name is the kind of it, for logs and metrics.
#[derive(Clone, Debug, PartialEq, Eq, strum::IntoStaticStr, thiserror::Error)]
#[strum(serialize_all = "snake_case")]
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
