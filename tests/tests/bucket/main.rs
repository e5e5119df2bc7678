//! The shared bucket on a real server: its contract, the bound among many processes, and what happens
//! as the server goes and comes back.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

mod cluster;
mod login;
mod many;
mod outages;

use std::cell::Cell;
use std::time::Duration;

use tidegate_adapters::redis::RedisBucket;
use tidegate_core::bucket::Pace;
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_delivery::ports::{Answer, Bucket, PortError, TakeRequest};
use tidegate_tests::contract::bucket::{BucketRoom, bucket_contract};
use tidegate_tests::server::Server;

/// A server of the test's own.
async fn server(options: &[&str]) -> Server {
    Server::start(options).await.unwrap()
}

fn bucket(server: &Server) -> RedisBucket {
    RedisBucket::new(server.url(""), "tidegate".to_owned())
}

/// One recipient, at so many a second.
fn one(rate: f64) -> TakeRequest<'static> {
    let pace =
        Pace { rate: Rate::per_second(rate).unwrap(), rate_margin: RateMargin::new(0.02).unwrap() };
    TakeRequest { pace, wanted: 1, least: 1, limits: &[] }
}

async fn is_granted(bucket: &RedisBucket, rate: f64) -> Result<bool, PortError> {
    Ok(matches!(bucket.take(&one(rate)).await?.answer, Answer::Granted(_)))
}

struct Buckets {
    server: Server,
    made: Cell<u32>,
}

impl BucketRoom for Buckets {
    type Bucket = RedisBucket;

    async fn open(&self) -> RedisBucket {
        let number = self.made.replace(self.made.get() + 1);
        let prefix = format!("contract-{number}").parse().unwrap();
        RedisBucket::new(self.server.url(""), prefix)
    }

    async fn wait(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

#[tokio::test]
async fn the_redis_bucket_keeps_the_contract() {
    bucket_contract(&Buckets { server: server(&[]).await, made: Cell::new(0) }).await;
}
