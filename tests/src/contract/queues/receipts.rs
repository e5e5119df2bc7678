//! Behaviours of visibility timeouts, receipts and deletes.

use super::{
    AT_ONCE, Behaviour, Bench, PAST_A_SECOND, QueueRoom, Queues, SECOND, behaviours, in_group,
    message,
};

pub(super) fn behaviours(room: &impl QueueRoom) -> Vec<Behaviour<'_>> {
    behaviours![room =>
        a_received_message_is_invisible_until_its_timeout_and_counts_again,
        a_message_released_is_visible_at_once,
        a_deleted_message_never_comes_back,
        a_longer_visibility_keeps_a_message_away,
        a_receipt_expired_but_not_replaced_still_deletes_on_a_standard_queue,
        a_replaced_receipt_does_not_delete,
        an_invalid_receipt_fails_alone_among_good_ones,
    ]
}

async fn a_received_message_is_invisible_until_its_timeout_and_counts_again(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    bench.send(message("a")).await;
    let first = bench.receive_one().await;
    assert_eq!(bench.bodies().await, [""; 0]);
    assert_eq!(bench.show_again(&first.receipt, SECOND).await, Ok(()));
    assert_eq!(bench.bodies().await, [""; 0]);
    tokio::time::sleep(PAST_A_SECOND).await;
    let second = bench.receive_one().await;
    assert_eq!((&second.message_id, second.receive_count), (&first.message_id, 2));
    assert_eq!(second.sent_at_millis, first.sent_at_millis);
}

async fn a_message_released_is_visible_at_once(room: &impl QueueRoom) {
    for bench in [Bench::standard(room).await, Bench::fifo(room).await] {
        let message = if bench.url.is_fifo() { in_group("a", "g", "1") } else { message("a") };
        bench.send(message).await;
        let first = bench.receive_one().await;
        assert_eq!(bench.show_again(&first.receipt, AT_ONCE).await, Ok(()));
        assert_eq!(bench.receive_one().await.receive_count, 2);
    }
}

async fn a_deleted_message_never_comes_back(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    bench.send_batch(&[message("a"), message("b")]).await;
    let received = bench.receive(10).await;
    assert_eq!(bench.show_again(&received[0].receipt, SECOND).await, Ok(()));
    assert_eq!(bench.show_again(&received[1].receipt, SECOND).await, Ok(()));
    assert_eq!(bench.delete(&received[0].receipt).await, Ok(()));
    tokio::time::sleep(PAST_A_SECOND).await;
    assert_eq!(bench.receive_one().await.body, received[1].body);
}

async fn a_longer_visibility_keeps_a_message_away(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    bench.send(message("a")).await;
    let first = bench.receive_one().await;
    assert_eq!(bench.show_again(&first.receipt, SECOND).await, Ok(()));
    assert_eq!(bench.show_again(&first.receipt, SECOND * 60).await, Ok(()));
    tokio::time::sleep(PAST_A_SECOND).await;
    assert_eq!(bench.bodies().await, [""; 0]);
}

async fn a_receipt_expired_but_not_replaced_still_deletes_on_a_standard_queue(
    room: &impl QueueRoom,
) {
    let bench = Bench::standard(room).await;
    bench.send(message("a")).await;
    let receipt = bench.receive_one().await.receipt;
    assert_eq!(bench.show_again(&receipt, AT_ONCE).await, Ok(()));
    assert_eq!(bench.delete(&receipt).await, Ok(()));
    assert_eq!(bench.bodies().await, [""; 0]);
}

async fn a_replaced_receipt_does_not_delete(room: &impl QueueRoom) {
    for bench in [Bench::standard(room).await, Bench::fifo(room).await] {
        let message = if bench.url.is_fifo() { in_group("a", "g", "1") } else { message("a") };
        bench.send(message).await;
        let first = bench.receive_one().await;
        assert_eq!(bench.show_again(&first.receipt, AT_ONCE).await, Ok(()));
        let second = bench.receive_one().await;
        // What the answer says differs by queue and server; the message stays.
        let _ = bench.delete(&first.receipt).await;
        assert_eq!(bench.show_again(&second.receipt, AT_ONCE).await, Ok(()));
        assert_eq!(bench.receive_one().await.receive_count, 3);
    }
}

async fn an_invalid_receipt_fails_alone_among_good_ones(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    bench.send_batch(&[message("a"), message("b")]).await;
    let received = bench.receive(10).await;
    let receipts =
        [received[0].receipt.clone(), "no-receipt".to_owned(), received[1].receipt.clone()];
    let changed = bench.queues().set_visibility(&bench.url, &receipts, SECOND * 5).await.unwrap();
    let deleted = bench.queues().delete(&bench.url, &receipts).await.unwrap();
    for answers in [changed, deleted] {
        assert_eq!((&answers[0], &answers[2]), (&Ok(()), &Ok(())));
        let error = answers[1].as_ref().unwrap_err();
        assert!(error.code.contains("ReceiptHandleIsInvalid"), "{error}");
    }
}
