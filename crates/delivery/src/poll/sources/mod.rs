//! The sources of the drain: no more mail is received than its slots will use; express mail first, then
//! the queues of limited mail, then campaigns or the merge queue.

mod campaigns;
mod express;
pub(super) mod lane_queues;
mod limited_queues;
pub(super) mod mail_at_hand;
pub(super) mod message;
pub(super) mod receive;
pub(super) mod supply;

use tidegate_core::allocation::BATCH;
use tidegate_core::breaker::Permit;
use tidegate_core::limiter::Line;

use super::context::Context;
use super::limit_window::LimitWindow;
use crate::environment::Environment;
use campaigns::CampaignLanes;
use express::ExpressQueue;
use limited_queues::LimitedLines;
use mail_at_hand::MailAtHand;
use message::Source;
use receive::{LAST_RECEIVE, NextReceive, ReceiveOrigin};
use supply::PollVerdict;

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
