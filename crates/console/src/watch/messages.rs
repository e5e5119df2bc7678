use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::channel::Words;
use tidegate_core::control::ChangeRecord;
use tidegate_core::counters::Counter;
use tidegate_core::format::{count, rate, time};
use tidegate_core::identity::EpochMillis;
use tidegate_operator::status::{CampaignStatus, Status};

use super::milestones::Milestone;
use super::snapshots::{HoldSnapshot, QuotaSnapshot};
use super::{change, of_campaign};
use crate::event::{ChangeKind, ChangeTone, StateChange};

const PAUSED: &str = "paused";

fn kind(hold: &HoldSnapshot) -> ChangeKind {
    if hold.reason == PAUSED { ChangeKind::Pause } else { ChangeKind::Hold }
}

/// Until when, and what was said.
fn detail(hold: &HoldSnapshot) -> String {
    match hold.until {
        Some(until) => format!("until {}; {}", time(until), hold.detail),
        None => hold.detail.clone(),
    }
}

pub(super) fn held(at: EpochMillis, hold: &HoldSnapshot) -> StateChange {
    let what = hold.held();
    let (title, tone) = match hold.reason.as_str() {
        PAUSED => (format!("{what} is paused"), ChangeTone::Warn),
        _ => (format!("{what} is held: {}", hold.what), ChangeTone::Bad),
    };
    of_campaign(hold.campaign.as_deref(), change(at, kind(hold), tone, title, detail(hold)))
}

pub(super) fn held_anew(at: EpochMillis, hold: &HoldSnapshot) -> StateChange {
    let reason = if hold.reason == PAUSED { "pause" } else { "hold" };
    let title = format!("{}: the {reason} was changed", hold.held());
    of_campaign(
        hold.campaign.as_deref(),
        change(at, kind(hold), ChangeTone::Warn, title, detail(hold)),
    )
}

pub(super) fn let_go(hold: &HoldSnapshot, status: &Status) -> StateChange {
    let what = hold.held();
    let title = match hold.reason.as_str() {
        PAUSED => format!("{what} is not paused any more"),
        _ => format!("{what} is not held any more ({})", hold.what),
    };
    // What still holds it: its own holds, and those on all.
    let holds = |other: &&tidegate_operator::status::HoldStatus| {
        other.campaign.is_none() || other.campaign == hold.campaign
    };
    let still: Vec<String> =
        status.holds.iter().filter(holds).map(|hold| hold.what.clone()).collect();
    let (tone, detail) = if still.is_empty() {
        (ChangeTone::Good, String::new())
    } else {
        (ChangeTone::Info, format!("still held: {}", still.join(", ")))
    };
    of_campaign(hold.campaign.as_deref(), change(status.at, kind(hold), tone, title, detail))
}

pub(super) fn breaker(status: &Status) -> StateChange {
    let (breaker, Words { service, message, .. }) = (&status.breaker, status.quota.words);
    let until = breaker.until.map(|until| format!("it probes at {}", time(until)));
    let (title, detail, tone) = match breaker.state {
        "blocking" => (
            format!("{service} fails: the breaker blocks"),
            until.unwrap_or_default(),
            ChangeTone::Bad,
        ),
        "probing" => (
            "The breaker probes".to_owned(),
            format!("with a few {message}s a second"),
            ChangeTone::Warn,
        ),
        _ => (
            format!("{service} answers again: the breaker lets all through"),
            String::new(),
            ChangeTone::Good,
        ),
    };
    change(status.at, ChangeKind::Breaker, tone, title, detail)
}

/// Treats idle as serving: the figures show that the queues are empty.
pub(super) fn service(state: &str) -> &str {
    if state == "idle" { "serving" } else { state }
}

pub(super) fn serving(status: &Status) -> StateChange {
    let last = status.serving.last_window.map(|last| format!("the last window was {}", time(last)));
    let (title, tone) = match service(status.serving.state) {
        "serving" => ("The pollers run", ChangeTone::Good),
        _ => ("Nothing is sent: no poller runs", ChangeTone::Bad),
    };
    change(status.at, ChangeKind::Serving, tone, title.to_owned(), last.unwrap_or_default())
}

pub(super) fn quota(at: EpochMillis, before: &QuotaSnapshot, now: &QuotaSnapshot) -> StateChange {
    let shown = |value: Option<f64>| value.map_or_else(|| "none".to_owned(), rate);
    let mut said = Vec::new();
    let mut compare = |what: &str, before: Option<f64>, now: Option<f64>| {
        if before != now {
            said.push(format!("{what} {} → {}", shown(before), shown(now)));
        }
    };
    compare("the account's quota", before.account, now.account);
    compare("the configured cap", before.configured_cap, now.configured_cap);
    compare("the operator's cap", before.operator_cap, now.operator_cap);
    match (before.is_lowered, now.is_lowered) {
        (false, true) => said.push("sends were refused for the rate, which lowers it".to_owned()),
        (true, false) => said.push("it is not lowered for refusals any more".to_owned()),
        _ => {}
    }
    let tone =
        if now.is_lowered && !before.is_lowered { ChangeTone::Warn } else { ChangeTone::Info };
    change(at, ChangeKind::Quota, tone, "The rate changed".to_owned(), said.join("; "))
}

pub(super) fn level(status: &Status) -> StateChange {
    let tone = match status.level.level {
        BackPressureLevel::Clear => ChangeTone::Good,
        BackPressureLevel::Busy => ChangeTone::Warn,
        BackPressureLevel::Overloaded => ChangeTone::Bad,
    };
    let title = format!("The level is {}", status.level.level);
    let detail = status.level.in_words().unwrap_or_else(|| "nothing is deferred".to_owned());
    change(status.at, ChangeKind::Level, tone, title, detail)
}

pub(super) fn dead_letters(status: &Status, more: u64) -> StateChange {
    let title = if more == 1 {
        "A dead letter".to_owned()
    } else {
        format!("{} dead letters", count(more))
    };
    let detail = format!("{} since the ledger began", count(status.counter(Counter::Dead)));
    change(status.at, ChangeKind::DeadLetter, ChangeTone::Warn, title, detail)
}

pub(super) fn milestones(
    at: EpochMillis,
    campaign: &CampaignStatus,
    said: Milestone,
) -> StateChange {
    let name = &campaign.name;
    let (title, tone) = match said {
        Milestone::Started(waiting) => {
            (format!("{name}: {} wait", count(waiting)), ChangeTone::Info)
        }
        Milestone::Tenths(tenths) => {
            (format!("{name}: {} % is sent", tenths * 10), ChangeTone::Info)
        }
        Milestone::Finished(sent) => {
            let title = format!("{name}: its queue is empty, {} were sent", count(sent));
            match campaign.dead {
                0 => (title, ChangeTone::Good),
                dead => (format!("{title}; {} are dead letters", count(dead)), ChangeTone::Warn),
            }
        }
    };
    of_campaign(Some(name), change(at, ChangeKind::Progress, tone, title, String::new()))
}

pub(super) fn operator(record: &ChangeRecord) -> StateChange {
    let of = record.campaign.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
    let title = format!("{}: {}{of}", record.by, record.action);
    let said = [record.detail.as_str(), record.reason.as_str()];
    let said: Vec<&str> = said.into_iter().filter(|text| !text.is_empty()).collect();
    let change = change(record.at, ChangeKind::Change, ChangeTone::Info, title, said.join("; "));
    of_campaign(record.campaign.as_deref(), change)
}
