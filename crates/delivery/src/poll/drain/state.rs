//! State of the drain, and its changes with each event: no IO, no waiting.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_channel::mpsc::UnboundedSender;
use tidegate_core::Timestamp;
use tidegate_core::allocation::{Ask, BATCH, Intake};
use tidegate_core::breaker::Outcomes;
use tidegate_core::control::HoldReason;
use tidegate_core::cycle::Cycle;
use tidegate_core::identity::EpochMillis;
use tidegate_core::limiter::{Limiter, Line, NextSend, Waiting};
use tidegate_core::outcome::{Failure, Outcome};
use tidegate_core::refusals::Run;

use super::deduplication::MarkChange;
use super::domains::{self, DomainLine};
use super::express::{self, Express};
use super::probe::Probe;
use super::receive::direct_lanes;
use crate::environment::Environment;
use crate::poll::changes::Change;
use crate::poll::context::Context;
use crate::poll::domains::{DomainGates, DomainMoves};
use crate::poll::idle_mode::QueueAnswers;
use crate::poll::message::{Message, Source};
use crate::poll::queue_supply::QueueSupply;
use crate::poll::settle::Job;
use crate::ports::{Monotonic, VISIBILITY_TIMEOUT};

/// The next step for the slots.
pub(super) enum Wake {
    /// Send this mail, its request written not later than the given instant.
    Start(Box<Message>, Monotonic),
    /// Mail waits for a slot at this instant.
    At(Timestamp),
    /// No mail waits. Until this instant the current slot can still be used by mail that arrives.
    NothingWaits(Timestamp),
    /// The bound on sends in flight is reached: one has to end first.
    Full,
    Over,
}

/// Counters of the drain; recipients unless something else is stated.
#[derive(Debug, Default)]
// More than 12 fields: one for each counter that the report takes over.
pub(in crate::poll) struct DrainCounts {
    pub(in crate::poll) sent: BTreeMap<String, u64>,
    /// Waiting time of accepted mail, times its recipients, by campaign.
    pub(in crate::poll) waited: BTreeMap<String, Duration>,
    /// For campaign mail that was never put back and has no domain limit: recipients accepted, and their
    /// waiting time in seconds times recipients.
    pub(in crate::poll) first: (u64, u64),
    pub(in crate::poll) mails: u64,
    pub(in crate::poll) taken: u64,
    pub(in crate::poll) back: u64,
    pub(in crate::poll) refused: u64,
    pub(in crate::poll) failed: BTreeMap<&'static str, u64>,
    pub(in crate::poll) retried: u64,
    pub(in crate::poll) put_back: u64,
    pub(in crate::poll) dead: u64,
    pub(in crate::poll) left: u64,
    pub(in crate::poll) late: u64,
    pub(in crate::poll) already_sent: u64,
    pub(in crate::poll) parked: u64,
    pub(in crate::poll) skipped: u64,
    pub(in crate::poll) unused: u64,
    pub(in crate::poll) latency_sum: Duration,
    pub(in crate::poll) answers: u32,
    pub(in crate::poll) highest_receive_count: u32,
    /// The part of `sent` that came from domain queues, by campaign.
    pub(in crate::poll) limited: BTreeMap<String, u64>,
    pub(in crate::poll) domains: DomainMoves,
    /// Changes of the debts, in thousandths of a recipient, by campaign; empty with a merge queue.
    pub(in crate::poll) debts: BTreeMap<String, i64>,
    pub(in crate::poll) asked: QueueAnswers,
    pub(in crate::poll) noted: WindowOutcomes,
}

/// Outcomes of the sends, in mails, for the control record.
#[derive(Debug, Default)]
pub(in crate::poll) struct WindowOutcomes {
    pub(in crate::poll) outcomes: Outcomes,
    /// Whether the breaker's probe showed that SES works; none if no probe ended.
    pub(in crate::poll) probe: Option<bool>,
    pub(in crate::poll) runs: BTreeMap<String, Run>,
}

/// Stage of the drain; it only advances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DrainStage {
    Sending,
    /// No further send starts: SES refused, all sending is held, the shared bucket is lost, or the probe is
    /// decided.
    Stopped,
    /// Mail without a slot is being left to its queue.
    Over,
}

// More than 12 fields: each part of the drain keeps its state here.
pub(super) struct Drain<'a, E> {
    pub(super) ctx: &'a Context<'a, E>,
    pub(super) jobs: UnboundedSender<Job>,
    /// Messages received and not yet settled; settling counts them down.
    pub(super) buffered: &'a Cell<usize>,
    pub(super) capacity: u64,
    pub(super) max_in_flight: usize,
    pub(super) limiter: Limiter<usize>,
    pub(super) messages: Vec<Option<Box<Message>>>,
    pub(super) intake: Intake,
    pub(super) lanes: Vec<(Source, QueueSupply)>,
    /// Receives from campaigns that were found empty, still to be made.
    pub(super) probes: Vec<Ask>,
    /// Slots of the limits that mail at hand falls under.
    pub(super) gates: DomainGates<'a>,
    pub(super) domains: Vec<DomainLine>,
    /// Recipients moved to domain queues so far.
    pub(super) moved_away: u64,
    /// By lane: whether any mail of it was moved to a domain queue.
    pub(super) had_limited_mail: Vec<bool>,
    pub(super) express_queue: Option<(Source, QueueSupply)>,
    pub(super) express: Express,
    /// Recipients of campaign mail whose mark is being written.
    pub(super) campaigns_marking: u64,
    pub(super) changes: Vec<Change>,
    pub(super) markings: Vec<MarkChange>,
    /// Recipients that campaigns may still be sent in this window, by the daily quota.
    pub(super) for_campaigns: u64,
    /// Holds that this window asked for, by campaign (`None`: all): each is written once.
    pub(super) asked_to_hold: BTreeSet<(Option<String>, HoldReason)>,
    pub(super) probe: Probe,
    /// Whether the breaker allows, and when the ledger last said so.
    pub(super) allowing: (bool, Monotonic),
    /// Failed sends that wait for a look at the breaker: it decides whether they count as attempts.
    pub(super) undecided: Vec<(Box<Message>, Failure, Outcome)>,
    /// The ticket of a mail with more recipients than the window has slots; it waits until its further
    /// windows are claimed.
    pub(super) oversize: Option<usize>,
    pub(super) advancing: bool,
    pub(super) held: BTreeSet<String>,
    /// Recipients of mails that were received and got no slot, by lane.
    pub(super) not_used: Vec<u64>,
    pub(super) stage: DrainStage,
    /// The shared bucket does not answer: mail at hand is made visible again after 2 s.
    pub(super) bucket_lost: bool,
    pub(super) done: DrainCounts,
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
            .unwrap_or_else(|| ctx.running_means.max_in_flight(rate, ctx.config.send_timeout));
        let mut probes = Vec::new();
        let (domains, kept) = domains::lines(ctx);
        let (lanes, intake, cycle) = match &plan.merge {
            Some(queue) => {
                let source = Source::mixed(queue.clone(), Line::Campaign(0), None);
                let expected = u64::try_from(plan.depth).unwrap_or(0);
                let one = Cycle::single();
                let mean = ctx.running_means.recipients_per_mail(queue.as_str());
                let total = plan.intake_amount() - kept;
                let mut intake = Intake::new(&one, plan.slots.clone(), total, &[], &[mean]);
                if !plan.asks_merge() {
                    intake.mark_dry(0); // until the feed brings something
                }
                (vec![(source, QueueSupply::expecting(expected))], intake, one)
            }
            None => {
                // An empty list has no queue to ask.
                let total = if plan.campaigns.is_empty() { 0 } else { plan.intake_amount() - kept };
                let lanes = direct_lanes(ctx, &mut probes);
                (lanes, ctx.intake(total), plan.turns.cycle.clone())
            }
        };
        let in_flight = ctx.running_means.connections(rate) as u64;
        Self {
            ctx,
            jobs,
            buffered,
            // Enough that no slot waits for a receive: half a window's mail, the sends in flight, and 10
            // messages for each receive that may be under way. Example: 100 slots, 25 sends in flight and
            // one queue give 20 + 50 + 25 + 10 = 105 messages.
            capacity: 2 * BATCH + slots / 2 + in_flight + BATCH * lanes.len() as u64,
            max_in_flight,
            limiter: Limiter::new(plan.grid, plan.slots.clone(), cycle)
                .with_floor(ctx.config.campaign_floor)
                .with_turns(plan.cycle.clone(), plan.lines_of_campaigns()),
            gates: plan.domains.gates(),
            domains,
            moved_away: 0,
            had_limited_mail: vec![false; plan.turns.lanes.len()],
            messages: Vec::new(),
            intake,
            lanes,
            probes,
            express_queue: plan.express.clone().map(|q| (Source::express(q), express::supply(ctx))),
            express: Express::default(),
            campaigns_marking: 0,
            changes: Vec::new(),
            markings: Vec::new(),
            for_campaigns: plan.for_campaigns,
            asked_to_hold: BTreeSet::new(),
            probe: Probe::default(),
            allowing: (true, ctx.monotonic()),
            undecided: Vec::new(),
            oversize: None,
            advancing: false,
            held: BTreeSet::new(),
            not_used: vec![0; plan.turns.lanes.len()],
            stage: DrainStage::Sending,
            bucket_lost: false,
            done: DrainCounts::default(),
        }
    }

    /// The next send to start, or the next thing to wait for.
    ///
    /// Three checks come after a slot is acquired, since they may have changed while the mail waited: its
    /// campaign is held (put back); its send could end after its visibility timeout of 30 s, when another
    /// poller may have it (left); the daily quota does not suffice (left). The slot of such a mail is
    /// spent.
    pub(super) fn next_send(&mut self, in_flight: usize) -> Wake {
        loop {
            if in_flight >= self.max_in_flight && self.limiter.slots_left() > 0 {
                return Wake::Full;
            }
            let acquired = match self.limiter.next_through(self.ctx.now(), &mut self.gates) {
                NextSend::Start(acquired) => acquired,
                NextSend::At(at) if self.limiter.recipients_waiting() > 0 => return Wake::At(at),
                NextSend::At(at) => return Wake::NothingWaits(at),
                NextSend::Idle(until) if self.limiter.waits_for_a_gate() => {
                    return Wake::At(until + Duration::from_nanos(1));
                }
                NextSend::Idle(until) => {
                    return Wake::NothingWaits(until + Duration::from_nanos(1));
                }
                NextSend::Over => return Wake::Over,
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
            let latest = self.latest(acquired.slot, &message);
            return Wake::Start(message, self.ctx.time.monotonic(latest));
        }
    }

    /// The latest start of a mail that acquired `slot`. A mail under a domain limit has to start within its
    /// window: where the limit changes, one window without its slots is all that separates the old limit's
    /// slots from the new one's.
    fn latest(&self, slot: u64, message: &Message) -> Timestamp {
        let plan = self.ctx.plan;
        let latest = plan.grid.latest(slot);
        if message.demands.is_empty() {
            return latest;
        }
        latest.min(plan.window.closes().saturating_sub(Duration::from_nanos(1)))
    }

    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Notes that the feed brought `mails` into the merge queue: it is asked again even if it was empty.
    pub(super) fn arrived(&mut self, mails: u64) {
        if let Some((_, supply)) = self.lanes.first_mut() {
            supply.arrived(mails);
            self.intake.revive(0);
        }
    }

    /// Lets a mail wait for its slots, or puts it back if its campaign is held. Returns the recipients that
    /// will use slots.
    pub(super) fn wait(&mut self, message: Box<Message>) -> u64 {
        let recipients = message.recipients();
        if message.line != Line::Express {
            // The mean is kept by queue where several campaigns share one, else by campaign.
            let lane = match &self.ctx.plan.merge {
                _ if message.domain.is_some() => message.held.queue.as_str(),
                Some(merge) => merge.as_str(),
                None => &message.envelope.campaign,
            };
            self.ctx.running_means.received(lane, recipients);
        }
        if self.is_held(&message) {
            self.put_back(&message);
            return 0;
        }
        if self.is_probing() { self.offer(message) } else { self.wait_for_slot(message) }
    }

    /// As [`Drain::wait`], for a mail whose campaign is not held. A mail with more recipients than the
    /// window has slots first claims the following windows; one such mail at a time, and further ones are
    /// left.
    pub(super) fn wait_for_slot(&mut self, message: Box<Message>) -> u64 {
        let recipients = message.recipients();
        let waiting = Waiting {
            ticket: self.messages.len(),
            line: message.line,
            priority: message.email.priority(),
            recipients: message.email.recipients(),
        };
        self.gates.wait(waiting.ticket, &message.demands);
        if recipients <= self.ctx.plan.slot_count() {
            self.limiter.wait(waiting);
        } else if self.advancing {
            self.leave(&message); // one at a time
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

    /// Notes whether the following windows were claimed for the oversize mail: it takes all slots that are
    /// left here, or is left to its queue.
    pub(super) fn advanced(&mut self, advanced: bool) {
        let Some(ticket) = self.oversize.take() else { return };
        let Some(message) = self.messages.get(ticket).and_then(Option::as_deref) else { return };
        let waiting = Waiting {
            ticket,
            line: message.line,
            priority: message.email.priority(),
            recipients: message.email.recipients(),
        };
        if (!advanced || self.limiter.acquire_all(waiting, self.ctx.now(), &mut self.gates) == 0)
            && let Some(message) = self.messages.get_mut(ticket).and_then(Option::take)
        {
            self.leave(&message);
        }
    }

    pub(super) fn is_held(&self, message: &Message) -> bool {
        let name = &message.envelope.campaign;
        self.held.contains(name) || self.ctx.plan.control.holds_campaign(name)
    }

    pub(super) fn job(&self, job: Job) {
        // Settling outlives the drain; a closed channel means that the poller was dropped.
        let _ = self.jobs.unbounded_send(job);
    }

    pub(super) fn now_millis(&self) -> EpochMillis {
        EpochMillis::from(self.ctx.now())
    }

    /// Leaves all mail that got no slot to its queue. Failed sends that still wait for a look at the
    /// breaker count as attempts.
    pub(super) fn leave_the_rest(&mut self) {
        self.stage = DrainStage::Over;
        self.decide(true);
        for waiting in self.limiter.drain() {
            if let Some(message) = self.messages.get_mut(waiting.ticket).and_then(Option::take) {
                self.not_used(&message);
                self.leave_without_slot(&message);
            }
        }
    }

    pub(super) fn finish(mut self) -> DrainCounts {
        self.learn_of_domains();
        self.learn_express();
        let state = self.limiter.state();
        self.done.skipped = state.skipped;
        self.done.unused = state.unused + state.slots_left;
        if self.ctx.plan.merge.is_none() {
            self.done.debts = self.debts();
        }
        self.done
    }
}
