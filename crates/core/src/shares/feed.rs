//! The feed: how many recipients one window moves into the merge queue.

use crate::counters::signed;
use crate::timestamp::Window;

/// The recipients to feed for a window of `slots` while the merge queue holds `depth` recipients (fed
/// less taken, as reported).
///
/// The aim is a depth of one window: enough that the drain does not wait for the feed, and little
/// enough that new weights or a new campaign take effect within seconds.
///
/// - Below one window, the feed adds a quarter of what is missing. Reports are two windows late, so up
///   to three windows see the same gap; if each filled it whole, they would fill it three times.
/// - Above one window, the feed gives a sixtieth of the excess less.
/// - Above two windows, the feed is at most three windows less the depth, because the drain takes at most
///   one window and the excess would stay.
///
/// In the example with 60 slots: at a depth of 0 the feed is 60 + 60/4 = 75; at 120 it is 60 − 60/60 =
/// 59; at 150 the last rule allows 180 − 150 = 30. The feed is never more than one and a half windows.
///
/// ```
/// use tidegate_core::feed::amount;
/// assert_eq!(amount(60, 60), 60);
/// assert_eq!(amount(60, 0), 75);
/// assert_eq!(amount(60, 120), 59);
/// assert_eq!(amount(60, 150), 30);
/// ```
pub fn amount(slots: u64, depth: i64) -> u64 {
    let slots = i64::try_from(slots).unwrap_or(i64::MAX / 4);
    let depth = depth.max(0);
    let missing = slots.saturating_sub(depth);
    let steered = slots + if missing > 0 { missing.saturating_add(3) / 4 } else { missing / 60 };
    let trimmed = steered.min(slots.saturating_mul(3).saturating_sub(depth).max(0));
    let bounded = trimmed.clamp(0, slots.saturating_mul(3) / 2);
    u64::try_from(bounded).unwrap_or(0)
}

/// The pause, in windows, after which a campaign found empty is asked again: 1, 2, 4, …, at most
/// `most`.
///
/// `before` is the previous pause; 0 means that the campaign had mail then. Returns the next pause, and
/// the first window that asks again.
pub fn pause_after_empty(before: u64, window: Window, most: u64) -> (u64, Window) {
    let pause = before.saturating_mul(2).clamp(1, most.max(1));
    (pause, window.plus(pause))
}

/// The correction to the merge queue's reported `depth`, from SQS's count of recipients that are visible and
/// in flight; 0 if SQS's lag and the pollers at work explain the difference.
///
/// In flight are the messages that pollers have (a window's worth at most) and those left to their
/// visibility timeout, which count when they are received again. So they may explain a depth that seems too
/// high, and never raise one: the feed would be cut for mail that comes back in half a minute.
///
/// The bound is a window and a half: from two windows on the feed is cut, so a larger error would starve the
/// drain for ever.
///
/// ```
/// use tidegate_core::feed::drift;
/// assert_eq!(drift(100, 100, 260, 30), 160);
/// assert_eq!(drift(100, 100, 240, 100), 0);
/// assert_eq!(drift(100, 300, 100, 30), -170);
/// assert_eq!(drift(100, 300, 100, 60), 0);
/// ```
pub fn drift(slots: u64, depth: i64, visible: u64, in_flight: u64) -> i64 {
    let more = signed(visible) - depth;
    let less = more + signed(in_flight.min(slots));
    let is_large = |off: i64| 2 * off.unsigned_abs() > 3 * slots;
    match (more, less) {
        (off, _) if off > 0 && is_large(off) => off,
        (_, off) if off < 0 && is_large(off) => off,
        _ => 0,
    }
}

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "small numbers"
)]
mod tests {
    use super::*;

    /// At 14/s, mail that express mail displaced waited in flight, and was taken for mail at work: two windows
    /// and a half later no mail was fed, and slots stayed empty.
    #[test]
    fn mail_left_to_its_visibility_timeout_does_not_raise_the_depth() {
        assert_eq!(drift(14, 4, 18, 15), 0);
    }
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_depth_settles_near_one_window_from_any_start(slots in 10_u64..2_000, start in 0.0_f64..6.0) {
            // The feed sees reports that are two windows old.
            let mut depths = vec![(start * slots as f64) as i64; 3];
            for _ in 0..400 {
                let seen = depths[depths.len() - 3];
                let now = *depths.last().unwrap();
                let fed = amount(slots, seen) as i64;
                let taken = (slots as i64).min(now + fed);
                depths.push(now + fed - taken);
            }
            let windows = *depths.last().unwrap() as f64 / slots as f64;
            prop_assert!((0.5..=2.0).contains(&windows), "{windows} windows deep");
            let late = depths.iter().skip(12).map(|d| *d as f64 / slots as f64);
            prop_assert!(late.fold(0.0, f64::max) <= 2.5_f64.max(start), "{depths:?}");
        }

        #[test]
        fn above_three_windows_nothing_is_fed(slots in 1_u64..2_000, more in 0_i64..1_000) {
            prop_assert_eq!(amount(slots, slots as i64 * 3 + more), 0);
        }
    }

    #[test]
    fn an_empty_campaign_is_asked_again_after_1_2_4_and_then_every_5_windows() {
        let mut window = Window::from_epoch_second(100);
        let mut pause = 0;
        let asked: Vec<u64> = (0..6)
            .map(|_| {
                (pause, window) = pause_after_empty(pause, window, 5);
                window.epoch_second()
            })
            .collect();
        assert_eq!(asked, [101, 103, 107, 112, 117, 122]);
    }
}
