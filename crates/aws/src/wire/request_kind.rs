//! What a request asks of the wire beside being sent: it travels as an extension of the request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeTransmitInterceptorContextMut;
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;
use tidegate_delivery::ports::{Clock as _, Monotonic};

use super::error::WireError;
use crate::clock::SystemClock;

/// The order that a request carries through the SDK down to the connection.
#[derive(Clone, Debug)]
pub(crate) enum RequestKind {
    /// Be sent, in time or not at all.
    Send(Ticket),
    /// Not be sent: have this many connections to its endpoint opened.
    Warm(usize),
}

/// How far a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestProgress {
    /// No connection has it.
    Waiting,
    /// Refused on our side: it would have been late, or there was no room for a connection.
    Refused,
    /// A connection has it: what is not answered may have arrived.
    HandedOver,
}

/// The last moment a request may be handed to a connection, and whether it was.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    clock: SystemClock,
    latest: Monotonic,
    progress: Arc<AtomicU8>,
}

const WAITING: u8 = 0;
const REFUSED: u8 = 1;
const HANDED_OVER: u8 = 2;

impl Ticket {
    pub(crate) fn new(clock: SystemClock, latest: Monotonic) -> Self {
        Self { clock, latest, progress: Arc::new(AtomicU8::new(WAITING)) }
    }

    pub(crate) fn progress(&self) -> RequestProgress {
        match self.progress.load(Ordering::Acquire) {
            WAITING => RequestProgress::Waiting,
            REFUSED => RequestProgress::Refused,
            _ => RequestProgress::HandedOver,
        }
    }

    /// Reads the clock: true where the request may be written. From then on it counts as written,
    /// until it is handed back.
    pub(super) fn hand_over(&self) -> bool {
        let in_time = self.clock.monotonic() <= self.latest;
        self.progress.store(if in_time { HANDED_OVER } else { REFUSED }, Ordering::Release);
        in_time
    }

    /// Our side has no connection for the request: nothing of it was written.
    pub(super) fn refuse(&self) {
        self.progress.store(REFUSED, Ordering::Release);
    }

    /// Ends when the request would be late.
    pub(super) fn late(&self) -> impl Future<Output = ()> {
        self.clock.sleep_until(self.latest)
    }

    /// The connection gave the request back, nothing of it written.
    pub(super) fn hand_back(&self) {
        self.progress.store(WAITING, Ordering::Release);
    }
}

/// Puts the request's kind on the request at the SDK's last hook before the wire (a retry's request is a
/// copy without extensions). A late one is refused there already, and one in time counts as handed
/// over until the wire, which knows better, says otherwise: so no other HTTP client can make it look
/// unsent.
#[dyn_dispatch_hint]
impl Intercept for RequestKind {
    fn name(&self) -> &'static str {
        "Errand"
    }

    fn modify_before_transmit(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Self::Send(ticket) = self
            && !ticket.hand_over()
        {
            return Err(WireError::Late.into());
        }
        context.request_mut().add_extension(self.clone());
        Ok(())
    }
}
