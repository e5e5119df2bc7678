//! The obstacles that delay a campaign's mail, and how long a mail without any waits for its turn.

use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::channel::Words;
use tidegate_core::config::EXPRESS;
use tidegate_core::counters::Counter;
use tidegate_core::format::{count, rate, span, time};
use tidegate_core::identity::EpochMillis;
use tidegate_core::number::real;

use super::{MailVerdict, Obstacle};
use crate::status::{HoldStatus, Status};
use crate::suggest::SuggestedCommand;
use tidegate_delivery::ports::{QueueDepth, VISIBILITY_TIMEOUT};

/// EventBridge triggers once a minute, sometimes some seconds late. Without a window for this long
/// the pollers have stopped.
const NOT_SERVED: Duration = Duration::from_secs(75);
/// Sends leave SES's daily count after 24 hours.
const DAY: Duration = Duration::from_hours(24);
/// The time until pollers find a mail after all queues were empty.
const FOUND_WITHIN_S: f64 = 10.0;

impl Obstacle {
    pub(super) fn new(
        verdict: MailVerdict,
        what: impl Into<String>,
        lets_go: impl Into<String>,
    ) -> Self {
        Self { verdict, what: what.into(), lets_go: lets_go.into(), until: None }
    }

    pub(super) fn until(self, at: EpochMillis) -> Self {
        Self { until: Some(at), ..self }
    }
}

/// The time so long after another.
pub(super) fn after(at: EpochMillis, length: Duration) -> EpochMillis {
    (Timestamp::from(at) + length).into()
}

/// All obstacles of mail of `campaign`, the most important first.
pub(super) fn obstacles(status: &Status, campaign: Option<&str>) -> Vec<Obstacle> {
    let holds = status.holds.iter().filter(|hold| match hold.campaign.as_deref() {
        // `daily_budget` reserves the rest of the day for express mail, so it does not hold that.
        None => !(hold.reason == "daily_budget" && campaign == Some(EXPRESS)),
        held => campaign == held,
    });
    let all = [serving(status), quota(status), breaker(status)].into_iter().flatten();
    let own = campaign.map(|campaign| [closed(status, campaign), share(status, campaign)]);
    let own = own.into_iter().flatten().flatten();
    let mut obstacles: Vec<Obstacle> = all.chain(holds.map(held)).chain(own).collect();
    obstacles.sort_by_key(|obstacle| obstacle.verdict);
    obstacles
}

/// The campaign's limit, if it lets nothing through now.
fn closed(status: &Status, campaign: &str) -> Option<Obstacle> {
    let limit = status.limit_of(campaign).filter(|limit| limit.closed)?;
    let lets_go = match limit.opens_at {
        Some(opens_at) => format!("at {}", time(opens_at)),
        None => "when an operator changes the limit (see `tidegate limit list`)".to_owned(),
    };
    let what = format!("the limit {} ({}) lets nothing through now", limit.key, limit.limit);
    let until = limit.opens_at;
    Some(Obstacle { until, ..Obstacle::new(MailVerdict::Closed, what, lets_go) })
}

fn held(hold: &HoldStatus) -> Obstacle {
    let (reason, since) = (hold.reason.as_str(), time(hold.since));
    let campaign = hold.campaign.as_ref().map(|campaign| format!("the campaign {campaign}"));
    let of = campaign.unwrap_or_else(|| "all sending".to_owned());
    let said = if hold.detail.is_empty() { String::new() } else { format!(": {}", hold.detail) };
    let (verdict, why) = match reason {
        "paused" => (MailVerdict::Paused, format!("is paused since {since}")),
        "daily_quota" | "daily_budget" => {
            (MailVerdict::DailyQuota, format!("is held since {since}: the daily quota is used up"))
        }
        _ => (MailVerdict::Held, format!("is held for {reason} since {since}")),
    };
    let what = format!("{of} {why}{said}");
    if let Some(until) = hold.until {
        let by_hand = hold.lifting_command().map(|command| format!(", or with `{command}`"));
        let lets_go = format!("at {}{}", time(until), by_hand.unwrap_or_default());
        return Obstacle::new(verdict, what, lets_go).until(until);
    }
    let latest = after(hold.since, DAY);
    let lets_go: &str = match reason {
        "daily_quota" | "daily_budget" => &format!(
            "as the sends of the last 24 hours grow older, and the scheduler sees enough free: at the latest about {}",
            time(latest)
        ),
        "account" => "within a minute of SES letting the account send again",
        "spend_limit" => "when the month (UTC) ends, or within a minute of another spend limit",
        "tenant" => {
            "within a minute of SES letting the tenant send, with all that it uses associated"
        }
        _ => &format!("when it is lifted by {}", hold.lifted_by),
    };
    let until = (verdict == MailVerdict::DailyQuota).then_some(latest);
    Obstacle { until, ..Obstacle::new(verdict, what, lets_go) }
}

fn serving(status: &Status) -> Option<Obstacle> {
    let what = match status.serving.last_window {
        None => "no poller has ever served a window".to_owned(),
        Some(last) => {
            let ago = status.at.saturating_since(last);
            // Below one slot per second some windows have no slot and are not served. Two slot periods
            // are added, so that such a stack is not reported as stopped.
            let between = status.quota.slots_per_second.filter(|rate| *rate > 0.0);
            let between = between.and_then(|rate| Duration::try_from_secs_f64(2.0 / rate).ok());
            let most = NOT_SERVED + between.unwrap_or_default();
            if ago <= most || status.serving.state == "idle" {
                return None;
            }
            format!("no poller has served a window for {}", span(ago))
        }
    };
    let lets_go = "when a poller serves again: see whether the EventBridge rule is enabled and the scheduler runs (`tidegate doctor`)";
    Some(Obstacle::new(MailVerdict::NotServed, what, lets_go))
}

fn quota(status: &Status) -> Option<Obstacle> {
    let service = status.quota.words.service;
    let (what, lets_go) = if status.quota.sending_enabled == Some(false) {
        (
            format!("{service} has paused the account"),
            format!("when {service} lets the account send again"),
        )
    } else if status.quota.in_force.is_none_or(|rate| rate <= 0.0) {
        (
            format!("there is no quota: {service} does not tell it, and none is configured"),
            format!("when {service} answers again (`tidegate doctor`)"),
        )
    } else {
        return None;
    };
    Some(Obstacle::new(MailVerdict::NoQuota, what, lets_go))
}

fn breaker(status: &Status) -> Option<Obstacle> {
    let shown = |at: Option<EpochMillis>| at.map(time).unwrap_or_default();
    let (since, until) = (shown(status.breaker.since), shown(status.breaker.until));
    let Words { message, service, .. } = status.quota.words;
    let (what, lets_go) = match status.breaker.state {
        "blocking" => (
            format!(
                "the circuit breaker blocks since {since}: too many sends were refused or failed"
            ),
            format!(
                "from {until} on one {message} is tried; taken, it lets all go on, else every 30 s another is tried"
            ),
        ),
        "probing" => (
            format!("the circuit breaker, which blocks since {since}, is trying one {message}"),
            format!("as soon as {service} takes it; else every 30 s another is tried"),
        ),
        _ => return None,
    };
    // The breaker's `until` is the time of the next probe, not the end: when SES works again is unknown.
    Some(Obstacle::new(MailVerdict::Breaker, what, lets_go))
}

fn share(status: &Status, campaign: &str) -> Option<Obstacle> {
    let own = status.campaigns.iter().find(|own| own.name == campaign && own.weight == 0)?;
    let weight = own.configured_weight.max(1);
    let command = SuggestedCommand::Weight { campaign: campaign.to_owned(), weight };
    let what = format!("the campaign {campaign} has the weight 0: it gets no share");
    Some(Obstacle::new(MailVerdict::NoShare, what, format!("when it gets one: `{command}`")))
}

/// How deep the queue of `campaign` is.
pub(super) fn backlog(status: &Status, campaign: &str) -> QueueDepth {
    if campaign == EXPRESS {
        return queue(status, "express");
    }
    let own = status.campaigns.iter().find(|own| own.name == campaign);
    own.map(|own| own.backlog).unwrap_or_default()
}

/// How deep one of the other queues is.
pub(super) fn queue(status: &Status, name: &str) -> QueueDepth {
    status.queues.get(name).copied().unwrap_or_default()
}

/// The turn of a mail of `campaign`, unless its rate is not known.
///
/// It is the longest time until the last mail of `campaign` is sent, if nothing changes. It assumes that
/// every other campaign that may send has mail.
///
/// Example: 900 messages on a queue with share 0.1 of 13.7/s and 100 on the merge queue, with one
/// recipient each: 900/1.37 + 100/13.7 + 10 s until they are found is about 11 min.
pub(super) fn turn(status: &Status, campaign: &str) -> Option<Obstacle> {
    let all = status.quota.slots_per_second.filter(|rate| *rate > 0.0)?;
    let (share, merged) = if campaign == EXPRESS {
        (all, 0)
    } else {
        let own = status.campaigns.iter().find(|own| own.name == campaign)?;
        let may_send = status.campaigns.iter().filter(|other| !other.held);
        let total: u64 = may_send.map(|other| u64::from(other.weight)).sum();
        let share = all * f64::from(own.weight) / real(total.max(1));
        (share, queue(status, "merge").all())
    };
    // Of share and limit the smaller one applies.
    let limit = status.limit_of(campaign).and_then(|limit| limit.per_second);
    let own_rate = share.min(limit.unwrap_or(share));
    if own_rate <= 0.0 {
        return None;
    }
    let depth = backlog(status, campaign);
    let ahead = depth.visible + depth.in_flight;
    let (sent, mails) = (status.counter(Counter::Sent), status.counter(Counter::Mails));
    // The mean number of recipients of all mails so far.
    let recipients = if mails == 0 { 1.0 } else { (real(sent) / real(mails)).max(1.0) };
    // The campaign's own queue is sent at its share, the merge queue at the whole rate.
    let mut seconds = real(ahead) * recipients / own_rate + real(merged) * recipients / all;
    if depth.in_flight > 0 {
        // A message in flight may have been received and not sent; it comes back after its timeout.
        seconds += VISIBILITY_TIMEOUT.as_secs_f64();
    }
    let most = Duration::try_from_secs_f64((seconds + FOUND_WITHIN_S).ceil()).ok()?;
    let until = after(status.at, most);
    let what = format!(
        "for its turn: at the present share of {} the {} messages up to the last of its campaign take at most about {}",
        rate(own_rate),
        count(ahead + merged),
        span(most)
    );
    let or_later = match depth.delayed {
        0 => String::new(),
        delayed => format!(
            "; if it failed before, it may be one of the {} that wait for their retry, 15 min at most",
            count(delayed)
        ),
    };
    let lets_go = format!("by about {}, if nothing changes{or_later}", time(until));
    Some(Obstacle::new(MailVerdict::Waiting, what, lets_go).until(until))
}
