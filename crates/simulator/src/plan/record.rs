//! Records of a simulated run: one for each simulated window and one for each skip, with recipients
//! sent and service calls.

use std::ops::Range;

use tidegate_core::Window;
use tidegate_core::counters::Counter;
use tidegate_delivery::poll::{End, WindowReport};

use super::gate::MailState;

/// Calls to the services, for the cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ServiceUsage {
    pub(super) sqs_standard: f64,
    pub(super) sqs_fifo: f64,
    pub(super) pollers: f64,
    pub(super) poller_ms: f64,
    /// Windows that were claimed: a write then, and one with the report.
    pub(super) claims: f64,
    pub(super) mails: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ReportSums {
    pub(super) slots: f64,
    pub(super) unused: f64,
    pub(super) skipped: f64,
    pub(super) late: f64,
    pub(super) refused: f64,
    pub(super) failed: f64,
    /// Windows that a hold kept from sending, and those that the breaker did.
    pub(super) held: f64,
    pub(super) blocked: f64,
    /// Windows served below the rate that the tick brought.
    pub(super) slowed: f64,
    /// Windows at a rate below the quota that the tick brought: the day's quota is spread.
    pub(super) spread: f64,
    pub(super) dead: f64,
    /// Mails that SES accepted, and said so.
    pub(super) accepted: f64,
}

/// The record of one simulated window, or of the windows of a skip.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct WindowRecord {
    /// The first window, counted from the start.
    pub(super) from: u64,
    pub(super) windows: u64,
    /// Recipients sent, by campaign, express last.
    pub(super) sent: Vec<f64>,
    /// Whether each campaign's mail was sent.
    pub(super) states: Vec<MailState>,
    /// Which faults struck, a bit each.
    pub(super) faults: u64,
    /// The rate at which its poller served it, in recipients per second; 0 without a report.
    pub(super) rate: f64,
    pub(super) sums: ReportSums,
    pub(super) usage: ServiceUsage,
}

impl ServiceUsage {
    pub(super) fn add(&mut self, other: &Self, times: f64) {
        self.sqs_standard += other.sqs_standard * times;
        self.sqs_fifo += other.sqs_fifo * times;
        self.pollers += other.pollers * times;
        self.poller_ms += other.poller_ms * times;
        self.claims += other.claims * times;
        self.mails += other.mails * times;
    }
}

impl ReportSums {
    pub(super) fn add(&mut self, other: &Self, times: f64) {
        self.slots += other.slots * times;
        self.unused += other.unused * times;
        self.skipped += other.skipped * times;
        self.late += other.late * times;
        self.refused += other.refused * times;
        self.failed += other.failed * times;
        self.held += other.held * times;
        self.blocked += other.blocked * times;
        self.slowed += other.slowed * times;
        self.spread += other.spread * times;
        self.dead += other.dead * times;
        self.accepted += other.accepted * times;
    }

    /// Adds what a poller reported; `quota` is the account's and `tick` what its tick brought.
    #[expect(clippy::cast_precision_loss, reason = "counts of one window")]
    pub(super) fn report(&mut self, report: &WindowReport, quota: f64, tick: Option<f64>) {
        self.slots += report.slots as f64;
        let count = |counter| report.count(counter) as f64;
        self.unused += count(Counter::Unused);
        self.skipped += count(Counter::Skipped);
        self.late += count(Counter::Late) + count(Counter::Left);
        self.refused += count(Counter::Refused);
        self.failed += count(Counter::Failed);
        self.dead += count(Counter::Dead);
        self.accepted += count(Counter::Mails);
        match report.end {
            End::Held => self.held += 1.0,
            End::Blocked => self.blocked += 1.0,
            _ => {}
        }
        let tick = tick.unwrap_or(quota);
        let rate = report.rate_per_second.map(f64::from);
        if rate.is_some_and(|rate| rate < tick * 0.999) {
            self.slowed += 1.0;
        }
        if tick < quota * 0.999 {
            self.spread += 1.0;
        }
    }
}

impl WindowRecord {
    pub(super) fn of(from: u64, campaigns: usize) -> Self {
        Self { from, windows: 1, sent: vec![0.0; campaigns], ..Self::default() }
    }

    /// Adds another; it becomes what both are.
    pub(super) fn add(&mut self, other: &Self, times: f64) {
        for (sum, sent) in self.sent.iter_mut().zip(&other.sent) {
            *sum += sent * times;
        }
        self.sums.add(&other.sums, times);
        self.usage.add(&other.usage, times);
    }

    pub(super) fn is_any(&self, state: impl Fn(MailState) -> bool) -> bool {
        self.states.iter().any(|of| state(*of))
    }

    pub(super) fn total(&self) -> f64 {
        self.sent.iter().sum()
    }

    pub(super) const fn end(&self) -> u64 {
        self.from + self.windows
    }
}

/// The sum of what `of` tells of the windows of a span; a record that is partly within it counts in part.
pub(super) fn sum_within(
    records: &[WindowRecord],
    span: Range<u64>,
    of: impl Fn(&WindowRecord) -> f64,
) -> f64 {
    let start = records.partition_point(|record| record.end() <= span.start);
    let within = records.iter().skip(start).take_while(|record| record.from < span.end);
    let part = |record: &WindowRecord| {
        let common = record.end().min(span.end).saturating_sub(record.from.max(span.start));
        of(record) * as_f64(common) / as_f64(record.windows.max(1))
    };
    within.map(part).sum()
}

/// The number of `window`, counted from `first`.
pub(super) fn number(window: Window, first: Window) -> u64 {
    window.saturating_since(first)
}

/// Converts a count for arithmetic with rates.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
pub(super) fn as_f64(of: u64) -> f64 {
    of as f64
}

/// A number of mails or windows, rounded down.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates, and is not negative"
)]
pub(super) fn floor(of: f64) -> u64 {
    of.max(0.0) as u64
}
