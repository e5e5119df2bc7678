use proptest::prelude::*;

use super::*;

/// The weights of some campaigns, which of them have mail, the slot where a run of windows starts, and the slots of a
/// turn.
fn worlds() -> impl Strategy<Value = (Vec<u32>, Vec<bool>, (u64, u64))> {
    let campaigns = prop::collection::vec((1_u32..=20, prop::bool::weighted(0.7)), 1..60);
    (campaigns, (0_u64..1_000_000, 1..=BATCH)).prop_map(|(campaigns, at)| {
        let (weights, has_mail) = campaigns.into_iter().unzip();
        (weights, has_mail, at)
    })
}

/// The number of slots that each campaign gets in `windows` windows of `length` slots.
fn got(
    cycle: &Cycle,
    has_mail: &[bool],
    (start, turn): (u64, u64),
    (windows, length): (u64, u64),
) -> Vec<u64> {
    let mut sums = vec![0; has_mail.len()];
    for window in 0..windows {
        let slots = start + window * length..start + (window + 1) * length;
        let turns = Turns::taken(cycle, has_mail, &[], slots.clone(), turn);
        for (lane, share) in turns.lanes.iter().zip(turns.cycle.shares(slots)) {
            sums[*lane] += share;
        }
    }
    sums
}

proptest! {
    #[test]
    fn after_any_windows_each_campaign_is_within_a_turn_of_its_share(
        (weights, _, (_, turn)) in worlds(), windows in 1_u64..40, length in 1_u64..120,
    ) {
        let cycle = Cycle::new(&weights).unwrap();
        let sum: u64 = cycle.weights().iter().sum();
        let sums = got(&cycle, &vec![true; weights.len()], (0, turn), (windows, length));
        for (got, weight) in sums.iter().zip(cycle.weights()) {
            prop_assert!((got * sum).abs_diff(windows * length * weight) < turn * sum, "{sums:?}");
        }
    }

    #[test]
    fn shares_are_exact_over_as_many_cycles_as_a_turn_has_slots((weights, _, (start, turn)) in worlds()) {
        let cycle = Cycle::new(&weights).unwrap();
        let length = cycle.length();
        let sums = got(&cycle, &vec![true; weights.len()], (start, turn), (turn, length));
        let exact: Vec<u64> = cycle.weights().iter().map(|weight| weight * turn).collect();
        prop_assert_eq!(sums, exact);
    }

    #[test]
    fn what_some_leave_goes_to_those_that_have_mail_by_weight(
        (weights, has_mail, (start, turn)) in worlds(), windows in 1_u64..40, length in 1_u64..120,
    ) {
        prop_assume!(has_mail.contains(&true));
        let cycle = Cycle::new(&weights).unwrap();
        let sums = got(&cycle, &has_mail, (start, turn), (windows, length));
        prop_assert_eq!(sums.iter().sum::<u64>(), windows * length);
        let with = |values: &[u64]| -> u64 {
            values.iter().zip(&has_mail).filter(|(_, has)| **has).map(|(value, _)| value).sum()
        };
        let sum = with(cycle.weights());
        for ((got, weight), has) in sums.iter().zip(cycle.weights()).zip(&has_mail) {
            // Two of its own turns, and two of the others' slots, since the stretch may start
            // anywhere.
            let share = if *has { windows * length * weight } else { 0 };
            prop_assert!((got * sum).abs_diff(share) <= 4 * turn * sum, "{sums:?}");
        }
    }

    #[test]
    fn nobody_loses_turns_by_what_others_have(
        (weights, has_mail, (start, turn)) in worlds(), length in 1_u64..120,
    ) {
        let cycle = Cycle::new(&weights).unwrap();
        let slots = (1, length);
        let own = got(&cycle, &vec![true; weights.len()], (start, turn), slots);
        let sums = got(&cycle, &has_mail, (start, turn), slots);
        for ((got, own), has) in sums.iter().zip(&own).zip(&has_mail) {
            prop_assert!(!has || got >= own, "{sums:?}, {own:?} by weight");
        }
    }

    #[test]
    fn a_window_asks_few_campaigns(
        (weights, has_mail, (start, turn)) in worlds(), length in 1_u64..120,
    ) {
        let cycle = Cycle::new(&weights).unwrap();
        let turns = Turns::taken(&cycle, &has_mail, &[0], start..start + length, turn);
        let most = AHEAD * length.max(turn) / turn + 2;
        // One begun turn of its own, one of the others' slots, and the probe.
        prop_assert!(turns.lanes.len() as u64 <= 2 * most + 1, "{turns:?}");
        prop_assert_eq!(turns.cycle.weights().len(), turns.lanes.len());
    }
}

#[test]
fn of_ten_slots_in_a_row_all_are_one_campaigns() {
    let cycle = Cycle::new(&[1; 30]).unwrap();
    let turns = Turns::taken(&cycle, &[true; 30], &[], 70..110, BATCH);
    assert_eq!(turns.lanes[..4], [7, 8, 9, 10]);
    assert!((70..80).all(|slot| turns.cycle.owner(slot) == 0));
    assert_eq!(turns.cycle.owner(80), 1);
}

#[test]
fn where_nobody_has_mail_the_probes_are_asked() {
    let cycle = Cycle::new(&[1; 30]).unwrap();
    assert_eq!(Turns::taken(&cycle, &[false; 30], &[4, 9], 70..110, BATCH).lanes, [4, 9]);
}
