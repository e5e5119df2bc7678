//! Behaviours of sends, receives, long polls and counts.

use tidegate_delivery::ports::QueueDepth;
use tokio::time::Instant;

use super::{
    Behaviour, Bench, Outgoing, PAST_A_SECOND, QueueRoom, Queues, SECOND, behaviours, message,
};

pub(super) fn behaviours(room: &impl QueueRoom) -> Vec<Behaviour<'_>> {
    behaviours![room =>
        what_is_sent_comes_back_whole,
        two_equal_bodies_are_two_messages,
        a_receive_gives_at_most_what_it_asks_for,
        a_delayed_message_waits_for_its_delay,
        an_empty_queue_answers_a_short_poll_at_once_with_nothing,
        a_long_poll_waits_its_time_for_nothing,
        a_long_poll_wakes_when_a_message_arrives,
        the_depth_tells_visible_in_flight_and_delayed,
        every_call_is_counted,
    ]
}

async fn what_is_sent_comes_back_whole(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    let body = "{\"subject\": \"Grüße 👋\",\n\t\"to\": \"<ada@example.com> & Co\"}";
    let attributes =
        vec![("campaign", "big".to_owned()), ("last_error", "ü \"quoted\" <&>".to_owned())];
    bench.send(Outgoing { attributes, ..message(body) }).await;
    let received = bench.receive_one().await;
    assert_eq!(&*received.body, body);
    let attributes: Vec<(&str, &str)> =
        received.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(attributes, [("campaign", "big"), ("last_error", "ü \"quoted\" <&>")]);
    assert_eq!(received.receive_count, 1);
    assert!(received.sent_at_millis > 1_000_000_000_000, "{}", received.sent_at_millis);
    assert!(!received.message_id.is_empty() && !received.receipt.is_empty());
}

async fn two_equal_bodies_are_two_messages(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    assert_eq!(bench.send_batch(&[message("same"), message("same")]).await, [Ok(()), Ok(())]);
    let received = bench.receive(10).await;
    assert_eq!(received.len(), 2);
    assert_ne!(received[0].message_id, received[1].message_id);
    assert_ne!(received[0].receipt, received[1].receipt);
}

async fn a_receive_gives_at_most_what_it_asks_for(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    let batch: Vec<Outgoing> = (0..10).map(|n| message(&n.to_string())).collect();
    bench.send_batch(&batch).await;
    bench.send_batch(&batch[..5]).await;
    let counts = [
        bench.receive(1).await.len(),
        bench.receive(10).await.len(),
        bench.receive(10).await.len(),
    ];
    assert_eq!(counts, [1, 10, 4]);
}

async fn a_delayed_message_waits_for_its_delay(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    let later = Outgoing { delay: SECOND, ..message("later") };
    assert_eq!(bench.send_batch(&[later, message("now")]).await, [Ok(()), Ok(())]);
    assert_eq!(bench.bodies().await, ["now"]);
    tokio::time::sleep(PAST_A_SECOND).await;
    let later = bench.receive_one().await;
    assert_eq!((&*later.body, later.receive_count), ("later", 1));
}

async fn an_empty_queue_answers_a_short_poll_at_once_with_nothing(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    let asked = Instant::now();
    assert_eq!(bench.receive(10).await, []);
    assert!(asked.elapsed() < SECOND);
}

async fn a_long_poll_waits_its_time_for_nothing(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    let asked = Instant::now();
    let received = bench.queues().receive(&bench.url, 10, SECOND).await.unwrap();
    assert_eq!(received, []);
    let waited = asked.elapsed();
    assert!(waited >= SECOND.mul_f64(0.9) && waited < SECOND * 2, "{waited:?}");
}

async fn a_long_poll_wakes_when_a_message_arrives(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    let asked = Instant::now();
    let poll = bench.queues().receive(&bench.url, 10, SECOND * 3);
    let arrival = async {
        tokio::time::sleep(SECOND / 2).await;
        bench.send(message("new")).await;
    };
    let (received, ()) = tokio::join!(poll, arrival);
    assert_eq!(&*received.unwrap()[0].body, "new");
    let waited = asked.elapsed();
    assert!(waited >= SECOND / 2 && waited < SECOND * 2, "{waited:?}");
}

async fn the_depth_tells_visible_in_flight_and_delayed(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    let later = Outgoing { delay: SECOND * 60, ..message("later") };
    let batch = [message("a"), message("b"), message("c"), later];
    bench.send_batch(&batch).await;
    let taken = bench.receive(2).await;
    let depth = || async { bench.queues().depth(&bench.url).await.unwrap() };
    assert_eq!(depth().await, QueueDepth { visible: 1, in_flight: 2, delayed: 1 });
    assert_eq!(bench.delete(&taken[0].receipt).await, Ok(()));
    assert_eq!(depth().await, QueueDepth { visible: 1, in_flight: 1, delayed: 1 });
}

async fn every_call_is_counted(room: &impl QueueRoom) {
    let bench = Bench::standard(room).await;
    let before = bench.queues().calls();
    bench.send_batch(&[message("a"), message("b")]).await;
    bench.receive(10).await;
    bench.queues().depth(&bench.url).await.unwrap();
    // Other behaviours use the same queues at the same time: they may only add.
    assert!(bench.queues().calls() >= before + 3);
}
