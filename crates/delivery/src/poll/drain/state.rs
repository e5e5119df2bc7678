//! State of the drain, and its changes with each event: no IO, no waiting.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as StdError;
use std::rc::Rc;
use std::time::Duration;

use futures_channel::mpsc::UnboundedSender;
use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use tidegate_core::config::{DECIDED, EXPRESS};
use tidegate_core::control::{Hold, HoldReason};
use tidegate_core::counters::Counter;
use tidegate_core::cycle::Cycle;
use tidegate_core::limiter::{Limiter, Line, WaitingMails};

use super::slots::{Slots, Wake};
use crate::poll::context::Context;
use crate::poll::control_record;
use crate::poll::rules::{Effect, Kept, Leave, MailStep, NextRule, Rules};
use crate::poll::running_means::LONGEST_DELAY;
use crate::poll::settle::Job;
use crate::poll::sources::Sources;
use crate::poll::sources::message::{Message, Rejected, Source, read, receipt, reject};
use crate::poll::sources::supply::{
    FinishedReceive, KeptMail, MailAtHand, NextReceive, SourceAnswer,
};
use crate::ports::{Environment, VISIBILITY_TIMEOUT};

/// Stage of the drain; it only advances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DrainStage {
    Sending,
    /// No further send starts: SES refused, all sending is held, or a rule stopped the window.
    Stopped,
    /// Mail without a slot is being left to its queue.
    Over,
}

/// Work that a rule or the drain began, once it is done.
pub(super) struct FinishedWork {
    /// The mail that a rule kept meanwhile.
    kept: KeptMail,
    effects: Vec<Effect>,
}

/// The result of one drain, beside its counts.
#[derive(Debug, Default)]
pub(crate) struct DrainResult {
    /// Waiting time of accepted mail, times its recipients, by campaign.
    pub(crate) waited: BTreeMap<String, Duration>,
    /// The part of the recipients sent to that came from limit queues, by campaign.
    pub(crate) limited: BTreeMap<String, u64>,
    /// Sum and number of SES's answer times.
    pub(crate) answers: (Duration, u32),
    /// Changes of the debts by lane, in thousandths of a recipient; none with a merge queue.
    pub(crate) debts: Option<Vec<i64>>,
    /// Whether each lane had as much mail as its share; none with a merge queue.
    pub(crate) had_mail: Option<Vec<bool>>,
    /// The mails that waited when no slot was left.
    pub(crate) waiting: Option<WaitingMails>,
}

// More than 12 fields: the state of one loop, which every event may change.
pub(super) struct Drain<'a, E: Environment> {
    pub(super) ctx: &'a Context<'a, E>,
    pub(super) rules: Rc<Rules<'a, E>>,
    jobs: UnboundedSender<Job>,
    sources: Sources<'a, E>,
    slots: Slots<'a>,
    max_in_flight: usize,
    /// Recipients that campaigns may still be sent in this window, by the daily quota.
    pub(super) for_campaigns: u64,
    /// Mail that rules keep until the ledger has answered.
    kept: KeptMail,
    work: Vec<LocalBoxFuture<'a, FinishedWork>>,
    /// Campaigns that this window held.
    held: BTreeSet<String>,
    /// Holds that this window asked for, by campaign (`None`: all): each is written once.
    asked_to_hold: BTreeSet<(Option<String>, HoldReason)>,
    stage: DrainStage,
    pub(super) result: DrainResult,
}

impl<'a, E: Environment> Drain<'a, E> {
    pub(super) fn new(
        ctx: &'a Context<'a, E>,
        rules: Rc<Rules<'a, E>>,
        jobs: UnboundedSender<Job>,
    ) -> Self {
        let plan = ctx.plan;
        let rate = plan.rate.as_per_second();
        let in_flight = || ctx.running_means.max_in_flight(rate, ctx.config.send_timeout);
        let cycle = if plan.merge.is_some() { Cycle::single() } else { plan.turns.cycle.clone() };
        let limiter = Limiter::new(plan.grid, plan.slots.clone(), cycle)
            .with_floor(ctx.config.campaign_floor)
            .with_turns(plan.cycle.clone(), plan.lines_of_campaigns());
        Self {
            jobs,
            sources: Sources::new(ctx),
            slots: Slots::new(plan, &ctx.limits, limiter),
            ctx,
            rules,
            max_in_flight: ctx.config.max_in_flight.unwrap_or_else(in_flight),
            for_campaigns: plan.for_campaigns,
            kept: KeptMail::default(),
            work: Vec::new(),
            held: BTreeSet::new(),
            asked_to_hold: BTreeSet::new(),
            stage: DrainStage::Sending,
            result: DrainResult::default(),
        }
    }

    /// The next receive to start, if any; the caller repeats it until there is none.
    pub(super) fn next_receive(&mut self) -> Option<NextReceive> {
        if self.stage > DrainStage::Sending || !self.rules.want_mail() {
            return None;
        }
        let buffered = self.ctx.buffered.get() as u64;
        self.sources.next(&MailAtHand { limiter: &self.slots.limiter, kept: self.kept, buffered })
    }

    /// The next send to start, or the next thing to wait for.
    ///
    /// Three checks come after a slot is acquired, since they may have changed while the mail waited: its
    /// campaign is held (put back); its send could end after its visibility timeout of 30 s, when another
    /// poller may have it (left); the daily quota does not suffice (left). The slot of such a mail is
    /// spent.
    pub(super) fn next_send(&mut self, in_flight: usize) -> Wake {
        let ctx = self.ctx;
        loop {
            if in_flight >= self.max_in_flight && self.slots.limiter.slots_left() > 0 {
                return Wake::Full;
            }
            let (message, slot) = match self.slots.next(ctx.now()) {
                Ok(acquired) => acquired,
                Err(wake) => return wake,
            };
            if self.held.contains(&message.envelope.campaign) {
                self.put_back(&message);
                continue;
            }
            let ends = ctx.monotonic() + ctx.config.send_timeout;
            if ends.saturating_since(message.held.since) >= VISIBILITY_TIMEOUT {
                self.leave(&message);
                continue;
            }
            if message.line != Line::Express {
                match self.for_campaigns.checked_sub(message.recipients()) {
                    Some(rest) => self.for_campaigns = rest,
                    None => {
                        self.end_the_day(message.recipients());
                        self.leave(&message);
                        continue;
                    }
                }
            }
            let latest = self.slots.latest(slot, &message);
            return Wake::Start(message, slot, ctx.time.monotonic(latest));
        }
    }

    /// Takes a receive's answer: counts it, reads its messages, and passes each through the rules.
    pub(super) fn received(&mut self, answer: FinishedReceive) {
        let FinishedReceive { origin, asked, long, result } = answer;
        let ctx = self.ctx;
        let counted = result.as_ref().ok().map(|(messages, _)| messages.len() as u64);
        let judged = self.sources.judge(&origin, asked, counted, long);
        let Some(SourceAnswer { source, of_queue, verdict }) = judged else { return };
        self.rules.answered(&source.idle_key(), of_queue, long);
        let (messages, since) = result.unwrap_or_else(|error| {
            tracing::warn!(error = &error as &dyn StdError, ?verdict, "not received");
            (Vec::new(), ctx.monotonic())
        });
        self.ctx.buffered.set(self.ctx.buffered.get() + messages.len());
        let (mut usable, mut is_left) = (0, false);
        for received in messages {
            let count = received.receive_count;
            ctx.note_received(&received);
            match read(ctx, received, &source, since) {
                Ok(mut message) => {
                    message.line = self.line_of(&message);
                    if count > 1 {
                        self.came_back(&source, message.recipients());
                    }
                    if self.is_too_late(&message) {
                        self.hand_over(&message);
                        continue;
                    }
                    match self.collect(&source, Box::new(message)) {
                        Ok(message) => usable += self.admit(message),
                        Err(Kept::Left) => is_left = true,
                        Err(Kept::Gone | Kept::Later(_)) => {}
                    }
                }
                Err(rejected) if self.rules.may_reject(&rejected) => {
                    self.reject(&rejected, &source, count);
                }
                Err(rejected) => {
                    ctx.count(Counter::Left, 1);
                    is_left = true;
                    if ctx.plan.is_probed(&rejected.envelope.campaign) {
                        // Out of the way of a valid mail, for which the next probe looks behind it.
                        self.job(Job::Show(receipt(&rejected.held, true), LONGEST_DELAY));
                    } else {
                        self.ctx.free();
                    }
                }
            }
        }
        let got = counted.unwrap_or(0);
        self.sources.took(&origin, verdict, got, usable, is_left);
    }

    /// Whether an express mail came after the window's last slot. It is handed over before any rule does
    /// work for it: the next window's poller waits for it.
    fn is_too_late(&self, message: &Message) -> bool {
        let is_over = || self.ctx.now() >= self.ctx.plan.window.closes();
        message.line == Line::Express && (self.slots.limiter.slots_left() == 0 || is_over())
    }

    /// Counts a mail that was received before: it was counted as taken then.
    fn came_back(&self, source: &Source, recipients: u64) {
        if self.is_merged(source.line) {
            self.ctx.count(Counter::Back, recipients);
        }
        self.ctx.limits.note(source.limit_queue, |moves| moves.back += recipients);
    }

    /// Dead-letters a message that is not a valid mail.
    fn reject(&self, rejected: &Rejected, source: &Source, receive_count: u32) {
        let ctx = self.ctx;
        ctx.count_for(Counter::Dead, &rejected.envelope.campaign, 1);
        if self.is_merged(source.line) {
            ctx.count(Counter::Back, u64::from(receive_count > 1));
            ctx.count(Counter::Taken, 1);
        }
        self.ctx.limits.note(source.limit_queue, |moves| moves.taken += 1);
        self.job(reject(rejected, &ctx.plan.dead_letter, true));
    }

    /// The line in which a message waits: its campaign's limited line if it comes from a limit queue.
    fn line_of(&self, message: &Message) -> Line {
        let campaign = || {
            let mut campaigns = self.ctx.plan.campaigns.iter();
            campaigns.position(|campaign| campaign.name == message.envelope.campaign)
        };
        match message.limit_queue {
            Some(_) => Line::Limited(campaign().unwrap_or(usize::MAX)),
            None => message.line,
        }
    }

    /// Shows a mail from a campaign's own queue to the rules that collect. Mail that one of them takes
    /// has no place in the buffer.
    fn collect(&self, source: &Source, message: Box<Message>) -> MailStep<'a> {
        let is_own = self.ctx.plan.merge.is_none() || matches!(source.line, Line::Limited(_));
        let is_fresh = is_own && source.limit_queue.is_none();
        if !is_fresh || source.line == Line::Express {
            return Ok(message);
        }
        self.rules.collect(message).inspect_err(|_| self.ctx.free())
    }

    /// Takes a received mail in. Returns the recipients that will use slots.
    fn admit(&mut self, message: Box<Message>) -> u64 {
        let ctx = self.ctx;
        if message.line != Line::Express {
            // The mean is kept by queue where several campaigns share one, else by campaign.
            let lane = match &ctx.plan.merge {
                _ if message.limit_queue.is_some() => message.held.queue.as_str(),
                Some(merge) if self.is_merged(message.line) => merge.as_str(),
                Some(_) | None => &message.envelope.campaign,
            };
            ctx.running_means.received(lane, message.recipients());
        }
        self.pass(message, NextRule::First)
    }

    /// Passes a mail through the rules from the `next` one on, and lets it wait for a slot at last; or
    /// puts it back if its campaign is held. Returns the recipients that will use slots.
    pub(super) fn pass(&mut self, message: Box<Message>, next: NextRule) -> u64 {
        if self.stage == DrainStage::Over {
            self.leave(&message);
            return 0;
        }
        if self.is_held(&message) {
            self.put_back(&message);
            return 0;
        }
        if self.stage > DrainStage::Sending {
            return self.wait_for_slot(message);
        }
        let (recipients, kept) = (message.recipients(), KeptMail::of(&message));
        let mut effects = Vec::new();
        let used = match self.rules.admit(message, next, &mut effects) {
            Ok(message) => self.wait_for_slot(message),
            Err(Kept::Later(work)) => {
                self.begin(kept, work);
                recipients
            }
            Err(Kept::Gone | Kept::Left) => 0,
        };
        self.apply(effects);
        used
    }

    /// Begins work, which keeps some mail until it is done.
    pub(super) fn begin(&mut self, kept: KeptMail, work: impl Future<Output = Vec<Effect>> + 'a) {
        self.kept = self.kept.plus(kept);
        let finished = async move { FinishedWork { kept, effects: work.await } };
        self.work.push(finished.boxed_local());
    }

    /// Begins work of the drain's own, for which no rule keeps a mail, and after which there is nothing to do.
    pub(super) fn begin_own(&mut self, work: impl Future<Output = ()> + 'a) {
        self.begin(KeptMail::default(), work.map(|()| Vec::new()));
    }

    /// The work that was begun since the last call.
    pub(super) fn take_work(&mut self) -> Vec<LocalBoxFuture<'a, FinishedWork>> {
        std::mem::take(&mut self.work)
    }

    /// Does what follows from work that is done.
    pub(super) fn worked(&mut self, finished: FinishedWork) {
        self.kept = self.kept.less(finished.kept);
        self.apply(finished.effects);
    }

    /// Lets a mail wait for its slots. A mail with more recipients than the window has slots first claims
    /// the following windows; one such mail at a time, and further ones are left. Returns the recipients
    /// that will use slots.
    pub(super) fn wait_for_slot(&mut self, message: Box<Message>) -> u64 {
        let recipients = message.recipients();
        let ctx = self.ctx;
        if recipients <= ctx.plan.slot_count() {
            self.slots.wait(message);
        } else if self.slots.claims_more() {
            self.leave(&message); // one at a time
            return 0;
        } else {
            self.slots.wait_oversize(message);
            let through = ctx.plan.owed_through(recipients);
            self.begin(KeptMail::default(), async move {
                let advancing = control_record::advance(ctx, through);
                vec![Effect::Advanced(ctx.within(DECIDED, advancing).await.unwrap_or(false))]
            });
        }
        recipients
    }

    /// Notes whether the following windows were claimed for the oversize mail: it takes all slots that are
    /// left here, or is left to its queue.
    fn advanced(&mut self, advanced: bool) {
        if let Some(message) = self.slots.advanced(advanced) {
            self.leave(&message);
        }
    }

    /// Notes that the feed brought `mails` into the limit queue at `place`, or into the merge queue.
    pub(super) fn arrived(&mut self, place: Option<usize>, mails: u64) {
        self.sources.arrived(place, mails);
    }

    pub(super) fn is_held(&self, message: &Message) -> bool {
        let name = &message.envelope.campaign;
        self.held.contains(name) || self.ctx.plan.holds(name)
    }

    /// Asks for a hold once a window: hundreds of mails in flight may get the same answer.
    pub(super) fn ask_to_hold(
        &mut self,
        campaign: Option<String>,
        reason: HoldReason,
        detail: String,
    ) {
        if !self.asked_to_hold.insert((campaign.clone(), reason)) {
            return;
        }
        let ctx = self.ctx;
        let tenant = campaign.as_ref().filter(|_| reason == HoldReason::Tenant);
        let tenant = tenant.and_then(|campaign| ctx.plan.tenants.get(campaign));
        let beside = ctx.plan.tenants.iter().filter(|(_, other)| Some(*other) == tenant);
        self.held.extend(beside.map(|(name, _)| name).chain(&campaign).cloned());
        self.begin_own(async move {
            let hold = Hold { tenant: tenant.cloned(), ..Hold::new(&detail, ctx.now()) };
            let holding = control_record::hold(ctx, campaign.as_deref(), reason, hold);
            ctx.within(DECIDED, holding).await;
        });
    }

    pub(super) fn stop(&mut self) {
        self.stage = self.stage.max(DrainStage::Stopped);
        self.slots.limiter.stop();
    }

    pub(super) fn is_merged(&self, line: Line) -> bool {
        self.ctx.plan.merge.is_some() && matches!(line, Line::Campaign(_))
    }

    pub(super) fn not_used(&mut self, message: &Message) {
        self.sources.not_used(message.line, message.recipients());
    }

    pub(super) fn jobs(&self) -> UnboundedSender<Job> {
        self.jobs.clone()
    }

    pub(super) fn job(&self, job: Job) {
        // Settling outlives the drain; a closed channel means that the poller was dropped.
        let _ = self.jobs.unbounded_send(job);
    }

    /// Does what rules want done.
    pub(super) fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Pass(message, next) => drop(self.pass(message, next)),
                Effect::Ended(send) => self.decide(*send),
                Effect::WaitAgain(message) => self.wait_again(message),
                Effect::Leave(message, Leave::BySettings) => self.leave(&message),
                Effect::Leave(message, Leave::Unused) => self.leave_unused(&message, false),
                Effect::Leave(message, Leave::Hidden) => self.leave_hidden(&message),
                Effect::Leave(message, Leave::For(time)) => self.leave_until(&message, Some(time)),
                Effect::Settle(message, job) => {
                    self.take(&message);
                    self.job(job);
                }
                Effect::GiveBack(line, recipients) => self.sources.give_back(line, recipients),
                Effect::MovedAway(line, recipients) => self.sources.moved_away(line, recipients),
                Effect::Arrived(place, mails) => self.arrived(Some(place), mails),
                Effect::Advanced(advanced) => self.advanced(advanced),
                Effect::Stop => self.stop(),
                Effect::Hold { campaign, reason, detail } => {
                    self.ask_to_hold(campaign, reason, detail);
                }
            }
        }
    }

    /// Leaves all mail that got no slot to its queue. The rules hand over what they still keep.
    pub(super) fn leave_the_rest(&mut self) {
        self.stage = DrainStage::Over;
        let effects = self.rules.slots_over();
        self.apply(effects);
        self.leave_what_waits();
    }

    /// Leaves the mail that waits for a slot, once there is none left.
    pub(super) fn leave_what_waits(&mut self) {
        let state = self.slots.limiter.state();
        self.result.waiting.get_or_insert(state.waiting);
        let slots_left = state.unused + state.slots_left > 0;
        for message in self.slots.drain().collect::<Vec<_>>() {
            self.leave_unused(&message, slots_left);
        }
    }

    pub(super) fn finish(mut self) -> DrainResult {
        let ctx = self.ctx;
        let state = self.slots.limiter.state();
        ctx.count(Counter::Skipped, state.skipped);
        ctx.count(Counter::Unused, state.unused + state.slots_left);
        let express = ctx.counts.borrow().by(Counter::Sent).get(EXPRESS).copied().unwrap_or(0);
        self.sources.learn(express, state.limited_in_turn);
        if ctx.plan.merge.is_none() {
            let limited = ctx.plan.by_lane(&self.result.limited);
            self.result.debts = Some(self.sources.debt_changes(&limited));
            self.result.had_mail = Some(self.sources.had_mail());
        }
        self.result
    }
}
