//! The feed: how much to move into the merge queue in one window.

use crate::timestamp::Window;

/// How many recipients to feed for a window of `slots`, with `depth` recipients in the merge queue
/// (fed less taken, as reported).
///
/// Near one window's worth stands in the merge queue: enough that the drain never waits for the
/// feed, so little that new weights or a new campaign act within seconds. Below one window the
/// feed gives a quarter of what is missing on top (reports come two windows late, more would
/// overshoot), above it a sixtieth less; above two windows the excess is cut hard, since it never
/// shrinks by itself.
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

/// How many windows a campaign found empty is left alone: 0, 1, 2, 4, …, at most `most`.
///
/// `before` is the pause of last time (0: it had mail then). Gives the next pause and the first
/// window that asks again.
pub fn pause_after_empty(before: u64, window: Window, most: u64) -> (u64, Window) {
    let pause = before.saturating_mul(2).clamp(1, most.max(1));
    (pause, window.plus(pause))
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
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_depth_settles_near_one_window_from_any_start(slots in 10_u64..2_000, start in 0.0_f64..6.0) {
            // Reports reach the feed two windows late.
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
