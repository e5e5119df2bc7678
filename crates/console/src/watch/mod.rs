//! Compares two looks at a stack and describes the changes in words.

mod messages;
mod milestones;
mod snapshots;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use tidegate_core::counters::Counter;
use tidegate_core::identity::EpochMillis;
use tidegate_operator::status::Status;

use crate::event::{ChangeKind, ChangeTone, StateChange};
use milestones::SendingRun;
use snapshots::{HoldSnapshot, QuotaSnapshot};

/// The state at the last look, as far as changes are derived from it. It is saved, so that a
/// restarted console can tell what changed in the meantime.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LastSeen {
    holds: Vec<HoldSnapshot>,
    breaker: String,
    serving: String,
    quota: QuotaSnapshot,
    level: String,
    dead: u64,
    runs: BTreeMap<String, SendingRun>,
    /// Time of the newest operator's change that was published.
    changed_at: Option<EpochMillis>,
    /// Author and action of all changes with that time: several may be made within a millisecond.
    changed: Vec<String>,
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

impl LastSeen {
    /// Takes the state of a first look as given, without publishing it as changes.
    pub fn first(status: &Status) -> Self {
        let mut snapshots = Self::default();
        snapshots.changes(status, true);
        snapshots
    }

    /// The changes since the last look, the most important first. `counted` tells whether the
    /// queues' depths are of this look.
    pub fn changes(&mut self, status: &Status, counted: bool) -> Vec<StateChange> {
        let mut told = self.operators(status);
        told.extend(self.holds(status));
        told.extend(self.states(status));
        told.extend(self.dead_letters(status));
        if counted {
            told.extend(self.milestones(status));
        }
        // In the order in which an outbox sends them, so that a page that reconnects gets none twice.
        told.sort_by_key(|change| change.kind);
        told
    }

    fn holds(&mut self, status: &Status) -> Vec<StateChange> {
        let mut stand: Vec<HoldSnapshot> = status.holds.iter().map(HoldSnapshot::of).collect();
        stand.sort();
        let mut told = Vec::new();
        for hold in &stand {
            match hold.among(&self.holds) {
                None => told.push(messages::held(status.at, hold)),
                Some(before) if before != hold => told.push(messages::held_anew(status.at, hold)),
                Some(_) => {}
            }
        }
        for hold in self.holds.iter().filter(|hold| hold.among(&stand).is_none()) {
            told.push(messages::let_go(hold, status));
        }
        self.holds = stand;
        told
    }

    fn states(&mut self, status: &Status) -> Vec<StateChange> {
        let mut told = Vec::new();
        let breaker = status.breaker.state.to_owned();
        if self.breaker != breaker && !self.breaker.is_empty() {
            told.push(messages::breaker(status));
        }
        self.breaker = breaker;
        let serving = messages::service(status.serving.state).to_owned();
        if self.serving != serving && !self.serving.is_empty() {
            told.push(messages::serving(status));
        }
        self.serving = serving;
        let mut quota = QuotaSnapshot::of(&status.quota);
        // If SES did not answer, the account's quota is taken as unchanged.
        quota.account = quota.account.or(self.quota.account);
        if self.quota != quota && self.quota != QuotaSnapshot::default() {
            told.push(messages::quota(status.at, &self.quota, &quota));
        }
        self.quota = quota;
        let level = status.level.level.to_string();
        if self.level != level && !self.level.is_empty() {
            told.push(messages::level(status));
        }
        self.level = level;
        told
    }

    fn dead_letters(&mut self, status: &Status) -> Option<StateChange> {
        let dead = status.counter(Counter::Dead);
        let more = dead.saturating_sub(std::mem::replace(&mut self.dead, dead));
        (more > 0).then(|| messages::dead_letters(status, more))
    }

    fn milestones(&mut self, status: &Status) -> Vec<StateChange> {
        let mut told = Vec::new();
        for campaign in &status.campaigns {
            let run = self.runs.entry(campaign.name.clone());
            let run = run.or_insert_with(|| SendingRun::first_seen(campaign.sent));
            if let Some(said) = run.look(campaign.sent, campaign.backlog.all(), campaign.dead) {
                told.push(messages::milestones(status.at, campaign, said));
            }
        }
        self.runs.retain(|name, _| status.campaigns.iter().any(|campaign| campaign.name == *name));
        told
    }

    /// The operators' changes that were not told yet, the oldest first: the audit.
    fn operators(&mut self, status: &Status) -> Vec<StateChange> {
        let who = |change: &tidegate_core::control::ChangeRecord| {
            format!("{} {} {:?} {}", change.by, change.action, change.campaign, change.detail)
        };
        let mut told = Vec::new();
        for record in status.changes.iter().rev() {
            let is_old = match self.changed_at {
                Some(at) if record.at == at => self.changed.contains(&who(record)),
                Some(at) => record.at < at,
                None => false,
            };
            if is_old {
                continue;
            }
            if self.changed_at != Some(record.at) {
                self.changed.clear();
            }
            self.changed_at = Some(record.at);
            self.changed.push(who(record));
            told.push(messages::operator(record));
        }
        // Without any record so far, every later one is new.
        self.changed_at = self.changed_at.or(Some(status.at));
        told
    }
}

#[cfg(test)]
pub(crate) mod tests;
