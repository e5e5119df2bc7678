//! Compares two looks at a stack and describes the changes in words.

use std::collections::BTreeMap;

use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::channel::Words;
use tidegate_core::control::ChangeRecord;
use tidegate_core::counters::Counter;
use tidegate_core::format::{count, rate, time};
use tidegate_core::identity::EpochMillis;
use tidegate_operator::status::{CampaignStatus, HoldStatus, QuotaStatus, Status};

use crate::event::{ChangeKind, ChangeTone, StateChange};

/// The last look, and what of the looks before is needed to derive changes.
#[derive(Clone, Debug)]
pub struct LastSeen {
    /// The account's quota in it is the last that SES told.
    status: Status,
    runs: BTreeMap<String, SendingRun>,
}

impl LastSeen {
    /// Takes the state of a first look as given, without publishing it as changes.
    pub fn first(status: &Status) -> Self {
        let mut seen = Self { status: status.clone(), runs: BTreeMap::new() };
        seen.changes(status, true);
        seen
    }

    /// The changes since the last look, the most important first. `counted` tells whether the
    /// queues' depths are of this look.
    pub fn changes(&mut self, status: &Status, counted: bool) -> Vec<StateChange> {
        let mut told = self.operators(status);
        told.extend(self.holds(status));
        told.extend(self.states(status));
        let dead = |status: &Status| status.counter(Counter::Dead);
        let more = dead(status).saturating_sub(dead(&self.status));
        told.extend((more > 0).then(|| dead_letters(status, more)));
        if counted {
            told.extend(self.milestones(status));
        }
        let known_quota = self.status.quota.account_per_second;
        self.status = status.clone();
        let account = &mut self.status.quota.account_per_second;
        *account = account.or(known_quota);
        // In the order in which an outbox sends them, so that a page that reconnects gets none twice.
        told.sort_by_key(|change| change.kind);
        told
    }

    fn holds(&self, status: &Status) -> Vec<StateChange> {
        let among = |holds: &[HoldStatus], hold: &HoldStatus| {
            let is_same = |other: &&HoldStatus| {
                other.campaign == hold.campaign && other.reason == hold.reason
            };
            holds.iter().find(is_same).cloned()
        };
        let mut told = Vec::new();
        for hold in &status.holds {
            let before = among(&self.status.holds, hold);
            if before.as_ref() != Some(hold) {
                told.push(held(status.at, hold, before.is_none()));
            }
        }
        let gone = self.status.holds.iter().filter(|hold| among(&status.holds, hold).is_none());
        told.extend(gone.map(|hold| let_go(hold, status)));
        told
    }

    fn states(&self, status: &Status) -> Vec<StateChange> {
        let before = &self.status;
        let is_new = |is_new: bool, tell: fn(&Status) -> StateChange| is_new.then(|| tell(status));
        let states = [
            is_new(before.breaker.state != status.breaker.state, breaker),
            is_new(service(before.serving.state) != service(status.serving.state), serving),
            quota(status.at, &before.quota, &status.quota),
            is_new(before.level.level != status.level.level, level),
        ];
        states.into_iter().flatten().collect()
    }

    fn milestones(&mut self, status: &Status) -> Vec<StateChange> {
        let mut told = Vec::new();
        for campaign in &status.campaigns {
            let run = self.runs.entry(campaign.name.clone());
            let run = run.or_insert_with(|| SendingRun::first_seen(campaign.sent));
            if let Some(said) = run.look(campaign.sent, campaign.backlog.all(), campaign.dead) {
                told.push(milestone(status.at, campaign, said));
            }
        }
        self.runs.retain(|name, _| status.campaigns.iter().any(|campaign| campaign.name == *name));
        told
    }

    /// The operators' changes that the last look had not, the oldest first: the audit.
    fn operators(&self, status: &Status) -> Vec<StateChange> {
        let is_new = |record: &&ChangeRecord| !self.status.changes.contains(record);
        status.changes.iter().rev().filter(is_new).map(operator).collect()
    }
}

/// A campaign's run: from the moment at which its queue fills until it is empty again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SendingRun {
    /// Value of the counter of sent recipients when the run began.
    base: u64,
    /// The tenths that the run has reached; lower again when mail is enqueued; none while nothing waits.
    tenths: Option<u64>,
    /// Number of consecutive looks at which nothing waited. SQS's counts are approximate, so a
    /// single zero is no end.
    empty: u8,
}

/// Number of consecutive looks without a message after which a run has ended.
const EMPTY_LOOKS: u8 = 2;

/// Progress that is worth an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Milestone {
    /// A backlog of this many messages appeared.
    Started(u64),
    /// This many tenths of the run are sent.
    Tenths(u64),
    /// The queue is empty after this many recipients.
    Finished(u64),
}

impl SendingRun {
    /// A run that is under way when the console looks first: what was sent before, `sent` recipients, is no
    /// part of it.
    fn first_seen(sent: u64) -> Self {
        Self { base: sent, ..Self::default() }
    }

    /// Takes the counters of a look: recipients sent since the ledger was created, messages waiting and dead letters.
    ///
    /// Example: 2,000 recipients had been sent to when the run began (`base`), 2,350 are now, and 650 messages
    /// wait: 350 of 1,000, so 3 tenths. A message counts as one recipient here.
    /// Mail that is enqueued meanwhile lowers the tenths: they are then published a second time on the
    /// way up.
    fn look(&mut self, sent: u64, waiting: u64, dead: u64) -> Option<Milestone> {
        if waiting == 0 {
            self.empty = self.empty.saturating_add(1);
            if self.empty < EMPTY_LOOKS {
                return None;
            }
            let of_run = sent.saturating_sub(std::mem::replace(&mut self.base, sent));
            return self.tenths.take().map(|_| Milestone::Finished(of_run));
        }
        self.empty = 0;
        let of_run = sent.saturating_sub(self.base);
        let tenths =
            of_run.saturating_mul(10) / of_run.saturating_add(waiting).saturating_add(dead);
        match self.tenths {
            None => {
                self.tenths = Some(tenths);
                Some(Milestone::Started(waiting))
            }
            Some(told) if tenths > told => {
                self.tenths = Some(tenths);
                Some(Milestone::Tenths(tenths))
            }
            // Mail was enqueued meanwhile: the figures show it, no event is needed.
            Some(told) => {
                self.tenths = Some(told.min(tenths));
                None
            }
        }
    }
}

/// A change whose sequence number is not assigned yet.
fn change(
    at: EpochMillis,
    kind: ChangeKind,
    tone: ChangeTone,
    title: String,
    detail: String,
) -> StateChange {
    StateChange { seq: 0, at, kind, campaign: None, title, detail, tone }
}

fn of_campaign(campaign: Option<&str>, change: StateChange) -> StateChange {
    StateChange { campaign: campaign.map(str::to_owned), ..change }
}

const PAUSED: &str = "paused";

/// The held campaign, or "All sending".
fn what_is_held(hold: &HoldStatus) -> &str {
    hold.campaign.as_deref().unwrap_or("All sending")
}

fn kind(hold: &HoldStatus) -> ChangeKind {
    if hold.reason == PAUSED { ChangeKind::Pause } else { ChangeKind::Hold }
}

/// Until when, and what was said.
fn detail(hold: &HoldStatus) -> String {
    match hold.until {
        Some(until) => format!("until {}; {}", time(until), hold.detail),
        None => hold.detail.clone(),
    }
}

/// A hold that is new, or was changed.
fn held(at: EpochMillis, hold: &HoldStatus, is_new: bool) -> StateChange {
    let what = what_is_held(hold);
    let (title, tone) = match (is_new, hold.reason == PAUSED) {
        (true, true) => (format!("{what} is paused"), ChangeTone::Warn),
        (true, false) => (format!("{what} is held: {}", hold.what), ChangeTone::Bad),
        (false, true) => (format!("{what}: the pause was changed"), ChangeTone::Warn),
        (false, false) => (format!("{what}: the hold was changed"), ChangeTone::Warn),
    };
    of_campaign(hold.campaign.as_deref(), change(at, kind(hold), tone, title, detail(hold)))
}

fn let_go(hold: &HoldStatus, status: &Status) -> StateChange {
    let what = what_is_held(hold);
    let title = match hold.reason.as_str() {
        PAUSED => format!("{what} is not paused any more"),
        _ => format!("{what} is not held any more ({})", hold.what),
    };
    // What still holds it: its own holds, and those on all.
    let holds = |other: &&HoldStatus| other.campaign.is_none() || other.campaign == hold.campaign;
    let still: Vec<String> =
        status.holds.iter().filter(holds).map(|hold| hold.what.clone()).collect();
    let (tone, detail) = if still.is_empty() {
        (ChangeTone::Good, String::new())
    } else {
        (ChangeTone::Info, format!("still held: {}", still.join(", ")))
    };
    of_campaign(hold.campaign.as_deref(), change(status.at, kind(hold), tone, title, detail))
}

fn breaker(status: &Status) -> StateChange {
    let (breaker, Words { service, message, .. }) = (&status.breaker, status.quota.words);
    let (title, tone) = match breaker.state {
        "blocking" => (format!("{service} fails: the breaker blocks"), ChangeTone::Bad),
        "probing" => ("The breaker probes".to_owned(), ChangeTone::Warn),
        _ => (format!("{service} answers again: the breaker lets all through"), ChangeTone::Good),
    };
    let detail = match (breaker.state, breaker.until) {
        ("blocking", Some(until)) => format!("it probes at {}", time(until)),
        ("probing", _) => format!("with a few {message}s a second"),
        _ => String::new(),
    };
    change(status.at, ChangeKind::Breaker, tone, title, detail)
}

/// Treats idle as serving: the figures show that the queues are empty.
fn service(state: &str) -> &str {
    if state == "idle" { "serving" } else { state }
}

fn serving(status: &Status) -> StateChange {
    let last = status.serving.last_window.map(|last| format!("the last window was {}", time(last)));
    let (title, tone) = match service(status.serving.state) {
        "serving" => ("The pollers run", ChangeTone::Good),
        _ => ("Nothing is sent: no poller runs", ChangeTone::Bad),
    };
    change(status.at, ChangeKind::Serving, tone, title.to_owned(), last.unwrap_or_default())
}

/// None if nothing of it changed. Of the rate factor only whether it is below 1: it moves every few seconds while
/// SES throttles.
fn quota(at: EpochMillis, before: &QuotaStatus, now: &QuotaStatus) -> Option<StateChange> {
    let shown = |value: Option<f64>| value.map_or_else(|| "none".to_owned(), rate);
    let mut said = Vec::new();
    let mut compare = |what: &str, before: Option<f64>, now: Option<f64>| {
        if before != now {
            said.push(format!("{what} {} → {}", shown(before), shown(now)));
        }
    };
    // If SES did not answer, the account's quota is taken as unchanged.
    let account = |of: &QuotaStatus, else_of: &QuotaStatus| {
        of.account_per_second.or(else_of.account_per_second)
    };
    compare("the account's quota", account(before, now), account(now, before));
    compare("the configured cap", before.configured_cap, now.configured_cap);
    compare("the operator's cap", before.operator_cap, now.operator_cap);
    let (was_lowered, is_lowered) = (before.factor < 1.0, now.factor < 1.0);
    match (was_lowered, is_lowered) {
        (false, true) => said.push("sends were refused for the rate, which lowers it".to_owned()),
        (true, false) => said.push("it is not lowered for refusals any more".to_owned()),
        _ => {}
    }
    let tone = if is_lowered && !was_lowered { ChangeTone::Warn } else { ChangeTone::Info };
    let title = "The rate changed".to_owned();
    let is_new = !said.is_empty();
    is_new.then(|| change(at, ChangeKind::Quota, tone, title, said.join("; ")))
}

fn level(status: &Status) -> StateChange {
    let tone = match status.level.level {
        BackPressureLevel::Clear => ChangeTone::Good,
        BackPressureLevel::Busy => ChangeTone::Warn,
        BackPressureLevel::Overloaded => ChangeTone::Bad,
    };
    let title = format!("The level is {}", status.level.level);
    let detail = status.level.in_words().unwrap_or_else(|| "nothing is deferred".to_owned());
    change(status.at, ChangeKind::Level, tone, title, detail)
}

fn dead_letters(status: &Status, more: u64) -> StateChange {
    let title = match more {
        1 => "A dead letter".to_owned(),
        _ => format!("{} dead letters", count(more)),
    };
    let detail = format!("{} since the ledger began", count(status.counter(Counter::Dead)));
    change(status.at, ChangeKind::DeadLetter, ChangeTone::Warn, title, detail)
}

fn milestone(at: EpochMillis, campaign: &CampaignStatus, said: Milestone) -> StateChange {
    let (name, info) = (&campaign.name, ChangeTone::Info);
    let (title, tone) = match said {
        Milestone::Started(waiting) => (format!("{name}: {} wait", count(waiting)), info),
        Milestone::Tenths(tenths) => (format!("{name}: {} % is sent", tenths * 10), info),
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

fn operator(record: &ChangeRecord) -> StateChange {
    let of = record.campaign.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
    let title = format!("{}: {}{of}", record.by, record.action);
    let said = [record.detail.as_str(), record.reason.as_str()];
    let said: Vec<&str> = said.into_iter().filter(|text| !text.is_empty()).collect();
    let change = change(record.at, ChangeKind::Change, ChangeTone::Info, title, said.join("; "));
    of_campaign(record.campaign.as_deref(), change)
}

#[cfg(test)]
pub(crate) mod tests;
