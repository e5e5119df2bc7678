use std::collections::BTreeMap;

use tidegate_core::control::{Cancel, Hold, HoldReason};
use tidegate_core::identity::EpochMillis;

use super::*;

/// The window that is planned: one whose turn it is to probe.
const WINDOW: Window = Window::from_epoch_second(1_795_207_000);

/// Campaigns `a` and `b` with the weights 90 and 10, and express mail.
fn config(merge: bool) -> PollerConfig {
    let queue = |name: &str| format!("https://sqs.eu-west-1.amazonaws.com/1/{name}");
    let campaigns = format!(
        r#"[{{"name": "a", "queue_url": "{}", "weight": 90}}, {{"name": "b", "queue_url": "{}", "weight": 10}}]"#,
        queue("a"),
        queue("b")
    );
    let variables: BTreeMap<&str, String> = [
        ("TIDEGATE_CAMPAIGNS", campaigns),
        ("TIDEGATE_MERGE_QUEUE_URL", if merge { queue("merge.fifo") } else { String::new() }),
        ("TIDEGATE_EXPRESS_QUEUE_URL", queue("express")),
        ("TIDEGATE_DEAD_LETTER_QUEUE_URL", queue("dead")),
        ("TIDEGATE_LEDGER", "dynamodb:ledger".to_owned()),
    ]
    .into();
    let given = |name: &str| variables.get(name).filter(|value| !value.is_empty()).cloned();
    PollerConfig::from_variables(given).unwrap()
}

fn plan(merge: bool, control: Control) -> Plan {
    let standing = Standing { control, ..Standing::default() };
    let means = RunningMeans::nothing(1_000_000);
    Plan::new(&config(merge), WINDOW, Rate::per_second(20.0).unwrap(), &standing, &means)
}

fn hold(control: &mut Control, campaign: &str, reason: HoldReason, seconds_ago: u64) {
    let since = EpochMillis::from(WINDOW.opens()).as_millis() - seconds_ago * 1_000;
    control.hold(Some(campaign), reason, Hold::new("", EpochMillis::new(since)));
}

/// A change of the control record; then, for `a` and `b`, which are asked for their share and which are probed, and
/// whether express mail is asked for; and the weights of the cycle.
type Row = (fn(&mut Control), [bool; 2], [bool; 2], bool, [u64; 2]);

#[test]
fn a_campaign_is_asked_for_its_share_unless_its_weight_or_a_hold_forbids_it() {
    let rows: [Row; 11] = [
        (|_| {}, [true, true], [false, false], true, [9, 1]),
        (|c| c.weights = [("b".to_owned(), 45)].into(), [true; 2], [false; 2], true, [2, 1]),
        // Weight 0 means that nothing is sent, also if no other campaign has a weight.
        (|c| c.weights = [("a".to_owned(), 0)].into(), [false, true], [false; 2], true, [0, 1]),
        (
            |c| c.weights = [("a".to_owned(), 0), ("b".to_owned(), 0)].into(),
            [false; 2],
            [false; 2],
            true,
            [1, 1],
        ),
        // Too long for a cycle: scaled down.
        (
            |c| c.weights = [("a".to_owned(), 9_500), ("b".to_owned(), 1_001)].into(),
            [true; 2],
            [false; 2],
            true,
            [1_005, 106],
        ),
        (|c| hold(c, "a", HoldReason::Paused, 60), [false, true], [false; 2], true, [9, 1]),
        // Held for refusals: one mail is sent every 30 s, beside the shares.
        (|c| hold(c, "a", HoldReason::Refusals, 29), [false, true], [false; 2], true, [9, 1]),
        (|c| hold(c, "a", HoldReason::Refusals, 60), [false, true], [true, false], true, [9, 1]),
        // After a probe in vain the next one is half a minute later.
        (
            |c| {
                hold(c, "a", HoldReason::Refusals, 60);
                let probed = EpochMillis::from(WINDOW.opens()).as_millis() - 29_000;
                let holds = c.campaign_holds.get_mut("a").unwrap();
                holds.note_probe(HoldReason::Refusals, EpochMillis::new(probed));
            },
            [false, true],
            [false; 2],
            true,
            [9, 1],
        ),
        (
            |c| {
                hold(c, "a", HoldReason::Refusals, 60);
                hold(c, "a", HoldReason::Paused, 60);
                hold(c, EXPRESS, HoldReason::Refusals, 15);
            },
            [false, true],
            [false; 2],
            false,
            [9, 1],
        ),
        (
            |c| {
                c.cancel("b", Cancel { at: EpochMillis::new(0), keep: true }, "");
                hold(c, EXPRESS, HoldReason::Refusals, 30);
            },
            [true, false],
            [false; 2],
            true,
            [9, 1],
        ),
    ];
    for (number, (change, asked, probed, express, weights)) in rows.into_iter().enumerate() {
        for merge in [false, true] {
            let mut control = Control::default();
            change(&mut control);
            let plan = plan(merge, control);
            let of = |is: fn(&Plan, &PlannedCampaign) -> bool| -> Vec<bool> {
                plan.campaigns.iter().map(|campaign| is(&plan, campaign)).collect()
            };
            assert_eq!(of(Plan::asks_for_share), asked, "row {number}, merge {merge}");
            assert_eq!(of(|plan, c| plan.is_probed(&c.name)), probed, "row {number}");
            let names = ["a", "b"];
            let held = names.map(|name| plan.holds(name));
            let may = [0, 1].map(|n| asked[n] || probed[n] || plan.cycle.weights()[n] == 0);
            assert!((0..2).all(|n| held[n] != may[n] || weights == [1, 1]), "row {number}");
            assert_eq!(plan.express.is_some(), express, "row {number}");
            assert_eq!(plan.cycle.weights(), weights, "row {number}");
        }
    }
}

#[test]
fn whatever_the_quota_and_the_campaigns_limit_a_window_with_a_slot_probes_soon() {
    let (config, means) = (config(true), RunningMeans::nothing(1_000_000));
    let cases =
        [(0.1, ""), (2.0, ""), (14.0, "18/h"), (14.0, "60/h"), (14.0, "3/m"), (14.0, "2/s")];
    for (quota, limit) in cases {
        for since in 0..20 {
            let mut control = Control::default();
            hold(&mut control, "a", HoldReason::Refusals, since);
            if !limit.is_empty() {
                let limit = serde_json::from_str(&format!(r#"{{"rate": "{limit}"}}"#)).unwrap();
                control.limits.insert("campaign:a".parse().unwrap(), Some(limit));
            }
            let standing = Standing { control, ..Standing::default() };
            let probes = |n: &u64| {
                let rate = Rate::per_second(quota).unwrap();
                let plan = Plan::new(&config, WINDOW.plus(*n), rate, &standing, &means);
                let limit = plan.campaigns[0].limit.clone();
                let owned = limit.and_then(|limit| plan.limits.slots(&limit));
                let has_slot = plan.slot_count() > 0 && owned.is_none_or(|s| s.owned_slots() > 0);
                plan.is_probed("a") && has_slot
            };
            let first = (0..1_000).find(probes);
            assert!(first.is_some_and(|first| first <= 250), "{quota}/s, {limit}: {first:?}");
        }
    }
}

#[test]
fn mail_is_expected_from_a_queue_by_its_depth_unless_campaigns_may_have_some() {
    let means = RunningMeans::nothing(1_000_000);
    let mut config = config(true);
    config.limits.queues = vec!["https://sqs.eu-west-1.amazonaws.com/1/domain1".to_owned()];
    let expects = |sums: [(&str, i64); 4], is_held: bool| {
        let mut control = Control::default();
        for campaign in ["a", "b"].into_iter().filter(|_| is_held) {
            hold(&mut control, campaign, HoldReason::Paused, 60);
        }
        let counters = sums.map(|(name, sum)| (name.to_owned(), sum)).into();
        let standing = Standing { control, counters, ..Standing::default() };
        Plan::new(&config, WINDOW, Rate::per_second(20.0).unwrap(), &standing, &means)
            .expects_mail()
    };
    let sums = |merge, limited| {
        [("fed", merge), ("taken", 7), ("domain_fed.1", limited), ("domain_taken.1", 7)]
    };
    let cases = [(7, 7, false), (8, 7, true), (7, 8, true), (6, 6, false)];
    for (merge, limited, expected) in cases {
        assert_eq!(expects(sums(merge, limited), true), expected, "{merge} and {limited}");
    }
    assert!(expects(sums(7, 7), false), "a campaign's queue was not found empty");
}
