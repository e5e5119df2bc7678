//! Tests of properties that only this adapter has. SQS's rules are tested by the contract suite.

mod model;

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

/// How many messages each of a hundred short polls of a queue with `count` messages finds.
async fn short_polls(fifo: bool, count: usize) -> Vec<usize> {
    let (queues, standard) = memory();
    let url = if fifo { QueueUrl::new("memory://merge.fifo") } else { standard };
    queues.create(&url, QueueSettings { sampling: 0.3, ..QueueSettings::default() });
    for n in 0..count {
        let ids = || tidegate_delivery::ports::Fifo {
            group: n.to_string(),
            deduplication: n.to_string(),
        };
        let message = Outgoing { fifo: fifo.then(ids), ..message("a") };
        queues.send(&url, &[message]).await.unwrap();
    }
    let mut found = Vec::new();
    for _ in 0..100 {
        let received = queues.receive(&url, 10, Duration::ZERO).await.unwrap();
        found.push(received.len());
        let receipts: Vec<String> = received.into_iter().map(|message| message.receipt).collect();
        if !receipts.is_empty() {
            queues.set_visibility(&url, &receipts, Duration::ZERO).await.unwrap();
        }
    }
    let all = queues.receive(&url, 10, Duration::from_secs(1)).await.unwrap();
    assert_eq!(all.len(), count.min(10), "a long poll asks all servers");
    found
}

#[tokio::test(start_paused = true)]
async fn short_polls_of_a_queue_that_samples_miss_a_lone_message_and_long_polls_find_it() {
    for fifo in [false, true] {
        let found: usize = short_polls(fifo, 1).await.into_iter().sum();
        assert!((15..45).contains(&found), "fifo {fifo}: {found} of 100");
    }
}

#[tokio::test(start_paused = true)]
async fn short_polls_that_sample_give_fewer_than_asked_of_a_short_queue_and_all_of_a_deep_one() {
    for fifo in [false, true] {
        let short = short_polls(fifo, 12).await;
        let fewer = short.iter().filter(|found| **found < 10).count();
        assert!(fewer > 95, "fifo {fifo}: {short:?}");
        let deep = short_polls(fifo, 1_000).await;
        let fewer = deep.iter().filter(|found| **found < 10).count();
        // Those that asked no server at all.
        assert!(fewer < 10, "fifo {fifo}: {deep:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_of_a_fifo_queue_that_samples_keeps_its_order() {
    let (queues, _) = memory();
    let url = QueueUrl::new("memory://merge.fifo");
    queues.create(&url, QueueSettings { sampling: 0.3, ..QueueSettings::default() });
    for n in 0..20 {
        let ids =
            tidegate_delivery::ports::Fifo { group: "g".into(), deduplication: n.to_string() };
        queues
            .send(&url, &[Outgoing { fifo: Some(ids), ..message(&n.to_string()) }])
            .await
            .unwrap();
    }
    let mut got = Vec::new();
    for _ in 0..200 {
        for message in queues.receive(&url, 3, Duration::ZERO).await.unwrap() {
            queues.delete(&url, &[message.receipt]).await.unwrap();
            got.push(message.body.to_string());
        }
    }
    let sent: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    assert_eq!(got, sent);
}

#[tokio::test(start_paused = true)]
async fn the_depth_shown_is_what_it_was_at_some_time_of_the_last_minute() {
    let (queues, url) = memory();
    let lag = Duration::from_mins(1);
    queues.reconfigure(&url, QueueSettings { depth_lag: lag, ..QueueSettings::default() });
    let mut old = 0;
    for second in 1..1_000_u64 {
        queues.send(&url, &[message("a")]).await.unwrap();
        let shown = queues.depth(&url).await.unwrap().visible;
        assert!((second.saturating_sub(60)..=second).contains(&shown), "{shown} of {second}");
        old += u64::from(shown + 10 < second);
        assert_eq!(queues.true_depth(&url).visible, second);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(old > 100, "{old} of 999 were older than ten seconds");
}

/// Receives and deletes until a queue stays empty; gives how often a message was given.
async fn empty(queues: &MemoryQueues, url: &QueueUrl) -> usize {
    let mut given = 0;
    while !queues.contents(url).is_empty() {
        for message in queues.receive(url, 10, Duration::from_secs(20)).await.unwrap() {
            given += 1;
            queues.delete(url, &[message.receipt]).await.unwrap();
        }
    }
    given
}

#[tokio::test(start_paused = true)]
async fn a_standard_queue_gives_a_message_again_though_it_is_in_flight_or_deleted() {
    let (queues, url) = memory();
    queues.reconfigure(&url, QueueSettings { doubled: 0.1, ..QueueSettings::default() });
    for n in 0..500 {
        queues.send(&url, &[message(&n.to_string())]).await.unwrap();
    }
    let given = empty(&queues, &url).await;
    let deleted = given - 500;
    assert!((30..100).contains(&deleted), "{deleted} were given again though they were deleted");
    // Nobody deletes these: without doubles each is given once in its timeout.
    queues.create(&url, QueueSettings { doubled: 0.1, ..QueueSettings::default() });
    for n in 0..500 {
        queues.send(&url, &[message(&n.to_string())]).await.unwrap();
    }
    let end = tokio::time::Instant::now() + Duration::from_secs(28);
    let mut given = 0;
    while tokio::time::Instant::now() < end {
        given += queues.receive(&url, 10, Duration::from_secs(1)).await.unwrap().len();
    }
    let early = given - 500;
    assert!((30..100).contains(&early), "{early} were given again while in flight");
    // Each has been decided; a few that were come in the seconds that are left of a timeout.
    let decided = queues.doubled(&url).len();
    assert!((early..early + 10).contains(&decided), "{early} of {decided}");
}

#[tokio::test(start_paused = true)]
async fn a_fifo_queue_doubles_nothing() {
    let (queues, _) = memory();
    let url = QueueUrl::new("memory://merge.fifo");
    queues.create(&url, QueueSettings { doubled: 0.5, ..QueueSettings::default() });
    for n in 0..100 {
        let ids =
            tidegate_delivery::ports::Fifo { group: n.to_string(), deduplication: "1".into() };
        queues.send(&url, &[Outgoing { fifo: Some(ids), ..message("a") }]).await.unwrap();
    }
    assert_eq!((empty(&queues, &url).await, queues.doubled(&url).len()), (100, 0));
}

#[tokio::test(start_paused = true)]
async fn an_entry_may_fail_alone_without_effect_and_is_done_when_it_is_repeated() {
    let (queues, url) = memory();
    queues.reconfigure(&url, QueueSettings { failing: 0.3, ..QueueSettings::default() });
    let mut failed = 0;
    let mut entries: Vec<Outgoing> = (0..10).map(|n| message(&n.to_string())).collect();
    while !entries.is_empty() {
        let before = queues.contents(&url).len();
        let answers = queues.send(&url, &entries).await.unwrap();
        let refused = answers.iter().filter(|answer| answer.is_err()).count();
        assert!(answers.iter().flatten().count() + refused == entries.len());
        assert_eq!(queues.contents(&url).len(), before + entries.len() - refused);
        let codes = answers.iter().filter_map(|answer| answer.as_ref().err());
        assert!({ codes }.all(|error| error.code == "InternalError"));
        entries =
            { entries }.into_iter().zip(answers).filter(|e| e.1.is_err()).map(|e| e.0).collect();
        failed += refused;
    }
    let received = queues.receive(&url, 10, Duration::from_secs(1)).await.unwrap();
    let mut receipts: Vec<String> = received.into_iter().map(|message| message.receipt).collect();
    assert_eq!(receipts.len(), 10);
    while !receipts.is_empty() {
        let answers = queues.delete(&url, &receipts).await.unwrap();
        receipts =
            { receipts }.into_iter().zip(answers).filter(|e| e.1.is_err()).map(|e| e.0).collect();
        assert_eq!(queues.contents(&url).len(), receipts.len());
        failed += receipts.len();
    }
    assert!(failed > 3, "{failed}");
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
    let places: Vec<MessageState> = queues.contents(&url).into_iter().map(|m| m.place).collect();
    assert_eq!(
        places,
        [
            MessageState::InFlight(at(30_000)),
            MessageState::Visible,
            MessageState::Delayed(at(5_000))
        ]
    );
    queues.remove(&url);
    assert!(queues.contents(&url).is_empty() && queues.urls().is_empty());
    let error = queues.depth(&url).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::NotFound);
}
