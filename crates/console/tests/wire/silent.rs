//! Clients that connect and then say nothing, say it too slowly, or do not read the answer.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, Response, StatusCode};
use h2::RecvStream;
use tidegate_console::stream::StreamLimits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::client::connect;
use super::stack::{Server, defaults, engine, world};
use super::{TOKEN, client, soon};

/// Longest time in which a client must say more; how long a whole request's connection may stay.
const SILENCE: Duration = Duration::from_secs(10);
/// Connections of an address: its streams, and some more.
const OF_ADDRESS: usize = 20 + 32;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// An empty frame of settings.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// Headers of the first stream, `GET`, which go on in a frame that does not come.
const HALF_HEADERS: &[u8] = &[0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82];
const LOGIN: &[u8] = b"POST /api/login HTTP/1.1\r\nHost: localhost\r\n\
    Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n";

/// Bytes that clients send before they fall silent; the first five never ask for HTTP/1.1.
fn beginnings() -> Vec<Vec<u8>> {
    vec![
        Vec::new(),
        b"PRI * HTTP/2.0\r\n".to_vec(),
        PREFACE.to_vec(),
        [PREFACE, SETTINGS].concat(),
        [PREFACE, SETTINGS, HALF_HEADERS].concat(),
        b"G".to_vec(),
        b"GET /login HTTP/1.1\r\nHost: localhost\r\n".to_vec(),
        LOGIN.to_vec(),
        [LOGIN, b"{"].concat(),
        // This one is answered; then it asks for nothing more.
        b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
    ]
}

/// Waits until the server has closed a connection.
async fn closed(mut socket: TcpStream) {
    let mut buffer = vec![0; 16 * 1024];
    // An error is a connection that was reset.
    while soon(socket.read(&mut buffer)).await.is_ok_and(|length| length > 0) {}
}

async fn answers(to: SocketAddr, from: [u8; 4]) -> bool {
    let mut socket = connect(to, from, None).await;
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut answer = Vec::new();
    // Where there is no place the connection is closed, perhaps before it is written to.
    let _ = socket.write_all(request).await;
    let _ = soon(socket.read_to_end(&mut answer)).await;
    answer.starts_with(b"HTTP/1.1 200")
}

#[tokio::test(start_paused = true)]
async fn whoever_falls_silent_is_closed_wherever_that_is() {
    let server = Server::start(defaults(), 2).await;
    let begun = Instant::now();
    let mut waiting = JoinSet::new();
    for (place, beginning) in beginnings().into_iter().cycle().take(OF_ADDRESS - 1).enumerate() {
        let mut socket = connect(server.address, client(2), None).await;
        socket.write_all(&beginning).await.unwrap();
        waiting.spawn(async move {
            closed(socket).await;
            (place, begun.elapsed())
        });
    }
    // A body that comes byte by byte is one that does not come.
    let mut slow = connect(server.address, client(2), None).await;
    slow.write_all(LOGIN).await.unwrap();
    waiting.spawn(async move {
        while slow.write_all(b" ").await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
        (OF_ADDRESS, begun.elapsed())
    });
    for (place, after) in soon(waiting.join_all()).await {
        assert!(after < SILENCE + Duration::from_secs(3), "{place} was closed after {after:?}");
    }
    assert!(begun.elapsed() >= SILENCE);
}

/// The client goes on to answer the server's pings, which alone keep no connection.
#[tokio::test(start_paused = true)]
async fn an_http2_client_with_no_room_for_its_answer_is_closed() {
    let server = Server::start(defaults(), 2).await;
    let socket = connect(server.address, client(2), None).await;
    let narrow = h2::client::Builder::new().initial_window_size(0).clone();
    let (mut sender, connection) = narrow.handshake::<_, Bytes>(socket).await.unwrap();
    let begun = Instant::now();
    let connection = tokio::spawn(connection);
    let request = Request::get(format!("http://{}/login", server.address)).body(()).unwrap();
    let (answer, _) = sender.send_request(request, true).unwrap();
    let answer: Response<RecvStream> = soon(answer).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    // It may be reset.
    drop(soon(connection).await.unwrap());
    let after = begun.elapsed();
    assert!((SILENCE..SILENCE + Duration::from_secs(3)).contains(&after), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn an_http1_client_that_asks_and_asks_and_reads_nothing_is_closed() {
    let server = Server::start(defaults(), 2).await;
    let mut socket = connect(server.address, client(2), Some(4_096)).await;
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    socket.write_all(&request.repeat(100)).await.unwrap();
    sleep(SILENCE + Duration::from_secs(3)).await;
    // If it were open, all answers would come now, and it would be closed another silence later.
    let begun = Instant::now();
    closed(socket).await;
    assert!(begun.elapsed() < SILENCE, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn one_address_cannot_take_the_places_of_the_others() {
    let limits = StreamLimits { streams: 2, streams_per_address: 20, ..defaults() };
    let server = Server::start(limits, 2).await;
    let mut silent = Vec::new();
    for beginning in beginnings().iter().cycle().take(300) {
        let mut socket = connect(server.address, client(2), None).await;
        // Those above the limit are closed at once.
        let _ = socket.write_all(beginning).await;
        silent.push(socket);
    }
    assert!(answers(server.address, client(3)).await, "another address has its places");
    assert!(!answers(server.address, client(2)).await, "it has all that it may have");
    sleep(2 * SILENCE).await;
    assert!(answers(server.address, client(2)).await, "what was silent is closed");
}

#[tokio::test(start_paused = true)]
async fn silent_sockets_of_many_addresses_keep_others_out_for_a_moment_only() {
    let limits = StreamLimits { streams: 2, ..defaults() };
    let server = Server::start(limits, 2).await;
    let mut silent = Vec::new();
    for (place, beginning) in beginnings()[..5].iter().cycle().take(300).enumerate() {
        let address = 10 + u8::try_from(place / 50).unwrap();
        let mut socket = connect(server.address, client(address), None).await;
        let _ = socket.write_all(beginning).await;
        silent.push(socket);
    }
    sleep(2 * SILENCE).await;
    assert!(answers(server.address, client(3)).await);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_the_console_is_not_silent() {
    // It does no job, as one whose stack does not answer.
    let (engine, shared) = engine(&world(2), defaults()).await;
    let server = Server::of(shared, Some(TOKEN));
    let mut socket = connect(server.address, client(2), None).await;
    let request = format!(
        "POST /api/dead/read HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Length: 0\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    assert!(timeout(3 * SILENCE, socket.read_u8()).await.is_err(), "it is answered, or closed");
    drop(engine);
    let mut answer = [0; 12];
    soon(socket.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 503");
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_no_silence() {
    let server = Server::start(defaults(), 2).await;
    let mut stream = super::client::Ask::from(client(2)).open(server.address).await;
    assert_eq!(soon(stream.next()).await.event, "state");
    sleep(10 * SILENCE).await;
    super::publish(&server.hub, 1);
    assert_eq!(super::seqs(&mut stream, 1).await, [1]);
}
