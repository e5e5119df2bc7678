//! Mail that goes to the store: timed mail whose time is more than 15 minutes away, mail that the back-pressure level
//! defers, and mail that is left when its campaign's limit ends. It leaves its queue in one object for each campaign
//! and window, timed mail in one for each minute. Timed mail that is nearer goes back to its queue with SQS's delay.
//!
//! It is collected while the window is served and written after the last slot, so that the upload delays no
//! send. It is deleted from its queue only after the store acknowledged the object: a crash in between
//! leaves the mail in both places, never in none.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::time::Duration;

use futures_util::future::join_all;
use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::config::MOVED;
use tidegate_core::counters::Counter;
use tidegate_core::identity::{Envelope, EpochMillis};
use tidegate_core::store::refill::{LONGEST_DELAY, delay, minute_of};
use tidegate_core::store::{MOST_BYTES, ObjectName, StoredMail, Waits, pack};
use tidegate_core::{Timestamp, Window};

use super::{Effect, Kept};
use crate::poll::context::Context;
use crate::poll::settle::{Job, Receipt};
use crate::poll::sources::message::{Message, put_off, receipt};
use crate::ports::{Body, Environment, LedgerReport, Store as _};

/// Mails that a window stores at most, for each slot: a campaign of low-priority mail is searched ten times
/// as fast as it could be sent, for a bounded number of calls.
const A_SLOT: u64 = 10;
/// Bounds of that number, whatever the slots; 2,500 deletes fit into the poller's remaining time.
const LEAST: u64 = 100;
const MOST: u64 = 2_500;
/// Objects that a window writes at most, one for each campaign and minute.
const MOST_OBJECTS: usize = 64;
/// Bytes that a mail is assumed to need beside its body: envelope, receipt.
const BESIDE: usize = 2_048;
/// Characters of the claim's token in an object's name; they keep the names of two pollers apart.
const TOKEN: usize = 12;

/// An object's kind, window and campaign.
type ObjectKey = (Waits, Window, String);

struct PendingMail {
    body: Body,
    envelope: Envelope,
    not_before: Option<EpochMillis>,
    receipt: Receipt,
}

/// Collects the mail that a window stores, and writes it.
pub(crate) struct MailToStore<'a, E: Environment> {
    ctx: &'a Context<'a, E>,
    stores: bool,
    level: BackPressureLevel,
    most: u64,
    most_bytes: usize,
    held: RefCell<BTreeMap<ObjectKey, Vec<PendingMail>>>,
    mails: Cell<u64>,
    bytes: Cell<usize>,
    /// Timed mail that goes back to its queue, and the last window for which it does.
    delayed: RefCell<Vec<Job>>,
    latest: Cell<Option<Window>>,
}

impl<'a, E: Environment> MailToStore<'a, E> {
    /// Mail for the store gets a quarter of the room for mail. Without a store nothing is deferred.
    pub(crate) fn new(ctx: &'a Context<'a, E>) -> Self {
        let plan = ctx.plan;
        let bytes = usize::try_from(ctx.config.memory.mail_bytes() / 4).unwrap_or(MOST_BYTES);
        let level = plan.control.level(plan.window.opens().into());
        Self {
            ctx,
            stores: ctx.env.store.as_ref().is_some(),
            level: if ctx.config.defers { level } else { BackPressureLevel::Clear },
            most: plan.slot_count().saturating_mul(A_SLOT).clamp(LEAST, MOST),
            most_bytes: bytes.min(MOST_BYTES),
            held: RefCell::default(),
            mails: Cell::new(0),
            bytes: Cell::new(0),
            delayed: RefCell::default(),
            latest: Cell::new(None),
        }
    }

    /// Whether a mail's campaign has a limit that ends before the mail could be sent, and that defers it. What is
    /// fed is sent in the next window.
    fn is_late(&self, mail: &Message) -> bool {
        let plan = self.ctx.plan;
        let window = plan.window.plus(plan.merge.is_some().into());
        plan.limits.table.defers_campaign(&mail.envelope.campaign, window)
    }

    /// The time before which a mail may not be sent, if this window is before it.
    fn waits_until(&self, mail: &Message) -> Option<Timestamp> {
        let not_before = Timestamp::from(mail.content.not_before()?);
        (not_before > self.ctx.plan.window.opens()).then_some(not_before)
    }

    /// Keeps timed mail, mail of low priority, and mail of a campaign whose limit has ended, as far as there is room.
    ///
    /// Example: 60 slots allow 600 mails. At a level that defers low priority, the 601st such mail is left
    /// on its queue.
    pub(super) fn collected(&self, mail: Box<Message>) -> Result<Box<Message>, Kept<'a>> {
        let (waits, window) = match self.waits_until(&mail) {
            Some(until) if !self.stores || self.left(until) <= LONGEST_DELAY => {
                self.delayed.borrow_mut().push(self.delayed(&mail, until, false));
                return Err(Kept::Gone);
            }
            Some(until) => (Waits::Timed, minute_of(until)),
            None if self.stores && (self.level.defers(mail.priority) || self.is_late(&mail)) => {
                (Waits::Deferred, self.ctx.plan.window)
            }
            None => return Ok(mail),
        };
        let key = (waits, window, mail.envelope.campaign.clone());
        let mut held = self.held.borrow_mut();
        let bytes = self.bytes.get() + mail.held.body.len() + BESIDE;
        let is_full = self.mails.get() >= self.most
            || bytes > self.most_bytes
            || held.len() >= MOST_OBJECTS && !held.contains_key(&key);
        if is_full {
            return Err(Kept::Left);
        }
        self.bytes.set(bytes);
        self.mails.set(self.mails.get() + 1);
        let not_before = mail.content.not_before();
        tracing::info!(
            campaign = mail.envelope.campaign,
            identity = %mail.envelope.identity,
            back_pressure = self.level.as_str(),
            not_before = not_before.map(tracing::field::display),
            "moved to the store"
        );
        let receipt = receipt(&mail.held, false);
        let (body, envelope) = (mail.held.body, mail.envelope);
        held.entry(key).or_default().push(PendingMail { body, envelope, not_before, receipt });
        Err(Kept::Gone)
    }

    /// A timed mail that no feed asked for, as express mail: back to its queue, with SQS's delay.
    pub(super) fn received(
        &self,
        mail: Box<Message>,
        effects: &mut Vec<Effect>,
    ) -> Result<Box<Message>, Kept<'a>> {
        let Some(until) = self.waits_until(&mail) else { return Ok(mail) };
        let job = self.delayed(&mail, until, true);
        effects.push(Effect::Settle(mail, job));
        Err(Kept::Gone)
    }

    /// From the window's close, when the mail goes back to its queue.
    fn left(&self, until: Timestamp) -> Duration {
        until.saturating_since(self.ctx.plan.window.closes())
    }

    fn delayed(&self, mail: &Message, until: Timestamp, buffered: bool) -> Job {
        let window =
            Window::containing(until).min(self.ctx.plan.window.plus(LONGEST_DELAY.as_secs()));
        self.latest.set(self.latest.get().max(Some(window)));
        let delay = delay(until, self.ctx.plan.window.closes());
        put_off(mail, &mail.held.queue, delay, buffered)
    }

    /// Tells the next pollers and the scheduler until when delayed mail becomes visible.
    pub(super) fn report(&self, entry: &mut LedgerReport) {
        if let Some(latest) = self.latest.get() {
            entry.looks.due = self.ctx.plan.looks.due.max(Some(latest));
        }
    }

    pub(super) async fn closes(&self) -> Vec<Job> {
        let (mut jobs, held) = (self.delayed.take(), self.held.take());
        jobs.extend(write(self.ctx, held).await);
        jobs
    }
}

/// Writes the collected mails, and has them deleted from their queues once they are stored. Mail that is not
/// stored in time (8.5 s after the window's close) stays on its queue.
async fn write<E: Environment>(
    ctx: &Context<'_, E>,
    held: BTreeMap<ObjectKey, Vec<PendingMail>>,
) -> Vec<Job> {
    let Some(store) = ctx.env.store.as_ref() else { return Vec::new() };
    let writes = held.into_iter().map(async |((waits, window, campaign), held)| {
        let line = |held: PendingMail| {
            let line = StoredMail::of(held.body.to_string(), &held.envelope, held.not_before);
            (line, held.receipt)
        };
        let (lines, receipts): (Vec<_>, Vec<_>) = held.into_iter().map(line).unzip();
        let (token, mails) = (token(&ctx.token), lines.len() as u64);
        let name = ObjectName { waits, window, campaign, token, mails };
        let bytes = pack(&lines);
        drop(lines);
        let put = async { Ok::<_, Box<dyn StdError>>(store.put(&name.to_string(), bytes?).await?) };
        let result = ctx.within(MOVED, put).await;
        (name, receipts, result.unwrap_or_else(|| Err("not written in time".into())))
    });
    let mut jobs = Vec::new();
    for (name, receipts, result) in join_all(writes).await {
        match result {
            Ok(()) => {
                let counter = match name.waits {
                    Waits::Timed => Counter::Timed,
                    // Rows are no mails yet.
                    Waits::Deferred | Waits::Rows => Counter::Deferred,
                };
                ctx.count_for(counter, &name.campaign, name.mails);
                jobs.extend(receipts.into_iter().map(Job::Delete));
            }
            Err(error) => {
                ctx.count(Counter::StoreFailed, name.mails);
                let (campaign, error) = (name.campaign, error.as_ref());
                tracing::error!(campaign, mails = name.mails, error, "not stored: it stays");
            }
        }
    }
    jobs
}

/// The part of an object's name that makes it unique: the first 12 ASCII letters and digits of the claim's
/// token.
fn token(claim: &str) -> String {
    let token: String = claim.chars().filter(char::is_ascii_alphanumeric).take(TOKEN).collect();
    if token.is_empty() { "0".to_owned() } else { token }
}
