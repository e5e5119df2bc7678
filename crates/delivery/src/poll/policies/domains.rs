//! Recipient domains' limits: a mail that is over its domain's limit is moved to the limit's queue, or stays
//! away for a while; the others take slots of the account and of their limits.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use tidegate_core::Timestamp;
use tidegate_core::counters::Counter;
use tidegate_core::domains::{DomainKey, is_alone};
use tidegate_core::limiter::Line;

use super::policy::{Effect, Policy, PolicyStep};
use crate::environment::Environment;
use crate::poll::context::Context;
use crate::poll::domain_window::{DomainMoves, DomainWindow, LONGEST_DELAY};
use crate::poll::jobs::{move_on, receipt};
use crate::poll::settle::Job;
use crate::poll::sources::message::Message;
use crate::ports::{Entropy as _, LedgerReport, QueueDepth, Queues as _};

/// First delay of a mail that is over its domain's limit under `*`.
const FIRST_DELAY: Duration = Duration::from_secs(15);
/// Longest time, in seconds, for which an express mail over its domain's limit is invisible.
const EXPRESS_AWAY: u32 = 30;

pub(in crate::poll) struct DomainRule<'a, E> {
    ctx: &'a Context<'a, E>,
    domains: &'a DomainWindow<'a>,
}

/// The way of a mail over its limit.
enum OverLimit {
    /// It is received again from its own queue after this time.
    ComeAgain(Duration),
    /// It goes to the domain queue at this place, visible after the delay.
    Move(usize, Duration),
}

impl<'a, E: Environment> DomainRule<'a, E> {
    pub(in crate::poll) fn new(ctx: &'a Context<'a, E>, domains: &'a DomainWindow<'a>) -> Self {
        Self { ctx, domains }
    }

    /// The way of a received mail whose limit has no slot for it now; none if it may wait here.
    ///
    /// Express mail over a limit stays in its queue, invisible for a random number of seconds up to its
    /// receive count, at most 30: a flood to one domain then does not keep other express mail out. Mail under a group's limit
    /// goes to the group's queue, unless it comes from there. Mail under the limit `*` is moved, with a
    /// delay, only if it is over that limit: the queue of `*` holds mail for many domains, and without
    /// delays the mail for one busy domain would be received again and again.
    fn way(&self, mail: &Message, now: Timestamp) -> Option<OverLimit> {
        let mut gates = self.domains.gates();
        if mail.line == Line::Express {
            let most = Duration::from_secs(mail.held.receive_count.min(EXPRESS_AWAY).into());
            let away = most.mul_f64(self.ctx.env.entropy().unit()).as_secs() + 1;
            let over = gates.is_over(&mail.demands, now, |_| true);
            return over.then(|| OverLimit::ComeAgain(Duration::from_secs(away)));
        }
        let planned = self.domains.planned;
        let own = planned.place_of(&mail.demands);
        if let Some(place) = own.filter(|place| mail.domain != Some(*place)) {
            return Some(OverLimit::Move(place, Duration::ZERO));
        }
        let others = |key: &DomainKey| matches!(key, DomainKey::Other(_));
        let place = planned.others().filter(|_| own.is_none())?;
        if !gates.is_over(&mail.demands, now, others) {
            return None;
        }
        let is_back = mail.domain == Some(place);
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
        let away = delay(is_back.then_some(since), self.ctx.env.entropy().unit());
        Some(OverLimit::Move(place, gates.aligned(&mail.demands, now, away)))
    }

    /// Whether a mail that gets no slot is left for the very next window: one that needs several slots of a
    /// limit, and one under `*`. After 5 receives it is delayed as others are: it costs a receive each time.
    fn is_kept_close(&self, mail: &Message) -> bool {
        const TIMES: u32 = 5;
        let of_others = mail.domain.is_some() && mail.domain == self.domains.planned.others();
        let is_kept = of_others || (mail.domain.is_some() && has_several(mail));
        is_kept && mail.held.receive_count < TIMES
    }

    /// Moves a mail to the domain queue at `place`, visible after `delay`.
    fn move_to(
        &self,
        mail: Box<Message>,
        (place, delay): (usize, Duration),
        effects: &mut Vec<Effect>,
    ) {
        let Some(queue) = self.domains.planned.find(place).map(|queue| &queue.queue) else {
            return effects.push(Effect::Leave(mail));
        };
        let (line, recipients) = (mail.line, mail.recipients());
        DomainMoves::add(&mut self.domains.note().fed, place, recipients);
        self.ctx.count_for(Counter::DomainFed, self.domains.planned.name(place), recipients);
        let job = move_on(&mail, queue, delay);
        effects.extend([Effect::Settle(mail, job), Effect::MovedAway(line, recipients)]);
        if delay.is_zero() {
            effects.push(Effect::Arrived(place, 1));
        }
    }
}

impl<'a, E: Environment> Policy<'a> for DomainRule<'a, E> {
    fn received(
        &self,
        mail: Box<Message>,
        effects: &mut Vec<Effect>,
    ) -> PolicyStep<'a, Box<Message>> {
        if mail.demands.is_empty() {
            return PolicyStep::Pass(mail);
        }
        match self.way(&mail, self.ctx.now()) {
            None => return PolicyStep::Pass(mail),
            Some(OverLimit::Move(place, delay)) => self.move_to(mail, (place, delay), effects),
            Some(OverLimit::ComeAgain(away)) => {
                self.ctx.count(Counter::Left, 1);
                let job = Job::Show(receipt(&mail.held, true), away);
                effects.push(Effect::Settle(mail, job));
            }
        }
        PolicyStep::Gone
    }

    fn waits(&self, mail: &Message) {
        self.domains.gates().wait(&mail.demands);
    }

    fn admits(&self, mail: &Message, slot: u64) -> bool {
        mail.demands.is_empty() || self.domains.gates().admits(&mail.demands, slot)
    }

    fn acquired(&self, mail: &Message, slot: u64) {
        self.domains.gates().take(&mail.demands, slot);
    }

    fn shown_after(&self, mail: &Message) -> Option<Duration> {
        self.is_kept_close(mail).then_some(Duration::ZERO)
    }

    /// Notes that the queue of `*` is empty if SQS counts nothing in it, in every 16th window. Its mail is
    /// invisible for minutes at a time, so an empty receive proves nothing.
    fn beside(&self) -> Option<LocalBoxFuture<'a, ()>> {
        let (ctx, domains) = (self.ctx, self.domains);
        let queue = domains.planned.queues.iter().find(|queue| queue.hides && queue.depth > 0)?;
        if !ctx.counts_merge() {
            return None;
        }
        let counting = async move {
            match ctx.env.queues().depth(&queue.queue).await {
                Ok(depth) if depth == QueueDepth::default() => {
                    domains.note().gone.insert(queue.place);
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

    fn report(&self, entry: &mut LedgerReport) {
        self.domains.moves().tell(self.domains.planned, entry);
    }
}

/// Whether a mail needs several slots of a limit.
fn has_several(mail: &Message) -> bool {
    mail.demands.iter().any(|(_, recipients)| recipients > 1)
}

/// Delay of a mail over its domain's limit under `*`; `since` is how long ago it was last moved. It doubles
/// each time from 15 s to 15 min, so that a mail that waits for hours is received at least four times an
/// hour. `jitter` (0.0 to 1.0) spreads the upper half, so that mails moved together do not come back
/// together.
///
/// Example: moved 60 s ago: 60 to 120 s. Moved 15 min ago: 450 to 900 s.
fn delay(since: Option<Duration>, jitter: f64) -> Duration {
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
