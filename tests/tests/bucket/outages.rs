//! The server goes, comes back, forgets.

use std::time::Duration;

use futures_util::future::join_all;
use tidegate_adapters::redis::{RedisBucket, TIME_LIMIT};
use tidegate_core::bucket::Pace;
use tidegate_core::config::BucketLost;
use tidegate_core::email::Email;
use tidegate_core::outcome::{Failure, Outcome, classify};
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_delivery::bucketed::Bucketed;
use tidegate_delivery::ports::{
    Bucket as _, FailureKind, Mail, Mailer, Monotonic, SendAnswer, Takes, Writer, WrittenRequest,
};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::{bucket, is_granted, one, server};

/// Accepts every mail.
pub(super) struct Ses;

impl Mailer for Ses {
    async fn send(&self, _: Mail<'_>, latest: Monotonic) -> SendAnswer {
        SendAnswer { start: Some(latest), result: Ok("id".to_owned()) }
    }

    fn writer(&self) -> Writer {
        Box::new(|_| WrittenRequest::new(()))
    }

    async fn warm(&self, _: usize) {}
}

/// Sends a mail in the slot at this many milliseconds.
pub(super) async fn send(mailer: &impl Mailer, slot: u64) -> Result<String, Failure> {
    let body = r#"{"to_address": "ada@example.com", "from_address": "news@example.org", "subject": "Hello", "body": "Text."}"#;
    let email = Email::parse(body).unwrap().into();
    let pace =
        Pace { rate: Rate::per_second(1_000.0).unwrap(), rate_margin: RateMargin::default() };
    let mail = Mail::new(&email, "big", "1", pace);
    mailer.send(mail, Monotonic::from_origin(Duration::from_millis(slot))).await.result
}

#[tokio::test]
async fn closed_nothing_is_sent_while_it_is_gone_and_all_again_when_it_is_back() {
    let mut server = server(&[]).await;
    let mailer = Bucketed::new(Ses, bucket(&server), BucketLost::Closed);
    let open = Bucketed::new(Ses, bucket(&server), BucketLost::Open);
    assert!(send(&mailer, 0).await.is_ok());
    server.kill();
    let began = Instant::now();
    for slot in 1..100 {
        let failure = send(&mailer, slot).await.unwrap_err();
        assert_eq!(classify(&failure), Outcome::NotSent);
        assert!(send(&open, slot).await.is_ok());
    }
    let took = began.elapsed();
    assert!(took < 4 * TIME_LIMIT, "each window waits once: {took:?}");
    assert_eq!(mailer.takes(), Takes { refused: 0, lost: 99 });
    server.start_again().await.unwrap();
    assert!(send(&mailer, 2_000).await.is_ok(), "it comes back by itself");
    assert_eq!(mailer.takes(), Takes { refused: 0, lost: 99 });
}

#[tokio::test]
async fn a_connection_that_broke_while_it_was_idle_is_found_out_while_warming() {
    let mut server = server(&[]).await;
    let bucket = bucket(&server);
    assert!(is_granted(&bucket, 14.0).await.unwrap());
    server.start_again().await.unwrap();
    bucket.warm().await;
    assert!(is_granted(&bucket, 14.0).await.unwrap());
}

#[tokio::test]
async fn a_server_that_never_answers_costs_no_more_than_the_time_limit_all_together() {
    let deaf = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("redis://{}", deaf.local_addr().unwrap()).parse().unwrap();
    let bucket = RedisBucket::new(url, "tidegate".to_owned());
    let request = one(14.0);
    let began = Instant::now();
    let answers = join_all((0..50).map(|_| bucket.take(&request))).await;
    assert!(began.elapsed() < TIME_LIMIT + Duration::from_millis(200), "{:?}", began.elapsed());
    for answer in answers {
        assert_eq!(answer.unwrap_err().kind, FailureKind::TimedOut);
    }
}

#[tokio::test]
async fn a_script_that_the_server_forgot_is_given_to_it_again() {
    let server = server(&[]).await;
    let bucket = bucket(&server);
    assert!(is_granted(&bucket, 10_000.0).await.unwrap());
    assert!(server.command("SCRIPT FLUSH").await.unwrap().starts_with("+OK"));
    let request = one(10_000.0);
    let answers = join_all((0..20).map(|_| bucket.take(&request))).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

#[tokio::test]
async fn a_key_expires_when_it_says_nothing_any_more() {
    let server = server(&[]).await;
    let bucket = bucket(&server);
    assert!(is_granted(&bucket, 10_000.0).await.unwrap());
    let left = server.command("PTTL {tidegate}:account").await.unwrap();
    let left: i64 = left.trim().trim_start_matches(':').parse().unwrap();
    assert!((1..=1_001).contains(&left), "{left}");
    assert!(is_granted(&bucket, 1.0).await.unwrap());
    let left = server.command("PTTL {tidegate}:account").await.unwrap();
    let left: i64 = left.trim().trim_start_matches(':').parse().unwrap();
    // One period of 1,020 ms ahead, and as long as 49 could be saved up before it. The first take may have
    // left the bucket full 102 µs from now, its period at 10,000 a second: rounded up, one millisecond more.
    assert!((50_000..=51_001).contains(&left), "{left}");
}

/// Other software may get it wrong: it is told so, and nothing is taken.
#[tokio::test]
async fn the_script_refuses_what_is_no_call_of_it() {
    let server = server(&[]).await;
    let bucket = bucket(&server);
    bucket.warm().await;
    let digest = tidegate_adapters::redis::digest();
    for wrong in [
        "0",
        "1 k",
        "1 k 1 100 0",
        "1 k 0 100 0 1",
        "1 k 2 100 0 1",
        "1 k 1 100.5 0 1",
        "1 k 1 -100 0 1",
        "1 k 1 x 0 1",
        "2 k k 1 100 0 1 100 0 1",
    ] {
        let said = server.command(&format!("EVALSHA {digest} {wrong}")).await.unwrap();
        assert!(
            said.starts_with("-TIDEGATE") || said.starts_with("-ERR TIDEGATE"),
            "{wrong}: {said}"
        );
    }
    assert_eq!(server.command("DBSIZE").await.unwrap().trim(), ":0");
    let said = server.command(&format!("EVALSHA {digest} 1 k 1 100 0 1")).await.unwrap();
    assert!(said.starts_with("*4\r\n:1\r\n:0\r\n:0\r\n:1"), "{said}");
}
