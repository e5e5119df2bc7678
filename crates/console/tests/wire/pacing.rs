//! The rate at which events arrive.
//!
//! An event arrives after it went out. So of the events that went out since an instant at which nothing
//! was under way, no more can have arrived at any time than the buckets granted since then, however the
//! network bunched them: the k-th beyond the burst comes after k tokens' time at the earliest, to the
//! nanosecond. Whether they come as early as that is told by waits counted, not by a clock: and by a
//! clock where it is simulated, and only stands while nothing is to be done.

use std::time::Duration;

use tidegate_console::rate_limit::EmptyBucket;
use tokio::time::{Instant, sleep};

use super::client::Ask;
use super::stack::{Server, defaults};
use super::{client, publish, soon};

/// Burst and period of a bucket.
#[derive(Clone, Copy)]
struct Bucket(u32, Duration);

const STREAM: Bucket = Bucket(10, Duration::from_millis(200));
const SESSION: Bucket = Bucket(60, Duration::from_nanos(1_000_000_000 / 30));

impl Bucket {
    /// By how much each arrival is later than a full bucket at `since` grants it; none may be earlier.
    fn lateness(self, since: Instant, mut arrivals: Vec<Instant>) -> Vec<Duration> {
        arrivals.sort();
        let late = (1_u32..).zip(arrivals).map(|(number, at)| {
            let earliest = since + self.1 * number.saturating_sub(self.0);
            assert!(at >= earliest, "event {number} is {:?} early", earliest - at);
            at - earliest
        });
        late.collect()
    }
}

/// 30 events beside the state, a pause in which the bucket fills, and 20 more: how late each came.
async fn a_stream() -> (Server, Vec<Duration>) {
    let server = Server::start(defaults(), 2).await;
    let mut late = Vec::new();
    let begun = Instant::now();
    let mut stream = Ask::from(client(2)).open(server.address).await;
    let mut arrivals = vec![soon(stream.frame()).await.unwrap().0];
    publish(&server.hub, 30);
    for _ in 0..30 {
        arrivals.push(soon(stream.frame()).await.unwrap().0);
    }
    late.extend(STREAM.lateness(begun, std::mem::take(&mut arrivals)));
    // Longer than it takes to be full: what is not used then is not kept.
    sleep(Duration::from_secs(3)).await;
    let begun = Instant::now();
    publish(&server.hub, 20);
    for _ in 0..20 {
        arrivals.push(soon(stream.frame()).await.unwrap().0);
    }
    late.extend(STREAM.lateness(begun, arrivals));
    (server, late)
}

#[tokio::test]
async fn a_stream_has_ten_events_at_once_and_five_a_second_after_them() {
    let (server, _) = a_stream().await;
    // Ten of 31 and ten of 20 found a token, all others may have waited for theirs.
    let waits = server.hub.look(|registry| registry.counts().empty.clone());
    assert!(waits[&EmptyBucket::Stream] <= 21 + 10, "{waits:?}");
    assert!(!waits.contains_key(&EmptyBucket::Session), "{waits:?}");
    assert!(!waits.contains_key(&EmptyBucket::Address), "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn no_event_comes_later_than_its_token() {
    let (_, mut late) = a_stream().await;
    // What one bucket granted is not lost while the other refuses: else the session's would go unused.
    late.extend(a_session().await);
    let latest = late.iter().max().unwrap();
    // The timer counts whole milliseconds, and a wait begins with the next one.
    assert!(*latest <= Duration::from_millis(2), "{late:?}");
}

/// So many streams of an address without a login, which is one session, which have got their first frame.
async fn streams_of(last: u8, count: usize, server: &Server) -> (Vec<super::Answer>, Vec<Instant>) {
    let (mut streams, mut arrivals) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let mut stream = Ask::from(client(last)).open(server.address).await;
        arrivals.push(soon(stream.frame()).await.unwrap().0);
        streams.push(stream);
    }
    (streams, arrivals)
}

/// 15 events of each of twenty streams: how late each of the 300 came, by the session's bucket.
async fn a_session() -> Vec<Duration> {
    let server = Server::start(defaults(), 2).await;
    let begun = Instant::now();
    let (streams, mut arrivals) = streams_of(3, 20, &server).await;
    publish(&server.hub, 14);
    // All that they get: none of them starves.
    let reading = streams.into_iter().map(|mut stream| async move {
        let mut arrivals = Vec::new();
        for _ in 0..14 {
            arrivals.push(soon(stream.frame()).await.unwrap().0);
        }
        arrivals
    });
    arrivals.extend(futures_util::future::join_all(reading).await.concat());
    assert_eq!(arrivals.len(), 300);
    SESSION.lateness(begun, arrivals)
}

#[tokio::test]
async fn a_session_has_sixty_events_at_once_and_thirty_a_second_over_its_streams() {
    a_session().await;
}

#[tokio::test]
async fn addresses_share_nothing() {
    let server = Server::start(defaults(), 2).await;
    let (mut streams, _) = streams_of(4, 10, &server).await;
    streams.extend(streams_of(5, 10, &server).await.0);
    // With the state each stream has six events of its ten, each session its sixty.
    publish(&server.hub, 5);
    for mut stream in streams {
        assert_eq!(super::seqs(&mut stream, 5).await, [1, 2, 3, 4, 5]);
    }
    let waits = server.hub.look(|registry| registry.counts().empty.clone());
    assert!(waits.is_empty(), "{waits:?}");
}
