//! The sources of the drain: no more mail is received than its slots will use; express mail first, then
//! the queues of limited mail, then campaigns or the merge queue.
//!
//! Express takes slots first, beyond the express floor. Campaign mail that is received and then displaced
//! by express stays invisible for its visibility timeout. So while express mail comes, campaign mail is
//! received only for the slots just ahead that express will probably leave.
//!
//! The express queue is asked by one long poll after the other, and passes from one window's poller to the
//! next without a gap: a poller starts its first poll 50 ms before its window opens, and its last one at
//! least 50 ms before the window closes. A poll is open for a second, so the last one mostly outlives the
//! window. If it brings a mail too late for a slot, the mail is shown again at once, and the next poller,
//! whose poll is open, receives it one call later. A window costs one poll beside those that bring mail,
//! and one call for a mail that is handed over.

pub(super) mod message;
pub(super) mod supply;

use tidegate_core::Timestamp;
use tidegate_core::allocation::{BATCH, divide};
use tidegate_core::breaker::Permit;
use tidegate_core::counters::signed;
use tidegate_core::limiter::Line;
use tidegate_core::number::real;
use tidegate_core::prefetch::Outlook;

use super::context::{Context, Wait};
use super::limits::LimitedLines;
use crate::ports::{Environment, QueueUrl};
use message::Source;
use std::time::Duration;
use supply::{
    LAST_RECEIVE, LaneQueues, Lanes, MailAtHand, NextReceive, PollVerdict, QueueSupply,
    ReceiveOrigin, SourceAnswer,
};

/// The queues that the drain asks in one window.
pub(super) struct Sources<'a, E: Environment> {
    ctx: &'a Context<'a, E>,
    express: Option<ExpressQueue<'a, E>>,
    limited: LimitedLines<'a, E>,
    /// The campaigns' queues; with a merge queue that one in their place.
    campaigns: Lanes,
    /// Recipients of mails that were received and got no slot, by lane.
    not_used: Vec<u64>,
    /// The most messages of campaigns received and not yet settled, or asked for.
    capacity: u64,
}

impl<'a, E: Environment> Sources<'a, E> {
    pub(super) fn new(ctx: &'a Context<'a, E>) -> Self {
        let plan = ctx.plan;
        let limited = LimitedLines::new(ctx);
        let wanted = plan.intake_amount() - limited.kept();
        let campaigns = match &plan.merge {
            Some(merge) => Lanes::of_merge(ctx, merge, wanted),
            // An empty list has no queue to ask.
            None if plan.campaigns.is_empty() => Lanes::of_campaigns(ctx, 0),
            None => Lanes::of_campaigns(ctx, wanted),
        };
        let in_flight = ctx.running_means.connections(plan.rate.as_per_second()) as u64;
        // Enough that no slot waits for a receive: half a window's mail, the sends in flight, and 10
        // messages for each receive that may be under way. Example: 100 slots, 25 sends in flight and one
        // queue give 20 + 50 + 25 + 10 = 105 messages.
        let lanes = campaigns.queues.len() as u64;
        let capacity = 2 * BATCH + plan.slot_count() / 2 + in_flight + BATCH * lanes;
        let express = plan.express.clone().map(|queue| ExpressQueue::new(ctx, queue));
        let not_used = vec![0; plan.turns.lanes.len()];
        Self { ctx, express, limited, campaigns, not_used, capacity }
    }

    /// The next receive to start; none while slots, buffer or queues allow no more. The caller repeats it
    /// until it gives none.
    pub(super) fn next(&mut self, hand: &MailAtHand<'_>) -> Option<NextReceive> {
        if self.ctx.now() + LAST_RECEIVE > self.ctx.plan.window.closes() {
            return None;
        }
        self.give_up_slots(hand);
        let for_campaigns = self.kept_for_campaigns(hand);
        if let Some(express) = &mut self.express
            && let Some(next) = express.next(hand, for_campaigns)
        {
            return Some(next);
        }
        let is_probing = self.ctx.plan.permit == Permit::Probe;
        if let Some(next) = self.limited.next(hand, is_probing) {
            return Some(next);
        }
        // Express mail at hand is bounded by its slots and does not count here: neither kind can keep the
        // other out of the buffer.
        let used = (hand.buffered + self.campaigns.outstanding()).saturating_sub(hand.express());
        let room = self.capacity.saturating_sub(used);
        let mean = self.recipients_per_mail();
        let outlook = self.express.as_ref().and_then(|express| express.outlook(hand, mean));
        if let Some(probe) = self.campaigns.probe() {
            return Some(probe);
        }
        let most = self.most_of_campaigns(hand, outlook.as_ref())?;
        self.campaigns.next(most, room, self.ctx.left_until(LAST_RECEIVE))
    }

    /// Slots that express must leave: the floor's, as far as campaigns have, or may get, mail for them.
    fn kept_for_campaigns(&self, hand: &MailAtHand<'_>) -> u64 {
        let intake = &self.campaigns.intake;
        let wanted = if intake.all_dry() { 0 } else { intake.still_wanted() };
        hand.floor().min(hand.campaigns() + wanted)
    }

    /// Recipients of campaigns for which a receive is worth a call now: while express mail comes (`outlook`),
    /// those of the slots just ahead.
    fn most_of_campaigns(&self, hand: &MailAtHand<'_>, outlook: Option<&Outlook>) -> Option<u64> {
        let Some(outlook) = outlook else { return Some(u64::MAX) };
        let target = outlook.campaigns_in_hand();
        let room = target.saturating_sub(hand.unlimited() + self.campaigns.intake.under_way());
        // A receive for each single slot that passes would cost a call a mail: it waits until 10,
        // or half of the target, are missing. The last receive fills each slot that it can.
        let worth_a_call = if outlook.is_last { 1 } else { BATCH.min(target.div_ceil(2)) };
        (room >= worth_a_call.max(1)).then_some(room)
    }

    /// Mean recipients a mail of the lane with the largest mails.
    fn recipients_per_mail(&self) -> f64 {
        let mean =
            |lane: &LaneQueues| self.ctx.running_means.recipients_per_mail(lane.source(0).lane());
        self.campaigns.queues.iter().map(mean).fold(1.0, f64::max)
    }

    /// Reduces the campaigns' intake by the slots that passed or that express took, but not below the
    /// floor.
    ///
    /// Example: 40 slots are left, campaigns want or hold 35 recipients and 12 express mails of one
    /// recipient wait: 35 + 12 − 40 = 7 recipients of campaigns find no slot, and are not asked for.
    fn give_up_slots(&mut self, hand: &MailAtHand<'_>) {
        let freed = self.limited.give_up_kept();
        let intake = &mut self.campaigns.intake;
        intake.widen(freed);
        let campaigns = intake.still_wanted() + hand.campaigns() + self.limited.kept();
        let over = campaigns + hand.limiter.express_waiting();
        let over = over.saturating_sub(hand.slots_left());
        intake.reduce(over.min(campaigns.saturating_sub(hand.floor())));
    }

    /// Judges a receive's answer of `got` messages; `None` is a failed receive, `long` a long poll.
    pub(super) fn judge(
        &mut self,
        origin: &ReceiveOrigin,
        asked: u64,
        got: Option<u64>,
        long: bool,
    ) -> Option<SourceAnswer> {
        match origin {
            ReceiveOrigin::Express => Some(self.express.as_mut()?.answered(asked, got, long)),
            ReceiveOrigin::Lane(ask, index) => self.campaigns.answered(ask, *index, got, long),
            ReceiveOrigin::Limited(line, index) => {
                let (answer, freed) = self.limited.answered(*line, *index, asked, got, long)?;
                self.campaigns.intake.widen(freed);
                Some(answer)
            }
        }
    }

    /// Takes the rest of an answer, once its messages are read: `usable` recipients will use slots. If a
    /// message `is_left`, its queue is asked no more in this window: its slots go to the others.
    pub(super) fn took(
        &mut self,
        origin: &ReceiveOrigin,
        verdict: PollVerdict,
        got: u64,
        usable: u64,
        is_left: bool,
    ) {
        if let ReceiveOrigin::Lane(ask, _) = origin {
            self.campaigns.took(ask, verdict, got, usable);
            if is_left {
                self.campaigns.intake.mark_dry([ask.lane]);
            }
        }
    }

    /// Notes that the feed, or a rule, brought `mails` into the limit queue at `place`, or into the
    /// merge queue, which is asked again even if it was empty.
    pub(super) fn arrived(&mut self, place: Option<usize>, mails: u64) {
        match place {
            Some(place) => self.limited.arrived(place, mails),
            None => {
                if let Some(lane) = self.campaigns.queues.first_mut() {
                    lane.arrived(mails);
                    self.campaigns.intake.revive(0);
                }
            }
        }
    }

    /// Asks for other mail for the slots of a mail that will not be sent.
    pub(super) fn give_back(&mut self, line: Line, recipients: u64) {
        if let Line::Campaign(lane) = line {
            self.campaigns.intake.replace(lane, recipients);
        }
    }

    /// Notes that mail was moved to a limit queue. Other mail is received for its slots, until the window
    /// has moved as many recipients as `Plan::out_of_the_way` allows.
    pub(super) fn moved_away(&mut self, line: Line, recipients: u64) {
        let Line::Campaign(lane) = line else { return };
        self.campaigns.went_beyond(lane, recipients);
        if self.campaigns.beyond <= self.ctx.plan.out_of_the_way() {
            self.campaigns.intake.replace(lane, recipients);
        }
    }

    /// Notes that a mail was received for a slot and did not get it.
    pub(super) fn not_used(&mut self, line: Line, recipients: u64) {
        if let Line::Campaign(lane) = line
            && let Some(sum) = self.not_used.get_mut(lane)
        {
            *sum += recipients;
        }
    }

    /// Notes for the next windows how much express mail was sent, and how many recipients of limit queues
    /// got a slot in their campaigns' turn.
    pub(super) fn learn(&self, express_sent: u64, in_turn: u64) {
        self.limited.learn(in_turn);
        if let Some(express) = &self.express {
            express.learn(express_sent);
        }
    }

    /// Whether each campaign had as much mail as its share.
    pub(super) fn had_mail(&self) -> Vec<bool> {
        self.campaigns.had_mail()
    }

    /// Changes of the campaigns' debts by lane, in thousandths of a recipient: by what was received,
    /// corrected by what was not used. `limited` are the recipients sent to from limit queues, by lane.
    ///
    /// Recipients that were received and got no slot are no use to their campaign. Each campaign that had
    /// mail to the end bears its part of them by weight, and is given back its own. Example with weights 9
    /// and 1: A received 10 recipients too many, B none. The parts are 9 and 1, so A's debt changes by 9 −
    /// 10 = −1 and B's by +1: A is owed one recipient.
    pub(super) fn debt_changes(&self, limited: &[u64]) -> Vec<i64> {
        let is_dry = |lane| self.campaigns.intake.is_dry(lane);
        let lanes = || self.not_used.iter().enumerate();
        let not_used: u64 = lanes().filter(|(lane, _)| !is_dry(*lane)).map(|(_, n)| n).sum();
        let weight = |(lane, weight): (usize, &u64)| if is_dry(lane) { 0 } else { *weight };
        let cycle = self.ctx.plan.turns.cycle.weights().iter().enumerate();
        let parts = divide(not_used.saturating_mul(1_000), &cycle.map(weight).collect::<Vec<_>>());
        let corrections = lanes().zip(parts).map(|((lane, own), part)| {
            if is_dry(lane) { 0 } else { signed(part) - signed(own * 1_000) }
        });
        let changes = self.campaigns.debt_changes(limited);
        changes.into_iter().zip(corrections).map(|(change, more)| change + more).collect()
    }
}

/// While the express queue has mail, its next answer comes within this time; an empty long poll is silent
/// for a second. So silence for longer means that it is empty.
const WORD: Duration = Duration::from_millis(150);
/// A share of the slots below this, 0.2 %, counts as no express mail.
const NOTABLE: f64 = 0.002;

/// The express queue in this window.
struct ExpressQueue<'a, E: Environment> {
    ctx: &'a Context<'a, E>,
    source: Source,
    supply: QueueSupply,
    /// Too many of the queue's receives failed.
    fails: bool,
    /// It gave mail in this window.
    seen: bool,
    /// Whether the last answer was as full as was asked, and when it came; none before the first.
    full: Option<(bool, Timestamp)>,
    /// When it last gave mail, or was first asked.
    gave: Timestamp,
}

impl<'a, E: Environment> ExpressQueue<'a, E> {
    /// The queue should have mail if it had some in the last windows.
    fn new(ctx: &'a Context<'a, E>, queue: QueueUrl) -> Self {
        let expected = u64::from(ctx.running_means.express_share() >= NOTABLE);
        let supply = QueueSupply::expecting(expected);
        let gave = ctx.plan.window.opens().saturating_sub(LAST_RECEIVE);
        let source = Source::express(queue);
        Self { ctx, source, supply, fails: false, seen: false, full: None, gave }
    }

    /// The next receive, while `for_campaigns` slots are left to campaigns.
    fn next(&mut self, hand: &MailAtHand<'_>, for_campaigns: u64) -> Option<NextReceive> {
        let messages = self.wanted(hand, for_campaigns);
        let left = self.ctx.left_until(LAST_RECEIVE);
        if self.fails || messages == 0 || left.is_zero() || !self.supply.may_ask(left) {
            return None;
        }
        let opens = self.ctx.plan.window.opens().saturating_sub(LAST_RECEIVE);
        let pause = self.supply.pause().max(opens.saturating_since(self.ctx.now()));
        let (origin, queue) = (ReceiveOrigin::Express, self.source.queue.clone());
        self.supply.asked(messages);
        Some(NextReceive { origin, queue, messages, pause, wait: Wait::Past })
    }

    /// Messages to ask for now, 0 to 10.
    ///
    /// Example: 50 slots are left, 5 of them kept for campaigns, 30 express mails are at hand and 10 are
    /// asked for: 50 − 5 − 30 − 10 = 5 messages.
    fn wanted(&self, hand: &MailAtHand<'_>, for_campaigns: u64) -> u64 {
        let open = hand.slots_left().saturating_sub(for_campaigns);
        let most = match self.ctx.plan.permit {
            _ if self.ctx.plan.probes_express && self.seen => 0,
            Permit::Probe => open.min(1),
            Permit::Send | Permit::Nothing => open,
        };
        most.saturating_sub(hand.express() + self.supply.outstanding()).min(BATCH)
    }

    /// Notes an answer of `got` messages to a receive that asked for `asked`; `None` is a failed receive.
    fn answered(&mut self, asked: u64, got: Option<u64>, long: bool) -> SourceAnswer {
        let verdict = self.supply.answered(asked, got, long);
        self.fails |= verdict == PollVerdict::Failing;
        self.seen |= verdict == PollVerdict::Mail;
        if let Some(got) = got {
            self.full = Some((got >= asked, self.ctx.now()));
            self.gave = if got > 0 { self.ctx.now() } else { self.gave };
        }
        SourceAnswer { source: self.source.clone(), of_queue: verdict, verdict }
    }

    /// The expectation for the slots ahead; none if no express mail is expected. Campaigns' mails have
    /// `recipients_per_mail` on average.
    fn outlook(&self, hand: &MailAtHand<'_>, recipients_per_mail: f64) -> Option<Outlook> {
        // Although its receives fail, a long poll under way may still bring mail.
        if self.fails && self.supply.outstanding() == 0 {
            return None;
        }
        let (now, opens) = (self.ctx.now(), self.ctx.plan.window.opens());
        let lately = self.ctx.running_means.express_share();
        if !self.seen && lately < NOTABLE && now >= opens {
            return None;
        }
        let rate = self.ctx.plan.rate;
        let ahead = Outlook::slots_ahead(rate, hand.slots_left(), recipients_per_mail);
        Some(Outlook {
            rate,
            slots_left: hand.slots_left(),
            express_waiting: hand.limiter.express_waiting(),
            express_share: lately,
            express_gives: match self.full {
                // A queue that gave its last mail and is silent for longer than `WORD` has no more.
                Some((full, at)) => full && now < at + WORD,
                None => now + LAST_RECEIVE / 2 < opens,
            },
            express_silent: now.saturating_since(self.gave),
            is_last: self.is_last(now),
            floor: hand.limiter.floor_ahead(ahead),
            recipients_per_mail,
        })
    }

    /// Whether a receive that starts now is the last that can fill the window's slots: it takes about as
    /// long as is left until the last one may start.
    fn is_last(&self, now: Timestamp) -> bool {
        now + 2 * LAST_RECEIVE >= self.ctx.plan.window.closes()
    }

    /// Notes for the next windows the share of the slots that express mail took.
    fn learn(&self, sent: u64) {
        let slots = self.ctx.plan.slot_count();
        if slots > 0 {
            self.ctx.running_means.express_took(real(sent) / real(slots));
        }
    }
}
