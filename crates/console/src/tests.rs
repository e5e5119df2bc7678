//! A stack in memory under simulated time, with a console on it.

use std::io;
use std::sync::{Arc, Mutex};

use futures_util::future::LocalBoxFuture;
use tidegate_delivery::ports::{History, Ledger, Marks, Runs};
use tidegate_fakes::{MemoryAccount, MemoryLedger, MemoryMonitor, MemoryQueues, SimClock};
use tidegate_operator::redact::AddressVisibility;
use tidegate_operator::status::StatusSettings;
use tidegate_simulator::{World, WorldSettings};
use tokio::sync::mpsc::unbounded_channel;
use tracing::Dispatch;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use crate::engine::{Engine, EngineHandle, StackPorts};
use crate::stream::StreamLimits;

pub(crate) type MemoryStackPorts =
    StackPorts<(MemoryQueues, MemoryLedger, MemoryAccount, SimClock, MemoryMonitor)>;

pub(crate) fn limits() -> StreamLimits {
    StreamLimits { streams_per_session: 3, streams: 100, ..StreamLimits::default() }
}

/// Two campaigns, `big` and `small`, at 20 recipients a second.
pub(crate) fn world() -> World {
    World::new(WorldSettings::new(20.0, true)).unwrap()
}

pub(crate) fn site(world: &World) -> MemoryStackPorts {
    site_with(world, world.ledger.clone())
}

/// A site whose ledger is another, such as one that fails.
pub(crate) fn site_with<L: Ledger + Marks + History + Runs>(
    world: &World,
    ledger: L,
) -> StackPorts<(MemoryQueues, L, MemoryAccount, SimClock, MemoryMonitor)> {
    StackPorts {
        settings: StatusSettings {
            stack: "simulated".to_owned(),
            poller: world.settings.poller().unwrap(),
            scheduler: world.settings.scheduler().unwrap(),
            addresses: AddressVisibility::Masked,
            changes: 300,
            ses_price: None,
        },
        operator: "ops".to_owned(),
        queues: world.queues.clone(),
        ledger,
        account: world.ses.account(),
        clock: world.universe.clock(),
        monitor: MemoryMonitor::default(),
        wake: unbounded_channel().0,
    }
}

/// Runs a console on `world` for as long as `script` takes.
pub(crate) fn on<'a, T: 'a>(
    world: &'a World,
    script: impl AsyncFnOnce(EngineHandle) -> T + 'a,
) -> LocalBoxFuture<'a, T> {
    Box::pin(async move {
        let (engine, shared) = Engine::start(site(world), limits()).await.unwrap();
        tokio::select! {
            said = script(shared) => said,
            () = engine.run(std::future::pending()) => panic!("nobody stopped it"),
        }
    })
}

/// A log in memory.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Collects the log of this thread, as long as the second part of the result is held.
    pub(crate) fn of_this_thread() -> (Self, (Dispatch, DefaultGuard)) {
        let log = Self::default();
        // With one dispatcher alone, tracing asks only the thread that comes to an event first whether it
        // logs: that may be another test's, which does not.
        let second = Dispatch::new(tracing_subscriber::fmt().with_writer(io::sink).finish());
        let logs = tracing_subscriber::fmt().with_writer(log.clone()).finish();
        (log, (second, tracing::subscriber::set_default(logs)))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
