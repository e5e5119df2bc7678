//! Excluded recipients: a campaign's mail to one of them is not sent, also where it was enqueued before. It is
//! deleted from its queue and uses no slot. Express mail is sent: a password reset goes to a reader who unsubscribed.
//!
//! The list stays in the poller's memory from window to window. Once the control record names another version, it
//! is read again beside the slots, from the claim on, and campaigns' mail waits for it. Without an answer of the
//! ledger none of it is sent.

use std::cell::RefCell;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{LocalBoxFuture, Shared};
use tidegate_core::config::DECIDED;
use tidegate_core::counters::Counter;
use tidegate_core::exclusions::{ExclusionList, ExclusionState};
use tidegate_core::limiter::Line;

use super::{Effect, Kept, Leave, MailStep, NextRule};
use crate::poll::context::{Context, cause};
use crate::poll::settle::Job;
use crate::poll::sources::message::{Message, excluded};
use crate::ports::{Environment, ExclusionShard, Exclusions as _};

type Reading<'a> = Shared<LocalBoxFuture<'a, Option<Arc<ExclusionList>>>>;

/// Takes out the mail to excluded recipients.
pub(crate) struct ExcludedRecipients<'a, E: Environment> {
    ctx: &'a Context<'a, E>,
    /// The list, once it is read; none if nobody is excluded.
    list: Option<Reading<'a>>,
    /// The jobs of mail that the feed brought, until the window closes.
    collected: RefCell<Vec<Job>>,
}

impl<'a, E: Environment> ExcludedRecipients<'a, E> {
    pub(crate) fn new(ctx: &'a Context<'a, E>) -> Self {
        let state = ctx.plan.control.exclusions.filter(|state| state.addresses > 0);
        let list = state.map(|state| read_list(ctx, state).boxed_local().shared());
        Self { ctx, list, collected: RefCell::default() }
    }

    /// While the list is not read yet, the feed moves the mail, and the drain takes it out.
    pub(super) fn collected(&self, mail: Box<Message>) -> MailStep<'a> {
        match self.list.as_ref().and_then(Shared::peek) {
            Some(Some(list)) if concerns(list, &mail) => {
                self.ctx.count_for(Counter::Excluded, &mail.envelope.campaign, 1);
                self.collected.borrow_mut().push(excluded(&mail, false));
                Err(Kept::Gone)
            }
            _ => Ok(mail),
        }
    }

    pub(super) fn received(&self, mail: Box<Message>, effects: &mut Vec<Effect>) -> MailStep<'a> {
        let Some(list) = self.list.as_ref().filter(|_| mail.line != Line::Express) else {
            return Ok(mail);
        };
        let ctx = self.ctx;
        match list.peek() {
            Some(Some(list)) if !concerns(list, &mail) => Ok(mail),
            Some(Some(_)) => {
                effects.extend(take_out(ctx, mail));
                Err(Kept::Gone)
            }
            _ => {
                let list = list.clone();
                let decide = async move {
                    match list.await {
                        Some(list) if !concerns(&list, &mail) => {
                            vec![Effect::Pass(mail, NextRule::Limits)]
                        }
                        Some(_) => take_out(ctx, mail).into(),
                        None => vec![Effect::Leave(mail, Leave::Hidden)],
                    }
                };
                Err(Kept::Later(decide.boxed_local()))
            }
        }
    }

    pub(super) fn closes(&self) -> Vec<Job> {
        self.collected.take()
    }

    pub(super) fn beside(&self) -> Option<LocalBoxFuture<'a, ()>> {
        let list = self.list.clone()?;
        Some(list.map(drop).boxed_local())
    }
}

fn concerns(list: &ExclusionList, mail: &Message) -> bool {
    mail.content.to().any(|to| list.contains(to))
}

fn take_out<E: Environment>(ctx: &Context<'_, E>, mail: Box<Message>) -> [Effect; 2] {
    ctx.count_for(Counter::Excluded, &mail.envelope.campaign, 1);
    let (give_back, job) = (Effect::GiveBack(mail.line, mail.recipients()), excluded(&mail, true));
    [give_back, Effect::Settle(mail, job)]
}

/// The list in the version that the control record names; `None` if the ledger does not answer in time.
async fn read_list<E: Environment>(
    ctx: &Context<'_, E>,
    state: ExclusionState,
) -> Option<Arc<ExclusionList>> {
    let known = ctx.exclusions.borrow().clone();
    if let Some((_, list)) = known.filter(|(version, _)| *version == state.version) {
        return Some(list);
    }
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let shards = ctx.within(DECIDED, ctx.env.ledger.shards(&all)).await;
    let shards: Vec<ExclusionShard> = match shards {
        Some(Ok(shards)) => shards,
        failed => {
            tracing::error!(
                error = cause(failed.as_ref()),
                "no campaign's mail is sent: the excluded recipients are not known"
            );
            return None;
        }
    };
    let list = Arc::new(ExclusionList::of(shards.into_iter().flat_map(|shard| shard.keys)));
    tracing::info!(addresses = list.len(), version = state.version, "excluded recipients read");
    ctx.exclusions.replace(Some((state.version, Arc::clone(&list))));
    Some(list)
}
