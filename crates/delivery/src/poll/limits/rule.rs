//! Limits: a mail that is over a limit is moved to the limit's queue, or stays away for a while; the others take
//! slots of the account and of their limits.

use std::cell::RefCell;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use tidegate_core::Timestamp;
use tidegate_core::counters::Counter;
use tidegate_core::limiter::Line;
use tidegate_core::limits::{Dimension, LimitRef, is_alone};
use tidegate_core::outcome::Outcome;

use super::window::LimitGates;
use crate::poll::context::Context;
use crate::poll::rules::effect::{Effect, EndedSend, Kept, Leave, MailStep};
use crate::poll::running_means::LONGEST_DELAY;
use crate::poll::settle::Job;
use crate::poll::sources::message::{Message, move_on, put_off, receipt};
use crate::ports::{Entropy as _, Environment, LedgerReport, QueueDepth, Queues as _};

/// First delay of a mail that is over a limit and waits in a queue beside other mail.
const FIRST_DELAY: Duration = Duration::from_secs(15);
/// Longest time, in seconds, for which an express mail over its limit is invisible.
const EXPRESS_AWAY: u32 = 30;

pub(crate) struct LimitRule<'a, E: Environment> {
    ctx: &'a Context<'a, E>,
    /// Mail that came too early for its limits: the next window has slots for it.
    early: RefCell<Vec<Message>>,
}

/// The receives of a mail after which it does not stay close to its limit's slots.
const CLOSE_RECEIVES: u32 = 5;

/// The way of a mail over its limit.
enum OverLimit {
    /// It comes from its own queue again after this time.
    StayAway(Duration),
    /// It goes to the limit queue at this place, visible after the delay.
    Move(usize, Duration),
    /// It waits here, and is shown to the next window's poller.
    Wait,
}

impl<'a, E: Environment> LimitRule<'a, E> {
    pub(crate) fn new(ctx: &'a Context<'a, E>) -> Self {
        Self { ctx, early: RefCell::default() }
    }

    /// The way of a received mail whose limit has no slot for it now; none if it may wait here.
    ///
    /// Express mail over a limit stays in its queue, invisible for a random number of seconds up to its
    /// receive count, at most 30: a flood to one domain then does not keep other express mail out. Mail over
    /// a limit with a queue of its own goes to that queue, unless it comes from there. All other mail is moved,
    /// with a delay, only if it is over a limit: its queue holds mail under many limits, and without delays
    /// the mail under one busy limit would be received again and again.
    fn way(&self, mail: &Message, now: Timestamp) -> Option<OverLimit> {
        let planned = &self.ctx.plan.limits;
        let mut gates = self.ctx.limits.gates.borrow_mut();
        if mail.line == Line::Express {
            let most = Duration::from_secs(mail.held.receive_count.min(EXPRESS_AWAY).into());
            let away = most.mul_f64(self.ctx.env.entropy.unit()).as_secs() + 1;
            let over = gates.is_over(&mail.demands, now, |_| true);
            return over.then(|| OverLimit::StayAway(Duration::from_secs(away)));
        }
        let own = gates.place_of(&mail.demands);
        let is_new = self.ctx.plan.merge.is_none();
        if own.is_some()
            && mail.limit_queue != own
            && let Some(place) = self.ctx.limits.queue_for(&mut gates, &mail.demands, now, is_new)
        {
            return Some(OverLimit::Move(place, Duration::ZERO));
        }
        let others = planned.others().filter(|_| own.is_none());
        let in_others = |limit: &LimitRef| {
            planned.table.queue_of(limit).is_none()
                && planned.has_queue(limit)
                && !planned.overflows(limit)
        };
        if let Some(place) = others
            && gates.is_over(&mail.demands, now, in_others)
        {
            return self.way_to_others(mail, place, now, &gates);
        }
        if !gates.is_over(&mail.demands, now, |limit| self.is_without_queue(mail, limit)) {
            return None;
        }
        if self.waits_for_next(mail) {
            return Some(OverLimit::Wait);
        }
        let away = gates.away(&mail.demands, now, self.ctx.running_means);
        Some(OverLimit::StayAway(away))
    }

    /// The way of a mail over its limit to the queue of `*` at `place`; none if it waits here.
    fn way_to_others(
        &self,
        mail: &Message,
        place: usize,
        now: Timestamp,
        gates: &LimitGates,
    ) -> Option<OverLimit> {
        let is_back = mail.limit_queue == Some(place);
        if is_back && self.is_kept_close(mail) && !gates.has_waiting(&mail.demands) {
            // A mail with several recipients that comes too late in its window for all its slots would come
            // too late every time. And a delay is a whole number of seconds: mail that is delayed while two
            // pollers ask the queue comes back while two pollers ask, each time, and perhaps to the wrong
            // one. Both wait here and are shown to the next poller as its window opens.
            let is_alone = is_alone(self.ctx.plan.window, now);
            if has_several(mail) || (gates.is_slow(&mail.demands) && !is_alone) {
                return None;
            }
        }
        let since = now.saturating_since(mail.held.put_at.into());
        let away = delay(is_back.then_some(since), self.ctx.env.entropy.unit());
        Some(OverLimit::Move(place, gates.aligned(&mail.demands, now, away)))
    }

    /// Sends a mail through another configuration set if it is over a limit that has one for the rest.
    fn overflow(&self, mail: &mut Message, now: Timestamp) {
        let table = &self.ctx.plan.limits.table;
        let over = mail.demands.iter().map(|(limit, _)| limit).find(|limit| {
            let is_it = |of: &LimitRef| of == *limit;
            self.ctx.plan.limits.overflows(limit)
                && self.ctx.limits.gates.borrow_mut().is_over(&mail.demands, now, is_it)
        });
        let Some((demands, set)) = over.and_then(|over| table.overflow(&mail.demands, over)) else {
            return;
        };
        mail.through = Some(set.to_owned());
        mail.demands = demands;
    }

    /// Whether mail over this limit has no queue to wait in. A limited campaign's mail has: its own.
    fn is_without_queue(&self, mail: &Message, limit: &LimitRef) -> bool {
        let planned = &self.ctx.plan.limits;
        let is_campaign = planned.table.dimension(limit) == Some(Dimension::Campaign);
        !(planned.has_queue(limit) || is_campaign && is_limited_campaigns(mail))
    }

    /// Whether a mail that is over a limit without a queue waits here for the next window, to whose poller it
    /// is then shown. That window has a slot for it.
    fn waits_for_next(&self, mail: &Message) -> bool {
        let is_without = |limit: &LimitRef| self.is_without_queue(mail, limit);
        mail.held.receive_count < CLOSE_RECEIVES
            && self.ctx.limits.kept.borrow_mut().wait_if_it_fits(&mail.demands, is_without)
    }

    /// Whether a mail that gets no slot is left for the very next window: one that needs several slots of a
    /// limit, one under `*`, and one under a limit without a queue. After 5 receives it is delayed as others
    /// are: it costs a receive each time.
    fn is_kept_close(&self, mail: &Message) -> bool {
        let planned = &self.ctx.plan.limits;
        let of_others = mail.limit_queue.is_some() && mail.limit_queue == planned.others();
        let is_kept = of_others
            || (mail.limit_queue.is_some() && has_several(mail))
            || mail.demands.iter().any(|(limit, _)| !planned.has_queue(limit));
        is_kept && mail.held.receive_count < CLOSE_RECEIVES
    }

    /// Moves a mail to the limit queue at `place`, visible after `delay`.
    fn move_to(
        &self,
        mail: Box<Message>,
        place: usize,
        delay: Duration,
        effects: &mut Vec<Effect>,
    ) {
        let Some(queue) = self.ctx.plan.limits.find(place).map(|queue| &queue.queue) else {
            return effects.push(Effect::Leave(mail, Leave::BySettings));
        };
        let (line, recipients) = (mail.line, mail.recipients());
        self.ctx.note_limited(place, recipients);
        let job = move_on(&mail, queue, delay);
        effects.extend([Effect::Settle(mail, job), Effect::MovedAway(line, recipients)]);
        if delay.is_zero() {
            effects.push(Effect::Arrived(place, 1));
        }
    }

    pub(crate) fn received(
        &self,
        mut mail: Box<Message>,
        effects: &mut Vec<Effect>,
    ) -> MailStep<'a> {
        if mail.demands.is_empty() {
            return Ok(mail);
        }
        let now = self.ctx.now();
        self.overflow(&mut mail, now);
        match self.way(&mail, now) {
            None => return Ok(mail),
            Some(OverLimit::Move(place, delay)) => self.move_to(mail, place, delay, effects),
            Some(OverLimit::Wait) => {
                // It uses no slot of this window: other mail is received in its place.
                effects.push(Effect::MovedAway(mail.line, mail.recipients()));
                self.early.borrow_mut().push(*mail);
            }
            Some(OverLimit::StayAway(away)) => {
                let moved = Effect::MovedAway(mail.line, mail.recipients());
                effects.extend([stay_away(self.ctx, mail, away), moved]);
            }
        }
        Err(Kept::Gone)
    }

    /// A mail that missed its last moment was not sent: its limits' slots are free again.
    pub(crate) fn ended(&self, send: &EndedSend) {
        if send.outcome() == Some(Outcome::NotSent) {
            self.ctx.limits.gates.borrow_mut().give_back(&send.message.demands, send.slot);
        }
    }

    pub(crate) fn shown_after(&self, mail: &Message) -> Option<Duration> {
        self.is_kept_close(mail).then_some(Duration::ZERO)
    }

    /// Notes that the queue of `*` is empty if SQS counts nothing in it, in every 16th window. Its mail is
    /// invisible for minutes at a time, so an empty receive proves nothing.
    pub(crate) fn beside(&self) -> Option<LocalBoxFuture<'a, ()>> {
        let ctx = self.ctx;
        let queue = ctx.plan.limits.queues.iter().find(|queue| queue.hides && queue.depth > 0)?;
        if !ctx.counts_merge() {
            return None;
        }
        let counting = async move {
            match ctx.env.queues.depth(&queue.queue).await {
                Ok(depth) if depth == QueueDepth::default() => {
                    ctx.limits.note(Some(queue.place), |moves| moves.gone = true);
                }
                Ok(_) => {}
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "queue of * not counted");
                }
            }
        };
        Some(counting.boxed_local())
    }

    pub(crate) fn slots_over(&self) -> Vec<Effect> {
        let show = |mail: Message| {
            let job = Job::Show(receipt(&mail.held, true), Duration::ZERO);
            Effect::Settle(Box::new(mail), job)
        };
        self.early.take().into_iter().map(show).collect()
    }

    pub(crate) fn report(&self, entry: &mut LedgerReport) {
        self.ctx.limits.tell(entry);
    }
}

/// Lets a mail wait in its own queue, invisible for `away`. One from a queue that it shares with other campaigns' mail goes
/// back to its campaign's.
pub(crate) fn stay_away<E: Environment>(
    ctx: &Context<'_, E>,
    mail: Box<Message>,
    away: Duration,
) -> Effect {
    let is_own = mail.line == Line::Express
        || is_limited_campaigns(&mail)
        || (mail.limit_queue.is_none() && ctx.plan.merge.is_none());
    let job = if is_own {
        ctx.count(Counter::Left, 1);
        Job::Show(receipt(&mail.held, true), away)
    } else if let Some(campaign) = ctx.plan.campaign(&mail.envelope.campaign) {
        ctx.count(Counter::LimitedAgain, mail.recipients());
        put_off(&mail, &campaign.queue, away, true)
    } else {
        return Effect::Leave(mail, Leave::BySettings);
    };
    Effect::Settle(mail, job)
}

/// Whether a mail comes from the queue of a limited campaign.
const fn is_limited_campaigns(mail: &Message) -> bool {
    matches!(mail.line, Line::Limited(_)) && mail.limit_queue.is_none()
}

/// Whether a mail needs several slots of a limit.
fn has_several(mail: &Message) -> bool {
    mail.demands.iter().any(|(_, recipients)| recipients > 1)
}

/// Delay of a mail over its limit in the queue of `*`, or over its recipient's; `since` is how long ago it was last moved. It doubles
/// each time from 15 s to 15 min, so that a mail that waits for hours is received at least four times an
/// hour. `jitter` (0.0 to 1.0) spreads the upper half, so that mails moved together do not come back
/// together.
///
/// Example: moved 60 s ago: 60 to 120 s. Moved 15 min ago: 450 to 900 s.
pub(crate) fn delay(since: Option<Duration>, jitter: f64) -> Duration {
    let doubled = since.map_or(FIRST_DELAY, |since| since.saturating_mul(2));
    let most = doubled.clamp(FIRST_DELAY, LONGEST_DELAY);
    Duration::from_secs(most.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0).as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_over_its_limit_stays_away_twice_as_long_each_time_up_to_a_quarter_of_an_hour() {
        let mut away = delay(None, 1.0);
        let mut all = vec![away.as_secs()];
        for _ in 0..7 {
            away = delay(Some(away), 1.0);
            all.push(away.as_secs());
        }
        assert_eq!(all, [15, 30, 60, 120, 240, 480, 900, 900]);
        assert_eq!(delay(Some(LONGEST_DELAY), 0.0), LONGEST_DELAY / 2);
    }
}
