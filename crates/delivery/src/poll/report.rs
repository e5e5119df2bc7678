//! The report of one window: how it ended, and its counters.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_core::Window;
use tidegate_core::audit::AuditRecord;
use tidegate_core::counters::{Counter, WindowCounts, debt_of};
use tidegate_core::email::Priority;
use tidegate_core::events::MailFate;
use tidegate_core::limiter::WindowLeft;
use tidegate_core::outcome::Outcome;
use tidegate_core::rate::Rate;
use tidegate_core::trace::WindowSpans;

use crate::ports::LedgerReport;

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

/// The report of one window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WindowReport {
    /// The second that was to be served.
    pub window: Window,
    /// The reason why the run ended.
    pub end: End,
    /// Recipients per second: the quota under the operator's cap, times the rate factor. None if the window was not claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<Rate>,
    /// Slots of the window that could be used; after a change of the rate fewer than the grid has.
    pub slots: u64,
    /// Everything that was counted, by the [list of counters](Counter).
    #[serde(flatten)]
    pub counts: WindowCounts,
    /// Highest receive count of any message; above 100 something keeps a message from being sent.
    pub highest_receive_count: u32,
    /// Mean time of SES's answers, milliseconds; none without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
    /// The record of a claimed window, which is logged beside this report; none if `TIDEGATE_AUDIT` is `off`.
    #[serde(skip)]
    pub record: Option<Box<AuditRecord>>,
    /// Mail that SES was not given, as its events tell it; empty without `TIDEGATE_EVENT_BUS`.
    #[serde(skip)]
    pub fates: Vec<MailFate>,
    /// The window's spans; none without `TIDEGATE_TRACES`.
    #[serde(skip)]
    pub spans: Option<WindowSpans>,
}

impl WindowReport {
    /// Creates the report of a window in which nothing happened yet.
    pub fn new(window: Window, end: End) -> Self {
        Self {
            window,
            end,
            rate_per_second: None,
            slots: 0,
            counts: WindowCounts::default(),
            highest_receive_count: 0,
            latency_ms: None,
            record: None,
            fates: Vec::new(),
            spans: None,
        }
    }

    /// Whether SES refused this environment's token, signature or clock, and took nothing from it: another one should
    /// serve the next windows. One refusal among accepted mail says nothing about the environment.
    pub fn ends_environment(&self) -> bool {
        let refused = self.counts.by(Counter::Failed).contains_key(Outcome::Environment.as_str());
        refused && self.count(Counter::Mails) == 0
    }

    /// The window's count of `counter`.
    pub fn count(&self, counter: Counter) -> u64 {
        self.counts.of(counter)
    }

    /// The amounts that this window adds to the ledger's sums; `debts` in thousandths of a recipient. Zeros
    /// are left out.
    pub(super) fn to_ledger(&self, debts: &BTreeMap<String, i64>) -> LedgerReport {
        let mut counters = self.counts.to_ledger();
        let debts = debts.iter().filter(|(_, debt)| **debt != 0);
        counters.extend(debts.map(|(campaign, debt)| (debt_of(campaign), *debt)));
        LedgerReport { window: self.window, counters, ..LedgerReport::default() }
    }
}

/// Logs at `debug` the slots and mails that a window left, and the limits that let nothing through in it.
pub(super) fn log(left: &WindowLeft, closed: impl FnOnce() -> Vec<String>) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let [express, campaigns, limited] =
        left.mails.by_line().map(|(_, mails)| mails.iter().sum::<u64>());
    let mails: BTreeMap<Priority, u64> = left.mails.by_priority().into();
    let of = |priority| mails.get(&priority).copied();
    tracing::debug!(
        window = %left.window,
        slots_left = left.slots,
        express,
        campaigns,
        limited,
        critical = of(Priority::Critical),
        high = of(Priority::High),
        normal = of(Priority::Normal),
        low = of(Priority::Low),
        closed = closed().join(" "),
        "window over"
    );
}

/// Recipients sent to, by campaign, from the sums of all reports.
pub(crate) fn sent_by_campaign(counters: &BTreeMap<String, i64>) -> BTreeMap<String, u64> {
    let prefix = Counter::Sent.of_campaign("");
    let named = |(name, sum): (&String, &i64)| {
        let campaign = name.strip_prefix(&prefix)?;
        Some((campaign.to_owned(), u64::try_from(*sum).unwrap_or(0)))
    };
    counters.iter().filter_map(named).collect()
}
