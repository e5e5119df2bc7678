//! A client that does not read.

use std::collections::BTreeSet;

use tidegate_console::rate_limit::BucketRate;
use tidegate_console::stream::{StreamLimits, StreamRegistry};

use super::client::{Answer, Ask};
use super::stack::{Server, defaults};
use super::{QUEUE, client, publish, rest, seqs, show, soon};

/// Rounds of changes, and changes of a round: far more than wait for a stream at most.
const ROUNDS: u64 = 50;
const ROUND: u64 = 20;
const ALL: u64 = ROUNDS * ROUND;
/// As much as some large stack has to show: a few of these, and a client that does not read is full.
const FIGURES: usize = 100_000;

/// So fast that nothing waits for a token: this is about who reads.
fn fast() -> StreamLimits {
    let fast = BucketRate::new(1_000.0, 10_000).unwrap();
    StreamLimits { stream: fast, address: fast, ..defaults() }
}

/// Publishes all, round by round, each when the reader has the one before; with new figures each time.
async fn publish_all(server: &Server, reader: &mut Answer) {
    for round in 0..ROUNDS {
        show(&server.hub, format!("\"{round} {}\"", "x".repeat(FIGURES)));
        publish(&server.hub, usize::try_from(ROUND).unwrap());
        let told = seqs(reader, usize::try_from(ROUND).unwrap()).await;
        let expected: Vec<u64> = (round * ROUND + 1..=(round + 1) * ROUND).collect();
        assert_eq!(told, expected, "whoever reads gets every change");
    }
}

#[tokio::test]
async fn it_has_a_full_queue_wait_and_no_more_and_the_others_get_every_change() {
    let server = Server::start(fast(), 2).await;
    let slow = Ask { buffer: Some(4_096), ..Ask::from(client(2)) };
    let mut stalled = slow.open(server.address).await;
    assert_eq!(soon(stalled.next()).await.event, "state");
    // Of the same address: it is not its neighbour's buckets that keep a client waiting.
    let mut reader = Ask::from(client(2)).open(server.address).await;
    publish_all(&server, &mut reader).await;
    let (waiting, dropped) =
        server.hub.look(|registry| (registry.waiting(), registry.counts().dropped.clone()));
    // The reader's wait is over: all of this is the other one's.
    assert_eq!(waiting, (QUEUE, QUEUE));
    assert!(dropped["hold"] > 0 && dropped["figures"] > 0, "{dropped:?}");

    // It reads again: what was under way, then what waited.
    let frames = rest(&server.hub, &mut stalled).await;
    let told: Vec<u64> = frames.iter().filter_map(super::Frame::seq).collect();
    let known: BTreeSet<u64> = told.iter().copied().collect();
    assert_eq!(known.len(), told.len(), "nothing comes twice");
    let gaps: Vec<u64> = frames
        .iter()
        .filter(|frame| frame.event == "gap")
        .map(|frame| frame.json()["missed"].as_u64().unwrap())
        .collect();
    let missing = ALL - u64::try_from(known.len()).unwrap();
    assert_eq!((gaps, dropped["hold"]), (vec![missing], missing));
    // The oldest are missing: what stands is told by the newest.
    assert!(known.is_superset(&(ALL - QUEUE as u64 + 1..=ALL).collect()));
    // Of the figures it had what was under way, and the newest, which `rest` waited for.
    let seen = frames.iter().filter(|frame| frame.event == "figures").count();
    assert!(seen < 10, "{seen}");
    assert_eq!(server.hub.look(StreamRegistry::waiting), (0, 0));
}

#[tokio::test]
async fn it_comes_back_over_a_new_connection_and_misses_nothing_that_is_kept() {
    let server = Server::start(fast(), 2).await;
    let slow = Ask { buffer: Some(4_096), ..Ask::from(client(2)) };
    let mut stalled = slow.open(server.address).await;
    let mut last = soon(stalled.next()).await.id;
    let mut reader = Ask::from(client(3)).open(server.address).await;
    for round in 0..9 {
        show(&server.hub, format!("\"{round} {}\"", "x".repeat(FIGURES)));
        publish(&server.hub, 20);
        seqs(&mut reader, 20).await;
    }
    let mut known = BTreeSet::new();
    for _ in 0..10 {
        let frame = soon(stalled.next()).await;
        known.extend(frame.seq());
        last = frame.id.or(last);
    }
    drop(stalled);
    let ask = Ask { last_event_id: last.as_deref(), ..Ask::from(client(2)) };
    let mut again = ask.open(server.address).await;
    let frames = rest(&server.hub, &mut again).await;
    assert!(frames.iter().all(|frame| frame.event != "gap"));
    known.extend(frames.iter().filter_map(super::Frame::seq));
    assert_eq!(known, (1..=180).collect());
}
