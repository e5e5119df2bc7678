mod floor;

use super::*;
use crate::email::Priority;
use crate::rate::{Rate, RateMargin};
use crate::timestamp::Window;
use proptest::prelude::*;
use std::time::Duration;

const WINDOW: Window = Window::from_epoch_second(1_763_670_967);

/// A gate that admits every message.
struct Open;

impl<T> Gates<T> for Open {
    fn admits(&self, _: T, _: u64) -> bool {
        true
    }

    fn take(&mut self, _: T, _: u64) {}
}

fn limiter(rate: f64, weights: &[u32]) -> Limiter<usize> {
    let grid = SlotGrid::new(Rate::per_second(rate).unwrap(), RateMargin::default());
    Limiter::new(grid, grid.slots_of(WINDOW), Cycle::new(weights).unwrap())
}

fn message(ticket: usize, line: Line, priority: Priority, recipients: u32) -> Waiting<usize> {
    Waiting { ticket, line, priority, recipients }
}

fn normal(ticket: usize, campaign: usize, recipients: u32) -> Waiting<usize> {
    message(ticket, Line::Campaign(campaign), Priority::Normal, recipients)
}

/// Runs to the window's end with a clock that wakes exactly when asked; returns the mails started.
fn run(limiter: &mut Limiter<usize>) -> Vec<(Timestamp, Acquired<usize>)> {
    let (mut now, mut started) = (WINDOW.opens(), Vec::new());
    loop {
        match limiter.next(now, &mut Open) {
            NextSend::Start(acquired) => started.push((now, acquired)),
            NextSend::At(at) => now = at,
            NextSend::Idle(until) => now = until + Duration::from_nanos(1),
            NextSend::Over => return started,
        }
    }
}

fn tickets(started: &[(Timestamp, Acquired<usize>)]) -> Vec<usize> {
    started.iter().map(|(_, acquired)| acquired.message.ticket).collect()
}

#[test]
fn a_mail_that_is_larger_than_a_window_waits_in_its_line() {
    let waiting = |line| {
        let mut limiter = limiter(14.0, &[1]);
        limiter.wait(message(0, Line::Express, Priority::Normal, 2));
        limiter.wait(normal(1, 0, 3));
        limiter.wait_oversize(message(2, line, Priority::Normal, 50));
        (limiter.express_waiting(), limiter.campaigns_waiting())
    };
    assert_eq!((waiting(Line::Express), waiting(Line::Campaign(0))), ((52, 3), (2, 53)));
}

#[test]
fn priority_orders_the_messages_of_one_campaign() {
    let mut limiter = limiter(14.0, &[1]);
    let order = [Priority::Low, Priority::Normal, Priority::Critical, Priority::High];
    for (ticket, priority) in order.into_iter().enumerate() {
        limiter.wait(message(ticket, Line::Campaign(0), priority, 1));
    }
    assert_eq!(limiter.state().waiting.campaigns, [1, 1, 1, 1]);
    assert_eq!(tickets(&run(&mut limiter)), [2, 3, 1, 0]);
}

#[test]
fn express_goes_before_every_campaign_whatever_the_priority() {
    let mut limiter = limiter(14.0, &[1]);
    limiter.wait(message(0, Line::Campaign(0), Priority::Critical, 1));
    limiter.wait(message(1, Line::Express, Priority::Low, 1));
    assert_eq!(limiter.state().waiting.express.iter().sum::<u64>(), 1);
    assert_eq!(tickets(&run(&mut limiter)), [1, 0]);
}

#[test]
fn the_largest_waiting_mail_goes_first_and_starts_at_its_first_slot() {
    let mut limiter = limiter(14.0, &[1]);
    let first = limiter.cursor;
    limiter.wait(normal(0, 0, 1));
    limiter.wait(normal(1, 0, 10));
    let started = run(&mut limiter);
    assert_eq!(tickets(&started), [1, 0]);
    assert_eq!([started[0].1.slot, started[1].1.slot], [first, first + 10]);
    assert_eq!(started[0].0, limiter.grid.at(first));
}

#[test]
fn a_mail_that_no_longer_fits_is_left_and_a_smaller_one_goes() {
    let mut limiter = limiter(14.0, &[1]);
    for ticket in 0..3 {
        limiter.wait(normal(ticket, 0, 10));
    }
    limiter.wait(normal(3, 0, 2));
    assert_eq!(tickets(&run(&mut limiter)), [0, 3]);
    assert_eq!(limiter.drain().len(), 2);
}

#[test]
fn a_late_clock_skips_slots_and_never_catches_up() {
    let mut limiter = limiter(200.0, &[1]);
    (0..300).for_each(|ticket| limiter.wait(normal(ticket, 0, 1)));
    let late = WINDOW.opens() + Duration::from_millis(500);
    assert!(matches!(limiter.next(late, &mut Open), NextSend::Start(_)));
    let skipped = limiter.state().skipped;
    // 495 ms of slots: 500 ms less the lateness of 5 ms, at 5.05 ms per slot.
    assert!((97..=99).contains(&skipped), "{skipped}");
}

#[test]
fn a_slot_with_nobody_waiting_is_unused_not_skipped() {
    let mut limiter = limiter(14.0, &[1]);
    let slots = limiter.slots_left();
    assert!(run(&mut limiter).is_empty());
    let state = limiter.state();
    assert_eq!((state.unused, state.skipped), (slots, 0));
}

#[test]
fn a_message_that_arrives_within_the_lateness_still_gets_the_slot() {
    let mut limiter = limiter(14.0, &[1]);
    let due = limiter.grid.at(limiter.cursor);
    assert!(matches!(limiter.next(due, &mut Open), NextSend::Idle(_)));
    limiter.wait(normal(0, 0, 1));
    assert!(matches!(limiter.next(due + Duration::from_millis(4), &mut Open), NextSend::Start(_)));
}

#[test]
fn a_mail_larger_than_the_window_goes_before_all_others_and_takes_all_slots() {
    let mut limiter = limiter(2.0, &[1]);
    let first = limiter.cursor;
    limiter.wait(normal(1, 0, 1));
    limiter.wait_oversize(normal(0, 0, 50));
    assert_eq!(limiter.recipients_waiting(), 51);
    let started = run(&mut limiter);
    assert_eq!((tickets(&started), started[0].1.slot), (vec![0], first));
    assert_eq!((limiter.slots_left(), limiter.drain().len()), (0, 1));
}

#[test]
fn stopping_gives_out_no_more_and_loses_nothing() {
    let mut limiter = limiter(14.0, &[1]);
    limiter.wait(normal(0, 0, 5));
    limiter.wait(normal(1, 0, 1));
    limiter.wait_oversize(normal(2, 0, 50));
    assert!(matches!(limiter.next(WINDOW.opens(), &mut Open), NextSend::At(_)));
    limiter.stop();
    assert_eq!(limiter.next(WINDOW.opens(), &mut Open), NextSend::Over);
    assert_eq!(limiter.drain().len(), 3);
}

proptest! {
    #[test]
    fn each_slot_goes_to_its_own_campaign_while_all_have_mail(
        weights in prop::collection::vec(1_u32..20, 1..5), rate in 1.0_f64..300.0,
    ) {
        let mut limiter = limiter(rate, &weights);
        for ticket in 0..400 * weights.len() {
            limiter.wait(normal(ticket, ticket % weights.len(), 1));
        }
        let cycle = Cycle::new(&weights).unwrap();
        for (_, acquired) in run(&mut limiter) {
            prop_assert_eq!(acquired.message.line, Line::Campaign(cycle.owner(acquired.slot)));
        }
    }

    #[test]
    fn no_slot_is_unused_while_anyone_waits_and_none_is_used_twice(
        weights in prop::collection::vec(1_u32..20, 1..5),
        mails in prop::collection::vec((0_usize..5, 1_u32..=50), 0..100),
        rate in 1.0_f64..300.0,
    ) {
        let mut limiter = limiter(rate, &weights);
        let slots = limiter.slots_left();
        for (ticket, (campaign, recipients)) in mails.iter().enumerate() {
            limiter.wait(normal(ticket, campaign % weights.len(), *recipients));
        }
        let started = run(&mut limiter);
        let spent: u64 = started.iter().map(|(_, a)| u64::from(a.message.recipients)).sum();
        prop_assert_eq!(spent + limiter.state().unused, slots);
        for pair in started.windows(2) {
            prop_assert!(pair[0].1.slot + u64::from(pair[0].1.message.recipients) <= pair[1].1.slot);
        }
        // No message that is left would have fitted into the unused slots.
        let left = limiter.drain();
        prop_assert_eq!(started.len() + left.len(), mails.len());
        let smallest = left.iter().map(|m| u64::from(m.recipients)).min();
        prop_assert!(smallest.is_none_or(|smallest| smallest > limiter.state().unused));
    }

    #[test]
    fn a_start_is_never_early_and_never_later_than_allowed(
        wakes in prop::collection::vec(0_u64..30_000_000, 1..400), rate in 1.0_f64..1_000.0,
    ) {
        let mut limiter = limiter(rate, &[1]);
        (0..1_100).for_each(|ticket| limiter.wait(normal(ticket, 0, 1)));
        let mut now = WINDOW.opens();
        for wake in wakes {
            while let NextSend::Start(acquired) = limiter.next(now, &mut Open) {
                prop_assert!(limiter.grid.at(acquired.slot) <= now);
                prop_assert!(now <= limiter.grid.latest(acquired.slot));
            }
            now = now + Duration::from_nanos(wake);
        }
    }

    #[test]
    fn debts_of_large_mails_are_repaid_so_that_the_shares_of_a_window_hold(size in 2_u32..=10) {
        // 1,000/s: 980 slots, shared evenly between mails with one and with `size` recipients.
        let mut limiter = limiter(1_000.0, &[1, 1]);
        for ticket in 0..1_000 {
            limiter.wait(normal(ticket, 0, 1));
            limiter.wait(normal(ticket, 1, size));
        }
        let large: u64 = run(&mut limiter).iter().map(|(_, a)| a.message)
            .filter(|m| m.line == Line::Campaign(1)).map(|m| u64::from(m.recipients)).sum();
        prop_assert!(large.abs_diff(490) <= 2 * u64::from(size), "{} of 980", large);
    }
}

fn grid() -> SlotGrid {
    SlotGrid::new(Rate::per_second(14.0).unwrap(), RateMargin::default())
}

/// Gates that stay shut for a ticket until a slot, and the slots that tickets took.
struct Shut(Vec<(usize, u64)>, Vec<(usize, u64)>);

impl Gates<usize> for Shut {
    fn admits(&self, ticket: usize, slot: u64) -> bool {
        self.0.iter().all(|(shut, until)| *shut != ticket || slot >= *until)
    }

    fn take(&mut self, ticket: usize, slot: u64) {
        self.1.push((ticket, slot));
    }
}

fn run_through(limiter: &mut Limiter<usize>, gates: &mut Shut) -> Vec<usize> {
    let mut started = Vec::new();
    let mut now = WINDOW.opens();
    loop {
        match limiter.next(now, gates) {
            NextSend::Start(acquired) => started.push(acquired.message.ticket),
            NextSend::At(at) => now = at,
            NextSend::Idle(until) => now = until + std::time::Duration::from_nanos(1),
            NextSend::Over => return started,
        }
    }
}

#[test]
fn others_take_the_slots_while_a_gate_is_shut() {
    let slots = grid().slots_of(WINDOW);
    let mut limiter = Limiter::new(grid(), slots.clone(), Cycle::single());
    for ticket in 0..6 {
        limiter.wait(normal(ticket, 0, 1));
    }
    let opens = slots.start + 3;
    let mut gates = Shut(vec![(0, opens), (1, u64::MAX)], Vec::new());
    assert_eq!(run_through(&mut limiter, &mut gates), [2, 3, 4, 0, 5]);
    assert_eq!(gates.1[3], (0, opens), "the gate is asked for the slot it starts at");
    let state = limiter.state();
    assert_eq!((state.skipped, state.unused), (0, slots.end - slots.start - 5));
    assert_eq!(limiter.drain().len(), 1, "what its gate kept is left");
}

#[test]
fn a_domains_mail_takes_its_campaigns_slots_and_what_nobody_else_can_use() {
    let slots = grid().slots_of(WINDOW);
    let cycle = Cycle::new(&[1, 1]).unwrap();
    let count = usize::try_from(slots.end - slots.start).unwrap();
    let share = |lines: Vec<Option<usize>>, others: usize| {
        let mut limiter =
            Limiter::new(grid(), slots.clone(), Cycle::single()).with_turns(cycle.clone(), lines);
        for ticket in 0..100 {
            limiter.wait(message(ticket, Line::Limited(0), Priority::Normal, 1));
        }
        for ticket in 100..100 + others {
            limiter.wait(normal(ticket, 0, 1));
        }
        let started = run_through(&mut limiter, &mut Shut(Vec::new(), Vec::new()));
        let limited = started.iter().filter(|ticket| **ticket < 100).count();
        (limited, usize::try_from(limiter.state().limited_in_turn).unwrap(), started.len())
    };
    let half = count / 2;
    let (limited, in_turn, all) = share(vec![Some(0), Some(0)], 100);
    assert!(
        all == count && limited == in_turn && (half..=half + 1).contains(&limited),
        "{limited}"
    );
    // The other campaign has no mail, so all slots are this one's.
    assert_eq!(share(vec![Some(0), None], 100), (count, count, count));
    // The other mail takes 3 slots, less than its share; the limit queue's mail takes all the others.
    let (limited, in_turn, _) = share(vec![Some(0), Some(0)], 3);
    assert_eq!((limited, in_turn), (count - 3, count - 3));
}
