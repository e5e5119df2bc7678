//! Deferral: mail that the back-pressure level defers, and mail that is left when its campaign's limit ends, leaves
//! its queue for the store of deferred mail, in one object for each campaign and window.
//!
//! It is collected while the window is served and written after the last slot, so that the upload delays no
//! send. It is deleted from its queue only after the store acknowledged the object: a crash in between
//! leaves the mail in both places, never in none.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::error::Error as StdError;

use futures_util::future::join_all;
use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::config::MOVED;
use tidegate_core::counters::Counter;
use tidegate_core::deferral::{DeferredMail, MOST_BYTES, ObjectName, pack};
use tidegate_core::identity::Envelope;

use super::Kept;
use crate::poll::context::Context;
use crate::poll::settle::{Job, Receipt};
use crate::poll::sources::message::{Message, receipt};
use crate::ports::{Body, DeferralStore as _, Environment};

/// Mails that a window defers at most, for each slot: a campaign of low-priority mail is searched ten times
/// as fast as it could be sent, for a bounded number of calls.
const A_SLOT: u64 = 10;
/// Bounds of that number, whatever the slots; 2,500 deletes fit into the poller's remaining time.
const LEAST: u64 = 100;
const MOST: u64 = 2_500;
/// Bytes that a mail is assumed to need beside its body: envelope, receipt.
const BESIDE: usize = 2_048;
/// Characters of the claim's token in an object's name; they keep the names of two pollers apart.
const TOKEN: usize = 12;

struct PendingDeferral {
    body: Body,
    envelope: Envelope,
    receipt: Receipt,
}

/// Collects the mail that a window defers, and writes it to the store of deferred mail.
pub(crate) struct Deferral<'a, E: Environment> {
    ctx: &'a Context<'a, E>,
    stores: bool,
    level: BackPressureLevel,
    most: u64,
    most_bytes: usize,
    held: RefCell<BTreeMap<String, Vec<PendingDeferral>>>,
    mails: Cell<u64>,
    bytes: Cell<usize>,
}

impl<'a, E: Environment> Deferral<'a, E> {
    /// Deferred mail gets a quarter of the room for mail. Without a store nothing is deferred.
    pub(crate) fn new(ctx: &'a Context<'a, E>) -> Self {
        let plan = ctx.plan;
        let bytes = usize::try_from(ctx.config.memory.mail_bytes() / 4).unwrap_or(MOST_BYTES);
        Self {
            ctx,
            stores: ctx.env.deferral.as_ref().is_some(),
            level: plan.control.level(plan.window.opens().into()),
            most: plan.slot_count().saturating_mul(A_SLOT).clamp(LEAST, MOST),
            most_bytes: bytes.min(MOST_BYTES),
            held: RefCell::default(),
            mails: Cell::new(0),
            bytes: Cell::new(0),
        }
    }

    /// Whether a mail's campaign has a limit that ends before the mail could be sent, and that defers it. What is
    /// fed is sent in the next window.
    fn is_late(&self, mail: &Message) -> bool {
        let plan = self.ctx.plan;
        let window = plan.window.plus(plan.merge.is_some().into());
        plan.limits.table.defers_campaign(&mail.envelope.campaign, window)
    }

    /// Keeps a mail of low priority, or of a campaign whose limit has ended, as far as there is room.
    ///
    /// Example: 60 slots allow 600 mails. At a level that defers low priority, the 601st such mail is left
    /// on its queue.
    pub(super) fn collected(&self, mail: Box<Message>) -> Result<Box<Message>, Kept<'a>> {
        if !self.stores || !(self.level.defers(mail.priority) || self.is_late(&mail)) {
            return Ok(mail);
        }
        let bytes = self.bytes.get() + mail.held.body.len() + BESIDE;
        if self.mails.get() >= self.most || bytes > self.most_bytes {
            return Err(Kept::Left);
        }
        self.bytes.set(bytes);
        self.mails.set(self.mails.get() + 1);
        tracing::info!(
            campaign = mail.envelope.campaign,
            identity = %mail.envelope.identity,
            level = self.level.as_str(),
            "deferred"
        );
        let receipt = receipt(&mail.held, false);
        let (body, envelope) = (mail.held.body, mail.envelope);
        let mut held = self.held.borrow_mut();
        let campaign = envelope.campaign.clone();
        held.entry(campaign).or_default().push(PendingDeferral { body, envelope, receipt });
        Err(Kept::Gone)
    }

    pub(super) fn closes(&self) -> impl Future<Output = Vec<Job>> + use<'a, E> {
        write(self.ctx, self.held.take())
    }
}

/// Writes the collected mails, and has them deleted from their queues once they are stored. Mail that is not
/// stored in time (8.5 s after the window's close) stays on its queue.
async fn write<E: Environment>(
    ctx: &Context<'_, E>,
    held: BTreeMap<String, Vec<PendingDeferral>>,
) -> Vec<Job> {
    let Some(store) = ctx.env.deferral.as_ref() else { return Vec::new() };
    let writes = held.into_iter().map(async |(campaign, held)| {
        let line = |held: PendingDeferral| {
            (DeferredMail::of(held.body.to_string(), &held.envelope), held.receipt)
        };
        let (lines, receipts): (Vec<_>, Vec<_>) = held.into_iter().map(line).unzip();
        let name = ObjectName {
            window: ctx.plan.window,
            campaign,
            mails: lines.len() as u64,
            token: token(&ctx.token),
        };
        let bytes = pack(&lines);
        drop(lines);
        let put = async { Ok::<_, Box<dyn StdError>>(store.put(&name, bytes?).await?) };
        let result = ctx.within(MOVED, put).await;
        (name, receipts, result.unwrap_or_else(|| Err("not written in time".into())))
    });
    let mut jobs = Vec::new();
    for (name, receipts, result) in join_all(writes).await {
        match result {
            Ok(()) => {
                ctx.count_for(Counter::Deferred, &name.campaign, name.mails);
                jobs.extend(receipts.into_iter().map(Job::Delete));
            }
            Err(error) => {
                ctx.count(Counter::DeferralFailed, name.mails);
                let (campaign, error) = (name.campaign, error.as_ref());
                tracing::error!(campaign, mails = name.mails, error, "not deferred: it stays");
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
