//! The names and URLs of the queues.

use tidegate_delivery::ports::QueueUrl;

/// The merge queue's name. Campaign names contain no dots, so it cannot clash with one.
pub const MERGE: &str = "merge.fifo";
pub const EXPRESS: &str = "express";
pub const DEAD_LETTERS: &str = "dead.letters";
/// The name of the queue with SES's bounces and complaints.
pub const FEEDBACK: &str = "feedback.events";

/// The prefix of the limit queues' names.
pub(crate) const DOMAIN: &str = "domain.";

/// The name of the recipient domain's queue at `place`, from 0.
pub fn limit_queue(place: usize) -> String {
    format!("{DOMAIN}{}", place + 1)
}

/// The URL of the queue of this name; a campaign's queue has the campaign's name.
pub(crate) fn url(name: &str) -> QueueUrl {
    QueueUrl::new(format!("https://sqs.example/{name}"))
}
