//! The one connection that all takes share. It is opened when needed, replaced after a failure, and follows a
//! cluster to the node that has the keys.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use redis::aio::MultiplexedConnection;
use tidegate_core::config::BucketUrl;
use tidegate_delivery::ports::PortError;
use tokio::time::{Instant, timeout_at};

use crate::redis::TIME_LIMIT;
use crate::redis::cluster::{NodeAddress, Redirect};
use crate::redis::connect::RedisConnector;
use crate::redis::error::LinkError;

/// How often a call is made if a cluster sends it to another node: to the one that has the keys, and while they
/// move, from there to the next one, which may not know the script yet.
const MOST_HOPS: usize = 5;

type Opening = Shared<BoxFuture<'static, Result<MultiplexedConnection, LinkError>>>;

pub(crate) struct Link {
    connector: RedisConnector,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    /// The number of connections opened so far. A failure names its connection, so that it does not end a
    /// later one.
    number: u64,
    opening: Option<Opening>,
    /// The node of a cluster that has the keys; none for the address in the URL.
    node: Option<NodeAddress>,
}

struct CurrentConnection {
    connection: MultiplexedConnection,
    number: u64,
    address: NodeAddress,
}

impl Link {
    pub(crate) fn new(connector: RedisConnector) -> Self {
        Self { connector, current: Mutex::default() }
    }

    pub(crate) fn url(&self) -> &BucketUrl {
        self.connector.url()
    }

    /// Runs `call` on the connection within the time limit, again if a cluster sends it to another node. A failure
    /// is reported as one of `operation`.
    pub(crate) async fn call<T>(
        &self,
        operation: &'static str,
        call: impl AsyncFn(MultiplexedConnection) -> Result<T, LinkError>,
    ) -> Result<T, PortError> {
        let answer = self.follow(Instant::now() + TIME_LIMIT, &call).await;
        answer.map_err(|error| error.told(operation, &self.url().authority()))
    }

    async fn follow<T>(
        &self,
        deadline: Instant,
        call: &impl AsyncFn(MultiplexedConnection) -> Result<T, LinkError>,
    ) -> Result<T, LinkError> {
        let mut answer = Err(LinkError::TimedOut);
        for _ in 0..MOST_HOPS {
            let lent = within(deadline, self.lend()).await?;
            answer = within(deadline, call(lent.connection)).await;
            let Err(error) = &answer else { break };
            match Redirect::of(error, &lent.address) {
                Some(Redirect::Moved(node)) => self.replace(lent.number, Some(node)),
                Some(Redirect::Ask(node)) => {
                    let connection = within(deadline, self.asking(&node)).await?;
                    answer = within(deadline, call(connection)).await;
                    if !answer.as_ref().is_err_and(|error| Redirect::of(error, &node).is_some()) {
                        break;
                    }
                }
                None => {
                    if error.breaks() {
                        self.replace(lent.number, None);
                    }
                    break;
                }
            }
        }
        answer
    }

    /// A connection to a node to which the keys are about to move. It is for one call, because `ASKING` holds for
    /// the command after it. On the heap and not generic, as it is seldom needed and the future of a connect is large.
    fn asking(
        &self,
        node: &NodeAddress,
    ) -> BoxFuture<'static, Result<MultiplexedConnection, LinkError>> {
        let opening = self.connector.clone().connect(node.clone());
        let asking = async move {
            let mut connection = opening.await?;
            let asked = redis::cmd("ASKING").query_async::<()>(&mut connection).await;
            asked.map(|()| connection).map_err(LinkError::Server)
        };
        asking.boxed()
    }

    /// Returns the connection; waits if it is being opened.
    async fn lend(&self) -> Result<CurrentConnection, LinkError> {
        let (number, address, opening) = self.opening();
        match opening.await {
            Ok(connection) => Ok(CurrentConnection { connection, number, address }),
            Err(error) => {
                self.replace(number, None);
                Err(error)
            }
        }
    }

    /// Drops this connection, unless a newer one has replaced it. The next one is to `node`; without one, to the
    /// address in the URL, whose cluster knows the node that takes over.
    fn replace(&self, number: u64, node: Option<NodeAddress>) {
        let mut current = self.current();
        if current.number == number {
            current.opening = None;
            current.node = node;
        }
    }

    fn opening(&self) -> (u64, NodeAddress, Opening) {
        let mut current = self.current();
        let address = current.node.clone().unwrap_or_else(|| self.connector.address());
        if let Some(opening) = &current.opening {
            return (current.number, address, opening.clone());
        }
        // A task of its own continues if the take gives up, so that the next take finds the connection open.
        let task = tokio::spawn(self.connector.clone().connect(address.clone()));
        let lost = |error| LinkError::Connect(std::sync::Arc::new(std::io::Error::other(error)));
        let opening = async move { task.await.unwrap_or_else(|error| Err(lost(error))) };
        let opening = opening.boxed().shared();
        current.number += 1;
        current.opening = Some(opening.clone());
        (current.number, address, opening)
    }

    /// No caller may hold the lock across an await point.
    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn within<T>(
    deadline: Instant,
    call: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    timeout_at(deadline, call).await.unwrap_or(Err(LinkError::TimedOut))
}
