//! A console over real sockets, of a stack in memory.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tidegate_console::engine::{Engine, EngineHandle, StackPorts};
use tidegate_console::http::{About, Access, App, bind, serve};
use tidegate_console::rate_limit::BucketRate;
use tidegate_console::stream::{Hub, StreamLimits};
use tidegate_core::identity::EpochMillis;
use tidegate_fakes::{MemoryAccount, MemoryLedger, MemoryMonitor, MemoryQueues, SimClock};
use tidegate_operator::redact::AddressVisibility;
use tidegate_operator::status;
use tidegate_simulator::{World, WorldSettings};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// An engine on the in-memory ports.
pub(crate) type MemoryEngine =
    Engine<(MemoryQueues, MemoryLedger, MemoryAccount, SimClock, MemoryMonitor)>;

/// The limits of `tidegate console` without options.
pub(crate) fn defaults() -> StreamLimits {
    StreamLimits {
        stream_rate: BucketRate::new(5.0, 10).unwrap(),
        streams_per_session: 20,
        streams_per_address: 200,
        streams: 2_000,
    }
}

/// A stack with so many campaigns: the more there are, the larger are its figures.
pub(crate) fn world(campaigns: usize) -> World {
    let settings = WorldSettings::new(14.0, true);
    let named: Vec<(String, u32)> =
        (1..=campaigns).map(|number| (format!("campaign-{number}"), 1)).collect();
    World::new(settings.campaigns(&named)).unwrap()
}

fn site(
    world: &World,
) -> StackPorts<(MemoryQueues, MemoryLedger, MemoryAccount, SimClock, MemoryMonitor)> {
    StackPorts {
        settings: status::StatusSettings {
            stack: "tidegate".to_owned(),
            poller: world.settings.poller().unwrap(),
            scheduler: world.settings.scheduler().unwrap(),
            addresses: AddressVisibility::Masked,
            changes: 20,
            ses_price: None,
        },
        operator: "ada".to_owned(),
        queues: world.queues.clone(),
        ledger: world.ledger.clone(),
        account: world.ses.account(),
        clock: world.universe.clock(),
        monitor: MemoryMonitor::default(),
        wake: unbounded_channel().0,
    }
}

/// A console that has looked once.
pub(crate) async fn engine(world: &World, limits: StreamLimits) -> (MemoryEngine, EngineHandle) {
    Engine::start(site(world), limits).await.unwrap()
}

/// A console's HTTP server, in a task of this runtime.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) hub: Arc<Hub>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Server {
    /// Serves a console with this engine handle, and perhaps a token.
    pub(crate) fn of(shared: EngineHandle, token: Option<&str>) -> Self {
        let listener = bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        let tokens = token.map(|token| token.parse().unwrap()).unwrap_or_default();
        let access =
            Access { listen: address, tokens, public_url: None, trusted_proxies: Vec::new() };
        let about = About {
            stack: "tidegate".to_owned(),
            region: "us-east-1".to_owned(),
            is_local: true,
            channel: tidegate_core::channel::Channel::Email,
            ses_price: None,
            operator: "ada".to_owned(),
            shows_addresses: false,
        };
        let hub = Arc::clone(&shared.hub);
        let clock = || EpochMillis::new(1_795_206_967_042);
        let app = App::new(shared, access, about, Box::new(clock)).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(serve(listener, app, async { drop(stopped.await) }));
        Self { address, hub, stop, serving }
    }

    /// Serves a console whose stack was read once and is not read again.
    pub(crate) async fn start(limits: StreamLimits, campaigns: usize) -> Self {
        let (_, shared) = engine(&world(campaigns), limits).await;
        Self::of(shared, None)
    }

    /// Asks it to end, and waits until it has.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        self.serving.await.unwrap();
    }
}
