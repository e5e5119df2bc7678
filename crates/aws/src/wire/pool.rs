//! Connections, by origin: opened in tasks of their own, so that one that comes too late for whoever
//! wanted it is there for the next, and within one budget of file descriptors.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tidegate_core::Timestamp;
use tidegate_delivery::ports::Clock as _;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::connect::{Connector, Sender};
use super::error::WireError;
use super::origin::Origin;
use super::request_kind::Ticket;
use crate::clock::SystemClock;

/// Outlives many windows; what was idle for longer may be dead at its other end, which nobody learns
/// while Lambda keeps the process frozen.
const IDLE: Duration = Duration::from_secs(20);
/// Handshakes at once while warming: more would only wait for the one processor, and every one
/// holds a thread for its name's resolution.
const WARMING_AT_ONCE: usize = 16;

/// The most connections: an environment has 1,024 file descriptors, for all that it does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// In all.
    pub(super) most: usize,
    /// To the origin that mail is sent to.
    pub(super) mail: usize,
    /// To any other: a thousand queues that are polled at once leave room for mail and ledger.
    pub(super) other: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { most: 900, mail: 800, other: 160 }
    }
}

struct IdleConnection {
    sender: Sender,
    since: Instant,
    /// The monotonic clock may stand still while the process is frozen.
    wall: Timestamp,
}

impl IdleConnection {
    fn is_good(&self, wall: Timestamp) -> bool {
        let is_young = self.since.elapsed() < IDLE && wall.saturating_since(self.wall) < IDLE;
        is_young && self.sender.is_ready()
    }
}

/// A connection, and whether it carried a request before.
type ConnectionResult = Result<(Sender, bool), WireError>;

#[derive(Default)]
struct Endpoint {
    /// The newest is at the back and taken first, so that those not needed grow old together.
    idle: VecDeque<IdleConnection>,
    waiting: VecDeque<oneshot::Sender<ConnectionResult>>,
    /// Connections of any state.
    open: usize,
    /// Of these, those not yet there.
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

    /// Whether a connection more may be opened. Where the budget is used up, one that is idle elsewhere is
    /// closed: as it ends, whoever waits is thought of.
    fn has_room(&mut self, origin: &Origin, budget: Budget) -> bool {
        let site = self.site(origin);
        let most = if site.takes_mail { budget.mail } else { budget.other };
        if site.open >= most {
            return false;
        }
        let full = self.open >= budget.most;
        if full {
            let mut others = self.sites.values_mut().filter(|site| !site.idle.is_empty());
            drop(others.next().and_then(|site| site.idle.pop_front()));
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

    /// A connection to `origin`: an idle one, or the next that is free or opened. Where the budget is
    /// used up a mail waits for one until its slot has passed, anything else until its time limit.
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

    /// Opens a connection for each that waits. False where the budget is used up before.
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

    /// Opens a connection, whoever waits for it or has given up: true once it is there. `None` where the
    /// budget is used up.
    fn open(self: &Arc<Self>, origin: &Origin) -> Option<JoinHandle<bool>> {
        {
            let mut state = self.lock();
            if !state.has_room(origin, self.budget) {
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
                    pool.fail(&origin, error);
                    pool.closed(&origin);
                    return false;
                }
            };
            // Whoever drops the last of the pool closes its idle connections.
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
                Ok(()) => pool.give(&origin, sender, false),
                Err(error) => pool.fail(&origin, WireError::Connect(error.into())),
            }
            true
        }))
    }

    /// Opens connections until `wanted` are idle or on their way. Failures show when a request needs one.
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
                // The endpoint does not answer: what is not yet begun would fail as well.
                Some(_) => missing = 0,
                None => return,
            }
        }
    }

    /// Takes a connection back whose answer was read.
    pub(super) fn put(self: &Arc<Self>, origin: &Origin, mut sender: Sender) {
        if sender.is_ready() {
            self.give(origin, sender, true);
        } else if !sender.is_closed() {
            // Its task has yet to see that the exchange is over.
            let (pool, origin) = (Arc::clone(self), origin.clone());
            tokio::spawn(async move {
                if sender.ready().await.is_ok() {
                    pool.give(&origin, sender, true);
                }
            });
        }
    }

    /// Hands a connection to whoever waits first, or keeps it.
    fn give(&self, origin: &Origin, sender: Sender, reused: bool) {
        let mut state = self.lock();
        let site = state.site(origin);
        let mut given = Ok((sender, reused));
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

    /// Tells whoever waits first that no connection was to be had.
    fn fail(&self, origin: &Origin, error: WireError) {
        let mut state = self.lock();
        let mut failed = Err(error);
        while let Some(waiting) = state.site(origin).waiting.pop_front() {
            match waiting.send(failed) {
                Ok(()) => return,
                Err(back) => failed = back,
            }
        }
    }

    /// A request got no answer: connections that were idle before it was written may be dead as well.
    pub(super) fn distrust(&self, origin: &Origin, written: Instant) {
        self.lock().site(origin).idle.retain(|idle| idle.since > written);
    }

    /// A connection has ended: there is room for another.
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

    /// As if so much time had passed on the wall clock alone.
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
        // Nothing is left half done where a holder panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
