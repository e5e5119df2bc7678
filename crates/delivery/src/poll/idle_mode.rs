//! How windows are served while all queues are empty, and what they report about it.
//!
//! A queue that was found empty is left alone for 1, 2, 4, … windows. Once every queue is left alone, most
//! windows ask nothing but the express queue, and some look into all queues. Example: the pauses of all
//! queues end in windows 100, 102 and 104, and a poller claims every window. Window 99 asks no queue.
//! Window 100 looks into all of them. Window 101 does not: the poller of 100 may be at it still. Window 102
//! looks again, unless the report of window 100 has put off all queues meanwhile. A window whose
//! predecessor was not claimed always looks.
//!
//! The first mail that such a window finds is told to the ledger at once, so that the next window serves
//! normally.

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

/// How a window is served, given what the ledger knows about empty queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdleMode {
    /// At least one queue may hold mail: queues are asked as planned.
    No,
    /// All queues are thought to be empty, and this window looks into each.
    Look,
    /// All queues are thought to be empty, and only the express queue is asked.
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
        // A queue whose group was removed from the configuration counts until it is found empty.
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

/// Answers of the queues in one window, by campaign's name, [`MERGE_QUEUE`], [`EXPRESS`] or `idle_key`.
#[derive(Clone, Debug, Default)]
pub(super) struct QueueAnswers {
    /// Whether the queue's last telling answer had mail.
    had_mail: BTreeMap<String, bool>,
    /// Queues that an empty long poll proved empty; an empty short poll, which asks a sample of SQS's
    /// servers, is no proof.
    empty: BTreeSet<String>,
    /// Whether any queue had mail at any time in the window.
    found: bool,
}

impl QueueAnswers {
    /// Notes the conclusion from one answer, and whether that was a long poll. An answer that leaves open
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

    /// Adds to the report which queues to leave alone and which to ask again; `most` is the longest pause
    /// in windows. A window that did not serve normally, found nothing and has no news reports nothing at
    /// all.
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

    /// Correction to the merge queue's reported depth if the queue is proved empty and was so long enough
    /// that nothing is in flight: all of the depth is wrong then.
    pub(super) fn depth_error(&self, plan: &Plan) -> Option<i64> {
        let known = !self.found && self.empty.contains(MERGE_QUEUE);
        (known && plan.looks.is_still(plan.window)).then_some(-plan.depth)
    }

    fn looks(&self, plan: &Plan) -> QueueChecks {
        // If the ledger does not know when mail was last found, this window counts.
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

    /// Queues newly found empty, with their next pause, and queues that have mail again (`None`). `most` is
    /// the longest pause in windows.
    ///
    /// Example: a campaign that was left alone for 2 windows is asked in window 100 and is empty: it is
    /// left alone for 4, until window 104.
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
            // While all queues are thought to be empty, only an empty long poll doubles the pause; an empty
            // short poll is repeated by the next look. Otherwise any conclusion will do: other campaigns
            // used the slots, so an error costs nothing.
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
        // Mail of any queue may be fed into the merge queue.
        let has_mail = |queue: &str| match queue {
            MERGE_QUEUE => self.found,
            queue => self.had_mail.get(queue) == Some(&true) || fed.contains(queue),
        };
        news.retain(|queue, _| !has_mail(queue));
        news.extend(before.into_keys().filter(|queue| has_mail(queue)).map(|queue| (queue, None)));
        news
    }
}

/// Queues that were known as empty when the window was claimed.
fn known(plan: &Plan) -> BTreeMap<String, Idle> {
    let campaigns = plan.campaigns.iter().map(|c| (c.name.clone(), c.idle));
    let domains = plan.domains.queues.iter().map(|queue| (idle_key(queue.place), queue.idle));
    let all = campaigns.chain(domains).chain([(MERGE_QUEUE.to_owned(), plan.merge_idle)]);
    all.filter_map(|(queue, idle)| Some((queue, idle?))).collect()
}

/// Tells the first mail that a window finds while all queues are thought to be empty.
#[derive(Default)]
pub(super) struct FirstMail(Cell<Option<Sender<String>>>);

impl FirstMail {
    /// Resolves to the name of the queue that gives mail first.
    pub(super) fn first(&self) -> Receiver<String> {
        let (sender, receiver) = channel();
        self.0.set(Some(sender));
        receiver
    }

    /// Notes mail in `queue`; calls after the first have no effect.
    pub(super) fn note(&self, queue: &str) {
        if let Some(sender) = self.0.take() {
            let _ = sender.send(queue.to_owned());
        }
    }
}

/// The report that is written at once when such a window finds mail in `queue`: this queue, and the merge
/// queue, count as empty no more, and mail was found in this window.
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
