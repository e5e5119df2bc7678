//! The sources of the drain: no more mail is received than its slots will use; express mail first, then
//! the queues of limited mail, then campaigns or the merge queue.
//!
//! Express mail and campaign mail side by side: how much of each is received.
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
//!
//! The campaigns' queues as sources, or the merge queue in their place: how much is asked of each, and how
//! much each owes or is owed in the end.

pub(super) mod message;
pub(super) mod supply;

use std::time::Duration;

use message::Source;
use supply::{
    LAST_RECEIVE, LaneQueues, MailAtHand, NextReceive, PollVerdict, QueueSupply, ReceiveOrigin,
    Wait,
};
use tidegate_core::Timestamp;
use tidegate_core::allocation::{Ask, BATCH, Intake, divide};
use tidegate_core::breaker::Permit;
use tidegate_core::counters::signed;
use tidegate_core::cycle::Cycle;
use tidegate_core::limiter::Line;
use tidegate_core::prefetch::Outlook;
use tidegate_core::turns::Turns;

use super::context::Context;
use super::limits::{LimitWindow, LimitedLines};
use crate::environment::Environment;
use crate::ports::QueueUrl;

/// The queues that the drain asks in one window.
pub(super) struct Sources<'a, E> {
    ctx: &'a Context<'a, E>,
    express: Option<ExpressQueue<'a, E>>,
    limited: LimitedLines<'a, E>,
    campaigns: CampaignLanes<'a, E>,
    /// The most messages of campaigns received and not yet settled, or asked for.
    capacity: u64,
}

/// A receive's answer, as its source judges it.
pub(super) struct SourceAnswer {
    pub(super) source: Source,
    /// The queue's name for the idle pauses.
    pub(super) queue: String,
    /// The conclusion about the queue.
    pub(super) of_queue: PollVerdict,
    /// The conclusion about all queues of its lane.
    pub(super) verdict: PollVerdict,
}

impl<'a, E: Environment> Sources<'a, E> {
    pub(super) fn new(ctx: &'a Context<'a, E>, limits: &'a LimitWindow<'a>) -> Self {
        let plan = ctx.plan;
        let limited = LimitedLines::new(ctx, limits);
        let campaigns = CampaignLanes::new(ctx, limited.kept());
        let in_flight = ctx.running_means.connections(plan.rate.as_per_second()) as u64;
        // Enough that no slot waits for a receive: half a window's mail, the sends in flight, and 10
        // messages for each receive that may be under way. Example: 100 slots, 25 sends in flight and one
        // queue give 20 + 50 + 25 + 10 = 105 messages.
        let lanes = campaigns.lanes.len() as u64;
        let capacity = 2 * BATCH + plan.slot_count() / 2 + in_flight + BATCH * lanes;
        let express = plan.express.clone().map(|queue| ExpressQueue::new(ctx, queue));
        Self { ctx, express, limited, campaigns, capacity }
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
        let mean = self.campaigns.recipients_per_mail();
        let outlook = self.express.as_ref().and_then(|express| express.outlook(hand, mean));
        self.campaigns.next(hand, outlook.as_ref(), room)
    }

    /// Slots that express must leave: the floor's, as far as campaigns have, or may get, mail for them.
    fn kept_for_campaigns(&self, hand: &MailAtHand<'_>) -> u64 {
        let intake = &self.campaigns.intake;
        let wanted = if intake.all_dry() { 0 } else { intake.still_wanted() };
        hand.floor().min(hand.campaigns() + wanted)
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
        let (source, (of_queue, verdict)) = match origin {
            ReceiveOrigin::Express => {
                let express = self.express.as_mut()?;
                let verdict = express.supply.answered(asked, got, long);
                express.answered(asked, got, verdict);
                (express.source.clone(), (verdict, verdict))
            }
            ReceiveOrigin::Lane(ask, index) => {
                let lane = self.campaigns.lanes.get_mut(ask.lane)?;
                if ask.recipients == 0 && got.unwrap_or(0) > 0 {
                    self.campaigns.intake.revive(ask.lane); // the probe found mail again
                }
                let verdicts = lane.answered(*index, asked, got, long);
                (lane.source(*index).clone(), verdicts)
            }
            ReceiveOrigin::Limited(line, index) => {
                let queues = &mut self.limited.get_mut(*line)?.queues;
                let verdicts = queues.answered(*index, asked, got, long);
                let source = queues.source(*index).clone();
                let freed = self.limited.answered(*line, got.unwrap_or(0), verdicts.0, long);
                self.campaigns.intake.widen(freed);
                (source, verdicts)
            }
        };
        Some(SourceAnswer { queue: source.idle_key(), source, of_queue, verdict })
    }

    /// Takes the rest of an answer, once its messages are read: `usable` recipients will use slots. If a
    /// message `is_left`, its queue is asked no more in this window.
    pub(super) fn took(
        &mut self,
        origin: &ReceiveOrigin,
        verdict: PollVerdict,
        got: u64,
        usable: u64,
        is_left: bool,
    ) {
        if let ReceiveOrigin::Lane(ask, _) = origin {
            self.campaigns.answered(ask, verdict, got, usable, is_left);
        }
    }

    /// Notes that the feed, or a rule, brought `mails` into the limit queue at `place`, or into the
    /// merge queue.
    pub(super) fn arrived(&mut self, place: Option<usize>, mails: u64) {
        match place {
            Some(place) => self.limited.arrived(place, mails),
            None => self.campaigns.arrived(mails),
        }
    }

    /// Asks for other mail for the slots of a mail that will not be sent.
    pub(super) fn give_back(&mut self, line: Line, recipients: u64) {
        if let Line::Campaign(lane) = line {
            self.campaigns.intake.replace(lane, recipients);
        }
    }

    pub(super) fn moved_away(&mut self, line: Line, recipients: u64) {
        self.campaigns.moved_away(line, recipients);
    }

    pub(super) fn not_used(&mut self, line: Line, recipients: u64) {
        self.campaigns.not_used(line, recipients);
    }

    /// Notes for the next windows how much express mail was sent, and how many recipients of limit queues
    /// got a slot in their campaigns' turn.
    pub(super) fn learn(&self, express_sent: u64, in_turn: u64) {
        self.limited.learn(in_turn);
        if let Some(express) = &self.express {
            express.learn(express_sent);
        }
    }

    /// See [`CampaignLanes::debt_changes`].
    pub(super) fn debt_changes(&self, limited: &[u64]) -> Vec<i64> {
        self.campaigns.debt_changes(limited)
    }
}

/// While the express queue has mail, its next answer comes within this time; an empty long poll is silent
/// for a second. So silence for longer means that it is empty.
const WORD: Duration = Duration::from_millis(150);
/// A share of the slots below this, 0.2 %, counts as no express mail.
const NOTABLE: f64 = 0.002;

/// The express queue in this window.
struct ExpressQueue<'a, E> {
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
        Self {
            ctx,
            source: Source::express(queue),
            supply,
            fails: false,
            seen: false,
            full: None,
            gave,
        }
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
    fn answered(&mut self, asked: u64, got: Option<u64>, verdict: PollVerdict) {
        self.fails |= verdict == PollVerdict::Failing;
        self.seen |= verdict == PollVerdict::Mail;
        if let Some(got) = got {
            self.full = Some((got >= asked, self.ctx.now()));
            self.gave = if got > 0 { self.ctx.now() } else { self.gave };
        }
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
    #[expect(clippy::cast_precision_loss, reason = "slots of one window")]
    fn learn(&self, sent: u64) {
        let slots = self.ctx.plan.slot_count();
        if slots > 0 {
            self.ctx.running_means.express_took(sent as f64 / slots as f64);
        }
    }
}

/// One lane for each campaign of this window; with a merge queue a single lane.
struct CampaignLanes<'a, E> {
    ctx: &'a Context<'a, E>,
    lanes: Vec<LaneQueues>,
    intake: Intake,
    /// Receives from queues that were found empty, still to be made; each with its queue's place in the lane.
    probes: Vec<(Ask, usize)>,
    /// Recipients of mails that were received and got no slot, by lane.
    not_used: Vec<u64>,
    /// By lane: whether any mail of it was moved to a limit queue.
    had_limited_mail: Vec<bool>,
    /// Recipients moved to limit queues so far.
    moved_away: u64,
}

impl<'a, E: Environment> CampaignLanes<'a, E> {
    /// Lanes that leave `kept` slots to the limit queues.
    fn new(ctx: &'a Context<'a, E>, kept: u64) -> Self {
        let plan = ctx.plan;
        let campaigns = plan.turns.lanes.len();
        let mut probes = Vec::new();
        let (lanes, intake) = match &plan.merge {
            Some(queue) => {
                let source = Source::mixed(queue.clone(), Line::Campaign(0), None);
                let expected = u64::try_from(plan.depth).unwrap_or(0);
                let mean = ctx.running_means.recipients_per_mail(queue.as_str());
                let one = Turns::all(&Cycle::single(), 1);
                let total = plan.intake_amount() - kept;
                let mut intake = Intake::new(&one, plan.slots.clone(), total, &[], &[mean]);
                if !plan.asks_merge() {
                    intake.mark_dry(0); // until the feed brings something
                }
                (vec![LaneQueues::single(source, QueueSupply::expecting(expected))], intake)
            }
            None => {
                // An empty list has no queue to ask.
                let total = if plan.campaigns.is_empty() { 0 } else { plan.intake_amount() - kept };
                (direct_lanes(ctx, &mut probes), ctx.intake(total))
            }
        };
        Self {
            ctx,
            lanes,
            intake,
            probes,
            not_used: vec![0; campaigns],
            had_limited_mail: vec![false; campaigns],
            moved_away: 0,
        }
    }

    fn outstanding(&self) -> u64 {
        self.lanes.iter().map(LaneQueues::outstanding).sum()
    }

    /// The next receive, if `room` messages find room in the buffer. While express mail comes (`outlook`),
    /// it is limited to the slots just ahead.
    fn next(
        &mut self,
        hand: &MailAtHand<'_>,
        outlook: Option<&Outlook>,
        room: u64,
    ) -> Option<NextReceive> {
        if let Some((ask, index)) = self.probes.pop() {
            let (origin, messages) = (ReceiveOrigin::Lane(ask, index), ask.messages);
            let queue = self.lanes[ask.lane].source(index).queue.clone();
            let (pause, wait) = (Duration::ZERO, Wait::Within);
            return Some(NextReceive { origin, queue, messages, pause, wait });
        }
        let left = self.ctx.left_until(LAST_RECEIVE);
        let ask = self.ask(hand, outlook, left)?;
        if room < ask.messages {
            self.intake.withdraw(&ask);
            return None;
        }
        let lane = &mut self.lanes[ask.lane];
        let index = lane.next(left).unwrap_or(0);
        let (queue, pause) = lane.asked(index, ask.messages);
        let (origin, messages) = (ReceiveOrigin::Lane(ask, index), ask.messages);
        Some(NextReceive { origin, queue, messages, pause, wait: self.wait_for(&ask, index) })
    }

    fn ask(
        &mut self,
        hand: &MailAtHand<'_>,
        outlook: Option<&Outlook>,
        left: Duration,
    ) -> Option<Ask> {
        let most = match outlook {
            None => u64::MAX,
            Some(outlook) => {
                let target = outlook.campaigns_in_hand();
                let room = target.saturating_sub(hand.unlimited() + self.intake.under_way());
                // A receive for each single slot that passes would cost a call a mail: it waits until 10,
                // or half of the target, are missing. The last receive fills each slot that it can.
                let worth_a_call = if outlook.is_last { 1 } else { BATCH.min(target.div_ceil(2)) };
                if room < worth_a_call.max(1) {
                    return None;
                }
                room
            }
        };
        let lanes = &self.lanes;
        let may_ask = |lane: usize| lanes.get(lane).is_some_and(|lane| lane.next(left).is_some());
        self.intake.ask_within(most, may_ask)
    }

    /// `WaitTimeSeconds` of a campaign's receive: 0 if another queue may have mail for its slots, else a
    /// second if the window has it.
    fn wait_for(&self, ask: &Ask, index: usize) -> Wait {
        let other_gives = |lane| lane != ask.lane && !self.intake.is_dry(lane);
        let others = !self.lanes[ask.lane].is_alone(index);
        if others || (0..self.lanes.len()).any(other_gives) { Wait::No } else { Wait::Within }
    }

    /// Passes a receive's conclusion on to the intake: it brought `got` messages, of which `usable`
    /// recipients will use slots. If it `is_left`, its queue is asked no more: its slots go to the others.
    fn answered(&mut self, ask: &Ask, verdict: PollVerdict, got: u64, usable: u64, is_left: bool) {
        verdict.apply_to(&mut self.intake, ask, got, usable);
        if is_left {
            self.intake.mark_dry(ask.lane);
        }
    }

    /// Notes that the feed brought `mails` into the merge queue: it is asked again even if it was empty.
    fn arrived(&mut self, mails: u64) {
        if let Some(lane) = self.lanes.first_mut() {
            lane.arrived(mails);
            self.intake.revive(0);
        }
    }

    /// Notes that a mail was received for a slot and did not get it.
    fn not_used(&mut self, line: Line, recipients: u64) {
        if let Line::Campaign(lane) = line
            && let Some(sum) = self.not_used.get_mut(lane)
        {
            *sum += recipients;
        }
    }

    /// Notes that mail was moved to a limit queue. Other mail is received for its slots, until the window
    /// has moved as many recipients as `Plan::out_of_the_way` allows.
    fn moved_away(&mut self, line: Line, recipients: u64) {
        let Line::Campaign(lane) = line else { return };
        self.moved_away += recipients;
        if let Some(had_limited_mail) = self.had_limited_mail.get_mut(lane) {
            *had_limited_mail = true;
        }
        if self.moved_away <= self.ctx.plan.out_of_the_way() {
            self.intake.replace(lane, recipients);
        }
    }

    /// Mean recipients a mail of the lane with the largest mails.
    fn recipients_per_mail(&self) -> f64 {
        let mean = |source: &Source| match &source.campaign {
            Some(campaign) => self.ctx.running_means.recipients_per_mail(campaign),
            None => self.ctx.running_means.recipients_per_mail(source.queue.as_str()),
        };
        self.lanes.iter().map(|lane| mean(lane.source(0))).fold(1.0, f64::max)
    }

    /// Changes of the campaigns' debts by lane, in thousandths of a recipient: by what was received,
    /// corrected by what was not used. `limited` are the recipients sent to from limit queues, by lane.
    ///
    /// Recipients that were received and got no slot are no use to their campaign. Each campaign that had
    /// mail to the end bears its part of them by weight, and is given back its own. Example with weights 9
    /// and 1: A received 10 recipients too many, B none. The parts are 9 and 1, so A's debt changes by 9 −
    /// 10 = −1 and B's by +1: A is owed one recipient.
    fn debt_changes(&self, limited: &[u64]) -> Vec<i64> {
        let lanes = || self.not_used.iter().enumerate();
        let not_used: u64 = lanes().filter(|(l, _)| !self.intake.is_dry(*l)).map(|(_, n)| n).sum();
        let weight = |(lane, weight): (usize, &u64)| {
            if self.intake.is_dry(lane) { 0 } else { *weight }
        };
        let cycle = self.ctx.plan.turns.cycle.weights().iter().enumerate();
        let parts = divide(not_used.saturating_mul(1_000), &cycle.map(weight).collect::<Vec<_>>());
        let corrections = lanes().zip(parts).map(|((lane, own), part)| {
            if self.intake.is_dry(lane) { 0 } else { signed(part) - signed(own * 1_000) }
        });
        let changes = self.intake.debt_changes(limited, &self.had_limited_mail);
        changes.into_iter().zip(corrections).map(|(change, more)| change + more).collect()
    }
}

/// The lanes of direct mode, one for each campaign of this window. Queues that were found empty get a probe if
/// they are due.
fn direct_lanes<E: Environment>(
    ctx: &Context<'_, E>,
    probes: &mut Vec<(Ask, usize)>,
) -> Vec<LaneQueues> {
    let (plan, lanes) = (ctx.plan, ctx.plan.lanes().enumerate());
    let lane = lanes.map(|(index, c)| LaneQueues::of(plan, c, Line::Campaign(index)));
    let mut lanes: Vec<LaneQueues> = lane.collect();
    if plan.intake_amount() > 0 {
        let each = lanes.iter_mut().enumerate();
        probes.extend(each.flat_map(|(index, lane)| lane.probes(plan, index)));
    }
    lanes
}
