use std::collections::BTreeMap;

use super::super::{ConfigError, PollerConfig, SchedulerConfig};
use super::*;
use crate::back_pressure::BackPressurePolicy;

const BUSY: &str = settings::BACK_PRESSURE_BUSY.name;
const OVERLOADED: &str = settings::BACK_PRESSURE_OVERLOADED.name;

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

fn read(given: &[(&str, &str)]) -> Result<Option<BackPressureConfig>, ConfigError> {
    SchedulerConfig::from_variables(lookup(given)).map(|config| config.back_pressure)
}

#[test]
fn without_campaigns_there_is_no_level_and_with_them_the_defaults_hold() {
    assert_eq!(read(&[("TIDEGATE_CAMPAIGNS", "")]).unwrap(), None);
    let config = read(&[]).unwrap().unwrap();
    assert_eq!(config.campaigns, Campaigns::Ledger);
    assert_eq!(config.policy, BackPressurePolicy::default());
}

#[test]
fn parts_may_be_left_out_and_what_is_not_given_follows_the_lower_level() {
    let config = read(&[(BUSY, "depth=4h,age=96h")]).unwrap().unwrap();
    assert_eq!(config.policy.busy.refused, None);
    assert_eq!(config.policy.overloaded.depth, Some(48 * 3_600));
    assert_eq!(config.policy.overloaded.age, Some(96 * 3_600));
}

#[test]
fn every_invalid_value_is_refused_with_name_value_and_what_is_allowed() {
    for (name, value, allowed) in [
        (BUSY, "depth=4", "off, or one or more of depth=TIME"),
        (OVERLOADED, "age=1h", "nothing below TIDEGATE_BACK_PRESSURE_BUSY, which is depth=12h"),
        ("TIDEGATE_STORE", "bucket", "s3://BUCKET or s3://BUCKET/PREFIX"),
        ("TIDEGATE_MERGE_QUEUE_URL", "https://sqs.example/1/x", "ending in .fifo"),
    ] {
        let text = read(&[(name, value)]).unwrap_err().to_string();
        let shown = format!("{name} is \"{value}\"; allowed is ");
        assert!(text.starts_with(&shown) && text.contains(allowed), "{text}");
    }
}

#[test]
fn both_functions_read_where_the_store_is_and_only_the_poller_defers() {
    let given = [("TIDEGATE_STORE", "s3://tides/store"), ("TIDEGATE_DEFERRAL", "on")];
    let poller = PollerConfig::from_variables(lookup(&given)).unwrap();
    let scheduler = SchedulerConfig::from_variables(lookup(&given)).unwrap().store;
    assert_eq!(poller.store.as_ref().map(ToString::to_string).as_deref(), Some("s3://tides/store"));
    assert!(poller.defers);
    assert_eq!(poller.store, scheduler);
    let without = PollerConfig::from_variables(lookup(&[])).unwrap();
    assert_eq!((without.store, without.defers), (None, false));
}
