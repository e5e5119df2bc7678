//! Deferral: mail that the level defers leaves its queue for the store of deferred mail, one object a
//! campaign and window.
//!
//! It is collected while the window is served and written after its last slot, when nothing is paced
//! any more. Only then, the object acknowledged, is it deleted from its queue: a crash in between leaves
//! a copy of each, never none.

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

/// Mails that a window defers at most, for each of its slots: so a campaign of nothing else is looked
/// through much faster than it could be sent, and costs a bounded number of calls.
const A_SLOT: u64 = 10;
/// Whatever the slots, at least and at most so many: the most can be deleted before the poller's end.
const LEAST: u64 = 100;
const MOST: u64 = 2_500;
/// What a mail takes beside its body: envelope, receipt.
const BESIDE: usize = 2_048;
/// Characters of the claim's token in an object's name.
const TOKEN: usize = 12;

/// What becomes of a mail that was received from a campaign.
pub(super) enum CampaignMail {
    /// It is sent.
    Sent(Box<Message>),
    /// It is deferred.
    Deferred,
    /// It was to be deferred, and the window has no room for it: it is left to its visibility timeout,
    /// and its campaign should be asked no more.
    Left,
}

/// A deferred mail that is not yet written.
struct PendingDeferral {
    body: Body,
    envelope: Envelope,
    receipt: Receipt,
}

/// What a window defers.
pub(super) struct DeferralWriter {
    level: BackPressureLevel,
    most: u64,
    most_bytes: usize,
    held: RefCell<BTreeMap<String, Vec<PendingDeferral>>>,
    mails: Cell<u64>,
    bytes: Cell<usize>,
}

/// What came of it, in mails.
#[derive(Debug, Default)]
pub(super) struct DeferralCounts {
    pub(super) by_campaign: BTreeMap<String, u64>,
    pub(super) failed: u64,
}

impl DeferralWriter {
    /// Of a window of `slots`, at this level; a quarter of the room for mail is for what is deferred.
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

    /// Sorts a mail that was received from its campaign's queue: what it defers it keeps.
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

    /// Writes what was deferred, and has it deleted from its queue. What is not written in time stays
    /// where it is.
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

/// What makes an object's name its own: of the claim's token what a name may hold.
fn token(claim: &str) -> String {
    let token: String = claim.chars().filter(char::is_ascii_alphanumeric).take(TOKEN).collect();
    if token.is_empty() { "0".to_owned() } else { token }
}
