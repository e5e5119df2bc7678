mod back_pressure;
mod feedback;
mod limits;

use super::*;
use crate::daily::DailyPolicy;
use crate::daily::{DailyPace, Reserve};
use crate::email::Priority;
use crate::tick::EARLIEST;
use proptest::prelude::*;
use std::collections::BTreeMap;

const CAMPAIGNS: &str = r#"[{"name": "big", "queue_url": "https://sqs.example/1/big", "weight": 90},
    {"name": "small", "queue_url": "https://sqs.example/1/small", "weight": 10}]"#;

pub(super) fn variables() -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([
        ("TIDEGATE_CAMPAIGNS", CAMPAIGNS),
        ("TIDEGATE_DEAD_LETTER_QUEUE_URL", "https://sqs.example/1/dead"),
        ("TIDEGATE_LEDGER", "dynamodb:ledger"),
        ("TIDEGATE_POLLER_FUNCTION", "poller"),
    ])
}

pub(super) fn poller(change: &[(&'static str, &'static str)]) -> Result<PollerConfig, ConfigError> {
    let mut variables = variables();
    variables.extend(change.iter().copied());
    PollerConfig::from_variables(|name| variables.get(name).map(|value| (*value).to_owned()))
}

pub(super) fn scheduler(
    change: &[(&'static str, &'static str)],
) -> Result<SchedulerConfig, ConfigError> {
    let mut variables = variables();
    variables.extend(change.iter().copied());
    SchedulerConfig::from_variables(|name| variables.get(name).map(|value| (*value).to_owned()))
}

#[test]
fn the_defaults_are_those_of_the_table() {
    let config = poller(&[]).unwrap();
    assert_eq!(config.rate_margin, RateMargin::default());
    assert_eq!(config.lead, Duration::from_millis(400));
    assert_eq!(config.send_timeout, Duration::from_secs(5));
    assert_eq!((config.max_attempts, config.idle_windows), (5, 5));
    assert_eq!((config.unsent, config.max_in_flight), (Unsent::Timeout, None));
    assert_eq!((config.merge_queue_url, config.campaign_floor.percent()), (None, 0));
    assert_eq!(
        (config.breaker, config.cap.daily),
        (BreakerPolicy::default(), DailyPolicy::default())
    );
    assert_eq!(config.deduplication, Deduplication::Off);
    assert_eq!(config.mark_kept, Duration::from_hours(360));
    assert_eq!(scheduler(&[]).unwrap().overlap_windows, 10);
    assert_eq!(scheduler(&[("TIDEGATE_LEDGER", "memory")]).unwrap().overlap_windows, 0);
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    assert_eq!(poller(&[("TIDEGATE_RATE_MARGIN", ""), ("TIDEGATE_UNSENT", " ")]), poller(&[]));
}

#[test]
fn a_campaign_may_have_a_tenant() {
    let listed = |tenant: &str| {
        let list = format!(
            r#"[{{"name": "big", "queue_url": "https://sqs.example/1/big", "weight": 1, "tenant": {tenant}}}]"#
        );
        Campaigns::parse(&list)
    };
    let Some(Campaigns::Listed(list)) = listed(r#""acme_EU-1""#) else { panic!("refused") };
    assert_eq!(list[0].tenant.as_deref(), Some("acme_EU-1"));
    for wrong in [r#""""#, r#""acme corp""#, "7", &format!("{:?}", "n".repeat(65))] {
        assert_eq!(listed(wrong), None, "{wrong}");
    }
}

#[test]
fn a_campaign_may_have_a_queue_for_each_priority_but_normal() {
    let listed = |queues: &'static str| poller(&[("TIDEGATE_CAMPAIGNS", queues)]);
    let campaigns = listed(
        r#"[{"name": "a", "queue_url": "https://q/a", "weight": 1,
            "priority_queues": {"low": "https://q/l", "high": "https://q/h"}}]"#,
    );
    let Campaigns::Listed(campaigns) = campaigns.unwrap().campaigns else { panic!() };
    let queues: Vec<_> = campaigns[0].queues().collect();
    let expected = [
        (Priority::High, "https://q/h"),
        (Priority::Normal, "https://q/a"),
        (Priority::Low, "https://q/l"),
    ];
    assert_eq!(queues, expected);
    assert_eq!(campaigns[0].queue_for(Priority::Critical), "https://q/a");
    for wrong in [
        r#"[{"name": "a", "queue_url": "https://q/a", "weight": 1, "priority_queues": {"normal": "https://q/n"}}]"#,
        r#"[{"name": "a", "queue_url": "https://q/a", "weight": 1, "priority_queues": {"urgent": "https://q/n"}}]"#,
        r#"[{"name": "a", "queue_url": "https://q/a", "weight": 1, "priority_queues": {"high": "https://q/a"}}]"#,
        r#"[{"name": "a", "queue_url": "https://q/a", "weight": 1, "priority_queues": {"high": "https://q/a.fifo"}}]"#,
    ] {
        assert!(listed(wrong).is_err(), "{wrong}");
    }
    // A version that does not know priority queues reads a list without them.
    let plain = Campaign { priority_queues: BTreeMap::new(), ..campaigns[0].clone() };
    let written = serde_json::to_string(&plain).unwrap();
    assert_eq!(written, r#"{"name":"a","queue_url":"https://q/a","weight":1}"#);
}

#[test]
fn campaigns_may_stand_in_the_ledger() {
    assert_eq!(poller(&[("TIDEGATE_CAMPAIGNS", "ledger")]).unwrap().campaigns, Campaigns::Ledger);
}

#[test]
fn every_invalid_value_is_refused_with_name_value_and_what_is_allowed() {
    let cases = [
        ("TIDEGATE_RATE_MARGIN", "2", "0.005 to 0.5"),
        ("TIDEGATE_QUOTA_PER_SECOND", "0", "0.001 to 10000"),
        ("TIDEGATE_QUOTA_PER_SECOND", "fast", "0.001 to 10000"),
        ("TIDEGATE_TICK_LEAD_MS", "1001", "0 to 1000"),
        ("TIDEGATE_MAX_IN_FLIGHT", "801", "1 to 800"),
        ("TIDEGATE_SEND_TIMEOUT_MS", "10", "100 to 5200"),
        ("TIDEGATE_SEND_TIMEOUT_MS", "5201", "100 to 5200"),
        ("TIDEGATE_MAX_ATTEMPTS", "0", "1 to 100"),
        ("TIDEGATE_UNSENT", "drop", "timeout or release"),
        ("TIDEGATE_IDLE_WINDOWS", "0", "1 to 60"),
        ("TIDEGATE_LEDGER", "redis", "memory or dynamodb:TABLE"),
        ("TIDEGATE_LEDGER", "dynamodb:", "memory or dynamodb:TABLE"),
        ("TIDEGATE_MERGE_QUEUE_URL", "https://sqs.example/1/merge", ".fifo"),
        ("TIDEGATE_EXPRESS_QUEUE_URL", "https://sqs.example/1/x.fifo", "standard queue"),
        ("TIDEGATE_DEAD_LETTER_QUEUE_URL", "dead", "URL"),
        ("TIDEGATE_CAMPAIGNS", "[]", "1 to 1000"),
        ("TIDEGATE_CAMPAIGNS", "big", "JSON list"),
        (
            "TIDEGATE_CAMPAIGNS",
            r#"[{"name": "a b", "queue_url": "https://q/1", "weight": 1}]"#,
            "letters",
        ),
        (
            "TIDEGATE_CAMPAIGNS",
            r#"[{"name": "a", "queue_url": "https://q/1", "weight": 0}]"#,
            "not all 0",
        ),
        (
            "TIDEGATE_CAMPAIGNS",
            r#"[{"name": "a", "queue_url": "https://q/1", "wieght": 1}]"#,
            "weight",
        ),
        ("TIDEGATE_ALLOWED_SENDERS", "@@", "@@"),
        ("TIDEGATE_DAILY", "slow", "full or spread"),
        ("TIDEGATE_DAILY_RESERVE", "100%", "0% to 99%"),
        ("TIDEGATE_BREAKER_SHARE", "20", "0.01 to 1"),
        ("TIDEGATE_BREAKER_SECONDS", "14", "15 to 3600"),
        ("TIDEGATE_DEDUPLICATION", "on", "off, resend or park"),
        ("TIDEGATE_DEDUPLICATION_DAYS", "0", "1 to 90"),
        ("TIDEGATE_CAMPAIGN_FLOOR", "91%", "0% (no floor) to 90%"),
        ("TIDEGATE_CAMPAIGN_FLOOR", "0.2", "0% (no floor) to 90%"),
    ];
    for (name, value, allowed) in cases {
        let error = poller(&[(name, value)]).unwrap_err();
        assert_eq!(error.0.len(), 1, "{error}");
        let text = error.to_string();
        let shown: String = value.chars().take(120).collect();
        assert!(text.contains(name) && text.contains(&shown) && text.contains(allowed), "{text}");
    }
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let error =
        poller(&[("TIDEGATE_RATE_MARGIN", "2"), ("TIDEGATE_UNSENT", "x"), ("TIDEGATE_LEDGER", "")]);
    let names: Vec<_> = error.unwrap_err().0.into_iter().map(|invalid| invalid.name).collect();
    assert_eq!(names, ["TIDEGATE_LEDGER", "TIDEGATE_RATE_MARGIN", "TIDEGATE_UNSENT"]);
}

#[test]
fn daily_quota_breaker_and_deduplication_are_read() {
    let config = poller(&[
        ("TIDEGATE_DAILY", "spread"),
        ("TIDEGATE_DAILY_RESERVE", "500"),
        ("TIDEGATE_BREAKER_SHARE", "0.5"),
        ("TIDEGATE_BREAKER_SECONDS", "15"),
        ("TIDEGATE_DEDUPLICATION", "park"),
        ("TIDEGATE_DEDUPLICATION_DAYS", "2"),
    ])
    .unwrap();
    assert_eq!(
        config.cap.daily,
        DailyPolicy { pace: DailyPace::Spread, reserve: Reserve::Recipients(500) }
    );
    assert_eq!(
        config.breaker,
        BreakerPolicy { share: 500_000, after: 15, ..BreakerPolicy::default() }
    );
    assert_eq!(config.deduplication, Deduplication::Park);
    assert_eq!(config.mark_kept, Duration::from_hours(48));
    assert_eq!(
        scheduler(&[("TIDEGATE_DAILY", "spread")]).unwrap().cap.daily.pace,
        DailyPace::Spread
    );
}

proptest! {
    /// The slowest poller: each call takes its whole time limit, and the tick came as early as it may.
    #[test]
    fn the_slowest_poller_ends_before_its_time_out_or_is_refused(
        lead in 0_u64..2_000,
        send_timeout in 0_u64..15_000,
    ) {
        let show = |millis: u64| millis.to_string().leak() as &'static str;
        let (lead_text, send_text) = (show(lead), show(send_timeout));
        let config = poller(&[
            ("TIDEGATE_TICK_LEAD_MS", lead_text),
            ("TIDEGATE_SEND_TIMEOUT_MS", send_text),
        ]);
        match config {
            Ok(config) => {
                prop_assert!(config.lead <= EARLIEST);
                let second = Duration::from_secs(1);
                let close = EARLIEST + second;
                let answered = LAST_START + config.send_timeout;
                // Time for the ledger, a move, its delete, and the report.
                let (decided, queue_call) = (answered + second, 2 * second);
                prop_assert!(decided <= DECIDED && DECIDED + queue_call <= MOVED);
                prop_assert!(MOVED + queue_call <= SETTLED);
                prop_assert!(SETTLED + 3 * second / 2 <= REPORTED);
                prop_assert!(close + REPORTED + second / 2 <= POLLER_TIMEOUT);
            }
            Err(error) => for invalid in error.0 {
                let (value, allowed) = match invalid.name {
                    "TIDEGATE_TICK_LEAD_MS" => (lead_text, "0 to 1000"),
                    name => {
                        prop_assert_eq!(name, "TIDEGATE_SEND_TIMEOUT_MS");
                        (send_text, "100 to 5200")
                    }
                };
                prop_assert_eq!(invalid.value, format!("\"{value}\""));
                prop_assert!(invalid.allowed.ends_with(allowed), "{}", invalid.allowed);
            },
        }
    }
}

#[test]
fn ticks_are_left_out_only_where_that_is_asked_for() {
    assert_eq!(scheduler(&[]).unwrap().idle_wake, 60);
    let wake = |value| scheduler(&[("TIDEGATE_IDLE_WAKE_SECONDS", value)]);
    assert_eq!((wake("1").unwrap().idle_wake, wake(" ").unwrap().idle_wake), (1, 60));
    for value in ["0", "61", "-1", "1.5", "a minute"] {
        let error = wake(value).unwrap_err().to_string();
        let named = format!("TIDEGATE_IDLE_WAKE_SECONDS is \"{value}\"; allowed is a whole number");
        assert_eq!(error, format!("{named} from 1 to 60"));
    }
}

#[test]
fn campaign_queues_are_named_by_a_prefix_that_queues_can_have() {
    let read = |prefix: &'static str| scheduler(&[("TIDEGATE_CAMPAIGN_QUEUES", prefix)]);
    assert_eq!(scheduler(&[]).unwrap().campaign_queues, None);
    assert_eq!(read("").unwrap().campaign_queues, None);
    let prefix = read("tidegate-campaign-").unwrap().campaign_queues;
    assert_eq!(prefix.as_deref(), Some("tidegate-campaign-"));
    let long: &'static str = "a".repeat(80).leak();
    assert!(read(&long[1..]).is_ok());
    for wrong in ["https://sqs.example/1/mail", "mail*", "mail campaign", "mail.fifo", long] {
        let error = read(wrong).unwrap_err().to_string();
        let said = format!("TIDEGATE_CAMPAIGN_QUEUES is \"{wrong}\"; allowed is 1 to 79 letters");
        assert!(error.starts_with(&said), "{error}");
    }
}

#[test]
fn campaigns_are_not_found_into_a_ledger_that_no_poller_reads() {
    let error = scheduler(&[("TIDEGATE_LEDGER", "memory"), ("TIDEGATE_CAMPAIGN_QUEUES", "mail-")]);
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("TIDEGATE_CAMPAIGN_QUEUES is \"mail-\"; allowed is none"), "{error}");
}

#[test]
fn the_scheduler_needs_to_know_its_poller() {
    let error = scheduler(&[("TIDEGATE_POLLER_FUNCTION", "")]).unwrap_err().to_string();
    assert!(error.contains("TIDEGATE_POLLER_FUNCTION is not set"), "{error}");
}
