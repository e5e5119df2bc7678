//! Records of a simulated run: one for each simulated window and one for each skip, with recipients
//! sent and service calls.

use std::ops::{Index, IndexMut, Range};

use strum::EnumCount as _;
use tidegate_core::counters::Counter;
use tidegate_core::number::real;
use tidegate_delivery::poll::{End, WindowReport};

/// Whether a campaign's mail is sent, or why not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MailState {
    /// There is none.
    #[default]
    Empty,
    Weightless,
    Held,
    /// A limit lets nothing through: outside its hours, before its begin, after its end.
    Closed,
    /// The rate of a limit is below its share.
    Limited,
    Open,
}

impl MailState {
    pub(super) fn is_sent(self) -> bool {
        self >= Self::Limited
    }
}

/// The figures of a window.
#[derive(Clone, Copy, Debug, strum::EnumCount)]
pub(super) enum Sum {
    Slots,
    Unused,
    Skipped,
    Late,
    Refused,
    Failed,
    /// Windows that a hold kept from sending, and those that the breaker did.
    Held,
    Blocked,
    /// Windows served below the rate that the tick brought.
    Slowed,
    /// Windows at a rate below the quota that the tick brought: the day's quota is spread.
    Spread,
    Dead,
    /// Mails that SES accepted, and said so.
    Accepted,
    /// Calls to the services, for the cost.
    SqsStandard,
    SqsFifo,
    Pollers,
    PollerMs,
    /// Windows that were claimed: a write then, and one with the report.
    Claims,
    Mails,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums([f64; Sum::COUNT]);

impl Index<Sum> for Sums {
    type Output = f64;

    fn index(&self, of: Sum) -> &f64 {
        &self.0[of as usize]
    }
}

impl IndexMut<Sum> for Sums {
    fn index_mut(&mut self, of: Sum) -> &mut f64 {
        &mut self.0[of as usize]
    }
}

impl Sums {
    pub(super) fn add(&mut self, other: &Self, times: f64) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more * times;
        }
    }

    /// Adds what a poller reported; `quota` is the account's and `tick` what its tick brought.
    pub(super) fn report(&mut self, report: &WindowReport, quota: f64, tick: Option<f64>) {
        self[Sum::Slots] += real(report.slots);
        for (sum, counter) in [
            (Sum::Unused, Counter::Unused),
            (Sum::Skipped, Counter::Skipped),
            (Sum::Late, Counter::Late),
            (Sum::Late, Counter::Left),
            (Sum::Refused, Counter::Refused),
            (Sum::Failed, Counter::Failed),
            (Sum::Dead, Counter::Dead),
            (Sum::Accepted, Counter::Mails),
        ] {
            self[sum] += real(report.count(counter));
        }
        let tick = tick.unwrap_or(quota);
        let is_slowed = report.rate_per_second.is_some_and(|rate| f64::from(rate) < tick * 0.999);
        for (sum, is_one) in [
            (Sum::Held, report.end == End::Held),
            (Sum::Blocked, report.end == End::Blocked),
            (Sum::Slowed, is_slowed),
            (Sum::Spread, tick < quota * 0.999),
        ] {
            self[sum] += f64::from(u8::from(is_one));
        }
    }
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
    pub(super) sums: Sums,
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
        of(record) * real(common) / real(record.windows.max(1))
    };
    within.map(part).sum()
}
