use proptest::prelude::*;

use super::*;
use crate::setup::LocalCampaign;

const START: u64 = 1_795_206_967;

fn plan(quota: f64, big: u64, small: u64) -> LocalPlan {
    let campaign = |name: &str, weight, mails| LocalCampaign {
        name: name.to_owned(),
        weight,
        mails,
        recipients: 1,
    };
    let campaigns = vec![campaign("big", 90, big), campaign("small", 10, small)];
    LocalPlan { quota, channel: tidegate_core::channel::Channel::Email, campaigns }
}

/// A perfect regulator's arrivals: a mail a slot, every tenth of the small campaign while it lasts.
fn perfect(plan: &LocalPlan, rate_margin: f64) -> Vec<MailArrival> {
    let period = (1.0 + rate_margin) / plan.quota;
    let mut left: Vec<u64> = plan.campaigns.iter().map(|campaign| campaign.mails).collect();
    (0..plan.mails())
        .map(|slot| {
            let wanted = usize::from(slot % 10 == 9);
            let campaign = if left[wanted] > 0 { wanted } else { 1 - wanted };
            left[campaign] -= 1;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "a test's small numbers"
            )]
            let after = (slot as f64 * period * 1e9) as u64;
            MailArrival {
                at_ns: START * SECOND_NS + after,
                campaign: plan.campaigns[campaign].name.clone(),
                key: format!("r{slot}@example.com"),
                recipients: 1,
            }
        })
        .collect()
}

fn of_plan(_: &str, key: &str) -> bool {
    key.starts_with('r')
}

#[test]
fn a_perfect_run_uses_all_that_the_margin_leaves_and_holds_the_shares() {
    let plan = plan(14.0, 940, 60);
    let figures = figures(&plan, &perfect(&plan, 0.02), of_plan);
    assert_eq!((figures.arrived, figures.missing, figures.duplicates), (1_000, 0, 0));
    assert_eq!(figures.worst_second, 14);
    let RunPhases { backlogged, all_waiting, after_first_end } = figures.phases;
    for phase in [&backlogged, &all_waiting, &after_first_end] {
        let utilisation = phase.utilisation.unwrap();
        assert!((utilisation - 1.0 / 1.02).abs() < 0.004, "{utilisation}");
    }
    assert!(all_waiting.worst_30_windows.unwrap() > 0.975);
    assert!((all_waiting.shares["small"].share - 0.1).abs() < 0.002);
    assert!(all_waiting.shares["small"].worst_30_windows_points.unwrap() < 0.3);
    assert_eq!(after_first_end.shares.keys().collect::<Vec<_>>(), ["big"]);
    assert!((after_first_end.shares["big"].share - 1.0).abs() < 1e-9);
    // Sixty mails, each in a tenth slot of 1.02 s / 14.
    assert!((figures.ended_after_seconds["small"] - 599.0 * 1.02 / 14.0).abs() < 0.001);
}

#[test]
fn a_pause_shows_in_the_worst_stretch_and_not_only_in_the_mean() {
    let plan = plan(14.0, 2_000, 300);
    let mut arrivals = perfect(&plan, 0.02);
    let whole = figures(&plan, &arrivals, of_plan).phases.backlogged;
    for arrival in arrivals.iter_mut().skip(800) {
        arrival.at_ns += 3 * SECOND_NS;
    }
    let paused = figures(&plan, &arrivals, of_plan).phases.backlogged;
    let lost = whole.worst_30_windows.unwrap() - paused.worst_30_windows.unwrap();
    assert!((lost - 0.1 / 1.02).abs() < 0.01, "three of thirty windows: {lost}");
    assert!(paused.utilisation.unwrap() > paused.worst_30_windows.unwrap());
}

#[test]
fn duplicates_missing_and_foreign_mails_are_told_apart() {
    let plan = plan(14.0, 90, 10);
    let mut arrivals = perfect(&plan, 0.02);
    arrivals.pop();
    let mut again = arrivals[3].clone();
    again.at_ns = arrivals.last().unwrap().at_ns + SECOND_NS;
    arrivals.push(again.clone());
    arrivals.push(MailArrival { key: "someone@example.com".to_owned(), ..again });
    let figures = figures(&plan, &arrivals, of_plan);
    assert_eq!(
        (figures.arrived, figures.missing, figures.duplicates, figures.foreign),
        (99, 1, 1, 1)
    );
    assert!(!figures.ended_after_seconds.contains_key("small"), "its last mail is missing");
}

#[test]
fn a_straggler_does_not_make_the_end_of_the_backlog_look_idle() {
    let plan = plan(14.0, 900, 100);
    let mut arrivals = perfect(&plan, 0.02);
    let last = arrivals.last_mut().unwrap();
    last.at_ns += 30 * SECOND_NS;
    let backlogged = figures(&plan, &arrivals, of_plan).phases.backlogged;
    assert!((backlogged.utilisation.unwrap() - 1.0 / 1.02).abs() < 0.004);
    assert_eq!(backlogged.windows, 66);
}

#[test]
fn a_straggler_does_not_put_off_the_end_of_its_campaign() {
    let plan = plan(200.0, 9_400, 600);
    let mut arrivals = perfect(&plan, 0.02);
    let literal = figures(&plan, &arrivals, of_plan).phases.after_first_end;
    let last = arrivals.iter().rposition(|arrival| arrival.campaign == "small").unwrap();
    arrivals[last].at_ns += 30 * SECOND_NS;
    arrivals.sort_by_key(|arrival| arrival.at_ns);
    let late = figures(&plan, &arrivals, of_plan).phases.after_first_end;
    assert!(literal.from.abs_diff(late.from) <= 1, "{} {}", literal.from, late.from);
    assert!((late.utilisation.unwrap() - 1.0 / 1.02).abs() < 0.004);
}

#[test]
fn nothing_arrived_is_no_utilisation() {
    let figures = figures(&plan(14.0, 9, 1), &[], of_plan);
    assert_eq!((figures.missing, figures.phases.backlogged.utilisation), (10, None));
    assert_eq!(figures.series.recipients.len(), 0);
}

#[test]
fn recipients_count_not_mails() {
    let mut plan = plan(14.0, 2_000, 40);
    plan.campaigns[1].recipients = 5;
    let mut arrivals = perfect(&plan, 0.02);
    for arrival in &mut arrivals {
        arrival.recipients = if arrival.campaign == "small" { 5 } else { 1 };
    }
    let figures = figures(&plan, &arrivals, of_plan);
    // Every tenth mail has five recipients: 14 of 10 slots.
    let share = figures.phases.all_waiting.shares["small"].share;
    assert!((share - 5.0 / 14.0).abs() < 0.01, "{share}");
    assert_eq!(figures.series.recipients.iter().flatten().sum::<u64>(), 2_000 + 5 * 40);
}

proptest! {
    #[test]
    fn every_recipient_is_in_the_series_once(
        mut at in prop::collection::vec((0u64..90_000_000_000, 0usize..3, 1u32..50), 0..200),
    ) {
        at.sort_unstable();
        let names = ["big", "small", "unknown"];
        let arrivals: Vec<_> = at.iter().enumerate().map(|(index, (after, campaign, recipients))| MailArrival {
            at_ns: START * SECOND_NS + after,
            campaign: names[*campaign].to_owned(),
            key: format!("r{index}"),
            recipients: *recipients,
        }).collect();
        let plan = plan(14.0, 100, 10);
        let figures = figures(&plan, &arrivals, of_plan);
        let total: u64 = at.iter().map(|(_, _, recipients)| u64::from(*recipients)).sum();
        prop_assert_eq!(figures.series.recipients.iter().flatten().sum::<u64>(), total);
        prop_assert_eq!(figures.arrived, at.len() as u64);
        prop_assert!(figures.phases.all_waiting.recipients <= figures.phases.backlogged.recipients);
        prop_assert!(figures.phases.backlogged.recipients <= total);
    }
}
