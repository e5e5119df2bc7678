//! Recipient domains' limits in the drain: receives from the domain queues, and mail that has to go there.

use std::time::Duration;

use tidegate_core::allocation::BATCH;
use tidegate_core::domains::DomainKey;
use tidegate_core::limiter::Line;

use super::receive::{LAST_RECEIVE, NextReceive, ReceiveOrigin};
use super::state::{Drain, DrainStage};
use crate::environment::Environment;
use crate::poll::context::Context;
use crate::poll::domains::{DomainMoves, PlannedQueue, delay};
use crate::poll::idle_mode::IdleMode;
use crate::poll::message::{Message, Source};
use crate::poll::outcome::move_on;
use crate::poll::queue_supply::{PollVerdict, QueueSupply};
use crate::poll::settle::Job;
use crate::ports::Entropy as _;

/// How long after the window's opening slots are kept for a domain queue that has not answered.
const KEPT_FOR: Duration = Duration::from_millis(100);
/// Longest time, in seconds, for which an express mail over its domain's limit is invisible.
const EXPRESS_AWAY: u32 = 30;

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

/// The domain queues that this window asks, and the slots kept for all of them.
///
/// Example: a limit has 2 slots in this window, and 5 recipients wait in its queue: 2 slots are kept. With
/// 1 recipient it is 1 slot; with none no slot, but the queue is still asked.
pub(super) fn lines<E: Environment>(ctx: &Context<'_, E>) -> (Vec<DomainLine>, u64) {
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
    let lines: Vec<DomainLine> = ctx.plan.domains.queues.iter().filter_map(line).collect();
    let kept = lines.iter().map(|line| line.kept).sum();
    (lines, kept)
}

impl<E: Environment> Drain<'_, E> {
    /// Slots that other mail leaves to the domain queues. 100 ms after the window's opening they are given
    /// to the campaigns.
    pub(super) fn kept_for_domains(&mut self) -> u64 {
        if self.ctx.now() >= self.ctx.plan.window.opens() + KEPT_FOR {
            for line in &mut self.domains {
                self.intake.widen(std::mem::take(&mut line.kept));
            }
        }
        self.domains.iter().map(|line| line.kept).sum()
    }

    /// The next receive from a domain queue: no more than its limit, its room and the window's slots let
    /// through.
    pub(super) fn next_domain_receive(&mut self, slots: u64) -> Option<NextReceive> {
        let (now, probing) = (self.ctx.now(), self.is_probing());
        let left = self.ctx.left_until(LAST_RECEIVE);
        for (index, line) in self.domains.iter_mut().enumerate() {
            if line.dry || !line.supply.may_ask(left) {
                continue;
            }
            let under_way = line.supply.outstanding();
            let (room, whole) = self.gates.room(line.place, now).unwrap_or((slots, slots));
            // A look into all queues asks for one message even without a slot: it has to find out whether
            // there is mail.
            let looks = self.ctx.plan.rest == IdleMode::Look && line.got == 0;
            let room = if looks { room.max(1) } else { room };
            let mean = self.ctx.running_means.recipients_per_mail(line.source.queue.as_str());
            let fit = mails_in(room.min(slots), whole, mean);
            let most = line.most.saturating_sub(line.got).min(fit);
            let messages = most.saturating_sub(under_way).min(BATCH);
            let messages = if probing { messages.min(1) } else { messages };
            if messages > 0 {
                line.supply.asked(messages);
                let (queue, pause) = (line.source.queue.clone(), line.supply.pause());
                let (origin, wait) = (ReceiveOrigin::Domain(index), self.ctx.wait_after(pause));
                return Some(NextReceive { origin, queue, messages, pause, wait });
            }
        }
        None
    }

    /// Takes a domain queue's answer of `got` messages.
    pub(super) fn domain_answered(&mut self, index: usize, got: u64, verdict: PollVerdict) {
        let Some(line) = self.domains.get_mut(index) else { return };
        line.dry |= verdict.is_dry();
        line.got += got;
        // Received mail acquires slots by itself; slots kept for more are given back once the queue gives
        // no more.
        let kept = line.kept.saturating_sub(got);
        line.kept = if line.dry { 0 } else { kept };
        if line.dry {
            self.intake.widen(kept);
        }
    }

    /// Notes that the feed, or this drain, brought `mails` into the queue at `place`.
    pub(super) fn arrived_in_domain(&mut self, place: usize, mails: u64) {
        if let Some(line) = self.domains.iter_mut().find(|line| line.place == place) {
            line.supply.arrived(mails);
            line.dry = false;
        }
    }

    /// The line in which a message waits: its campaign's limited line if it comes from a domain queue.
    pub(super) fn line_of(&self, message: &Message) -> Line {
        let campaign = || {
            let mut campaigns = self.ctx.plan.campaigns.iter();
            campaigns.position(|campaign| campaign.name == message.envelope.campaign)
        };
        match message.domain {
            Some(_) => Line::Limited(campaign().unwrap_or(usize::MAX)),
            None => message.line,
        }
    }

    /// Moves or delays a received mail whose limit has no slot for it now; true if it did.
    ///
    /// Express mail over a limit stays in its queue, invisible for some seconds. Mail under a group's limit
    /// goes to the group's queue, unless it comes from there. Mail under the limit `*` is moved, with a
    /// delay, only if it is over that limit: the queue of `*` holds mail for many domains, and without
    /// delays the mail for one busy domain would be received again and again.
    pub(super) fn moves_to_domain_queue(&mut self, message: &Message) -> bool {
        if message.demands.is_empty() || self.stage > DrainStage::Sending || self.is_held(message) {
            return false;
        }
        let now = self.ctx.now();
        if message.line == Line::Express {
            let over = self.gates.is_over(&message.demands, now, |_| true);
            if over {
                self.come_again(message);
            }
            return over;
        }
        let domains = &self.ctx.plan.domains;
        let own = domains.place_of(&message.demands);
        if let Some(place) = own.filter(|place| message.domain != Some(*place)) {
            self.move_to_domain(message, place, Duration::ZERO);
            return true;
        }
        let others = |key: &DomainKey| matches!(key, DomainKey::Other(_));
        let Some(place) = domains.others().filter(|_| own.is_none()) else { return false };
        if !self.gates.is_over(&message.demands, now, others) {
            return false;
        }
        // A delay is a whole number of seconds. A mail with several recipients that comes too late in its
        // window for all its slots would come too late every time: it waits here for the next window
        // instead.
        if message.domain == Some(place)
            && is_kept_close(message)
            && !self.gates.has_waiting(&message.demands)
        {
            return false;
        }
        let away = message.held.put_at;
        let since = now.saturating_since(away.into());
        let since = (message.domain == Some(place)).then_some(since);
        let away = delay(since, self.ctx.env.entropy().unit());
        let away = self.gates.aligned(&message.demands, now, away);
        self.move_to_domain(message, place, away);
        true
    }

    /// Moves a mail to the domain queue at `place`, visible after `delay`. Other mail is received for its
    /// slots, until the window has moved as many recipients as `Plan::out_of_the_way` allows.
    fn move_to_domain(&mut self, message: &Message, place: usize, delay: Duration) {
        let Some(queue) = self.ctx.plan.domains.find(place).map(|queue| queue.queue.clone()) else {
            return self.leave(message);
        };
        let recipients = message.recipients();
        self.take(message);
        DomainMoves::add(&mut self.done.domains.fed, place, recipients);
        self.job(move_on(message, &queue, delay));
        if let Line::Campaign(lane) = message.line {
            self.moved_away += recipients;
            if let Some(had_limited_mail) = self.had_limited_mail.get_mut(lane) {
                *had_limited_mail = true;
            }
            if self.moved_away <= self.ctx.plan.out_of_the_way() {
                self.intake.replace(lane, recipients);
            }
        }
        if delay.is_zero() {
            self.arrived_in_domain(place, 1);
        }
    }

    /// Makes an express mail over its domain's limit invisible for as many seconds as its receive count, at
    /// most 30: a flood to one domain then does not keep other express mail out.
    fn come_again(&mut self, message: &Message) {
        let away = message.held.receive_count.min(EXPRESS_AWAY);
        self.done.left += 1;
        self.job(Job::Show(
            crate::poll::outcome::receipt(&message.held, true),
            Duration::from_secs(u64::from(away)),
        ));
    }

    /// Notes for the next windows how many mails of each domain queue found slots.
    pub(super) fn learn_of_domains(&mut self) {
        let in_turn = self.limiter.state().limited_in_turn;
        self.ctx.running_means.took_in_turn(in_turn);
        for line in &self.domains {
            let left = self.done.domains.left.get(&line.place).copied().unwrap_or(0);
            if line.got > 0 {
                self.ctx.running_means.served_domain(line.place, line.got, left);
            }
        }
    }
}

/// Whether a mail that needs several slots of a limit is left for the very next window. After 5 receives it
/// is delayed as others are: it costs a receive each time.
pub(super) fn is_kept_close(message: &Message) -> bool {
    const TIMES: u32 = 5;
    let several = message.demands.iter().any(|(_, recipients)| recipients > 1);
    message.domain.is_some() && several && message.held.receive_count < TIMES
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
