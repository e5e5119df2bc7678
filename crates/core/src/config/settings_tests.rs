//! The list of settings against the parser, and the files that are generated from the list.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde::Serialize;
use snapbox::{assert_data_eq, file};

use super::tests::{poller, scheduler, variables};
use super::*;
use crate::daily::Reserve;
use crate::rate::Rate;

/// Settings whose errors name the faulty part instead of the range.
const EXPLAINED: [&str; 4] = [
    "TIDEGATE_LIMITS",
    "TIDEGATE_ALLOWED_SENDERS",
    "TIDEGATE_ORIGINS",
    "TIDEGATE_ALLOWED_COUNTRIES",
];

/// Values that a setting takes, and others that it refuses; in `infra/settings.json` they test the
/// patterns of the SAM template and the CDK construct, too.
#[derive(Serialize)]
struct Examples {
    takes: Vec<String>,
    refuses: Vec<String>,
}

fn examples(takes: &[&str], refuses: &[&str]) -> Examples {
    let owned = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    Examples { takes: owned(takes), refuses: owned(refuses) }
}

/// The ends of a range and the values just outside; of a text, what differs in form.
fn examples_of(setting: &Setting) -> Examples {
    match setting.range {
        Range::Whole(least, most) => Examples {
            takes: vec![least.to_string(), most.to_string()],
            refuses: vec![
                least.checked_sub(1).map_or_else(|| "-1".to_owned(), |below| below.to_string()),
                (most + 1).to_string(),
                format!("{least}.5"),
            ],
        },
        Range::Number(least, most) => Examples {
            takes: vec![least.to_string(), most.to_string()],
            refuses: vec![
                (least / 2.0).to_string(),
                (most * 1.001).to_string(),
                "0".to_owned(),
                "NaN".to_owned(),
            ],
        },
        Range::Choice(words) => examples(words, &["other"]),
        Range::StandardQueue => {
            examples(&["https://sqs.example/1/x"], &["x", "https://sqs.example/1/x.fifo"])
        }
        Range::FifoQueue => {
            examples(&["http://sqs.example/1/x.fifo"], &["x.fifo", "https://sqs.example/1/x"])
        }
        Range::Text(_) => examples_of_text(setting.name),
    }
}

fn examples_of_text(name: &str) -> Examples {
    match name {
        "TIDEGATE_CAMPAIGNS" => examples(
            &["ledger", r#"[{"name": "a", "queue_url": "https://q/a", "weight": 1}]"#],
            &["[]", "a", r#"[{"name": "a", "queue_url": "https://q/a", "weight": 0}]"#],
        ),
        "TIDEGATE_ORIGINS" => examples(&["*", "+12065550100,NEWS"], &["two words", "a,,b"]),
        "TIDEGATE_ALLOWED_COUNTRIES" => examples(&["*", "+1,+49"], &["49", "DE", "+0"]),
        "TIDEGATE_ALARM_TOPIC" => examples(
            &["arn:aws:sns:eu-west-1:123456789012:tidegate-alarms"],
            &["tidegate-alarms", "arn:aws:sqs:eu-west-1:123456789012:alarms", "arn:aws:sns:x"],
        ),
        "TIDEGATE_EVENT_BUS" => examples(
            &["default", "outcomes.mail"],
            &["two words", "arn:aws:events:eu-west-1:123456789012:event-bus/outcomes"],
        ),
        "TIDEGATE_TRACES" => examples(
            &["http://localhost:4318/v1/traces", "https://otel.example.org/v1/traces"],
            &["localhost:4318", "http://localhost:4318", "http://a b/"],
        ),
        "TIDEGATE_LIMITS" => examples(
            &["gmail.com=10/s", "gmail.com+googlemail.com=10/s, tiny.example=6/m, *=2.5%"],
            &["gmail.com", "gmail.com=fast", "gmail.com=10", "=10/s", "*=10/w", "*=1/s;a.b=1/s"],
        ),
        "TIDEGATE_LIMIT_QUEUES" => examples(
            &["https://q/a, https://q/b"],
            &["https://q/a.fifo", "https://q/a,https://q/a"],
        ),
        "TIDEGATE_CAMPAIGN_FLOOR" => {
            examples(&["0%", "9%", "20%", "90%"], &["91%", "100%", "20", "0.2", "2.5%", "-1%"])
        }
        "TIDEGATE_SHARED_BUCKET" => examples(
            &["redis://cache.example", "rediss://ada:s%40crt@cache.example:6380/1"],
            &["cache.example:6379", "http://cache.example", "redis://", "redis://cache example"],
        ),
        "TIDEGATE_SHARED_BUCKET_PREFIX" => {
            examples(&["tidegate", "eu.mail-1_a"], &["a{b}", "a b", &"x".repeat(65)])
        }
        "TIDEGATE_BACK_PRESSURE_BUSY" | "TIDEGATE_BACK_PRESSURE_OVERLOADED" => examples(
            &["off", "depth=12h", "age=1h30m", "refused=2.5%", "depth=4h,age=14d,refused=5%"],
            &[
                "on",
                "4h",
                "depth=4",
                "depth=4.5h",
                "refused=5",
                "age=4h,",
                "off,age=4h",
                "age=1h;depth=1h",
            ],
        ),
        "TIDEGATE_STORE" => {
            examples(&["s3://tides", "s3://tides/deferral"], &["tides", "s3://", "s3://tides/"])
        }
        "TIDEGATE_POLLER_FUNCTION" => examples(&["poller"], &[]),
        "TIDEGATE_LEDGER" => examples(&["memory", "dynamodb:mail"], &["redis", "dynamodb:"]),
        "TIDEGATE_ALLOWED_SENDERS" => examples(
            &["*", "*@example.org", "news@example.org,*@example.net"],
            &["@@", "news", "news-*@example.org", "two words@example.org"],
        ),
        "TIDEGATE_CAMPAIGN_QUEUES" => examples(&["mail-campaign-"], &["mail*", "https://q/mail"]),
        "TIDEGATE_CONFIGURATION_SET" => examples(&["mail"], &["mail.example", "a b"]),
        "TIDEGATE_DAILY_RESERVE" => {
            examples(&["0", "500", "0%", "2.5%", "99%"], &["100%", "99.5%", "1.5", "-1", "some"])
        }
        name => panic!("{name} needs examples"),
    }
}

/// The refusals of `setting` if it has this value and every other variable fits it.
fn refusals(setting: &Setting, value: &str) -> Vec<InvalidVariable> {
    let given = |name: &str| match name {
        name if name == setting.name => Some(value.to_owned()),
        "TIDEGATE_FEEDBACK_QUEUE_URL" => Some("https://sqs.example/1/feedback".to_owned()),
        "TIDEGATE_BACK_PRESSURE_BUSY" => Some("off".to_owned()),
        name => variables().get(name).map(|value| (*value).to_owned()),
    };
    let errors =
        [PollerConfig::from_variables(given).err(), SchedulerConfig::from_variables(given).err()];
    let all = errors.into_iter().flatten().flat_map(|error| error.0);
    all.filter(|invalid| invalid.name == setting.name).collect()
}

#[test]
fn the_parser_takes_what_lies_in_each_settings_range_and_nothing_beside() {
    for setting in SETTINGS {
        let Examples { takes, refuses } = examples_of(setting);
        for value in takes {
            assert_eq!(refusals(setting, &value), [], "{}={value}", setting.name);
        }
        for value in refuses {
            let refusals = refusals(setting, &value);
            assert!(!refusals.is_empty(), "{}={value}", setting.name);
            let range = setting.range.to_string();
            let states_it = |invalid: &InvalidVariable| invalid.allowed == range;
            assert!(
                EXPLAINED.contains(&setting.name) || refusals.iter().all(states_it),
                "{}: {refusals:?}",
                setting.name
            );
        }
    }
}

#[test]
fn a_start_without_a_variable_is_refused_if_the_list_says_that_it_is_required() {
    for setting in SETTINGS {
        let refused = poller(&[(setting.name, "")]).err().into_iter();
        let names: Vec<_> = refused
            .chain(scheduler(&[(setting.name, "")]).err())
            .flat_map(|error| error.0.into_iter().map(|invalid| invalid.name))
            .collect();
        let is_required = setting.default == DefaultValue::Required;
        assert_eq!(names.contains(&setting.name), is_required, "{}", setting.name);
    }
}

#[test]
fn giving_every_setting_its_default_changes_nothing() {
    let value = |setting: &Setting| match setting.default {
        DefaultValue::Value(value) => Some((setting.name, value)),
        _ => None,
    };
    let defaults: Vec<_> = SETTINGS.iter().filter_map(value).collect();
    assert_eq!(poller(&defaults), poller(&[]));
    let feedback =
        [("TIDEGATE_FEEDBACK", "hold"), ("TIDEGATE_FEEDBACK_QUEUE_URL", "https://sqs.example/1/f")];
    let given: Vec<_> = defaults.into_iter().chain(feedback).collect();
    assert_eq!(scheduler(&given), scheduler(&feedback));
}

#[test]
fn each_function_reads_the_variables_of_the_list_that_are_its_own() {
    for (other, function) in
        [(ReadBy::Scheduler, ReadBy::Poller), (ReadBy::Poller, ReadBy::Scheduler)]
    {
        let read = RefCell::new(BTreeSet::new());
        let lookup = |name: &str| {
            read.borrow_mut().insert(name.to_owned());
            variables().get(name).map(|value| (*value).to_owned())
        };
        if function == ReadBy::Poller {
            drop(PollerConfig::from_variables(lookup));
        } else {
            drop(SchedulerConfig::from_variables(lookup));
        }
        let mut read = read.into_inner();
        read.retain(|name| *name != settings::MEMORY.name);
        let own = SETTINGS.iter().filter(|setting| setting.read_by != other);
        assert_eq!(read, own.map(|setting| setting.name.to_owned()).collect(), "{function:?}");
    }
}

#[test]
fn a_types_own_error_states_the_range_of_its_setting() {
    for (error, setting) in [
        (Rate::per_second(0.0).unwrap_err().to_string(), settings::QUOTA),
        (RateMargin::new(1.0).unwrap_err().to_string(), settings::RATE_MARGIN),
        ("some".parse::<Reserve>().unwrap_err().to_string(), settings::DAILY_RESERVE),
    ] {
        assert!(error.contains(&setting.range.to_string()), "{error}");
    }
    assert_eq!(settings::SHARED_BUCKET_PREFIX.default, DefaultValue::Value("tidegate"));
}

/// A setting as the tests of `infra` read it.
#[derive(Serialize)]
struct Entry {
    name: &'static str,
    read_by: String,
    range: serde_json::Value,
    default: Option<&'static str>,
    meaning: &'static str,
    #[serde(flatten)]
    examples: Examples,
}

impl Entry {
    fn of(setting: &Setting) -> Self {
        let range = match setting.range {
            Range::Whole(least, most) => serde_json::json!({ "whole": [least, most] }),
            Range::Number(least, most) => serde_json::json!({ "number": [least, most] }),
            Range::Choice(words) => serde_json::json!({ "choice": words }),
            other => serde_json::json!({ "text": other.to_string() }),
        };
        let default = match setting.default {
            DefaultValue::Value(value) => Some(value),
            _ => None,
        };
        Self {
            name: setting.name,
            read_by: functions(setting),
            range,
            default,
            meaning: setting.meaning,
            examples: examples_of(setting),
        }
    }
}

/// `poller`, `scheduler` or `both`.
fn functions(setting: &Setting) -> String {
    format!("{:?}", setting.read_by).to_lowercase()
}

/// The table's row of a setting.
fn row(setting: &Setting) -> String {
    let default = match setting.default {
        DefaultValue::Required => "required".to_owned(),
        DefaultValue::Value(value) => format!("`{value}`"),
        DefaultValue::Otherwise(text) => text.to_owned(),
    };
    // In Markdown both begin emphasis.
    let range = setting.range.to_string().replace('*', r"\*").replace('_', r"\_");
    let functions = functions(setting);
    format!("| `{}` | {functions} | {default} | {range} | {} |", setting.name, setting.meaning)
}

#[test]
fn infra_has_the_list_of_the_settings() {
    let lines: Vec<_> =
        SETTINGS.iter().map(|s| serde_json::to_string(&Entry::of(s)).unwrap()).collect();
    let list = format!("[\n{}\n]\n", lines.join(",\n"));
    assert_data_eq!(list, file!["../../../../infra/settings.json": Text].raw());
}

#[test]
fn the_documentation_has_the_table_of_the_settings() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(path).unwrap();
    let lines: Vec<String> = page.lines().map(str::to_owned).collect();
    let table = lines.iter().position(|line| line.starts_with("| variable ")).unwrap();
    let (before, rest) = lines.split_at(table);
    let after = rest.iter().skip_while(|line| line.starts_with('|'));
    let heading = ["| variable | of | default | allowed | meaning |", "|---|---|---|---|---|"];
    let rows = heading.map(str::to_owned).into_iter().chain(SETTINGS.iter().map(row));
    let whole: Vec<_> = before.iter().cloned().chain(rows).chain(after.cloned()).collect();
    let whole = format!("{}\n", whole.join("\n"));
    assert_data_eq!(whole, file!["../../../../docs/configuration.md": Text].raw());
}
