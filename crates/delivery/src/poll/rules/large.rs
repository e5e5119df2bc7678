//! Large mail: its content is fetched from the store once the other rules let it through, beside other mail, which goes on
//! taking slots.
//!
//! A fetch takes its room before it begins, since other mail needs room too. Content whose mail is not sent in its window is kept
//! for the next windows that this environment serves; without it, it is fetched again. A window begins no more fetches than its share of a
//! processor can do beside the other mail; where that loses slots all the same, fewer windows have content ([`ContentPace`]).
//!
//! A large mail is read, and its request to SES written and hashed, before it waits for a slot, beside the thread that keeps the
//! slots: it would be late for its own, and keep others from theirs.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tidegate_core::bucket::Pace;
use tidegate_core::channel::Content;
use tidegate_core::config::DECIDED;
use tidegate_core::counters::Counter;
use tidegate_core::deduplication::{Deduplication, MarkState};
use tidegate_core::email::{EmailError, StoredContent};
use tidegate_core::memory::Memory;
use tidegate_core::trace::TraceParent;
use tidegate_core::{Timestamp, Window};

use super::{Effect, Kept, Leave, MailStep, NextRule};
use crate::poll::context::Context;
use crate::poll::room::{Ahead, ContentRoom};
use crate::poll::running_means::LONGEST_DELAY;
use crate::poll::sources::message::{Message, already_sent, without_content};
use crate::ports::{
    Clock as _, Environment, LedgerReport, Mail, Mailer as _, Marks as _, PortError, Store as _,
    VISIBILITY_TIMEOUT, Writer, WrittenRequest,
};

/// A fetch that began later than this before the window's close would come too late for a slot.
const LAST_FETCH: Duration = Duration::from_millis(300);
/// So long after the window's close content may come.
const LATE: Duration = Duration::from_secs(2);

/// Bytes of content above which a mail's request is written before its slot: to write and hash as many takes 0.2 ms of a whole
/// processor, 3 ms of a function's with 128 MB. A mail of megabytes would be late for each of its slots.
const WRITTEN_AHEAD: usize = 65_536;

/// Fetches the contents of large mails, and writes their requests.
pub(crate) struct LargeMail<'a, E: Environment> {
    ctx: &'a Context<'a, E>,
    contents: Rc<Contents>,
}

/// The contents of one window, in bytes.
#[derive(Default)]
struct Contents {
    /// Room that fetches wait for.
    waiting: Cell<u64>,
    /// Fetches that the window was asked for, those that were put off too.
    asked: Cell<u64>,
    /// The last window in which mail is shown that was put off.
    due: Cell<Option<Window>>,
    /// Whether a fetch was begun.
    begun: Cell<bool>,
}

impl Contents {
    /// Puts a mail off by so many seconds.
    fn put_off(&self, now: Timestamp, seconds: u64) -> Duration {
        let after = Duration::from_secs(seconds).min(LONGEST_DELAY);
        self.due.set(self.due.get().max(Some(Window::containing(now + after))));
        after
    }
}

/// Why a mail has no content.
enum Unfetched {
    /// It never will: a dead letter's code, and the reason.
    Never(&'static str, String),
    /// It is no valid mail.
    Invalid(EmailError),
    /// There is no object: the mail was sent with another copy of its message, or somebody deleted the object.
    Gone,
    /// There is no time or no room in this window; the mail is shown again after this time.
    Now(Duration),
}

impl<'a, E: Environment> LargeMail<'a, E> {
    pub(crate) fn new(ctx: &'a Context<'a, E>) -> Self {
        ctx.running_means.forget_unsent(ctx.monotonic());
        Self { ctx, contents: Rc::default() }
    }

    pub(super) fn received(&self, mail: Box<Message>) -> MailStep<'a> {
        let ctx = self.ctx;
        if let Some(stored) = mail.content.stored().cloned() {
            let contents = Rc::clone(&self.contents);
            return Err(Kept::Later(fetched(ctx, contents, mail, stored).boxed_local()));
        }
        if mail.content.bytes() <= WRITTEN_AHEAD || mail.ahead.request.is_some() {
            return Ok(mail);
        }
        Err(Kept::Later(written(ctx, Rc::clone(&self.contents), mail).boxed_local()))
    }

    /// Tells the next pollers until when mail that was put off becomes visible, and notes what content did to the slots.
    pub(super) fn report(&self, entry: &mut LedgerReport) {
        if let Some(due) = self.contents.due.get() {
            entry.looks.due = entry.looks.due.max(self.ctx.plan.looks.due).max(Some(due));
        }
        if self.contents.begun.get() {
            let (pace, plan) = (&self.ctx.running_means.content_pace, self.ctx.plan);
            let skipped = self.ctx.counts.borrow().of(Counter::Skipped);
            pace.set(pace.get().after(plan.window, skipped, plan.slot_count()));
        }
    }
}

/// A mail's request, before its slot, and the facts beside the content from which it is written.
struct Request {
    writer: Writer,
    campaign: String,
    id: String,
    through: Option<String>,
    limits: Option<String>,
    trace: Option<TraceParent>,
    tenant: Option<String>,
    pace: Pace,
}

impl Request {
    fn of<E: Environment>(ctx: &Context<'_, E>, mail: &Message) -> Self {
        Self {
            writer: ctx.env.mailer.writer(),
            campaign: mail.envelope.campaign.clone(),
            id: mail.envelope.identity.id().into_owned(),
            through: mail.through.clone(),
            limits: ctx.plan.limits.table.tags(&mail.demands),
            trace: ctx.trace_of(&mail.envelope).cloned(),
            tenant: mail.tenant.clone(),
            pace: ctx.pace(),
        }
    }

    fn write(self, content: &Content) -> WrittenRequest {
        let mail = Mail {
            through: self.through.as_deref(),
            limits: self.limits.as_deref(),
            trace: self.trace.as_ref().map(TraceParent::as_str),
            tenant: self.tenant.as_deref(),
            ..Mail::new(content, &self.campaign, &self.id, self.pace)
        };
        (self.writer)(mail)
    }
}

/// Writes the request of a mail that came whole.
async fn written<'a, E: Environment>(
    ctx: &'a Context<'a, E>,
    contents: Rc<Contents>,
    mut mail: Box<Message>,
) -> Vec<Effect> {
    let (content, request) = (Arc::clone(&mail.content), Request::of(ctx, &mail));
    let writing = ctx.env.clock.beside(content.bytes(), move || request.write(&content));
    // Where the window is over before its turn comes, the work is spared.
    match ctx.within(Duration::ZERO, writing).await {
        Some(request) => {
            mail.ahead = Rc::new(Ahead { request: Some(request), ..Ahead::default() });
            vec![Effect::Pass(mail, NextRule::Marks)]
        }
        None => vec![Effect::Leave(mail, Leave::For(contents.put_off(ctx.now(), 1)))],
    }
}

async fn fetched<'a, E: Environment>(
    ctx: &'a Context<'a, E>,
    contents: Rc<Contents>,
    mut mail: Box<Message>,
    stored: StoredContent,
) -> Vec<Effect> {
    let give_back = Effect::GiveBack(mail.line, mail.recipients());
    let (code, said, redacted) = match ahead(ctx, &contents, &mail, &stored).await {
        Ok(ahead) => {
            mail.ahead = ahead;
            return vec![if ctx.now() < ctx.plan.window.closes() {
                Effect::Pass(mail, NextRule::Marks)
            } else {
                Effect::Leave(mail, Leave::For(contents.put_off(ctx.now(), 1)))
            }];
        }
        Err(Unfetched::Invalid(error)) => (error.kind.code(), error.to_string(), error.redacted()),
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

/// The request with the content from the store.
async fn ahead<E: Environment>(
    ctx: &Context<'_, E>,
    contents: &Contents,
    mail: &Message,
    stored: &StoredContent,
) -> Result<Rc<Ahead>, Unfetched> {
    let kept = mail.content_key().and_then(|key| ctx.running_means.take_unsent(&key));
    if let Some(kept) = kept {
        return Ok(kept.ahead);
    }
    let (object, room) = fetch(ctx, contents, stored).await?;
    let (rules, body, request) =
        (ctx.config.rules.clone(), mail.held.body.clone(), Request::of(ctx, mail));
    let bytes = object.len();
    let read = move || {
        let content = rules.read_with_object(&body, &object)?;
        drop(object);
        Ok(request.write(&content))
    };
    let request = ctx.env.clock.beside(bytes, read).await.map_err(Unfetched::Invalid)?;
    Ok(Rc::new(Ahead { request: Some(request), _room: Some(room) }))
}

/// The object's bytes, as many as the pointer says, and the room that they take.
async fn fetch<E: Environment>(
    ctx: &Context<'_, E>,
    contents: &Contents,
    stored: &StoredContent,
) -> Result<(Vec<u8>, ContentRoom), Unfetched> {
    let (key, bytes) = (stored.key(), stored.bytes);
    let Some(store) = ctx.env.store.as_ref() else {
        let said = "stored: this stack has no store (TIDEGATE_STORE)".to_owned();
        return Err(Unfetched::Never("NoStore", said));
    };
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
        return Err(Unfetched::Now(contents.put_off(ctx.now(), 1)));
    }
    let (means, Contents { waiting, asked, .. }) = (ctx.running_means, contents);
    let is_beyond = |held: u64, more: u64, most: u64| held > 0 && held + more > most;
    if is_beyond(waiting.get(), room, means.room.for_contents()) {
        return Err(Unfetched::Now(VISIBILITY_TIMEOUT));
    }
    let (before, most) = (asked.get(), ctx.config.memory.contents_a_window());
    asked.set(before + bytes);
    let pace = means.content_pace.get();
    if is_beyond(before, bytes, most) || !pace.is_due(ctx.plan.window) {
        // One after the other: those that came back together would be put off together again.
        let seconds = pace.apart * ((before + bytes) / most).max(1);
        return Err(Unfetched::Now(contents.put_off(ctx.now(), seconds)));
    }
    contents.begun.set(true);
    waiting.set(waiting.get() + room);
    let reserved = means.room.reserve_content(room, || means.give_up_unsent());
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
