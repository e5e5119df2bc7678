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

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as StdError;
use std::rc::Rc;

use futures_channel::oneshot::{Receiver, Sender, channel};
use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use tidegate_core::breaker::Permit;
use tidegate_core::config::EXPRESS;
use tidegate_core::counters::Counter;
use tidegate_core::email::Priority;
use tidegate_core::feed::pause_after_empty;
use tidegate_core::idle::QueueChecks;
use tidegate_core::parts::Upkeep;

use crate::poll::context::Context;
use crate::poll::limits::{LimitWindow, idle_key};
use crate::poll::plan::{IdleMode, Plan};
use crate::poll::sources::supply::PollVerdict;
use crate::ports::{Environment, Idle, Ledger as _, LedgerReport, MERGE_QUEUE, Queues as _};

/// The most windows for which an empty queue of limited mail is left alone. Pollers alone put mail there, and their
/// reports say so. Only after a crash between the two does the mail wait so long.
const LIMITED_PAUSE: u64 = 60;

/// Notes which queues were empty, and tells the ledger.
pub(crate) struct IdleQueues<'a, E: Environment> {
    ctx: &'a Context<'a, E>,
    answers: RefCell<QueueAnswers>,
    /// Correction to the merge queue's reported depth, in recipients.
    drift: Rc<Cell<i64>>,
    /// Tells the first mail that this window finds while all queues are thought to be empty.
    first_mail: RefCell<Option<Sender<String>>>,
}

impl<'a, E: Environment> IdleQueues<'a, E> {
    pub(crate) fn new(ctx: &'a Context<'a, E>) -> Self {
        let answers = RefCell::default();
        Self { ctx, answers, drift: Rc::default(), first_mail: RefCell::default() }
    }

    pub(super) fn answered(&self, queue: &str, verdict: PollVerdict, long: bool) {
        self.answers.borrow_mut().note(queue, verdict, long);
        if verdict == PollVerdict::Mail
            && let Some(sender) = self.first_mail.take()
        {
            let _ = sender.send(queue.to_owned());
        }
    }

    pub(super) fn beside(&self) -> LocalBoxFuture<'a, ()> {
        let (ctx, drift) = (self.ctx, Rc::clone(&self.drift));
        if ctx.plan.rest == IdleMode::No {
            return async move { drift.set(merge_drift(ctx).await) }.boxed_local();
        }
        let (sender, first) = channel();
        self.first_mail.replace(Some(sender));
        wake(ctx, first).boxed_local()
    }

    pub(super) fn closes(&self) {
        self.first_mail.take(); // no mail was found, and none will be
    }

    pub(super) fn report(&self, entry: &mut LedgerReport) {
        let (plan, answers) = (self.ctx.plan, self.answers.borrow());
        let error = answers.depth_error(plan).filter(|_| self.ctx.counts_merge());
        let drift = error.unwrap_or(self.drift.get());
        if drift != 0 {
            *entry.counters.entry(Counter::Fed.name().to_owned()).or_insert(0) += drift;
        }
        answers.tell(plan, self.ctx.config.idle_windows, &self.ctx.limits, entry);
    }
}

/// Writes the first mail that a window finds to the ledger at once, if every queue was thought to be empty:
/// the next window is about to be claimed, and the scheduler about to look.
async fn wake<E: Environment>(ctx: &Context<'_, E>, first: Receiver<String>) {
    if let Ok(queue) = first.await
        && let Err(error) = ctx.env.ledger.report(&woken(ctx.plan, &queue)).await
    {
        tracing::warn!(error = &error as &dyn StdError, "mail found, not told to the ledger");
    }
}

/// The correction to the merge queue's reported depth, in recipients, in every 16th window; else 0.
async fn merge_drift<E: Environment>(ctx: &Context<'_, E>) -> i64 {
    let Some(merge) = ctx.plan.merge.as_ref().filter(|_| ctx.counts_merge()) else { return 0 };
    match ctx.env.queues.depth(merge).await {
        Ok(depth) => {
            let mean = ctx.running_means.recipients_per_mail(merge.as_str());
            ctx.plan.drift(depth.visible, depth.in_flight, mean)
        }
        Err(error) => {
            tracing::warn!(error = &error as &dyn StdError, "merge queue not counted");
            0
        }
    }
}

/// Answers of the queues in one window, by [`Source::idle_key`](crate::poll::sources::message::Source::idle_key).
#[derive(Clone, Debug, Default)]
struct QueueAnswers {
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
    fn note(&mut self, queue: &str, verdict: PollVerdict, long: bool) {
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

    /// Adds to the report which queues to leave alone and which to ask again; `most` is the longest pause
    /// in windows. A window that did not serve normally, found nothing and has no news reports nothing at
    /// all.
    fn tell(&self, plan: &Plan, most: u64, limits: &LimitWindow, report: &mut LedgerReport) {
        report.idle = self.idle(plan, most, limits);
        report.looks = self.looks(plan);
        if plan.rest == IdleMode::No || self.found {
            return;
        }
        let unchanged = report.idle.is_empty() && report.looks == QueueChecks::default();
        if unchanged && !report.counters.contains_key(Counter::Fed.name()) {
            *report = LedgerReport::default();
        }
    }

    /// Correction to the merge queue's reported depth if the queue is proved empty and was so long enough
    /// that nothing is in flight: all of the depth is wrong then.
    fn depth_error(&self, plan: &Plan) -> Option<i64> {
        let known = !self.found && self.empty.contains(MERGE_QUEUE);
        (known && plan.looks.is_still(plan.window)).then_some(-plan.depth)
    }

    fn looks(&self, plan: &Plan) -> QueueChecks {
        // If the ledger does not know when mail was last found, this window counts.
        let found = self.found || plan.looks.found.is_none();

        let asked = plan.campaigns.iter().filter(|c| !c.held).flat_map(|c| &c.queues);
        let asked = asked.map(|queue| queue.key.as_str());
        let asked = asked.chain(plan.merge.as_ref().map(|_| MERGE_QUEUE));
        let asked = asked.chain(plan.express.as_ref().map(|_| EXPRESS));
        let domains = plan.limits.queues.iter().filter(|queue| !queue.former);
        let domains: Vec<String> = domains.map(|queue| idle_key(queue.place)).collect();
        let mut asked = asked.chain(domains.iter().map(String::as_str));
        let empty = !self.found
            && plan.permit == Permit::Send
            && !plan.campaigns.is_empty()
            && asked.all(|queue| self.empty.contains(queue));
        let at = |holds: bool| holds.then_some(plan.window);
        QueueChecks { found: at(found), empty: at(empty), due: None }
    }

    /// Queues newly found empty, with their next pause, and queues that have mail again (`None`). `most` is
    /// the longest pause in windows.
    ///
    /// Example: a campaign that was left alone for 2 windows is asked in window 100 and is empty: it is
    /// left alone for 4, until window 104.
    fn idle(&self, plan: &Plan, most: u64, limits: &LimitWindow) -> BTreeMap<String, Option<Idle>> {
        let before = known(plan);
        let mut news = BTreeMap::new();
        let mut found_empty = |queue: &str, most: u64| {
            // Timed mail becomes visible soon, and is to be found at once.
            if plan.looks.awaits(plan.window) {
                return;
            }
            let pause = before.get(queue).map_or(0, |idle| idle.pause);
            let (pause, until) = pause_after_empty(pause, plan.window, most);
            news.insert(queue.to_owned(), Some(Idle { until, pause }));
        };
        let queues = plan.campaigns.iter().flat_map(|c| c.queues.iter().map(move |q| (c, q)));
        for (campaign, queue) in queues {
            let name = queue.key.as_str();
            let is_beside = campaign.idle.is_none() && queue.priority > Priority::Normal;
            let most = if is_beside { 1 } else { most }; // it is asked in every window
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
        for queue in &plan.limits.queues {
            if limits.moves(queue.place).empty {
                found_empty(&idle_key(queue.place), LIMITED_PAUSE);
            }
        }
        let fed = plan.limits.queues.iter().filter(|queue| limits.moves(queue.place).fed > 0);
        let fed: BTreeSet<String> = fed.map(|queue| idle_key(queue.place)).collect();
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
    let queues = plan.campaigns.iter().flat_map(|campaign| &campaign.queues);
    let campaigns = queues.map(|queue| (queue.key.clone(), queue.idle));
    let domains = plan.limits.queues.iter().map(|queue| (idle_key(queue.place), queue.idle));
    let all = campaigns.chain(domains).chain([(MERGE_QUEUE.to_owned(), plan.merge_idle)]);
    all.filter_map(|(queue, idle)| Some((queue, idle?))).collect()
}

/// The report that is written at once when such a window finds mail in `queue`: this queue, and the merge
/// queue, count as empty no more, and mail was found in this window.
fn woken(plan: &Plan, queue: &str) -> LedgerReport {
    let known = known(plan);
    let idle = [queue, MERGE_QUEUE].into_iter().filter(|queue| known.contains_key(*queue));
    LedgerReport {
        window: plan.window,
        idle: idle.map(|queue| (queue.to_owned(), None)).collect(),
        looks: QueueChecks { found: Some(plan.window), ..QueueChecks::default() },
        upkeep: Upkeep { parts: plan.upkeep.parts, ..Upkeep::default() },
        ..LedgerReport::default()
    }
}
