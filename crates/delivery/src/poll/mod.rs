//! The poller's run: one window, from its claim to its report.

mod changes;
mod context;
mod deferral;
mod domains;
mod drain;
mod feed;
mod idle_mode;
mod message;
mod outcome;
mod plan;
mod queue_supply;
mod report;
mod room;
mod running_means;
mod settle;
mod time;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error as StdError;
use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use futures_channel::mpsc::unbounded;
use futures_util::future::{Either, join, join3, select};
use thiserror::Error;
use tidegate_core::Window;
use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::breaker::Permit;
use tidegate_core::config::{DECIDED, PollerConfig, REPORTED};
use tidegate_core::control::HoldReason;
use tidegate_core::grid::SlotGrid;
use tidegate_core::rate::Rate;
use tidegate_core::tick::{Admission, Tick};

use crate::environment::Environment;
use crate::ports::{
    Account as _, Claim, ClaimRequest, Clock as _, Entropy as _, Ledger as _, Mailer as _,
    PortError, QueueDepth, Queues as _, Standing,
};
use crate::{account, quota};
use changes::Change;
use context::Context;
use deferral::DeferralWriter;
pub use domains::domain_waiting;
use drain::DrainCounts;
use feed::FeedCounts;
use idle_mode::{FirstMail, IdleMode};
use plan::Plan;
pub(crate) use report::sent_by_campaign;
pub use report::{End, WindowReport};
use running_means::RunningMeans;
pub(crate) use settle::pack;
use settle::settle;
use time::WindowTime;

/// Without a scheduler, which renews it, the ledger's record of the account is renewed once it is this old.
const KEPT_EVERY: Duration = Duration::from_mins(1);
/// Receive count above which a message raises an alarm: it is received again and again and never sent.
const MANY_RECEIVES: u32 = 100;

/// Reasons why a window was not served. Nothing was sent, and nothing is lost.
#[derive(Debug, Error)]
pub enum PollError {
    /// The claim could not be written, so the poller sends nothing.
    #[error("window {window} is not served: the ledger is out of reach")]
    Ledger {
        /// The window that could not be claimed; its mail waits for the next ones.
        window: Window,
        /// The ledger's answer to the claim, or why there was none.
        source: PortError,
    },
    /// The event was empty, so the quota has to come from SES: `GetAccount` failed, and neither settings
    /// nor ledger hold a quota.
    #[error("no quota: SES does not tell it, and none is configured or known")]
    Quota {
        /// The failure of `GetAccount`.
        source: PortError,
    },
}

/// The poller: ports, settings, and running means that it keeps from window to window. Nothing depends on
/// the means being right or present.
#[derive(Debug)]
pub struct Poller<E> {
    env: E,
    config: PollerConfig,
    running_means: RunningMeans,
}

impl<E: Environment> Poller<E> {
    /// Creates a poller on the ports of `env`. Its running means are empty.
    pub fn new(env: E, config: PollerConfig) -> Self {
        let running_means = RunningMeans::nothing(config.memory.mail_bytes());
        Self { env, config, running_means }
    }

    /// Serves the tick's window; without a tick the next whole second, at the account's quota.
    ///
    /// # Errors
    /// [`PollError`] where the window cannot be claimed or no quota is known. An expired, early,
    /// claimed or owed window is a result, not an error.
    pub async fn serve(&self, tick: Option<Tick>) -> Result<WindowReport, PollError> {
        let time = WindowTime::start(self.env.clock());
        let now = time.now(self.env.clock());
        let tick = match tick {
            Some(tick) => tick,
            None => match self.next_second(Window::containing(now).plus(1)).await? {
                Ok(tick) => tick,
                Err(report) => return Ok(report),
            },
        };
        let ended = |end| WindowReport::new(tick.window, end);
        match tick.admit(time.now(self.env.clock())) {
            Admission::Expired => return Ok(ended(End::Expired)),
            Admission::Early => return Ok(ended(End::Early)),
            Admission::Admitted => {}
        }
        // The configured cap holds whatever rate the tick names.
        let rate = self.config.cap.quota.map_or(tick.rate, |cap| cap.min(tick.rate));
        if SlotGrid::new(rate, self.config.rate_margin).slots_of(tick.window).is_empty() {
            return Ok(ended(End::NoSlots));
        }
        let token = self.env.entropy().token();
        let (rate_margin, limits) = (self.config.rate_margin, self.config.domains.limits.digest());
        let request = ClaimRequest { window: tick.window, rate, rate_margin, limits, token };
        let claim = self.env.ledger().claim(&request).await;
        match claim.map_err(|source| PollError::Ledger { window: tick.window, source })? {
            Claim::Taken { owed: true, .. } => Ok(ended(End::Owed)),
            Claim::Taken { .. } => Ok(ended(End::Duplicate)),
            // Boxed: a window's state is large, and would make every enclosing future as large.
            Claim::Claimed(standing) => Ok(Box::pin(self.claimed(&request, &standing, time)).await),
        }
    }

    /// The tick for `window` at the account's quota; a report if SES gives the account none. As the
    /// scheduler would, this keeps SES's answer in the ledger: once a minute, and in every window in which
    /// a hold may wait for it.
    async fn next_second(&self, window: Window) -> Result<Result<Tick, WindowReport>, PollError> {
        let standing = self.env.ledger().read().await.ok();
        let control = standing.as_ref().map(|standing| &standing.control);
        let asked = self.env.clock().wall();
        let answer = self.env.account().account().await;
        let rate: Option<Rate> = match answer {
            Ok(status) => {
                let fresh = control.and_then(|control| control.daily).is_some_and(|reading| {
                    asked.saturating_since(reading.read_at.into()) < KEPT_EVERY
                });
                let waits = control.is_some_and(|control| !control.holds.is_empty());
                if let Some(standing) = standing.as_ref().filter(|_| !fresh || waits) {
                    let (ledger, daily) = (self.env.ledger(), self.config.cap.daily);
                    account::keep(ledger, daily, standing, Some(&status), asked).await;
                }
                quota::told(&status, &self.config.cap)
            }
            Err(source) => {
                let rate = quota::remembered(control, &self.config.cap);
                if rate.is_none() {
                    return Err(PollError::Quota { source });
                }
                rate
            }
        };
        Ok(rate
            .map(|rate| Tick { window, rate })
            .ok_or_else(|| WindowReport::new(window, End::NoQuota)))
    }

    /// Serves a window that this poller has claimed.
    async fn claimed(
        &self,
        request: &ClaimRequest,
        standing: &Standing,
        time: WindowTime,
    ) -> WindowReport {
        let plan =
            Plan::new(&self.config, request.window, request.rate, standing, &self.running_means);
        let mut report = WindowReport::new(plan.window, End::Served);
        report.rate_per_second = Some(plan.rate);
        report.slots = plan.slot_count();
        let ctx = Context {
            env: &self.env,
            config: &self.config,
            running_means: &self.running_means,
            plan: &plan,
            time,
            token: request.token.clone(),
            finds: FirstMail::default(),
            deferral_writer: DeferralWriter::new(
                self.level(standing, request.window),
                plan.slot_count(),
                self.config.memory,
            ),
        };
        if plan.ends_the_day() {
            let (reason, detail) = (HoldReason::DailyBudget, plan.day_in_words());
            let hold = Change::Hold { campaign: None, reason, detail };
            ctx.within(DECIDED, changes::apply(&ctx, hold)).await;
        }
        let idle = if plan.is_held() {
            Some(End::Held)
        } else if plan.permit == Permit::Nothing {
            Some(End::Blocked)
        } else if plan.slots.is_empty() {
            Some(End::NoSlots)
        } else {
            plan.asks_nothing().then_some(End::Idle)
        };
        if let Some(end) = idle {
            report.end = end;
            report.slots_unused = report.slots;
            return report;
        }
        let calls = self.env.queues().calls();
        let before = self.env.mailer().takes();
        let (fed, drained, drift) = self.serve_slots(&ctx, &mut report).await;
        report.sqs_calls = self.env.queues().calls() - calls;
        report.withheld(self.env.mailer().takes(), before);
        self.report(&ctx, report, fed, drained, drift).await
    }

    /// The back-pressure level by which mail is deferred: `clear` if no store for deferred mail is
    /// configured.
    fn level(&self, standing: &Standing, window: Window) -> BackPressureLevel {
        let level = || standing.control.level(window.opens().into());
        self.env.deferral().map_or(BackPressureLevel::Clear, |_| level())
    }

    /// Runs feed, drain and settling side by side in one future, and returns once all have ended. Settling
    /// ends when all senders of `jobs` are dropped: those of feed and drain, and at last that of deferral.
    async fn serve_slots(
        &self,
        ctx: &Context<'_, E>,
        report: &mut WindowReport,
    ) -> (FeedCounts, DrainCounts, i64) {
        let buffered = Cell::new(0);
        let (jobs, to_settle) = unbounded();
        let (arrivals, arrived) = unbounded();
        let feeding = {
            let jobs = jobs.clone();
            async move {
                match &ctx.plan.merge {
                    Some(merge) => feed::feed(ctx, merge, &jobs, &arrivals).await,
                    None => FeedCounts::default(),
                }
            }
        };
        let draining = drain::drain(ctx, jobs.clone(), arrived, &buffered);
        // Deferred mail is written after the last slot: the upload then delays no send.
        let deferral = async move {
            let (fed, drained) = join(feeding, draining).await;
            let written = ctx.deferral_writer.write(ctx, &jobs).await;
            (fed, drained, written)
        };
        let settling = settle(ctx, to_settle, &buffered);
        let beside = join3(self.warm(ctx), self.drift(ctx), self.gone(ctx));
        let serving = pin!(join3(deferral, settling, beside));
        let waking = pin!(self.wake(ctx));
        let served = match select(serving, waking).await {
            Either::Left((served, _)) => served,
            Either::Right((never, _)) => match never {},
        };
        let ((fed, mut drained, written), settled, ((), drift, gone)) = served;
        report.settled(settled);
        drained.domains.gone.extend(gone);
        report.shed(written);
        (fed, drained, drift)
    }

    /// Writes the first mail that a window finds to the ledger at once, if every queue was thought to be
    /// empty: the next window is about to be claimed, and the scheduler about to look. Never returns.
    async fn wake(&self, ctx: &Context<'_, E>) -> Infallible {
        if ctx.plan.rest != IdleMode::No
            && let Ok(queue) = ctx.finds.first().await
            && let Err(error) = self.env.ledger().report(&idle_mode::woken(ctx.plan, &queue)).await
        {
            tracing::warn!(error = &error as &dyn StdError, "mail found, not told to the ledger");
        }
        pending().await
    }

    /// Opens connections to SES during the lead if mail is expected and nothing was sent for 20 s: the TLS
    /// handshakes would delay the first slots' sends.
    async fn warm(&self, ctx: &Context<'_, E>) {
        let before_it_opens = ctx.now() < ctx.plan.window.opens();
        if before_it_opens && ctx.plan.expects_mail() && self.running_means.is_cold(ctx.monotonic())
        {
            let connections = self.running_means.connections(ctx.plan.rate.as_per_second());
            self.env.mailer().warm(connections).await;
        }
    }

    /// The correction to the merge queue's reported depth, in recipients, in every 16th window; else 0.
    async fn drift(&self, ctx: &Context<'_, E>) -> i64 {
        let Some(merge) = &ctx.plan.merge else { return 0 };
        if !ctx.counts_merge() || ctx.plan.rest != IdleMode::No {
            return 0;
        }
        match self.env.queues().depth(merge).await {
            Ok(depth) => {
                let mean = self.running_means.recipients_per_mail(merge.as_str());
                ctx.plan.drift(depth.visible, depth.in_flight, mean)
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn StdError, "merge queue not counted");
                0
            }
        }
    }

    /// The place of the domain queue of `*` if SQS counts nothing in it, in every 16th window. Its mail is
    /// invisible for minutes at a time, so an empty receive proves nothing.
    async fn gone(&self, ctx: &Context<'_, E>) -> Option<usize> {
        let queue = ctx.plan.domains.queues.iter().find(|queue| queue.hides && queue.depth > 0)?;
        if !ctx.counts_merge() {
            return None;
        }
        match self.env.queues().depth(&queue.queue).await {
            Ok(depth) => (depth == QueueDepth::default()).then_some(queue.place),
            Err(error) => {
                tracing::warn!(error = &error as &dyn StdError, "queue of * not counted");
                None
            }
        }
    }

    async fn report(
        &self,
        ctx: &Context<'_, E>,
        mut report: WindowReport,
        fed: FeedCounts,
        drained: DrainCounts,
        drift: i64,
    ) -> WindowReport {
        let debts = debts(ctx.plan, &fed, &drained);
        let answers = fed.asked.and(drained.asked);
        let domains = fed.domains.and(drained.domains);
        report.latency_ms = (drained.answers > 0)
            .then(|| drained.latency_sum.as_secs_f64() * 1e3 / f64::from(drained.answers));
        report.highest_receive_count = fed.highest_receive_count.max(drained.highest_receive_count);
        report.fed = fed.by_campaign;
        report.dead = fed.dead + drained.dead;
        report.taken = drained.taken;
        report.back = drained.back;
        report.sent = drained.sent;
        // Rounded once, in the sum: an express mail often waits for less than a second.
        let seconds = |sum: Duration| (sum + Duration::from_millis(500)).as_secs();
        let rounded = |(campaign, sum)| (campaign, seconds(sum));
        report.waited = drained.waited.into_iter().map(rounded).collect();
        report.mails = drained.mails;
        (report.first, report.first_waited) = drained.first;
        report.refused = drained.refused;
        report.failed = drained.failed;
        report.retried = drained.retried;
        report.put_back = drained.put_back;
        report.left = drained.left;
        report.late = drained.late;
        report.domain_fed = ctx.plan.domains.by_name(&domains.fed);
        report.domain_left = domains.left.values().sum();
        report.already_sent = drained.already_sent;
        report.parked = drained.parked;
        report.slots_skipped = drained.skipped;
        report.slots_unused = drained.unused;
        if report.highest_receive_count > MANY_RECEIVES {
            tracing::error!(
                receive_count = report.highest_receive_count,
                "a message is received again and again without being sent"
            );
        }
        let drift = answers.depth_error(ctx.plan).filter(|_| ctx.counts_merge()).unwrap_or(drift);
        let mut entry = report.to_ledger(&debts);
        if drift != 0 {
            *entry.counters.entry("fed".to_owned()).or_insert(0) += drift;
        }
        domains.tell(&ctx.plan.domains, &mut entry);
        entry.upkeep = ctx.plan.upkeep.clone().beside(&entry.counters);
        answers.tell(ctx.plan, self.config.idle_windows, &domains, &mut entry);
        let lowered = ctx.plan.factor.is_lowered() && report.refused == 0 && report.mails > 0;
        let recovering = async {
            if lowered {
                changes::recover(ctx).await;
            }
        };
        let noting = changes::conclude(ctx, &drained.noted);
        let adding = ctx.within(REPORTED, self.env.ledger().report(&entry));
        let changing = ctx.within(REPORTED, join(recovering, noting));
        let (added, _) = join(adding, changing).await;
        if !matches!(added, Some(Ok(()))) {
            let error = added.and_then(Result::err).map(Box::<dyn StdError>::from);
            tracing::error!(error = error.as_deref(), "report not added to the ledger");
        }
        report
    }
}

/// Changes of the campaigns' debts in this window, in thousandths of a recipient. With a merge queue, mail
/// becomes a debt as it is fed; recipients that were sent to from domain queues count beside it. In direct
/// mode the drain counts what it received.
fn debts(plan: &Plan, fed: &FeedCounts, drained: &DrainCounts) -> BTreeMap<String, i64> {
    let Some(intake) = &fed.intake else { return drained.debts.clone() };
    let sent = drain::limited_by_lane(plan.lanes(), &drained.limited);
    let changes = intake.debt_changes_with(&sent, &fed.had_limited_mail);
    plan.lanes().map(|campaign| campaign.name.clone()).zip(changes).collect()
}
