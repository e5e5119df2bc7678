//! Errors with SQS's codes and messages.

use std::fmt::Display;

use tidegate_delivery::ports::{EntryError, FailureKind, PortError};

/// The error of a refused call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SqsError {
    /// The code of the older protocol, which the newer one repeats in a header.
    pub(crate) code: String,
    pub(crate) message: String,
}

impl SqsError {
    pub(crate) fn new(code: &str, message: impl Display) -> Self {
        Self { code: code.to_owned(), message: message.to_string() }
    }

    pub(crate) fn no_queue() -> Self {
        let said = "The specified queue does not exist.";
        Self::new("AWS.SimpleQueueService.NonExistentQueue", said)
    }

    pub(crate) fn invalid(name: &str, value: impl Display, reason: &str) -> Self {
        let said = format!("Value {value} for parameter {name} is invalid. Reason: {reason}.");
        Self::new("InvalidParameterValue", said)
    }

    /// The code of the JSON protocol.
    pub(crate) fn shape(&self) -> &str {
        match self.code.as_str() {
            "AWS.SimpleQueueService.NonExistentQueue" => "QueueDoesNotExist",
            code => code.strip_prefix("AWS.SimpleQueueService.").unwrap_or(code),
        }
    }
}

impl From<EntryError> for SqsError {
    fn from(EntryError { code, message }: EntryError) -> Self {
        Self { code, message }
    }
}

impl From<PortError> for SqsError {
    fn from(error: PortError) -> Self {
        match error.kind {
            FailureKind::NotFound => Self::no_queue(),
            // The queues give no words with what refuses a whole call.
            FailureKind::Refused(code) => {
                Self::new(&code, format!("{} is refused.", error.operation))
            }
            kind => Self::new("InternalFailure", kind),
        }
    }
}
