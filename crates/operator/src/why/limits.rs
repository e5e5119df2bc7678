//! The obstacles that delay a campaign's mail.
//!
//! Estimates how long a mail without obstacles waits for its turn.

use std::time::Duration;

use tidegate_core::channel::Words;
use tidegate_core::config::EXPRESS;
use tidegate_core::counters::Counter;
use tidegate_core::format::{count, span, time};
use tidegate_core::identity::EpochMillis;

use super::{MailVerdict, Obstacle};
use crate::status::{HoldStatus, LimitStatus, Status, as_f64};
use crate::suggest::SuggestedCommand;
use tidegate_delivery::ports::QueueDepth;

/// EventBridge triggers once a minute, sometimes some seconds late. Without a window for this long
/// the pollers have stopped.
const NOT_SERVED: Duration = Duration::from_secs(75);
/// Sends leave SES's daily count after 24 hours.
const DAY: Duration = Duration::from_hours(24);

/// All obstacles of mail of `campaign`, the most important first.
pub(super) fn limits(status: &Status, campaign: Option<&str>) -> Vec<Obstacle> {
    let mut limits = Vec::new();
    limits.extend(serving(status));
    limits.extend(status.holds.iter().filter(|hold| holds(hold, campaign)).map(hold));
    limits.extend(quota(status));
    limits.extend(breaker(status));
    limits.extend(campaign.and_then(|campaign| closed(status, campaign)));
    limits.extend(campaign.and_then(|campaign| share(status, campaign)));
    limits.sort_by_key(|limit| limit.verdict);
    limits
}

/// The campaign's limit, if it lets nothing through now.
fn closed(status: &Status, campaign: &str) -> Option<Obstacle> {
    let limit = status.limit_of(campaign).filter(|limit| limit.closed)?;
    let lets_go = match limit.opens_at {
        Some(opens_at) => format!("at {}", time(opens_at)),
        None => "when an operator changes the limit (see `tidegate limit list`)".to_owned(),
    };
    let what = format!("the limit {} ({}) lets nothing through now", limit.key, limit.limit);
    Some(Obstacle { verdict: MailVerdict::Closed, what, lets_go, until: limit.opens_at })
}

fn holds(hold: &HoldStatus, campaign: Option<&str>) -> bool {
    match &hold.campaign {
        // `daily_budget` reserves the rest of the day for express mail, so it does not hold that.
        None => !(hold.reason == "daily_budget" && campaign == Some(EXPRESS)),
        Some(held) => campaign == Some(held),
    }
}

fn hold(hold: &HoldStatus) -> Obstacle {
    let of = hold
        .campaign
        .as_deref()
        .map_or_else(|| "all sending".to_owned(), |campaign| format!("the campaign {campaign}"));
    let since = time(hold.since);
    let said = if hold.detail.is_empty() { String::new() } else { format!(": {}", hold.detail) };
    let verdict = match hold.reason.as_str() {
        "paused" => MailVerdict::Paused,
        "daily_quota" | "daily_budget" => MailVerdict::DailyQuota,
        _ => MailVerdict::Held,
    };
    let what = match verdict {
        MailVerdict::Paused => format!("{of} is paused since {since}{said}"),
        MailVerdict::DailyQuota => {
            format!("{of} is held since {since}: the daily quota is used up{said}")
        }
        _ => format!("{of} is held for {} since {since}{said}", hold.reason),
    };
    let (lets_go, until) = match (verdict, hold.until) {
        (_, Some(until)) => {
            let by_hand = hold.lifting_command().map(|command| format!(", or with `{command}`"));
            (format!("at {}{}", time(until), by_hand.unwrap_or_default()), Some(until))
        }
        (MailVerdict::DailyQuota, None) => {
            let latest = EpochMillis::new(hold.since.as_millis() + millis(DAY));
            let text =
                "as the sends of the last 24 hours grow older, and the scheduler sees enough free";
            (format!("{text}: at the latest about {}", time(latest)), Some(latest))
        }
        _ if hold.reason == "account" => {
            ("within a minute of SES letting the account send again".to_owned(), None)
        }
        _ if hold.reason == "spend_limit" => (
            "when the month (UTC) ends, or within a minute of another spend limit".to_owned(),
            None,
        ),
        _ if hold.reason == "tenant" => (
            "within a minute of SES letting the tenant send, with all that it uses associated"
                .to_owned(),
            None,
        ),
        _ => (format!("when it is lifted by {}", hold.lifted_by), None),
    };
    Obstacle { verdict, what, lets_go, until }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn serving(status: &Status) -> Option<Obstacle> {
    let remedy = format!(
        "when a poller serves again: see whether the EventBridge rule is enabled and the scheduler runs (`{}`)",
        SuggestedCommand::Doctor
    );
    let limit = |what: String| Obstacle {
        verdict: MailVerdict::NotServed,
        what,
        lets_go: remedy.clone(),
        until: None,
    };
    let Some(last) = status.serving.last_window else {
        return Some(limit("no poller has ever served a window".to_owned()));
    };
    let ago = status.at.saturating_since(last);
    // Below one slot per second some windows have no slot and are not served. Two slot periods
    // are added, so that such a stack is not reported as stopped.
    let between = status.quota.slots_per_second.filter(|rate| *rate > 0.0);
    let between = between.and_then(|rate| Duration::try_from_secs_f64(2.0 / rate).ok());
    let most = NOT_SERVED + between.unwrap_or_default();
    let stopped = ago > most && status.serving.state != "idle";
    stopped.then(|| limit(format!("no poller has served a window for {}", span(ago))))
}

fn quota(status: &Status) -> Option<Obstacle> {
    let limit = |what: &str, lets_go: String| Obstacle {
        verdict: MailVerdict::NoQuota,
        what: what.to_owned(),
        lets_go,
        until: None,
    };
    let service = status.quota.words.service;
    if status.quota.sending_enabled == Some(false) {
        let lets_go = format!("when {service} lets the account send again");
        return Some(limit(&format!("{service} has paused the account"), lets_go));
    }
    let none = status.quota.in_force.is_none_or(|rate| rate <= 0.0);
    none.then(|| {
        limit(
            &format!("there is no quota: {service} does not tell it, and none is configured"),
            format!("when {service} answers again (`{}`)", SuggestedCommand::Doctor),
        )
    })
}

fn breaker(status: &Status) -> Option<Obstacle> {
    let since = status.breaker.since.map(time).unwrap_or_default();
    let Words { message, service, .. } = status.quota.words;
    let (what, lets_go) = match status.breaker.state {
        "blocking" => {
            let until = status.breaker.until.map(time).unwrap_or_default();
            (
                format!(
                    "the circuit breaker blocks since {since}: too many sends were refused or failed"
                ),
                format!(
                    "from {until} on one {message} is tried; taken, it lets all go on, else every 30 s another is tried"
                ),
            )
        }
        "probing" => (
            format!("the circuit breaker, which blocks since {since}, is trying one {message}"),
            format!("as soon as {service} takes it; else every 30 s another is tried"),
        ),
        _ => return None,
    };
    // `until` is the time of the next probe, not the end: when SES works again is unknown.
    Some(Obstacle { verdict: MailVerdict::Breaker, what, lets_go, until: None })
}

fn share(status: &Status, campaign: &str) -> Option<Obstacle> {
    let own = status.campaigns.iter().find(|own| own.name == campaign)?;
    let weight = own.configured_weight.max(1);
    let command = SuggestedCommand::Weight { campaign: campaign.to_owned(), weight };
    (own.weight == 0).then(|| Obstacle {
        verdict: MailVerdict::NoShare,
        what: format!("the campaign {campaign} has the weight 0: it gets no share"),
        lets_go: format!("when it gets one: `{command}`"),
        until: None,
    })
}

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
pub(super) fn backlog(status: &Status, campaign: &str) -> QueueDepth {
    if campaign == EXPRESS {
        return status.queues.get("express").copied().unwrap_or_default();
    }
    let own = status.campaigns.iter().find(|own| own.name == campaign);
    own.map(|own| own.backlog).unwrap_or_default()
}

/// How deep the merge queue is.
pub(super) fn merged(status: &Status) -> QueueDepth {
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
