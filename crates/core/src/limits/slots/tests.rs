use super::*;
use crate::rate::{Rate, RateMargin};
use proptest::prelude::*;

const BASE: u64 = 1_763_670_967;
/// The lateness of a mail that does not start after all.
const NEVER: u64 = u64::MAX;

fn rates(least: f64, most: f64) -> impl Strategy<Value = Rate> {
    (least..=most).prop_map(|exponent| Rate::per_second(10_f64.powf(exponent)).unwrap())
}

fn rate_margins() -> impl Strategy<Value = RateMargin> {
    (0.005_f64..=0.5).prop_map(|share| RateMargin::new(share).unwrap())
}

fn worst_second(mut starts: Vec<(u64, u64)>) -> u64 {
    starts.sort_unstable();
    crate::worst_second(&starts, SECOND)
}

/// All sends that a limit lets through in `windows`. Mails have the given sizes in turn, are
/// available at the slots that `wants` names, and start as late in the slot as `lateness` says.
fn sends(
    grid: LimitGrid,
    account: SlotGrid,
    windows: u64,
    sizes: &[u32],
    wants: impl Fn(u64) -> bool,
    lateness: impl Fn(u64) -> u64,
) -> Vec<(u64, u64)> {
    let mut sizes = sizes.iter().cycle();
    let mut size = *sizes.next().unwrap();
    let mut starts = Vec::new();
    for window in (0..windows).map(|k| Window::from_epoch_second(BASE + k)) {
        let mut slots = LimitSlots::new(grid, account, Some(account), window);
        for slot in account.slots_of(window) {
            if wants(slot) && slots.admits(slot, size) {
                slots.take(slot, size);
                let late = lateness(slot);
                if late == NEVER {
                    slots.give_back(slot);
                    continue;
                }
                let at = account.at(slot).as_nanos();
                let latest = account.latest(slot).as_nanos().min(window.closes().as_nanos());
                starts.push((at + late % (latest - at + 1), u64::from(size)));
                size = *sizes.next().unwrap();
            }
        }
    }
    starts
}

fn hash(slot: u64, seed: u64) -> u64 {
    (slot ^ seed)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// 42 days, from 50 recipients a day to 50,000, in each window that has a slot.
#[test]
fn a_warm_up_of_42_days_is_exact_to_one_recipient() {
    use crate::limits::Limit;
    let limit: Limit = serde_json::from_str(
        r#"{"ramp": {"from": "2026-03-01", "days": {"start": 50, "factor": 1.2, "target": 50000}},
            "hours": "Mon-Sun 06:00-22:00", "zone": "Europe/Berlin"}"#,
    )
    .unwrap();
    let rates = (Rate::per_second(14.0).unwrap(), RateMargin::default());
    let account = SlotGrid::new(rates.0, rates.1);
    let noon: Window = "2026-03-01T12:00:00Z".parse().unwrap();
    for day in 0..42 {
        let grid = limit.grid(noon.plus(day * 86_400), rates.0, rates.1, None).unwrap();
        assert!(!grid.is_closed(), "day {day} is closed");
        let expected = (50.0 * 1.2_f64.powf(day as f64)).round().min(50_000.0);
        let (mut sent, mut last) = (0_u64, None);
        for slot in 1..=50_000 {
            let start = account.at(account.first_from(grid.at(slot)));
            let window = Window::containing(start);
            if last.is_some_and(|last| last >= window) {
                continue;
            }
            last = Some(window);
            let grid = limit.grid(window, rates.0, rates.1, None).unwrap();
            let mut slots = LimitSlots::new(grid, account, Some(account), window);
            for slot in account.slots_of(window) {
                if slots.admits(slot, 1) {
                    slots.take(slot, 1);
                    sent += 1;
                }
            }
        }
        assert!((sent as f64 - expected).abs() < 1e-9, "day {day}: {sent} of {expected}");
    }
}

#[test]
fn slots_that_were_given_back_are_free_until_another_mail_was_given_some() {
    let rates = (Rate::per_second(14.0).unwrap(), RateMargin::default());
    let account = SlotGrid::new(rates.0, rates.1);
    let grid = LimitGrid::even(Rate::per_second(2.0).unwrap(), rates.1);
    let window = Window::from_epoch_second(BASE);
    let mut slots = LimitSlots::new(grid, account, Some(account), window);
    let first = account.slots_of(window).find(|slot| slots.admits(*slot, 1)).unwrap();
    slots.take(first, 1);
    let spent = slots.clone();
    assert!(!slots.admits(first + 1, 1));
    slots.give_back(first);
    slots.give_back(first);
    assert!(slots.admits(first + 1, 1));
    slots.take(first + 1, 1);
    slots.give_back(first);
    assert!(!slots.admits(first + 2, 1));
    assert_eq!(slots.next, spent.next);
}

proptest! {
    #[test]
    fn every_second_holds_at_most_the_limit_and_one(
        rate in rates(-2.0, 3.0), quota in rates(-0.5, 3.5), rate_margin in rate_margins(), seed: u64,
        always: bool, index: usize,
    ) {
        let account = SlotGrid::new(quota, rate_margin);
        let wants = |slot| always || hash(slot, seed).is_multiple_of(3);
        let grid = LimitGrid::even(rate, rate_margin).shifted(index, "");
        let late = |slot| if hash(slot, 7).is_multiple_of(5) { NEVER } else { hash(slot, !seed) >> 1 };
        let starts = sends(grid, account, 6, &[1], wants, late);
        prop_assert!(worst_second(starts) <= rate.ceil() + 1);
    }

    #[test]
    fn mails_of_r_recipients_add_at_most_twice_r_minus_one(
        rate in rates(0.8, 3.0), quota in rates(1.0, 3.5), rate_margin in rate_margins(), seed: u64,
        sizes in prop::collection::vec(1_u32..=5, 1..20),
    ) {
        let account = SlotGrid::new(quota, rate_margin);
        let grid = LimitGrid::even(rate, rate_margin).shifted(sizes.len(), "");
        let late = |slot| if hash(slot, 7).is_multiple_of(5) { NEVER } else { hash(slot, seed) >> 1 };
        let starts = sends(grid, account, 4, &sizes, |_| true, late);
        let largest = u64::from(*sizes.iter().max().unwrap());
        prop_assert!(worst_second(starts) < rate.ceil() + 2 * largest);
    }

    #[test]
    fn a_mail_larger_than_its_limit_goes_and_counts_as_one_of_its_size(
        rate in rates(-1.5, 0.6), quota in rates(1.0, 3.0), rate_margin in rate_margins(), size in 5_u32..=50,
    ) {
        let account = SlotGrid::new(quota, rate_margin);
        let grid = LimitGrid::even(rate, rate_margin).shifted(1, "");
        let starts = sends(grid, account, 200, &[size], |_| true, |_| 0);
        prop_assert!(!starts.is_empty());
        prop_assert!(worst_second(starts) <= (rate.ceil() + 1) * u64::from(size));
    }

    #[test]
    fn the_limit_is_reached_where_mail_waits(rate in rates(-1.0, 2.0), rate_margin in rate_margins(), faster in 1.2_f64..50.0) {
        let quota = Rate::per_second((rate.as_per_second() * faster).max(2.0)).unwrap();
        let account = SlotGrid::new(quota, rate_margin);
        let seconds = 300;
        let grid = LimitGrid::even(rate, rate_margin).shifted(1, "");
        let got = sends(grid, account, seconds, &[1], |_| true, |_| 0).len();
        let expected = rate.as_per_second() / (1.0 + f64::from(rate_margin)) * 300.0;
        // One mail more or less at each end of the stretch: a slot that was due just before it is served in it.
        prop_assert!((got as f64 - expected).abs() <= 2.0 + expected * 1e-3, "{got} of {expected}");
    }

    #[test]
    fn a_change_of_the_quota_keeps_the_larger_bound(
        rate in rates(-1.0, 2.5), old in rates(0.0, 3.0), new in rates(0.0, 3.0), rate_margin in rate_margins(), seed: u64,
    ) {
        // The account's grid changes, the limit's does not.
        let (before, after) = (SlotGrid::new(old, rate_margin), SlotGrid::new(new, rate_margin));
        let mut starts = Vec::new();
        for k in 0..6 {
            let window = Window::from_epoch_second(BASE + k);
            let (account, previous) = if k < 3 { (before, before) } else { (after, if k == 3 { before } else { after }) };
            let mut slots = LimitSlots::new(LimitGrid::even(rate, rate_margin), account, Some(previous), window);
            for slot in account.usable(window, Some(previous)) {
                if slots.admits(slot, 1) {
                    slots.take(slot, 1);
                    let at = account.at(slot).as_nanos();
                    let latest = account.latest(slot).as_nanos().min(window.closes().as_nanos());
                    starts.push((at + hash(slot, seed) % (latest - at + 1), 1));
                }
            }
        }
        prop_assert!(worst_second(starts) <= rate.ceil() + 1);
    }

    #[test]
    fn a_change_of_the_limit_keeps_the_larger_bound_by_three_slots_left_out(
        old in rates(-1.0, 2.5), new in rates(-1.0, 2.5), quota in rates(0.5, 3.0), rate_margin in rate_margins(), seed: u64,
        size in 1_u32..=4,
    ) {
        // A larger mail counts as one of its size.
        prop_assume!(size == 1 || old.min(new).as_per_second() >= 2.0 * f64::from(size));
        let account = SlotGrid::new(quota, rate_margin);
        let mut starts = Vec::new();
        for k in 0..6 {
            let window = Window::from_epoch_second(BASE + k);
            let mut slots = LimitSlots::new(LimitGrid::even(if k < 3 { old } else { new }, rate_margin), account, Some(account), window);
            if k == 3 {
                slots = slots.after_change(window);
            }
            for slot in account.slots_of(window) {
                if slots.admits(slot, size) {
                    slots.take(slot, size);
                    let at = account.at(slot).as_nanos();
                    let latest = account.latest(slot).as_nanos().min(window.closes().as_nanos() - 1);
                    starts.push((at + hash(slot, seed) % (latest - at + 1), u64::from(size)));
                }
            }
        }
        prop_assert!(worst_second(starts) < old.max(new).ceil() + 2 * u64::from(size));
    }

    #[test]
    fn what_waits_for_a_slow_limit_comes_back_to_the_poller_that_has_its_slot(
        rate in rates(-1.5, -0.1), since in 0_u64..3_600_000, delay in 15_u64..=400,
    ) {
        let rate_margin = RateMargin::default();
        let account = SlotGrid::new(Rate::per_second(14.0).unwrap(), rate_margin);
        let slots = |window| LimitSlots::new(LimitGrid::even(rate, rate_margin), account, None, window);
        let now = Window::from_epoch_second(BASE).opens() + Duration::from_millis(since);
        let away = slots(Window::containing(now)).aligned(now, Duration::from_secs(delay), Duration::from_mins(15));
        let back = now + away;
        let window = Window::containing(back);
        // A window's poller gets what comes back while it asks alone. Mail that is moved at another time
        // comes back at such a time, when two pollers ask.
        let asks = [window, Window::containing(back + Duration::from_millis(300))];
        let asks = if is_alone(Window::containing(now), now) { &asks[..1] } else { &asks[..] };
        let found = asks.iter().any(|window| slots(*window).left(back) > 0);
        prop_assert!(found || away == Duration::from_secs(delay), "{away:?}");
    }

    #[test]
    fn what_is_delayed_at_a_windows_begin_meets_a_slot_of_any_slow_limit(
        rate in rates(-1.5, -0.1), quota in rates(0.4, 3.0), since in 0_u64..50, seconds in 0_u64..3_600,
    ) {
        let rate_margin = RateMargin::default();
        let account = SlotGrid::new(quota, rate_margin);
        let slots = |window| LimitSlots::new(LimitGrid::even(rate, rate_margin), account, None, window);
        let now = Window::from_epoch_second(BASE + seconds).opens() + Duration::from_millis(since);
        let away = slots(Window::containing(now)).aligned(now, Duration::from_secs(15), Duration::from_mins(15));
        let window = Window::containing(now + away);
        prop_assert!(slots(window).left(now + away) > 0, "{away:?}");
        let last = account.slots_of(window).end - 1;
        prop_assert!(account.at(last) >= now + away + Duration::from_millis(50));
    }

    #[test]
    fn no_slot_of_a_limit_belongs_to_two_windows_and_none_to_nobody(
        rate in rates(-1.0, 3.0), quota in rates(0.1, 3.5), rate_margin in rate_margins(),
    ) {
        let account = SlotGrid::new(quota, rate_margin);
        let mut end = None;
        for k in 0..20 {
            let window = Window::from_epoch_second(BASE + k);
            let slots = LimitSlots::new(LimitGrid::even(rate, rate_margin), account, Some(account), window);
            if account.slots_of(window).is_empty() {
                continue;
            }
            if let Some(end) = end {
                prop_assert_eq!(end, slots.next);
            }
            end = Some(slots.end);
            prop_assert_eq!(slots.left(Timestamp::default()), slots.owned_slots());
        }
    }
}
