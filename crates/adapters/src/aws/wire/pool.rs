//! Connections by origin, within one budget of file descriptors. Each is opened in a task of its own, so
//! that a connection that opens too late for one request is there for the next.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tidegate_core::Timestamp;
use tidegate_core::config::MOST_SENDS;
use tidegate_delivery::ports::Clock as _;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::connect::{Connector, Origin, Sender, Ticket, WireError};
use crate::aws::system::SystemClock;

/// How long an idle connection is kept: many windows. An older one may have been closed by the server, and
/// the close is not noticed while Lambda keeps the process frozen.
const IDLE: Duration = Duration::from_secs(20);
/// Concurrent handshakes while warming. More would only compete for the one processor, and each occupies a
/// thread for the name resolution.
const WARMING_AT_ONCE: usize = 16;

/// The most open connections. A Lambda environment has 1,024 file descriptors for everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub(super) most: usize,
    pub(super) mail: usize,
    /// To each other origin. Even a thousand queues polled at once then leave room for mail and ledger.
    pub(super) other: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { most: 900, mail: MOST_SENDS, other: 160 }
    }
}

struct IdleConnection {
    sender: Sender,
    since: Instant,
    /// Wall-clock time, because the monotonic clock may stop while the process is frozen.
    wall: Timestamp,
}

impl IdleConnection {
    fn is_good(&self, wall: Timestamp) -> bool {
        let is_young = self.since.elapsed() < IDLE && wall.saturating_since(self.wall) < IDLE;
        is_young && self.sender.is_ready()
    }
}

/// A connection, and whether it has carried a request before.
type ConnectionResult = Result<(Sender, bool), WireError>;

#[derive(Default)]
struct Endpoint {
    /// The newest is at the back and is taken first, so that surplus connections grow old and expire.
    idle: VecDeque<IdleConnection>,
    waiting: VecDeque<oneshot::Sender<ConnectionResult>>,
    /// All connections to this origin: idle, busy or opening.
    open: usize,
    /// The connections of `open` that are not yet established.
    opening: usize,
    takes_mail: bool,
}

#[derive(Default)]
struct PoolState {
    sites: HashMap<Origin, Endpoint>,
    open: usize,
}

impl PoolState {
    fn site(&mut self, origin: &Origin) -> &mut Endpoint {
        self.sites.entry(origin.clone()).or_default()
    }

    /// Whether one more connection may be opened. If the whole budget is used, this closes an idle
    /// connection to another origin and returns false; the request that waits gets a connection when that
    /// one has closed.
    fn make_room(&mut self, origin: &Origin, budget: Budget) -> bool {
        let site = self.site(origin);
        let most = if site.takes_mail { budget.mail } else { budget.other };
        if site.open >= most {
            return false;
        }
        let full = self.open >= budget.most;
        if full {
            let mut others = self.sites.iter_mut().filter(|(of, _)| *of != origin);
            drop(others.find_map(|(_, site)| site.idle.pop_front()));
        }
        !full
    }
}

pub(super) struct Pool {
    connector: Connector,
    budget: Budget,
    clock: SystemClock,
    state: Mutex<PoolState>,
}

impl Pool {
    pub(super) fn new(connector: Connector, budget: Budget) -> Self {
        Self { connector, budget, clock: SystemClock::new(), state: Mutex::default() }
    }

    /// Returns a connection to `origin`: an idle one, or the next that becomes free or opens. If the budget
    /// is used up, a mail waits until its slot has passed, and any other request until its time limit.
    pub(super) async fn checkout(
        self: &Arc<Self>,
        origin: &Origin,
        ticket: Option<&Ticket>,
    ) -> ConnectionResult {
        let given = {
            let mut state = self.lock();
            let site = state.site(origin);
            site.takes_mail |= ticket.is_some();
            if let Some(sender) = self.newest(site) {
                return Ok((sender, true));
            }
            let (gives, given) = oneshot::channel();
            site.waiting.push_back(gives);
            given
        };
        let is_coming = self.open_for_waiting(origin);
        let given = async { given.await.unwrap_or(Err(WireError::NoRoom)) };
        match ticket {
            Some(ticket) if !is_coming => tokio::select! {
                biased;
                given = given => given,
                () = ticket.late() => Err(WireError::NoRoom),
            },
            _ => given.await,
        }
    }

    fn newest(&self, site: &mut Endpoint) -> Option<Sender> {
        let wall = self.clock.wall();
        while site.idle.front().is_some_and(|oldest| !oldest.is_good(wall)) {
            site.idle.pop_front();
        }
        let newest = std::iter::from_fn(|| site.idle.pop_back()).find(|idle| idle.is_good(wall));
        newest.map(|idle| idle.sender)
    }

    /// Opens one connection per waiting request; false if the budget does not suffice.
    fn open_for_waiting(self: &Arc<Self>, origin: &Origin) -> bool {
        loop {
            let mut state = self.lock();
            let site = state.site(origin);
            site.waiting.retain(|waiting| !waiting.is_closed());
            if site.opening >= site.waiting.len() {
                return true;
            }
            drop(state);
            if self.open(origin).is_none() {
                return false;
            }
        }
    }

    /// Opens a connection, whether or not the request that needed it still waits. The task returns true once
    /// it is open. `None` if the budget is used up.
    fn open(self: &Arc<Self>, origin: &Origin) -> Option<JoinHandle<bool>> {
        {
            let mut state = self.lock();
            if !state.make_room(origin, self.budget) {
                return None;
            }
            state.open += 1;
            let site = state.site(origin);
            (site.open, site.opening) = (site.open + 1, site.opening + 1);
        }
        let (pool, origin) = (Arc::clone(self), origin.clone());
        Some(tokio::spawn(async move {
            let connected = pool.connector.connect(&origin).await;
            pool.lock().site(&origin).opening -= 1;
            let (mut sender, connection) = match connected {
                Ok(connected) => connected,
                Err(error) => {
                    tracing::debug!(%error, "no connection was opened");
                    pool.give(&origin, Err(error));
                    pool.closed(&origin);
                    return false;
                }
            };
            // A weak reference: dropping the last clone of the pool must close its idle connections.
            let (weak, of) = (Arc::downgrade(&pool), origin.clone());
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection ended");
                }
                if let Some(pool) = weak.upgrade() {
                    pool.closed(&of);
                }
            });
            match sender.ready().await {
                Ok(()) => pool.give(&origin, Ok((sender, false))),
                Err(error) => pool.give(&origin, Err(WireError::Connect(error.into()))),
            }
            true
        }))
    }

    /// Opens connections until `wanted` are idle or being opened. A failure is reported by the request that
    /// needs one.
    pub(super) async fn warm(self: &Arc<Self>, origin: &Origin, wanted: usize) {
        let idle = {
            let (mut state, wall) = (self.lock(), self.clock.wall());
            let site = state.site(origin);
            site.idle.retain(|idle| idle.is_good(wall));
            site.idle.len() + site.opening
        };
        let mut opening = FuturesUnordered::new();
        let mut missing = wanted.saturating_sub(idle);
        loop {
            while missing > 0 && opening.len() < WARMING_AT_ONCE {
                let Some(opened) = self.open(origin) else { break };
                opening.push(opened);
                missing -= 1;
            }
            match opening.next().await {
                Some(Ok(true)) => {}
                // The endpoint does not answer, so further attempts would fail as well.
                Some(_) => missing = 0,
                None => return,
            }
        }
    }

    /// Returns a connection to the pool after its answer was read.
    pub(super) fn put(self: &Arc<Self>, origin: &Origin, mut sender: Sender) {
        if sender.is_ready() {
            self.give(origin, Ok((sender, true)));
        } else if !sender.is_closed() {
            // The connection's task has not yet noticed that the exchange is over.
            let (pool, origin) = (Arc::clone(self), origin.clone());
            tokio::spawn(async move {
                if sender.ready().await.is_ok() {
                    pool.give(&origin, Ok((sender, true)));
                }
            });
        }
    }

    /// Gives a connection, or the reason why none could be opened, to the request that has waited longest. A
    /// connection for which none waits is kept idle.
    fn give(&self, origin: &Origin, mut given: ConnectionResult) {
        let mut state = self.lock();
        let site = state.site(origin);
        while let Some(waiting) = site.waiting.pop_front() {
            match waiting.send(given) {
                Ok(()) => return,
                Err(back) => given = back,
            }
        }
        if let Ok((sender, _)) = given {
            let (since, wall) = (Instant::now(), self.clock.wall());
            site.idle.push_back(IdleConnection { sender, since, wall });
        }
    }

    /// Drops connections that were idle before a request was written that got no answer: they may be dead as
    /// well.
    pub(super) fn distrust(&self, origin: &Origin, written: Instant) {
        self.lock().site(origin).idle.retain(|idle| idle.since > written);
    }

    /// Notes that a connection has closed, and opens one for a waiting request.
    fn closed(self: &Arc<Self>, origin: &Origin) {
        let waiting: Vec<Origin> = {
            let mut state = self.lock();
            state.open -= 1;
            state.site(origin).open -= 1;
            let waits = |(origin, site): (&Origin, &Endpoint)| {
                (site.waiting.len() > site.opening).then(|| origin.clone())
            };
            state.sites.iter().filter_map(waits).collect()
        };
        for origin in waiting {
            self.open_for_waiting(&origin);
        }
    }

    /// Makes it look as if `time` had passed on the wall clock only.
    #[cfg(test)]
    pub(super) fn froze_for(&self, time: Duration) {
        for idle in self.lock().sites.values_mut().flat_map(|site| &mut site.idle) {
            idle.wall = idle.wall.saturating_sub(time);
        }
    }

    #[cfg(test)]
    pub(super) fn idle(&self, origin: &Origin) -> usize {
        self.lock().site(origin).idle.len()
    }

    #[cfg(test)]
    pub(super) fn open_connections(&self) -> usize {
        self.lock().open
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        // The state is consistent even if a holder of the lock has panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
