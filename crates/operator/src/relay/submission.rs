/// A mail that a client hands over in one call or dialogue.
#[derive(Clone, Debug)]
pub(crate) struct Submission {
    /// The SMTP user or the access key that handed it over; none without credentials.
    pub(crate) user: Option<String>,
    /// The envelope's sender.
    pub(crate) from: String,
    /// The envelope's recipients, 1 or more.
    pub(crate) to: Vec<String>,
    /// The MIME message as received, dots unstuffed.
    pub(crate) data: Vec<u8>,
}

/// Why a submission was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// The client must change something (550/554 5.x).
    #[error("{0}")]
    Invalid(String),
    /// The user may not send this (550 5.7.1).
    #[error("{0}")]
    NotAllowed(String),
    /// The mail is too large (552 5.3.4).
    #[error("the mail has {bytes} bytes; allowed are {most}")]
    TooLarge { bytes: usize, most: usize },
    /// The client is to try again (451 4.3.x).
    #[error("{0}")]
    Busy(String),
}

pub(crate) trait Submit {
    /// Puts the mail onto its queue; answers with its identity once SQS has acknowledged it.
    fn submit(
        &self,
        submission: Submission,
    ) -> impl Future<Output = Result<String, Refusal>> + Send;
}
