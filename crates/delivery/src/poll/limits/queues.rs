//! The queues whose mail waits for one limit as sources: limit queues, and the queues of limited campaigns. No
//! more mail is received from each than its limit, its room and the window's slots let through.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::allocation::{BATCH, divide};
use tidegate_core::limiter::Line;
use tidegate_core::limits::LimitRef;
use tidegate_core::number::{real, whole};
use tidegate_core::turns::{self, Turns};

use super::PlannedQueue;
use crate::poll::context::{Context, Wait};
use crate::poll::plan::{IdleMode, PlannedCampaign};
use crate::poll::sources::message::Source;
use crate::poll::sources::supply::{
    LAST_RECEIVE, LaneQueues, MailAtHand, NextReceive, PollVerdict, QueueSupply, ReceiveOrigin,
    SourceAnswer,
};
use crate::ports::Environment;

/// How long after the window's opening slots are kept for a queue that has not answered.
const KEPT_FOR: Duration = Duration::from_millis(100);

/// A queue of limited mail that this window asks, or a limited campaign's queues.
pub(crate) struct LimitedLine {
    pub(crate) queues: LaneQueues,
    /// The limit that all of its mail falls under; none for a queue that is only emptied, and for that of `*`.
    limit: Option<LimitRef>,
    /// The most mails that may find slots in this window.
    most: u64,
    /// Mails received in this window.
    got: u64,
    /// Slots that other mail leaves to it until it has answered.
    kept: u64,
}

/// The queues of limited mail that this window asks.
pub(crate) struct LimitedLines<'a, E: Environment> {
    ctx: &'a Context<'a, E>,
    lines: Vec<LimitedLine>,
    /// The campaigns take turns: no more mail is received than there are slots.
    in_turns: bool,
}

/// The limit queues that this window asks, with the slots kept for each.
///
/// Example: a limit has 2 slots in this window, and 5 recipients wait in its queue: 2 slots are kept. With
/// 1 recipient it is 1 slot; with none no slot, but the queue is still asked.
fn limit_line<E: Environment>(ctx: &Context<'_, E>, queue: &PlannedQueue) -> Option<LimitedLine> {
    if !ctx.plan.asks_limit(queue) {
        return None;
    }
    let others = (ctx.plan.slot_count() / 2).max(1);
    let owned = queue.slots.unwrap_or(if queue.former { BATCH } else { others });
    // The queue of `*` delays its mail: its depth does not tell what can be received.
    let depth = if queue.slots.is_some() { u64::try_from(queue.depth).unwrap_or(0) } else { 0 };
    let line = Line::Limited(usize::MAX);
    let most = most(ctx, queue.queue.as_str(), owned);
    (most > 0).then(|| LimitedLine {
        queues: LaneQueues::single(
            Source::mixed(queue.queue.clone(), line, Some(queue.place)),
            QueueSupply::expecting(depth),
        ),
        limit: queue.limit.clone().filter(|_| queue.slots.is_some()),
        most,
        got: 0,
        kept: most.min(depth),
    })
}

/// The limited campaigns' queues, which are asked in their limits' slots alone. For each are kept the slots of the
/// window that the campaign has by weight, whatever its limit allows. If there are too many campaigns for the
/// window's slots, they take turns.
///
/// Example: 1,000 campaigns with a limit of 2/s each, at 200 slots a window: a turn is two slots. The 100 campaigns
/// whose turn it is are asked, and those of the next window in place of the ones that have no mail.
fn campaign_lines<E: Environment>(ctx: &Context<'_, E>) -> (Vec<LimitedLine>, bool) {
    let plan = ctx.plan;
    let weight = |(campaign, weight): (&PlannedCampaign, &u64)| {
        if campaign.held || campaign.idle.is_some() { 0 } else { *weight }
    };
    let weights = plan.campaigns.iter().zip(plan.cycle.weights()).map(weight).collect::<Vec<_>>();
    let campaigns = plan.campaigns.iter().enumerate().zip(divide(plan.slot_count(), &weights));
    let lines =
        campaigns.filter_map(|((at, own), part)| Some((at, campaign_line(ctx, at, own, part)?)));
    let mut lines: BTreeMap<usize, LimitedLine> = lines.collect();
    let has_mail = |index: usize| plan.campaigns[index].idle.is_none();
    let busy: Vec<bool> =
        (0..plan.campaigns.len()).map(|at| lines.contains_key(&at) && has_mail(at)).collect();
    if !turns::are_taken(busy.iter().filter(|busy| **busy).count(), plan.slot_count()) {
        return (lines.into_values().collect(), false);
    }
    let limits_of_busy = lines.iter().filter(|(at, _)| busy[**at]);
    let limits_of_busy = limits_of_busy.filter_map(|(_, line)| line.limit.as_ref());
    let turn = limits_of_busy.map(|limit| ctx.limits.gates.borrow_mut().per_second(limit)).min();
    let turn = turn.unwrap_or(1).clamp(1, BATCH);
    let mut kept: u64 = lines.values().map(|line| line.kept).sum();
    let turns = Turns::taken(&plan.cycle, &busy, &[], plan.slots.clone(), turn);
    // Campaigns that were found empty are asked first: no slot would be left for their answers.
    let order = plan.probes(|at, _| lines.contains_key(&at)).into_iter().chain(turns.lanes);
    let mut asked = Vec::new();
    for (at, line) in order.filter_map(|at| Some((at, lines.remove(&at)?))) {
        let own = if busy[at] { line.most.min(turn).min(kept) } else { 0 };
        kept -= own;
        asked.push(LimitedLine { kept: own, ..line });
    }
    (asked, true)
}

/// A limited campaign's queues. `part` are the window's slots that the campaign has by weight. Of a campaign that is
/// probed a batch is received, whether it is limited or not: one mail of it has the slots that are kept, and messages that
/// are no valid mail do not stand in its way.
fn campaign_line<E: Environment>(
    ctx: &Context<'_, E>,
    index: usize,
    campaign: &PlannedCampaign,
    part: u64,
) -> Option<LimitedLine> {
    if campaign.has_share() || !ctx.plan.asks(campaign) {
        return None;
    }
    let limit = campaign.limit.clone();
    let owned =
        limit.as_ref().map_or(Some(BATCH), |limit| ctx.limits.gates.borrow_mut().whole(limit))?;
    let (owned, part) = if campaign.probed { (owned.min(BATCH), 1) } else { (owned, part) };
    let queues = LaneQueues::of(ctx.plan, campaign, Line::Limited(index));
    let most = most(ctx, queues.source(0).queue.as_str(), owned);
    let kept = if campaign.idle.is_none() { most.min(part) } else { 0 };
    (most > 0).then_some(LimitedLine { queues, limit, most, got: 0, kept })
}

/// The most mails of a queue to receive whose limit has `owned` slots. A look into all queues asks for one
/// even without a slot: it has to find out whether there is mail.
fn most<E: Environment>(ctx: &Context<'_, E>, queue: &str, owned: u64) -> u64 {
    let looks = u64::from(ctx.plan.rest == IdleMode::Look);
    owned.min(ctx.running_means.limited_most(queue)).max(looks)
}

impl<'a, E: Environment> LimitedLines<'a, E> {
    pub(crate) fn new(ctx: &'a Context<'a, E>) -> Self {
        let plan = ctx.plan;
        if plan.for_campaigns == 0 {
            return Self { ctx, lines: Vec::new(), in_turns: false };
        }
        let queues = plan.limits.queues.iter().filter_map(|queue| limit_line(ctx, queue));
        let (campaigns, in_turns) = campaign_lines(ctx);
        let mut lines: Vec<LimitedLine> = queues.chain(campaigns).collect();
        let mut free = plan.intake_amount();
        for line in &mut lines {
            line.kept = line.kept.min(free);
            free -= line.kept;
        }
        Self { ctx, lines, in_turns }
    }

    /// Slots that other mail leaves to the queues of limited mail.
    pub(crate) fn kept(&self) -> u64 {
        self.lines.iter().map(|line| line.kept).sum()
    }

    /// The slots that are kept no longer, once: 100 ms after the window's opening they go to the campaigns.
    pub(crate) fn give_up_kept(&mut self) -> u64 {
        if self.ctx.now() < self.ctx.plan.window.opens() + KEPT_FOR {
            return 0;
        }
        self.lines.iter_mut().map(|line| std::mem::take(&mut line.kept)).sum()
    }

    /// The next receive, while the window has slots left. A breaker that probes wants one mail.
    pub(crate) fn next(&mut self, hand: &MailAtHand<'_>, is_probing: bool) -> Option<NextReceive> {
        let (ctx, now) = (self.ctx, self.ctx.now());
        let mut slots = hand.slots_left();
        if self.in_turns {
            let under_way: u64 = self.lines.iter().map(|line| line.queues.outstanding()).sum();
            slots = slots.saturating_sub(hand.campaigns() + under_way);
        }
        let left = ctx.left_until(LAST_RECEIVE);
        for (index, line) in self.lines.iter_mut().enumerate() {
            // A look into all queues asks each of a campaign for one message.
            if let Some(place) = line.queues.next_due() {
                let ((queue, pause), wait) = (line.queues.asked(place, 1), Wait::Within);
                let origin = ReceiveOrigin::Limited(index, place);
                return Some(NextReceive { origin, queue, messages: 1, pause, wait });
            }
            let Some(place) = line.queues.next(left) else { continue };
            let under_way = line.queues.outstanding();
            let wanted = line.most.saturating_sub(line.got);
            if wanted <= under_way || slots == 0 {
                continue;
            }
            let gates = &ctx.limits.gates;
            let room = line.limit.as_ref().and_then(|limit| gates.borrow_mut().room(limit, now));
            let (room, whole) = room.unwrap_or((slots, slots));
            // A look into all queues asks for one message even without a slot: it has to find out whether
            // there is mail.
            let looks = ctx.plan.rest == IdleMode::Look && line.got == 0;
            let room = if looks { room.max(1) } else { room };
            let source = line.queues.source(place);
            let mean = ctx.running_means.recipients_per_mail(source.lane());
            let fit = mails_in(room.min(slots), whole, mean);
            let messages = wanted.min(fit).saturating_sub(under_way).min(BATCH);
            let messages = if is_probing { messages.min(1) } else { messages };
            if messages > 0 {
                let (queue, pause) = line.queues.asked(place, messages);
                let origin = ReceiveOrigin::Limited(index, place);
                let wait = if line.queues.is_alone(place) { Wait::Within } else { Wait::No };
                return Some(NextReceive { origin, queue, messages, pause, wait });
            }
        }
        None
    }

    /// Judges a receive's answer of `got` messages. Beside it returns the slots that are kept for the queues no longer:
    /// received mail acquires slots by itself, and slots kept for more are given back once they give no more.
    pub(crate) fn answered(
        &mut self,
        index: usize,
        place: usize,
        asked: u64,
        got: Option<u64>,
        long: bool,
    ) -> Option<(SourceAnswer, u64)> {
        let line = self.lines.get_mut(index)?;
        let answer = line.queues.answered(place, asked, got, long);
        if answer.of_queue == PollVerdict::Empty && long {
            self.ctx.limits.note(line.queues.source(0).limit_queue, |moves| moves.empty = true);
        }
        let got = got.unwrap_or(0);
        line.got += got;
        let kept = line.kept.saturating_sub(got);
        let freed = if line.queues.is_dry() { kept } else { 0 };
        line.kept = kept - freed;
        Some((answer, freed))
    }

    /// Notes that the feed, or this drain, brought `mails` into the queue at `place`.
    pub(crate) fn arrived(&mut self, place: usize, mails: u64) {
        let is_at = |line: &&mut LimitedLine| line.queues.source(0).limit_queue == Some(place);
        if let Some(line) = self.lines.iter_mut().find(is_at) {
            line.queues.arrived(mails);
        }
    }

    /// Notes for the next windows how many mails of each queue found slots; `in_turn` recipients got
    /// one in their campaigns' turn.
    pub(crate) fn learn(&self, in_turn: u64) {
        self.ctx.running_means.took_in_turn(in_turn);
        for line in self.lines.iter().filter(|line| line.got > 0) {
            let left = |source: &Source| self.ctx.limits.left(source.queue.as_str());
            let left = line.queues.sources().map(left).sum();
            let first = line.queues.source(0).queue.as_str();
            self.ctx.running_means.served_limited(first, line.got, left);
        }
    }
}

/// How many mails of `mean` recipients fit into `room` slots of a window that has `all`. If the mean mail
/// is larger than the whole window, one mail is asked for as long as any slot is left: its limit lets it
/// through alone.
///
/// Example: `mean` 5 and `all` 20: room for 12 recipients fits 2 mails, room for 4 none. `mean` 30: any
/// room fits 1.
fn mails_in(room: u64, all: u64, mean: f64) -> u64 {
    let mean_mail = whole(mean.round());
    let needed = if mean_mail > all { 1 } else { mean_mail.max(1) };
    if room < needed { 0 } else { whole(real(room) / mean).max(1) }
}
