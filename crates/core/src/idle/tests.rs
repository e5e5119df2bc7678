use super::*;
use crate::feed::pause_after_empty;
use proptest::prelude::*;

fn window(second: u64) -> Window {
    Window::from_epoch_second(1_795_207_000 + second)
}

fn looks_of(found: u64, empty: u64) -> QueueChecks {
    QueueChecks { found: Some(window(found)), empty: Some(window(empty)) }
}

/// The windows in which pollers check, with one poller per window from 0 on. Pollers of `lost` windows
/// do not report; a report reaches the second poller after it.
fn looked(most: u64, windows: u64, lost: &[u64]) -> Vec<u64> {
    let (mut pause, mut due) = pause_after_empty(0, window(0), most);
    let (mut reports, mut looked) = (Vec::new(), vec![]);
    for second in 1..windows {
        if let Some(index) = reports.iter().position(|(at, _)| at + 2 == second) {
            (pause, due) = reports.remove(index).1;
        }
        if looks(due, Some(window(second - 1)), window(second)) {
            looked.push(second);
            if !lost.contains(&second) {
                reports.push((second, pause_after_empty(pause, window(second), most)));
            }
        }
    }
    looked
}

#[test]
fn every_window_is_ticked_and_one_in_idle_windows_looks() {
    // Pauses of 1, 2, 4 and then 5 windows; no window is checked twice.
    assert_eq!(looked(5, 40, &[]), [1, 3, 7, 12, 17, 22, 27, 32, 37]);
    assert_eq!(looked(5, 27, &[12]), [1, 3, 7, 12, 14, 19, 24]);
}

proptest! {
    #[test]
    fn looks_are_at_most_the_idle_windows_apart_and_two_more_a_failed_one(
        most in 1_u64..=60, lost in prop::collection::btree_set(1_u64..400, 0..6),
    ) {
        let lost: Vec<u64> = lost.into_iter().collect();
        let made: Vec<u64> = looked(most, 400, &lost);
        for pair in made.windows(2) {
            let failed = lost.contains(&pair[0]);
            let bound = if failed { 2 } else { most.max(2) + 1 };
            prop_assert!(pair[1] - pair[0] <= bound, "{made:?}, {lost:?} lost");
        }
        prop_assert!(made.last().is_some_and(|last| last + most + 3 >= 400), "{made:?}");
    }

    /// Runs start a minute apart, up to `late` seconds late. Every tick leads to a check unless it is
    /// lost.
    #[test]
    fn while_asleep_looks_are_the_wake_seconds_apart_and_three_more_at_most(
        wake in 2_u64..=60, overlap in 0_u64..=8, late in prop::collection::vec(0_u64..=3, 12),
        lost in prop::collection::btree_set(0_usize..200, 0..8),
    ) {
        // The run before checks every second window to its end.
        let (mut ticks, mut made) = (0_usize, (56..60 + overlap).step_by(2).collect::<Vec<u64>>());
        let most_late = late.iter().max().copied().unwrap_or(0);
        for (minute, late) in late.iter().enumerate() {
            let start = 60 * (minute as u64 + 1) + late;
            let end = start + RUN + overlap;
            // Checks that are reported at that time; the run before may still be active.
            let newest = |made: &[u64], from: u64| made.iter().copied().filter(|n| n + 2 <= from).max();
            let claimed = newest(&made, start).map(window);
            let sleep = IdleRun::new(window(start), overlap, wake, claimed);
            let mut from = start;
            while let IdleStep::Tick(tick) =
                sleep.next(&looks_of(0, newest(&made, from).unwrap_or(0)), window(from))
            {
                let tick = tick.saturating_since(window(0));
                prop_assert!(tick >= from && tick < end);
                ticks += 1;
                if lost.contains(&ticks) {
                    // From the second window after on, every window is ticked and at least every second
                    // one checks.
                    made.extend((tick + 2..end).step_by(2));
                    break;
                }
                made.push(tick);
                from = tick + 2;
            }
        }
        made.sort_unstable();
        for pair in made.windows(2) {
            // A run starts where the one before ends: one window later, or as late as its trigger.
            let failed = if lost.is_empty() { 0 } else { 3 };
            prop_assert!(pair[1] - pair[0] <= wake + 1 + most_late + failed, "{made:?}");
        }
        prop_assert!(made.last().is_some_and(|last| *last >= 12 * 60), "{made:?}");
    }

    #[test]
    fn a_tick_is_left_out_on_evidence_only(
        wake in 1_u64..=60, found: Option<u16>, empty: Option<u16>, from: u16, newest: Option<u16>,
    ) {
        let at = |second: Option<u16>| second.map(|second| window(second.into()));
        let (looks, from) = (QueueChecks { found: at(found), empty: at(empty) }, window(from.into()));
        let next = IdleRun::new(from, 5, wake, at(newest)).next(&looks, from);
        let evidence = wake > 1
            && matches!((looks.found, looks.empty), (Some(f), Some(e)) if f.plus(STILL) <= e && e < from);
        prop_assert_eq!(next == IdleStep::EveryWindow, !evidence, "{:?}", next);
        if let IdleStep::Tick(tick) = next {
            // At most as late as the run before serves, or as the wake seconds allow.
            prop_assert!(tick >= from && tick <= from.plus(wake.max(6)), "{tick}");
        }
    }
}

#[test]
fn a_run_that_ticks_once_a_minute_ends_after_it() {
    let sleep = IdleRun::new(window(120), 5, 60, Some(window(66)));
    assert_eq!(sleep.next(&looks_of(0, 66), window(120)), IdleStep::Tick(window(126)));
    assert_eq!(sleep.next(&looks_of(0, 126), window(128)), IdleStep::End);
    // The trigger is two seconds late: the tick stays where it is due, and the next one lets the run
    // end.
    let late = IdleRun::new(window(122), 5, 60, Some(window(66)));
    assert_eq!(late.next(&looks_of(0, 66), window(122)), IdleStep::Tick(window(126)));
    assert_eq!(late.next(&looks_of(0, 126), window(128)), IdleStep::Tick(window(128)));
    assert_eq!(late.next(&looks_of(0, 128), window(130)), IdleStep::End);
}

#[test]
fn a_look_is_confirmed_by_its_own_report_or_a_newer_one() {
    assert!(looks_of(3, 60).confirms(window(60)) && looks_of(3, 61).confirms(window(60)));
    assert!(!looks_of(3, 59).confirms(window(60)) && !looks_of(60, 60).confirms(window(60)));
    assert!(!QueueChecks::default().confirms(window(60)));
}
