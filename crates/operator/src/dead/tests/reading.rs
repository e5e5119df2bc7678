use std::collections::BTreeSet;

use tidegate_delivery::ports::FailureKind;
use tidegate_fakes::{Fault, Latency, MessageState, Operation, Rule};

use super::*;
use crate::redact::AddressVisibility;

fn all_visible(bench: &Bench) -> bool {
    bench.standing("dead").iter().all(|message| message.place == MessageState::Visible)
}

#[tokio::test(start_paused = true)]
async fn reading_shows_every_letter_once_and_leaves_it_where_it_was() {
    let bench = Bench::new();
    let millis = Duration::from_millis;
    bench.memory.set_latency(Latency::between(millis(10), millis(30)));
    bench.put(&several(137)).await;
    let reading = bench.read().await;
    let ids: BTreeSet<String> = reading.letters.iter().map(Letter::id).collect();
    assert_eq!((reading.letters.len(), ids.len()), (137, 137));
    assert!(reading.coverage.is_whole() && all_visible(&bench));
    assert!(bench.standing("dead").iter().all(|message| message.receive_count == 1));
    // And again: nothing has to wait for a visibility timeout.
    assert_eq!(bench.read().await.letters.len(), 137);
}

#[tokio::test(start_paused = true)]
async fn reading_what_sqs_counts_takes_no_long_poll_more() {
    for letters in [0, 3, 137] {
        let bench = Bench::new();
        bench.memory.set_latency(Latency::always(Duration::from_millis(20)));
        bench.put(&several(letters)).await;
        let before = bench.universe.elapsed();
        assert_eq!(bench.read().await.letters.len(), letters);
        let took = bench.universe.elapsed().saturating_sub(before);
        assert!(took <= Duration::from_millis(500), "{letters}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn letters_that_the_count_lacks_yet_are_read() {
    let bench = Bench::new();
    let lagging = QueueSettings { depth_lag: Duration::from_mins(1), ..QueueSettings::default() };
    bench.memory.create(&bench.dead, lagging);
    assert_eq!(bench.queues.depth(&bench.dead).await.unwrap().visible, 0);
    bench.put(&several(12)).await;
    assert_eq!(bench.read().await.letters.len(), 12);
}

#[tokio::test(start_paused = true)]
async fn a_reading_longer_than_the_visibility_timeout_hides_what_it_has() {
    let bench = Bench::new();
    bench.put(&several(300)).await;
    let slow = Latency::always(Duration::from_secs(9));
    bench.plan.add(Rule::new(Fault::Slow(slow)).on(Operation::Receive));
    let reading = bench.read().await;
    assert_eq!(reading.letters.len(), 300);
    assert!(bench.universe.elapsed() > Duration::from_secs(40));
    let again = bench.standing("dead").into_iter().filter(|message| message.receive_count > 1);
    assert_eq!(again.count(), 0, "received more than once: it was not kept hidden");
    assert!(all_visible(&bench));
}

#[tokio::test(start_paused = true)]
async fn an_error_and_an_interruption_leave_all_visible() {
    for interrupted in [true, false] {
        let bench = Bench::new();
        bench.put(&several(300)).await;
        let slow = Latency::always(Duration::from_secs(1));
        bench.plan.add(Rule::new(Fault::Slow(slow)).on(Operation::Receive));
        if !interrupted {
            let refused = Fault::Before(FailureKind::Denied("AccessDenied".to_owned()));
            bench.plan.add(Rule::new(refused).on(Operation::Receive).nth(20));
        }
        let stop = async {
            if interrupted {
                tokio::time::sleep(Duration::from_millis(2_500)).await;
            } else {
                pending::<()>().await;
            }
        };
        let read = read(&bench.queues, &bench.clock, &bench.dead, 1_000, stop, |_| {}).await;
        match read {
            Ok(reading) => {
                assert!(interrupted && reading.coverage.interrupted);
                assert_eq!(reading.letters.len(), 160);
            }
            Err(error) => assert!(!interrupted && error.to_string().contains("denied"), "{error}"),
        }
        // A receive that was called off may have hidden up to ten; nothing else is.
        let hidden =
            bench.standing("dead").into_iter().filter(|m| m.place != MessageState::Visible);
        assert!(hidden.count() <= 80);
        tokio::time::sleep(Duration::from_secs(31)).await;
        assert!(all_visible(&bench) && bench.standing("dead").len() == 300);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_not_read_is_said() {
    let bench = Bench::new();
    bench.put(&several(50)).await;
    let limited =
        read(&bench.queues, &bench.clock, &bench.dead, 20, pending(), |_| {}).await.unwrap();
    assert_eq!((limited.letters.len(), limited.coverage.limited), (20, true));
    assert_eq!(limited.coverage.unread(), 30, "not all that there could ever be");
    assert!(all_visible(&bench));
    // Another reader has some.
    let another = bench.memory.receive(&bench.dead, 10, Duration::ZERO).await.unwrap();
    let reading = bench.read().await;
    assert_eq!(reading.coverage.hidden_before, another.len() as u64);
    assert_eq!(reading.coverage.unread(), another.len() as u64);
    assert_eq!(reading.letters.len() + another.len(), 50);
    assert!(!reading.coverage.is_whole());
    let refused = Fault::Before(FailureKind::TimedOut);
    bench.plan.add(Rule::new(refused).on(Operation::SetVisibility));
    assert_eq!(bench.read().await.coverage.still_hidden, 40);
}

#[tokio::test(start_paused = true)]
async fn a_letter_is_found_by_every_name_it_has() {
    let bench = Bench::new();
    bench.put(&several(3)).await;
    bench.put(&[raw("not ours".to_owned(), Vec::new())]).await;
    let reading = bench.read().await;
    let mine = reading.letters.iter().find(|letter| letter.id() == "m-1");
    let here = mine.unwrap().message_id.clone();
    for name in ["m-1", "big/id/m-1", "sqs-m-1", here.as_str()] {
        let found: Vec<_> = reading.letters.iter().filter(|letter| letter.is(name)).collect();
        assert!(found.len() == 1 && found[0].id() == "m-1", "{name}");
    }
    assert!(!reading.letters.iter().any(|letter| letter.is("m-7")));
    assert_eq!(reading.letters.iter().filter(|letter| letter.entry().is_none()).count(), 1);
}

/// Regression: it was known by its SQS message id alone.
#[tokio::test(start_paused = true)]
async fn a_letter_of_a_body_that_is_no_mail_is_found_by_its_id() {
    let bench = Bench::new();
    let body = r#"{"id": "order-7", "to": "nobody", "tempalte": 1, "text": "cut o"#;
    let entry = DeadLetter {
        message_id: "sqs-7".to_owned(),
        campaign: "big".to_owned(),
        to: vec![],
        first_attempt_at: None,
        last_attempt_at: None,
        attempts: 0,
        last_error: LastError {
            code: Some("NotJson".to_owned()),
            http_status: None,
            provider_message: String::new(),
        },
        message: body.to_owned(),
    };
    let message = entry.into_queue_message(None, SQS_LIMIT_BYTES).unwrap();
    bench.put(&[raw(message.body, message.attributes)]).await;
    let reading = bench.read().await;
    let now = EpochMillis::from(bench.universe.now());
    for name in ["order-7", "big/id/order-7", "sqs-7"] {
        let shown = show(&reading, name, now, AddressVisibility::Masked, false);
        assert_eq!(shown.len(), 1, "{name}");
        assert_eq!(shown[0].id, "order-7");
        let filter = LetterFilter { ids: vec![name.to_owned()], ..LetterFilter::default() };
        assert_eq!(bench.review(filter, false).await.groups.len(), 1, "{name}");
    }
}
