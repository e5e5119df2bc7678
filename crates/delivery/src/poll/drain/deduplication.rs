//! Deduplication of sends: each mail is marked in the ledger before it waits for its slot, and its mark is
//! settled before the mail is. So a mail is never deleted or moved while its mark still says that it is
//! being sent, unless the ledger failed.

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

/// The final state of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// SES accepted the mail: later copies are deleted.
    Sent,
    /// The mail is dead-lettered with this pass, since its outcome is unknown. A copy with a higher pass is
    /// a replay and may be sent.
    Parked(u32),
    /// The mail was not sent: the mark is removed.
    Unmarked,
}

/// A change of a mark, with the mail or job that waits for it.
pub(super) enum MarkChange {
    /// Write the mail's mark; it may be sent only after that.
    Before(Box<Message>),
    /// Settle the mail's mark, then run the job `then`.
    After { identity: Identity, token: String, fate: Fate, then: Option<Job> },
}

/// Result of a mark's change.
pub(super) enum MarkOutcome {
    /// The mark is this poller's: the mail may be sent.
    Clear(Box<Message>),
    Sent(Box<Message>),
    /// It is left to its visibility timeout: another poller may be sending it.
    Alone(Box<Message>),
    /// It is left: the ledger did not answer, so that its mark may stand or not.
    Unknowable(Box<Message>),
    /// A poller began to send it and did not note the outcome; by the settings it is not sent again.
    Unknown(Box<Message>, Mark),
    /// The mark is settled, or the ledger failed; the job may run.
    SettleCounts(Option<Job>),
}

impl MarkOutcome {
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
            // The mark may have been written although the answer failed; it is removed later, since a mark
            // that stays would look like a crash during the send.
            message.mark = Some(token);
            MarkOutcome::Unknowable(message)
        }
    }
}

/// Writes a mail's mark, and returns the verdict with the mark that was found, if one was.
///
/// An existing mark decides: the mail was sent (delete it), is being sent (leave it alone), or its send
/// began longer ago than the visibility timeout of 30 s (send it again or dead-letter it, by the settings).
/// A take-over and a parking replace exactly the mark that was found. If that fails, another poller was
/// faster and has the mail.
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
    // Another poller changed the mark first, and has the mail.
    let verdict = if stands { verdict } else { Verdict::LeaveAlone };
    Ok((verdict, Some(found)))
}

impl<E: Environment> Drain<'_, E> {
    /// Takes a received mail in: with deduplication it is marked first. Returns the recipients that will
    /// use slots.
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

    /// Takes the result of a mark's change.
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
            // Its slots are not given to other mail: while the ledger takes no marks, one mail after
            // another would be received for them, and left.
            MarkOutcome::Unknowable(message) => {
                self.leave_alone(&message);
                self.settle(&message, Some(Fate::Unmarked), None);
            }
            MarkOutcome::SettleCounts(Some(job)) => self.job(job),
            MarkOutcome::SettleCounts(None) => {}
        }
    }

    /// Settles a mail's mark, if it has one, then runs the job `then`.
    pub(super) fn settle(&mut self, message: &Message, fate: Option<Fate>, then: Option<Job>) {
        match (&message.mark, fate) {
            (Some(token), Some(fate)) => {
                let (identity, token) = (message.envelope.identity.clone(), token.clone());
                self.markings.push(MarkChange::After { identity, token, fate, then });
            }
            _ => then.into_iter().for_each(|job| self.job(job)),
        }
    }

    /// Asks for other mail for the slots of a mail that will not be sent.
    fn give_slots_back(&mut self, message: &Message) {
        if let Line::Campaign(lane) = message.line {
            self.intake.replace(lane, message.recipients());
        }
    }

    /// Leaves a mail to its visibility timeout. It is never made visible at once: it would be received
    /// again at once, in vain.
    fn leave_alone(&mut self, message: &Message) {
        self.done.left += 1;
        self.take(message);
        self.buffered.set(self.buffered.get().saturating_sub(1));
    }
}
