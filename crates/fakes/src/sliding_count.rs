//! Counts recipients over a span of time. It names none of Tidegate's other crates: the mailbox judges Tidegate by it.

use std::collections::VecDeque;

/// One second in nanoseconds.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;
const DAY_S: u64 = 86_400;

/// Counts recipients over the time before now, for arrivals in order of time, and remembers the most.
///
/// It is enough to look at times that end at an arrival: moving any of them back until it ends at its last arrival
/// loses none of its arrivals. With arrivals at 0.0, 0.6 and 1.0 s the counts of a second are 1, 2 and 2: the first is
/// exactly 1 s before the last, so no half-open second contains all three.
#[derive(Debug, Clone)]
pub(crate) struct SlidingCount {
    /// The unit of time in which arrivals are kept, in nanoseconds.
    unit: u64,
    /// The units for which an arrival counts.
    span: u64,
    arrivals: VecDeque<(u64, u64)>,
    recipients: u64,
    /// The most recipients that it held at any time.
    pub(crate) worst: u64,
}

impl Default for SlidingCount {
    /// Over `(t - 1 s, t]`.
    fn default() -> Self {
        Self::over(1, SECOND_NS)
    }
}

impl SlidingCount {
    /// Over 24 hours, kept by whole seconds: a second leaves the count at most one second late, and a full day is
    /// 86,400 entries however many mails it had.
    pub(crate) const DAY: Self = Self::over(SECOND_NS, DAY_S + 1);

    const fn over(unit: u64, span: u64) -> Self {
        Self { unit, span, arrivals: VecDeque::new(), recipients: 0, worst: 0 }
    }

    /// Recipients in the time that ends at `now_ns`.
    pub(crate) fn recipients(&mut self, now_ns: u64) -> u64 {
        let now = now_ns / self.unit;
        while let Some(&(at, recipients)) = self.arrivals.front() {
            if at.saturating_add(self.span) > now {
                break;
            }
            self.recipients -= recipients;
            self.arrivals.pop_front();
        }
        self.recipients
    }

    /// Counts an arrival; times must not go back.
    pub(crate) fn add(&mut self, now_ns: u64, recipients: u64) {
        self.recipients = self.recipients(now_ns) + recipients;
        self.worst = self.worst.max(self.recipients);
        let now = now_ns / self.unit;
        match self.arrivals.back_mut() {
            Some((at, count)) if *at >= now => *count += recipients,
            _ => self.arrivals.push_back((now, recipients)),
        }
    }
}

/// The most recipients in any half-open second of `arrivals`: nanoseconds and recipients, in order of
/// time.
///
/// ```
/// use tidegate_fakes::worst_second;
/// let arrivals = [(0, 1), (600_000_000, 1), (1_000_000_000, 1)];
/// assert_eq!(worst_second(arrivals), 2);
/// ```
pub fn worst_second(arrivals: impl IntoIterator<Item = (u64, u32)>) -> u64 {
    let mut second = SlidingCount::default();
    for (at_ns, recipients) in arrivals {
        second.add(at_ns, recipients.into());
    }
    second.worst
}
