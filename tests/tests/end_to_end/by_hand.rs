//! The poller tried by hand, and then `EventBridge`'s rule, which takes over.

use std::time::Duration;

use serde_json::json;
use tidegate_core::Window;
use tidegate_delivery::ports::QueueDepth;
use tokio::time::{Instant, sleep};

use crate::site::{Answer, BIG, DEAD_LETTERS, Site, event, mail, message, now};

fn end(answer: &Answer) -> &str {
    assert!(!answer.failed, "{answer:?}");
    answer.payload["end"].as_str().unwrap()
}

/// Serves the seconds that come, until so many mails have arrived in all; what was said meanwhile.
async fn serve_until(site: &mut Site, mails: usize) -> String {
    let mut log = String::new();
    for _ in 0..10 {
        let answer = site.poll(&event("empty_tick.json")).await;
        assert_eq!(end(&answer), "served", "{answer:?}");
        log.push_str(&answer.log);
        if site.look().await.len() >= mails {
            return log;
        }
    }
    panic!("{} of {mails} mails after ten windows: {log}", site.arrivals().len());
}

/// Every message in `events/` is one that Tidegate sends, and what it was is what arrives.
async fn messages_of_the_events_are_sent(site: &mut Site) {
    let names =
        ["message_short.json", "message_long.json", "message_template.json", "message_raw.json"];
    site.put(BIG, &names.map(|name| message(event(name)))).await;
    serve_until(site, 4).await;
    let mut recipients: Vec<u32> =
        site.arrivals().iter().map(|arrival| arrival.recipients).collect();
    recipients.sort_unstable();
    assert_eq!(recipients, [1, 1, 2, 4]);
    assert!(site.arrivals().iter().all(|arrival| arrival.campaign == "big"));
}

async fn a_window_that_is_over_or_far_ahead_is_a_result_not_a_failure(site: &Site) {
    assert_eq!(end(&site.poll(&event("tick.json")).await), "expired");
    let window = Window::containing(now()).plus(10);
    let early = json!({ "window": window, "rate_per_second": 14.0 });
    assert_eq!(end(&site.poll(&early.to_string()).await), "early");
}

async fn a_malformed_tick_fails_with_its_member_named(site: &Site) {
    let cases = [
        (json!({ "window": "2026-11-20T20:36:07Z", "rate": 14.0 }), "`rate`"),
        (json!({ "window": "2026-11-20T20:36:07Z" }), "`rate_per_second`"),
        (
            json!({ "window": "soon", "rate_per_second": 14.0 }),
            "`window`: \"soon\" is no window; allowed is",
        ),
        (json!([14]), "the tick is malformed"),
    ];
    for (tick, named) in cases {
        let answer = site.poll(&tick.to_string()).await;
        assert!(answer.failed, "{answer:?}");
        assert_eq!(answer.payload["errorType"], "InvalidTick", "{answer:?}");
        let said = answer.payload["errorMessage"].as_str().unwrap();
        assert!(said.contains(named) && said.contains("allowed is"), "{said}");
    }
}

/// Mails that SES does not answer for: kept for a later attempt, the others unharmed.
async fn a_silent_ses_costs_an_attempt_and_no_mail(site: &mut Site) {
    site.change(json!({ "faults": ["timeout,to=*@slow.example"] })).await;
    let mails =
        ["slow1@slow.example", "grace@example.com", "slow2@slow.example", "alan@example.com"];
    site.put(BIG, &mails.map(mail)).await;
    let log = serve_until(site, 6).await;
    let delayed = QueueDepth { delayed: 2, ..QueueDepth::default() };
    let until = Instant::now() + Duration::from_secs(10);
    while site.depth(BIG).await != delayed {
        assert!(Instant::now() < until, "{:?}; {log}", site.depth(BIG).await);
        sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(site.depth(DEAD_LETTERS).await, QueueDepth::default());
    assert!(
        log.contains("\"outcome\":\"ambiguous\"") && log.contains("\"possibly_sent\":true"),
        "{log}"
    );
    assert!(!log.contains("slow.example"), "recipients stay out of the log: {log}");
    site.change(json!({ "faults": [] })).await;
}

#[tokio::test]
async fn the_poller_serves_by_hand_and_the_rule_takes_over() {
    let mut site = Site::start(|setup| setup.schedule = true).await;
    messages_of_the_events_are_sent(&mut site).await;
    a_window_that_is_over_or_far_ahead_is_a_result_not_a_failure(&site).await;
    a_malformed_tick_fails_with_its_member_named(&site).await;
    a_silent_ses_costs_an_attempt_and_no_mail(&mut site).await;

    // From here on nobody invokes anything but EventBridge; the retries are due within a minute.
    site.put(BIG, &["last@example.com"].map(mail)).await;
    let rule = site.aws.first_trigger.saturating_duration_since(Instant::now()).as_secs();
    site.wait_for(9, rule + 75).await;
    site.wait_until_empty(10).await;
    let keys = |text: &str| site.arrivals().iter().filter(|mail| mail.key.contains(text)).count();
    assert_eq!((site.arrivals().len(), keys("@slow.example"), keys("last@")), (9, 2, 1));
}
