//! Refusals, in SQS's words.

use std::fmt::Display;

use tidegate_delivery::ports::{EntryError, FailureKind, PortError};

/// A call that is refused.
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
            FailureKind::Refused(code) => {
                let message = explanation(&code);
                Self { code, message }
            }
            kind => Self::new("InternalFailure", kind),
        }
    }
}

/// What a code of the queues' says: they give none with what refuses a whole call.
fn explanation(code: &str) -> String {
    let said = match code.rsplit('.').next().unwrap_or(code) {
        "EmptyBatchRequest" => "There should be at least one entry in the request.",
        "TooManyEntriesInBatchRequest" => "Maximum number of entries per request are 10.",
        "BatchRequestTooLong" => "Batch requests cannot be longer than 1048576 bytes.",
        "OverLimit" => "Too many messages in flight.",
        "InvalidParameterValue" => {
            "MaxNumberOfMessages must be between 1 and 10, WaitTimeSeconds between 0 and 20."
        }
        _ => code,
    };
    said.to_owned()
}
