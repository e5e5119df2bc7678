//! What changed between two looks at a stack, in words.

mod progress;
mod seen;
mod words;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use tidegate_core::identity::EpochMillis;
use tidegate_operate::status::Status;

use crate::event::{Change, Kind, Tone};
use progress::Run;
use seen::{HoldKey, HoldSeen, QuotaSeen};

/// What was last seen, as far as changes are told by it. It is kept, so that a console that was away
/// tells what changed meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    holds: BTreeMap<String, HoldSeen>,
    breaker: String,
    serving: String,
    quota: QuotaSeen,
    level: String,
    dead: u64,
    runs: BTreeMap<String, Run>,
    /// When the newest operator's change that was told was made.
    changed_at: Option<EpochMillis>,
    /// Those of that moment, by who and what: several may be made within a millisecond.
    changed: Vec<String>,
}

/// A change without its place.
fn change(at: EpochMillis, kind: Kind, tone: Tone, title: String, detail: String) -> Change {
    Change { seq: 0, at, kind, campaign: None, title, detail, tone }
}

fn of_campaign(campaign: Option<&str>, change: Change) -> Change {
    Change { campaign: campaign.map(str::to_owned), ..change }
}

impl Seen {
    /// What stands, without telling anything of it: of a console that looks for the first time.
    pub fn first(status: &Status) -> Self {
        let mut seen = Self::default();
        seen.changes(status, true);
        seen
    }

    /// What changed since, the weightiest first; `counted` where the queues' depths are of
    /// this look.
    pub fn changes(&mut self, status: &Status, counted: bool) -> Vec<Change> {
        let mut told = self.operators(status);
        told.extend(self.holds(status));
        told.extend(self.states(status));
        told.extend(self.dead_letters(status));
        if counted {
            told.extend(self.progress(status));
        }
        // As they are told where they must wait: then none comes twice to a page that was away.
        told.sort_by_key(|change| change.kind);
        told
    }

    fn holds(&mut self, status: &Status) -> Vec<Change> {
        let stand: BTreeMap<String, HoldSeen> = status
            .holds
            .iter()
            .map(|hold| (HoldKey::of(hold).to_string(), HoldSeen::from(hold)))
            .collect();
        let mut told = Vec::new();
        for (key, hold) in &stand {
            let key = HoldKey::parse(key);
            let change = match self.holds.get(&key.to_string()) {
                None => words::held(status.at, &key, hold),
                Some(before) if before != hold => words::held_anew(status.at, &key, hold),
                Some(_) => continue,
            };
            told.push(change);
        }
        for key in self.holds.keys().filter(|key| !stand.contains_key(*key)) {
            told.push(words::let_go(status.at, &HoldKey::parse(key), status));
        }
        self.holds = stand;
        told
    }

    fn states(&mut self, status: &Status) -> Vec<Change> {
        let mut told = Vec::new();
        let breaker = status.breaker.state.to_owned();
        if self.breaker != breaker && !self.breaker.is_empty() {
            told.push(words::breaker(status));
        }
        self.breaker = breaker;
        let serving = words::service(status.serving.state).to_owned();
        if self.serving != serving && !self.serving.is_empty() {
            told.push(words::serving(status));
        }
        self.serving = serving;
        let mut quota = QuotaSeen::of(&status.quota);
        // Where SES did not tell it, it is as it was.
        quota.account = quota.account.or(self.quota.account);
        if self.quota != quota && self.quota != QuotaSeen::default() {
            told.push(words::quota(status.at, &self.quota, &quota));
        }
        self.quota = quota;
        let level = status.level.level.to_string();
        if self.level != level && !self.level.is_empty() {
            told.push(words::level(status));
        }
        self.level = level;
        told
    }

    fn dead_letters(&mut self, status: &Status) -> Option<Change> {
        let dead = status.counter("dead");
        let more = dead.saturating_sub(std::mem::replace(&mut self.dead, dead));
        (more > 0).then(|| words::dead_letters(status, more))
    }

    fn progress(&mut self, status: &Status) -> Vec<Change> {
        let mut told = Vec::new();
        for campaign in &status.campaigns {
            let run = self.runs.entry(campaign.name.clone()).or_default();
            if let Some(said) = run.look(campaign.sent, campaign.backlog.all()) {
                told.push(words::progress(status.at, campaign, said));
            }
        }
        self.runs.retain(|name, _| status.campaigns.iter().any(|campaign| campaign.name == *name));
        told
    }

    /// The operators' changes that were not told yet, the oldest first: the audit.
    fn operators(&mut self, status: &Status) -> Vec<Change> {
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
            told.push(words::operator(record));
        }
        // Where there was none, the next is new all the same.
        self.changed_at = self.changed_at.or(Some(status.at));
        told
    }
}

#[cfg(test)]
pub(crate) mod tests;
