//! Deduplication around the sends: a mail is marked before it waits for its slot, and its mark
//! is settled with it.

use std::error::Error as StdError;

use tidegate_core::config::DECIDED;
use tidegate_core::deduplication::{Deduplication, Mark, MarkState, Verdict};
use tidegate_core::identity::Identity;
use tidegate_core::limiter::Line;

use super::state::{Drain, DrainStage};
use crate::environment::Environment;
use crate::poll::context::Context;
use crate::poll::message::Message;
use crate::poll::outcome::{already_sent, unknown};
use crate::poll::settle::Job;
use crate::ports::{
    Entropy as _, MarkRequest, MarkResult, Marks as _, PortError, VISIBILITY_TIMEOUT,
};

/// What becomes of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// SES took the mail.
    Sent,
    /// The mail is dead-lettered with this pass, and nobody knows whether it was sent.
    Parked(u32),
    /// The mail was not sent.
    Unmarked,
}

/// A mark to be made or settled.
pub(super) enum MarkChange {
    /// The mail is about to be sent.
    Before(Box<Message>),
    /// The mail's mark is settled, then the mail.
    After { identity: Identity, token: String, fate: Fate, then: Option<Job> },
}

/// What came of it.
pub(super) enum MarkOutcome {
    /// The mail may be sent.
    Clear(Box<Message>),
    /// It was sent before.
    Sent(Box<Message>),
    /// It is left to its visibility timeout: someone may be sending it.
    Alone(Box<Message>),
    /// It is left, since nobody knows whether it is marked.
    Unknowable(Box<Message>),
    /// Nobody knows whether it was sent, and it is not to be sent again.
    Unknown(Box<Message>, Mark),
    /// Its mark is settled.
    SettleCounts(Option<Job>),
}

impl MarkOutcome {
    /// The mail that was to be marked.
    fn message(&self) -> Option<&Message> {
        match self {
            Self::Clear(message)
            | Self::Sent(message)
            | Self::Alone(message)
            | Self::Unknowable(message)
            | Self::Unknown(message, _) => Some(message),
            Self::SettleCounts(_) => None,
        }
    }
}

pub(super) async fn run<E: Environment>(ctx: &Context<'_, E>, marking: MarkChange) -> MarkOutcome {
    match marking {
        MarkChange::Before(message) => before(ctx, message).await,
        MarkChange::After { identity, token, fate, then } => {
            let marks = ctx.env.ledger();
            let settling = async {
                match fate {
                    Fate::Sent => marks.set_sent(&identity).await,
                    Fate::Parked(pass) => marks.set_parked(&identity, &token, pass).await,
                    Fate::Unmarked => marks.unmark(&identity, &token).await,
                }
            };
            let settled = ctx.within(DECIDED, settling).await;
            if !matches!(settled, Some(Ok(_))) {
                let error = settled.and_then(Result::err);
                let error = error.as_ref().map(|error| error as &dyn StdError);
                tracing::error!(error, "a mail's mark is not settled");
            }
            MarkOutcome::SettleCounts(then)
        }
    }
}

async fn before<E: Environment>(ctx: &Context<'_, E>, mut message: Box<Message>) -> MarkOutcome {
    let token = ctx.env.entropy().token();
    match ctx.within(DECIDED, mark(ctx, &message, &token)).await {
        Some(Ok((Verdict::TakeOver, _))) => {
            message.mark = Some(token);
            MarkOutcome::Clear(message)
        }
        Some(Ok((Verdict::Delete, _))) => MarkOutcome::Sent(message),
        Some(Ok((Verdict::Park, Some(found)))) => MarkOutcome::Unknown(message, found),
        Some(Ok((Verdict::LeaveAlone | Verdict::Park, _))) => MarkOutcome::Alone(message),
        failed => {
            let error = failed.and_then(Result::err);
            let error = error.as_ref().map(|error| error as &dyn StdError);
            tracing::error!(error, "not sent: its mark is not known");
            // It may stand all the same: left there, it would look like a crash.
            message.mark = Some(token);
            MarkOutcome::Unknowable(message)
        }
    }
}

/// Marks a mail: what is to be done with it, and the mark that was found.
async fn mark<E: Environment>(
    ctx: &Context<'_, E>,
    message: &Message,
    token: &str,
) -> Result<(Verdict, Option<Mark>), PortError> {
    let (marks, identity) = (ctx.env.ledger(), &message.envelope.identity);
    let mut request = MarkRequest {
        identity: identity.clone(),
        token: token.to_owned(),
        pass: message.envelope.pass,
        now: ctx.now(),
        kept: ctx.config.mark_kept,
        replaces: None,
    };
    let MarkResult::Found(found) = marks.mark(&request).await? else {
        return Ok((Verdict::TakeOver, None));
    };
    let deduplication = ctx.config.deduplication;
    let verdict = deduplication.verdict(&found, request.pass, ctx.now(), VISIBILITY_TIMEOUT);
    let stands = match verdict {
        Verdict::TakeOver => {
            request.replaces = Some(found.token.clone());
            marks.mark(&request).await? == MarkResult::Ours
        }
        Verdict::Park if found.state != MarkState::Parked => {
            let pass = message.envelope.clone().parked().pass;
            marks.set_parked(identity, &found.token, pass).await?
        }
        Verdict::Park | Verdict::Delete | Verdict::LeaveAlone => true,
    };
    // Another was faster, and has it in hand.
    let verdict = if stands { verdict } else { Verdict::LeaveAlone };
    Ok((verdict, Some(found)))
}

impl<E: Environment> Drain<'_, E> {
    /// A mail that was received: marked first, where deduplication is on. Gives the recipients that
    /// will use slots.
    pub(super) fn admit(&mut self, message: Box<Message>) -> u64 {
        let guarded = self.ctx.config.deduplication != Deduplication::Off;
        if !guarded || self.stage > DrainStage::Sending || self.is_held(&message) {
            return self.wait(message);
        }
        let recipients = message.recipients();
        match message.line {
            Line::Express => self.express.marking += 1,
            Line::Campaign(_) | Line::Limited(_) => self.campaigns_marking += recipients,
        }
        self.markings.push(MarkChange::Before(message));
        recipients
    }

    pub(super) fn take_markings(&mut self) -> Vec<MarkChange> {
        std::mem::take(&mut self.markings)
    }

    /// Notes what came of a mark.
    pub(super) fn marking_done(&mut self, done: MarkOutcome) {
        if let Some(message) = done.message() {
            let (marking, by) = match message.line {
                Line::Express => (&mut self.express.marking, 1),
                Line::Campaign(_) | Line::Limited(_) => {
                    (&mut self.campaigns_marking, message.recipients())
                }
            };
            *marking = marking.saturating_sub(by);
        }
        match done {
            MarkOutcome::Clear(message) if self.stage == DrainStage::Over => self.leave(&message),
            MarkOutcome::Clear(message) => {
                self.wait(message);
            }
            MarkOutcome::Sent(message) => {
                self.done.already_sent += 1;
                self.give_slots_back(&message);
                self.take(&message);
                self.job(already_sent(&message));
            }
            MarkOutcome::Alone(message) => {
                self.give_slots_back(&message);
                self.leave_alone(&message);
            }
            MarkOutcome::Unknown(message, mark) => {
                self.done.parked += 1;
                self.done.dead += 1;
                self.give_slots_back(&message);
                self.take(&message);
                self.job(unknown(&message, &mark, &self.ctx.plan.dead_letter));
            }
            // Its slots are not given back: where no mark can be made, one mail after another would
            // be received for them, and left.
            MarkOutcome::Unknowable(message) => {
                self.leave_alone(&message);
                self.settle(&message, Some(Fate::Unmarked), None);
            }
            MarkOutcome::SettleCounts(Some(job)) => self.job(job),
            MarkOutcome::SettleCounts(None) => {}
        }
    }

    /// Settles a mail's mark, where it has one, then the mail.
    pub(super) fn settle(&mut self, message: &Message, fate: Option<Fate>, then: Option<Job>) {
        match (&message.mark, fate) {
            (Some(token), Some(fate)) => {
                let (identity, token) = (message.envelope.identity.clone(), token.clone());
                self.markings.push(MarkChange::After { identity, token, fate, then });
            }
            _ => then.into_iter().for_each(|job| self.job(job)),
        }
    }

    /// Its slots go to another mail.
    fn give_slots_back(&mut self, message: &Message) {
        if let Line::Campaign(lane) = message.line {
            self.intake.replace(lane, message.recipients());
        }
    }

    /// Never made visible at once: it would spin.
    fn leave_alone(&mut self, message: &Message) {
        self.done.left += 1;
        self.take(message);
        self.buffered.set(self.buffered.get().saturating_sub(1));
    }
}
