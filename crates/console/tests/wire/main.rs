//! Event streams as they arrive: raw bytes over real sockets, from several addresses of this machine.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests: a panic is a finding"
)]

mod coming_back;
mod ending;
mod http2;
mod load;
mod looking;
mod opening;
mod pacing;
mod silent;
mod stalled;

#[path = "../support/client.rs"]
mod client;
#[path = "../support/files.rs"]
mod files;
#[path = "../support/stack.rs"]
mod stack;

use std::future::Future;
use std::time::Duration;

use tidegate_console::event::{ChangeKind, ChangeTone, StateChange, Telemetry};
use tidegate_console::stream::{Hub, StreamRegistry};
use tidegate_core::identity::EpochMillis;
use tokio::time::{sleep, timeout};

use client::{Answer, Frame};

/// The token of consoles that have one.
const TOKEN: &str = "correct-horse-battery-staple";
/// The number of changes that may wait for one stream.
const QUEUE: usize = 200;

/// One of the addresses 127.0.0.x, each of which counts as a client of its own.
const fn client(last: u8) -> [u8; 4] {
    [127, 0, 0, last]
}

/// Limits the time of a wait, so that a failing test ends.
async fn soon<T>(awaited: impl Future<Output = T>) -> T {
    timeout(Duration::from_mins(1), awaited).await.expect("it comes")
}

fn change(kind: ChangeKind) -> StateChange {
    StateChange {
        seq: 0,
        at: EpochMillis::new(1_795_206_967_042),
        kind,
        campaign: None,
        title: "big is held: refusals".to_owned(),
        detail: String::new(),
        tone: ChangeTone::Info,
    }
}

fn publish(hub: &Hub, count: usize) {
    hub.change(|registry| (0..count).for_each(|_| registry.publish(change(ChangeKind::Hold))));
}

fn show(hub: &Hub, json: impl Into<std::sync::Arc<str>>) {
    hub.change(|registry| registry.show(Telemetry::Figures, json.into()));
}

/// The places of the next changes.
async fn seqs(stream: &mut Answer, count: usize) -> Vec<u64> {
    let mut found = Vec::new();
    let all = async {
        while found.len() < count {
            found.extend(stream.next().await.seq());
        }
    };
    soon(all).await;
    found
}

/// Everything that waits for a stream. New figures mark the end: once no change waits, nothing comes
/// behind them.
async fn rest(hub: &Hub, stream: &mut Answer) -> Vec<Frame> {
    let mut frames = Vec::new();
    let all = async {
        for part in 0.. {
            let is_last = hub.look(StreamRegistry::waiting) == (0, 0);
            let mark = format!("\"part {part}\"");
            show(hub, mark.clone());
            loop {
                let frame = stream.next().await;
                if frame.data == mark {
                    break;
                }
                frames.push(frame);
            }
            if is_last {
                return;
            }
        }
    };
    soon(all).await;
    frames
}

/// Waits until so many streams are open.
async fn streams(hub: &Hub, count: usize) {
    let counted = async {
        while hub.look(StreamRegistry::streams) != count {
            sleep(Duration::from_millis(1)).await;
        }
    };
    soon(counted).await;
}
