//! The shared bucket in one window. The mailer asks it before each send; here is what follows if it grants
//! nothing or does not answer.

use std::cell::Cell;
use std::time::Duration;

use tidegate_core::bucket;
use tidegate_core::counters::Counter;
use tidegate_core::outcome::Outcome;

use super::{Effect, EndedSend, Kept, Leave, SendStep};
use crate::poll::context::Context;
use crate::ports::{Environment, Mailer as _, Takes};

/// Mail that a window leaves because the shared bucket does not answer is visible again after this: the
/// visibility timeout of 30 s would be longer than most failures of the bucket.
const SHOWN_AFTER: Duration = Duration::from_secs(2);

pub(crate) struct SharedBucket<'a, E: Environment> {
    ctx: &'a Context<'a, E>,
    /// The mailer's counters before the window.
    before: Takes,
    is_lost: Cell<bool>,
}

impl<'a, E: Environment> SharedBucket<'a, E> {
    pub(crate) fn new(ctx: &'a Context<'a, E>) -> Self {
        Self { ctx, before: ctx.env.mailer.takes(), is_lost: Cell::new(false) }
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
                effects.push(Effect::WaitAgain(send.message));
                Err(Kept::Gone)
            }
            _ => Ok(send),
        }
    }

    pub(super) fn shown_after(&self) -> Option<Duration> {
        self.is_lost.get().then_some(SHOWN_AFTER)
    }

    pub(super) fn closes(&self) {
        let now = self.ctx.env.mailer.takes();
        let (refused, lost) = (now.refused - self.before.refused, now.lost - self.before.lost);
        self.ctx.count(Counter::BucketRefused, refused);
        self.ctx.count(Counter::BucketLost, lost);
        if refused + lost > 0 {
            tracing::info!(refused, lost, "not granted by the shared bucket");
        }
    }
}
