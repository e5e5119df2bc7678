//! The end of a server.

use std::time::Duration;

use tokio::time::Instant;

use super::client::Ask;
use super::stack::{Server, defaults};
use super::{client, publish, soon};

/// How long connections have to end by themselves.
const PATIENCE: Duration = Duration::from_secs(2);

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_ends_its_streams_and_waits_for_nothing_more() {
    let server = Server::start(defaults(), 2).await;
    let address = server.address;
    let mut streams = Vec::new();
    for _ in 0..5 {
        streams.push(Ask::from(client(2)).open(address).await);
        soon(streams.last_mut().unwrap().next()).await;
    }
    publish(&server.hub, 1);
    for stream in &mut streams {
        assert_eq!(super::seqs(stream, 1).await, [1]);
    }
    let begun = Instant::now();
    server.stop().await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    for mut stream in streams {
        // Whole, as a client can tell: no connection is cut off.
        assert_eq!(soon(stream.frame()).await, None);
    }
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_keeps_a_server_for_its_patience_alone() {
    let server = Server::start(defaults(), 2).await;
    let ask = Ask { buffer: Some(4_096), ..Ask::from(client(2)) };
    let mut stalled = ask.open(server.address).await;
    soon(stalled.next()).await;
    for _ in 0..9 {
        super::show(&server.hub, format!("\"{}\"", "x".repeat(100_000)));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let dropped = server.hub.look(|registry| registry.counts.dropped.clone());
    assert!(dropped["figures"] > 0, "it stalls: {dropped:?}");
    let begun = Instant::now();
    server.stop().await;
    assert!((PATIENCE..PATIENCE + Duration::from_millis(2)).contains(&begun.elapsed()));
    drop(stalled);
}
