//! The domain queues as sources: no more mail is received from each than its limit, its room and the window's
//! slots let through.

use std::time::Duration;

use tidegate_core::allocation::BATCH;
use tidegate_core::limiter::Line;

use super::message::Source;
use super::receive::{LAST_RECEIVE, NextReceive, ReceiveOrigin, Wait};
use super::supply::{PollVerdict, QueueSupply};
use crate::environment::Environment;
use crate::poll::context::Context;
use crate::poll::domain_window::DomainWindow;
use crate::poll::plan::IdleMode;
use crate::poll::plan::domains::PlannedQueue;

/// How long after the window's opening slots are kept for a domain queue that has not answered.
const KEPT_FOR: Duration = Duration::from_millis(100);

/// A domain queue that this window asks.
pub(super) struct DomainLine {
    pub(super) place: usize,
    pub(super) source: Source,
    pub(super) supply: QueueSupply,
    /// The most mails that may find slots in this window.
    most: u64,
    /// Mails received in this window.
    got: u64,
    /// Slots that other mail leaves to it until it has answered.
    kept: u64,
    dry: bool,
}

/// The domain queues that this window asks.
pub(super) struct DomainLines<'a, E> {
    ctx: &'a Context<'a, E>,
    domains: &'a DomainWindow<'a>,
    lines: Vec<DomainLine>,
}

/// The domain queues that this window asks, with the slots kept for each.
///
/// Example: a limit has 2 slots in this window, and 5 recipients wait in its queue: 2 slots are kept. With
/// 1 recipient it is 1 slot; with none no slot, but the queue is still asked.
fn lines<E: Environment>(ctx: &Context<'_, E>) -> Vec<DomainLine> {
    let mut free = ctx.plan.intake_amount();
    let line = |queue: &PlannedQueue| {
        if !ctx.plan.asks_domain(queue) {
            return None;
        }
        let others = (ctx.plan.slot_count() / 2).max(1);
        let owned = queue.slots.unwrap_or(if queue.former { BATCH } else { others });
        let looks = u64::from(ctx.plan.rest == IdleMode::Look);
        let most = owned.min(ctx.running_means.domain_most(queue.place)).max(looks);
        if most == 0 {
            return None;
        }
        // The queue of `*` delays its mail: its depth does not tell what can be received.
        let depth = if queue.slots.is_some() { u64::try_from(queue.depth).unwrap_or(0) } else { 0 };
        let kept = most.min(depth).min(free);
        free -= kept;
        let line = Line::Limited(usize::MAX);
        Some(DomainLine {
            place: queue.place,
            source: Source::mixed(queue.queue.clone(), line, Some(queue.place)),
            supply: QueueSupply::expecting(depth),
            most,
            got: 0,
            kept,
            dry: false,
        })
    };
    ctx.plan.domains.queues.iter().filter_map(line).collect()
}

impl<'a, E: Environment> DomainLines<'a, E> {
    pub(super) fn new(ctx: &'a Context<'a, E>, domains: &'a DomainWindow<'a>) -> Self {
        Self { ctx, domains, lines: lines(ctx) }
    }

    /// Slots that other mail leaves to the domain queues.
    pub(super) fn kept(&self) -> u64 {
        self.lines.iter().map(|line| line.kept).sum()
    }

    /// The slots that are kept no longer, once: 100 ms after the window's opening they go to the campaigns.
    pub(super) fn give_up_kept(&mut self) -> u64 {
        if self.ctx.now() < self.ctx.plan.window.opens() + KEPT_FOR {
            return 0;
        }
        self.lines.iter_mut().map(|line| std::mem::take(&mut line.kept)).sum()
    }

    /// The next receive, while the window has so many `slots` left. A breaker that probes wants one mail.
    pub(super) fn next(&mut self, slots: u64, is_probing: bool) -> Option<NextReceive> {
        let (ctx, now) = (self.ctx, self.ctx.now());
        let left = ctx.left_until(LAST_RECEIVE);
        for (index, line) in self.lines.iter_mut().enumerate() {
            if line.dry || !line.supply.may_ask(left) {
                continue;
            }
            let under_way = line.supply.outstanding();
            let (room, whole) =
                self.domains.gates().room(line.place, now).unwrap_or((slots, slots));
            // A look into all queues asks for one message even without a slot: it has to find out whether
            // there is mail.
            let looks = ctx.plan.rest == IdleMode::Look && line.got == 0;
            let room = if looks { room.max(1) } else { room };
            let mean = ctx.running_means.recipients_per_mail(line.source.queue.as_str());
            let fit = mails_in(room.min(slots), whole, mean);
            let most = line.most.saturating_sub(line.got).min(fit);
            let messages = most.saturating_sub(under_way).min(BATCH);
            let messages = if is_probing { messages.min(1) } else { messages };
            if messages > 0 {
                line.supply.asked(messages);
                let (queue, pause) = (line.source.queue.clone(), line.supply.pause());
                let (origin, wait) = (ReceiveOrigin::Domain(index), Wait::Within);
                return Some(NextReceive { origin, queue, messages, pause, wait });
            }
        }
        None
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut DomainLine> {
        self.lines.get_mut(index)
    }

    /// Takes a queue's answer of `got` messages. Returns the slots that are kept for it no longer: received
    /// mail acquires slots by itself, and slots kept for more are given back once the queue gives no more.
    pub(super) fn answered(
        &mut self,
        index: usize,
        got: u64,
        (verdict, long): (PollVerdict, bool),
    ) -> u64 {
        let Some(line) = self.lines.get_mut(index) else { return 0 };
        if verdict == PollVerdict::Empty && long {
            self.domains.note().empty.insert(line.place);
        }
        line.dry |= verdict.is_dry();
        line.got += got;
        let kept = line.kept.saturating_sub(got);
        line.kept = if line.dry { 0 } else { kept };
        if line.dry { kept } else { 0 }
    }

    /// Notes that the feed, or this drain, brought `mails` into the queue at `place`.
    pub(super) fn arrived(&mut self, place: usize, mails: u64) {
        if let Some(line) = self.lines.iter_mut().find(|line| line.place == place) {
            line.supply.arrived(mails);
            line.dry = false;
        }
    }

    /// Notes for the next windows how many mails of each domain queue found slots; `in_turn` recipients got
    /// one in their campaigns' turn.
    pub(super) fn learn(&self, in_turn: u64) {
        self.ctx.running_means.took_in_turn(in_turn);
        let moves = self.domains.moves();
        for line in self.lines.iter().filter(|line| line.got > 0) {
            let left = moves.left.get(&line.place).copied().unwrap_or(0);
            self.ctx.running_means.served_domain(line.place, line.got, left);
        }
    }
}

/// How many mails of `mean` recipients fit into `room` slots of a window that has `whole`. If the mean mail
/// is larger than the whole window, one mail is asked for as long as any slot is left: its limit lets it
/// through alone.
///
/// Example: `mean` 5 and `whole` 20: room for 12 recipients fits 2 mails, room for 4 none. `mean` 30: any
/// room fits 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "recipients of one window: far below 2^52; the mean is at least 1"
)]
fn mails_in(room: u64, whole: u64, mean: f64) -> u64 {
    let mean_mail = mean.round() as u64;
    let needed = if mean_mail > whole { 1 } else { mean_mail.max(1) };
    if room < needed { 0 } else { ((room as f64 / mean).floor() as u64).max(1) }
}
