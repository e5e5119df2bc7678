//! A thousand streams, a tenth of them stalled, at the pace that `tidegate console` has by default.

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use strum::VariantArray as _;
use tidegate_console::event::ChangeKind;
use tidegate_console::stream::{Hub, StreamRegistry};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::client::{Answer, Ask};
use super::stack::{Server, defaults};
use super::{QUEUE, change, files, show, soon};

const STREAMS: usize = 1_000;
/// Streams of an address, far fewer than it may have.
const OF_ADDRESS: usize = 5;
/// Every so manieth reads its first frame and no more.
const STALLED: usize = 10;
/// A second's changes, which are what a stream may have; and for so many seconds.
const CHANGES: usize = 5;
const SECONDS: u32 = 20;
/// A stack whose figures are large: a burst of them fills what lies between server and client.
const CAMPAIGNS: usize = 60;

/// A server with a thread and a runtime of its own, so that what it does and what its clients do is
/// done side by side.
fn beside() -> (SocketAddr, Arc<Hub>, impl FnOnce()) {
    let (told, known) = mpsc::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = Server::start(defaults(), CAMPAIGNS).await;
            told.send((server.address, Arc::clone(&server.hub))).unwrap();
            drop(stopped.await);
            server.stop().await;
        });
    });
    let (address, hub) = known.recv().unwrap();
    (address, hub, || {
        stop.send(()).unwrap();
        serving.join().unwrap();
    })
}

/// Opens the stream at a place among all, and reads its first frame.
async fn open(place: usize, to: SocketAddr) -> Answer {
    let address = u8::try_from(1 + place / OF_ADDRESS).unwrap();
    let buffer = place.is_multiple_of(STALLED).then_some(4_096);
    let ask = Ask { buffer, ..Ask::from([127, 0, 1, address]) };
    let mut stream = ask.open(to).await;
    assert_eq!(soon(stream.next()).await.event, "state");
    stream
}

/// Changes of every kind, some at once each second, and figures beside them.
async fn publish_all(hub: &Hub, figures: &str) {
    let mut kinds = ChangeKind::VARIANTS.iter().copied().cycle();
    let begun = Instant::now();
    for second in 0..SECONDS {
        sleep_until(begun + Duration::from_secs(1) * second).await;
        show(hub, figures);
        let changes: Vec<ChangeKind> = kinds.by_ref().take(CHANGES).collect();
        hub.change(|registry| changes.into_iter().for_each(|kind| registry.publish(change(kind))));
    }
}

#[tokio::test]
async fn of_a_thousand_streams_those_that_read_get_every_change_and_the_stalled_hold_a_queue() {
    // Both ends of each connection are this process's.
    files::allow(3 * STREAMS as u64);
    let (address, hub, stop) = beside();
    let (mut readers, mut stalled) = (JoinSet::new(), Vec::new());
    let mut figures = String::new();
    for place in 0..STREAMS {
        let mut stream = open(place, address).await;
        if place == 0 {
            figures = hub.look(StreamRegistry::state);
        }
        if place.is_multiple_of(STALLED) {
            stalled.push(stream);
            continue;
        }
        readers.spawn(async move {
            let mut seqs = super::seqs(&mut stream, CHANGES * SECONDS as usize).await;
            seqs.sort_unstable();
            // It stays open, as a page does.
            (seqs, stream)
        });
    }
    assert_eq!(hub.look(StreamRegistry::streams), STREAMS);
    publish_all(&hub, &figures).await;
    let readers = soon(readers.join_all()).await;
    let all: Vec<u64> = (1..=CHANGES as u64 * u64::from(SECONDS)).collect();
    // Whose seqs are these, each once and none missing: so nobody missed any.
    assert!(readers.iter().all(|(seqs, _)| *seqs == all));
    assert_eq!(readers.len(), STREAMS - stalled.len());

    let (streams, (waiting, most), counts) =
        hub.look(|registry| (registry.streams(), registry.waiting(), registry.counts.clone()));
    // Nobody was let go of; and what waits are changes of the stalled, in queues that have an end.
    assert_eq!(streams, STREAMS);
    assert!((1..=QUEUE).contains(&most), "{most}");
    assert!(waiting >= stalled.len() && waiting <= stalled.len() * all.len(), "{waiting}");
    let lost = ChangeKind::VARIANTS.iter().filter_map(|kind| counts.dropped.get(kind.into_str()));
    assert_eq!((lost.sum::<u64>(), counts.gaps), (0, 0));
    stop();
}
