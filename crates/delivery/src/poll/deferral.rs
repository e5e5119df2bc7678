//! Deferral: mail that the back-pressure level defers leaves its queue for the store of deferred mail, in
//! one object for each campaign and window.
//!
//! It is collected while the window is served and written after the last slot, so that the upload delays no
//! send. It is deleted from its queue only after the store acknowledged the object: a crash in between
//! leaves the mail in both places, never in none.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::error::Error as StdError;

use futures_channel::mpsc::UnboundedSender;
use futures_util::future::join_all;
use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::config::MOVED;
use tidegate_core::deferral::{DeferredMail, MOST_BYTES, ObjectName, pack};
use tidegate_core::identity::Envelope;
use tidegate_core::memory::Memory;

use super::context::Context;
use super::message::Message;
use super::outcome::receipt;
use super::settle::{Job, Receipt};
use crate::environment::Environment;
use crate::ports::{Body, DeferralStore as _};

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

/// The next step of a mail that was received from a campaign.
pub(super) enum CampaignMail {
    Sent(Box<Message>),
    Deferred,
    /// It should be deferred, but the window has no room for it: it is left to its visibility timeout, and
    /// its campaign should be asked no more.
    Left,
}

struct PendingDeferral {
    body: Body,
    envelope: Envelope,
    receipt: Receipt,
}

/// Collects the mail that a window defers.
pub(super) struct DeferralWriter {
    level: BackPressureLevel,
    most: u64,
    most_bytes: usize,
    held: RefCell<BTreeMap<String, Vec<PendingDeferral>>>,
    mails: Cell<u64>,
    bytes: Cell<usize>,
}

/// Numbers of mails that were deferred.
#[derive(Debug, Default)]
pub(super) struct DeferralCounts {
    pub(super) by_campaign: BTreeMap<String, u64>,
    pub(super) failed: u64,
}

impl DeferralWriter {
    /// A writer for a window of `slots`, at this level. Deferred mail gets a quarter of the room for mail.
    pub(super) fn new(level: BackPressureLevel, slots: u64, memory: Memory) -> Self {
        let bytes = usize::try_from(memory.mail_bytes() / 4).unwrap_or(MOST_BYTES);
        Self {
            level,
            most: slots.saturating_mul(A_SLOT).clamp(LEAST, MOST),
            most_bytes: bytes.min(MOST_BYTES),
            held: RefCell::default(),
            mails: Cell::new(0),
            bytes: Cell::new(0),
        }
    }

    /// Decides on a mail from its campaign's queue; it keeps the mail if it defers it.
    ///
    /// Example: 60 slots allow 600 mails. At a level that defers low priority, the 601st such mail is left
    /// on its queue.
    pub(super) fn sort(&self, message: Box<Message>) -> CampaignMail {
        if !self.level.defers(message.email.priority()) {
            return CampaignMail::Sent(message);
        }
        let bytes = self.bytes.get() + message.held.body.len() + BESIDE;
        if self.mails.get() >= self.most || bytes > self.most_bytes {
            return CampaignMail::Left;
        }
        self.bytes.set(bytes);
        self.mails.set(self.mails.get() + 1);
        tracing::info!(
            campaign = message.envelope.campaign,
            identity = %message.envelope.identity,
            level = self.level.as_str(),
            "deferred"
        );
        let receipt = receipt(&message.held, false);
        let (body, envelope) = (message.held.body, message.envelope);
        let mut held = self.held.borrow_mut();
        let campaign = envelope.campaign.clone();
        held.entry(campaign).or_default().push(PendingDeferral { body, envelope, receipt });
        CampaignMail::Deferred
    }

    /// Writes the collected mails, and has them deleted from their queues once they are stored. What is not
    /// stored in time (8.5 s after the window's close) stays on its queue.
    pub(super) async fn write<E: Environment>(
        &self,
        ctx: &Context<'_, E>,
        jobs: &UnboundedSender<Job>,
    ) -> DeferralCounts {
        let held = self.held.take();
        let mut written = DeferralCounts::default();
        let Some(deferral) = ctx.env.deferral().filter(|_| !held.is_empty()) else {
            return written;
        };
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
            let put = async { Ok::<_, Box<dyn StdError>>(deferral.put(&name, bytes?).await?) };
            let result = ctx.within(MOVED, put).await;
            (name, receipts, result.unwrap_or_else(|| Err("not written in time".into())))
        });
        for (name, receipts, result) in join_all(writes).await {
            match result {
                Ok(()) => {
                    written.by_campaign.insert(name.campaign, name.mails);
                    for receipt in receipts {
                        let _ = jobs.unbounded_send(Job::Delete(receipt));
                    }
                }
                Err(error) => {
                    written.failed += name.mails;
                    let (campaign, error) = (name.campaign, error.as_ref());
                    tracing::error!(campaign, mails = name.mails, error, "not deferred: it stays");
                }
            }
        }
        written
    }
}

/// The part of an object's name that makes it unique: the first 12 ASCII letters and digits of the claim's
/// token.
fn token(claim: &str) -> String {
    let token: String = claim.chars().filter(char::is_ascii_alphanumeric).take(TOKEN).collect();
    if token.is_empty() { "0".to_owned() } else { token }
}
