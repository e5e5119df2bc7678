//! Large mail: its content is fetched from the store once the other rules let it through, beside other mail, which goes on
//! taking slots.
//!
//! A fetch takes its room before it begins, since other mail needs room too. Content that comes after the window's close is kept
//! for the next window that this environment serves; without it, it is fetched again.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tidegate_core::config::DECIDED;
use tidegate_core::counters::Counter;
use tidegate_core::deduplication::{Deduplication, MarkState};
use tidegate_core::email::StoredContent;
use tidegate_core::memory::Memory;

use super::{Effect, Kept, Leave, NextRule};
use crate::poll::context::Context;
use crate::poll::room::ContentRoom;
use crate::poll::running_means::LateContent;
use crate::poll::sources::message::{Message, already_sent, without_content};
use crate::ports::{Environment, Marks as _, PortError, Store as _, VISIBILITY_TIMEOUT};

/// A fetch that began later than this before the window's close would come too late for a slot.
const LAST_FETCH: Duration = Duration::from_millis(300);
/// So long after the window's close content may come.
const LATE: Duration = Duration::from_secs(2);
/// After this time a mail is shown whose content came too late.
const SOON: Duration = Duration::from_secs(1);

/// Fetches the contents of large mails.
pub(crate) struct LargeMail<'a, E: Environment> {
    ctx: &'a Context<'a, E>,
    /// Bytes of room that fetches wait for.
    waiting: Rc<Cell<u64>>,
}

/// Why a mail has no content.
enum Unfetched {
    /// It never will: a dead letter's code, and the reason.
    Never(&'static str, String),
    /// There is no object: the mail was sent with another copy of its message, or somebody deleted the object.
    Gone,
    /// There is no time or no room in this window; the mail is shown again after this time.
    Now(Duration),
}

impl<'a, E: Environment> LargeMail<'a, E> {
    pub(crate) fn new(ctx: &'a Context<'a, E>) -> Self {
        ctx.running_means.forget_late(ctx.monotonic());
        Self { ctx, waiting: Rc::default() }
    }

    pub(super) fn received(&self, mail: Box<Message>) -> Result<Box<Message>, Kept<'a>> {
        match mail.content.stored().cloned() {
            Some(stored) => {
                let waiting = Rc::clone(&self.waiting);
                Err(Kept::Later(fetched(self.ctx, waiting, mail, stored).boxed_local()))
            }
            None => Ok(mail),
        }
    }
}

async fn fetched<'a, E: Environment>(
    ctx: &'a Context<'a, E>,
    waiting: Rc<Cell<u64>>,
    mut mail: Box<Message>,
    stored: StoredContent,
) -> Vec<Effect> {
    let give_back = Effect::GiveBack(mail.line, mail.recipients());
    let (code, said, redacted) = match fetch(ctx, &waiting, &stored).await {
        Ok((object, room)) if ctx.now() >= ctx.plan.window.closes() => {
            ctx.running_means.keep_late(LateContent {
                key: stored.key(),
                object,
                room,
                since: ctx.monotonic(),
            });
            return vec![Effect::Leave(mail, Leave::For(SOON))];
        }
        Ok((object, room)) => match ctx.config.rules.read_with_object(&mail.held.body, &object) {
            Ok(content) => {
                mail.content = content;
                mail.room = Some(room);
                return vec![Effect::Pass(mail, NextRule::Marks)];
            }
            Err(error) => (error.kind.code(), error.to_string(), error.redacted()),
        },
        Err(Unfetched::Never(code, said)) => (code, said.clone(), said),
        Err(Unfetched::Gone) => match ctx.within(DECIDED, was_sent(ctx, &mail)).await {
            Some(Ok(true)) => {
                ctx.count(Counter::AlreadySent, 1);
                let job = already_sent(&mail);
                return vec![give_back, Effect::Settle(mail, job)];
            }
            Some(Ok(false)) => {
                let said = format!("stored.name: no such object in the store, {:?}", stored.name);
                ("NoSuchObject", said.clone(), said)
            }
            failed => {
                let error = failed.and_then(Result::err);
                let error = error.as_ref().map(|error| error as &dyn std::error::Error);
                tracing::warn!(
                    error,
                    "not known whether a mail without content was sent: it stays"
                );
                return vec![give_back, Effect::Leave(mail, Leave::Hidden)];
            }
        },
        Err(Unfetched::Now(after)) => {
            return vec![give_back, Effect::Leave(mail, Leave::For(after))];
        }
    };
    ctx.count_for(Counter::Dead, &mail.envelope.campaign, 1);
    let job = without_content(&mail, code, said, &redacted, &ctx.plan.dead_letter);
    vec![give_back, Effect::Settle(mail, job)]
}

/// Whether a mark says that the mail was sent; without deduplication nobody knows.
async fn was_sent<E: Environment>(ctx: &Context<'_, E>, mail: &Message) -> Result<bool, PortError> {
    if ctx.config.deduplication == Deduplication::Off {
        return Ok(false);
    }
    let found = ctx.env.ledger.find(std::slice::from_ref(&mail.envelope.identity)).await?;
    Ok(found.into_iter().flatten().any(|mark| mark.state == MarkState::Sent))
}

/// The object's bytes, as many as the pointer says, and the room that they take.
async fn fetch<E: Environment>(
    ctx: &Context<'_, E>,
    waiting: &Cell<u64>,
    stored: &StoredContent,
) -> Result<(Vec<u8>, ContentRoom), Unfetched> {
    let (key, bytes) = (stored.key(), stored.bytes);
    let Some(store) = ctx.env.store.as_ref() else {
        let said = "stored: this stack has no store (TIDEGATE_STORE)".to_owned();
        return Err(Unfetched::Never("NoStore", said));
    };
    if let Some(late) = ctx.running_means.take_late(&key) {
        return Ok((late.object, late.room));
    }
    let (room, most) = (Memory::of_content(bytes), ctx.config.memory.mail_bytes());
    if room > most {
        let (megabytes, most) = (ctx.config.memory.0, 2 * most);
        let said = format!(
            "stored.bytes: must be at most {most} with the poller's memory of {megabytes} MB, not {bytes}"
        );
        return Err(Unfetched::Never("TooLarge", said));
    }
    // The mails that wait keep slots: no more wait than may be fetched at once.
    if ctx.left_until(LAST_FETCH).is_zero() {
        return Err(Unfetched::Now(SOON));
    }
    let means = ctx.running_means;
    if waiting.get() + room > means.room.for_contents().max(room) {
        return Err(Unfetched::Now(VISIBILITY_TIMEOUT));
    }
    waiting.set(waiting.get() + room);
    let reserved = means.room.reserve_content(room, || means.give_up_late());
    let last = ctx.time.monotonic(ctx.plan.window.closes().saturating_sub(LAST_FETCH));
    let reserved = ctx.until(last, reserved).await;
    waiting.set(waiting.get() - room);
    let Some(reserved) = reserved else { return Err(Unfetched::Now(VISIBILITY_TIMEOUT)) };
    // One byte more tells a larger object.
    let object = match ctx.within(LATE, store.get_most(&key, bytes + 1)).await {
        Some(Ok(Some(object))) => object,
        Some(Ok(None)) => return Err(Unfetched::Gone),
        failed => {
            let error = failed.and_then(Result::err);
            let error = error.as_ref().map(|error| error as &dyn std::error::Error);
            tracing::warn!(error, key, "a mail's content was not fetched: the mail stays");
            return Err(Unfetched::Now(VISIBILITY_TIMEOUT));
        }
    };
    if object.len() as u64 == bytes {
        return Ok((object, reserved));
    }
    let found =
        if object.len() as u64 > bytes { "more".to_owned() } else { object.len().to_string() };
    let said = format!("stored.bytes: must be the object's size, not {bytes}: it has {found}");
    Err(Unfetched::Never("OtherSize", said))
}
