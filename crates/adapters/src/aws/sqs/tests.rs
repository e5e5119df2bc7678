use serde_json::{Value, json};
use tidegate_core::in_full;
use tidegate_delivery::ports::{FailureKind, Fifo, VISIBILITY_TIMEOUT};
use tokio::time::Instant;

use super::*;
use crate::aws::tests::fake::{Fake, FakeAnswer};

const NO_QUEUE: &str = r#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"The specified queue does not exist."}"#;
const DENIED: &str = r#"{"__type":"com.amazon.coral.service#AccessDeniedException","message":"User: arn:aws:sts::123456789012:assumed-role/poller is not authorized to perform: sqs:deletemessage on resource: arn:aws:sqs:eu-west-1:123456789012:merge.fifo because no identity-based policy allows the sqs:deletemessage action"}"#;

fn standard() -> QueueUrl {
    QueueUrl::new("https://sqs.eu-west-1.amazonaws.com/123456789012/spring")
}

fn fifo() -> QueueUrl {
    QueueUrl::new("https://sqs.eu-west-1.amazonaws.com/123456789012/merge.fifo")
}

fn ok(body: &Value) -> FakeAnswer {
    FakeAnswer::Http(200, &[], body.to_string())
}

fn no_queue() -> FakeAnswer {
    let header = &[("x-amzn-query-error", "AWS.SimpleQueueService.NonExistentQueue;Sender")];
    FakeAnswer::Http(400, header, NO_QUEUE.to_owned())
}

fn sent(body: &str) -> Outgoing {
    Outgoing { body: body.into(), attributes: Vec::new(), delay: Duration::ZERO, fifo: None }
}

#[tokio::test]
async fn a_receive_asks_for_what_is_kept_and_keeps_it() {
    let sqs = Fake::new([ok(&json!({"Messages": [{
        "MessageId": "m-1", "ReceiptHandle": "r-1", "Body": "{}", "MD5OfBody": "not checked",
        "Attributes": {"SentTimestamp": "1700000000123", "ApproximateReceiveCount": "3", "AWSTraceHeader": "Root=1-5"},
        "MessageAttributes": {
            "campaign": {"DataType": "String", "StringValue": "spring"},
            "photo": {"DataType": "Binary", "BinaryValue": "AAEC"},
        },
    }]}))]);
    let queues = SqsQueues::new(&sqs.sqs());
    let received = queues.receive(&standard(), 7, Duration::from_secs(1)).await.unwrap();
    let expected = Received {
        message_id: "m-1".to_owned(),
        receipt: "r-1".to_owned(),
        body: "{}".into(),
        attributes: [("campaign", "spring"), ("AWSTraceHeader", "Root=1-5")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        sent_at_millis: 1_700_000_000_123,
        receive_count: 3,
    };
    assert_eq!(received, [expected]);
    let asked = &sqs.seen()[0];
    assert_eq!(asked.target.as_deref(), Some("AmazonSQS.ReceiveMessage"));
    let expected = json!({
        "QueueUrl": standard().as_str(), "MaxNumberOfMessages": 7, "WaitTimeSeconds": 1,
        "MessageAttributeNames": ["All"],
        "MessageSystemAttributeNames": ["SentTimestamp", "ApproximateReceiveCount", "AWSTraceHeader"],
    });
    assert_eq!(asked.body, expected);
    assert_eq!(queues.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_fifo_receive_tries_again_under_its_own_attempt_id_and_soon() {
    let sqs = Fake::new([FakeAnswer::Break, FakeAnswer::Break, ok(&json!({})), ok(&json!({}))]);
    let queues = SqsQueues::new(&sqs.sqs());
    let began = Instant::now();
    assert_eq!(queues.receive(&fifo(), 10, Duration::ZERO).await.unwrap(), []);
    assert!(began.elapsed() < Duration::from_millis(150), "{:?}", began.elapsed());
    assert_eq!(queues.receive(&fifo(), 10, Duration::ZERO).await.unwrap(), []);
    assert_eq!(queues.calls(), 4, "every attempt counts");
    let ids: Vec<_> =
        sqs.seen().iter().map(|s| s.body["ReceiveRequestAttemptId"].clone()).collect();
    assert!(ids[0].is_string() && ids[0] == ids[1] && ids[1] == ids[2]);
    assert_ne!(ids[2], ids[3]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_queue_costs_a_receive_its_wait_and_little_more() {
    for (wait, at_most) in [(0, 1_500), (1, 2_500)] {
        let silent = Fake::new([FakeAnswer::Silence, FakeAnswer::Silence, FakeAnswer::Silence]);
        let queues = SqsQueues::new(&silent.sqs());
        let began = Instant::now();
        let error = queues.receive(&fifo(), 10, Duration::from_secs(wait)).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::TimedOut);
        assert!(began.elapsed() <= Duration::from_millis(at_most), "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_missing_queue_is_told_by_its_url() {
    let queues = SqsQueues::new(&Fake::new([no_queue()]).sqs());
    let error = queues.receive(&standard(), 10, Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::NotFound);
    let expected = "ReceiveMessage on https://sqs.eu-west-1.amazonaws.com/123456789012/spring \
                    failed: it does not exist";
    assert_eq!(error.to_string(), expected);
    assert!(in_full(&error).contains("The specified queue does not exist."));
    // Emulators answer without the header of the old query protocol.
    let queues = SqsQueues::new(&Fake::once(400, NO_QUEUE).sqs());
    let error = queues.depth(&standard()).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::NotFound);
}

#[tokio::test]
async fn a_batch_is_sent_with_attributes_delay_and_fifo_ids() {
    let answer = json!({
        "Successful": [{"Id": "0", "MessageId": "m-0", "MD5OfMessageBody": "not checked"}],
        "Failed": [{"Id": "1", "Code": "InvalidMessageContents", "SenderFault": true,
            "Message": "Invalid characters found in the message body."}],
    });
    let sqs = Fake::new([ok(&answer)]);
    let queues = SqsQueues::new(&sqs.sqs());
    let first = Outgoing {
        attributes: vec![("campaign", "spring".to_owned())],
        delay: Duration::from_mins(1),
        ..sent("one")
    };
    let fifo_ids = Fifo { group: "g".to_owned(), deduplication: "d".to_owned() };
    let second = Outgoing { fifo: Some(fifo_ids), ..sent("two") };
    let entries = queues.send(&fifo(), &[first, second]).await.unwrap();
    assert_eq!(entries[0], Ok(()));
    let refused = entries[1].as_ref().unwrap_err().to_string();
    assert_eq!(refused, "InvalidMessageContents: Invalid characters found in the message body.");
    let expected = json!([
        {"Id": "0", "MessageBody": "one", "DelaySeconds": 60, "MessageAttributes": {
            "campaign": {"DataType": "String", "StringValue": "spring"}}},
        {"Id": "1", "MessageBody": "two", "MessageGroupId": "g", "MessageDeduplicationId": "d"},
    ]);
    assert_eq!(sqs.seen()[0].body["Entries"], expected);
}

#[tokio::test]
async fn a_batch_too_long_is_refused_by_code() {
    let body = r#"{"__type":"com.amazonaws.sqs#BatchRequestTooLong","message":"Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes."}"#;
    let header = &[("x-amzn-query-error", "AWS.SimpleQueueService.BatchRequestTooLong;Sender")];
    let sqs = Fake::new([FakeAnswer::Http(400, header, body.to_owned())]);
    let error = SqsQueues::new(&sqs.sqs()).send(&standard(), &[sent("x")]).await.unwrap_err();
    let code = "AWS.SimpleQueueService.BatchRequestTooLong".to_owned();
    assert_eq!(error.kind, FailureKind::Refused(code));
}

#[tokio::test]
async fn deletes_answer_receipt_by_receipt() {
    let answer = json!({
        "Successful": [{"Id": "1"}],
        "Failed": [{"Id": "0", "Code": "ReceiptHandleIsInvalid", "SenderFault": true,
            "Message": "The input receipt handle is invalid."}],
    });
    let sqs = Fake::new([ok(&answer)]);
    let receipts = ["r-0".to_owned(), "r-1".to_owned()];
    let entries = SqsQueues::new(&sqs.sqs()).delete(&standard(), &receipts).await.unwrap();
    assert_eq!(entries[0].as_ref().unwrap_err().code, "ReceiptHandleIsInvalid");
    assert_eq!(entries[1], Ok(()));
    let expected =
        json!([{"Id": "0", "ReceiptHandle": "r-0"}, {"Id": "1", "ReceiptHandle": "r-1"}]);
    assert_eq!(sqs.seen()[0].body["Entries"], expected);
}

#[tokio::test]
async fn a_denied_delete_names_the_permission() {
    let header = &[("x-amzn-query-error", "AccessDeniedException;Sender")];
    let sqs = Fake::new([FakeAnswer::Http(400, header, DENIED.to_owned())]);
    let queues = SqsQueues::new(&sqs.sqs());
    let error = queues.delete(&fifo(), &["r".to_owned()]).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Denied("AccessDeniedException".to_owned()));
    assert!(in_full(&error).contains("sqs:deletemessage"), "{}", in_full(&error));
}

#[tokio::test]
async fn visibility_is_set_receipt_by_receipt() {
    let answer = json!({"Successful": [], "Failed": [{"Id": "0", "SenderFault": true,
        "Code": "MessageNotInflight", "Message": "The message referred to is not in flight."}]});
    let sqs = Fake::new([ok(&answer)]);
    let queues = SqsQueues::new(&sqs.sqs());
    let after = Duration::from_secs(2);
    let entries = queues.set_visibility(&fifo(), &["r".to_owned()], after).await.unwrap();
    assert_eq!(entries[0].as_ref().unwrap_err().code, "MessageNotInflight");
    let expected = json!([{"Id": "0", "ReceiptHandle": "r", "VisibilityTimeout": 2}]);
    assert_eq!(sqs.seen()[0].body["Entries"], expected);
}

#[tokio::test]
async fn depth_counts_what_is_visible_in_flight_and_delayed() {
    let attributes = json!({"Attributes": {"ApproximateNumberOfMessages": "12",
        "ApproximateNumberOfMessagesNotVisible": "3", "ApproximateNumberOfMessagesDelayed": "1"}});
    let queues = SqsQueues::new(&Fake::new([ok(&attributes)]).sqs());
    let depth = queues.depth(&standard()).await.unwrap();
    assert_eq!(depth, QueueDepth { visible: 12, in_flight: 3, delayed: 1 });

    let queues = SqsQueues::new(&Fake::new([ok(&json!({}))]).sqs());
    let error = queues.depth(&standard()).await.unwrap_err().to_string();
    assert!(error.contains("an answer without ApproximateNumberOfMessages"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_not_there_costs_other_calls_two_seconds_at_most() {
    let silent = Fake::new([FakeAnswer::Silence, FakeAnswer::Silence, FakeAnswer::Silence]);
    let began = Instant::now();
    let error = SqsQueues::new(&silent.sqs()).send(&standard(), &[sent("x")]).await.unwrap_err();
    assert_eq!((error.kind, began.elapsed()), (FailureKind::TimedOut, QUEUE_CALL));

    let error = SqsQueues::new(&Fake::new([]).sqs()).depth(&standard()).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Unreachable);
    assert!(in_full(&error).contains("connection reset"), "{}", in_full(&error));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_died_unnoticed_leaves_a_delete_time_for_another() {
    let sqs =
        Fake::new([FakeAnswer::Silence, ok(&json!({"Successful": [{"Id": "0"}], "Failed": []}))]);
    let entries = SqsQueues::new(&sqs.sqs()).delete(&standard(), &["r".to_owned()]).await.unwrap();
    assert_eq!(entries, [Ok(())]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_send_is_made_again_only_where_the_queue_knows_its_copies() {
    for (queue, attempts) in [(standard(), 1), (fifo(), 2)] {
        let sqs = Fake::new([FakeAnswer::Silence, FakeAnswer::Silence, FakeAnswer::Silence]);
        let error = SqsQueues::new(&sqs.sqs()).send(&queue, &[sent("x")]).await.unwrap_err();
        assert_eq!((error.kind, sqs.seen().len()), (FailureKind::TimedOut, attempts));
    }
}

#[tokio::test(start_paused = true)]
async fn an_operator_s_line_has_longer_and_less_than_a_visibility_timeout() {
    let silence = || Fake::new([FakeAnswer::Silence, FakeAnswer::Silence]);
    let (sending, receiving) = (silence(), silence());
    let began = Instant::now();
    let error = SqsQueues::patient(&sending.sqs()).send(&standard(), &[sent("x")]).await;
    assert_eq!(error.unwrap_err().kind, FailureKind::TimedOut);
    assert!(began.elapsed() > 5 * QUEUE_CALL && began.elapsed() < VISIBILITY_TIMEOUT);
    let began = Instant::now();
    let error = SqsQueues::patient(&receiving.sqs()).receive(&fifo(), 10, Duration::ZERO).await;
    assert_eq!(error.unwrap_err().kind, FailureKind::TimedOut);
    assert!(began.elapsed() > 5 * QUEUE_CALL && began.elapsed() < VISIBILITY_TIMEOUT);
}

#[tokio::test]
async fn queues_are_listed_page_by_page() {
    let url =
        |n: u32| format!("https://sqs.eu-west-1.amazonaws.com/123456789012/mail-campaign-{n}");
    let sqs = Fake::new([
        ok(&json!({"QueueUrls": [url(1), url(2)], "NextToken": "more"})),
        ok(&json!({"QueueUrls": [url(3)]})),
        ok(&json!({})),
    ]);
    let queues = SqsQueues::new(&sqs.sqs());
    let listed = queues.queues("mail-campaign-").await.unwrap();
    assert_eq!(listed, [1, 2, 3].map(|n| QueueUrl::new(url(n))));
    assert_eq!(queues.queues("mail-campaign-").await.unwrap(), []);
    let seen = sqs.seen();
    assert_eq!(seen[0].target.as_deref(), Some("AmazonSQS.ListQueues"));
    let asked = json!({"QueueNamePrefix": "mail-campaign-", "MaxResults": 1_000});
    assert_eq!(seen[0].body, asked);
    let next =
        json!({"QueueNamePrefix": "mail-campaign-", "MaxResults": 1_000, "NextToken": "more"});
    assert_eq!((&seen[1].body, seen.len(), queues.calls()), (&next, 3, 3));
}

#[tokio::test]
async fn a_page_that_fails_is_no_shorter_list() {
    let page = json!({"QueueUrls": [standard().as_str()], "NextToken": "more"});
    let denied = FakeAnswer::Http(403, &[], DENIED.to_owned());
    let sqs = Fake::new([ok(&page), denied]);
    let error = SqsQueues::new(&sqs.sqs()).queues("spring").await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Denied("AccessDeniedException".to_owned()));
    assert!(error.to_string().starts_with("ListQueues on spring failed"), "{error}");
}

#[tokio::test]
async fn a_queue_tells_its_tags_or_that_it_is_gone() {
    let tags = json!({"Tags": {"tidegate:weight": "30", "team": "news"}});
    let sqs = Fake::new([ok(&tags), ok(&json!({})), no_queue()]);
    let queues = SqsQueues::new(&sqs.sqs());
    let told = queues.tags(&standard()).await.unwrap();
    assert_eq!(told.get("tidegate:weight").map(String::as_str), Some("30"));
    assert_eq!((told.len(), queues.tags(&standard()).await.unwrap().len()), (2, 0));
    assert_eq!(queues.tags(&standard()).await.unwrap_err().kind, FailureKind::NotFound);
    assert_eq!(sqs.seen()[0].target.as_deref(), Some("AmazonSQS.ListQueueTags"));
}

#[test]
fn answers_stand_in_the_order_of_the_entries_whatever_order_they_came_in() {
    let refused = BatchResultErrorEntry::builder()
        .id("1")
        .code("InvalidMessageContents")
        .message("bad")
        .sender_fault(true)
        .build()
        .unwrap();
    let answer = in_order(4, ["3", "0", "9", "x"].into_iter(), &[refused]);
    let codes: Vec<_> = answer.iter().map(|e| e.as_ref().map_err(|e| e.code.as_str())).collect();
    let expected = [Ok(&()), Err("InvalidMessageContents"), Err("Unanswered"), Ok(&())];
    assert_eq!(codes, expected);
}
