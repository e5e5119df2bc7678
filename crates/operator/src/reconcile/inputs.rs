//! The data of a campaign from which its account is made: runs, queue depths, and outcomes of its
//! mails.

use std::time::Duration;

use tidegate_core::identity::EpochMillis;
use tidegate_core::runs::Baseline;
use tidegate_delivery::ports::{QueueDepth, QueueUrl};

use super::report::{AccountVerdict, CampaignAccount, Method, SendRun, Tolerance};
use crate::send::JournalHeader;

/// SQS's counts lag by up to a minute, and the pollers' reports by their window.
pub(super) const LAG: Duration = Duration::from_secs(65);

#[derive(Debug)]
pub(super) struct CampaignRuns {
    /// The campaign's queues.
    pub(super) queues: Vec<QueueUrl>,
    pub(super) journals: Vec<JournalRun>,
    /// The baseline of the earliest run, and the time it was taken.
    first: Option<(EpochMillis, Baseline)>,
}

/// One run, with the index of its journal.
#[derive(Debug)]
pub(super) struct JournalRun {
    pub(super) position: usize,
    pub(super) run: SendRun,
    pub(super) began: EpochMillis,
    /// When its journal was last written.
    pub(super) modified_at: EpochMillis,
}

impl CampaignRuns {
    pub(super) fn new(queues: Vec<QueueUrl>) -> Self {
        Self { queues, journals: Vec::new(), first: None }
    }

    pub(super) fn add(&mut self, journal_run: JournalRun, header: &JournalHeader) {
        self.journals.push(journal_run);
        if self.first.is_none_or(|(at, _)| header.at < at) {
            self.first = Some((header.at, header.before));
        }
    }

    /// Whether the marks of all mails still exist: no mark is older than the first run.
    pub(super) fn are_marked(&self, now: EpochMillis, kept: Duration) -> bool {
        self.first.is_none_or(|(at, _)| age(at, now) < kept)
    }

    pub(super) fn before(&self) -> Baseline {
        self.first.map(|(_, before)| before).unwrap_or_default()
    }

    pub(super) fn enqueued(&self) -> u64 {
        self.journals.iter().map(|journal_run| journal_run.run.enqueued).sum()
    }

    /// Whether a run ended less than a minute ago. A run that was abandoned ended when its journal
    /// was last written.
    fn are_recent(&self, now: EpochMillis) -> bool {
        let last =
            |journal_run: &JournalRun| journal_run.run.ended.unwrap_or(journal_run.modified_at);
        self.journals.iter().any(|journal_run| age(last(journal_run), now) < LAG)
    }

    /// The possible error of the counts while mail moves; `None` if nothing moves.
    pub(super) fn lag(
        &self,
        now: EpochMillis,
        moving: bool,
        quota_per_second: Option<f64>,
    ) -> Option<Tolerance> {
        let quota = quota_per_second.filter(|_| moving || self.are_recent(now))?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let mails = (quota.max(0.0) * LAG.as_secs_f64()).ceil() as u64;
        let why = "mail moves, and SQS's counts lag by up to a minute: so many go out meanwhile";
        Some(Tolerance { mails, why: why.to_owned() })
    }
}

fn age(at: EpochMillis, now: EpochMillis) -> Duration {
    Duration::from_millis(now.as_millis().saturating_sub(at.as_millis()))
}

/// Approximate numbers of mails on the queues.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueCounts {
    /// On the campaign's queue, ready or received.
    pub(super) waiting: u64,
    /// On the campaign's queue with a delay: put back for another attempt.
    pub(super) retrying: u64,
    /// In S3, deferred.
    pub(super) deferred: u64,
    /// On the merge queue and the limit queues, of all campaigns.
    pub(super) shared: u64,
}

impl QueueCounts {
    pub(super) fn of(campaign: QueueDepth, shared: u64) -> Self {
        let waiting = campaign.visible + campaign.in_flight;
        Self { waiting, retrying: campaign.delayed, deferred: 0, shared }
    }

    pub(super) const fn is_moving(&self) -> bool {
        self.waiting + self.retrying + self.deferred + self.shared > 0
    }
}

/// The enqueued mails, counted by their marks and dead letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MailCounts {
    pub(super) sent: u64,
    /// A mail with the same id was sent before the run began, so deduplication deletes these.
    pub(super) sent_before: u64,
    /// They are being sent right now.
    pub(super) sending: u64,
    /// They are on the dead-letter queue.
    pub(super) dead: u64,
    /// Mails of the campaign that were cancelled since the first run began, of any producer.
    pub(super) cancelled: u64,
    /// The same for mails to excluded recipients.
    pub(super) excluded: u64,
    /// It is unknown whether SES accepted them.
    pub(super) unknown: u64,
    pub(super) unaccounted: u64,
}

/// Everything by which a campaign is accounted for.
#[derive(Debug)]
pub(super) struct CampaignFacts {
    pub(super) campaign: String,
    pub(super) runs: CampaignRuns,
    pub(super) found: MailCounts,
    pub(super) queued: QueueCounts,
    /// Mails on the shared queues that no campaign before this one accounts for.
    pub(super) shared: u64,
    pub(super) now: EpochMillis,
    pub(super) quota_per_second: Option<f64>,
}

impl CampaignFacts {
    /// The account, as far as both methods agree.
    pub(super) fn account(self, method: Method) -> CampaignAccount {
        let Self { runs, found, queued, .. } = self;
        let moving = queued.is_moving() || found.sending > 0;
        CampaignAccount {
            campaign: self.campaign,
            method,
            enqueued: runs.enqueued(),
            sent: found.sent,
            sent_before: found.sent_before,
            waiting: 0,
            retrying: 0,
            deferred: 0,
            dead: found.dead,
            cancelled: 0,
            excluded: 0,
            unknown: found.unknown,
            unmarked: 0,
            queued: queued.waiting + queued.retrying + queued.deferred + self.shared,
            difference: 0,
            verdict: AccountVerdict::Balanced,
            allowances: runs.lag(self.now, moving, self.quota_per_second).into_iter().collect(),
            runs: runs.journals.into_iter().map(|journal_run| journal_run.run).collect(),
            on_shared: 0,
        }
    }
}
