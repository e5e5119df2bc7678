//! A client that does not read.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::Request;
use tidegate_console::rate_limit::BucketRate;
use tidegate_console::stream::{StreamLimits, StreamRegistry};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep};

use super::client::{Answer, Ask, connect};
use super::stack::{Server, defaults, engine, world};
use super::{QUEUE, TOKEN, client, publish, rest, seqs, show, soon, streams};

/// Rounds of changes, and changes of a round: far more than wait for a stream at most.
const ROUNDS: u64 = 50;
const ROUND: u64 = 20;
const ALL: u64 = ROUNDS * ROUND;
/// As much as some large stack has to show: a few of these, and a client that does not read is full.
const FIGURES: usize = 100_000;

/// So fast that nothing waits for a token: this is about who reads.
fn fast() -> StreamLimits {
    StreamLimits { stream_rate: BucketRate::new(1_000.0, 10_000).unwrap(), ..defaults() }
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
    // Of the same address: it is not its neighbour that keeps a client waiting.
    let mut reader = Ask::from(client(2)).open(server.address).await;
    publish_all(&server, &mut reader).await;
    let (waiting, dropped) =
        server.hub.look(|registry| (registry.waiting(), registry.counts.dropped.clone()));
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

/// Asks for a login or a logout, and returns the cookie that the answer sets.
async fn session(server: &Server, path: &str, headers: &str, body: &str) -> String {
    let mut socket = connect(server.address, client(3), None).await;
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n{headers}\r\n{body}"
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon(socket.read_to_string(&mut answer)).await.unwrap();
    let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

async fn login(server: &Server) -> String {
    session(server, "/api/login", "", &format!("{{\"token\":\"{TOKEN}\"}}")).await
}

async fn logout(server: &Server, cookie: &str) {
    session(server, "/api/logout", &format!("Cookie: {cookie}\r\n"), "").await;
}

#[tokio::test(start_paused = true)]
async fn its_stream_ends_soon_after_its_session_and_no_other_does() {
    let (_, shared) = engine(&world(2), fast()).await;
    let server = Server::of(shared, Some(TOKEN));
    let (one, two) = (login(&server).await, login(&server).await);
    let mut stalled = Vec::new();
    for cookie in [&one, &two] {
        let ask = Ask { buffer: Some(4_096), cookie: Some(cookie), ..Ask::from(client(2)) };
        stalled.push(ask.open(server.address).await);
    }
    for round in 0..20 {
        show(&server.hub, format!("\"{round} {}\"", "x".repeat(FIGURES)));
        sleep(Duration::from_secs(3)).await;
    }
    let dropped = server.hub.look(|registry| registry.counts.dropped["figures"]);
    assert!(dropped > 0, "they stall");
    streams(&server.hub, 2).await;
    logout(&server, &one).await;
    sleep(Duration::from_secs(25)).await;
    streams(&server.hub, 1).await;
    sleep(Duration::from_mins(1)).await;
    streams(&server.hub, 1).await;
}

#[tokio::test(start_paused = true)]
async fn its_stream_ends_soon_after_its_session_though_its_connection_is_used() {
    let (_, shared) = engine(&world(2), fast()).await;
    let server = Server::of(shared, Some(TOKEN));
    let cookie = login(&server).await;
    let socket = connect(server.address, client(2), None).await;
    let narrow = h2::client::Builder::new().initial_window_size(0).clone();
    let (mut sender, connection) = narrow.handshake::<_, Bytes>(socket).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    let mut ask = async |path: &str| {
        let request = Request::get(format!("http://{}{path}", server.address));
        let request = request.header("cookie", &cookie).body(()).unwrap();
        let (answer, _) = sender.send_request(request, true)?;
        soon(answer).await
    };
    let stream = ask("/api/events").await.unwrap();
    for _ in 0..30 {
        sleep(Duration::from_secs(1)).await;
        ask("/login").await.unwrap();
    }
    streams(&server.hub, 1).await;
    logout(&server, &cookie).await;
    let begun = Instant::now();
    while ask("/login").await.is_ok() {
        sleep(Duration::from_secs(1)).await;
        assert!(begun.elapsed() < Duration::from_secs(25), "it goes on");
    }
    streams(&server.hub, 0).await;
    drop(stream);
}
