//! What is this adapter's own; the rules of SQS are in the contract suite.

use std::time::Duration;

use super::*;

fn memory() -> (MemoryQueues, QueueUrl) {
    let queues = MemoryQueues::new(Universe::starting_at(Timestamp::from_millis(1_000_000)), 1);
    let url = QueueUrl::new("memory://big");
    queues.create(&url, QueueSettings::default());
    (queues, url)
}

fn message(body: &str) -> Outgoing {
    Outgoing { body: body.into(), attributes: vec![], delay: Duration::ZERO, fifo: None }
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_ids_and_receipts() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let (queues, url) = memory();
        queues.send(&url, &[message("a"), message("b")]).await.unwrap();
        runs.push(queues.receive(&url, 10, Duration::ZERO).await.unwrap());
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0][0].message_id, runs[0][1].message_id);
}

#[tokio::test(start_paused = true)]
async fn a_call_acts_halfway_through_its_latency_even_if_the_caller_gives_up_then() {
    let (queues, url) = memory();
    queues.set_latency(Latency::always(Duration::from_millis(20)));
    let batch = [message("a")];
    let send = queues.send(&url, &batch);
    assert!(tokio::time::timeout(Duration::from_millis(9), send).await.is_err());
    assert!(queues.contents(&url).is_empty());
    let send = queues.send(&url, &batch);
    assert!(tokio::time::timeout(Duration::from_millis(15), send).await.is_err());
    assert_eq!(queues.contents(&url).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn short_polls_of_a_sampling_queue_miss_a_lone_message_and_long_polls_find_it() {
    let (queues, url) = memory();
    queues.reconfigure(&url, QueueSettings { sampling: 0.5, ..QueueSettings::default() });
    queues.send(&url, &[message("lone")]).await.unwrap();
    let mut found = 0;
    for _ in 0..100 {
        let received = queues.receive(&url, 1, Duration::ZERO).await.unwrap();
        found += received.len();
        for message in received {
            queues.set_visibility(&url, &[message.receipt], Duration::ZERO).await.unwrap();
        }
    }
    assert!((30..70).contains(&found), "{found}");
    assert_eq!(queues.receive(&url, 1, Duration::from_secs(1)).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_depth_may_lag() {
    let (queues, url) = memory();
    let lag = Duration::from_mins(1);
    queues.reconfigure(&url, QueueSettings { depth_lag: lag, ..QueueSettings::default() });
    assert_eq!(queues.depth(&url).await.unwrap().visible, 0);
    queues.send(&url, &[message("a")]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(59_999)).await;
    assert_eq!(queues.depth(&url).await.unwrap().visible, 0);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(queues.depth(&url).await.unwrap().visible, 1);
}

#[tokio::test(start_paused = true)]
async fn beyond_its_limit_in_flight_a_standard_queue_refuses_and_a_fifo_queue_gives_nothing() {
    let (queues, url) = memory();
    let fifo = QueueUrl::new("memory://merge.fifo");
    let settings = QueueSettings { max_in_flight: 2, ..QueueSettings::default() };
    queues.create(&fifo, settings);
    queues.reconfigure(&url, settings);
    for name in ["a", "b", "c"] {
        queues.send(&url, &[message(name)]).await.unwrap();
        let ids = tidegate_delivery::ports::Fifo { group: name.into(), deduplication: name.into() };
        let message = Outgoing { fifo: Some(ids), ..message(name) };
        queues.send(&fifo, &[message]).await.unwrap();
    }
    assert_eq!(queues.receive(&url, 10, Duration::ZERO).await.unwrap().len(), 2);
    let error = queues.receive(&url, 10, Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Refused("OverLimit".into()));
    assert_eq!(queues.receive(&fifo, 10, Duration::ZERO).await.unwrap().len(), 2);
    assert_eq!(queues.receive(&fifo, 10, Duration::ZERO).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_client_counts_its_own_calls_on_shared_queues() {
    let (queues, url) = memory();
    let other = queues.client();
    queues.send(&url, &[message("a")]).await.unwrap();
    assert_eq!(other.receive(&url, 1, Duration::ZERO).await.unwrap().len(), 1);
    other.depth(&url).await.unwrap();
    assert_eq!((queues.calls(), other.calls(), queues.clone().calls()), (1, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn contents_show_where_each_message_stands_without_touching_it() {
    let (queues, url) = memory();
    let at = |ms: u64| Timestamp::from_millis(1_000_000 + ms);
    queues.send(&url, &[message("a"), message("b")]).await.unwrap();
    let later = Outgoing { delay: Duration::from_secs(5), ..message("c") };
    queues.send(&url, &[later]).await.unwrap();
    queues.receive(&url, 1, Duration::ZERO).await.unwrap();
    let places: Vec<Place> = queues.contents(&url).into_iter().map(|m| m.place).collect();
    assert_eq!(places, [Place::InFlight(at(30_000)), Place::Visible, Place::Delayed(at(5_000))]);
    queues.remove(&url);
    assert!(queues.contents(&url).is_empty() && queues.urls().is_empty());
    let error = queues.depth(&url).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::NotFound);
}
