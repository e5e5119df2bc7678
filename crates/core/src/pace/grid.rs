//! The slot grid: the points in time at which sends may start.
//!
//! Slots are the multiples of the period P = (1 + g)/q since the epoch, for quota q and rate margin g.
//! This is a pure function of time and rate, so the pollers of all windows agree without communicating.
//! Example: q = 14 and g = 0.01 give P = 1.01/14 s = 72.142858 ms, so 13 or 14 slots per window.
//!
//! # The bound
//! A send starts at its slot or at most g/2 × 1 s later, and each slot is used once. The first and the
//! last slot of n sends that start within one half-open second lie at least (n − 1)·P apart, and less
//! than 1 s + g/2 × 1 s. Since ⌈q⌉·P ≥ 1 s + g × 1 s, n is at most ⌈q⌉. Example: 15 sends at q = 14
//! would need 14·P = 1.01 s, but have less than 1.005 s.

use std::ops::Range;

use crate::rate::{Rate, RateMargin};
use crate::timestamp::{SECOND, Timestamp, Window};

/// The slots of one rate and one rate margin.
///
/// ```
/// use tidegate_core::{Window, grid::SlotGrid, rate::{RateMargin, Rate}};
/// let grid = SlotGrid::new(Rate::per_second(14.0).unwrap(), RateMargin::default());
/// let slots = grid.slots_of(Window::from_epoch_second(1_700_000_000));
/// assert!((13..=14).contains(&(slots.end - slots.start))); // 99 % of 14: 13.86 on average
/// assert!(grid.at(slots.start) >= Window::from_epoch_second(1_700_000_000).opens());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotGrid {
    period: u64,
    lateness: u64,
}

impl SlotGrid {
    /// The grid for `rate` and `rate_margin`.
    pub const fn new(rate: Rate, rate_margin: RateMargin) -> Self {
        Self { period: rate.period(rate_margin), lateness: rate_margin.lateness() }
    }

    /// The distance between two slots, in nanoseconds.
    pub const fn period(self) -> u64 {
        self.period
    }

    /// The time of slot number `slot`, counted from the epoch.
    pub const fn at(self, slot: u64) -> Timestamp {
        Timestamp::from_nanos(slot.saturating_mul(self.period))
    }

    /// The latest start of a send in slot number `slot`: g/2 × 1 s after the slot.
    ///
    /// Below one slot per second it is at most the end of the slot's window. At a change of the rate
    /// only one window without slots separates two such grids, and a later start would shorten this
    /// distance.
    pub const fn latest(self, slot: u64) -> Timestamp {
        let at = slot.saturating_mul(self.period);
        let latest = at.saturating_add(self.lateness);
        let closes = (at / SECOND + 1).saturating_mul(SECOND);
        Timestamp::from_nanos(if self.period > SECOND && closes < latest { closes } else { latest })
    }

    /// The number of the first slot at or after `at`.
    pub const fn first_from(self, at: Timestamp) -> u64 {
        at.as_nanos().div_ceil(self.period)
    }

    /// The number of the last slot at or before `at`.
    pub const fn at_or_before(self, at: Timestamp) -> u64 {
        at.as_nanos() / self.period
    }

    /// The slots of `window`, from its opening to before its close. Below 1/s a window may have none.
    pub const fn slots_of(self, window: Window) -> Range<u64> {
        self.first_from(window.opens())..self.first_from(window.closes())
    }

    /// The slots of `window` that may be used if the window before was claimed with the grid
    /// `previous`. If the two grids differ, no slot in the window's first max(P, previous P) is used,
    /// since the phases of two grids are unrelated and slots of both could be too close; and so much longer as the previous
    /// grid's sends may be later than this one's.
    pub fn usable(self, window: Window, previous: Option<Self>) -> Range<u64> {
        let slots = self.slots_of(window);
        let start = match previous {
            Some(before) if before.period != self.period => {
                let later = before.lateness.saturating_sub(self.lateness);
                let quiet = before.period.max(self.period) + later;
                let from = Timestamp::from_nanos(window.opens().as_nanos().saturating_add(quiet));
                self.first_from(from).min(slots.end)
            }
            _ => slots.start,
        };
        start..slots.end
    }
}

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "small numbers"
)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rates() -> impl Strategy<Value = Rate> {
        // Log-uniform, so that the slow rates are tried as often as the fast ones.
        (-1.0_f64..=4.0).prop_map(|exponent| Rate::per_second(10_f64.powf(exponent)).unwrap())
    }

    fn rate_margins() -> impl Strategy<Value = RateMargin> {
        (0.005_f64..=0.5).prop_map(|share| RateMargin::new(share).unwrap())
    }

    /// The start of a send that is late within what is allowed: not at all, by all of it, or by the
    /// slot's number.
    fn start(grid: SlotGrid, slot: u64, lateness: u8) -> u64 {
        let all = grid.latest(slot).as_nanos() - grid.at(slot).as_nanos();
        let late = match lateness {
            0 => 0,
            1 => all,
            2 => all * (slot % 2),
            seed => {
                all * (slot.wrapping_mul(0x5851_f42d_4c95_7f2d ^ u64::from(seed)) >> 33 & 0xff)
                    / 255
            }
        };
        grid.at(slot).as_nanos() + late
    }

    fn worst_second(starts: &[(u64, u64)]) -> u64 {
        crate::worst_second(starts, SECOND)
    }

    fn sorted(mut starts: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
        starts.sort_unstable();
        starts
    }

    const BASE: u64 = 1_763_670_967;

    proptest! {
        #[test]
        fn no_second_holds_more_than_the_quota_over_windows_handed_over(
            rate in rates(), rate_margin in rate_margins(), lateness: u8, offset in 0_u64..100_000,
        ) {
            let grid = SlotGrid::new(rate, rate_margin);
            let windows = (0..4).map(|k| Window::from_epoch_second(BASE + offset + k));
            let starts = windows
                .flat_map(|window| grid.slots_of(window))
                .map(|slot| (start(grid, slot, lateness), 1))
                .collect();
            prop_assert!(worst_second(&sorted(starts)) <= rate.ceil());
        }

        #[test]
        fn every_slot_belongs_to_exactly_one_window(rate in rates(), rate_margin in rate_margins(), offset in 0_u64..100_000) {
            let grid = SlotGrid::new(rate, rate_margin);
            let window = Window::from_epoch_second(BASE + offset);
            let slots = grid.slots_of(window);
            prop_assert_eq!(slots.end, grid.slots_of(window.plus(1)).start);
            for slot in slots.start..slots.end {
                prop_assert!(window.opens() <= grid.at(slot) && grid.at(slot) < window.closes());
            }
        }

        #[test]
        fn a_change_of_rate_keeps_the_larger_quota_in_every_second(
            old in rates(), new in prop::option::of(rates()), margins in prop::array::uniform2(rate_margins()),
            lateness: u8, offset in 0_u64..100_000,
        ) {
            // Without a new rate, only the margin changes.
            let new = new.unwrap_or(old);
            let (before, after) = (SlotGrid::new(old, margins[0]), SlotGrid::new(new, margins[1]));
            let window = Window::from_epoch_second(BASE + offset);
            let mut starts = Vec::new();
            for back in 1..=2 {
                let slots = before.slots_of(Window::from_epoch_second(BASE + offset - back));
                starts.extend(slots.map(|slot| (start(before, slot, lateness), 1)));
            }
            starts.extend(after.usable(window, Some(before)).map(|slot| (start(after, slot, lateness), 1)));
            let next = after.usable(window.plus(1), Some(after));
            starts.extend(next.map(|slot| (start(after, slot, lateness), 1)));
            prop_assert!(worst_second(&sorted(starts)) <= old.max(new).ceil());
        }

        #[test]
        fn a_mail_of_r_recipients_adds_at_most_r_minus_one_to_its_second(
            rate in rates(), rate_margin in rate_margins(), lateness: u8, sizes in prop::collection::vec(1_u32..=50, 1..200),
        ) {
            // Mails that are larger than their window are among them: they owe the slots of the following ones.
            let grid = SlotGrid::new(rate, rate_margin);
            let mut slot = grid.first_from(Window::from_epoch_second(BASE).opens());
            let mut starts = Vec::new();
            for recipients in sizes.into_iter().map(u64::from) {
                starts.push((start(grid, slot, lateness), recipients));
                slot += recipients;
            }
            // The bound of each second depends on the largest mail in it.
            for (index, &(at, _)) in starts.iter().enumerate() {
                let second: Vec<_> = starts[index..].iter().take_while(|s| s.0 < at + SECOND).collect();
                let largest = second.iter().map(|s| s.1).max().unwrap();
                let sum: u64 = second.iter().map(|s| s.1).sum();
                prop_assert!(sum < rate.ceil() + largest);
            }
        }

        #[test]
        fn clocks_apart_add_at_most_the_slots_of_their_difference(
            rate in rates(), rate_margin in rate_margins(), lateness: u8, apart_ms in 0_u64..500, odd_ahead: bool,
        ) {
            let grid = SlotGrid::new(rate, rate_margin);
            let apart = apart_ms * 1_000_000;
            let starts = (0..5).flat_map(|k| {
                let ahead = (k % 2 == 1) == odd_ahead;
                grid.slots_of(Window::from_epoch_second(BASE + k)).map(move |slot| {
                    (start(grid, slot, lateness) - if ahead { apart } else { 0 }, 1)
                })
            }).collect();
            let share = 1.0 + f64::from(rate_margin);
            let extra = (rate.as_per_second() * apart as f64 / 1e9 / share).ceil() as u64;
            prop_assert!(worst_second(&sorted(starts)) <= rate.ceil() + extra);
        }

        #[test]
        fn the_grid_reaches_the_quota_less_the_rate_margin(rate in rates(), rate_margin in rate_margins()) {
            let grid = SlotGrid::new(rate, rate_margin);
            let seconds = 1_000;
            let slots = grid.slots_of(Window::from_epoch_second(BASE)).start
                ..grid.slots_of(Window::from_epoch_second(BASE + seconds)).start;
            let expected = rate.as_per_second() * seconds as f64 / (1.0 + f64::from(rate_margin));
            let got = (slots.end - slots.start) as f64;
            prop_assert!((got - expected).abs() <= 1.0 + expected * 1e-4, "{got} of {expected}");
        }
    }

    #[test]
    fn the_bounds_inequality_holds_for_every_whole_rate() {
        for margin in (50..=5_000).map(|hundredths| f64::from(hundredths) / 10_000.0) {
            let margin = RateMargin::new(margin).unwrap();
            for rate in 1..=10_000 {
                let rate = Rate::per_second(f64::from(rate)).unwrap();
                let grid = SlotGrid::new(rate, margin);
                assert!(rate.ceil() * grid.period() >= SECOND + 2 * margin.lateness(), "{rate}");
            }
        }
    }

    /// The number of sends that can start in a second changes only where a slot, or the latest start in one, enters or leaves
    /// it. So these beginnings stand for every nanosecond of a period, after which all repeats.
    #[test]
    fn no_second_of_a_whole_period_of_the_grid_holds_more_than_the_quota_at_any_whole_rate() {
        for margin in [0.005, 0.01, 0.02, 0.04, 0.5].map(|share| RateMargin::new(share).unwrap()) {
            for rate in (1..=1_000).map(|rate| Rate::per_second(f64::from(rate)).unwrap()) {
                let grid = SlotGrid::new(rate, margin);
                let (period, late) = (grid.period(), margin.lateness());
                let base = grid.at(grid.first_from(Window::from_epoch_second(BASE).opens()));
                let leaves = [0, late % period];
                let enters = [0, period - SECOND % period];
                for edge in leaves.into_iter().chain(enters) {
                    for begin in [edge + period - 1, edge + period, edge + period + 1] {
                        let begin = base.as_nanos() + begin;
                        let first = grid.first_from(Timestamp::from_nanos(begin - late));
                        let next = grid.first_from(Timestamp::from_nanos(begin + SECOND));
                        assert!(next - first <= rate.ceil(), "{rate}, {margin:?}: {begin}");
                    }
                }
            }
        }
    }

    #[test]
    fn slow_rates_that_change_keep_one_in_every_second_however_late_a_slot_is_used() {
        let rate_margin = RateMargin::new(0.5).unwrap();
        let rates = [0.3, 0.5, 0.8, 0.95].map(|rate| Rate::per_second(rate).unwrap());
        let changes = rates.iter().flat_map(|old| rates.iter().map(move |new| (*old, *new)));
        for ((old, new), offset) in changes.flat_map(|change| (0..60).map(move |at| (change, at))) {
            let (before, after) =
                (SlotGrid::new(old, rate_margin), SlotGrid::new(new, rate_margin));
            let window = Window::from_epoch_second(BASE + offset);
            let slots = before.slots_of(Window::from_epoch_second(BASE + offset - 1));
            let late = slots.map(|slot| (before.latest(slot).as_nanos(), 1));
            let soon = after.usable(window, Some(before));
            let soon = soon.chain(after.usable(window.plus(1), Some(after)));
            let soon = soon.map(|slot| (after.at(slot).as_nanos(), 1));
            let starts = sorted(late.chain(soon).collect());
            assert_eq!(worst_second(&starts).max(1), 1, "{old} to {new} at {offset}: {starts:?}");
        }
    }

    #[test]
    fn a_quota_under_one_leaves_windows_without_a_slot() {
        let grid = SlotGrid::new(Rate::per_second(0.5).unwrap(), RateMargin::default());
        let with_slot = (0..102_u64)
            .filter(|k| !grid.slots_of(Window::from_epoch_second(BASE + k)).is_empty())
            .count();
        assert_eq!(with_slot, 50);
    }
}
