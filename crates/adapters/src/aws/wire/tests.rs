use std::time::Duration;

use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use futures_util::future::{FutureExt as _, join_all};
use tidegate_core::in_full;
use tidegate_core::outcome::Stage;
use tidegate_delivery::ports::{Clock as _, Monotonic};

use super::*;
use crate::aws::system::SystemClock;
use crate::aws::tests::loopback::{EndpointBehaviour, Loopback};

const OK: EndpointBehaviour = EndpointBehaviour::Answer("{}", Duration::ZERO);

async fn get(
    wire: &Wire,
    url: &str,
    request_kind: Option<RequestKind>,
) -> Result<HttpResponse, ConnectorError> {
    let mut request = HttpRequest::get(url).unwrap();
    if let Some(request_kind) = request_kind {
        request.add_extension(request_kind);
    }
    wire.exchange(request).await
}

fn in_time() -> Ticket {
    let clock = SystemClock::new();
    Ticket::new(clock, clock.monotonic() + Duration::from_mins(1))
}

/// A ticket whose latest moment has passed.
async fn late() -> Ticket {
    let clock = SystemClock::new();
    clock.sleep_until(Monotonic::from_origin(Duration::from_nanos(1))).await;
    Ticket::new(clock, Monotonic::default())
}

#[tokio::test]
async fn warmed_connections_carry_the_requests_that_follow() {
    let service = Loopback::start(EndpointBehaviour::Answer("{}", Duration::from_millis(50))).await;
    let wire = Wire::new();
    for _ in 0..2 {
        let warmed = get(&wire, &service.url(), Some(RequestKind::Warm(40))).await;
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
    let refused = get(&wire, &service.url(), Some(RequestKind::Send(ticket.clone()))).await;
    assert!(in_full(&refused.unwrap_err()).contains("its slot had passed"));
    assert_eq!(ticket.stage(), Stage::NotSent);
    let ticket = in_time();
    get(&wire, &service.url(), Some(RequestKind::Send(ticket.clone()))).await.unwrap();
    assert_eq!(ticket.stage(), Stage::AfterWrite);
    assert_eq!((service.connections(), service.requests()), (1, 1));
}

#[tokio::test]
async fn connections_that_the_service_closed_cost_no_request() {
    let service = Loopback::start(EndpointBehaviour::AnswerAndClose("{}")).await;
    let wire = Wire::new();
    for _ in 0..50 {
        get(&wire, &service.url(), Some(RequestKind::Send(in_time()))).await.unwrap();
    }
    assert_eq!((service.connections(), service.requests()), (50, 50));
}

#[tokio::test]
async fn a_request_that_was_written_is_never_written_again() {
    for habit in [EndpointBehaviour::Close, EndpointBehaviour::CloseWithinAnswer] {
        let service = Loopback::start(habit).await;
        let wire = Wire::new();
        // The same holds for a warmed connection and for a fresh one.
        for warmed in [1, 0] {
            let _ = get(&wire, &service.url(), Some(RequestKind::Warm(warmed))).await;
            let ticket = in_time();
            let lost = get(&wire, &service.url(), Some(RequestKind::Send(ticket.clone()))).await;
            let error = lost.unwrap_err();
            assert!(error.is_io(), "the SDK's retries take this for transient: {error:?}");
            assert_eq!(ticket.stage(), Stage::AfterWrite);
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
    let refused =
        get(&Wire::new(), &url, Some(RequestKind::Send(ticket.clone()))).await.unwrap_err();
    assert!(refused.is_io());
    assert!(in_full(&refused).contains("refused"), "{}", in_full(&refused));
    assert_eq!(ticket.stage(), Stage::Connect);
    // Warming returns no error here, and gives up before it has tried 900 times.
    let _ = get(&Wire::new(), &url, Some(RequestKind::Warm(900))).await;
}

#[tokio::test]
async fn an_idle_connection_grows_old() {
    let service = Loopback::start(OK).await;
    let wire = Wire::new();
    get(&wire, &service.url(), None).await.unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(21)).await;
    tokio::time::resume();
    get(&wire, &service.url(), None).await.unwrap();
    assert_eq!(service.connections(), 2);
}

/// Simulates a freeze, in which the monotonic clock stands still.
#[tokio::test]
async fn a_connection_from_before_a_freeze_is_not_used() {
    let service = Loopback::start(OK).await;
    let wire = Wire::new();
    get(&wire, &service.url(), None).await.unwrap();
    wire.pool.froze_for(Duration::from_secs(21));
    get(&wire, &service.url(), None).await.unwrap();
    assert_eq!(service.connections(), 2);
}

#[tokio::test]
async fn a_connection_that_comes_too_late_serves_the_next_attempt() {
    let service = Loopback::start(OK).await;
    let wire = Wire::new();
    let url = service.url();
    // The caller gives up before the connection's task has run.
    let attempt = get(&wire, &url, None);
    assert!(attempt.now_or_never().is_none());
    get(&wire, &url, None).await.unwrap();
    assert_eq!((service.connections(), service.requests()), (1, 1));
}

#[tokio::test]
async fn after_an_attempt_without_an_answer_no_connection_of_its_age_is_tried() {
    let silent = Loopback::start(EndpointBehaviour::SilentAfterOne).await;
    let (wire, url) = (Wire::new(), silent.url());
    // Two connections; the server then closes both without this side noticing.
    join_all((0..2).map(|_| get(&wire, &url, None))).await;
    let attempt = get(&wire, &url, None);
    let attempt = tokio::time::timeout(Duration::from_millis(20), attempt).await;
    assert!(attempt.is_err());
    let origin = Origin::of(&url.parse().unwrap()).unwrap();
    assert_eq!(wire.pool.idle(&origin), 0);
}

#[tokio::test]
async fn no_more_connections_are_open_than_the_budget_allows() {
    let answer = EndpointBehaviour::Answer("{}", Duration::from_millis(5));
    let (first, second) = (Loopback::start(answer).await, Loopback::start(answer).await);
    let wire = Wire::within(Budget { most: 10, mail: 6, other: 6 });
    let most = std::cell::Cell::new(0);
    let asked = |url: String| async {
        let url = url;
        let answer = get(&wire, &url, None).await;
        most.set(wire.pool.open_connections().max(most.get()));
        answer
    };
    let urls = (0..60).map(|n| if n % 2 == 0 { first.url() } else { second.url() });
    let answers = join_all(urls.map(asked)).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(most.get(), 10);
    assert!(first.connections() <= 6 && second.connections() <= 6);
    assert_eq!(first.requests() + second.requests(), 60);
}

#[tokio::test]
async fn an_idle_connection_makes_room_for_one_that_is_needed_elsewhere() {
    let (first, second) = (Loopback::start(OK).await, Loopback::start(OK).await);
    let wire = Wire::within(Budget { most: 1, mail: 1, other: 1 });
    for service in [&first, &second, &first] {
        get(&wire, &service.url(), None).await.unwrap();
    }
    assert_eq!((first.connections(), second.connections()), (2, 1));
}

#[tokio::test]
async fn warming_beyond_the_budget_closes_no_connection_that_is_warm() {
    let service = Loopback::start(EndpointBehaviour::Answer("{}", Duration::from_millis(50))).await;
    let wire = Wire::within(Budget { most: 4, mail: 8, other: 8 });
    for _ in 0..2 {
        let _ = get(&wire, &service.url(), Some(RequestKind::Warm(8))).await;
    }
    let url = service.url();
    let sends = join_all((0..4).map(|_| get(&wire, &url, None))).await;
    assert!(sends.iter().all(Result::is_ok));
    assert_eq!((service.connections(), service.requests()), (4, 4));
}

#[tokio::test]
async fn a_mail_for_which_there_is_no_room_was_not_sent() {
    let service = Loopback::start(EndpointBehaviour::Silence).await;
    let wire = Wire::within(Budget { most: 1, mail: 1, other: 1 });
    let url = service.url();
    let clock = SystemClock::new();
    let soon = Ticket::new(clock, clock.monotonic() + Duration::from_millis(30));
    let unanswered = get(&wire, &url, Some(RequestKind::Send(in_time())));
    let crowded = get(&wire, &url, Some(RequestKind::Send(soon.clone())));
    let refused = tokio::select! {
        biased;
        _ = unanswered => unreachable!("nobody answers"),
        refused = crowded => refused.unwrap_err(),
    };
    assert!(in_full(&refused).contains("as many connections are open as may be"));
    assert_eq!(soon.stage(), Stage::NotSent);
    assert_eq!(service.requests(), 1);
}

#[test]
fn what_our_own_side_lacks_is_exhaustion_and_a_refusal_is_none() {
    let exhausted = |error: std::io::Error| WireError::Connect(error.into()).is_exhaustion();
    for code in [23, 24] {
        assert!(exhausted(std::io::Error::from_raw_os_error(code)));
    }
    assert!(exhausted(std::io::ErrorKind::AddrNotAvailable.into()));
    assert!(!exhausted(std::io::ErrorKind::ConnectionRefused.into()));
    assert!(!exhausted(std::io::ErrorKind::TimedOut.into()));
}

#[tokio::test]
async fn an_endpoint_is_an_address_with_a_host() {
    let error = get(&Wire::new(), "/v2/email", None).await.unwrap_err();
    assert!(error.is_user() && in_full(&error).contains("/v2/email"), "{}", in_full(&error));
}

/// Answers one request and keeps the connection until `close` is received. Then it closes it, reports that
/// in `closed`, and answers one more request on the next connection.
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
    // The connection closes while nothing runs here, and its task runs after this one. So it still counts as
    // idle when it gets the request.
    close.send(()).unwrap();
    closed.recv().unwrap();
    tokio::task::yield_now().await;
    let origin = Origin::of(&url.parse().unwrap()).unwrap();
    assert_eq!(wire.pool.idle(&origin), 1);
    let ticket = in_time();
    get(&wire, &url, Some(RequestKind::Send(ticket.clone()))).await.unwrap();
    assert_eq!(ticket.stage(), Stage::AfterWrite);
}
