//! What the drain knows, and what follows from each event: no IO, no waiting.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as StdError;
use std::time::Duration;

use futures_channel::mpsc::UnboundedSender;
use tidegate_core::Timestamp;
use tidegate_core::allocation::{Ask, BATCH, Intake};
use tidegate_core::cycle::Cycle;
use tidegate_core::identity::EpochMillis;
use tidegate_core::limiter::{Limiter, Line, Next, Waiting};

use super::Answer;
use crate::environment::Environment;
use crate::poll::changes::Change;
use crate::poll::context::Context;
use crate::poll::message::{Message, Source, read};
use crate::poll::outcome::reject;
use crate::poll::plan::PlannedCampaign;
use crate::poll::settle::Job;
use crate::poll::supply::Supply;
use crate::ports::{Monotonic, QueueUrl, VISIBILITY_TIMEOUT};

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
pub(in crate::poll) struct Drained {
    pub(in crate::poll) sent: BTreeMap<String, u64>,
    pub(in crate::poll) mails: u64,
    pub(in crate::poll) taken: u64,
    pub(in crate::poll) refused: u64,
    pub(in crate::poll) failed: BTreeMap<&'static str, u64>,
    pub(in crate::poll) retried: u64,
    pub(in crate::poll) put_back: u64,
    pub(in crate::poll) dead: u64,
    pub(in crate::poll) left: u64,
    pub(in crate::poll) skipped: u64,
    pub(in crate::poll) unused: u64,
    pub(in crate::poll) latency_sum: Duration,
    pub(in crate::poll) answers: u32,
    pub(in crate::poll) highest_receive_count: u32,
    /// In direct mode: in thousandths of a recipient, by campaign.
    pub(in crate::poll) debts: BTreeMap<String, i64>,
    /// In direct mode: campaigns asked, and whether they had mail at the last time.
    pub(in crate::poll) had_mail: BTreeMap<String, bool>,
}

pub(super) struct Drain<'a, E> {
    pub(super) ctx: &'a Context<'a, E>,
    pub(super) jobs: UnboundedSender<Job>,
    /// Messages received and not settled.
    pub(super) buffered: &'a Cell<usize>,
    pub(super) capacity: u64,
    pub(super) max_in_flight: usize,
    pub(super) limiter: Limiter<usize>,
    pub(super) messages: Vec<Option<Box<Message>>>,
    pub(super) intake: Intake,
    pub(super) lanes: Vec<(Source, Supply)>,
    /// Probes of campaigns that were found empty, yet to be made.
    pub(super) probes: Vec<Ask>,
    pub(super) express: Option<(Source, Supply)>,
    pub(super) express_dry: bool,
    pub(super) changes: Vec<Change>,
    /// A mail of more recipients than the window has slots, that waits for its windows.
    pub(super) oversize: Option<usize>,
    pub(super) advancing: bool,
    pub(super) held: BTreeSet<String>,
    pub(super) stopped: bool,
    pub(super) done: Drained,
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
                // Without a list of campaigns there is nobody to ask.
                let total = if plan.campaigns.is_empty() { 0 } else { slots };
                let mut intake = ctx.intake(total);
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
    pub(super) fn wait(&mut self, message: Box<Message>) -> u64 {
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

    pub(super) fn is_held(&self, message: &Message) -> bool {
        let name = &message.envelope.campaign;
        self.held.contains(name) || self.ctx.plan.campaign(name).is_some_and(|c| c.held)
    }

    pub(super) fn job(&self, job: Job) {
        // The settling side outlives the drain; a closed channel means that the poller was dropped.
        let _ = self.jobs.unbounded_send(job);
    }

    pub(super) fn now_millis(&self) -> EpochMillis {
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
    let lane = |(index, campaign): (usize, &PlannedCampaign)| {
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
