//! The shared bucket in one window. The mailer asks it before each send; here is what follows if it grants
//! nothing or does not answer.
//!
//! A recipient who has had as many mails as the limit allows is known to the mailer from the first refusal on: further
//! mail to it stays away without a slot, for longer the longer it has waited, so that a loop's thousands cost little.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use tidegate_core::bucket;
use tidegate_core::counters::Counter;
use tidegate_core::outcome::Outcome;

use super::{Effect, EndedSend, Kept, Leave, MailStep, SendStep};
use crate::poll::context::Context;
use crate::poll::limits::{delay, stay_away};
use crate::poll::running_means::LONGEST_DELAY;
use crate::poll::settle::Job;
use crate::poll::sources::message::{Message, receipt};
use crate::ports::{Entropy as _, Environment, Mailer as _, Takes};

/// Mail that a window leaves because the shared bucket does not answer is visible again after this: the
/// visibility timeout of 30 s would be longer than most failures of the bucket.
const SHOWN_AFTER: Duration = Duration::from_secs(2);

pub(crate) struct SharedBucket<'a, E: Environment> {
    ctx: &'a Context<'a, E>,
    /// The mailer's counters before the window.
    before: Takes,
    is_lost: Cell<bool>,
    /// The jobs of mail that the feed found, until the window closes.
    collected: RefCell<Vec<Job>>,
}

impl<'a, E: Environment> SharedBucket<'a, E> {
    pub(crate) fn new(ctx: &'a Context<'a, E>) -> Self {
        let (before, collected) = (ctx.env.mailer.takes(), RefCell::default());
        Self { ctx, before, is_lost: Cell::new(false), collected }
    }

    /// How long a mail stays away, since one of its recipients has had as many as the limit allows; none if it may be sent.
    fn away(&self, mail: &Message) -> Option<Duration> {
        let takes = self.ctx.plan.limits.takes_of_recipients(&mail.content);
        let least = self.ctx.env.mailer.away(&takes, self.ctx.monotonic())?;
        let waited = self.ctx.now().saturating_since(mail.envelope.enqueued_at.into());
        let jitter = self.ctx.env.entropy.unit();
        // Not all at once: the first would be sent, and the others at hand would spend their slots in vain.
        let spread = Duration::from_secs(1 + least.mul_f64(1.0 + jitter).as_secs());
        Some(spread.max(delay(Some(waited), jitter)).min(LONGEST_DELAY))
    }

    pub(super) fn collected(&self, mail: Box<Message>) -> MailStep<'a> {
        let Some(away) = self.away(&mail) else { return Ok(mail) };
        self.ctx.count(Counter::LimitedAgain, mail.recipients());
        self.collected.borrow_mut().push(Job::Show(receipt(&mail.held, false), away));
        Err(Kept::Gone)
    }

    pub(super) fn received(&self, mail: Box<Message>, effects: &mut Vec<Effect>) -> MailStep<'a> {
        let Some(away) = self.away(&mail) else { return Ok(mail) };
        let moved = Effect::MovedAway(mail.line, mail.recipients());
        effects.extend([stay_away(self.ctx, mail, away), moved]);
        Err(Kept::Gone)
    }

    /// A send that was refused waits for a later slot. Without an answer this window starts no further
    /// send; the next one asks the bucket again.
    pub(super) fn ended(&self, send: Box<EndedSend>, effects: &mut Vec<Effect>) -> SendStep<'a> {
        match &send.result {
            Err((failure, Outcome::NotSent)) if bucket::lost(failure) && !send.is_held => {
                self.is_lost.set(true);
                effects.extend([Effect::Leave(send.message, Leave::Unused), Effect::Stop]);
                Err(Kept::Gone)
            }
            Err((failure, Outcome::NotSent)) if bucket::withheld(failure) => {
                effects.push(match self.away(&send.message) {
                    Some(away) => stay_away(self.ctx, send.message, away),
                    None => Effect::WaitAgain(send.message),
                });
                Err(Kept::Gone)
            }
            _ => Ok(send),
        }
    }

    pub(super) fn shown_after(&self) -> Option<Duration> {
        self.is_lost.get().then_some(SHOWN_AFTER)
    }

    pub(super) fn closes(&self) -> Vec<Job> {
        let now = self.ctx.env.mailer.takes();
        let (refused, lost) = (now.refused - self.before.refused, now.lost - self.before.lost);
        self.ctx.count(Counter::BucketRefused, refused);
        self.ctx.count(Counter::BucketLost, lost);
        if refused + lost > 0 {
            tracing::info!(refused, lost, "not granted by the shared bucket");
        }
        self.collected.take()
    }
}
