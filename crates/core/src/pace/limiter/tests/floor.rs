use super::*;
use crate::cycle::Cycle;
use crate::email::Priority;
use crate::grid::SlotGrid;
use crate::limiter::{Acquired, NextSend, Waiting};
use crate::rate::{Rate, RateMargin};
use crate::timestamp::Window;
use proptest::prelude::*;
use std::time::Duration;

const WINDOW: Window = Window::from_epoch_second(1_763_670_967);

fn limiter(rate: f64, weights: &[u32], floor: u8) -> Limiter<u32> {
    let grid = SlotGrid::new(Rate::per_second(rate).unwrap(), RateMargin::default());
    Limiter::new(grid, grid.slots_of(WINDOW), Cycle::new(weights).unwrap()).with_floor(Floor(floor))
}

fn waiting(line: Line, recipients: u32) -> Waiting<u32> {
    Waiting { ticket: 0, line, priority: Priority::Normal, recipients }
}

/// Runs to the window's end with a clock that wakes exactly when asked; returns the mails started.
fn run(limiter: &mut Limiter<u32>) -> Vec<Acquired<u32>> {
    let (mut now, mut started) = (WINDOW.opens(), Vec::new());
    loop {
        match limiter.next(now, &mut Open) {
            NextSend::Start(acquired) => started.push(acquired),
            NextSend::At(at) => now = at,
            NextSend::Idle(until) => now = until + Duration::from_nanos(1),
            NextSend::Over => return started,
        }
    }
}

/// The recipients of campaigns' mail among the mails started.
fn of_campaigns(started: &[Acquired<u32>]) -> u64 {
    let campaigns = started.iter().map(|acquired| acquired.message);
    let campaigns = campaigns.filter(|message| message.line != Line::Express);
    campaigns.map(|message| u64::from(message.recipients)).sum()
}

#[test]
fn a_floor_is_a_whole_share_up_to_ninety_percent() {
    for (text, percent) in [("0%", 0), ("20%", 20), ("90%", 90), ("7 %", 7), ("005%", 5)] {
        assert_eq!(text.parse(), Ok(Floor(percent)), "{text}");
    }
    for text in ["", "%", "20", "91%", "100%", "-1%", "+5%", "2.5%", "999%", "20%%", "twenty%"] {
        assert!(text.parse::<Floor>().is_err(), "{text}");
    }
}

#[test]
fn the_floors_slots_among_the_next_ones_are_known() {
    let limiter = limiter(200.0, &[1], 50);
    let slots = limiter.slots_left();
    assert_eq!([0, 10, 100].map(|within| limiter.floor_ahead(within)), [0, 5, 50]);
    assert_eq!(limiter.floor_ahead(u64::MAX), limiter.floor_ahead(slots));
    assert!(limiter.floor_ahead(slots).abs_diff(slots / 2) <= 1);
}

#[test]
fn without_campaign_mail_express_takes_every_slot_and_without_express_campaigns_do() {
    for line in [Line::Express, Line::Campaign(0)] {
        let mut limiter = limiter(200.0, &[1], 50);
        let slots = limiter.slots_left();
        (0..300).for_each(|_| limiter.wait(waiting(line, 1)));
        assert_eq!(run(&mut limiter).len() as u64, slots, "{line:?}");
    }
}

#[test]
fn what_is_due_to_campaigns_does_not_wait_for_them() {
    let mut limiter = limiter(14.0, &[1], 50);
    let slots = limiter.slots_left();
    (0..100).for_each(|_| limiter.wait(waiting(Line::Express, 1)));
    limiter.wait(waiting(Line::Campaign(0), 1));
    let started = run(&mut limiter);
    assert_eq!(started.len() as u64, slots);
    assert_eq!(of_campaigns(&started), 1);
}

proptest! {
    #[test]
    fn in_any_run_of_slots_the_count_is_within_one_of_the_share(
        percent in 0_u8..=MOST, start in 0_u64..=u64::MAX / 2, length in 0_u64..5_000,
    ) {
        let floor = Floor(percent);
        let slots = start..start + length;
        let counted = slots.clone().filter(|slot| floor.is_first_for_campaigns(*slot)).count() as u64;
        prop_assert_eq!(counted, floor.count(slots));
        // In hundredths of a slot: the difference is less than one slot.
        let share = length * u64::from(percent);
        prop_assert!((counted * 100).abs_diff(share) < 100, "{} of {}", counted, length);
    }

    #[test]
    fn with_both_waiting_each_has_its_part_to_the_slot_and_so_has_each_campaign(
        percent in 0_u8..=MOST, rate in 1.0_f64..1_000.0,
        weights in prop::collection::vec(1_u32..10, 1..4),
    ) {
        let mut limiter = limiter(rate, &weights, percent);
        let slots = limiter.cursor..limiter.end;
        for _ in 0..1_100 {
            limiter.wait(waiting(Line::Express, 1));
            (0..weights.len()).for_each(|index| limiter.wait(waiting(Line::Campaign(index), 1)));
        }
        let floor = Floor(percent);
        let started = run(&mut limiter);
        let mut by_campaign = vec![0; weights.len()];
        for acquired in &started {
            let is_campaigns = acquired.message.line != Line::Express;
            prop_assert_eq!(is_campaigns, floor.is_first_for_campaigns(acquired.slot));
            if let Line::Campaign(index) = acquired.message.line {
                by_campaign[index] += 1;
            }
        }
        prop_assert_eq!(of_campaigns(&started), floor.count(slots.clone()));
        let turns = floor.before(slots.start)..floor.before(slots.end);
        prop_assert_eq!(by_campaign, Cycle::new(&weights).unwrap().shares(turns));
    }

    #[test]
    fn with_mails_of_several_recipients_each_has_its_part_to_within_a_mail(
        percent in 0_u8..=MOST, large in 1_u32..=10, express in 1_u32..=10,
    ) {
        let mut limiter = limiter(1_000.0, &[1], percent);
        for _ in 0..1_000 {
            limiter.wait(waiting(Line::Express, express));
            limiter.wait(waiting(Line::Campaign(0), large));
        }
        let floor = limiter.floor.count(limiter.cursor..limiter.end);
        let started = run(&mut limiter);
        // The difference is at most one mail of each side, and the window's end that is too short for a
        // mail.
        let bound = u64::from(2 * large.max(express));
        let sent = of_campaigns(&started);
        prop_assert!(sent.abs_diff(floor) <= bound, "{} of {}", sent, floor);
        if percent == 0 {
            // Campaigns get slots at the window's end only, where no express mail fits.
            prop_assert!(sent < u64::from(express));
        }
    }

    #[test]
    fn no_slot_is_unused_while_a_mail_waits_that_fits(
        percent in 0_u8..=MOST, rate in 1.0_f64..300.0,
        mails in prop::collection::vec((prop::bool::ANY, 1_u32..=50), 0..100),
    ) {
        let mut limiter = limiter(rate, &[1], percent);
        let slots = limiter.slots_left();
        for (is_express, recipients) in &mails {
            let line = if *is_express { Line::Express } else { Line::Campaign(0) };
            limiter.wait(waiting(line, *recipients));
        }
        let started = run(&mut limiter);
        let spent: u64 = started.iter().map(|a| u64::from(a.message.recipients)).sum();
        prop_assert_eq!(spent + limiter.state().unused, slots);
        let smallest = limiter.drain().iter().map(|m| u64::from(m.recipients)).min();
        prop_assert!(smallest.is_none_or(|smallest| smallest > limiter.state().unused));
    }
}
