use std::collections::BTreeMap;

use super::super::{ConfigError, PollerConfig, SchedulerConfig};
use super::*;
use crate::reputation::ReputationPolicy;

const QUEUE: &str = settings::FEEDBACK_QUEUE.name;
const URL: &str = "https://sqs.example/1/feedback";

fn lookup<'a>(given: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
    let needed = [
        ("TIDEGATE_POLLER_FUNCTION", "poller"),
        ("TIDEGATE_LEDGER", "dynamodb:ledger"),
        ("TIDEGATE_CAMPAIGNS", "ledger"),
        ("TIDEGATE_DEAD_LETTER_QUEUE_URL", "https://sqs.example/1/dead"),
    ];
    let all: BTreeMap<_, _> = needed.into_iter().chain(given.iter().copied()).collect();
    move |name| all.get(name).map(|value| (*value).to_owned())
}

fn read(given: &[(&str, &str)]) -> Result<Option<FeedbackConfig>, ConfigError> {
    SchedulerConfig::from_variables(lookup(given)).map(|config| config.feedback)
}

#[test]
fn feedback_is_off_unless_it_is_asked_for() {
    assert_eq!(read(&[]).unwrap(), None);
    let off = [("TIDEGATE_FEEDBACK", "off"), (QUEUE, URL), ("TIDEGATE_BOUNCE_SHARE", "0.1")];
    assert_eq!(read(&off).unwrap(), None);
}

#[test]
fn the_defaults_are_where_ses_would_review_the_account() {
    for (mode, holds) in [("count", false), ("hold", true)] {
        let read = read(&[("TIDEGATE_FEEDBACK", mode), (QUEUE, URL)]).unwrap().unwrap();
        let policy = ReputationPolicy {
            holds,
            bounce_share: 50_000,
            complaint_share: 1_000,
            minimum: 1_000,
        };
        assert_eq!(read, FeedbackConfig { queue_url: URL.to_owned(), policy });
    }
}

#[test]
fn the_ends_of_what_is_allowed_are_allowed() {
    for (bounces, complaints, minimum, expected) in [
        ("0.001", "0.0001", "100", (1_000, 100, 100)),
        ("1", "1", "1000000", (1_000_000, 1_000_000, 1_000_000)),
    ] {
        let given = [
            ("TIDEGATE_FEEDBACK", "hold"),
            (QUEUE, URL),
            ("TIDEGATE_BOUNCE_SHARE", bounces),
            ("TIDEGATE_COMPLAINT_SHARE", complaints),
            ("TIDEGATE_FEEDBACK_MINIMUM", minimum),
        ];
        let policy = read(&given).unwrap().unwrap().policy;
        assert_eq!((policy.bounce_share, policy.complaint_share, policy.minimum), expected);
    }
}

#[test]
fn every_invalid_value_is_refused_with_name_value_and_what_is_allowed() {
    let cases = [
        ("TIDEGATE_FEEDBACK", "on", "off, count or hold"),
        (QUEUE, "feedback", "the URL of a standard queue"),
        (QUEUE, "https://sqs.example/1/feedback.fifo", "not ending in .fifo"),
        ("TIDEGATE_BOUNCE_SHARE", "0.0009", "0.001 to 1"),
        ("TIDEGATE_BOUNCE_SHARE", "5%", "0.001 to 1"),
        ("TIDEGATE_BOUNCE_SHARE", "NaN", "0.001 to 1"),
        ("TIDEGATE_COMPLAINT_SHARE", "0", "0.0001 to 1"),
        ("TIDEGATE_COMPLAINT_SHARE", "1.1", "0.0001 to 1"),
        ("TIDEGATE_FEEDBACK_MINIMUM", "99", "a whole number from 100 to 1000000"),
        ("TIDEGATE_FEEDBACK_MINIMUM", "1000001", "a whole number from 100 to 1000000"),
    ];
    for mode in ["hold", "off"] {
        for (name, value, allowed) in cases {
            let mut given = vec![("TIDEGATE_FEEDBACK", mode), (QUEUE, URL)];
            given.push((name, value));
            let error = read(&given).unwrap_err();
            assert_eq!(error.0.len(), 1, "{error}");
            let text = error.to_string();
            let shown = format!("{name} is \"{value}\"; allowed is ");
            assert!(text.starts_with(&shown) && text.contains(allowed), "{text}");
        }
    }
}

#[test]
fn count_and_hold_need_the_queue() {
    for mode in ["count", "hold"] {
        let error = read(&[("TIDEGATE_FEEDBACK", mode)]).unwrap_err().to_string();
        assert!(error.starts_with("TIDEGATE_FEEDBACK_QUEUE_URL is not set; allowed is"), "{error}");
        assert!(error.ends_with("where TIDEGATE_FEEDBACK is count or hold"), "{error}");
    }
}

#[test]
fn a_configuration_set_is_a_word() {
    let read = |value: &str| {
        let given = [("TIDEGATE_CONFIGURATION_SET", value)];
        PollerConfig::from_variables(lookup(&given)).map(|config| config.configuration_set)
    };
    let long = "x".repeat(64);
    assert_eq!(read("").unwrap(), None);
    assert_eq!(read("Tide_gate-1").unwrap().as_deref(), Some("Tide_gate-1"));
    assert_eq!(read(&long).unwrap(), Some(long.clone()));
    for value in ["tide gate", "tide.gate", &format!("{long}x")] {
        let text = read(value).unwrap_err().to_string();
        let shown = format!("TIDEGATE_CONFIGURATION_SET is \"{value}\"; allowed is the name");
        assert!(text.starts_with(&shown) && text.contains("1 to 64 letters"), "{text}");
    }
}
