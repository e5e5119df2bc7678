//! The one connection that all takes share. It is opened when needed and replaced after a failure.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use redis::aio::MultiplexedConnection;
use tidegate_core::config::BucketUrl;
use tidegate_delivery::ports::PortError;
use tokio::time::{Instant, timeout_at};

use crate::TIME_LIMIT;
use crate::connect::RedisConnector;
use crate::error::LinkError;

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
}

pub(crate) struct CurrentConnection {
    pub(crate) connection: MultiplexedConnection,
    number: u64,
}

impl Link {
    pub(crate) fn new(connector: RedisConnector) -> Self {
        Self { connector, current: Mutex::default() }
    }

    pub(crate) fn url(&self) -> &BucketUrl {
        self.connector.url()
    }

    /// Runs `call` on the connection within the time limit. A failure is reported as one of `operation`.
    pub(crate) async fn call<T>(
        &self,
        operation: &'static str,
        call: impl AsyncFnOnce(MultiplexedConnection) -> Result<T, LinkError>,
    ) -> Result<T, PortError> {
        let deadline = Instant::now() + TIME_LIMIT;
        let answer = match timeout_at(deadline, self.lend()).await {
            Err(_) => Err(LinkError::TimedOut),
            Ok(Err(error)) => Err(error),
            Ok(Ok(lent)) => {
                let called = timeout_at(deadline, call(lent.connection.clone())).await;
                let answer = called.unwrap_or(Err(LinkError::TimedOut));
                if answer.as_ref().is_err_and(LinkError::breaks) {
                    self.discard(&lent);
                }
                answer
            }
        };
        answer.map_err(|error| error.told(operation, &self.url().authority()))
    }

    /// Returns the connection; waits if it is being opened.
    async fn lend(&self) -> Result<CurrentConnection, LinkError> {
        let (number, opening) = self.opening();
        match opening.await {
            Ok(connection) => Ok(CurrentConnection { connection, number }),
            Err(error) => {
                self.drop_number(number);
                Err(error)
            }
        }
    }

    /// Drops this connection after a failure, unless a newer one has replaced it.
    fn discard(&self, lent: &CurrentConnection) {
        self.drop_number(lent.number);
    }

    fn drop_number(&self, number: u64) {
        let mut current = self.current();
        if current.number == number {
            current.opening = None;
        }
    }

    fn opening(&self) -> (u64, Opening) {
        let mut current = self.current();
        if let Some(opening) = &current.opening {
            return (current.number, opening.clone());
        }
        // A task of its own continues if the take gives up, so that the next take finds the connection open.
        let task = tokio::spawn(self.connector.clone().connect());
        let lost = |error| LinkError::Connect(std::sync::Arc::new(std::io::Error::other(error)));
        let opening = async move { task.await.unwrap_or_else(|error| Err(lost(error))) };
        let opening = opening.boxed().shared();
        current.number += 1;
        current.opening = Some(opening.clone());
        (current.number, opening)
    }

    /// No caller may hold the lock across an await point.
    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
