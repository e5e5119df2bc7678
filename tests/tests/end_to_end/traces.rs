//! Reads what a run leaves apart from arrivals: logs, the sandbox's mailbox, processes.

use std::collections::BTreeMap;
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::process::Pid;
use serde::Deserialize;
use serde_json::Value;
use tidegate_delivery::ports::{Ledger as _, QueueDepth};
use tidegate_devstack::LocalPlan;
use tidegate_operator::audit::AuditPromise;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::site::{BIG, DEAD_LETTERS, EXPRESS, SMALL, Site};

/// A mail that SES accepted.
#[derive(Debug, Deserialize)]
pub(crate) struct Taken {
    arrived_ns: u64,
    tags: BTreeMap<String, String>,
    status: String,
}

/// The copies of one mail that arrived: their times in nanoseconds since the epoch, and the number
/// of those whose answer was withheld.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    pub(crate) arrived_ns: Vec<u64>,
    pub(crate) unanswered: usize,
}

impl Copies {
    pub(crate) fn last_ns(&self) -> u64 {
        self.arrived_ns.iter().copied().max().unwrap()
    }
}

/// The body that a server on this machine answers a GET with.
pub(crate) async fn get(url: &str) -> std::io::Result<String> {
    let (host, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).await?;
    let request = format!("GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    if head.starts_with("HTTP/1.1 200") || head.starts_with("HTTP/1.0 200") {
        return Ok(body.to_owned());
    }
    Err(std::io::Error::other(format!("{url} answers {head:?}")))
}

impl Site {
    /// The copies of each mail by its tags `tidegate_campaign` and `tidegate_id`, which identify a
    /// mail for SES.
    pub(crate) async fn copies(&self) -> BTreeMap<String, Copies> {
        let url = format!("{}/_sandbox/mails?limit=10000", self.aws.sandbox.url());
        let taken: Vec<Taken> = serde_json::from_str(&get(&url).await.unwrap()).unwrap();
        let mut copies: BTreeMap<String, Copies> = BTreeMap::new();
        for mail in taken {
            let tag = |name: &str| mail.tags[name].clone();
            let identity = format!("{}/id/{}", tag("tidegate_campaign"), tag("tidegate_id"));
            let of_it = copies.entry(identity).or_default();
            of_it.arrived_ns.push(mail.arrived_ns);
            of_it.unanswered += usize::from(mail.status == "answer-lost");
        }
        copies
    }

    /// The functions' log events with this message. ministack writes a function's lines when its run
    /// has ended.
    pub(crate) fn events(&self, message: &str) -> Vec<Value> {
        let log = std::fs::read(self.aws.folder.join("ministack.log")).unwrap();
        let log = String::from_utf8_lossy(&log);
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter(|event| event["message"] == message).collect()
    }

    /// Waits until every mail of the plan has arrived and no queue holds any of it, then for what may
    /// come late. Nothing may be dead-lettered.
    pub(crate) async fn complete(&mut self, plan: &LocalPlan, seconds: u64) {
        let until = Instant::now() + Duration::from_secs(seconds);
        loop {
            self.look().await;
            let missing = self.figures(plan).missing;
            let mut left = Vec::new();
            for queue in [BIG, SMALL, EXPRESS, "MergeQueueUrl"] {
                left.push((queue, self.depth(queue).await));
            }
            if missing == 0 && left.iter().all(|(_, depth)| *depth == QueueDepth::default()) {
                break;
            }
            assert!(Instant::now() < until, "{missing} missing after {seconds} s; left: {left:?}");
            sleep(Duration::from_millis(500)).await;
        }
        sleep(Duration::from_secs(1)).await;
        self.look().await;
        assert_eq!(self.depth(DEAD_LETTERS).await, QueueDepth::default());
        self.audited(self.figures(plan).duplicates == 0).await;
    }

    /// The pollers' log shows no broken promise. That a poller was killed is not in it here: what is sent twice then has
    /// no cause.
    async fn audited(&self, once: bool) {
        let audit = self.aws.audit().await.unwrap();
        assert!(audit.windows.is_some(), "no record of a window");
        let twice = "every mail sent once, or twice with a cause";
        let broken =
            |promise: &&AuditPromise| promise.broken > 0 && (once || promise.promise != twice);
        let broken: Vec<_> = audit.promises.iter().filter(broken).collect();
        assert!(broken.is_empty(), "{broken:#?}");
    }

    /// The rate factor in millionths, and the sums of the pollers' reports.
    pub(crate) async fn ledger(&self) -> (u64, BTreeMap<String, i64>) {
        let standing = self.aws.ledger().unwrap().read().await.unwrap();
        (standing.factor.millionths(), standing.counters)
    }

    /// The processes of a function, by the template's output with its name: its environments.
    #[cfg(target_os = "linux")]
    pub(crate) fn processes(&self, function: &'static str) -> Vec<Pid> {
        // Both ministack's port and the function tell these from any other's.
        let port = self.aws.endpoint().rsplit_once(':').unwrap().1;
        let function = self.aws.stack.output(function).unwrap();
        let marks =
            [format!("GATEWAY_PORT={port}\0"), format!("AWS_LAMBDA_FUNCTION_NAME={function}\0")];
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let is_poller = |id: &i32| {
            let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            let environment = String::from_utf8_lossy(&environment).into_owned();
            marks.iter().all(|mark| environment.contains(mark))
        };
        let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter(is_poller).filter_map(Pid::from_raw).collect()
    }
}
