//! The rate factor: how refusals by SES and an operator's cap lower the rate of the following windows, and how refusals
//! widen the rate margin.

use serde::{Deserialize, Serialize};

use crate::rate::{Rate, RateMargin};
use crate::timestamp::Window;

/// Factor 1 in millionths: the whole quota.
const FULL: u64 = 1_000_000;
/// Factor of one decrease, in millionths: a refusal leaves four fifths. SES refuses if other senders
/// use the same quota or if clocks differ.
const DECREASE: u64 = 800_000;
/// Increase after a window without a refusal, in millionths: a hundredth of the quota.
const INCREASE: u64 = 10_000;
/// Least factor, in millionths. At 0 no send could show that SES accepts again.
const FLOOR: u64 = 50_000;
/// Least number of windows between two decreases. Pollers that had already started are refused for the
/// same cause.
const BETWEEN_DECREASES: u64 = 5;
/// Windows without a refusal after which the configured rate margin is in force again: a day.
const MARGIN_KEPT: u64 = 86_400;

/// The number that multiplies the quota, in millionths. A refusal for the rate decreases it
/// multiplicatively; a window without a refusal increases it additively (AIMD).
///
/// Every change names its window, so late and doubled reports change nothing: there is at most one
/// decrease in 5 windows and at most one increase per window.
///
/// Example: a refusal in window 100 lowers a quota of 14/s to 11.2/s. Each window without a refusal
/// adds 0.14/s, so the full quota is back after 20 windows.
///
/// Each decrease also doubles the rate margin, up to 0.04, until a day has passed without one.
///
/// The operator's cap is part of the factor. The claim stores both, so the poller of the next window
/// knows the rate of the window before.
///
/// ```
/// use tidegate_core::{Window, factor::RateFactor};
/// let at = Window::from_epoch_second;
/// let lowered = RateFactor::default().refused(at(100)).unwrap();
/// assert_eq!(lowered.millionths(), 800_000);
/// assert_eq!(lowered.refused(at(101)), None);
/// assert_eq!(lowered.recovered(at(101)).unwrap().millionths(), 810_000);
/// # use tidegate_core::rate::Rate;
/// let rate = |rate| Rate::per_second(rate).unwrap();
/// let capped = lowered.capped(Some(rate(5.0)));
/// assert_eq!((capped.of(rate(14.0)), capped.of(rate(2.0))), (rate(4.0), rate(1.6)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateFactor {
    millionths: u64,
    /// Window of the last decrease; the first window of the epoch if there was none.
    decreased: Window,
    /// Decreases that each came within a day of the one before.
    #[serde(default, skip_serializing_if = "is_zero")]
    doublings: u8,
    /// Window of the last decrease or increase.
    changed: Window,
    /// Highest rate that the operator allows; none for the quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<Rate>,
}

impl Default for RateFactor {
    fn default() -> Self {
        let never = Window::default();
        Self { millionths: FULL, decreased: never, doublings: 0, changed: never, cap: None }
    }
}

impl RateFactor {
    /// The factor in millionths, 50,000 to 1,000,000.
    pub const fn millionths(self) -> u64 {
        self.millionths
    }

    /// The rate in force at this quota: the smaller of quota and cap, times the factor. The factor
    /// lowers a capped rate too, because others may use up the quota.
    pub fn of(self, quota: Rate) -> Rate {
        self.cap.map_or(quota, |cap| cap.min(quota)).scaled(self.millionths)
    }

    /// The same factor with this cap, or with none.
    pub const fn capped(self, cap: Option<Rate>) -> Self {
        Self { cap, ..self }
    }

    /// True if refusals have lowered the rate below quota and cap.
    pub const fn is_lowered(self) -> bool {
        self.millionths < FULL
    }

    /// The rate margin in force in `window` where `configured` is.
    pub fn margin(self, configured: RateMargin, window: Window) -> RateMargin {
        configured.doubled(self.doublings_in(window))
    }

    fn doublings_in(self, window: Window) -> u8 {
        if window < self.decreased.plus(MARGIN_KEPT) { self.doublings } else { 0 }
    }

    /// The factor after SES refused a send of `window` for the rate; `None` if it stays the same.
    pub fn refused(self, window: Window) -> Option<Self> {
        let never_decreased = self.decreased == Window::default();
        let due = never_decreased || window >= self.decreased.plus(BETWEEN_DECREASES);
        let millionths = (self.millionths * DECREASE / FULL).max(FLOOR);
        // A late report must not allow a second increase for an older window.
        let changed = window.max(self.changed);
        let doublings = self.doublings_in(window).saturating_add(1);
        due.then_some(Self { millionths, decreased: window, doublings, changed, ..self })
    }

    /// The factor after `window` sent without a refusal; `None` if it stays the same.
    pub fn recovered(self, window: Window) -> Option<Self> {
        let millionths = (self.millionths + INCREASE).min(FULL);
        let next = Self { millionths, changed: window, ..self };
        (window > self.changed && self.is_lowered()).then_some(next)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_zero(doublings: &u8) -> bool {
    *doublings == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn changes_stay_within_range_and_pace_whatever_reports_come(
            reports in prop::collection::vec((1_u64..200, any::<bool>()), 0..300),
        ) {
            let mut factor = RateFactor::default();
            let (mut decreases, mut increases) = (Vec::new(), Vec::new());
            for (second, refused) in reports {
                let window = Window::from_epoch_second(second);
                let next = if refused { factor.refused(window) } else { factor.recovered(window) };
                if let Some(next) = next {
                    if refused { decreases.push(second) } else { increases.push(second) }
                    factor = next;
                }
                prop_assert!((FLOOR..=FULL).contains(&factor.millionths()));
            }
            prop_assert!(decreases.windows(2).all(|w| w[1] >= w[0] + BETWEEN_DECREASES));
            prop_assert!(increases.windows(2).all(|w| w[1] > w[0]));
        }
    }

    #[test]
    fn it_is_written_as_before_since_a_change_is_conditional_on_its_text() {
        let text = r#"{"millionths":800000,"decreased":"1970-01-01T00:00:10Z","doublings":1,"changed":"1970-01-01T00:00:10Z"}"#;
        let lowered = RateFactor::default().refused(Window::from_epoch_second(10)).unwrap();
        assert_eq!(serde_json::to_string(&lowered).unwrap(), text);
        assert_eq!(serde_json::from_str::<RateFactor>(text).unwrap(), lowered);
    }

    #[test]
    fn the_margin_doubles_with_each_decrease_and_is_back_a_day_after_the_last() {
        let at = Window::from_epoch_second;
        let margin = |share| RateMargin::new(share).unwrap();
        let in_force = |factor: RateFactor, window| factor.margin(margin(0.01), at(window));
        let once = RateFactor::default().refused(at(100)).unwrap();
        assert_eq!(once.refused(at(104)), None);
        let twice = once.refused(at(105)).unwrap().recovered(at(106)).unwrap();
        assert_eq!((in_force(once, 101), in_force(twice, 106)), (margin(0.02), margin(0.04)));
        assert_eq!(in_force(twice.refused(at(110)).unwrap(), 111), margin(0.04));
        assert_eq!(in_force(twice, 105 + 86_399), margin(0.04));
        assert_eq!(in_force(twice, 105 + 86_400), margin(0.01));
        let another_day = twice.refused(at(105 + 86_400)).unwrap();
        assert_eq!(in_force(another_day, 105 + 86_401), margin(0.02));
        assert_eq!(twice.margin(margin(0.05), at(106)), margin(0.05));
    }

    #[test]
    fn at_the_least_factor_a_refusal_still_doubles_the_margin() {
        let mut factor = RateFactor::default();
        for second in (100..1_000).step_by(5) {
            factor = factor.refused(Window::from_epoch_second(second)).unwrap();
        }
        let later = Window::from_epoch_second(995 + 86_399);
        assert_eq!(factor.millionths(), FLOOR);
        assert_eq!(factor.margin(RateMargin::default(), later), RateMargin::new(0.04).unwrap());
    }

    #[test]
    fn a_refusal_is_made_good_after_twenty_windows_without_one() {
        let mut factor = RateFactor::default().refused(Window::from_epoch_second(10)).unwrap();
        for second in 11..=30 {
            assert!(factor.is_lowered());
            factor = factor.recovered(Window::from_epoch_second(second)).unwrap();
        }
        assert_eq!(factor.millionths(), FULL);
        assert_eq!(factor.recovered(Window::from_epoch_second(31)), None);
    }
}
