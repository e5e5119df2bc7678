//! Behaviours of FIFO queues: message groups and deduplication.

use super::{Behaviour, Bench, Outgoing, PAST_A_SECOND, QueueRoom, SECOND, behaviours, in_group};

pub(super) fn behaviours(room: &impl QueueRoom) -> Vec<Behaviour<'_>> {
    behaviours![room =>
        a_group_gives_out_nothing_while_one_of_its_messages_is_in_flight,
        a_deleted_message_frees_its_group,
        a_group_keeps_its_order,
        a_message_that_becomes_visible_again_comes_before_its_group,
        a_repeated_deduplication_id_is_acknowledged_and_not_delivered,
        a_deduplication_id_is_remembered_after_its_message_was_deleted,
        a_deduplication_id_is_of_its_group,
        a_message_a_group_is_received_ten_at_a_time,
    ]
}

async fn a_group_gives_out_nothing_while_one_of_its_messages_is_in_flight(room: &impl QueueRoom) {
    let bench = Bench::fifo(room).await;
    bench.send(in_group("a1", "a", "1")).await;
    assert_eq!(bench.bodies().await, ["a1"]);
    bench.send(in_group("a2", "a", "2")).await;
    bench.send(in_group("b1", "b", "3")).await;
    assert_eq!(bench.bodies().await, ["b1"]);
}

async fn a_deleted_message_frees_its_group(room: &impl QueueRoom) {
    let bench = Bench::fifo(room).await;
    bench.send(in_group("a1", "a", "1")).await;
    let first = bench.receive_one().await;
    bench.send(in_group("a2", "a", "2")).await;
    assert_eq!(bench.bodies().await, [""; 0]);
    assert_eq!(bench.delete(&first.receipt).await, Ok(()));
    assert_eq!(bench.bodies().await, ["a2"]);
}

async fn a_group_keeps_its_order(room: &impl QueueRoom) {
    let bench = Bench::fifo(room).await;
    let batch: Vec<Outgoing> =
        (0..10).map(|n| in_group(&n.to_string(), "a", &n.to_string())).collect();
    bench.send_batch(&batch).await;
    let mut received = Vec::new();
    while received.len() < 10 {
        let part = bench.receive(3).await;
        assert!(!part.is_empty(), "after {received:?}");
        for message in part {
            assert_eq!(bench.delete(&message.receipt).await, Ok(()));
            received.push(message.body.to_string());
        }
    }
    let sent: Vec<String> = batch.into_iter().map(|message| message.body.to_string()).collect();
    assert_eq!(received, sent);
}

async fn a_message_that_becomes_visible_again_comes_before_its_group(room: &impl QueueRoom) {
    let bench = Bench::fifo(room).await;
    bench.send(in_group("a1", "a", "1")).await;
    let first = bench.receive_one().await;
    bench.send(in_group("a2", "a", "2")).await;
    assert_eq!(bench.show_again(&first.receipt, SECOND).await, Ok(()));
    assert_eq!(bench.bodies().await, [""; 0]);
    tokio::time::sleep(PAST_A_SECOND).await;
    let again = bench.receive(1).await;
    assert_eq!((&*again[0].body, again[0].receive_count), ("a1", 2));
}

async fn a_repeated_deduplication_id_is_acknowledged_and_not_delivered(room: &impl QueueRoom) {
    let bench = Bench::fifo(room).await;
    let batch = [in_group("first", "a", "1"), in_group("second", "a", "1")];
    assert_eq!(bench.send_batch(&batch).await, [Ok(()), Ok(())]);
    assert_eq!(&*bench.receive_one().await.body, "first");
}

async fn a_deduplication_id_is_remembered_after_its_message_was_deleted(room: &impl QueueRoom) {
    let bench = Bench::fifo(room).await;
    bench.send(in_group("first", "a", "1")).await;
    let first = bench.receive_one().await;
    assert_eq!(bench.delete(&first.receipt).await, Ok(()));
    bench.send(in_group("again", "a", "1")).await;
    assert_eq!(bench.bodies().await, [""; 0]);
}

async fn a_deduplication_id_is_of_its_group(room: &impl QueueRoom) {
    let bench = Bench::fifo(room).await;
    bench.send_batch(&[in_group("a", "a", "1"), in_group("b", "b", "1")]).await;
    let mut bodies = bench.bodies().await;
    bodies.sort();
    assert_eq!(bodies, ["a", "b"]);
}

async fn a_message_a_group_is_received_ten_at_a_time(room: &impl QueueRoom) {
    let bench = Bench::fifo(room).await;
    let name = |n: usize| n.to_string();
    let batch: Vec<Outgoing> = (0..10).map(|n| in_group(&name(n), &name(n), &name(n))).collect();
    bench.send_batch(&batch).await;
    assert_eq!(bench.receive(10).await.len(), 10);
}
