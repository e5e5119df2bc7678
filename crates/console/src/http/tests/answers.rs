use std::collections::BTreeSet;

use axum::http::StatusCode;
use serde_json::{Value, json};
use tidegate_core::Window;
use tidegate_core::counters::{Counter, LedgerSums};
use tidegate_core::limiter::{WaitingMails, WindowLeft};
use tidegate_delivery::ports::{Clock as _, Ledger as _, LedgerReport};

use super::super::metrics::METRICS;
use super::{App, EpochMillis, about, access, call, console, csrf};
use crate::event::{ChangeKind, StateChange};
use crate::stream::StreamRegistry;
use crate::stream::tests::change;
use crate::tests::{on, world};

#[tokio::test(start_paused = true)]
async fn the_history_has_curves_and_the_changes_of_its_span() {
    console(access("127.0.0.1:7878", None), async |app| {
        app.shared.hub.change(|registry| {
            let now = (app.now)();
            registry.publish(StateChange { at: now, ..change(ChangeKind::Hold, "now") });
            let before = EpochMillis::new(now.as_millis() - 7 * 3_600_000);
            registry.publish(StateChange { at: before, ..change(ChangeKind::Hold, "before") });
        });
        tokio::time::sleep(std::time::Duration::from_mins(2)).await;
        for (span, titles) in [("6h", vec!["now"]), ("2d", vec!["now", "before"])] {
            let path = format!("/api/history?span={span}");
            let answer = call(&app, "GET", &path, &[], Value::Null).await.json();
            assert!(!answer["series"]["t"].as_array().unwrap().is_empty(), "{answer}");
            let changes = answer["changes"].as_array().unwrap().iter();
            let told: Vec<_> = changes.map(|change| change["title"].as_str().unwrap()).collect();
            assert_eq!(told, titles, "{span}");
        }
        let refused = call(&app, "GET", "/api/history?span=1y", &[], Value::Null).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        assert!(refused.body.contains("6h") && refused.body.contains("2d"), "{}", refused.body);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_history_has_more_changes_by_operators_than_a_stream_repeats() {
    console(access("127.0.0.1:7878", None), async |app| {
        let csrf = csrf(&app, &[]).await;
        for weight in 1..=30 {
            let body = json!({"action": "weights", "weights": {"big": weight}, "reason": "x"});
            let done = call(&app, "POST", "/api/steer", &[&csrf], body).await;
            assert_eq!(done.status, StatusCode::OK, "{}", done.body);
        }
        tokio::time::sleep(std::time::Duration::from_mins(2)).await;
        let changes = call(&app, "GET", "/api/changes", &[], Value::Null).await.json();
        assert_eq!(changes.as_array().unwrap().len(), 30);
        let told = app.shared.hub.look(StreamRegistry::state);
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["figures"]["status"]["changes"].as_array().unwrap().len(), 20);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_query_that_cannot_be_read_is_answered_as_all_input_is() {
    console(access("127.0.0.1:7878", None), async |app| {
        let twice = "/api/events?last_event_id=a&last_event_id=b";
        let refused = call(&app, "GET", twice, &[], Value::Null).await;
        assert_eq!(
            (refused.status, &refused.json()["code"]),
            (StatusCode::BAD_REQUEST, &"input".into())
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn bad_input_names_the_field_the_value_and_what_is_allowed() {
    console(access("127.0.0.1:7878", None), async |app| {
        let csrf = csrf(&app, &[]).await;
        let long = "x".repeat(201);
        for (path, body, field, said) in [
            ("/api/steer", json!({"action": "pause", "reason": " "}), "reason", "1 to 200"),
            ("/api/steer", json!({"action": "pause", "reason": long}), "reason", "201 characters"),
            (
                "/api/steer",
                json!({"action": "pause", "campaign": "bog", "reason": "x"}),
                "campaign",
                "no campaign bog",
            ),
            (
                "/api/steer",
                json!({"action": "pause", "for_s": 0, "reason": "x"}),
                "for_s",
                "30 days",
            ),
            (
                "/api/steer",
                json!({"action": "rate", "cap": 0.0, "reason": "x"}),
                "cap",
                "0.001 to 10000",
            ),
            (
                "/api/steer",
                json!({"action": "weights", "weights": {"big": 0, "small": 0}, "reason": "x"}),
                "weights",
                "not all 0",
            ),
            (
                "/api/steer",
                json!({"action": "lift", "hold": "refusals", "reason": "x"}),
                "hold",
                "there is no hold at all",
            ),
            (
                "/api/steer",
                json!({"action": "resume", "reason": "x", "by": "y".repeat(61)}),
                "by",
                "at most 60",
            ),
            ("/api/why", json!({"id": " "}), "id", "1 to 256"),
            ("/api/why", json!({"id": "x".repeat(257)}), "id", "257 characters"),
            ("/api/why", json!({"id": "a\u{7}b"}), "id", "control characters"),
            ("/api/dead/show", json!({"id": "none"}), "id", "none"),
            ("/api/dead/discard", json!({"id": "none", "reason": "x"}), "id", "none"),
            ("/api/dead/replay", json!({"review": "r9", "reason": "x"}), "review", "r9"),
            ("/api/dead/replay", json!({"review": "r9", "reason": ""}), "reason", "1 to 200"),
            (
                "/api/dead/replay",
                json!({"review": "r9", "reason": "x", "per_second": 0.0}),
                "per_second",
                "0.01 to 10000",
            ),
        ] {
            let refused = call(&app, "POST", path, &[&csrf], body.clone()).await;
            assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{body} {}", refused.body);
            let answer = refused.json();
            assert_eq!(
                (&answer["code"], &answer["field"]),
                (&"input".into(), &field.into()),
                "{body}"
            );
            assert!(answer["error"].as_str().unwrap().contains(said), "{}", refused.body);
        }
        for (body, said) in [
            (json!({"action": "burn", "reason": "x"}), "burn"),
            (json!({"action": "pause", "reason": "x", "campagin": "big"}), "campagin"),
            (json!({"action": "pause"}), "reason"),
        ] {
            let refused = call(&app, "POST", "/api/steer", &[&csrf], body).await;
            assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
            assert!(refused.json()["error"].as_str().unwrap().contains(said), "{}", refused.body);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn every_answer_carries_what_keeps_others_out() {
    console(access("127.0.0.1:7878", None), async |app| {
        for path in ["/", "/login", "/assets/app.css", "/api/session", "/api/events", "/nothing"] {
            let answer = call(&app, "GET", path, &[], Value::Null).await;
            let policy = answer.header("content-security-policy");
            assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{path}");
            assert!(
                policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"),
                "{path}"
            );
            assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
            assert_eq!(answer.header("referrer-policy"), "no-referrer", "{path}");
            assert!(answer.header("access-control-allow-origin").is_empty(), "{path}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_page_loads_nothing_from_elsewhere_and_its_files_once_compressed() {
    console(access("127.0.0.1:7878", None), async |app| {
        let page = call(&app, "GET", "/", &[], Value::Null).await;
        assert_eq!(page.header("cache-control"), "no-cache");
        let pieces: Vec<&str> =
            page.body.split(['"', '\'']).filter(|text| text.contains("assets/")).collect();
        assert!(pieces.len() > 30, "{pieces:?}");
        assert!(!page.body.contains("http://") && !page.body.contains("https://"));
        let (mut plain, mut sent) = (0, 0);
        for path in pieces {
            let file = call(&app, "GET", path, &[], Value::Null).await;
            assert_eq!(file.status, StatusCode::OK, "{path}");
            assert_eq!(file.header("cache-control"), "public, max-age=31536000, immutable");
            assert_eq!(
                (file.header("content-encoding"), file.header("vary")),
                ("", "accept-encoding")
            );
            let known = format!("if-none-match: {}", file.header("etag"));
            let again = call(&app, "GET", path, &[&known], Value::Null).await;
            assert_eq!((again.status, again.body.len()), (StatusCode::NOT_MODIFIED, 0), "{path}");
            let refused = ["accept-encoding: br, gzip;q=0"];
            let refused = call(&app, "GET", path, &refused, Value::Null).await;
            assert_eq!(refused.header("content-encoding"), "", "{path}");
            let taken = ["accept-encoding: br, GZIP;q=0.5"];
            let taken = super::send(&app, "GET", path, &taken, Value::Null).await;
            assert_eq!(taken.headers()["content-encoding"], "gzip", "{path}");
            plain += file.body.len();
            sent += super::to_bytes(taken.into_body(), 1 << 24).await.unwrap().len();
        }
        assert!(sent * 2 < plain, "{sent} of {plain} bytes");
        let main = page.body.split('"').find(|text| text.ends_with("/main.js")).unwrap();
        let below = main.strip_suffix("/js/main.js").unwrap();
        let licence = format!("{below}/vendor/LICENSE");
        let others = ["/assets/../Cargo.toml", "/assets/js/main.js", "/assets/none.js", "/assets/"];
        for nothing in others.into_iter().chain([licence.as_str()]) {
            let answer = call(&app, "GET", nothing, &[], Value::Null).await;
            assert_eq!(answer.status, StatusCode::NOT_FOUND, "{nothing}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_says_what_a_proxy_must_know_and_one_too_many_is_refused() {
    console(access("127.0.0.1:7878", None), async |app| {
        let stream = call(&app, "GET", "/api/events", &[], Value::Null).await;
        assert_eq!(stream.header("content-type"), "text/event-stream");
        assert_eq!(stream.header("x-accel-buffering"), "no");
        assert_eq!(stream.header("cache-control"), "no-cache");
        let hub = &app.shared.hub;
        let address = tidegate_operator::connections::ClientAddress::of([127, 0, 0, 1].into());
        let open: Vec<_> = (0..3).map(|_| hub.subscribe(address, None).unwrap()).collect();
        let refused = call(&app, "GET", "/api/events", &[], Value::Null).await;
        assert_eq!(
            (refused.status, refused.header("retry-after")),
            (StatusCode::TOO_MANY_REQUESTS, "5")
        );
        drop(open);
        assert_eq!(call(&app, "GET", "/api/events", &[], Value::Null).await.status, StatusCode::OK);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn metrics_say_how_streams_and_regulator_stand() {
    console(access("127.0.0.1:7878", None), async |app| {
        let csrf = csrf(&app, &[]).await;
        for (limit, status) in [
            (json!({"rate": "fast"}), StatusCode::BAD_REQUEST),
            (json!({"rate": "5/s", "hours": "08:00-20:00"}), StatusCode::OK),
        ] {
            let body = json!({"action": "limit", "key": "big", "limit": limit, "reason": "test"});
            let answer = call(&app, "POST", "/api/steer", &[&csrf], body).await;
            assert_eq!(answer.status, status, "{}", answer.body);
        }
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        let answer = call(&app, "GET", "/metrics", &[], Value::Null).await;
        assert!(answer.header("content-type").starts_with("application/openmetrics-text"));
        for line in [
            "tidegate_console_streams_open 0.0",
            "tidegate_console_bucket_empty_total 0",
            "tidegate_console_streams_refused_total{of=\"session\"} 0",
            "tidegate_quota_recipients_per_second{of=\"account\"} 20.0",
            "tidegate_breaker{state=\"allowing\"} 1.0",
            "tidegate_serving{state=\"never\"} 1.0",
            "tidegate_queue_messages{queue=\"big\",state=\"visible\"} 0.0",
            "tidegate_sent_recipients_total{campaign=\"small\"} 0",
            "tidegate_slots_unused_total 0",
            "tidegate_limit_waiting_recipients{limit=\"campaign:big\"} 0.0",
            "tidegate_dead_lettered_mails_total 0",
            "tidegate_windows_served_total 0",
            "tidegate_possibly_sent_mails_total 0",
            "# EOF",
        ] {
            assert!(
                answer.body.lines().any(|found| found == line),
                "{line} is not in\n{}",
                answer.body
            );
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn metrics_say_what_the_last_window_left() {
    let world = world();
    let now = world.universe.clock().wall();
    let mails = WaitingMails { limited: [0, 4, 0, 0], ..WaitingMails::default() };
    let left = WindowLeft { window: Window::containing(now), slots: 3, mails };
    let report = LedgerReport { window_left: Some(left), ..LedgerReport::default() };
    world.ledger.report(&report).await.unwrap();
    on(&world, async |shared| {
        let clock = Box::new(move || now.into());
        let app = App::new(shared, access("127.0.0.1:7878", None), about(), clock).unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        let metrics = call(&app, "GET", "/metrics", &[], Value::Null).await.body;
        for line in [
            "tidegate_window_slots_left 3.0",
            "tidegate_window_mails_left{line=\"limited\",priority=\"high\"} 4.0",
            "tidegate_window_mails_left{line=\"express\",priority=\"low\"} 0.0",
        ] {
            assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn each_total_of_the_ledger_is_a_metric_with_the_meaning_that_the_list_gives() {
    console(access("127.0.0.1:7878", None), async |app| {
        let metrics = call(&app, "GET", "/metrics", &[], Value::Null).await.body;
        let has_none = |counter: &&Counter| {
            let is_in_parts =
                matches!(counter.entry().ledger, LedgerSums::None | LedgerSums::ByCampaign);
            is_in_parts || **counter == Counter::Sent
        };
        let totals = Counter::ALL.iter().filter(|counter| !has_none(counter));
        let meanings: Vec<&str> = totals.map(|counter| counter.entry().meaning).collect();
        assert!(meanings.len() > 15);
        for meaning in meanings {
            let named = metrics
                .lines()
                .filter(|line| line.starts_with("# HELP") && line.ends_with(meaning));
            assert_eq!(named.count(), 1, "{meaning} in\n{metrics}");
        }
    })
    .await;
}

#[test]
fn the_docs_name_every_metric() {
    let docs = include_str!("../../../../../docs/commands/console.md");
    for (name, _) in METRICS {
        let name = name.trim_start_matches("console_");
        let is_named = [format!("`{name}`"), format!("`{name}_total`")];
        assert!(is_named.iter().any(|named| docs.contains(named)), "{name}");
    }
}

/// Every metric that an example of an alert goes by is one that the console has.
#[tokio::test(start_paused = true)]
async fn the_examples_of_alerts_are_about_metrics_that_there_are() {
    let alerts = include_str!("../../../../../infra/console/alerts.yaml");
    let words = alerts.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let named: BTreeSet<&str> = words.filter(|word| word.starts_with("tidegate_")).collect();
    assert!(named.len() > 8, "{named:?}");
    console(access("127.0.0.1:7878", None), async |app| {
        let metrics = call(&app, "GET", "/metrics", &[], Value::Null).await.body;
        for name in named {
            let family = name.trim_end_matches("_total");
            let is_there = metrics.contains(&format!("# TYPE {family} "));
            assert!(is_there, "{name} is not in\n{metrics}");
        }
    })
    .await;
}
