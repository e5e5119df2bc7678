//! Forecasts of a running stack: holds with and without an end, caps, quotas, and what is assumed.

use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::config::{Campaign, PollerConfig, SchedulerConfig};
use tidegate_core::control::{Hold, HoldReason};
use tidegate_core::rate::Rate;
use tidegate_delivery::ports::{AccountStatus, QueueDepth, Standing};
use tidegate_operator::page::Page;
use tidegate_operator::redact::AddressVisibility;
use tidegate_operator::status::{StackFacts, StatusSettings};
use tidegate_simulator::Deployment;
use tidegate_simulator::plan::{
    Bottleneck, EndEstimate, Forecast, ForecastOptions, PlanReport, Scenario, forecast,
};

const NOW: Timestamp = Timestamp::from_millis(1_795_207_000_000);
const HOUR: Duration = Duration::from_hours(1);

fn deployment(limits: &str) -> Deployment {
    let lookup = |name: &str| {
        let value = match name {
            "TIDEGATE_CAMPAIGNS" => {
                r#"[{"name": "big", "queue_url": "https://sqs.example/big", "weight": 90}, {"name": "small", "queue_url": "https://sqs.example/small", "weight": 10}]"#
            }
            "TIDEGATE_DEAD_LETTER_QUEUE_URL" => "https://sqs.example/dead",
            "TIDEGATE_MERGE_QUEUE_URL" => "https://sqs.example/merge.fifo",
            "TIDEGATE_LEDGER" => "dynamodb:ledger",
            "TIDEGATE_POLLER_FUNCTION" => "poller",
            "TIDEGATE_LIMITS" if !limits.is_empty() => limits,
            "TIDEGATE_LIMIT_QUEUES" if !limits.is_empty() => "https://sqs.example/domain-1",
            _ => return None,
        };
        Some(value.to_owned())
    };
    Deployment {
        poller: PollerConfig::from_variables(lookup).unwrap(),
        scheduler: SchedulerConfig::from_variables(lookup).unwrap(),
    }
}

/// 2,000 mails of `big` and 100 of `small` at 14 a second.
fn facts(deployed: Deployment) -> StackFacts {
    let named = |(name, weight): (&str, u32)| Campaign {
        name: name.to_owned(),
        queue_url: format!("https://sqs.example/{name}"),
        weight,
        ..Campaign::default()
    };
    let depth = |visible| QueueDepth { visible, ..QueueDepth::default() };
    let Deployment { poller, scheduler } = deployed;
    StackFacts {
        at: NOW,
        settings: StatusSettings {
            stack: "tidegate".to_owned(),
            poller,
            scheduler,
            addresses: AddressVisibility::Masked,
            changes: 0,
            ses_price: None,
        },
        standing: Standing::default(),
        campaigns: [("big", 90), ("small", 10)].map(named).to_vec(),
        backlogs: [("big".to_owned(), depth(2_000)), ("small".to_owned(), depth(100))].into(),
        depths: [].into(),
        account: Some(AccountStatus {
            max_send_rate: 14.0,
            max_24_hour_send: -1.0,
            sent_last_24_hours: 0.0,
            sending_enabled: true,
            spend_limit: None,
        }),
        changes: Vec::new(),
        runs: Vec::new(),
    }
}

fn scenario(change: impl FnOnce(&mut StackFacts)) -> Scenario {
    let mut facts = facts(deployment(""));
    change(&mut facts);
    tidegate_operator::plan::scenario_of(&facts)
}

/// The stack with a pause that ends so long after the begin; `None` is a pause without an end.
fn paused(campaign: Option<&str>, length: Option<Duration>) -> Scenario {
    scenario(|facts| {
        let since = NOW.saturating_sub(2 * HOUR);
        let hold = Hold::new("by ada: lunch", since).until(length.map(|l| (NOW + l).into()));
        facts.standing.control.hold(campaign, HoldReason::Paused, hold);
    })
}

fn forecast_of(scenario: &Scenario) -> Forecast {
    forecast(scenario, ForecastOptions::default(), &|_| true).unwrap()
}

fn end(forecast: &Forecast, campaign: usize) -> Option<f64> {
    forecast.campaigns[campaign].ends_after_seconds.map(|EndEstimate { expected, .. }| expected)
}

#[track_caller]
fn assert_near(found: Option<f64>, due: f64) {
    let found = found.unwrap();
    assert!((found - due).abs() < 0.02 * due + 6.0, "{found} s, {due} s are due");
}

#[test]
fn an_expired_pause_holds_nothing() {
    let mut over = paused(Some("big"), Some(Duration::ZERO));
    assert_eq!(over, paused(None, Some(Duration::ZERO)));
    assert_near(end(&forecast_of(&over), 0), 2_100.0 * 1.02 / 14.0);
    over.assumptions.clear();
    assert_eq!(forecast_of(&over).assumptions.len(), 1);
}

#[test]
fn a_pause_with_an_end_delays_what_it_holds_and_nothing_after_it() {
    let forecast = forecast_of(&paused(Some("big"), Some(HOUR)));
    assert_near(end(&forecast, 0), 3_600.0 + 2_000.0 * 1.02 / 14.0);
    assert_near(end(&forecast, 1), 100.0 * 1.02 / 14.0);
    let held: f64 = forecast
        .phases
        .iter()
        .filter(|phase| phase.campaigns["big"].limit == Bottleneck::Hold)
        .map(|phase| phase.to_seconds - phase.from_seconds)
        .sum();
    assert!((3_500.0..3_650.0).contains(&held), "{:?}", forecast.phases);
    let said = "big is held (paused) until 2026-11-20 21:36:40 UTC".to_owned();
    assert!(forecast.assumptions.contains(&said), "{:?}", forecast.assumptions);

    let all = forecast_of(&paused(None, Some(HOUR)));
    assert_near(end(&all, 0), 3_600.0 + 2_100.0 * 1.02 / 14.0);
    assert_eq!(all.mostly(), Some(Bottleneck::Hold));
    assert!(all.simulation.simulated_windows < 3_000, "{:?}", all.simulation);
    // A pause may last longer than a standstill that is given up.
    let month = forecast_of(&paused(None, Some(24 * 20 * HOUR)));
    assert_near(end(&month, 0), 20.0 * 86_400.0 + 2_100.0 * 1.02 / 14.0);
}

#[test]
fn a_hold_that_ends_in_the_middle_agrees_with_a_run_of_every_window() {
    let mut scenario = paused(Some("small"), Some(Duration::from_secs(400)));
    scenario.campaigns[0].mails = 9_000;
    scenario.campaigns[1].mails = 500;
    let [quick, full] = [false, true].map(|every_window| {
        forecast(&scenario, ForecastOptions { seeds: 1, every_window }, &|_| true).unwrap()
    });
    for campaign in [0, 1] {
        assert_near(end(&quick, campaign), end(&full, campaign).unwrap());
    }
    assert!(quick.simulation.simulated_mails < full.simulation.simulated_mails);
}

#[test]
fn added_mails_of_several_recipients_take_all_their_slots() {
    let mut scenario = paused(None, None);
    let before = scenario.campaigns[0].mails;
    scenario.add(&"big=500x8".parse().unwrap());
    assert_eq!(
        (scenario.campaigns[0].mails - before, scenario.campaigns[0].recipients),
        (4_000, 1)
    );
}

#[test]
fn a_hold_without_an_end_leaves_the_mail_and_is_named() {
    let mut one = paused(Some("big"), None);
    one.add(&"big=500".parse().unwrap());
    let forecast = forecast_of(&one);
    assert_eq!((end(&forecast, 0), forecast.campaigns[0].left), (None, 2_500));
    assert_near(end(&forecast, 1), 100.0 * 1.02 / 14.0);
    let said = "big keeps 2500 mails: held (paused) until that is lifted";
    assert_eq!(forecast.warnings, [said]);
    let all = paused(None, None);
    assert!(all.is_held_for_good() && !one.is_held_for_good());
    let forecast = forecast_of(&all);
    assert_eq!(forecast.campaigns.iter().map(|own| own.left).sum::<u64>(), 2_100);
    assert!(!PlanReport { forecasts: vec![forecast] }.all_end());
}

#[test]
fn holds_that_the_scheduler_lifts_follow_from_what_ses_tells() {
    let held = |enabled| {
        scenario(|facts| {
            let control = &mut facts.standing.control;
            control.hold(None, HoldReason::Account, Hold::new("under review", NOW));
            control.hold(None, HoldReason::DailyBudget, Hold::new("used up", NOW));
            facts.account.as_mut().unwrap().sending_enabled = enabled;
        })
    };
    assert!(!held(true).is_held_for_good());
    assert_near(end(&forecast_of(&held(true)), 0), 2_100.0 * 1.02 / 14.0);
    assert_eq!(end(&forecast_of(&held(false)), 0), None);
    let used_up = scenario(|facts| {
        let account = facts.account.as_mut().unwrap();
        (account.max_24_hour_send, account.sent_last_24_hours) = (10_000.0, 9_950.0);
        facts.standing.control.hold(None, HoldReason::DailyBudget, Hold::new("used up", NOW));
    });
    let ended = end(&forecast_of(&used_up), 0).unwrap();
    assert!((86_400.0..87_200.0).contains(&ended), "{ended}");
}

#[test]
fn every_cap_lowers_the_rate_and_an_unknown_quota_is_said_to_be_assumed() {
    let capped = scenario(|facts| {
        let cap = Rate::per_second(5.0).unwrap();
        facts.standing.factor = facts.standing.factor.capped(Some(cap));
    });
    assert_near(end(&forecast_of(&capped), 0), 2_100.0 * 1.02 / 5.0);
    assert!(capped.assumptions.contains(&"the operator's cap of 5/s stays".to_owned()));
    let unknown = scenario(|facts| facts.account = None);
    assert!(
        unknown.assumptions.contains(&"the quota, which SES does not tell, is 14/s".to_owned())
    );
    let remembered = scenario(|facts| {
        facts.account = None;
        facts.standing.control.last_known_quota = Rate::per_second(7.0).ok();
    });
    assert!((remembered.quota - 7.0).abs() < 1e-9);
}

#[test]
fn text_and_json_state_the_same_assumptions() {
    let deployed = deployment("gmail.com=1/s");
    let mut facts = facts(deployed);
    let depth = QueueDepth { visible: 14, ..QueueDepth::default() };
    facts.depths.insert("merge", depth);
    facts.standing.counters.insert("domain_fed.1".to_owned(), 300);
    let judged = "2026-11-20T20:35:07Z";
    let level = format!(r#"{{"level": "busy", "since": "{judged}", "read_at": "{judged}"}}"#);
    facts.standing.control.back_pressure = Some(serde_json::from_str(&level).unwrap());
    let forecast = forecast_of(&tidegate_operator::plan::scenario_of(&facts));
    let text = Page::of(&forecast).plain();
    for said in [
        "SES takes every mail",
        "each waiting mail has one recipient",
        "no waiting mail is deferred, although the level is busy",
        "the 14 mails on the merge queue are left out",
        "the 300 recipients that wait for the limit of gmail.com (1/s) are left out, which take 5 min 00 s",
        "no two mails go to one recipient domain",
    ] {
        assert!(forecast.assumptions.iter().any(|one| one.starts_with(said)), "{said}: {text}");
        assert!(text.contains(&format!("Assumed: {said}")), "{said}: {text}");
    }
    let json = serde_json::to_value(&forecast).unwrap();
    assert_eq!(json["assumptions"].as_array().unwrap().len(), forecast.assumptions.len());
}

#[test]
fn a_campaign_waits_for_its_hours_and_keeps_its_rate_in_the_forecast() {
    let mut scenario = paused(None, Some(Duration::ZERO));
    let limit = |text: &str| Some(serde_json::from_str(text).unwrap());
    let limits = &mut scenario.control.limits;
    // It is 20:36:40.
    limits.insert("big".parse().unwrap(), limit(r#"{"hours": "22:00-23:59"}"#));
    limits.insert("small".parse().unwrap(), limit(r#"{"rate": "360/h"}"#));
    let forecast = forecast_of(&scenario);
    assert_near(end(&forecast, 0), 5_000.0 + 2_000.0 * 1.02 / 14.0);
    assert_near(end(&forecast, 1), 100.0 * 1.02 / 0.1);
    assert!(forecast.simulation.simulated_windows < 3_500, "{:?}", forecast.simulation);
}
