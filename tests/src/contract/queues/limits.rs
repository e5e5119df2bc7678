//! Calls that every server refuses.

use tidegate_delivery::ports::{FailureKind, PortError};

use super::{
    AT_ONCE, Behaviour, Bench, Outgoing, QueueRoom, QueueUrl, Queues, SECOND, behaviours, in_group,
    message,
};

pub(super) fn behaviours(room: &impl QueueRoom) -> Vec<Behaviour<'_>> {
    behaviours![room =>
        a_missing_queue_is_named_so_by_every_operation,
        a_batch_over_one_mebibyte_is_refused_whole,
        a_large_batch_within_one_mebibyte_passes,
        a_batch_of_more_than_ten_is_refused_whole,
        a_forbidden_body_fails_alone_among_good_ones,
        a_delay_on_a_fifo_queue_is_refused,
    ]
}

async fn a_missing_queue_is_named_so_by_every_operation(room: &impl QueueRoom) {
    let there = room.create(false).await;
    let url = QueueUrl::new(format!("{there}-missing"));
    let (queues, receipts) = (room.queues(), ["receipt".to_owned()]);
    let errors: [PortError; 5] = [
        queues.receive(&url, 1, AT_ONCE).await.unwrap_err(),
        queues.send(&url, &[message("a")]).await.unwrap_err(),
        queues.delete(&url, &receipts).await.unwrap_err(),
        queues.set_visibility(&url, &receipts, AT_ONCE).await.unwrap_err(),
        queues.depth(&url).await.unwrap_err(),
    ];
    let operations = errors.map(|error| {
        assert_eq!(error.kind, FailureKind::NotFound, "{error}");
        assert_eq!(error.resource, url.as_str());
        error.operation
    });
    let expected = [
        "ReceiveMessage",
        "SendMessageBatch",
        "DeleteMessageBatch",
        "ChangeMessageVisibilityBatch",
        "GetQueueAttributes",
    ];
    assert_eq!(operations, expected);
}

const MEBIBYTE: usize = 1_048_576;

async fn a_batch_over_one_mebibyte_is_refused_whole(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    let half = message(&"x".repeat(MEBIBYTE / 2));
    let batch = [half.clone(), half, message("x")];
    let error = bench.queues().send(&bench.url, &batch).await.unwrap_err();
    let FailureKind::Refused(code) = error.kind else { unreachable!("{error}") };
    assert!(code.contains("BatchRequestTooLong"), "{code}");
    assert_eq!(bench.bodies().await, [""; 0]);
}

async fn a_large_batch_within_one_mebibyte_passes(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    let half = message(&"x".repeat(MEBIBYTE / 2));
    assert_eq!(half.bytes() * 2, MEBIBYTE);
    assert_eq!(bench.send_batch(&[half.clone(), half]).await, [Ok(()), Ok(())]);
    let received = bench.receive(10).await;
    assert!(received.iter().all(|message| message.body.len() == MEBIBYTE / 2));
    assert_eq!(received.len(), 2);
}

async fn a_batch_of_more_than_ten_is_refused_whole(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    let batch: Vec<Outgoing> = (0..11).map(|_| message("a")).collect();
    let error = bench.queues().send(&bench.url, &batch).await.unwrap_err();
    let FailureKind::Refused(code) = error.kind else { unreachable!("{error}") };
    assert!(code.contains("TooManyEntriesInBatchRequest"), "{code}");
    assert_eq!(bench.bodies().await, [""; 0]);
}

async fn a_forbidden_body_fails_alone_among_good_ones(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    let batch = [message("a"), message("\u{1}"), message("b")];
    let answers = bench.send_batch(&batch).await;
    assert_eq!((&answers[0], &answers[2]), (&Ok(()), &Ok(())));
    assert_eq!(answers[1].as_ref().unwrap_err().code, "InvalidMessageContents");
    assert_eq!(bench.receive(10).await.len(), 2);
}

async fn a_delay_on_a_fifo_queue_is_refused(room: &impl QueueRoom) {
    let bench = Bench::fifo(room).await;
    let late = Outgoing { delay: SECOND, ..in_group("a", "a", "1") };
    let answers = bench.send_batch(&[late]).await;
    assert_eq!(answers[0].as_ref().unwrap_err().code, "InvalidParameterValue");
}
