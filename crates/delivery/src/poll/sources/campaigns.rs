//! The campaigns' queues as sources, or the merge queue in their place: how much is asked of each, and how
//! much each owes or is owed in the end.

use std::time::Duration;

use tidegate_core::allocation::{Ask, BATCH, Intake, divide};
use tidegate_core::counters::signed;
use tidegate_core::cycle::Cycle;
use tidegate_core::limiter::Line;
use tidegate_core::prefetch::Outlook;
use tidegate_core::turns::Turns;

use super::lane_queues::LaneQueues;
use super::mail_at_hand::MailAtHand;
use super::message::Source;
use super::receive::{LAST_RECEIVE, NextReceive, ReceiveOrigin, Wait};
use super::supply::{PollVerdict, QueueSupply};
use crate::environment::Environment;
use crate::poll::context::Context;

/// One lane for each campaign of this window; with a merge queue a single lane.
pub(super) struct CampaignLanes<'a, E> {
    ctx: &'a Context<'a, E>,
    pub(super) lanes: Vec<LaneQueues>,
    pub(super) intake: Intake,
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
    pub(super) fn new(ctx: &'a Context<'a, E>, kept: u64) -> Self {
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

    pub(super) fn outstanding(&self) -> u64 {
        self.lanes.iter().map(LaneQueues::outstanding).sum()
    }

    /// The next receive, if `room` messages find room in the buffer. While express mail comes (`outlook`),
    /// it is limited to the slots just ahead.
    pub(super) fn next(
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
    pub(super) fn answered(
        &mut self,
        ask: &Ask,
        verdict: PollVerdict,
        got: u64,
        usable: u64,
        is_left: bool,
    ) {
        verdict.apply_to(&mut self.intake, ask, got, usable);
        if is_left {
            self.intake.mark_dry(ask.lane);
        }
    }

    /// Notes that the feed brought `mails` into the merge queue: it is asked again even if it was empty.
    pub(super) fn arrived(&mut self, mails: u64) {
        if let Some(lane) = self.lanes.first_mut() {
            lane.arrived(mails);
            self.intake.revive(0);
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

    /// Notes that mail was moved to a limit queue. Other mail is received for its slots, until the window
    /// has moved as many recipients as `Plan::out_of_the_way` allows.
    pub(super) fn moved_away(&mut self, line: Line, recipients: u64) {
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
    pub(super) fn recipients_per_mail(&self) -> f64 {
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
    pub(super) fn debt_changes(&self, limited: &[u64]) -> Vec<i64> {
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
