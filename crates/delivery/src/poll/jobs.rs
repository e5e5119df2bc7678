//! The job that settles a message for each outcome, and the one log event of that outcome.

use std::time::Duration;

use tidegate_core::control::CANCELLED;
use tidegate_core::dead_letter::LastError;
use tidegate_core::deduplication::{Mark, MarkState};
use tidegate_core::identity::EpochMillis;
use tidegate_core::outcome::{Failure, Outcome};
use tidegate_core::retry;

use super::settle::{Job, Receipt};
use super::sources::message::{
    Held, Message, Rejected, cancelled_letter, dead_letter, rejected_letter, unknown_letter,
};
use crate::ports::{Outgoing, QueueUrl};

/// The code of a failure without one, such as a lost connection.
const NO_CODE: &str = "ConnectionFailed";
/// The dead letters' code of mail that was possibly sent.
const UNKNOWN: &str = "unknown";

pub(super) fn receipt(held: &Held, buffered: bool) -> Receipt {
    Receipt { queue: held.queue.clone(), handle: held.receipt.clone(), buffered }
}

/// SES accepted it: delete it. Only at the level `debug` is a line logged for each such mail, because a
/// million of them cost $0.20.
pub(super) fn accepted(message: &Message, ses_message_id: &str, latency: Duration) -> Job {
    tracing::debug!(
        campaign = message.envelope.campaign,
        identity = %message.envelope.identity,
        recipients = message.content.slots(),
        attempt = message.envelope.next_attempt(),
        latency_ms = u64::try_from(latency.as_millis()).unwrap_or(u64::MAX),
        ses_message_id,
        "sent"
    );
    Job::Delete(receipt(&message.held, true))
}

/// The message is not a valid mail: dead-letter it, with the field and the fault.
pub(super) fn reject(rejected: &Rejected, dead_letters: &QueueUrl, buffered: bool) -> Job {
    tracing::warn!(
        campaign = rejected.envelope.campaign,
        identity = %rejected.envelope.identity,
        message_id = rejected.held.message_id,
        reason = rejected.redacted,
        "dead-lettered: not a mail"
    );
    move_to(dead_letters, rejected_letter(rejected), &rejected.held, buffered)
}

/// SES refused it for good, or its attempts are used up: dead-letter it.
pub(super) fn give_up(
    message: &Message,
    failure: &Failure,
    outcome: Outcome,
    dead_letters: &QueueUrl,
    at: EpochMillis,
) -> Job {
    let code = failure.code.clone().unwrap_or_else(|| NO_CODE.to_owned());
    log(message, failure, outcome, "dead-lettered");
    let reason = LastError {
        code: Some(code),
        http_status: failure.http_status,
        provider_message: failure.message.clone(),
    };
    move_to(dead_letters, dead_letter(message, reason, at), &message.held, true)
}

/// An operator cancelled it: delete it, or move it to the dead letters that `keep` it.
pub(super) fn cancelled(message: &Message, keep: Option<&QueueUrl>, buffered: bool) -> Job {
    tracing::info!(
        campaign = message.envelope.campaign,
        identity = %message.envelope.identity,
        kept = keep.is_some(),
        "cancelled"
    );
    let Some(dead_letters) = keep else {
        return Job::Delete(receipt(&message.held, buffered));
    };
    let reason = LastError {
        code: Some(CANCELLED.to_owned()),
        http_status: None,
        provider_message: "an operator cancelled its campaign's mail".to_owned(),
    };
    move_to(dead_letters, cancelled_letter(message, reason), &message.held, buffered)
}

/// A recipient is excluded: delete it.
pub(super) fn excluded(message: &Message, buffered: bool) -> Job {
    tracing::info!(
        campaign = message.envelope.campaign,
        identity = %message.envelope.identity,
        "deleted: its recipient is excluded"
    );
    Job::Delete(receipt(&message.held, buffered))
}

/// Deduplication knows that it was sent: delete this copy.
pub(super) fn already_sent(message: &Message) -> Job {
    tracing::info!(
        campaign = message.envelope.campaign,
        identity = %message.envelope.identity,
        "deleted: it was sent already"
    );
    Job::Delete(receipt(&message.held, true))
}

/// Deduplication knows that it was possibly sent: dead-letter it, for a person to decide.
pub(super) fn unknown(message: &Message, mark: &Mark, dead_letters: &QueueUrl) -> Job {
    tracing::error!(
        campaign = message.envelope.campaign,
        identity = %message.envelope.identity,
        since = %mark.since,
        "dead-lettered: nobody knows whether it was sent"
    );
    let again = if mark.state == MarkState::Parked { ", and dead-lettered before" } else { "" };
    let reason = LastError {
        code: Some(UNKNOWN.to_owned()),
        http_status: None,
        provider_message: format!(
            "a poller set out to send it at {}, and its outcome is not known{again}",
            mark.since
        ),
    };
    // The last attempt's time, as far as it is known: the later of the first attempt and the mark's begin.
    let at = message.envelope.first_attempt_at.map_or(mark.since, |first| first.max(mark.since));
    move_to(dead_letters, unknown_letter(message, reason, at), &message.held, true)
}

/// It failed for a passing reason: back to its campaign, delayed (60 s doubling to 900 s). `jitter` is 0.0
/// to 1.0. If not `counted`, this was no attempt.
pub(super) fn retry(
    message: &Message,
    failure: &Failure,
    outcome: Outcome,
    campaign: &QueueUrl,
    at: EpochMillis,
    jitter: f64,
    counted: bool,
) -> Job {
    log(message, failure, outcome, "to be retried");
    let code = failure.code.as_deref().unwrap_or(NO_CODE);
    let said = format!("{code}: {}", failure.message);
    let envelope = message.envelope.clone();
    let envelope = if counted {
        envelope.put_back_failed(at, &said)
    } else {
        envelope.put_back_uncounted(at, &said)
    };
    let outgoing = Outgoing {
        body: message.held.body.to_queue(),
        attributes: envelope.to_attributes(),
        delay: retry::delay(envelope.attempt, jitter),
        fifo: None,
    };
    move_to(campaign, outgoing, &message.held, true)
}

/// It is under a limit: move it to that limit's queue, visible after `delay`. The delay counts from
/// now, so a delayed move does not wait for a batch to fill.
pub(super) fn move_on(message: &Message, queue: &QueueUrl, delay: Duration) -> Job {
    let (to, from) = (queue.clone(), receipt(&message.held, true));
    let message = Box::new(message.to_limit_queue(delay));
    if delay.is_zero() {
        Job::Move { to, message, from }
    } else {
        Job::MoveNow { to, message, from }
    }
}

/// The mail's campaign is held: put it back to the campaign queue, which is not asked meanwhile.
pub(super) fn put_back(message: &Message, campaign: &QueueUrl) -> Job {
    tracing::info!(
        campaign = message.envelope.campaign,
        identity = %message.envelope.identity,
        "put back: its campaign is held"
    );
    let outgoing = Outgoing {
        body: message.held.body.to_queue(),
        attributes: message.envelope.clone().put_back().to_attributes(),
        delay: Duration::ZERO,
        fifo: None,
    };
    move_to(campaign, outgoing, &message.held, true)
}

/// It is over a limit that has no queue: put it back to the campaign queue, visible after `delay`.
pub(super) fn put_back_limited(message: &Message, campaign: &QueueUrl, delay: Duration) -> Job {
    let outgoing = Outgoing {
        body: message.held.body.to_queue(),
        attributes: message.envelope.clone().put_back().to_attributes(),
        delay,
        fifo: None,
    };
    let (to, from) = (campaign.clone(), receipt(&message.held, true));
    Job::MoveNow { to, message: Box::new(outgoing), from }
}

/// The one log event for a send that was not accepted.
pub(super) fn log(message: &Message, failure: &Failure, outcome: Outcome, then: &'static str) {
    tracing::warn!(
        campaign = message.envelope.campaign,
        identity = %message.envelope.identity,
        outcome = outcome.as_str(),
        code = failure.code.as_deref().unwrap_or(NO_CODE),
        http_status = failure.http_status,
        possibly_sent = outcome.possibly_sent(),
        attempt = message.envelope.next_attempt(),
        then,
        "not sent"
    );
}

fn move_to(to: &QueueUrl, message: Outgoing, held: &Held, buffered: bool) -> Job {
    Job::Move { to: to.clone(), message: Box::new(message), from: receipt(held, buffered) }
}
