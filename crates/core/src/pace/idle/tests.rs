use super::*;
use crate::feed::pause_after_empty;
use crate::rate::{Rate, RateMargin};
use proptest::prelude::*;

fn window(second: u64) -> Window {
    Window::from_epoch_second(1_795_207_000 + second)
}

fn looks_of(found: u64, empty: u64) -> QueueChecks {
    QueueChecks { found: Some(window(found)), empty: Some(window(empty)), due: None }
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

#[test]
fn windows_are_missed_between_two_claims_but_not_asleep_not_at_first_and_not_without_slots() {
    let grid = |rate| SlotGrid::new(Rate::per_second(rate).unwrap(), RateMargin::default());
    let awake = looks_of(95, 20);
    let of = |rate, checks| missed(grid(rate), Some(window(100)), window(104), &checks);
    assert_eq!(of(14.0, awake), 3);
    assert_eq!(missed(grid(14.0), Some(window(100)), window(101), &awake), 0);
    assert_eq!(missed(grid(14.0), None, window(104), &awake), 0);
    assert_eq!(of(14.0, looks_of(40, 98)), 0);
    // One slot in ten seconds: at most one of three windows has one.
    assert!(of(0.1, awake) <= 1);
}

proptest! {
    #[test]
    fn no_more_windows_are_missed_than_have_slots(
        rate in 0.01_f64..20.0, previous in 0_u64..1_000, gap in 0_u64..200,
    ) {
        let grid = SlotGrid::new(Rate::per_second(rate).unwrap(), RateMargin::default());
        let between = (1..=gap).map(|after| window(previous + after));
        let with_slots = between.filter(|window| !grid.slots_of(*window).is_empty()).count() as u64;
        let (before, next) = (Some(window(previous)), window(previous + gap + 1));
        prop_assert_eq!(missed(grid, before, next, &QueueChecks::default()), with_slots);
    }
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

    /// Runs start a minute apart, up to `late` seconds late; the counts are right.
    #[test]
    fn while_asleep_checks_are_the_wake_seconds_apart_and_exact_ones_five_minutes(
        wake in 2_u64..=60, late in prop::collection::vec(0_u64..=3, 24),
    ) {
        let (mut counted, mut exact) = (vec![59_u64], vec![59_u64]);
        for (minute, late) in late.iter().enumerate() {
            let start = 60 * (minute as u64 + 1) + late;
            let run = IdleRun { first: window(start), wake };
            let (mut from, mut checked) = (start, None);
            loop {
                // A run that comes late may check after the next one has begun, which then knows less.
                let known = exact.iter().rev().find(|exact| **exact < from);
                let checks = looks_of(0, *known.unwrap());
                let due = match run.next(&checks, checked, window(from)) {
                    IdleStep::Count(due) => due,
                    IdleStep::Tick(due) => {
                        exact.push(due.saturating_since(window(0)));
                        due
                    }
                    IdleStep::End => break,
                    IdleStep::EveryWindow => return Err(TestCaseError::fail("awake")),
                };
                checked = Some(due);
                counted.push(due.saturating_since(window(0)));
                from = due.saturating_since(window(0)) + 2;
            }
        }
        let most_late = late.iter().max().copied().unwrap_or(0);
        counted.sort_unstable();
        exact.sort_unstable();
        for pair in counted.windows(2) {
            prop_assert!(pair[1] - pair[0] <= wake.max(2) + 1 + most_late, "{counted:?}");
        }
        prop_assert!(counted.last().is_some_and(|last| *last >= 24 * 60), "{counted:?}");
        for pair in exact.windows(2) {
            prop_assert!(pair[1] - pair[0] <= EXACT + wake + most_late, "{exact:?}");
        }
        prop_assert!(exact.len() >= 24 / 6, "{exact:?}");
    }

    #[test]
    fn a_tick_is_left_out_on_evidence_only(
        wake in 1_u64..=60, found: Option<u16>, empty: Option<u16>, from: u16, checked in 0_u64..60,
    ) {
        let at = |second: Option<u16>| second.map(|second| window(second.into()));
        let (checks, from) = (QueueChecks { found: at(found), empty: at(empty), due: None }, window(from.into()));
        let run = IdleRun { first: from, wake };
        for checked in [None, Some(from.plus(checked))] {
            let next = run.next(&checks, checked, from);
            let evidence = wake > 1
                && matches!((checks.found, checks.empty), (Some(f), Some(e)) if f.plus(STILL) <= e && e < from);
            prop_assert_eq!(next == IdleStep::EveryWindow, !evidence, "{:?}", next);
            // A count is not believed for longer than that.
            if let (IdleStep::Count(due), Some(empty)) = (next, checks.empty) {
                prop_assert!(due < empty.plus(EXACT), "{due}");
            }
        }
    }
}

#[test]
fn a_run_that_checks_once_a_minute_ends_after_it() {
    let run = IdleRun { first: window(120), wake: 60 };
    assert_eq!(run.next(&looks_of(0, 66), None, window(120)), IdleStep::Count(window(120)));
    assert_eq!(run.next(&looks_of(0, 66), Some(window(120)), window(121)), IdleStep::End);
    let run = IdleRun { first: window(306), wake: 60 };
    assert_eq!(run.next(&looks_of(0, 66), None, window(307)), IdleStep::Tick(window(307)));
    assert_eq!(run.next(&looks_of(0, 307), Some(window(307)), window(309)), IdleStep::End);
}

#[test]
fn the_ticks_that_a_run_left_out_are_those_of_its_minute() {
    let run = IdleRun { first: window(120), wake: 60 };
    assert_eq!(run.left_out(window(120), 0), 0);
    assert_eq!(run.left_out(window(132), 1), 11);
    assert_eq!(run.left_out(window(500), 1), 59);
}

#[test]
fn a_look_is_confirmed_by_its_own_report_or_a_newer_one() {
    assert!(looks_of(3, 60).confirms(window(60)) && looks_of(3, 61).confirms(window(60)));
    assert!(!looks_of(3, 59).confirms(window(60)) && !looks_of(60, 60).confirms(window(60)));
    assert!(!QueueChecks::default().confirms(window(60)));
}
