//! What a poller did in its window.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_core::Window;
use tidegate_core::outcome::Outcome;
use tidegate_core::rate::Rate;

use super::deferral::DeferralCounts;
use super::settle::SettleCounts;
use crate::ports::{LedgerReport, Takes};

/// How a poller's run ended. None of these is a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The window was served.
    Served,
    /// The window was over before the tick came.
    Expired,
    /// The window opens more than 1.5 s from now.
    Early,
    /// Another poller has claimed this window, or a newer one.
    Duplicate,
    /// The window is owed to a mail of more recipients than a window has slots.
    Owed,
    /// The quota is under one a second, and none of its slots lies in this window.
    NoSlots,
    /// Every queue is thought to be empty, and none is looked into in this window.
    Idle,
    /// All sending is held.
    Held,
    /// The circuit breaker blocks.
    Blocked,
    /// SES gives the account no quota.
    NoQuota,
}

/// What happened in one window; recipients where nothing else is said.
#[derive(Clone, Debug, PartialEq, Serialize)]
// More than 12 fields: one for each counter of a window.
pub struct WindowReport {
    /// The window.
    pub window: Window,
    /// How it ended.
    pub end: End,
    /// The rate it was served at: the quota times the rate factor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<Rate>,
    /// Slots of the window that could be used.
    pub slots: u64,
    /// Slots that passed while mail waited, too late to start in time.
    pub slots_skipped: u64,
    /// Slots that passed with no mail that fits.
    pub slots_unused: u64,
    /// Moved into the merge queue, by campaign.
    pub fed: BTreeMap<String, u64>,
    /// Moved into recipient domains' queues, by limit: a group's first domain, or `others`.
    pub domain_fed: BTreeMap<String, u64>,
    /// Mails received from recipient domains' queues that got no slot.
    pub domain_left: u64,
    /// Received from the merge queue and dealt with: sent, given up, put back, left, or refused.
    pub taken: u64,
    /// Received from the merge queue once more: left or refused before, or their poller crashed.
    pub back: u64,
    /// Accepted by SES, by campaign.
    pub sent: BTreeMap<String, u64>,
    /// Seconds that what SES accepted had waited since it was put on its queue, times its recipients,
    /// by campaign: over `sent` the mean.
    pub waited: BTreeMap<String, u64>,
    /// Accepted by SES, of campaign mail that was never put back and whose domain has no limit.
    pub first: u64,
    /// Seconds that these had waited since they were put on their queues, times recipients.
    pub first_waited: u64,
    /// Mails of low urgency taken out of their queues, by campaign: they stand in the store of deferred
    /// mail.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub deferred: BTreeMap<String, u64>,
    /// Mails that were to be deferred, and could not be written: they stay on their queues.
    pub deferral_failed: u64,
    /// Mails accepted by SES.
    pub mails: u64,
    /// Mails that SES refused for the rate.
    pub refused: u64,
    /// Mails that failed, by outcome.
    pub failed: BTreeMap<&'static str, u64>,
    /// Mails put back to their campaign for another attempt.
    pub retried: u64,
    /// Mails put back to their campaign because it is held.
    pub put_back: u64,
    /// Messages dead-lettered.
    pub dead: u64,
    /// Mails received and left to the visibility timeout.
    pub left: u64,
    /// Sends that were called off as they were handed to the wire, too late for their slot: a later
    /// one took them.
    pub late: u64,
    /// Sends that the shared bucket refused: a later slot took them.
    pub bucket_refused: u64,
    /// Sends for which the shared bucket did not answer, or had not a moment before: a later slot took
    /// them, or with `TIDEGATE_SHARED_BUCKET_LOST=open` they were made.
    pub bucket_lost: u64,
    /// Copies of mails that had been sent already, deleted: deduplication knew them.
    pub already_sent: u64,
    /// Mails dead-lettered as `unknown`, `dead` includes them: nobody knows whether they were sent.
    pub parked: u64,
    /// Calls to SQS.
    pub sqs_calls: u64,
    /// Deletes that failed: these messages come again.
    pub delete_failed: u64,
    /// Moves that failed: these messages stay where they are, and come again.
    pub move_failed: u64,
    /// The highest receive count seen; above 100 something keeps a message from being sent.
    pub highest_receive_count: u32,
    /// The mean latency of SES's answers, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
}

impl WindowReport {
    /// The report of a window in which nothing happened yet.
    pub fn new(window: Window, end: End) -> Self {
        Self {
            window,
            end,
            rate_per_second: None,
            slots: 0,
            slots_skipped: 0,
            slots_unused: 0,
            fed: BTreeMap::new(),
            domain_fed: BTreeMap::new(),
            domain_left: 0,
            taken: 0,
            back: 0,
            sent: BTreeMap::new(),
            waited: BTreeMap::new(),
            first: 0,
            first_waited: 0,
            deferred: BTreeMap::new(),
            deferral_failed: 0,
            mails: 0,
            refused: 0,
            failed: BTreeMap::new(),
            retried: 0,
            put_back: 0,
            dead: 0,
            left: 0,
            late: 0,
            bucket_refused: 0,
            bucket_lost: 0,
            already_sent: 0,
            parked: 0,
            sqs_calls: 0,
            delete_failed: 0,
            move_failed: 0,
            highest_receive_count: 0,
            latency_ms: None,
        }
    }

    /// What the shared bucket did not grant in this window.
    pub(super) fn withheld(&mut self, now: Takes, before: Takes) {
        self.bucket_refused = now.refused - before.refused;
        self.bucket_lost = now.lost - before.lost;
        if self.bucket_refused + self.bucket_lost > 0 {
            tracing::info!(
                refused = self.bucket_refused,
                lost = self.bucket_lost,
                "not granted by the shared bucket"
            );
        }
    }

    pub(super) fn settled(&mut self, settled: SettleCounts) {
        self.delete_failed += settled.delete_failed;
        self.move_failed += settled.move_failed;
    }

    pub(super) fn shed(&mut self, written: DeferralCounts) {
        self.deferred = written.by_campaign;
        self.deferral_failed = written.failed;
    }

    /// Mails of which nobody knows whether SES took them: no answer came.
    pub fn possibly_sent(&self) -> u64 {
        self.failed.get(Outcome::Ambiguous.as_str()).copied().unwrap_or(0)
    }

    /// Recipients sent, of all campaigns.
    pub fn sent_total(&self) -> u64 {
        self.sent.values().sum()
    }

    /// Recipients fed, of all campaigns.
    pub fn fed_total(&self) -> u64 {
        self.fed.values().sum()
    }

    /// The sums that it adds to in the ledger; `debts` in thousandths of a recipient.
    pub(super) fn to_ledger(&self, debts: &BTreeMap<String, i64>) -> LedgerReport {
        let mut counters = BTreeMap::new();
        let mut add = |name: String, value: i64| {
            if value != 0 {
                *counters.entry(name).or_insert(0) += value;
            }
        };
        let failed = self.failed.values().sum::<u64>();
        for (name, value) in [
            ("windows", u64::from(self.end == End::Served)),
            ("fed", self.fed_total()),
            ("sent", self.sent_total()),
            ("mails", self.mails),
            ("first", self.first),
            ("first_waited", self.first_waited),
            ("spilled", self.deferred.values().sum()),
            ("refused", self.refused),
            ("failed", failed),
            ("possibly_sent", self.possibly_sent()),
            ("retried", self.retried),
            ("put_back", self.put_back),
            ("dead", self.dead),
            ("left", self.left),
            ("late", self.late),
            ("bucket_refused", self.bucket_refused),
            ("bucket_lost", self.bucket_lost),
            ("already_sent", self.already_sent),
            ("parked", self.parked),
            ("skipped", self.slots_skipped),
            ("unused", self.slots_unused),
            ("sqs_calls", self.sqs_calls),
        ] {
            add(name.to_owned(), signed(value));
        }
        // What comes back is in the merge queue again.
        add("taken".to_owned(), signed(self.taken) - signed(self.back));
        for (campaign, sent) in &self.sent {
            add(format!("{SENT_BY_CAMPAIGN}{campaign}"), signed(*sent));
        }
        for (campaign, waited) in &self.waited {
            add(format!("waited.{campaign}"), signed(*waited));
        }
        for (campaign, debt) in debts {
            add(debt_counter(campaign), *debt);
        }
        LedgerReport { window: self.window, counters, ..LedgerReport::default() }
    }
}

/// What the counter of a campaign's recipients sent to begins with.
const SENT_BY_CAMPAIGN: &str = "sent.";

/// Recipients sent to, by campaign: the sums of all reports.
pub(crate) fn sent_by_campaign(counters: &BTreeMap<String, i64>) -> BTreeMap<String, u64> {
    let named = |(name, sum): (&String, &i64)| {
        let campaign = name.strip_prefix(SENT_BY_CAMPAIGN)?;
        Some((campaign.to_owned(), u64::try_from(*sum).unwrap_or(0)))
    };
    counters.iter().filter_map(named).collect()
}

/// The counter of a campaign's debt, in thousandths of a recipient.
pub(super) fn debt_counter(campaign: &str) -> String {
    format!("debt.{campaign}")
}

pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
