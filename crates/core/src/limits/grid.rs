use super::ramp::DaySlots;
use crate::grid::SlotGrid;
use crate::rate::{Rate, RateMargin};
use crate::timestamp::Timestamp;

/// All slots of a limit: those of a rate, as the account's are, or those of one day of a warm-up.
///
/// The slots of a day have the numbers 1 to `amount`. Number 0 is the time before the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitGrid {
    /// The multiples of the rate's period since the epoch.
    Even(SlotGrid),
    /// So many slots at the same distance, to the day's end.
    Day {
        /// The time of slot 1.
        first: Timestamp,
        /// Nanoseconds between two slots.
        period: u64,
        /// The number of slots.
        amount: u64,
        /// The end of the day, or of its hours.
        closes: Timestamp,
    },
}

impl LimitGrid {
    /// The slots of a rate. The rate margin also keeps the bound of [`super::LimitSlots`] for sends that start late.
    pub const fn even(rate: Rate, rate_margin: RateMargin) -> Self {
        Self::Even(SlotGrid::new(rate, rate_margin))
    }

    /// The slots of one day of a warm-up.
    pub const fn of_day(day: DaySlots) -> Self {
        let (first, period) = day.grid();
        let (amount, closes) = (day.amount, day.closes);
        Self::Day { first: Timestamp::from_nanos(first), period, amount, closes }
    }

    /// A day without a slot, which ends then if that is known.
    pub const fn closed(until: Option<Timestamp>) -> Self {
        let closes = match until {
            Some(until) => until,
            None => Timestamp::from_nanos(u64::MAX),
        };
        Self::Day { first: closes, period: u64::MAX, amount: 0, closes }
    }

    /// The end of a day without a slot; `None` if there are slots.
    pub const fn closed_until(self) -> Option<Timestamp> {
        match self {
            Self::Day { amount: 0, closes, .. } => Some(closes),
            Self::Day { .. } | Self::Even(_) => None,
        }
    }

    /// The distance between two slots, in nanoseconds.
    pub const fn period(self) -> u64 {
        match self {
            Self::Even(grid) => grid.period(),
            Self::Day { period, .. } => period,
        }
    }

    /// The time of slot number `slot`. After a day's last slot comes its end.
    pub fn at(self, slot: u64) -> Timestamp {
        match self {
            Self::Even(grid) => grid.at(slot),
            Self::Day { .. } if slot == 0 => Timestamp::default(),
            Self::Day { amount, closes, .. } if slot > amount => closes,
            Self::Day { first, period, .. } => {
                Timestamp::from_nanos(first.as_nanos() + (slot - 1).saturating_mul(period))
            }
        }
    }

    /// The number of the first slot at or after `at`.
    pub fn first_from(self, at: Timestamp) -> u64 {
        match self {
            Self::Even(grid) => grid.first_from(at),
            Self::Day { first, period, amount, .. } => {
                let since = at.as_nanos().saturating_sub(first.as_nanos());
                (since.div_ceil(period) + 1).min(amount + 1)
            }
        }
    }

    /// The number of the last slot at or before `at`.
    pub fn at_or_before(self, at: Timestamp) -> u64 {
        match self {
            Self::Even(grid) => grid.at_or_before(at),
            Self::Day { closes, amount, .. } if at >= closes => amount + 1,
            Self::Day { first, period, amount, .. } => {
                let since = at.as_nanos().checked_sub(first.as_nanos());
                since.map_or(0, |since| (since / period + 1).min(amount))
            }
        }
    }
}
