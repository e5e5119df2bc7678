//! Checks the functions' log events, and that they contain no addresses.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_core::limiter::WaitingMails;
use tidegate_delivery::ports::Queues as _;
use tidegate_fakes::{Fault, Operation, Rule, failures};
use tidegate_simulator::ProducedMail;
use tidegate_tests::simulation::mail::{MailVariation as _, produced};
use tidegate_tests::simulation::{FEEDBACK, World, WorldSettings};
use tracing_subscriber::filter::LevelFilter;

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
