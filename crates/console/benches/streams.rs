//! Measures the cost of stalled clients for the others and for the server: a run with 1,000 streams that all
//! read alternates with one in which a tenth of them read only their first event. The server is a process of
//! its own. Prints one JSON object. Linux only, because it reads `/proc`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement that fails is none"
)]
#![expect(clippy::print_stdout, reason = "its result")]

#[path = "../tests/support/client.rs"]
mod client;
#[path = "../tests/support/files.rs"]
mod files;
#[path = "streams/process.rs"]
mod process;
#[path = "streams/server.rs"]
mod server;
#[path = "../tests/support/stack.rs"]
mod stack;

use std::net::SocketAddr;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use client::{Answer, Ask};
use process::Process;

const STREAMS: usize = 1_000;
/// Streams of an address: as many as its bucket feeds at the pace of their own.
const OF_ADDRESS: usize = 5;
/// In the second kind of run one stream out of this many stalls.
const STALLED: usize = 10;
/// Runs of each kind, in turns.
const ROUNDS: usize = 3;
/// Half seconds of a run that are measured, a change each; every other one has figures too. Nothing
/// waits for a token: what passes is the server's time.
const CHANGES: u32 = 20;
const EVERY: Duration = Duration::from_millis(500);
/// So many figures go before, until what lies between server and the stalled is full.
const FILLING: u32 = 10;
/// A stack whose figures are large.
const CAMPAIGNS: usize = 60;

/// Nanoseconds on a clock; the monotonic one all processes of a machine share.
fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap()
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    files::allow(2 * STREAMS as u64);
    if std::env::args().any(|argument| argument == "--server") {
        runtime.block_on(server::serve());
    } else {
        println!("{}", runtime.block_on(compare()));
    }
}

/// Measured latencies of all runs of one kind.
#[derive(Default)]
struct Runs {
    /// For each run, the latencies in microseconds, sorted.
    latencies: Vec<Vec<u64>>,
    lost: u64,
    /// Resident bytes before the first stream, and with all of them.
    bare: u64,
    rss: u64,
    cpu_ns: u64,
    sent: u64,
    /// Changes that waited in the end, and most of one stream.
    waiting: u64,
    most: u64,
}

async fn compare() -> Value {
    let mut kinds = [Runs::default(), Runs::default()];
    for _ in 0..ROUNDS {
        for (stalled, runs) in [false, true].into_iter().zip(&mut kinds) {
            run(stalled, runs).await;
        }
    }
    let [reading, tenth] = kinds.map(Runs::figures);
    let ratio = |(name, figure): (&String, &Value)| {
        let (of, to) = (tenth[name].as_f64().unwrap(), figure.as_f64().unwrap());
        (to > 0.0).then(|| (name.clone(), json!(of / to)))
    };
    let ratios: serde_json::Map<String, Value> =
        reading.as_object().unwrap().iter().filter_map(ratio).collect();
    json!({
        "streams": STREAMS,
        "stalled": STREAMS / STALLED,
        "reading": reading,
        "stalled_tenth": tenth,
        "ratios": ratios,
    })
}

async fn run(stalled: bool, runs: &mut Runs) {
    let (process, to) = Process::start();
    let bare = process.look();
    let (mut readers, mut idle) = (JoinSet::new(), Vec::new());
    for place in 0..STREAMS {
        let stalls = stalled && place.is_multiple_of(STALLED);
        let stream = open(place, to, stalls).await;
        if stalls {
            idle.push(stream);
        } else {
            readers.spawn(listen(stream));
        }
    }
    let before = process.ask("fill").await;
    let after = process.ask("publish").await;
    let heard = readers.join_all().await;
    let of = |value: &Value, name: &str| value[name].as_u64().unwrap();
    runs.lost += heard.len() as u64 * u64::from(CHANGES);
    for (latencies, _) in &heard {
        runs.lost -= latencies.len() as u64;
    }
    let mut latencies: Vec<u64> = heard.into_iter().flat_map(|(latencies, _)| latencies).collect();
    latencies.sort_unstable();
    runs.latencies.push(latencies);
    runs.bare += of(&bare, "rss");
    runs.rss += of(&after, "rss");
    runs.cpu_ns += of(&after, "cpu_ns") - of(&before, "cpu_ns");
    runs.sent += of(&after, "sent") - of(&before, "sent");
    runs.waiting += of(&after, "waiting");
    runs.most = runs.most.max(of(&after, "most"));
}

async fn open(place: usize, to: SocketAddr, stalls: bool) -> Answer {
    let address = u8::try_from(1 + place / OF_ADDRESS).unwrap();
    let ask = Ask { buffer: stalls.then_some(4_096), ..Ask::from([127, 0, 1, address]) };
    let mut stream = ask.open(to).await;
    assert_eq!(stream.next().await.event, "state");
    stream
}

/// How long each change took to come, until the last has. The stream stays open, as a page's does.
async fn listen(mut stream: Answer) -> (Vec<u64>, Answer) {
    let mut latencies = Vec::new();
    let mut last = 0;
    while last < u64::from(CHANGES) {
        let frame = stream.next().await;
        if let Some(seq) = frame.seq() {
            let published: u64 = frame.json()["detail"].as_str().unwrap().parse().unwrap();
            latencies.push(nanos(ClockId::Monotonic) - published);
            last = seq;
        }
    }
    (latencies, stream)
}

impl Runs {
    #[expect(clippy::cast_precision_loss, reason = "figures of some digits")]
    fn figures(self) -> Value {
        // The middle one of the runs: one in which the machine was busy says nothing.
        let at = |percent: usize| {
            let of = |run: &Vec<u64>| run[(run.len() - 1) * percent / 100];
            let mut found: Vec<u64> = self.latencies.iter().map(of).collect();
            found.sort_unstable();
            found[found.len() / 2] as f64 / 1e6
        };
        let each = |sum: u64| sum as f64 / ROUNDS as f64;
        json!({
            "latency_p50_ms": at(50),
            "latency_p99_ms": at(99),
            "rss_bytes": each(self.rss),
            "rss_bytes_per_stream": each(self.rss - self.bare) / STREAMS as f64,
            "cpu_s_per_1000_events": self.cpu_ns as f64 / 1e6 / self.sent as f64,
            "events": each(self.sent),
            "changes_lost": self.lost,
            "changes_waiting": each(self.waiting),
            "changes_waiting_most": self.most,
        })
    }
}
