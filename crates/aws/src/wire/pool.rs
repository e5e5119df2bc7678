//! Idle connections, by origin.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_smithy_types::body::SdkBody;
use hyper::client::conn::http1::SendRequest;
use tokio::time::Instant;

use super::origin::Origin;

pub(super) type Sender = SendRequest<SdkBody>;

/// Outlives many windows; the services close what is idle for longer.
const IDLE: Duration = Duration::from_mins(1);
/// An environment has 1,024 file descriptors.
const MAX_IDLE: usize = 900;

struct Idle {
    sender: Sender,
    since: Instant,
}

impl Idle {
    fn is_good(&self) -> bool {
        self.sender.is_ready() && self.since.elapsed() < IDLE
    }
}

/// The newest is at the back and taken first, so that those not needed grow old together.
#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<HashMap<Origin, VecDeque<Idle>>>,
}

impl Pool {
    /// Takes the connection that was used last.
    pub(super) fn take(&self, origin: &Origin) -> Option<Sender> {
        let mut all = self.lock();
        let idle = all.get_mut(origin)?;
        while idle.front().is_some_and(|oldest| !oldest.is_good()) {
            idle.pop_front();
        }
        std::iter::from_fn(|| idle.pop_back()).find(Idle::is_good).map(|idle| idle.sender)
    }

    /// How many connections are idle.
    pub(super) fn idle(&self, origin: &Origin) -> usize {
        let mut all = self.lock();
        all.get_mut(origin).map_or(0, |idle| {
            idle.retain(Idle::is_good);
            idle.len()
        })
    }

    /// Takes a connection back whose answer was read.
    pub(super) fn put(self: &Arc<Self>, origin: &Origin, mut sender: Sender) {
        if sender.is_ready() {
            self.store(origin, sender);
        } else if !sender.is_closed() {
            // Its task has yet to see that the exchange is over.
            let (pool, origin) = (Arc::clone(self), origin.clone());
            tokio::spawn(async move {
                if sender.ready().await.is_ok() {
                    pool.store(&origin, sender);
                }
            });
        }
    }

    fn store(&self, origin: &Origin, sender: Sender) {
        let mut all = self.lock();
        let idle = all.entry(origin.clone()).or_default();
        if idle.len() < MAX_IDLE {
            idle.push_back(Idle { sender, since: Instant::now() });
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Origin, VecDeque<Idle>>> {
        // Nothing is left half done where a holder panics.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
