//! The rate at which events arrive.
//!
//! An event arrives after it went out. So of the events that went out since an instant at which nothing
//! was under way, no more can have arrived at any time than the bucket granted since then, however the
//! network bunched them: the k-th beyond the burst comes after k tokens' time at the earliest, to the
//! nanosecond. Whether they come as early as that is told by waits counted, not by a clock: and by a
//! clock where it is simulated, and only stands while nothing is to be done.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::client::Ask;
use super::stack::{Server, defaults};
use super::{client, publish, soon};

/// Burst and period of a bucket.
#[derive(Clone, Copy)]
struct Bucket(u32, Duration);

const STREAM: Bucket = Bucket(10, Duration::from_millis(200));

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
    let waits = server.hub.look(|registry| registry.counts.waited);
    assert!(waits <= 21 + 10, "{waits}");
}

#[tokio::test(start_paused = true)]
async fn no_event_comes_later_than_its_token() {
    let (_, late) = a_stream().await;
    let latest = late.iter().max().unwrap();
    // The timer counts whole milliseconds, and a wait begins with the next one.
    assert!(*latest <= Duration::from_millis(2), "{late:?}");
}

#[tokio::test]
async fn streams_share_nothing() {
    let server = Server::start(defaults(), 2).await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = Ask::from(client(3)).open(server.address).await;
        soon(stream.frame()).await.unwrap();
        streams.push(stream);
    }
    // With the state each stream has its ten.
    publish(&server.hub, 9);
    for mut stream in streams {
        assert_eq!(super::seqs(&mut stream, 9).await, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
    assert_eq!(server.hub.look(|registry| registry.counts.waited), 0);
}
