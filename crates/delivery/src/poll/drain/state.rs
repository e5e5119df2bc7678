//! What the drain knows, and what follows from each event: no IO, no waiting.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as StdError;
use std::time::Duration;

use futures_channel::mpsc::UnboundedSender;
use tidegate_core::Timestamp;
use tidegate_core::allocation::{Ask, BATCH, Intake};
use tidegate_core::config::Unsent;
use tidegate_core::control::HoldReason;
use tidegate_core::cycle::Cycle;
use tidegate_core::identity::EpochMillis;
use tidegate_core::limiter::{Limiter, Line, Next, Waiting};
use tidegate_core::outcome::{Failure, Outcome, classify};

use super::changes::Change;
use super::context::Context;
use super::drain::{Answer, Sent};
use super::message::{Held, Message, Source, read};
use super::outcome::{accepted, give_up, log, put_back, receipt, reject, retry};
use super::settle::Job;
use super::supply::Supply;
use crate::environment::Environment;
use crate::ports::{Entropy as _, Monotonic, QueueUrl, VISIBILITY_TIMEOUT};

/// The last instant before the window's close at which a receive still starts.
const LAST_RECEIVE: Duration = Duration::from_millis(50);

/// Which receive it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    Express,
    Lane(Ask),
}

/// A receive to start.
pub(super) struct NextReceive {
    pub(super) origin: Origin,
    pub(super) queue: QueueUrl,
    pub(super) messages: u64,
}

/// What is to be done about the slots.
pub(super) enum Wake {
    /// Send this, not after the given instant.
    Start(Box<Message>, Monotonic),
    /// Something is due then.
    At(Timestamp),
    /// Nothing waits; until then the slot is good for an arrival.
    NothingWaits(Timestamp),
    /// As many sends are in flight as may be.
    Full,
    /// No slot is left.
    Over,
}

/// What the drain did; recipients where nothing else is said.
#[derive(Debug, Default)]
pub(super) struct Drained {
    pub(super) sent: BTreeMap<String, u64>,
    pub(super) mails: u64,
    pub(super) taken: u64,
    pub(super) refused: u64,
    pub(super) failed: BTreeMap<&'static str, u64>,
    pub(super) retried: u64,
    pub(super) put_back: u64,
    pub(super) dead: u64,
    pub(super) left: u64,
    pub(super) skipped: u64,
    pub(super) unused: u64,
    pub(super) latency_sum: Duration,
    pub(super) answers: u32,
    pub(super) highest_receive_count: u32,
    /// In direct mode: in thousandths of a recipient, by campaign.
    pub(super) debts: BTreeMap<String, i64>,
    /// In direct mode: campaigns asked, and whether they had mail at the last time.
    pub(super) had_mail: BTreeMap<String, bool>,
}

pub(super) struct Drain<'a, E> {
    ctx: &'a Context<'a, E>,
    jobs: UnboundedSender<Job>,
    /// Messages received and not settled.
    buffered: &'a Cell<usize>,
    capacity: u64,
    max_in_flight: usize,
    limiter: Limiter<usize>,
    messages: Vec<Option<Box<Message>>>,
    intake: Intake,
    lanes: Vec<(Source, Supply)>,
    /// Probes of campaigns that were found empty, yet to be made.
    probes: Vec<Ask>,
    express: Option<(Source, Supply)>,
    express_dry: bool,
    changes: Vec<Change>,
    /// A mail of more recipients than the window has slots, that waits for its windows.
    oversize: Option<usize>,
    advancing: bool,
    held: BTreeSet<String>,
    stopped: bool,
    done: Drained,
}

impl<'a, E: Environment> Drain<'a, E> {
    pub(super) fn new(
        ctx: &'a Context<'a, E>,
        jobs: UnboundedSender<Job>,
        buffered: &'a Cell<usize>,
    ) -> Self {
        let plan = ctx.plan;
        let slots = plan.slot_count();
        let rate = plan.rate.as_per_second();
        let max_in_flight = ctx
            .config
            .max_in_flight
            .unwrap_or_else(|| ctx.learned.max_in_flight(rate, ctx.config.send_timeout));
        let mut probes = Vec::new();
        let (lanes, intake, cycle) = match &plan.merge {
            Some(queue) => {
                let source =
                    Source { queue: queue.clone(), line: Line::Campaign(0), campaign: None };
                let expected = u64::try_from(plan.depth).unwrap_or(0);
                let one = Cycle::single();
                let intake = Intake::new(&one, plan.slots.clone(), slots, &[], &[1.0]);
                (vec![(source, Supply::expecting(expected))], intake, one)
            }
            None => {
                let mut intake = ctx.intake(slots);
                let lanes = direct_lanes(ctx, &mut intake, &mut probes);
                (lanes, intake, plan.cycle.clone())
            }
        };
        let in_flight = ctx.learned.connections(rate) as u64;
        Self {
            ctx,
            jobs,
            buffered,
            capacity: 2 * BATCH + slots / 2 + in_flight + BATCH * lanes.len() as u64,
            max_in_flight,
            limiter: Limiter::new(plan.grid, plan.slots.clone(), cycle),
            messages: Vec::new(),
            intake,
            lanes,
            probes,
            express: plan.express.clone().map(|q| (Source::express(q), Supply::expecting(0))),
            express_dry: false,
            changes: Vec::new(),
            oversize: None,
            advancing: false,
            held: BTreeSet::new(),
            stopped: false,
            done: Drained::default(),
        }
    }

    /// The next receive to start: what will be used, express first.
    pub(super) fn next_receive(&mut self) -> Option<NextReceive> {
        if self.stopped || self.ctx.now() + LAST_RECEIVE > self.ctx.plan.window.closes() {
            return None;
        }
        let slots = self.limiter.slots_left();
        let waiting = self.limiter.recipients_waiting();
        // Slots that passed or that express took are not asked for.
        let wanted = self.intake.still_wanted() + waiting;
        self.intake.reduce(wanted.saturating_sub(slots));
        let outstanding = self.lanes.iter().chain(&self.express).map(|(_, s)| s.outstanding());
        let used = self.buffered.get() as u64 + outstanding.sum::<u64>();
        let room = self.capacity.saturating_sub(used);
        if let Some((source, supply)) = &mut self.express {
            let messages = slots.min(BATCH);
            if !self.express_dry && messages > 0 && room >= messages && supply.may_ask() {
                supply.asked(messages);
                let queue = source.queue.clone();
                return Some(NextReceive { origin: Origin::Express, queue, messages });
            }
        }
        let ask = match self.probes.pop() {
            Some(probe) => probe,
            None => {
                let ask = self.intake.ask_of(|lane| self.lanes[lane].1.may_ask())?;
                if room < ask.messages {
                    self.intake.withdraw(&ask);
                    return None;
                }
                self.lanes[ask.lane].1.asked(ask.messages);
                ask
            }
        };
        let queue = self.lanes[ask.lane].0.queue.clone();
        Some(NextReceive { origin: Origin::Lane(ask), queue, messages: ask.messages })
    }

    /// The next send to start, or what to wait for.
    pub(super) fn next_send(&mut self, in_flight: usize) -> Wake {
        loop {
            if in_flight >= self.max_in_flight && self.limiter.slots_left() > 0 {
                return Wake::Full;
            }
            let acquired = match self.limiter.next(self.ctx.now()) {
                Next::Start(acquired) => acquired,
                Next::At(at) if self.limiter.recipients_waiting() > 0 => return Wake::At(at),
                Next::At(at) => return Wake::NothingWaits(at),
                Next::Idle(until) => {
                    return Wake::NothingWaits(until + Duration::from_nanos(1));
                }
                Next::Over => return Wake::Over,
            };
            let ticket = acquired.message.ticket;
            let Some(message) = self.messages.get_mut(ticket).and_then(Option::take) else {
                continue;
            };
            if self.held.contains(&message.envelope.campaign) {
                self.put_back(&message);
                continue;
            }
            let timeout = self.ctx.config.send_timeout;
            let ends = self.ctx.monotonic() + timeout;
            if ends.saturating_since(message.held.since) >= VISIBILITY_TIMEOUT {
                self.leave(&message.held);
                continue;
            }
            let latest = self.ctx.time.monotonic(self.ctx.plan.grid.latest(acquired.slot));
            return Wake::Start(message, latest);
        }
    }

    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// The feed brought so many mails into the merge queue.
    pub(super) fn arrived(&mut self, mails: u64) {
        if let Some((_, supply)) = self.lanes.first_mut() {
            supply.arrived(mails);
            self.intake.revive(0);
        }
    }

    /// Notes a receive's answer.
    pub(super) fn received(&mut self, answer: Answer) {
        let Answer { origin, asked, since, result } = answer;
        let messages = result.unwrap_or_else(|error| {
            tracing::error!(error = &error as &dyn StdError, "not received");
            Vec::new()
        });
        let got = messages.len() as u64;
        self.buffered.set(self.buffered.get() + messages.len());
        let source = match origin {
            Origin::Express => {
                let Some((source, supply)) = &mut self.express else { return };
                supply.answered(asked, got);
                self.express_dry |= got == 0;
                source.clone()
            }
            Origin::Lane(ask) => {
                let (source, supply) = &mut self.lanes[ask.lane];
                supply.answered(asked, got);
                if let Some(campaign) = &source.campaign {
                    self.done.had_mail.insert(campaign.clone(), got > 0);
                }
                if ask.recipients == 0 && got > 0 {
                    self.intake.revive(ask.lane); // the probe found mail again
                }
                source.clone()
            }
        };
        let mut usable = 0;
        for received in messages {
            let count = received.receive_count;
            self.done.highest_receive_count = self.done.highest_receive_count.max(count);
            match read(received, &source, since, &self.ctx.config.allowed_senders) {
                Ok(message) => usable += self.wait(Box::new(message)),
                Err(rejected) => {
                    self.done.dead += 1;
                    self.done.taken += u64::from(self.is_merged(source.line));
                    self.job(reject(&rejected, &self.ctx.plan.dead_letter, true));
                }
            }
        }
        if let Origin::Lane(ask) = origin {
            self.intake.received(&ask, got, usable);
        }
    }

    /// Lets a mail wait for its slots; gives the recipients that will use some.
    fn wait(&mut self, message: Box<Message>) -> u64 {
        let recipients = message.recipients();
        if matches!(message.line, Line::Campaign(_)) {
            self.ctx.learned.received(&message.envelope.campaign, recipients);
        }
        if self.is_held(&message) {
            self.put_back(&message);
            return 0;
        }
        let waiting = Waiting {
            ticket: self.messages.len(),
            line: message.line,
            priority: message.email.priority(),
            recipients: message.email.recipients(),
        };
        if recipients <= self.ctx.plan.slot_count() {
            self.limiter.wait(waiting);
        } else if self.advancing {
            self.leave(&message.held); // one at a time
            return 0;
        } else {
            self.advancing = true;
            self.oversize = Some(waiting.ticket);
            let through = self.ctx.plan.owed_through(recipients);
            self.changes.push(Change::Advance { through });
        }
        self.messages.push(Some(message));
        recipients
    }

    /// The windows that an oversize mail needs are its own, or not.
    pub(super) fn advanced(&mut self, advanced: bool) {
        let Some(ticket) = self.oversize.take() else { return };
        let Some(message) = self.messages.get(ticket).and_then(Option::as_deref) else { return };
        let waiting = Waiting {
            ticket,
            line: message.line,
            priority: message.email.priority(),
            recipients: message.email.recipients(),
        };
        if (!advanced || self.limiter.acquire_all(waiting, self.ctx.now()) == 0)
            && let Some(message) = self.messages.get_mut(ticket).and_then(Option::take)
        {
            self.leave(&message.held);
        }
    }

    /// Notes what SES said of a send.
    pub(super) fn sent(&mut self, sent: Sent) {
        let Sent { message, result, latency } = sent;
        let failure = match result {
            Ok(ses_message_id) => {
                self.answered(latency);
                self.done.mails += 1;
                let campaign = message.envelope.campaign.clone();
                *self.done.sent.entry(campaign).or_insert(0) += message.recipients();
                self.take(&message);
                return self.job(accepted(&message, &ses_message_id, latency));
            }
            Err(failure) => failure,
        };
        let outcome = classify(&failure);
        if failure.http_status.is_some() {
            self.answered(latency);
        }
        match outcome {
            Outcome::NotSent => self.wait_again(message),
            Outcome::RateExceeded => self.refused(&message, &failure),
            Outcome::Permanent => self.give_up(&message, &failure, outcome),
            Outcome::Transient | Outcome::Ambiguous => self.fail(&message, &failure, outcome),
            Outcome::DailyQuotaExceeded
            | Outcome::AccountPaused
            | Outcome::Credentials
            | Outcome::Deployment => self.hold(&message, &failure, outcome),
        }
    }

    fn answered(&mut self, latency: Duration) {
        self.done.latency_sum += latency;
        self.done.answers += 1;
        self.ctx.learned.answered(latency, self.ctx.monotonic());
    }

    /// It was too late for its slot and never left us: a later slot takes it.
    fn wait_again(&mut self, message: Box<Message>) {
        *self.done.failed.entry(Outcome::NotSent.as_str()).or_insert(0) += 1;
        self.wait(message);
    }

    /// The slot is spent; the mail is visible again in 1 or 2 s; this window starts no more.
    fn refused(&mut self, message: &Message, failure: &Failure) {
        log(message, failure, Outcome::RateExceeded, "kept");
        self.done.refused += 1;
        let seconds = if self.ctx.env.entropy().unit() < 0.5 { 1 } else { 2 };
        self.job(Job::Show(receipt(&message.held, true), Duration::from_secs(seconds)));
        if !self.stopped {
            self.changes.push(Change::Refused);
        }
        self.stop();
    }

    fn give_up(&mut self, message: &Message, failure: &Failure, outcome: Outcome) {
        *self.done.failed.entry(outcome.as_str()).or_insert(0) += 1;
        self.done.dead += 1;
        self.take(message);
        let dead_letters = &self.ctx.plan.dead_letter;
        self.job(give_up(message, failure, outcome, dead_letters, self.now_millis()));
    }

    fn fail(&mut self, message: &Message, failure: &Failure, outcome: Outcome) {
        if message.envelope.attempt + 1 >= self.ctx.config.max_attempts {
            return self.give_up(message, failure, outcome);
        }
        *self.done.failed.entry(outcome.as_str()).or_insert(0) += 1;
        let Some(queue) = self.home(message) else {
            return self.leave(&message.held);
        };
        self.done.retried += 1;
        self.take(message);
        let jitter = self.ctx.env.entropy().unit();
        self.job(retry(message, failure, outcome, &queue, self.now_millis(), jitter));
    }

    fn hold(&mut self, message: &Message, failure: &Failure, outcome: Outcome) {
        log(message, failure, outcome, "held");
        *self.done.failed.entry(outcome.as_str()).or_insert(0) += 1;
        let reason = match outcome {
            Outcome::DailyQuotaExceeded => HoldReason::DailyQuota,
            Outcome::AccountPaused => HoldReason::Account,
            Outcome::Credentials => HoldReason::Credentials,
            _ => HoldReason::Deployment,
        };
        let campaign =
            (reason == HoldReason::Deployment).then(|| message.envelope.campaign.clone());
        match &campaign {
            Some(name) => drop(self.held.insert(name.clone())),
            None => self.stop(),
        }
        let code = failure.code.as_deref().unwrap_or("");
        let detail = format!("{code}: {}", failure.message);
        self.changes.push(Change::Hold { campaign, reason, detail });
        self.leave(&message.held);
    }

    fn stop(&mut self) {
        self.stopped = true;
        self.limiter.stop();
    }

    fn is_held(&self, message: &Message) -> bool {
        let name = &message.envelope.campaign;
        self.held.contains(name) || self.ctx.plan.campaign(name).is_some_and(|c| c.held)
    }

    fn put_back(&mut self, message: &Message) {
        match self.home(message) {
            Some(queue) => {
                self.done.put_back += 1;
                self.take(message);
                self.job(put_back(message, &queue));
            }
            None => self.leave(&message.held),
        }
    }

    /// The queue a mail goes back to: its campaign's, or express.
    fn home(&self, message: &Message) -> Option<QueueUrl> {
        match message.line {
            Line::Express => self.ctx.plan.express.clone(),
            Line::Campaign(_) => {
                self.ctx.plan.campaign(&message.envelope.campaign).map(|c| c.queue.clone())
            }
        }
    }

    /// Counts a mail that leaves the merge queue.
    fn take(&mut self, message: &Message) {
        if self.is_merged(message.line) {
            self.done.taken += message.recipients();
        }
    }

    fn is_merged(&self, line: Line) -> bool {
        self.ctx.plan.merge.is_some() && line != Line::Express
    }

    /// Left to the visibility timeout, or made visible at once.
    fn leave(&mut self, held: &Held) {
        self.done.left += 1;
        match self.ctx.config.unsent {
            Unsent::Release => self.job(Job::Show(receipt(held, true), Duration::ZERO)),
            Unsent::Timeout => self.buffered.set(self.buffered.get().saturating_sub(1)),
        }
    }

    fn job(&self, job: Job) {
        // The settling side outlives the drain; a closed channel means that the poller was dropped.
        let _ = self.jobs.unbounded_send(job);
    }

    fn now_millis(&self) -> EpochMillis {
        EpochMillis::from(self.ctx.now())
    }

    pub(super) fn finish(mut self) -> Drained {
        for waiting in self.limiter.drain() {
            if let Some(message) = self.messages.get_mut(waiting.ticket).and_then(Option::take) {
                self.leave(&message.held);
            }
        }
        let state = self.limiter.state();
        self.done.skipped = state.skipped;
        self.done.unused = state.unused + state.slots_left;
        if self.ctx.plan.merge.is_none() {
            let changes = self.ctx.plan.campaigns.iter().zip(self.intake.debt_changes());
            self.done.debts = changes.map(|(c, change)| (c.name.clone(), change)).collect();
        }
        self.done
    }
}

/// Direct mode's lanes: the campaigns; those found empty are probed, or left alone.
fn direct_lanes<E: Environment>(
    ctx: &Context<'_, E>,
    intake: &mut Intake,
    probes: &mut Vec<Ask>,
) -> Vec<(Source, Supply)> {
    let lane = |(index, campaign): (usize, &super::plan::PlannedCampaign)| {
        let source = Source {
            queue: campaign.queue.clone(),
            line: Line::Campaign(index),
            campaign: Some(campaign.name.clone()),
        };
        let mut supply = Supply::of(ctx.plan, campaign);
        if campaign.idle.is_some() || !ctx.plan.asks(campaign) {
            intake.mark_dry(index);
            if ctx.plan.asks(campaign) {
                probes.push(supply.probe(index));
            }
        }
        (source, supply)
    };
    ctx.plan.campaigns.iter().enumerate().map(lane).collect()
}
