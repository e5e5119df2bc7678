use std::time::Duration;

use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use futures_util::future::join_all;
use tidegate_delivery::ports::{Clock as _, Monotonic};

use super::*;
use crate::clock::SystemClock;
use crate::error::in_full;
use crate::loopback::{Habit, Loopback};

const OK: Habit = Habit::Answer("{}", Duration::ZERO);

async fn get(
    wire: &Wire,
    url: &str,
    errand: Option<Errand>,
) -> Result<HttpResponse, ConnectorError> {
    let mut request = HttpRequest::get(url).unwrap();
    if let Some(errand) = errand {
        request.add_extension(errand);
    }
    wire.exchange(request).await
}

fn in_time() -> Ticket {
    let clock = SystemClock::new();
    Ticket::new(clock, clock.monotonic() + Duration::from_mins(1))
}

/// A ticket whose moment has passed.
async fn late() -> Ticket {
    let clock = SystemClock::new();
    clock.sleep_until(Monotonic::from_origin(Duration::from_nanos(1))).await;
    Ticket::new(clock, Monotonic::default())
}

#[tokio::test]
async fn warmed_connections_carry_the_requests_that_follow() {
    let service = Loopback::start(Habit::Answer("{}", Duration::from_millis(50))).await;
    let wire = Wire::new();
    for _ in 0..2 {
        let warmed = get(&wire, &service.url(), Some(Errand::Warm(40))).await;
        assert!(in_full(&warmed.unwrap_err()).contains("nothing was sent"));
    }
    let url = service.url();
    let sends = join_all((0..40).map(|_| get(&wire, &url, None))).await;
    assert!(sends.iter().all(Result::is_ok));
    assert_eq!((service.connections(), service.requests()), (40, 40));
}

#[tokio::test]
async fn requests_one_after_the_other_share_a_connection() {
    let service = Loopback::start(OK).await;
    let wire = Wire::new();
    for _ in 0..20 {
        let answer = get(&wire, &service.url(), None).await.unwrap();
        assert_eq!(answer.body().bytes(), Some(b"{}".as_slice()));
    }
    assert_eq!((service.connections(), service.requests()), (1, 20));
}

#[tokio::test]
async fn a_late_request_is_not_written_and_leaves_its_connection_to_the_next() {
    let service = Loopback::start(OK).await;
    let wire = Wire::new();
    let ticket = late().await;
    let refused = get(&wire, &service.url(), Some(Errand::Send(ticket.clone()))).await;
    assert!(in_full(&refused.unwrap_err()).contains("its slot had passed"));
    assert_eq!(ticket.progress(), Progress::Late);
    let ticket = in_time();
    get(&wire, &service.url(), Some(Errand::Send(ticket.clone()))).await.unwrap();
    assert_eq!(ticket.progress(), Progress::HandedOver);
    assert_eq!((service.connections(), service.requests()), (1, 1));
}

#[tokio::test]
async fn connections_that_the_service_closed_cost_no_request() {
    let service = Loopback::start(Habit::AnswerAndClose("{}")).await;
    let wire = Wire::new();
    for _ in 0..50 {
        get(&wire, &service.url(), Some(Errand::Send(in_time()))).await.unwrap();
    }
    assert_eq!((service.connections(), service.requests()), (50, 50));
}

#[tokio::test]
async fn a_request_that_was_written_is_never_written_again() {
    for habit in [Habit::Close, Habit::CloseWithinAnswer] {
        let service = Loopback::start(habit).await;
        let wire = Wire::new();
        // Over a warmed connection, as over a fresh one.
        for warmed in [1, 0] {
            let _ = get(&wire, &service.url(), Some(Errand::Warm(warmed))).await;
            let ticket = in_time();
            let lost = get(&wire, &service.url(), Some(Errand::Send(ticket.clone()))).await;
            let error = lost.unwrap_err();
            assert!(error.is_io(), "the SDK's retries take this for transient: {error:?}");
            assert_eq!(ticket.progress(), Progress::HandedOver);
        }
        assert_eq!(service.requests(), 2, "{habit:?}");
    }
}

#[tokio::test]
async fn without_a_connection_nothing_counts_as_written() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let ticket = in_time();
    let refused = get(&Wire::new(), &url, Some(Errand::Send(ticket.clone()))).await.unwrap_err();
    assert!(refused.is_io());
    assert!(in_full(&refused).contains("refused"), "{}", in_full(&refused));
    assert_eq!(ticket.progress(), Progress::Waiting);
    // Warming says nothing, and does not try 900 times.
    let _ = get(&Wire::new(), &url, Some(Errand::Warm(900))).await;
}

#[tokio::test]
async fn an_idle_connection_grows_old() {
    let service = Loopback::start(OK).await;
    let wire = Wire::new();
    get(&wire, &service.url(), None).await.unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    get(&wire, &service.url(), None).await.unwrap();
    assert_eq!(service.connections(), 2);
}

#[tokio::test]
async fn an_endpoint_is_an_address_with_a_host() {
    let error = get(&Wire::new(), "/v2/email", None).await.unwrap_err();
    assert!(error.is_user() && in_full(&error).contains("/v2/email"), "{}", in_full(&error));
}

/// Answers one request; keeps the connection until it hears of `close`, says so in `closed`, and
/// answers one request more on the next connection.
fn serve_two(
    listener: std::net::TcpListener,
    close: std::sync::mpsc::Receiver<()>,
    closed: std::sync::mpsc::Sender<()>,
) {
    use std::io::{Read as _, Write as _};
    std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.extend(byte);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
            let _ = close.recv();
            drop(stream);
            let _ = closed.send(());
        }
    });
}

#[tokio::test]
async fn a_request_that_a_closed_connection_gives_back_takes_the_next() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (close, hears_close) = std::sync::mpsc::channel();
    let (says_closed, closed) = std::sync::mpsc::channel();
    serve_two(listener, hears_close, says_closed);
    let wire = Wire::new();
    get(&wire, &url, None).await.unwrap();
    // The connection's end arrives while nothing here runs, and its task is to run after this one:
    // it is still taken for idle, and learns of its end with the request in hand.
    close.send(()).unwrap();
    closed.recv().unwrap();
    tokio::task::yield_now().await;
    let origin = Origin::of(&url.parse().unwrap()).unwrap();
    assert_eq!(wire.pool.idle(&origin), 1);
    let ticket = in_time();
    get(&wire, &url, Some(Errand::Send(ticket.clone()))).await.unwrap();
    assert_eq!(ticket.progress(), Progress::HandedOver);
}
