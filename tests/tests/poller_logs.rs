//! Checks the functions' log events, and that they contain no addresses.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tidegate_core::limiter::WaitingMails;
use tidegate_delivery::ports::Queues as _;
use tidegate_fakes::{Fault, Operation, Rule, failures};
use tidegate_lambda::{LogLines, begin_invocation};
use tidegate_simulator::ProducedMail;
use tidegate_tests::simulation::mail::{MailVariation as _, produced};
use tidegate_tests::simulation::{FEEDBACK, World, WorldSettings};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Collects the log of this thread until the guard is dropped.
fn logged() -> (Log, tracing::subscriber::DefaultGuard) {
    let log = Log::default();
    let lines = log.clone();
    let subscriber = tracing_subscriber::fmt().json().with_max_level(LevelFilter::DEBUG);
    let subscriber = subscriber.with_writer(move || lines.clone()).finish();
    (log, tracing::subscriber::set_default(subscriber))
}

impl Log {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_received_more_than_a_hundred_times_is_an_alarm_and_no_dead_letter() {
    let (log, _guard) = logged();
    let world = World::new(WorldSettings::new(20.0, false).campaigns(&[("news", 1)]));
    world.fill("news", 1).await;
    let queue =
        world.queues.urls().into_iter().find(|url| url.as_str().ends_with("/news")).unwrap();
    let client = world.queues.client();
    let alarm = "received again and again";
    for round in 0..101 {
        if round == 100 {
            assert!(!log.text().contains(alarm), "before it was received a hundred times");
        }
        let received = client.receive(&queue, 1, Duration::ZERO).await.unwrap();
        let receipts = [received[0].receipt.clone()];
        client.set_visibility(&queue, &receipts, Duration::ZERO).await.unwrap();
    }
    world.run(3).await;
    assert!(log.text().contains(alarm), "{}", log.text());
    assert!(world.reports().iter().any(|report| report.highest_receive_count > 100));
    assert_eq!((world.accepted().len(), world.dead_letters().len()), (1, 0));
}

/// Regression: the hold's event held SES's message, which names the addresses that failed.
#[tokio::test(start_paused = true)]
async fn no_event_of_a_refused_a_held_or_a_sent_mail_holds_an_address() {
    let (log, _guard) = logged();
    let world = World::new(WorldSettings::new(20.0, true));
    world.fill("big", 60).await;
    world.fill("small", 40).await;
    let unverified = Rule::new(Fault::Before(failures::not_verified())).on(Operation::Mail);
    world.mail_faults.add(unverified.at("small/"));
    world.run(10).await;
    let text = log.text();
    for event in ["\"sent\"", "\"not sent\"", "sending is held"] {
        assert!(text.contains(event), "{event} is not logged");
    }
    let told: Vec<&str> = text.lines().filter(|line| line.contains('@')).collect();
    assert!(told.is_empty(), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn feedback_that_is_none_is_deleted_and_logged_without_an_address() {
    let (log, _guard) = logged();
    let world = World::new(WorldSettings::new(20.0, true).variable("TIDEGATE_FEEDBACK", "hold"));
    let bodies = [
        r#"{"bounce": {"bouncedRecipients": [{"emailAddress": "ada@example.com"}]}}"#,
        r#"{"kind": "bounce", "campaign": "ada@example.com", "id": "1"}"#,
        r#"{"kind": "bounce", "campaign": "big", "id": "0102018f-1"}"#,
        "ada@example.com",
    ];
    world.put_raw(FEEDBACK, &bodies.map(|body| produced(body.to_owned()))).await;
    world.schedule().await;
    assert!(world.contents(FEEDBACK).is_empty());
    let minutes = world.minute_reports.borrow();
    assert_eq!((minutes[0].feedback.unreadable, minutes[0].feedback.bounced["big"]), (3, 1));
    let text = log.text();
    assert!(!text.contains('@'), "{text}");
    assert_eq!(text.matches("feedback that is none, deleted").count(), 3, "{text}");
    assert!(text.contains("campaign is not allowed: 1 to 64 letters"), "{text}");
    assert!(text.contains("0102018f-1"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn each_window_logs_once_at_debug_what_it_left_by_line_and_priority_and_which_limits_are_closed()
 {
    let (log, _guard) = logged();
    let world = World::new(WorldSettings::new(5.0, false).campaigns(&[("news", 1)]));
    let closed = serde_json::json!({"until": "2000-01-01T00:00:00Z"});
    let closed = serde_json::from_value(closed).unwrap();
    world
        .control(|control| {
            control.limits.insert("campaign:other".parse().unwrap(), Some(closed));
        })
        .await;
    let mails = ProducedMail::several("m", 40, 1).into_iter().map(|mail| mail.at("high"));
    world.put("news", &mails.collect::<Vec<_>>()).await;
    world.run(12).await;
    let text = log.text();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .filter(|line| line.contains("window over"))
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["fields"].clone())
        .collect();
    let windows: BTreeSet<&str> =
        lines.iter().map(|line| line["window"].as_str().unwrap()).collect();
    assert!(windows.len() == lines.len() && lines.len() >= 8, "{lines:?}");
    assert!(lines.iter().all(|line| line["closed"] == "campaign:other"), "{lines:?}");
    let of = |line: &serde_json::Value, name: &str| line[name].as_u64().unwrap();
    assert!(lines.iter().all(|line| of(line, "high") == of(line, "campaigns")), "{lines:?}");
    // Before the mail came to its end no slot was left, and after it all of them.
    assert!(lines.iter().any(|line| of(line, "slots_left") == 0), "{lines:?}");
    assert!(lines.iter().any(|line| of(line, "slots_left") >= 4), "{lines:?}");
    let shown = world.ledger_now().await.window_left.unwrap();
    assert!(shown.slots >= 4 && shown.mails == WaitingMails::default(), "{shown:?}");
}

/// The queries of the page on metrics, by name.
fn queries() -> BTreeMap<String, String> {
    let page = include_str!("../../docs/operations/metrics.md");
    let blocks = page.split("<!-- insights: ").skip(1).map(|block| {
        let (name, rest) = block.split_once(" -->").unwrap();
        let query = rest.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
        (name.to_owned(), query.replace('\n', " "))
    });
    blocks.collect()
}

/// What Logs Insights makes of JSON: a boolean is 1 or 0.
fn cell(line: &Value, field: &str) -> String {
    match &line[field] {
        Value::Bool(is) => u8::from(*is).to_string(),
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Runs a query of Logs Insights, as far as ours go: filter by `=` and `or`, fields, stats, sort, limit.
fn insights(query: &str, lines: &[Value]) -> Vec<BTreeMap<String, String>> {
    let mut rows: Vec<BTreeMap<String, String>> = Vec::new();
    let mut lines: Vec<&Value> = lines.iter().collect();
    for command in query.split('|').map(str::trim) {
        let (name, rest) = command.split_once(' ').unwrap();
        match name {
            "filter" => {
                let is_equal = |line: &Value, condition: &str| {
                    let (field, value) = condition.split_once(" = ").unwrap();
                    cell(line, field.trim()) == value.trim().trim_matches('"')
                };
                lines.retain(|line| rest.split(" or ").any(|condition| is_equal(line, condition)));
            }
            "fields" => {
                let row = |line: &&Value| {
                    rest.split(", ").map(|of| (of.to_owned(), cell(line, of))).collect()
                };
                rows = lines.iter().map(row).collect();
            }
            "stats" => {
                let (what, by) = rest.split_once(" by ").unwrap();
                let (function, name) = what.split_once(" as ").unwrap();
                let mut groups: BTreeMap<Vec<String>, Vec<String>> = BTreeMap::new();
                for (number, line) in lines.iter().enumerate() {
                    let counted = match function.strip_prefix("count_distinct(") {
                        Some(field) => cell(line, field.trim_end_matches(')')),
                        None => number.to_string(),
                    };
                    let group = by.split(", ").map(|field| cell(line, field)).collect();
                    groups.entry(group).or_default().push(counted);
                }
                let row = |(group, counted): (Vec<String>, Vec<String>)| {
                    let count = counted.into_iter().collect::<BTreeSet<_>>().len().to_string();
                    let cells = by.split(", ").map(str::to_owned).zip(group);
                    cells.chain([(name.to_owned(), count)]).collect()
                };
                rows = groups.into_iter().map(row).collect();
            }
            "sort" => {
                let (field, order) = rest.split_once(' ').unwrap();
                let key = |row: &BTreeMap<String, String>| {
                    let text = row[field].clone();
                    (text.parse::<u64>().ok(), text)
                };
                rows.sort_by_key(key);
                if order == "desc" {
                    rows.reverse();
                }
            }
            "limit" => rows.truncate(rest.parse().unwrap()),
            other => panic!("{other} is no command that is known here"),
        }
    }
    rows
}

#[tokio::test(start_paused = true)]
async fn the_pages_queries_find_errors_minutes_cold_starts_and_one_mail_in_recorded_lines() {
    let log = Log::default();
    let lines = LogLines::new(log.clone(), "mail-poller".to_owned(), Some(256));
    let subscriber = tracing_subscriber::registry().with(LevelFilter::DEBUG).with(lines);
    let guard = tracing::subscriber::set_default(subscriber);
    begin_invocation("request-1", "arn:poller", None);
    let world = World::new(WorldSettings::new(20.0, false).campaigns(&[("news", 1)]));
    // A minute is told against the one before.
    world.schedule().await;
    world.put("news", &[ProducedMail::new("42"), ProducedMail::new("43")]).await;
    let refused = Rule::new(Fault::Before(failures::rejected())).on(Operation::Mail);
    world.mail_faults.add(refused.at("news/43"));
    world.run(3).await;
    begin_invocation("request-2", "arn:poller", None);
    world.schedule().await;
    drop(guard);
    let text = log.text();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found: BTreeMap<String, _> =
        queries().into_iter().map(|(name, query)| (name, insights(&query, &lines))).collect();
    let of = |name: &str, field: &str| -> Vec<String> {
        found[name].iter().map(|row| row[field].clone()).collect()
    };
    assert!(of("errors", "level").iter().all(|level| level == "WARN" || level == "ERROR"));
    assert!(!found["errors"].is_empty(), "{text}");
    assert_eq!(
        (of("minutes", "sent"), of("minutes", "dead")),
        (vec!["1".to_owned()], vec!["1".to_owned()])
    );
    assert_eq!(
        (of("cold starts", "function_name"), of("cold starts", "cold_starts")),
        (vec!["mail-poller".to_owned()], vec!["1".to_owned()])
    );
    assert_eq!(of("one mail", "message"), ["sent"]);
    assert_eq!(of("one mail", "function_request_id"), ["request-1"]);
}
