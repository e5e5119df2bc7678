//! Reads SES's notices of bounces, complaints, deferrals and dropped mail in rounds: receive, count in the control
//! record, mark as counted in the ledger, delete.
//!
//! A notice counts once for its message, kind and recipient, however often and from however many SQS messages it
//! comes: the ledger has a mark of it for 90 days. If a scheduler dies between count and marks, the messages of that
//! round are delivered again. The control record remembers the last 100 notices, so they are counted twice only if
//! 100 others were counted in between.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as StdError;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use tidegate_core::config::FeedbackConfig;
use tidegate_core::reputation::{self, MARKED, Notice, NoticeKind, REMEMBERED};
use tidegate_core::{Timestamp, Window};

use crate::control;
use crate::poll::sent_by_campaign;
use crate::ports::{
    BATCH, Clock, Ledger, MarkRequest, Marks, PortError, QueueUrl, Queues, Received,
};

/// No round begins later than this after the reading began. The last round then ends before the run's ticks
/// do, which takes at least 59 s.
const READING: Duration = Duration::from_secs(45);
/// The longest wait that SQS allows. An empty feedback queue then costs three calls per minute.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// The pause before the next try after the queue or the ledger failed.
const PAUSE: Duration = Duration::from_secs(5);

/// The notices that one run of the scheduler has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedbackReport {
    /// Bounces counted, by campaign name.
    pub bounced: BTreeMap<String, u64>,
    /// Complaints counted, by campaign name.
    pub complained: BTreeMap<String, u64>,
    /// Deferrals by recipients' providers, by campaign name.
    pub deferred: BTreeMap<String, u64>,
    /// Recipients whom SES did not try to reach, by campaign name.
    pub suppressed: BTreeMap<String, u64>,
    /// Mails that SES accepted and then dropped, by campaign name.
    pub dropped: BTreeMap<String, u64>,
    /// Messages that contained no notice; they were deleted.
    pub unreadable: u64,
}

/// Reviews every campaign, and reads one round of notices without waiting for them. This takes two or three
/// calls, and goes on after the ticks have ended: it is all that a run without ticks reads.
pub(crate) async fn read_once(
    reader: &FeedbackReader<'_, impl Clock, impl Queues, impl Ledger + Marks>,
) {
    // The review can change without a message: more was sent, a hold was lifted, or a period ended.
    if let Err(error) = reader.count(&[]).await {
        tracing::error!(error = &error as &dyn StdError, "reputation not reviewed");
    }
    if let Err(error) = reader.round(Duration::ZERO).await {
        tracing::error!(error = &error as &dyn StdError, "feedback not counted");
    }
}

/// Reads for 45 s, and until the last round ends. A failure is logged and tried again after 5 s. The report
/// is updated after every round, so its counts survive if this future is dropped.
pub(crate) async fn read(
    reader: &FeedbackReader<'_, impl Clock, impl Queues, impl Ledger + Marks>,
) {
    let clock = reader.clock;
    let until = clock.monotonic() + READING;
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

/// The ports and settings with which a run of the scheduler reads feedback, and its report.
pub(crate) struct FeedbackReader<'a, C, Q, L> {
    pub(crate) config: &'a FeedbackConfig,
    pub(crate) clock: &'a C,
    pub(crate) queues: &'a Q,
    pub(crate) ledger: &'a L,
    pub(crate) report: &'a RefCell<FeedbackReport>,
}

impl<C: Clock, Q: Queues, L: Ledger + Marks> FeedbackReader<'_, C, Q, L> {
    /// Receives, counts and deletes one round of messages; returns how many there were.
    async fn round(&self, wait: Duration) -> Result<usize, PortError> {
        let queue = QueueUrl::new(self.config.queue_url.as_str());
        let mut messages = self.queues.receive(&queue, BATCH, wait).await?;
        // At most as many as the control record remembers until they are marked.
        while !messages.is_empty() && messages.len() + BATCH <= REMEMBERED {
            match self.queues.receive(&queue, BATCH, Duration::ZERO).await {
                Ok(more) if !more.is_empty() => messages.extend(more),
                _ => break,
            }
        }
        let (mut notices, unreadable) = notices(&messages);
        self.forget_known(&mut notices).await?;
        for some in notices.chunks(REMEMBERED) {
            if !self.count(some).await? {
                return Ok(messages.len());
            }
        }
        self.report.borrow_mut().unreadable += unreadable;
        self.delete(&queue, &messages).await;
        Ok(messages.len())
    }

    /// Removes the notices that the ledger has marked as counted, and what occurs twice.
    async fn forget_known(&self, notices: &mut Vec<Notice>) -> Result<(), PortError> {
        let identities: Vec<_> = notices.iter().map(Notice::identity).collect();
        let mut known = BTreeSet::new();
        for some in identities.chunks(REMEMBERED) {
            let marks = self.ledger.find(some).await?;
            let marked = some.iter().zip(marks).filter(|(_, mark)| mark.is_some());
            known.extend(marked.map(|(identity, _)| identity.clone()));
        }
        notices.retain(|notice| known.insert(notice.identity()));
        Ok(())
    }

    /// Counts at most 100 notices in the control record, and marks them. True if the count is written there, so that
    /// their messages may be deleted.
    async fn count(&self, heard: &[Notice]) -> Result<bool, PortError> {
        let standing = self.ledger.read().await?;
        let sent = sent_by_campaign(&standing.counters);
        let wall = self.clock.wall();
        let (now, quota) = (wall.into(), standing.previous.map(|claim| claim.quota));
        let new = RefCell::new(Vec::new());
        let changed =
            control::change(self.ledger, standing.control_version, standing.control, |control| {
                let counted = reputation::review(control, &self.config.policy, &sent, heard, now);
                if let Some(quota) = quota {
                    reputation::adapt(control, &counted, quota, Window::containing(wall));
                }
                *new.borrow_mut() = counted;
            });
        let stands = changed.await?.made().is_some() || new.borrow().is_empty();
        if stands {
            new.take().into_iter().for_each(|notice| self.report.borrow_mut().add(notice));
            let marks: Vec<_> = heard.iter().map(|notice| counted(notice, wall)).collect();
            try_join_all(marks.iter().map(|mark| self.ledger.mark(mark))).await?;
        }
        Ok(stands)
    }

    /// Deletes in batches of 10. A message whose delete fails is delivered again and then recognised as
    /// counted.
    async fn delete(&self, queue: &QueueUrl, messages: &[Received]) {
        let batches = messages.chunks(BATCH).map(async |batch: &[Received]| {
            let receipts: Vec<String> = batch.iter().map(|m| m.receipt.clone()).collect();
            match self.queues.delete(queue, &receipts).await {
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
            NoticeKind::Deferral => (&mut self.deferred, "deferred"),
            NoticeKind::Suppressed => (&mut self.suppressed, "suppressed"),
            NoticeKind::Dropped => (&mut self.dropped, "dropped"),
        };
        *counts.entry(notice.campaign.clone()).or_default() += 1;
        let (campaign, ses_message_id) = (&*notice.campaign, &*notice.ses_message_id);
        tracing::info!(campaign, ses_message_id, what, "reported by SES");
    }
}

/// The mark of a notice that is counted. Its token tells why SES dropped the mail.
fn counted(notice: &Notice, now: Timestamp) -> MarkRequest {
    let token = notice.reason.as_deref().unwrap_or(notice.kind.name()).to_owned();
    let identity = notice.identity();
    MarkRequest { identity, token, pass: 0, now, kept: MARKED, replaces: None }
}

/// The notices in these messages, and how many messages contain none. Such a message is logged without its
/// body, which may contain an address.
fn notices(messages: &[Received]) -> (Vec<Notice>, u64) {
    let (mut notices, mut unreadable) = (Vec::new(), 0);
    for message in messages {
        match Notice::parse(&message.body) {
            Ok(of_each) => notices.extend(of_each),
            Err(error) => {
                unreadable += 1;
                let message_id = &*message.message_id;
                tracing::warn!(message_id, reason = %error, "feedback that is none, deleted");
            }
        }
    }
    (notices, unreadable)
}
