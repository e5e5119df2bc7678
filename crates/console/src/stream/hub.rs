use std::collections::BTreeMap;
use std::future::Future as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_delivery::ports::Monotonic;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::registry::{StreamRegistry, StreamStep};
use crate::rate_limit::{ClientAddress, TooManyStreams};

/// Shares the registry among all connections, and wakes their streams when something changes.
#[derive(Debug)]
pub struct Hub {
    started: Instant,
    inner: Mutex<HubState>,
    /// Notified when a stream is opened: the engine then looks at once.
    opened: Notify,
    watched: Notify,
}

#[derive(Debug)]
struct HubState {
    registry: StreamRegistry,
    wakers: BTreeMap<u64, Waker>,
}

impl Hub {
    /// Wraps a registry, whose time begins now.
    pub fn new(registry: StreamRegistry) -> Self {
        let inner = Mutex::new(HubState { registry, wakers: BTreeMap::new() });
        Self { started: Instant::now(), inner, opened: Notify::new(), watched: Notify::new() }
    }

    fn now(&self) -> Monotonic {
        Monotonic::from_origin(self.started.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, HubState> {
        // No step leaves the registry half changed, so it can be used after a panic, too.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the registry under its lock.
    pub fn look<T>(&self, look: impl FnOnce(&StreamRegistry) -> T) -> T {
        look(&self.lock().registry)
    }

    /// Changes the registry under its lock, and wakes all streams.
    pub fn change<T>(&self, change: impl FnOnce(&mut StreamRegistry) -> T) -> T {
        let mut inner = self.lock();
        let changed = change(&mut inner.registry);
        let wakers = std::mem::take(&mut inner.wakers);
        drop(inner);
        wakers.into_values().for_each(Waker::wake);
        changed
    }

    /// Waits until a stream is opened; one that was opened since the last wait counts.
    pub async fn opened(&self) {
        self.opened.notified().await;
    }

    /// Waits until a stream is open.
    pub async fn watched(&self) {
        loop {
            let watched = self.watched.notified();
            if self.look(StreamRegistry::streams) > 0 {
                return;
            }
            watched.await;
        }
    }

    /// Opens a stream; dropping the subscription closes it.
    ///
    /// # Errors
    /// [`TooManyStreams`].
    pub fn subscribe(
        self: &Arc<Self>,
        address: ClientAddress,
        last: Option<&str>,
    ) -> Result<Subscription, TooManyStreams> {
        let now = self.now();
        let id = self.lock().registry.open(address, last, now)?;
        self.opened.notify_one();
        self.watched.notify_waiters();
        Ok(Subscription { hub: Arc::clone(self), id, wake: None })
    }
}

/// An open stream of events; dropping it closes the stream.
#[derive(Debug)]
pub struct Subscription {
    hub: Arc<Hub>,
    id: u64,
    /// Wakes the stream when its next token is ready.
    wake: Option<std::pin::Pin<Box<tokio::time::Sleep>>>,
}

impl futures_util::Stream for Subscription {
    type Item = super::Frame;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            let now = this.hub.now();
            let mut inner = this.hub.lock();
            let at = match inner.registry.next(this.id, now) {
                StreamStep::Frame(frame) => return Poll::Ready(Some(frame)),
                StreamStep::Closed => return Poll::Ready(None),
                StreamStep::Nothing => None,
                StreamStep::At(at) => Some(at),
            };
            inner.wakers.insert(this.id, context.waker().clone());
            drop(inner);
            let Some(at) = at else {
                this.wake = None;
                return Poll::Pending;
            };
            // Tokio's timers have a resolution of a millisecond; one more keeps this one from being
            // early.
            let until = this.hub.started + at.since_origin() + Duration::from_millis(1);
            let wake = this.wake.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            if wake.deadline() != until {
                wake.as_mut().reset(until);
            }
            if wake.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut inner = self.hub.lock();
        inner.registry.close(self.id);
        inner.wakers.remove(&self.id);
    }
}
