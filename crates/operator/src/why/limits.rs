//! The obstacles that delay a campaign's mail.

use std::time::Duration;

use tidegate_core::channel::Words;
use tidegate_core::config::EXPRESS;
use tidegate_core::identity::EpochMillis;

use super::{MailVerdict, Obstacle};
use crate::status::{HoldStatus, Status};
use crate::suggest::SuggestedCommand;
use tidegate_core::format::{span, time};

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
    let ago = Duration::from_millis(status.at.as_millis().saturating_sub(last.as_millis()));
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
