//! The console of a run's stack, in this process.

use std::convert::Infallible;
use std::fs::File;
use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};

use tidegate_aws::stack::Stack;
use tidegate_aws::{DynamoLedger, SesAccount, SqsQueues, SystemClock};
use tidegate_console::engine::{Engine, StackPorts};
use tidegate_console::http::{About, Access, App, bind, serve};
use tidegate_console::state_file::StateFile;
use tidegate_console::stream::StreamLimits;
use tidegate_delivery::ports::Clock as _;
use tidegate_operate::redact::AddressVisibility;
use tidegate_operate::status::{StatusSettings, other_queues};
use tokio::net::TcpListener;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::error::LocalError;
use super::prerequisites;

/// Changes by operators that a page shows.
const CHANGES: usize = 20;

/// A console that listens, and answers as soon as it is served.
pub(super) struct RunConsole {
    pub(super) url: String,
    listener: TcpListener,
    engine: Engine<SqsQueues, DynamoLedger, SesAccount, SystemClock>,
    app: Arc<App>,
}

impl RunConsole {
    /// Opens a console of `stack` on `port` of loopback, or a free one where that is none. Its log and its
    /// memory go into `folder`.
    pub(super) async fn open(
        stack: &Stack,
        port: Option<u16>,
        folder: &Path,
    ) -> Result<Self, LocalError> {
        log(folder)?;
        let port = prerequisites::port(port, "--console-port")?;
        let failed = |source| LocalError::Start { program: "the console".to_owned(), source };
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = bind(listen).map_err(failed)?;
        let memory = StateFile::open(&folder.join("console.json"), &stack.poller_function.arn);
        let ports = ports(stack).await;
        let about = About {
            stack: stack.name.clone(),
            region: stack.region.clone(),
            is_local: true,
            operator: ports.operator.clone(),
            shows_addresses: false,
        };
        // Without its memory it works as well, but for pages that come back after a restart.
        let (engine, handle) = Engine::start(ports, StreamLimits::default(), memory.ok()).await?;
        let access = Access { listen, token: None, public_url: None, trusted_proxies: Vec::new() };
        let app = App::new(handle, access, about, Box::new(|| SystemClock::new().wall().into()))?;
        Ok(Self { url: format!("http://{listen}/"), listener, engine, app })
    }

    /// Serves it for as long as this is awaited.
    pub(super) async fn serve(self) -> Infallible {
        tokio::join!(self.engine.run(pending()), serve(self.listener, self.app, pending()));
        pending().await
    }
}

/// The stack, as a console sees it.
async fn ports(stack: &Stack) -> StackPorts<SqsQueues, DynamoLedger, SesAccount, SystemClock> {
    let (poller, scheduler) = (stack.poller.clone(), stack.scheduler.clone());
    let masked = AddressVisibility::Masked;
    StackPorts {
        settings: StatusSettings::of(&stack.name, &poller, &scheduler, masked, CHANGES),
        operator: stack.operator().await,
        places: other_queues(&poller),
        poller,
        scheduler,
        queues: stack.queues(),
        ledger: stack.ledger(),
        account: stack.account(),
        clock: stack.clock(),
    }
}

/// One event an outcome, as JSON.
fn log(folder: &Path) -> Result<(), LocalError> {
    let path = folder.join("console.log");
    let file = File::create(&path).map_err(|source| LocalError::Write { path, source })?;
    let layer = tracing_subscriber::fmt::layer().json().with_writer(Mutex::new(file));
    let ours = Targets::new().with_target("tidegate_console", tracing::Level::INFO);
    // Somebody logs already: a test.
    drop(tracing_subscriber::registry().with(ours).with(layer).try_init());
    Ok(())
}
