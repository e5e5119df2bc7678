//! Deduplication of sends: each mail is marked in the ledger before it waits for its slot, and its mark is
//! settled before the mail is. So a mail is never deleted or moved while its mark still says that it is
//! being sent, unless the ledger failed.

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use tidegate_core::config::DECIDED;
use tidegate_core::counters::Counter;
use tidegate_core::deduplication::{Deduplication, Mark, MarkState, Verdict};
use tidegate_core::identity::Identity;

use super::{Effect, Fate, Kept, Leave, MailStep, NextRule};
use crate::poll::context::{Context, cause};
use crate::poll::sources::message::{Message, already_sent, unknown};
use crate::ports::{
    Entropy as _, Environment, MarkRequest, MarkResult, Marks as _, PortError, VISIBILITY_TIMEOUT,
};

/// Marks every mail before it is sent.
pub(crate) struct SendMarks<'a, E: Environment> {
    ctx: &'a Context<'a, E>,
}

impl<'a, E: Environment> SendMarks<'a, E> {
    pub(crate) fn new(ctx: &'a Context<'a, E>) -> Self {
        Self { ctx }
    }

    pub(super) fn received(&self, mail: Box<Message>) -> MailStep<'a> {
        if self.ctx.config.deduplication == Deduplication::Off {
            return Ok(mail);
        }
        Err(Kept::Later(before(self.ctx, mail).boxed_local()))
    }

    pub(super) fn before_settling(
        &self,
        mail: &Message,
        fate: &Fate,
    ) -> Option<LocalBoxFuture<'a, ()>> {
        let token = mail.mark.clone()?;
        let (ctx, identity, fate) = (self.ctx, mail.envelope.identity.clone(), fate.clone());
        Some(async move { settle(ctx, &identity, &token, &fate).await }.boxed_local())
    }
}

async fn settle<E: Environment>(
    ctx: &Context<'_, E>,
    identity: &Identity,
    token: &str,
    fate: &Fate,
) {
    let marks = &ctx.env.ledger;
    let settling = async {
        match fate {
            Fate::Sent(accepted) => marks.set_sent(identity, accepted).await,
            Fate::Parked(pass) => marks.set_parked(identity, token, *pass).await,
            Fate::Unsent => marks.unmark(identity, token).await,
        }
    };
    let settled = ctx.within(DECIDED, settling).await;
    if !matches!(settled, Some(Ok(_))) {
        tracing::error!(error = cause(settled.as_ref()), "a mail's mark is not settled");
    }
}

/// Marks a mail. It goes on only if the mark is this poller's.
async fn before<'a, E: Environment>(
    ctx: &'a Context<'a, E>,
    mut mail: Box<Message>,
) -> Vec<Effect> {
    let token = ctx.env.entropy.token();
    let give_back = Effect::GiveBack(mail.line, mail.recipients());
    match ctx.within(DECIDED, mark(ctx, &mail, &token)).await {
        Some(Ok((Verdict::TakeOver, _))) => {
            mail.mark = Some(token);
            vec![Effect::Pass(mail, NextRule::Breaker)]
        }
        Some(Ok((Verdict::Delete, _))) => {
            ctx.count(Counter::AlreadySent, 1);
            let job = already_sent(&mail);
            vec![give_back, Effect::Settle(mail, job)]
        }
        // Nobody noted the outcome of its send; by the settings it is not sent again.
        Some(Ok((Verdict::Park, Some(found)))) => {
            ctx.count(Counter::Parked, 1);
            ctx.count_for(Counter::Dead, &mail.envelope.campaign, 1);
            let job = unknown(&mail, &found, &ctx.plan.dead_letter);
            vec![give_back, Effect::Settle(mail, job)]
        }
        // Another poller may be sending it.
        Some(Ok((Verdict::LeaveAlone | Verdict::Park, _))) => {
            vec![give_back, Effect::Leave(mail, Leave::Hidden)]
        }
        failed => {
            tracing::error!(error = cause(failed.as_ref()), "not sent: its mark is not known");
            // The mark may have been written although the answer failed; it is removed, since a mark that
            // stays would look like a crash during the send.
            settle(ctx, &mail.envelope.identity, &token, &Fate::Unsent).await;
            // Its slots are not given to other mail: while the ledger takes no marks, one mail after
            // another would be received for them, and left.
            vec![Effect::Leave(mail, Leave::Hidden)]
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
    let (marks, identity) = (&ctx.env.ledger, &message.envelope.identity);
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
