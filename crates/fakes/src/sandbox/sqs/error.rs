//! Errors with SQS's codes and messages: a refused call has what a refused entry of a batch has.

use std::fmt::Display;

use tidegate_delivery::ports::{EntryError, FailureKind, PortError};

/// An error by the code of the older protocol, which the newer one repeats in a header.
pub(super) fn refused(code: &str, message: impl Display) -> EntryError {
    EntryError { code: code.to_owned(), message: message.to_string() }
}

pub(super) fn no_queue() -> EntryError {
    let said = "The specified queue does not exist.";
    refused("AWS.SimpleQueueService.NonExistentQueue", said)
}

/// The error of a call that the queues refuse as a whole.
pub(super) fn of_call(error: PortError) -> EntryError {
    match error.kind {
        FailureKind::NotFound => no_queue(),
        // The queues give no words with what refuses a whole call.
        FailureKind::Refused(code) => refused(&code, format!("{} is refused.", error.operation)),
        kind => refused("InternalFailure", kind),
    }
}

/// The JSON protocol's name for a code.
pub(super) fn shape(code: &str) -> &str {
    match code {
        "AWS.SimpleQueueService.NonExistentQueue" => "QueueDoesNotExist",
        code => code.strip_prefix("AWS.SimpleQueueService.").unwrap_or(code),
    }
}
