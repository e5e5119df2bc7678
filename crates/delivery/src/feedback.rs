//! Reading what SES reports: bounces and complaints, received in rounds, counted in the ledger's
//! control record, and deleted once the count stands there.
//!
//! A reader that dies in between leaves a round of at most 50 messages to come again; the record
//! remembers the last 50, so they are counted twice only where others were counted meanwhile.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::time::Duration;

use futures_util::future::join_all;
use tidegate_core::config::FeedbackConfig;
use tidegate_core::reputation::{self, Heard, Notice, NoticeKind, REMEMBERED};

use crate::control;
use crate::poll::sent_by_campaign;
use crate::ports::{Clock, Feedback, FeedbackMessage, Ledger, PortError};

/// No round begins later than this after the reading began, so that the last one is through before
/// the run's ticks are (59 s and more).
const READING: Duration = Duration::from_secs(45);
/// The longest wait that SQS allows: three calls a minute where nothing is reported.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// Until the next try, where queue or ledger failed.
const PAUSE: Duration = Duration::from_secs(5);
/// Entries of a delete, as SQS allows.
const BATCH: usize = 10;

/// What a reading came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedbackReport {
    /// Bounces counted, by campaign.
    pub bounced: BTreeMap<String, u64>,
    /// Complaints counted, by campaign.
    pub complained: BTreeMap<String, u64>,
    /// Messages that are no notice, deleted.
    pub unreadable: u64,
}

/// Reads for 45 s and as long as the last round takes; whatever fails is tried again later. What it
/// counted stands in `report` even where it is dropped on its way.
pub(crate) async fn read(
    config: &FeedbackConfig,
    clock: &impl Clock,
    feedback: &impl Feedback,
    ledger: &impl Ledger,
    report: &RefCell<FeedbackReport>,
) {
    let reader = FeedbackReader { config, clock, feedback, ledger, report };
    let until = clock.monotonic() + READING;
    // What changed without a message: more was sent, a hold was lifted, a period is over.
    if let Err(error) = reader.count(&[]).await {
        tracing::error!(error = &error as &dyn StdError, "reputation not reviewed");
    }
    loop {
        let left = until.saturating_since(clock.monotonic());
        if left < Duration::from_secs(1) {
            return;
        }
        let wait = Duration::from_secs(left.min(LONGEST_WAIT).as_secs());
        let next = clock.monotonic() + wait;
        match reader.round(wait).await {
            Ok(0) => clock.sleep_until(next).await, // an empty answer that came early
            Ok(_) => {}
            Err(error) => {
                tracing::error!(error = &error as &dyn StdError, "feedback not counted");
                clock.sleep_until(clock.monotonic() + PAUSE).await;
            }
        }
    }
}

struct FeedbackReader<'a, C, F, L> {
    config: &'a FeedbackConfig,
    clock: &'a C,
    feedback: &'a F,
    ledger: &'a L,
    report: &'a RefCell<FeedbackReport>,
}

impl<C: Clock, F: Feedback, L: Ledger> FeedbackReader<'_, C, F, L> {
    /// Receives, counts, deletes; gives how many messages there were.
    async fn round(&self, wait: Duration) -> Result<usize, PortError> {
        let mut messages = self.feedback.receive(wait).await?;
        // No more than are remembered: whatever comes again of this round is known.
        while !messages.is_empty() && messages.len() + BATCH <= REMEMBERED {
            match self.feedback.receive(Duration::ZERO).await {
                Ok(more) if !more.is_empty() => messages.extend(more),
                _ => break,
            }
        }
        if !messages.is_empty() && self.count(&messages).await? {
            self.delete(&messages).await;
        }
        Ok(messages.len())
    }

    /// Counts in the ledger; whether the count stands there.
    async fn count(&self, messages: &[FeedbackMessage]) -> Result<bool, PortError> {
        let (heard, unreadable) = heard(messages);
        let standing = self.ledger.read().await?;
        let sent = sent_by_campaign(&standing.counters);
        let now = self.clock.wall().into();
        let new = RefCell::new(Vec::new());
        let changed =
            control::change(self.ledger, (standing.control_version, standing.control), |control| {
                *new.borrow_mut() =
                    reputation::review(control, &self.config.policy, &sent, &heard, now);
            });
        let stands = changed.await?.made().is_some() || new.borrow().is_empty();
        if stands {
            let mut report = self.report.borrow_mut();
            report.unreadable += unreadable;
            for notice in new.take() {
                report.add(notice);
            }
        }
        Ok(stands)
    }

    /// What is not deleted comes again, and is known.
    async fn delete(&self, messages: &[FeedbackMessage]) {
        let batches = messages.chunks(BATCH).map(async |batch: &[FeedbackMessage]| {
            let receipts: Vec<String> = batch.iter().map(|m| m.receipt.clone()).collect();
            match self.feedback.delete(&receipts).await {
                Ok(entries) => {
                    for error in entries.iter().filter_map(|entry| entry.as_ref().err()) {
                        tracing::warn!(%error, "feedback not deleted");
                    }
                }
                Err(error) => {
                    tracing::warn!(error = &error as &dyn StdError, "feedback not deleted");
                }
            }
        });
        join_all(batches).await;
    }
}

impl FeedbackReport {
    fn add(&mut self, notice: &Notice) {
        let (counts, what) = match notice.kind {
            NoticeKind::Bounce => (&mut self.bounced, "bounced"),
            NoticeKind::Complaint => (&mut self.complained, "complained of"),
        };
        *counts.entry(notice.campaign.clone()).or_default() += 1;
        let (campaign, ses_message_id) = (&*notice.campaign, &*notice.ses_message_id);
        tracing::info!(campaign, ses_message_id, what, "reported by SES");
    }
}

/// The notices of these messages, and how many of them hold none. Those are logged without their
/// body, which may hold an address.
fn heard(messages: &[FeedbackMessage]) -> (Vec<Heard>, u64) {
    let (mut heard, mut unreadable) = (Vec::new(), 0);
    for message in messages {
        match Notice::parse(&message.body) {
            Ok(notice) => {
                heard.push(Heard { mark: reputation::mark(&message.message_id), notice });
            }
            Err(error) => {
                unreadable += 1;
                let message_id = &*message.message_id;
                tracing::warn!(message_id, reason = %error, "feedback that is none, deleted");
            }
        }
    }
    (heard, unreadable)
}
