//! Instructions to the [`Wire`](super::Wire) that travel with a request as an extension.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeTransmitInterceptorContextMut;
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;
use tidegate_delivery::ports::{Clock as _, Monotonic};

use super::error::WireError;
use crate::aws::clock::SystemClock;

/// The instruction that a request carries through the SDK to the connection.
#[derive(Clone, Debug)]
pub(crate) enum RequestKind {
    /// Send the request unless it is too late.
    Send(Ticket),
    /// Do not send the request: open this many connections to its endpoint.
    Warm(usize),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RequestProgress {
    #[default]
    Waiting,
    /// Refused by this process: it would have been late, or there was no room for a connection.
    Refused,
    /// A connection has taken it. Without an answer it may have arrived.
    HandedOver,
}

/// The last moment at which a request may be handed to a connection, and how far the request got.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    clock: SystemClock,
    latest: Monotonic,
    progress: Arc<Mutex<RequestProgress>>,
}

impl Ticket {
    pub(crate) fn new(clock: SystemClock, latest: Monotonic) -> Self {
        Self { clock, latest, progress: Arc::default() }
    }

    pub(crate) fn progress(&self) -> RequestProgress {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, RequestProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the clock; true if the request may be written. It then counts as written until it is handed
    /// back.
    pub(super) fn hand_over(&self) -> bool {
        let in_time = self.clock.monotonic() <= self.latest;
        *self.lock() = if in_time { RequestProgress::HandedOver } else { RequestProgress::Refused };
        in_time
    }

    /// Notes that this process has no connection for the request, so nothing of it was written.
    pub(super) fn refuse(&self) {
        *self.lock() = RequestProgress::Refused;
    }

    /// Completes when the request would be late.
    pub(super) fn late(&self) -> impl Future<Output = ()> {
        self.clock.sleep_until(self.latest)
    }

    /// Notes that the connection returned the request unwritten.
    pub(super) fn hand_back(&self) {
        *self.lock() = RequestProgress::Waiting;
    }
}

/// Attaches the instruction at the SDK's last hook before the HTTP client (a retry is a copy of the request
/// without extensions). A late request is refused here. One in time counts as handed over unless
/// [`Wire`](super::Wire) corrects that, so that no other HTTP client can make it look unsent.
#[dyn_dispatch_hint]
impl Intercept for RequestKind {
    fn name(&self) -> &'static str {
        "RequestKind"
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
