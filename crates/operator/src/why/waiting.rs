//! Estimates how long a mail without obstacles waits for its turn.

use std::time::Duration;

use tidegate_core::config::EXPRESS;
use tidegate_core::counters::Counter;

use crate::status::{LimitStatus, QueueStatus, Status, as_f64};
use tidegate_core::format::{count, span};

/// The visibility timeout: a mail that was received and not sent is received again after it.
const VISIBILITY_S: f64 = 30.0;
/// The time until pollers find a mail after all queues were empty.
const FOUND_WITHIN_S: f64 = 10.0;

/// How long a mail may wait for its turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TurnEstimate {
    /// Messages that may go before it, its own included.
    pub(super) messages: u64,
    /// The campaign's guaranteed rate in recipients per second.
    pub(super) rate: f64,
    pub(super) most: Duration,
}

/// How deep the queue of `campaign` is.
pub(super) fn backlog(status: &Status, campaign: &str) -> QueueStatus {
    if campaign == EXPRESS {
        return status.queues.get("express").copied().unwrap_or_default();
    }
    let own = status.campaigns.iter().find(|own| own.name == campaign);
    own.map(|own| own.backlog).unwrap_or_default()
}

/// How deep the merge queue is.
pub(super) fn merged(status: &Status) -> QueueStatus {
    status.queues.get("merge").copied().unwrap_or_default()
}

/// Recipients that wait on limits' queues.
pub(super) fn limited(status: &Status) -> u64 {
    status.waiting.limits
}

/// A limit that mail waits for, in words.
pub(super) fn limit_in_words(limit: &LimitStatus) -> String {
    let waiting = count(limit.queued());
    match limit.longest() {
        _ if limit.key == "domain:*" => {
            format!(
                "{waiting} to other domains ({} each, looked at every 15 min at most)",
                limit.limit
            )
        }
        Some(most) => {
            format!(
                "{waiting} to {} ({}: the last goes in about {})",
                limit.name(),
                limit.limit,
                span(most)
            )
        }
        None => format!("{waiting} to {}", limit.name()),
    }
}

/// The longest time until the last mail of `campaign` is sent, if nothing changes. It assumes that
/// every other campaign that may send has mail.
///
/// Example: 900 messages on a queue with share 0.1 of 13.7/s and 100 on the merge queue, with one
/// recipient each: 900/1.37 + 100/13.7 + 10 s until they are found is about 11 min.
pub(super) fn turn(status: &Status, campaign: &str) -> Option<TurnEstimate> {
    let all = status.quota.slots_per_second.filter(|rate| *rate > 0.0)?;
    let sends = |held: bool, weight: u32| !held && weight > 0;
    let weights = status.campaigns.iter().filter(|other| sends(other.held, other.weight));
    let total: u64 = weights.map(|other| u64::from(other.weight)).sum();
    let own = status.campaigns.iter().find(|own| own.name == campaign);
    let rate = match own {
        _ if campaign == EXPRESS => all,
        Some(own) => all * f64::from(own.weight) / as_f64(total.max(1)),
        None => return None,
    };
    // Of share and limit the smaller one applies.
    let limit = status.limit_of(campaign).and_then(|limit| limit.per_second);
    let rate = limit.map_or(rate, |limit| rate.min(limit));
    if rate <= 0.0 {
        return None;
    }
    let depth = backlog(status, campaign);
    let merged = if campaign == EXPRESS { 0 } else { merged(status).all() };
    let recipients = recipients_per_mail(status);
    let ahead = depth.visible + depth.in_flight;
    // The campaign's own queue is sent at its share, the merge queue at the whole rate.
    let mut seconds = as_f64(ahead) * recipients / rate + as_f64(merged) * recipients / all;
    if depth.in_flight > 0 {
        // A message in flight may have been received and not sent; it comes back after its timeout.
        seconds += VISIBILITY_S;
    }
    let most = Duration::try_from_secs_f64((seconds + FOUND_WITHIN_S).ceil()).ok()?;
    Some(TurnEstimate { messages: ahead + merged, rate, most })
}

/// The mean number of recipients of all mails so far, at least 1.
fn recipients_per_mail(status: &Status) -> f64 {
    let (sent, mails) = (status.counter(Counter::Sent), status.counter(Counter::Mails));
    if mails == 0 { 1.0 } else { (as_f64(sent) / as_f64(mails)).max(1.0) }
}
