use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use axum::http::{Request, StatusCode};
use h2::RecvStream;
use h2::client::{SendRequest, handshake};

use super::client::{Frame, Frames, connect};
use super::stack::{Server, defaults};
use super::{client, publish, soon, streams};

type Sender = SendRequest<axum::body::Bytes>;

/// A connection whose client knows that the server speaks HTTP/2.
async fn connection(to: SocketAddr, from: [u8; 4]) -> Sender {
    let socket = connect(to, from, None).await;
    let (sender, connection) = handshake(socket).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    sender
}

struct Stream {
    body: RecvStream,
    frames: Frames,
    read: VecDeque<Frame>,
}

impl Stream {
    async fn open(to: SocketAddr, sender: &Sender, last: Option<&str>) -> Self {
        let request = Request::get(format!("http://{to}/api/events"));
        let request =
            last.into_iter().fold(request, |request, id| request.header("last-event-id", id));
        let mut sender = sender.clone().ready().await.unwrap();
        let (answer, _) = sender.send_request(request.body(()).unwrap(), true).unwrap();
        let answer = soon(answer).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["x-accel-buffering"], "no");
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self { body: answer.into_body(), frames: Frames::default(), read: VecDeque::new() }
    }

    async fn frame(&mut self) -> Option<Frame> {
        while self.read.is_empty() {
            let data = soon(self.body.data()).await?.unwrap();
            self.body.flow_control().release_capacity(data.len()).unwrap();
            self.read.extend(self.frames.push(&data));
        }
        self.read.pop_front()
    }

    async fn next(&mut self) -> Frame {
        self.frame().await.expect("the stream goes on")
    }
}

#[tokio::test]
async fn streams_of_one_connection_each_get_every_event() {
    let server = Server::start(defaults(), 2).await;
    let sender = connection(server.address, client(2)).await;
    let mut open = Vec::new();
    for _ in 0..6 {
        let mut stream = Stream::open(server.address, &sender, None).await;
        let first = stream.next().await;
        assert_eq!((first.event.as_str(), first.retry.as_deref()), ("state", Some("2000")));
        open.push(stream);
    }
    publish(&server.hub, 5);
    let mut last = None;
    for stream in &mut open {
        for seq in 1..=5 {
            let frame = stream.next().await;
            assert_eq!(frame.seq(), Some(seq));
            last = frame.id;
        }
    }
    // One that its client resets is gone, and costs the connection's others nothing.
    drop(open.remove(0));
    streams(&server.hub, 5).await;
    publish(&server.hub, 1);
    for stream in &mut open {
        assert_eq!(stream.next().await.seq(), Some(6));
    }
    let mut again = Stream::open(server.address, &sender, last.as_deref()).await;
    assert_eq!(again.next().await.event, "state");
    assert_eq!(again.next().await.seq(), Some(6));
}

#[tokio::test(start_paused = true)]
async fn silence_is_broken_and_the_end_is_told() {
    let server = Server::start(defaults(), 2).await;
    let sender = connection(server.address, client(2)).await;
    let mut stream = Stream::open(server.address, &sender, None).await;
    assert_eq!(stream.next().await.event, "state");
    assert_eq!(stream.next().await.comment.as_deref(), Some("alive"));
    let begun = tokio::time::Instant::now();
    server.stop().await;
    assert!(begun.elapsed() < Duration::from_millis(2), "{:?}", begun.elapsed());
    assert_eq!(stream.frame().await, None);
}
