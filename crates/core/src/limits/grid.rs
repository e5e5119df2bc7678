use std::time::Duration;

use super::ramp::DaySlots;
use crate::grid::SlotGrid;
use crate::rate::{Rate, RateMargin};
use crate::timestamp::{SECOND, Timestamp};

/// All slots of a limit: those of a rate, as the account's are, or those of one day of a warm-up.
///
/// The slots of a day have the numbers 1 to `amount`. Number 0 is the time before the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitGrid {
    /// The multiples of the rate's period since the epoch, and so many nanoseconds after them.
    Even(SlotGrid, u64),
    /// So many slots at the same distance, to the day's end.
    Day(DaySlots),
    /// No slot, until then if that is known.
    Closed(Option<Timestamp>),
}

impl LimitGrid {
    /// The slots of a rate. The rate margin also keeps the bound of [`super::LimitSlots`] for sends that start late.
    pub const fn even(rate: Rate, rate_margin: RateMargin) -> Self {
        Self::Even(SlotGrid::new(rate, rate_margin), 0)
    }

    /// These slots with a phase of their own. Slots that begin before a window belong to the window before: if
    /// all limits had the same phase, a window's first slots of the account would find no limit open.
    ///
    /// `index` and `name` tell the limits of a table apart. Multiples of the golden ratio lie far apart, however
    /// many there are. Slots more than a second apart keep their phase: a mail under two limits of 30 a minute
    /// would never find both open in one window.
    pub fn shifted(self, index: usize, name: &str) -> Self {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let Self::Even(grid, _) = self else { return self };
        if grid.period() > SECOND {
            return self;
        }
        let name = name.bytes().fold(0, |sum: u64, byte| sum.wrapping_mul(31) + u64::from(byte));
        let turn = name.wrapping_add(index as u64).wrapping_mul(GOLDEN);
        let phase = (u128::from(turn) * u128::from(grid.period())) >> 64;
        Self::Even(grid, u64::try_from(phase).unwrap_or(0))
    }

    /// Whether there is no slot.
    pub const fn is_closed(self) -> bool {
        matches!(self, Self::Closed(_))
    }

    /// The distance between two slots, in nanoseconds.
    pub const fn period(self) -> u64 {
        match self {
            Self::Even(grid, _) => grid.period(),
            Self::Day(day) => day.grid().1,
            Self::Closed(_) => u64::MAX,
        }
    }

    /// The time of slot number `slot`. After a day's last slot comes its end.
    pub fn at(self, slot: u64) -> Timestamp {
        match self {
            Self::Even(grid, phase) => grid.at(slot) + Duration::from_nanos(phase),
            Self::Day(_) if slot == 0 => Timestamp::default(),
            Self::Day(day) if slot > day.amount => day.closes,
            Self::Day(day) => {
                let (first, period) = day.grid();
                Timestamp::from_nanos(first + (slot - 1).saturating_mul(period))
            }
            Self::Closed(until) => until.unwrap_or(Timestamp::from_nanos(u64::MAX)),
        }
    }

    /// The number of the first slot at or after `at`.
    pub fn first_from(self, at: Timestamp) -> u64 {
        match self {
            Self::Even(grid, phase) => grid.first_from(before(at, phase)),
            Self::Day(day) => {
                let (first, period) = day.grid();
                let since = at.as_nanos().saturating_sub(first);
                (since.div_ceil(period) + 1).min(day.amount + 1)
            }
            Self::Closed(_) => 0,
        }
    }

    /// The number of the last slot at or before `at`.
    pub fn at_or_before(self, at: Timestamp) -> u64 {
        match self {
            Self::Even(grid, phase) => grid.at_or_before(before(at, phase)),
            Self::Day(day) if at >= day.closes => day.amount + 1,
            Self::Day(day) => {
                let (first, period) = day.grid();
                let since = at.as_nanos().checked_sub(first);
                since.map_or(0, |since| (since / period + 1).min(day.amount))
            }
            Self::Closed(_) => 0,
        }
    }
}

fn before(at: Timestamp, nanos: u64) -> Timestamp {
    at.saturating_sub(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grid(rate: f64) -> LimitGrid {
        LimitGrid::even(Rate::per_second(rate).unwrap(), RateMargin::default())
    }

    #[test]
    fn limits_of_one_rate_open_at_different_times_in_a_window() {
        let now = "2026-11-20T20:36:07Z".parse::<crate::Window>().unwrap().opens();
        let phase = |index| {
            let grid = grid(30.0).shifted(index, "");
            grid.at(grid.first_from(now)).saturating_since(now)
        };
        let mut phases: Vec<Duration> = (0..20).map(phase).collect();
        phases.sort();
        // 34 ms divided by 20 are 1.7 ms.
        let apart = phases.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        assert!(apart.min() >= Some(Duration::from_micros(500)), "{phases:?}");
        let of = |name| grid(30.0).shifted(0, name);
        assert_ne!(of("a.example"), of("b.example"));
    }

    #[test]
    fn limits_below_one_a_second_keep_the_phase_in_which_they_find_each_other_open() {
        assert_eq!(grid(0.5).shifted(1, ""), grid(0.5).shifted(2, "a.example"));
    }

    proptest! {
        #[test]
        fn a_shifted_grid_counts_as_it_places(index: usize, rate in 1.1_f64..3_000.0, slot in 1_u64..1 << 31) {
            let grid = grid(rate).shifted(index, "");
            let at = grid.at(slot);
            prop_assert_eq!((grid.first_from(at), grid.at_or_before(at)), (slot, slot));
            prop_assert_eq!(grid.at_or_before(before(at, 1)), slot - 1);
            prop_assert_eq!(grid.first_from(at + Duration::from_nanos(1)), slot + 1);
        }
    }
}
