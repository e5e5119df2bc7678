//! The buckets that consoles share, on the same server.

use std::time::Duration;

use tidegate_adapters::redis::{RedisConsoleBuckets, TIME_LIMIT};
use tidegate_core::config::KeyPrefix;
use tidegate_delivery::ports::{BucketCharge, ConsoleBuckets, FailureKind};
use tidegate_tests::contract::console_buckets::{ConsoleBucketRoom, console_bucket_contract};
use tidegate_tests::server::Server;
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::login::TAKER;
use super::{bucket, is_granted, server};

/// The function by which a console names its stack.
const STACK: &str = "arn:aws:lambda:eu-west-1:123456789012:function:mail-poller";

struct ConsoleServer(Server);

impl ConsoleBucketRoom for ConsoleServer {
    type Buckets = RedisConsoleBuckets;

    async fn open(&self, stack: &str) -> RedisConsoleBuckets {
        RedisConsoleBuckets::new(self.0.url(""), KeyPrefix::default(), stack.to_owned())
    }

    async fn wait(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

fn of(server: &Server, login: &str) -> RedisConsoleBuckets {
    RedisConsoleBuckets::new(server.url(login), KeyPrefix::default(), STACK.to_owned())
}

/// A second's worth of tokens, taken now.
fn second() -> BucketCharge {
    let second = Duration::from_secs(1);
    let bucket = "events/session/ada 5f9d0c6b".to_owned();
    BucketCharge { bucket, charged: second, full_in: second, most: 100 * second }
}

#[tokio::test]
async fn the_redis_console_buckets_keep_the_contract() {
    console_bucket_contract(&ConsoleServer(server(&[]).await)).await;
}

#[tokio::test]
async fn the_pollers_buckets_are_others_and_their_user_may_charge() {
    let server = server(&[]).await;
    assert_eq!(server.command(TAKER).await.unwrap(), "+OK\r\n");
    let buckets = of(&server, "tidegate:s%40cret%2F1@");
    assert_eq!(buckets.charge(&[second()]).await.unwrap(), [Duration::from_secs(1)]);
    let bucket = bucket(&server);
    assert!(is_granted(&bucket, 14.0).await.unwrap());
    let own = server.command("EXISTS {tidegate}:account").await.unwrap();
    let all = server.command("DBSIZE").await.unwrap();
    assert_eq!((own.trim(), all.trim()), (":1", ":2"));
}

#[tokio::test]
async fn a_key_expires_a_minute_after_its_bucket_is_full() {
    let server = server(&[]).await;
    let charge = BucketCharge { bucket: "events/address/192.0.2.7".to_owned(), ..second() };
    of(&server, "").charge(&[charge]).await.unwrap();
    let key = format!("{{tidegate}}:console:{STACK}/events/address/192.0.2.7");
    let left = server.command(&format!("PTTL {key}")).await.unwrap();
    let left: i64 = left.trim().trim_start_matches(':').parse().unwrap();
    assert!((55_000..=61_000).contains(&left), "{left}");
}

#[tokio::test]
async fn a_server_that_is_gone_is_an_error_soon_and_one_that_is_back_answers() {
    let mut server = server(&[]).await;
    let buckets = of(&server, "");
    buckets.charge(&[second()]).await.unwrap();
    server.kill();
    let began = Instant::now();
    for _ in 0..3 {
        buckets.charge(&[second()]).await.unwrap_err();
    }
    assert!(began.elapsed() < 4 * TIME_LIMIT, "{:?}", began.elapsed());
    server.start_again().await.unwrap();
    // It knows nothing any more.
    assert_eq!(buckets.charge(&[second()]).await.unwrap(), [Duration::from_secs(1)]);
}

#[tokio::test]
async fn a_server_that_never_answers_costs_a_charge_no_more_than_the_time_limit() {
    let deaf = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("redis://{}", deaf.local_addr().unwrap()).parse().unwrap();
    let buckets = RedisConsoleBuckets::new(url, KeyPrefix::default(), STACK.to_owned());
    let began = Instant::now();
    let error = buckets.charge(&[second()]).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::TimedOut);
    assert!(began.elapsed() < TIME_LIMIT + Duration::from_millis(200), "{:?}", began.elapsed());
}
