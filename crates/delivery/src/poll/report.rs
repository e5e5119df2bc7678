//! The report of one window: how it ended, and its counters.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_core::Window;
use tidegate_core::outcome::Outcome;
use tidegate_core::rate::Rate;

use super::deferral::DeferralCounts;
use super::settle::SettleCounts;
use crate::ports::{LedgerReport, Takes};

/// The end of a poller's run. None of these is a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The window was claimed and its slots were served.
    Served,
    /// The window had passed before the tick came.
    Expired,
    /// The window opens more than 1.5 s from now.
    Early,
    /// Another poller had claimed this window, or a later one.
    Duplicate,
    /// The window belongs to a mail that has more recipients than a window has slots.
    Owed,
    /// No slot lies in this window, because the quota is below one a second, or the rate has just changed.
    NoSlots,
    /// All queues are thought to be empty, and this window asks none.
    Idle,
    /// All sending is held, or campaigns are and there is no express queue.
    Held,
    /// The breaker is open (state blocking) and allows this poller no send.
    Blocked,
    /// `GetAccount` gives the account no usable quota.
    NoQuota,
}

/// Counters of one window; recipients unless something else is stated.
#[derive(Clone, Debug, PartialEq, Serialize)]
// More than 12 fields: one for each counter of a window.
pub struct WindowReport {
    /// The second that was to be served.
    pub window: Window,
    /// The reason why the run ended.
    pub end: End,
    /// Recipients per second: the quota times the rate factor. None if the window was not claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<Rate>,
    /// Slots of the window that could be used; after a change of the rate fewer than the grid has.
    pub slots: u64,
    /// Slots that passed unused although mail waited: it was too late to start at them.
    pub slots_skipped: u64,
    /// Slots that passed unused because no fitting mail waited.
    pub slots_unused: u64,
    /// Recipients whose mail the merge queue acknowledged, by campaign.
    pub fed: BTreeMap<String, u64>,
    /// Recipients moved into domain queues, by limit: the group's first domain, or `others`.
    pub domain_fed: BTreeMap<String, u64>,
    /// Mails received from domain queues that got no slot.
    pub domain_left: u64,
    /// Recipients received from the merge queue and dealt with: sent, given up, put back, left or refused.
    pub taken: u64,
    /// Recipients received from the merge queue for the second time or more: left or refused before, or
    /// their poller crashed.
    pub back: u64,
    /// Recipients of mails that SES accepted, by campaign.
    pub sent: BTreeMap<String, u64>,
    /// Seconds from a mail's arrival on its queue to SES's acceptance, times its recipients, by campaign.
    /// Divided by `sent` it is the mean wait.
    pub waited: BTreeMap<String, u64>,
    /// Recipients that SES accepted of campaign mail that was never put back and has no domain limit.
    pub first: u64,
    /// Seconds that the mail in `first` had waited since it was put on its queue, times recipients.
    pub first_waited: u64,
    /// Mails of low priority moved from their queues to the store of deferred mail, by campaign.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub deferred: BTreeMap<String, u64>,
    /// Mails that should have been deferred and could not be written: they stay on their queues.
    pub deferral_failed: u64,
    /// Mails accepted by SES, express included; each counts once, whatever its recipients.
    pub mails: u64,
    /// Mails that SES refused for the rate.
    pub refused: u64,
    /// Mails whose send failed, by outcome: `transient`, `permanent`, `ambiguous` and the reasons for
    /// holds.
    pub failed: BTreeMap<&'static str, u64>,
    /// Mails put back to their campaign for another attempt.
    pub retried: u64,
    /// Mails put back to their campaign's queue because it is held.
    pub put_back: u64,
    /// Messages sent to the dead-letter queue: invalid, refused for good, out of attempts, or `unknown`.
    pub dead: u64,
    /// Mails received and not sent, left to their visibility timeout or released.
    pub left: u64,
    /// Sends called off right before the request was written, too late for their slot: a later slot took
    /// them.
    pub late: u64,
    /// Sends that the shared bucket refused: a later slot took them.
    pub bucket_refused: u64,
    /// Sends for which the shared bucket did not answer, or had failed a moment before: a later slot took
    /// them, or with `TIDEGATE_SHARED_BUCKET_LOST=open` they were made.
    pub bucket_lost: u64,
    /// Copies deleted because deduplication knew that the mail had been sent.
    pub already_sent: u64,
    /// Mails dead-lettered as `unknown`, also counted in `dead`: a poller began to send them and did not
    /// note the outcome.
    pub parked: u64,
    /// Calls to SQS that this window made, through all queues together.
    pub sqs_calls: u64,
    /// Deletes that failed at the last try: these messages become visible again and may be sent twice.
    pub delete_failed: u64,
    /// Moves to another queue that failed: these messages stay on their queues and become visible again.
    pub move_failed: u64,
    /// Highest receive count of any message; above 100 something keeps a message from being sent.
    pub highest_receive_count: u32,
    /// Mean time of SES's answers, milliseconds; none without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
}

impl WindowReport {
    /// Creates the report of a window in which nothing happened yet.
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

    /// Counts the sends that the shared bucket did not grant, from its counters after and before the
    /// window.
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

    /// Mails that SES may have accepted: the request was written, and no answer came.
    pub fn possibly_sent(&self) -> u64 {
        self.failed.get(Outcome::Ambiguous.as_str()).copied().unwrap_or(0)
    }

    /// Recipients of accepted mails, all campaigns and express together.
    pub fn sent_total(&self) -> u64 {
        self.sent.values().sum()
    }

    /// Recipients fed into the merge queue, all campaigns together.
    pub fn fed_total(&self) -> u64 {
        self.fed.values().sum()
    }

    /// The amounts that this window adds to the ledger's sums; `debts` in thousandths of a recipient. Zeros
    /// are left out.
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
        // Mail that is received again was counted as taken when it was left.
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

/// Prefix of the counters of recipients sent to, by campaign.
const SENT_BY_CAMPAIGN: &str = "sent.";

/// Recipients sent to, by campaign, from the sums of all reports.
pub(crate) fn sent_by_campaign(counters: &BTreeMap<String, i64>) -> BTreeMap<String, u64> {
    let named = |(name, sum): (&String, &i64)| {
        let campaign = name.strip_prefix(SENT_BY_CAMPAIGN)?;
        Some((campaign.to_owned(), u64::try_from(*sum).unwrap_or(0)))
    };
    counters.iter().filter_map(named).collect()
}

/// Name of the counter of a campaign's debt, which is in thousandths of a recipient.
pub(super) fn debt_counter(campaign: &str) -> String {
    format!("debt.{campaign}")
}

pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
