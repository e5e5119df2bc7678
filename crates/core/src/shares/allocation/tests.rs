use super::*;
use crate::cycle::Cycle;
use proptest::prelude::*;

fn intake_of(
    cycle: &Cycle,
    slots: std::ops::Range<u64>,
    total: u64,
    debts: &[i64],
    means: &[f64],
) -> Intake {
    Intake::new(&Turns::all(cycle, cycle.weights().len()), slots, total, debts, means)
}

/// Campaigns by their weights, and how many mails wait in each.
fn campaigns() -> impl Strategy<Value = (Vec<u32>, Vec<u64>)> {
    prop::collection::vec((1_u32..=100, 0_u64..400), 1..6).prop_map(|c| c.into_iter().unzip())
}

/// Makes receives from stocks of mails with `size` recipients until the intake asks no more.
fn run(intake: &mut Intake, stocks: &mut [u64], size: u64) -> Vec<u64> {
    let mut taken = vec![0; stocks.len()];
    while let Some(ask) = intake.ask(u64::MAX, |_| true) {
        assert!((1..=BATCH).contains(&ask.messages));
        let got = ask.messages.min(stocks[ask.lane]);
        stocks[ask.lane] -= got;
        taken[ask.lane] += got * size;
        intake.received(&ask, got, got * size);
    }
    taken
}

proptest! {
    #[test]
    fn division_conserves_the_total_and_is_within_one(total in 0_u64..100_000, weights in prop::collection::vec(0_u64..1_000, 1..9)) {
        let parts = divide(total, &weights);
        let sum: u64 = weights.iter().sum();
        prop_assert_eq!(parts.iter().sum::<u64>(), if sum == 0 { 0 } else { total });
        for (part, weight) in parts.iter().zip(&weights) {
            prop_assert!((part * sum).abs_diff(total * weight) <= sum);
        }
    }

    #[test]
    fn fallback_conserves_the_total((weights, stocks) in campaigns(), total in 0_u64..1_000, start in 0_u64..1_000) {
        let cycle = Cycle::new(&weights).unwrap();
        let none = vec![0; weights.len()];
        let mut intake = intake_of(&cycle, start..start + total, total, &none, &[]);
        let mut left = stocks.clone();
        let taken = run(&mut intake, &mut left, 1);
        prop_assert_eq!(taken.iter().sum::<u64>(), total.min(stocks.iter().sum()));
    }

    #[test]
    fn with_enough_mail_each_campaign_gets_exactly_its_slots((weights, _) in campaigns(), total in 0_u64..1_000, start in 0_u64..1_000) {
        let cycle = Cycle::new(&weights).unwrap();
        let none = vec![0; weights.len()];
        let mut intake = intake_of(&cycle, start..start + total, total, &none, &[]);
        let taken = run(&mut intake, &mut vec![u64::MAX; weights.len()], 1);
        prop_assert_eq!(taken, cycle.shares(start..start + total));
        prop_assert!(intake.debt_changes(&[], &[]).iter().all(|change| *change == 0));
    }

    #[test]
    fn an_empty_campaign_costs_the_others_nothing_and_owes_nothing(
        (weights, _) in campaigns(), total in 1_u64..500, empty in 0_usize..6,
    ) {
        prop_assume!(weights.len() > 1);
        let empty = empty % weights.len();
        let cycle = Cycle::new(&weights).unwrap();
        let mut stocks = vec![u64::MAX; weights.len()];
        stocks[empty] = 0;
        let mut intake = intake_of(&cycle, 0..total, total, &vec![0; weights.len()], &[]);
        let taken = run(&mut intake, &mut stocks, 1);
        prop_assert_eq!(taken.iter().sum::<u64>(), total);
        prop_assert!(intake.debt_changes(&[], &[]).iter().all(|change| *change == 0));
    }

    #[test]
    fn what_one_owes_the_others_are_owed(
        (weights, _) in campaigns(), total in 0_u64..20, start in 0_u64..1_000,
        dry in 0_usize..6, size in 1_u64..=50, owed in prop::collection::vec(-90_000_i64..90_000, 9),
    ) {
        let cycle = Cycle::new(&weights).unwrap();
        let mut stocks = vec![u64::MAX; weights.len()];
        let mut debts = owed[..weights.len()].to_vec();
        debts[0] -= debts.iter().sum::<i64>();
        let mut intake = intake_of(&cycle, start..start + total, total, &debts, &[]);
        intake.mark_dry([dry % weights.len()]);
        // One slot becomes free, even if the window had none.
        intake.widen(1);
        run(&mut intake, &mut stocks, size);
        prop_assert_eq!(intake.debt_changes(&[], &[]).iter().sum::<i64>(), 0);
    }

    #[test]
    fn windows_that_overlap_make_no_debt_of_a_credit(credit in 0_i64..1_000_000, windows in 1_i64..=3) {
        let cycle = Cycle::new(&[90, 10]).unwrap();
        let mut intake = intake_of(&cycle, 0..14, 14, &[-credit, credit], &[]);
        intake.mark_dry([0]);
        let change = intake.debt_changes(&[], &[])[0];
        prop_assert!(change >= credit / 4 && windows * change <= credit);
        prop_assert_eq!(intake.debt_changes(&[], &[])[1], -change, "nobody owes what nobody is owed");
    }

    #[test]
    fn debts_are_repaid_so_that_shares_hold_whatever_the_sizes(size in 2_u64..=50, big in 50_u32..=95) {
        let weights = [big, 100 - big];
        let cycle = Cycle::new(&weights).unwrap();
        // The changes of one window are known two windows later.
        let (mut debts, mut late, mut sums) = (vec![0_i64, 0], vec![vec![0_i64, 0]; 2], vec![0_u64, 0]);
        // Mails of the first campaign have one recipient, those of the second `size`.
        for window in 0..2_000_u64 {
            let slots = window * 14..(window + 1) * 14;
            let mut intake = intake_of(&cycle, slots, 14, &debts, &[1.0, size as f64]);
            while let Some(ask) = intake.ask(u64::MAX, |_| true) {
                let recipients = ask.messages * if ask.lane == 1 { size } else { 1 };
                sums[ask.lane] += recipients;
                intake.received(&ask, ask.messages, recipients);
            }
            late.push(intake.debt_changes(&[], &[]));
            debts.iter_mut().zip(late.remove(0)).for_each(|(debt, change)| *debt += change);
            prop_assert!(debts.iter().all(|debt| debt.abs() <= 500_000), "{:?}", debts);
        }
        let share = sums[1] as f64 / sums.iter().sum::<u64>() as f64 * 100.0;
        prop_assert!((share - f64::from(100 - big)).abs() <= 1.0, "{} of {}", share, big);
    }
}

#[test]
fn a_campaign_known_empty_is_not_asked() {
    let mut intake = intake_of(&Cycle::new(&[90, 10]).unwrap(), 0..20, 20, &[0, 0], &[]);
    intake.mark_dry([0]);
    while let Some(ask) = intake.ask(u64::MAX, |_| true) {
        assert_eq!(ask.lane, 1);
        intake.received(&ask, ask.messages, ask.messages);
    }
    assert_eq!(intake.still_wanted(), 0);
}

#[test]
fn others_may_give_until_all_of_them_are_empty_and_one_that_was_empty_may_again() {
    let mut intake = intake_of(&Cycle::new(&[90, 10]).unwrap(), 0..20, 20, &[0, 0], &[]);
    assert!(intake.others_may_give(0) && intake.others_may_give(1));
    intake.mark_dry([1]);
    assert!(!intake.others_may_give(0) && intake.others_may_give(1));
    intake.revive(1);
    assert!(intake.others_may_give(0));
}

#[test]
fn what_an_empty_campaign_leaves_in_its_turn_makes_no_debt() {
    let turns = Turns { in_batches: true, ..Turns::all(&Cycle::new(&[50, 30, 20]).unwrap(), 3) };
    let mut intake = Intake::new(&turns, 0..40, 40, &[0; 3], &[]);
    let taken = run(&mut intake, &mut [0, u64::MAX, u64::MAX], 1);
    assert_eq!((taken.iter().sum::<u64>(), intake.debt_changes(&[], &[])), (40, vec![0; 3]));
}

#[test]
fn what_express_takes_is_not_asked_for() {
    let mut intake = intake_of(&Cycle::new(&[1]).unwrap(), 0..14, 14, &[0], &[]);
    intake.reduce(9);
    assert_eq!(intake.ask(u64::MAX, |_| true).map(|ask| ask.messages), Some(5));
    assert_eq!(intake.ask(u64::MAX, |_| true), None);
}
