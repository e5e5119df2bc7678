//! The server: does what it is told line by line, and says what it then is.

use std::io::Write as _;

use rustix::time::ClockId;
use serde_json::{Value, json};
use tidegate_console::event::{ChangeKind, ChangeTone, StateChange, Telemetry};
use tidegate_console::stream::{Hub, StreamRegistry};
use tidegate_core::identity::EpochMillis;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::stack::{Server, defaults};
use super::{CAMPAIGNS, CHANGES, EVERY, FILLING, nanos};

pub(crate) async fn serve() {
    let server = Server::start(defaults(), CAMPAIGNS).await;
    let (told, mut tells) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        std::io::stdin().lines().map_while(Result::ok).for_each(|line| drop(told.send(line)));
    });
    answer(&json!(server.address.to_string()));
    let state: Value = serde_json::from_str(&server.hub.look(StreamRegistry::state)).unwrap();
    let figures = state["figures"].to_string();
    while let Some(line) = tells.recv().await {
        match line.as_str() {
            "fill" => fill(&server.hub, &figures).await,
            "publish" => publish(&server.hub, &figures).await,
            "look" => {}
            unknown => panic!("{unknown}"),
        }
        answer(&seen(&server.hub));
    }
    server.stop().await;
}

fn answer(value: &Value) {
    println!("{value}");
    std::io::stdout().flush().unwrap();
}

fn show(hub: &Hub, figures: &str) {
    hub.change(|registry| registry.show(Telemetry::Figures, figures.into()));
}

async fn fill(hub: &Hub, figures: &str) {
    for _ in 0..FILLING {
        show(hub, figures);
        sleep(EVERY).await;
    }
}

async fn publish(hub: &Hub, figures: &str) {
    let begun = Instant::now();
    for number in 0..CHANGES {
        sleep_until(begun + EVERY * number).await;
        if number % 2 == 0 {
            show(hub, figures);
        }
        hub.change(|registry| registry.publish(change()));
    }
    sleep(EVERY).await;
}

/// A change that says when it was published.
fn change() -> StateChange {
    StateChange {
        seq: 0,
        at: EpochMillis::new(1_795_206_967_042),
        kind: ChangeKind::Hold,
        campaign: Some("campaign-1".to_owned()),
        title: "campaign-1 is held: refusals".to_owned(),
        detail: nanos(ClockId::Monotonic).to_string(),
        tone: ChangeTone::Bad,
    }
}

/// The server's resources and counters: memory, processor time, events sent, streams waiting.
fn seen(hub: &Hub) -> Value {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: u64 = resident.split_whitespace().next().unwrap().parse().unwrap();
    let (sent, (waiting, most)) =
        hub.look(|registry| (registry.counts.sent.values().sum::<u64>(), registry.waiting()));
    json!({
        "rss": kib * 1_024,
        "cpu_ns": nanos(ClockId::ProcessCPUTime),
        "sent": sent,
        "waiting": waiting,
        "most": most,
    })
}
