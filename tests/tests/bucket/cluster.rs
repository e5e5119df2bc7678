//! Servers in cluster mode: the bucket is found, moves, and survives the loss of its node.

use std::time::Duration;

use tidegate_adapters::redis::{RedisBucket, TIME_LIMIT};
use tidegate_core::config::BucketLost;
use tidegate_delivery::bucketed::Bucketed;
use tidegate_delivery::ports::{Bucket as _, LimitTake, Mailer as _, TakeRequest};
use tokio::time::{Instant, sleep};

use super::outages::{Ses, send};
use super::{Server, bucket, is_granted, one, server};

const READY_WITHIN: Duration = Duration::from_secs(20);

/// Three servers of one cluster. The first has the bucket's keys; each has a slot, and so a vote.
struct Cluster {
    nodes: Vec<Server>,
    slot: u16,
}

async fn node() -> Server {
    server(&[
        "--cluster-enabled",
        "yes",
        "--cluster-node-timeout",
        "500",
        "--cluster-require-full-coverage",
        "no",
    ])
    .await
}

async fn said(server: &Server, command: &str) -> String {
    let said = server.command(command).await.unwrap();
    assert!(!said.starts_with('-'), "{command}: {said}");
    said
}

async fn id(server: &Server) -> String {
    said(server, "CLUSTER MYID").await.lines().nth(1).unwrap().to_owned()
}

/// Waits until all servers' answer to `command` contains `text`.
async fn until(servers: &[&Server], command: &str, text: &str) {
    let deadline = Instant::now() + READY_WITHIN;
    for server in servers {
        while !said(server, command).await.contains(text) {
            assert!(Instant::now() < deadline, "{}", said(server, command).await);
            sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Cluster {
    async fn start() -> Self {
        let nodes = [node().await, node().await, node().await];
        let slot = said(&nodes[0], "CLUSTER KEYSLOT {tidegate}:account").await;
        let slot: u16 = slot.trim().trim_start_matches(':').parse().unwrap();
        // The first one has another slot, too: without any it would become a replica.
        said(&nodes[0], &format!("CLUSTER ADDSLOTS {slot} {}", slot + 1)).await;
        said(&nodes[1], &format!("CLUSTER ADDSLOTS {}", slot + 2)).await;
        said(&nodes[2], &format!("CLUSTER ADDSLOTS {}", slot + 3)).await;
        let cluster = Self { nodes: nodes.into(), slot };
        for server in &cluster.nodes[1..] {
            cluster.introduce(server).await;
        }
        until(&cluster.all(), "CLUSTER INFO", "cluster_known_nodes:3").await;
        until(&cluster.all(), "CLUSTER INFO", "cluster_size:3").await;
        until(&cluster.all(), "CLUSTER INFO", "cluster_state:ok").await;
        cluster
    }

    fn all(&self) -> Vec<&Server> {
        self.nodes.iter().collect()
    }

    async fn introduce(&self, server: &Server) {
        let port = self.nodes[0].address().port();
        said(server, &format!("CLUSTER MEET 127.0.0.1 {port}")).await;
    }

    /// Begins to move the bucket's slot from the first node to the second.
    async fn begin_to_move(&self) {
        let [from, to] = [&self.nodes[0], &self.nodes[1]];
        let (slot, [from_id, to_id]) = (self.slot, [id(from).await, id(to).await]);
        said(to, &format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}")).await;
        said(from, &format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}")).await;
    }

    async fn end_the_move(&self) {
        let to = id(&self.nodes[1]).await;
        for server in [&self.nodes[1], &self.nodes[0], &self.nodes[2]] {
            said(server, &format!("CLUSTER SETSLOT {} NODE {to}", self.slot)).await;
        }
    }
}

async fn keys(server: &Server) -> String {
    said(server, "DBSIZE").await.trim().to_owned()
}

#[tokio::test]
async fn from_any_node_the_bucket_is_found_on_the_one_that_has_it() {
    let cluster = Cluster::start().await;
    let domains = [LimitTake {
        name: "gmail.example".to_owned(),
        rate: one(1.0).pace.rate,
        recipients: 1,
        is_of_recipient: false,
    }];
    for server in &cluster.nodes {
        let bucket = bucket(server);
        bucket.warm().await;
        assert!(is_granted(&bucket, 10_000.0).await.unwrap());
        let request = TakeRequest { limits: &domains, ..one(10_000.0) };
        bucket.take(&request).await.unwrap();
        assert_eq!(keys(&cluster.nodes[0]).await, ":2", "all keys are on one node");
    }
    assert_eq!(keys(&cluster.nodes[1]).await, ":0");
    assert_eq!(keys(&cluster.nodes[2]).await, ":0");
}

#[tokio::test]
async fn a_bucket_that_moves_is_followed_and_keeps_what_it_knows() {
    let cluster = Cluster::start().await;
    // One take a minute: a bucket that forgot would grant a second one.
    let rate = 1.0 / 60.0;
    let followers = [bucket(&cluster.nodes[0]), bucket(&cluster.nodes[2])];
    assert!(is_granted(&followers[1], 10_000.0).await.unwrap(), "it knows the first node");
    sleep(Duration::from_millis(1_100)).await;
    assert_eq!(keys(&cluster.nodes[0]).await, ":0", "the key has expired");
    cluster.begin_to_move().await;
    assert!(is_granted(&followers[0], rate).await.unwrap(), "asked");
    assert_eq!(
        (keys(&cluster.nodes[0]).await, keys(&cluster.nodes[1]).await),
        (":0".to_owned(), ":1".to_owned())
    );
    assert!(!is_granted(&followers[1], rate).await.unwrap(), "asked, and known there");
    cluster.end_the_move().await;
    for follower in &followers {
        assert!(!is_granted(follower, rate).await.unwrap(), "moved");
    }
}

#[tokio::test]
async fn while_a_new_node_takes_over_mail_goes_as_the_setting_says_and_then_again_by_the_bucket() {
    let mut cluster = Cluster::start().await;
    let replica = node().await;
    cluster.introduce(&replica).await;
    until(&[&replica], "CLUSTER INFO", "cluster_known_nodes:4").await;
    let master = id(&cluster.nodes[0]).await;
    until(&[&replica], "CLUSTER NODES", &master).await;
    said(&replica, &format!("CLUSTER REPLICATE {master}")).await;
    until(&[&replica], "INFO replication", "master_link_status:up").await;
    until(&[&cluster.nodes[1], &cluster.nodes[2]], "CLUSTER INFO", "cluster_known_nodes:4").await;

    let url = || cluster.nodes[1].url("");
    let of = |lost| Bucketed::new(Ses, RedisBucket::new(url(), "tidegate".to_owned()), lost);
    let (closed, open) = (of(BucketLost::Closed), of(BucketLost::Open));
    assert!(send(&closed, 0).await.is_ok() && send(&open, 1).await.is_ok());
    cluster.nodes[0].kill();
    let began = Instant::now();
    assert!(send(&closed, 2).await.is_err());
    assert!(send(&open, 3).await.is_ok());
    assert!(began.elapsed() < 3 * TIME_LIMIT, "{:?}", began.elapsed());
    let mut slot = 1_000;
    let deadline = Instant::now() + READY_WITHIN;
    while send(&closed, slot).await.is_err() {
        assert!(Instant::now() < deadline, "nobody took over");
        slot += 2_000;
        sleep(Duration::from_millis(50)).await;
    }
    assert!(closed.takes().lost >= 1, "{:?}", closed.takes());
    assert!(send(&open, slot + 2_000).await.is_ok());
    let lost = open.takes();
    assert!(send(&open, slot + 2_001).await.is_ok());
    assert_eq!(open.takes(), lost, "by the bucket again");
    assert_eq!(keys(&replica).await, ":1");
}
