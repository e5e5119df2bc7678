//! Behaviours of SQS itself, which local stand-ins leave out.

use tidegate_delivery::ports::FailureKind;

use super::{
    AT_ONCE, Behaviour, Bench, Outgoing, QueueRoom, Queues, SECOND, behaviours, in_group, message,
};

pub(super) fn behaviours(room: &impl QueueRoom) -> Vec<Behaviour<'_>> {
    behaviours![room =>
        a_deleted_message_may_be_deleted_again,
        an_outdated_receipt_is_accepted_and_ignored_by_a_standard_queue,
        an_expired_receipt_is_refused_by_a_fifo_queue_and_its_message_stays,
        a_message_that_is_not_in_flight_has_no_visibility_to_change,
        an_empty_attribute_is_refused_alone_among_good_messages,
        an_eleventh_attribute_is_refused,
        attributes_count_towards_the_size_of_a_batch,
        a_delay_over_fifteen_minutes_is_refused,
        a_fifo_message_without_a_group_is_refused,
        a_standard_queue_refuses_a_deduplication_id,
        a_receive_asks_for_one_to_ten_messages_and_waits_at_most_twenty_seconds,
        an_empty_batch_is_refused,
        a_receipt_of_another_queue_is_refused,
        a_deduplication_id_is_forgotten_after_five_minutes,
        a_visibility_timeout_of_thirty_seconds_ends_to_the_second,
        a_message_released_wakes_a_long_poll,
        a_message_deleted_from_its_group_wakes_a_long_poll,
    ]
}

/// The code of a send's only entry, refused.
async fn refusal(bench: &Bench<'_, impl QueueRoom>, message: Outgoing) -> String {
    bench.send_batch(&[message]).await.remove(0).unwrap_err().code
}

async fn a_deleted_message_may_be_deleted_again(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    bench.send(message("a")).await;
    let receipt = bench.receive_one().await.receipt;
    assert_eq!(bench.delete(&receipt).await, Ok(()));
    assert_eq!(bench.delete(&receipt).await, Ok(()));
}

async fn an_outdated_receipt_is_accepted_and_ignored_by_a_standard_queue(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    bench.send(message("a")).await;
    let first = bench.receive_one().await;
    tokio::time::sleep(SECOND * 30).await;
    let second = bench.receive_one().await;
    assert_eq!(bench.delete(&first.receipt).await, Ok(()));
    assert_eq!(bench.queues().depth(&bench.url).await.unwrap().in_flight, 1);
    assert_eq!(bench.delete(&second.receipt).await, Ok(()));
    assert_eq!(bench.queues().depth(&bench.url).await.unwrap().in_flight, 0);
}

async fn an_expired_receipt_is_refused_by_a_fifo_queue_and_its_message_stays(
    room: &impl QueueRoom,
) {
    let bench = Bench::fifo(room).await;
    bench.send(in_group("a", "a", "1")).await;
    let first = bench.receive_one().await;
    tokio::time::sleep(SECOND * 30).await;
    let error = bench.delete(&first.receipt).await.unwrap_err();
    assert_eq!(error.code, "ReceiptHandleIsInvalid");
    let second = bench.receive_one().await;
    assert!(bench.delete(&first.receipt).await.is_err());
    assert_eq!(bench.delete(&second.receipt).await, Ok(()));
}

async fn a_message_that_is_not_in_flight_has_no_visibility_to_change(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    bench.send(message("a")).await;
    let receipt = bench.receive_one().await.receipt;
    assert_eq!(bench.show_again(&receipt, AT_ONCE).await, Ok(()));
    assert!(bench.show_again(&receipt, SECOND).await.is_err());
    let receipt = bench.receive_one().await.receipt;
    assert_eq!(bench.delete(&receipt).await, Ok(()));
    assert!(bench.show_again(&receipt, SECOND).await.is_err());
}

async fn an_empty_attribute_is_refused_alone_among_good_messages(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    let empty = Outgoing { attributes: vec![("campaign", String::new())], ..message("bad") };
    let answers = bench.send_batch(&[message("a"), empty, message("b")]).await;
    assert_eq!((&answers[0], &answers[2]), (&Ok(()), &Ok(())));
    assert_eq!(answers[1].as_ref().unwrap_err().code, "InvalidParameterValue");
    assert_eq!(bench.bodies().await, ["a", "b"]);
}

async fn an_eleventh_attribute_is_refused(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"];
    let with = |count: usize| {
        let attributes = names[..count].iter().map(|name| (*name, "value".to_owned()));
        Outgoing { attributes: attributes.collect(), ..message("a") }
    };
    bench.send(with(10)).await;
    assert_eq!(refusal(&bench, with(11)).await, "InvalidParameterValue");
}

async fn attributes_count_towards_the_size_of_a_batch(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    let with = |bytes: usize| {
        let attributes = vec![("name", "x".repeat(bytes))];
        Outgoing { attributes, ..message(&"x".repeat(1_000_000)) }
    };
    // 1,000,000 of the body, 4 of the name, 6 of the type `String`.
    bench.send(with(48_566)).await;
    let error = bench.queues().send(&bench.url, &[with(48_567)]).await.unwrap_err();
    assert!(matches!(error.kind, FailureKind::Refused(_)), "{error}");
}

async fn a_delay_over_fifteen_minutes_is_refused(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    bench.send(Outgoing { delay: SECOND * 900, ..message("a") }).await;
    let later = Outgoing { delay: SECOND * 901, ..message("a") };
    assert_eq!(refusal(&bench, later).await, "InvalidParameterValue");
}

async fn a_fifo_message_without_a_group_is_refused(room: &impl QueueRoom) {
    let bench = Bench::fifo(room).await;
    assert_eq!(refusal(&bench, message("a")).await, "MissingParameter");
    assert_eq!(refusal(&bench, in_group("a", "two words", "1")).await, "InvalidParameterValue");
    let long = "x".repeat(129);
    assert_eq!(refusal(&bench, in_group("a", "a", &long)).await, "InvalidParameterValue");
}

async fn a_standard_queue_refuses_a_deduplication_id(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    assert_eq!(refusal(&bench, in_group("a", "a", "1")).await, "InvalidParameterValue");
}

async fn a_receive_asks_for_one_to_ten_messages_and_waits_at_most_twenty_seconds(
    room: &impl QueueRoom,
) {
    let bench = Bench::standard(room).await;
    for (max, wait) in [(0, AT_ONCE), (11, AT_ONCE), (1, SECOND * 21)] {
        let error = bench.queues().receive(&bench.url, max, wait).await.unwrap_err();
        assert!(matches!(error.kind, FailureKind::Refused(_)), "{error}");
    }
}

async fn an_empty_batch_is_refused(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    let error = bench.queues().send(&bench.url, &[]).await.unwrap_err();
    assert!(matches!(error.kind, FailureKind::Refused(_)), "{error}");
    let error = bench.queues().delete(&bench.url, &[]).await.unwrap_err();
    assert!(matches!(error.kind, FailureKind::Refused(_)), "{error}");
}

async fn a_receipt_of_another_queue_is_refused(room: &impl QueueRoom) {
    let (here, there) = (Bench::standard(room).await, Bench::standard(room).await);
    here.send(message("a")).await;
    there.send(message("a")).await;
    let receipt = here.receive_one().await.receipt;
    there.receive_one().await;
    assert_eq!(there.delete(&receipt).await.unwrap_err().code, "ReceiptHandleIsInvalid");
    assert_eq!(there.queues().depth(&there.url).await.unwrap().in_flight, 1);
}

async fn a_deduplication_id_is_forgotten_after_five_minutes(room: &impl QueueRoom) {
    let bench = Bench::fifo(room).await;
    bench.send(in_group("first", "a", "1")).await;
    let first = bench.receive_one().await;
    assert_eq!(bench.delete(&first.receipt).await, Ok(()));
    tokio::time::sleep(SECOND * 299).await;
    // Repeating it does not prolong it.
    bench.send(in_group("second", "a", "1")).await;
    assert_eq!(bench.bodies().await, [""; 0]);
    tokio::time::sleep(SECOND).await;
    bench.send(in_group("third", "a", "1")).await;
    assert_eq!(bench.bodies().await, ["third"]);
}

async fn a_visibility_timeout_of_thirty_seconds_ends_to_the_second(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    bench.send(message("a")).await;
    bench.receive_one().await;
    tokio::time::sleep(SECOND * 29).await;
    assert_eq!(bench.bodies().await, [""; 0]);
    tokio::time::sleep(SECOND).await;
    assert_eq!(bench.bodies().await, ["a"]);
}

async fn a_message_released_wakes_a_long_poll(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    bench.send(message("a")).await;
    let receipt = bench.receive_one().await.receipt;
    let asked = tokio::time::Instant::now();
    let release = async {
        tokio::time::sleep(SECOND).await;
        bench.show_again(&receipt, SECOND).await
    };
    let poll = bench.queues().receive(&bench.url, 10, SECOND * 20);
    let (received, released) = tokio::join!(poll, release);
    assert_eq!((received.unwrap().len(), released), (1, Ok(())));
    assert!(asked.elapsed() < SECOND * 3, "{:?}", asked.elapsed());
}

async fn a_message_deleted_from_its_group_wakes_a_long_poll(room: &impl QueueRoom) {
    let bench = Bench::fifo(room).await;
    bench.send(in_group("a1", "a", "1")).await;
    let first = bench.receive_one().await;
    bench.send(in_group("a2", "a", "2")).await;
    let asked = tokio::time::Instant::now();
    let delete = async {
        tokio::time::sleep(SECOND).await;
        bench.delete(&first.receipt).await
    };
    let poll = bench.queues().receive(&bench.url, 10, SECOND * 20);
    let (received, deleted) = tokio::join!(poll, delete);
    assert_eq!((&*received.unwrap()[0].body, deleted), ("a2", Ok(())));
    assert!(asked.elapsed() < SECOND * 2, "{:?}", asked.elapsed());
}
