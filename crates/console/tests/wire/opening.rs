//! The beginning of a stream, refused streams, and the comments that keep an idle one open.

use std::time::Duration;

use tidegate_console::stream::StreamLimits;
use tokio::time::{Instant, sleep};

use super::client::Ask;
use super::stack::{Server, defaults};
use super::{client, publish, seqs, soon, streams};

#[tokio::test]
async fn the_answer_is_one_that_nothing_on_its_way_keeps_back_and_says_when_to_return() {
    let server = Server::start(defaults(), 2).await;
    let mut stream = Ask::from(client(2)).open(server.address).await;
    for (name, value) in [
        ("cache-control", "no-cache"),
        ("x-accel-buffering", "no"),
        ("transfer-encoding", "chunked"),
    ] {
        assert_eq!(stream.header(name), Some(value), "{name}");
    }
    let first = soon(stream.next()).await;
    assert_eq!((first.event.as_str(), first.retry.as_deref()), ("state", Some("2000")));
    let state = first.json();
    assert_eq!(state["figures"]["rows"][1]["name"], "campaign-2");
    publish(&server.hub, 1);
    let second = soon(stream.next()).await;
    assert_eq!((second.event.as_str(), second.seq()), ("hold", Some(1)));
    assert_eq!(second.retry, None);
}

#[tokio::test(start_paused = true)]
async fn silence_is_broken_by_a_comment_every_twenty_five_seconds() {
    let server = Server::start(defaults(), 2).await;
    let mut stream = Ask::from(client(2)).open(server.address).await;
    soon(stream.next()).await;
    // An event is no silence.
    sleep(Duration::from_secs(20)).await;
    publish(&server.hub, 1);
    assert_eq!(soon(stream.next()).await.seq(), Some(1));
    let mut silent = Instant::now();
    for _ in 0..3 {
        let (at, frame) = soon(stream.frame()).await.unwrap();
        assert_eq!((frame.comment.as_deref(), frame.event.as_str()), (Some("alive"), ""));
        let silence = at - silent;
        assert!((25_000..=25_002).contains(&silence.as_millis()), "{silence:?}");
        silent = at;
    }
}

#[tokio::test]
async fn a_stream_too_many_is_refused_before_it_opens_and_none_is_closed_for_it() {
    let limits = StreamLimits { streams_per_session: 3, ..defaults() };
    let server = Server::start(limits, 2).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut stream = Ask::from(client(2)).open(server.address).await;
        assert_eq!(soon(stream.next()).await.event, "state");
        open.push(stream);
    }
    for _ in 0..2 {
        let refused = Ask::from(client(2)).send(server.address).await;
        assert_eq!((refused.status(), refused.header("retry-after")), (429, Some("5")));
        assert_eq!(refused.header("content-type"), Some("application/json"));
    }
    // Another address is not concerned, and those that are open go on.
    open.push(Ask::from(client(3)).open(server.address).await);
    publish(&server.hub, 1);
    for stream in &mut open[..3] {
        assert_eq!(seqs(stream, 1).await, [1]);
    }
    drop(open.remove(0));
    streams(&server.hub, 3).await;
    let mut again = Ask::from(client(2)).open(server.address).await;
    assert_eq!(soon(again.next()).await.event, "state");
    let refused = server.hub.look(|registry| registry.counts.refused.clone());
    assert_eq!(refused.into_iter().collect::<Vec<_>>(), [("session", 2)]);
}

#[tokio::test]
async fn the_console_has_a_number_of_streams_too() {
    let limits = StreamLimits { streams: 2, ..defaults() };
    let server = Server::start(limits, 2).await;
    let first = Ask::from(client(2)).open(server.address).await;
    let _second = Ask::from(client(3)).open(server.address).await;
    let refused = Ask::from(client(4)).send(server.address).await;
    assert_eq!((refused.status(), refused.header("retry-after")), (429, Some("5")));
    drop(first);
    streams(&server.hub, 1).await;
    Ask::from(client(4)).open(server.address).await;
}
