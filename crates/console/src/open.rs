//! The console of a stack: a page that listens on an address.

use std::future::Future;
use std::sync::Arc;

use crate::engine::{Engine, StackPorts};
use crate::http::{About, Access, AccessError, App, serve};
use crate::stream::StreamLimits;
use futures_util::FutureExt as _;
use thiserror::Error;
use tidegate_adapters::aws::stack::Stack;
use tidegate_adapters::aws::{ChannelAccount, CloudWatch, DynamoLedger, SqsQueues, SystemClock};
use tidegate_delivery::ports::{Clock as _, PortError};
use tidegate_operator::redact::AddressVisibility;
use tidegate_operator::status::{StatusSettings, other_queues};
use tokio::net::TcpListener;
use tokio::sync::mpsc::unbounded_channel;

/// Changes by operators that a page of the history shows.
const CHANGES: usize = 300;

/// The reasons why a console cannot be opened.
#[derive(Debug, Error)]
pub enum ConsoleError {
    /// It would let anybody in.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The stack is out of reach.
    #[error(transparent)]
    Port(#[from] PortError),
}

type AwsPorts = (SqsQueues, DynamoLedger, ChannelAccount, SystemClock, CloudWatch);

/// A console that listens, and answers as soon as it is served.
pub struct OpenConsole {
    listener: TcpListener,
    engine: Engine<AwsPorts>,
    app: Arc<App>,
}

impl OpenConsole {
    /// Opens a console of `stack` on `listener`, whose address is `access.listen`.
    ///
    /// # Errors
    /// [`ConsoleError`].
    pub async fn open(
        stack: &Stack,
        listener: TcpListener,
        access: Access,
        limits: StreamLimits,
        settings: StatusSettings,
    ) -> Result<Self, ConsoleError> {
        let (addresses, ses_price) = (settings.addresses, settings.ses_price);
        let ports = ports(stack, settings).await;
        let about = About {
            stack: stack.name.clone(),
            region: stack.region.clone(),
            is_local: stack.is_local(),
            channel: stack.poller.rules.channel,
            ses_price,
            operator: ports.operator.clone(),
            shows_addresses: addresses == AddressVisibility::Shown,
        };
        let (engine, handle) = Engine::start(ports, limits).await?;
        let app = App::new(handle, access, about, Box::new(|| SystemClock::new().wall().into()))?;
        Ok(Self { listener, engine, app })
    }

    /// Serves it until `stop` completes.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let stop = stop.shared();
        let serving = serve(self.listener, self.app, stop.clone());
        tokio::join!(self.engine.run(stop), serving);
    }
}

/// The settings of `stack` for its console.
pub fn shown_of(stack: &Stack, addresses: AddressVisibility) -> StatusSettings {
    StatusSettings::of(&stack.name, &stack.poller, &stack.scheduler, addresses, CHANGES)
}

/// The stack, as a console sees it.
async fn ports(stack: &Stack, settings: StatusSettings) -> StackPorts<AwsPorts> {
    let (poller, scheduler) = (stack.poller.clone(), stack.scheduler.clone());
    let (wake, mut asked) = unbounded_channel();
    let asleep = stack.clone();
    tokio::spawn(async move {
        while asked.recv().await.is_some() {
            asleep.wake().await;
        }
    });
    let functions = [&stack.scheduler_function, &stack.poller_function].map(|of| of.name.clone());
    StackPorts {
        settings,
        operator: stack.operator().await,
        places: other_queues(&poller),
        poller,
        scheduler,
        queues: stack.queues(),
        ledger: stack.ledger(),
        account: stack.account(),
        clock: stack.clock(),
        monitor: stack.clients().monitor(&stack.name, functions),
        wake,
    }
}
