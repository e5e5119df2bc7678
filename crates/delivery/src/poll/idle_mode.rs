//! The windows in which every queue is thought to be empty, and what is told of them.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use futures_channel::oneshot::{Receiver, Sender, channel};
use tidegate_core::breaker::Permit;
use tidegate_core::config::EXPRESS;
use tidegate_core::feed::pause_after_empty;
use tidegate_core::idle::{self, QueueChecks};
use tidegate_core::parts::Upkeep;

use super::domains::{DomainMoves, FORMER_PAUSE, PlannedQueue, idle_key};
use super::plan::Plan;
use super::queue_supply::PollVerdict;
use crate::ports::{Idle, LedgerReport, MERGE_QUEUE, PreviousClaim};

/// How a window is served where every queue is thought to be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdleMode {
    /// One may hold mail.
    No,
    /// All are looked into.
    Look,
    /// None but the express queue is.
    Leave,
}

impl IdleMode {
    pub(super) fn of(plan: &Plan, previous: Option<PreviousClaim>) -> Self {
        let sends = plan.permit == Permit::Send && plan.for_campaigns > 0;
        if !sends || plan.campaigns.is_empty() {
            return Self::No;
        }
        let campaigns = plan.campaigns.iter().filter(|campaign| !campaign.held);
        let campaigns = campaigns.map(|campaign| campaign.idle);
        // A queue that no group has any more counts until it is found empty.
        let domains = plan.domains.queues.iter();
        let domains = domains.filter(|queue| !queue.former || queue.idle.is_none());
        let campaigns = campaigns.chain(domains.map(PlannedQueue::idle));
        let all = campaigns.chain(plan.merge.as_ref().map(|_| plan.merge_idle));
        let Some(all) = all.collect::<Option<Vec<Idle>>>() else { return Self::No };
        let Some(due) = all.iter().map(|idle| idle.until).min() else { return Self::Leave };
        let previous = previous.map(|previous| previous.window);
        if idle::looks(due, previous, plan.window) { Self::Look } else { Self::Leave }
    }
}

/// What the queues answered in one window, by campaign or [`MERGE_QUEUE`] or [`EXPRESS`].
#[derive(Clone, Debug, Default)]
pub(super) struct QueueAnswers {
    /// Whether they had mail at the last time.
    had_mail: BTreeMap<String, bool>,
    /// Asked by a long poll, and empty: a short one sees a sample of a queue's servers.
    empty: BTreeSet<String>,
    /// Whether any had mail at any time.
    found: bool,
}

impl QueueAnswers {
    /// Notes what an answer said, and whether it came of a long poll. An answer that leaves open
    /// whether there is mail changes nothing.
    pub(super) fn note(&mut self, queue: &str, verdict: PollVerdict, long: bool) {
        let had_mail = match verdict {
            PollVerdict::Mail => true,
            PollVerdict::Empty => false,
            PollVerdict::Again | PollVerdict::Failing => return,
        };
        self.found |= had_mail;
        self.had_mail.insert(queue.to_owned(), had_mail);
        if !had_mail && long {
            self.empty.insert(queue.to_owned());
        }
    }

    pub(super) fn and(mut self, other: Self) -> Self {
        self.had_mail.extend(other.had_mail);
        self.empty.extend(other.empty);
        self.found |= other.found;
        self
    }

    /// Puts into the report what follows for the windows to come. Of a window at rest that found
    /// nothing, and changes nothing, nothing is told.
    pub(super) fn tell(
        &self,
        plan: &Plan,
        most: u64,
        domains: &DomainMoves,
        report: &mut LedgerReport,
    ) {
        report.idle = self.idle(plan, most, domains);
        report.looks = self.looks(plan);
        if plan.rest == IdleMode::No || self.found {
            return;
        }
        let unchanged = report.idle.is_empty() && report.looks == QueueChecks::default();
        if unchanged && !report.counters.contains_key("fed") {
            *report = LedgerReport::default();
        }
    }

    /// What the merge queue's depth is off by, once nothing is in flight: all of it.
    pub(super) fn depth_error(&self, plan: &Plan) -> Option<i64> {
        let known = !self.found && self.empty.contains(MERGE_QUEUE);
        (known && plan.looks.is_still(plan.window)).then_some(-plan.depth)
    }

    fn looks(&self, plan: &Plan) -> QueueChecks {
        // Where nobody knows when mail was found last, it was now.
        let found = self.found || plan.looks.found.is_none();
        let asked = plan.campaigns.iter().filter(|c| !c.held).map(|c| c.name.as_str());
        let asked = asked.chain(plan.merge.as_ref().map(|_| MERGE_QUEUE));
        let asked = asked.chain(plan.express.as_ref().map(|_| EXPRESS));
        let domains = plan.domains.queues.iter().filter(|queue| !queue.former);
        let domains: Vec<String> = domains.map(|queue| idle_key(queue.place)).collect();
        let mut asked = asked.chain(domains.iter().map(String::as_str));
        let empty = !self.found
            && plan.permit == Permit::Send
            && !plan.campaigns.is_empty()
            && asked.all(|queue| self.empty.contains(queue));
        QueueChecks { found: found.then_some(plan.window), empty: empty.then_some(plan.window) }
    }

    /// The queues that this window found empty, or (`None`) no longer: those for which that is news.
    fn idle(
        &self,
        plan: &Plan,
        most: u64,
        domains: &DomainMoves,
    ) -> BTreeMap<String, Option<Idle>> {
        let before = known(plan);
        let mut news = BTreeMap::new();
        let mut found_empty = |queue: &str, most: u64| {
            let pause = before.get(queue).map_or(0, |idle| idle.pause);
            let (pause, until) = pause_after_empty(pause, plan.window, most);
            news.insert(queue.to_owned(), Some(Idle { until, pause }));
        };
        for campaign in &plan.campaigns {
            let name = campaign.name.as_str();
            // At rest a look that says little is made again; else another campaign has the slots.
            let counts = plan.rest == IdleMode::No || self.empty.contains(name);
            if self.had_mail.get(name) == Some(&false) && counts {
                found_empty(name, most);
            }
        }
        if !self.found && self.empty.contains(MERGE_QUEUE) {
            found_empty(MERGE_QUEUE, most);
        }
        for queue in &plan.domains.queues {
            if domains.empty.contains(&queue.place) {
                let most = if queue.former { FORMER_PAUSE } else { most };
                found_empty(&idle_key(queue.place), most);
            }
        }
        let fed: BTreeSet<String> = domains.fed.keys().map(|place| idle_key(*place)).collect();
        // What is found anywhere may come to stand in the merge queue.
        let has_mail = |queue: &str| match queue {
            MERGE_QUEUE => self.found,
            queue => self.had_mail.get(queue) == Some(&true) || fed.contains(queue),
        };
        news.retain(|queue, _| !has_mail(queue));
        news.extend(before.into_keys().filter(|queue| has_mail(queue)).map(|queue| (queue, None)));
        news
    }
}

/// The queues found empty before this window.
fn known(plan: &Plan) -> BTreeMap<String, Idle> {
    let campaigns = plan.campaigns.iter().map(|c| (c.name.clone(), c.idle));
    let domains = plan.domains.queues.iter().map(|queue| (idle_key(queue.place), queue.idle));
    let all = campaigns.chain(domains).chain([(MERGE_QUEUE.to_owned(), plan.merge_idle)]);
    all.filter_map(|(queue, idle)| Some((queue, idle?))).collect()
}

/// Tells the first mail that a window at rest finds, so that the next one does not rest.
#[derive(Default)]
pub(super) struct FirstMail(Cell<Option<Sender<String>>>);

impl FirstMail {
    /// The queue of the first mail, once there is one.
    pub(super) fn first(&self) -> Receiver<String> {
        let (sender, receiver) = channel();
        self.0.set(Some(sender));
        receiver
    }

    /// Mail was found in `queue`.
    pub(super) fn note(&self, queue: &str) {
        if let Some(sender) = self.0.take() {
            let _ = sender.send(queue.to_owned());
        }
    }
}

/// What is told at once where a window at rest finds mail in `queue`.
pub(super) fn woken(plan: &Plan, queue: &str) -> LedgerReport {
    let known = known(plan);
    let idle = [queue, MERGE_QUEUE].into_iter().filter(|queue| known.contains_key(*queue));
    LedgerReport {
        window: plan.window,
        idle: idle.map(|queue| (queue.to_owned(), None)).collect(),
        looks: QueueChecks { found: Some(plan.window), empty: None },
        upkeep: Upkeep { parts: plan.upkeep.parts, ..Upkeep::default() },
        ..LedgerReport::default()
    }
}
