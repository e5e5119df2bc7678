//! Finds the largest count in any second, which may start at any instant.

use std::collections::VecDeque;

use super::SECOND_NS;

/// The most recipients in any half-open second [t, t + 1 s), of (nanoseconds, recipients) in the
/// order of their times.
///
/// ```
/// use tidegate_devstack::worst_second;
/// // The third arrives a whole second after the first: no second holds them all.
/// let arrivals = [(0, 1), (999_999_999, 1), (1_000_000_000, 1)];
/// assert_eq!(worst_second(arrivals.into_iter()), 2);
/// ```
pub fn worst_second(arrivals: impl Iterator<Item = (u64, u32)>) -> u64 {
    let mut second = VecDeque::new();
    let (mut held, mut worst) = (0, 0);
    for (at_ns, recipients) in arrivals {
        second.push_back((at_ns, u64::from(recipients)));
        held += u64::from(recipients);
        while let Some(&(oldest, recipients)) = second.front()
            && oldest + SECOND_NS <= at_ns
        {
            second.pop_front();
            held -= recipients;
        }
        worst = worst.max(held);
    }
    worst
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_most_that_any_second_which_begins_at_an_arrival_holds(
            mut arrivals in prop::collection::vec((0u64..6_000_000_000, 1u32..5), 0..80),
        ) {
            arrivals.sort_unstable();
            let from = |start: u64| -> u64 {
                let held = arrivals.iter().filter(|(at, _)| (start..start + SECOND_NS).contains(at));
                held.map(|(_, recipients)| u64::from(*recipients)).sum()
            };
            let most = arrivals.iter().map(|(at, _)| from(*at)).max().unwrap_or_default();
            prop_assert_eq!(worst_second(arrivals.into_iter()), most);
        }
    }
}
