use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_delivery::ports::Monotonic;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::registry::{Frame, StreamRegistry, StreamStep};
use crate::rate_limit::{StreamClient, TooManyStreams};

/// Shares the registry among all connections, and wakes their streams when something changes.
#[derive(Debug)]
pub struct Hub {
    started: Instant,
    registry: Mutex<StreamRegistry>,
    /// Notified when the registry changed: every stream then looks for its next event.
    changed: Notify,
    /// Notified when a stream is opened: the engine then looks at once.
    opened: Notify,
    watched: Notify,
}

impl Hub {
    /// Wraps a registry, whose time begins now.
    pub fn new(registry: StreamRegistry) -> Self {
        Self {
            started: Instant::now(),
            registry: Mutex::new(registry),
            changed: Notify::new(),
            opened: Notify::new(),
            watched: Notify::new(),
        }
    }

    fn now(&self) -> Monotonic {
        Monotonic::from_origin(self.started.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, StreamRegistry> {
        // No step leaves the registry half changed, so it can be used after a panic, too.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the registry under its lock.
    pub fn look<T>(&self, look: impl FnOnce(&StreamRegistry) -> T) -> T {
        look(&self.lock())
    }

    /// Changes the registry under its lock, and wakes all streams.
    pub fn change<T>(&self, change: impl FnOnce(&mut StreamRegistry) -> T) -> T {
        let answer = change(&mut self.lock());
        self.changed.notify_waiters();
        answer
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
        client: impl Into<StreamClient>,
        last: Option<&str>,
    ) -> Result<Subscription, TooManyStreams> {
        let now = self.now();
        let id = self.lock().open(client, last, now)?;
        self.opened.notify_one();
        self.watched.notify_waiters();
        Ok(Subscription { hub: Arc::clone(self), id })
    }
}

/// An open stream of events; dropping it closes the stream.
#[derive(Debug)]
pub struct Subscription {
    hub: Arc<Hub>,
    id: u64,
}

impl Subscription {
    /// The next event, once there is one and all its buckets have a token; none when the console ends.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            // Made before the registry is read, so that no change between the two is missed.
            let changed = self.hub.changed.notified();
            let step = self.hub.lock().next(self.id, self.hub.now());
            match step {
                StreamStep::Frame(frame) => return Some(frame),
                StreamStep::Closed => return None,
                StreamStep::Nothing => changed.await,
                StreamStep::At(at) => {
                    // Tokio's timers have a resolution of a millisecond; one more keeps this one
                    // from being early.
                    let until = self.hub.started + at.since_origin() + Duration::from_millis(1);
                    let _ = timeout_at(until, changed).await;
                }
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.hub.lock().close(self.id);
    }
}
