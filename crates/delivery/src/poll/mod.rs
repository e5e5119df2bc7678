//! The poller's run: one window, from its claim to its report.
//!
//! The steps stand here in their order, one module each:
//!
//! 1. `claim`: the tick is admitted, and its window claimed.
//! 2. `plan`: slots, campaigns, weights and holds, before anything is received.
//! 3. `sources`: which queue is asked for how much mail. With a merge queue the `feed` fills it first.
//! 4. `rules`: the optional rules, called by name in each step; each may keep a mail, or take it out of the window.
//! 5. `drain`: the slots, the sends, and their outcomes.
//! 6. `settle`: each message is deleted, moved or shown again.
//! 7. `report`: the counts go to the ledger, and the control record learns how the sends ended.

mod claim;
mod context;
mod control_record;
mod drain;
mod feed;
mod limits;
mod plan;
mod record;
mod report;
mod room;
mod rules;
mod running_means;
mod settle;
mod sources;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::rc::Rc;
use std::time::Duration;

use claim::{ClaimedWindow, claim};
use context::{Context, ExclusionCache, Notes};
use drain::{DrainResult, drain};
use feed::{Feed, feed};
use futures_channel::mpsc::unbounded;
use futures_util::future::{join, join3};
use limits::LimitWindow;
use plan::Plan;
use rules::Rules;
use running_means::RunningMeans;
use settle::settle;
use sources::supply::Lanes;
use tidegate_core::breaker::Permit;
use tidegate_core::config::{DECIDED, PollerConfig, REPORTED};
use tidegate_core::control::{Hold, HoldReason};
use tidegate_core::counters::Counter;
use tidegate_core::limiter::WindowLeft;
use tidegate_core::tick::Tick;

use crate::ports::{Environment, Ledger as _, Mailer as _, Ports, Queues as _};

pub use claim::PollError;
pub(crate) use limits::was_used;
pub use limits::{all_limits_waiting, limit_waiting};
pub(crate) use report::sent_by_campaign;
pub use report::{End, WindowReport};
pub use settle::pack;

/// The poller: ports, settings, and what it keeps from window to window: running means, on whose presence nothing
/// depends, and the exclusion list.
#[derive(Debug)]
pub struct Poller<E: Environment> {
    env: Ports<E>,
    config: PollerConfig,
    running_means: RunningMeans,
    exclusions: ExclusionCache,
}

impl<E: Environment> Poller<E> {
    /// Creates a poller on the ports of `env`. Its running means are empty.
    pub fn new(env: Ports<E>, config: PollerConfig) -> Self {
        let running_means = RunningMeans::nothing(config.memory.mail_bytes());
        Self { env, config, running_means, exclusions: ExclusionCache::default() }
    }

    /// Serves the tick's window; without a tick the next whole second, at the account's quota.
    ///
    /// # Errors
    /// [`PollError`] where the window cannot be claimed or no quota is known. An expired, early,
    /// claimed or owed window is a result, not an error.
    pub async fn serve(&self, tick: Option<Tick>) -> Result<WindowReport, PollError> {
        match claim(&self.env, &self.config, tick).await? {
            // Boxed: a window's state is large, and would make every enclosing future as large.
            Ok(claimed) => Ok(Box::pin(self.claimed(claimed)).await),
            Err(report) => Ok(report),
        }
    }

    /// Serves a window that this poller has claimed.
    async fn claimed(&self, claimed: ClaimedWindow) -> WindowReport {
        let (window, means) = (claimed.request.window, &self.running_means);
        let quota = claimed.request.quota;
        let plan = Plan::new(&self.config, window, quota, &claimed.standing, means);
        let record = self.config.audit.then(|| record::begin(&plan, &claimed));
        let ClaimedWindow { request, time, arrival, .. } = claimed;
        let ctx = Context {
            env: &self.env,
            config: &self.config,
            running_means: means,
            exclusions: &self.exclusions,
            plan: &plan,
            time,
            token: request.token,
            counts: RefCell::new(arrival),
            notes: Notes { record: RefCell::new(record), ..Notes::default() },
            limits: LimitWindow::new(&plan.limits),
            buffered: Cell::default(),
            highest_receive_count: Cell::new(0),
        };
        let mut report = WindowReport::new(window, End::Served);
        report.rate_per_second = Some(plan.rate);
        report.slots = plan.slot_count();
        if plan.ends_the_day() {
            let (reason, detail) = (HoldReason::DailyBudget, plan.day_in_words());
            let holding = control_record::hold(&ctx, None, reason, Hold::new(&detail, ctx.now()));
            ctx.within(DECIDED, holding).await;
        }
        if let Some(end) = idle_end(&plan) {
            report.end = end;
            report.counts.add(Counter::Unused, report.slots);
            report.record = ctx.notes.record.take();
            return report;
        }
        serve_slots(&ctx, report).await
    }
}

/// The end of a window in which nothing can be sent; none if there are slots to serve.
fn idle_end(plan: &Plan) -> Option<End> {
    if plan.is_held() {
        Some(End::Held)
    } else if plan.permit == Permit::Nothing {
        Some(End::Blocked)
    } else if plan.slots.is_empty() {
        Some(End::NoSlots)
    } else {
        plan.asks_nothing().then_some(End::Idle)
    }
}

/// Runs feed, drain and settling side by side in one future, and reports once all have ended. Settling ends
/// when all senders of `jobs` are dropped: those of feed, drain and sweep, and at last that of the rules.
async fn serve_slots<E: Environment>(ctx: &Context<'_, E>, report: WindowReport) -> WindowReport {
    let calls = ctx.env.queues.calls();
    let (jobs, to_settle) = unbounded();
    let rules = Rc::new(Rules::new(ctx, &jobs));
    let (arrivals, arrived) = unbounded();
    let (compressing, feeding_rules) = (Cell::default(), Rc::clone(&rules));
    let feeding =
        feed(Feed { ctx, rules: feeding_rules, jobs: jobs.clone(), arrivals, compressing });
    let draining = drain(ctx, Rc::clone(&rules), jobs.clone(), arrived);
    let serving = async {
        let ended = join(feeding, draining).await;
        for job in rules.close().await {
            let _ = jobs.unbounded_send(job);
        }
        drop(jobs);
        ended
    };
    let beside = join(warm(ctx), rules.beside());
    let ((fed, drained), (), _) = join3(serving, settle(ctx, to_settle), beside).await;
    ctx.count(Counter::SqsCalls, ctx.env.queues.calls() - calls);
    ctx.count(Counter::Windows, 1);
    tell(ctx, &rules, report, fed, drained).await
}

/// Opens connections to SES during the lead if mail is expected and nothing was sent for 20 s: the TLS
/// handshakes would delay the first slots' sends.
async fn warm<E: Environment>(ctx: &Context<'_, E>) {
    let is_before = ctx.now() < ctx.plan.window.opens();
    if is_before && ctx.plan.expects_mail() && ctx.running_means.is_cold(ctx.monotonic()) {
        let connections = ctx.running_means.connections(ctx.plan.rate.as_per_second());
        ctx.env.mailer.warm(connections).await;
    }
}

/// Completes the report, and writes the window's counts and conclusions to the ledger.
async fn tell<E: Environment>(
    ctx: &Context<'_, E>,
    rules: &Rules<'_, E>,
    mut report: WindowReport,
    fed: Option<Lanes>,
    drained: DrainResult,
) -> WindowReport {
    let debts = debts(ctx.plan, fed.as_ref(), &drained);
    for (campaign, waited) in &drained.waited {
        // Rounded once, in the sum: an express mail often waits for less than a second.
        let seconds = (*waited + Duration::from_millis(500)).as_secs();
        ctx.count_for(Counter::Waited, campaign, seconds);
    }
    let (sum, answers) = drained.answers;
    report.latency_ms = (answers > 0).then(|| sum.as_secs_f64() * 1e3 / f64::from(answers));
    report.highest_receive_count = ctx.highest_receive_count.get();
    report.counts.clone_from(&ctx.counts.borrow());
    let had_mail = fed.as_ref().map(Lanes::had_mail).or(drained.had_mail);
    report.fates = ctx.notes.fates.take();
    report.spans = ctx.config.traces.as_ref().map(|_| record::spans(ctx, &report.counts));
    report.record = ctx.notes.record.take();
    if let Some(record) = &mut report.record {
        record::end(record, had_mail.unwrap_or_default(), &report.counts);
    }
    if report.count(Counter::ReceivedOften) > 0 {
        tracing::error!(
            receive_count = report.highest_receive_count,
            "a message is received again and again without being sent"
        );
    }
    let (slots, mails) = (report.count(Counter::Unused), drained.waiting.unwrap_or_default());
    let left = WindowLeft { window: report.window, slots, mails };
    report::log(&left, || ctx.plan.limits.closed());
    let mut entry = report.to_ledger(&debts);
    entry.window_left = Some(left);
    entry.upkeep = ctx.plan.upkeep.clone().beside(&entry.counters);
    rules.report(&mut entry);
    let has_sent = report.count(Counter::Refused) == 0 && report.count(Counter::Mails) > 0;
    let raising = async {
        if ctx.plan.factor.is_lowered() && has_sent {
            control_record::raise_factor(ctx).await;
        }
    };
    let concluding = control_record::conclude(ctx, rules.wrote_control(), |control| {
        rules.conclude(control);
    });
    let adding = ctx.within(REPORTED, ctx.env.ledger.report(&entry));
    let changing = ctx.within(REPORTED, join(raising, concluding));
    let (added, _) = join(adding, changing).await;
    if !matches!(added, Some(Ok(()))) {
        let error = added.and_then(Result::err).map(Box::<dyn StdError>::from);
        tracing::error!(error = error.as_deref(), "report not added to the ledger");
    }
    report
}

/// Changes of the campaigns' debts in this window, in thousandths of a recipient. With a merge queue, mail
/// becomes a debt as it is fed; recipients that were sent to from limit queues count beside it. In direct
/// mode the drain counts what it received.
fn debts(plan: &Plan, fed: Option<&Lanes>, drained: &DrainResult) -> BTreeMap<String, i64> {
    let changes = match (fed, &drained.debts) {
        (Some(fed), _) => fed.debt_changes(&plan.by_lane(&drained.limited)),
        (None, Some(debts)) => debts.clone(),
        (None, None) => return BTreeMap::new(),
    };
    plan.lanes().map(|campaign| campaign.name.clone()).zip(changes).collect()
}
