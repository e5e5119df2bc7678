//! Recipients in the half-open second that ends at each arrival.

use std::collections::VecDeque;

/// One second in nanoseconds.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// Counts recipients over `(t - 1 s, t]` for arrivals in order of time, and remembers the worst.
///
/// It is enough to look at seconds that end at an arrival: moving any second back until it ends at
/// its last arrival loses none of its arrivals. With arrivals at 0.0, 0.6 and 1.0 s the counts are
/// 1, 2 and 2: the first is exactly 1 s before the last, so no half-open second contains all three.
#[derive(Debug, Clone, Default)]
pub(crate) struct SlidingSecond {
    arrivals: VecDeque<(u64, u32)>,
    recipients: u64,
    worst: u64,
}

impl SlidingSecond {
    /// Recipients in the second that ends at `now_ns`.
    pub(crate) fn recipients(&mut self, now_ns: u64) -> u64 {
        while let Some(&(at, recipients)) = self.arrivals.front() {
            if at.saturating_add(SECOND_NS) > now_ns {
                break;
            }
            self.recipients -= u64::from(recipients);
            self.arrivals.pop_front();
        }
        self.recipients
    }

    /// Counts an arrival; times must not go back.
    pub(crate) fn add(&mut self, now_ns: u64, recipients: u32) {
        self.worst = self.worst.max(self.recipients(now_ns) + u64::from(recipients));
        self.arrivals.push_back((now_ns, recipients));
        self.recipients += u64::from(recipients);
    }

    /// The most recipients that any half-open second held.
    pub(crate) fn worst(&self) -> u64 {
        self.worst
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
    let mut second = SlidingSecond::default();
    for (at_ns, recipients) in arrivals {
        second.add(at_ns, recipients);
    }
    second.worst()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_arrival_one_second_earlier_no_longer_counts() {
        let mut second = SlidingSecond::default();
        second.add(0, 3);
        assert_eq!(second.recipients(SECOND_NS - 1), 3);
        assert_eq!(second.recipients(SECOND_NS), 0);
    }

    proptest! {
        #[test]
        fn the_worst_second_is_the_one_a_search_finds(
            gaps in prop::collection::vec((0_u64..500_000_000, 1_u32..5), 1..80),
        ) {
            let mut second = SlidingSecond::default();
            let mut arrivals = Vec::new();
            let mut now = 0;
            for (gap, recipients) in gaps {
                now += gap;
                arrivals.push((now, recipients));
                second.add(now, recipients);
            }
            let searched = arrivals.iter().map(|&(from, _)| {
                let held = arrivals.iter().filter(|(at, _)| (from..from + SECOND_NS).contains(at));
                held.map(|&(_, recipients)| u64::from(recipients)).sum::<u64>()
            });
            prop_assert_eq!(Some(second.worst()), searched.max());
        }
    }
}
