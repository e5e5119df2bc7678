//! The wire: HTTP/1.1 over connections that are counted, warmed and handed requests here.
//!
//! A pool that connects, waits, or tries again by itself decides when a request leaves. SES counts
//! arrivals, so that decision is Tidegate's own: a mail is handed to an open connection, the clock is
//! read at that very moment, and whether the request was written is known for certain. TCP, TLS and
//! HTTP are hyper's and rustls's.

mod connect;
mod error;
mod origin;
mod pool;
mod request_kind;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::Instant;

use connect::Sender;
use error::WireError;
use origin::Origin;
use pool::{Budget, Pool};
pub(crate) use request_kind::{RequestKind, RequestProgress, Ticket};

/// One HTTP client for all services: connections are kept alive and shared by every SDK client made
/// of it, whatever its time-outs. Clones are the same client.
///
/// Connections are opened within 1 s or not at all, and kept for 20 s of idleness; at most 900 are open,
/// 800 of them to where mail is sent, and 160 to any other endpoint. One that is opened too late for the
/// request that wanted it serves the next. The SDK's own connect and read time-outs have no effect on it; its attempt and operation
/// time-outs do.
#[derive(Clone)]
pub struct Wire {
    pool: Arc<Pool>,
}

impl Wire {
    /// A client that trusts the system's certificate authorities (`SSL_CERT_FILE` overrides them).
    /// Where there are none it still serves `http` endpoints.
    pub fn new() -> Self {
        Self::within(Budget::default())
    }

    fn within(budget: Budget) -> Self {
        Self { pool: Arc::new(Pool::new(connect::Connector::new(), budget)) }
    }

    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let mut request =
            request.try_into_http1x().map_err(|error| ConnectorError::user(error.into()))?;
        let origin = Origin::of(request.uri())?;
        origin.strip(&mut request);
        match request.extensions_mut().remove::<RequestKind>() {
            None => self.send(&origin, request, None).await,
            Some(RequestKind::Send(ticket)) => {
                ticket.hand_back();
                self.send(&origin, request, Some(ticket)).await
            }
            Some(RequestKind::Warm(connections)) => {
                self.pool.warm(&origin, connections).await;
                Err(WireError::Warmed.into())
            }
        }
    }

    /// Hands the request to a connection. One that was idle may have been closed by its other end
    /// meanwhile: a request that hyper gives back was not written, and takes the next.
    async fn send(
        &self,
        origin: &Origin,
        mut request: Request<SdkBody>,
        ticket: Option<Ticket>,
    ) -> Result<HttpResponse, ConnectorError> {
        loop {
            let given = self.pool.checkout(origin, ticket.as_ref()).await;
            if let (Some(ticket), Err(error)) = (&ticket, &given)
                && error.is_exhaustion()
            {
                ticket.refuse();
            }
            let (mut sender, reused) = given?;
            if ticket.as_ref().is_some_and(|ticket| !ticket.hand_over()) {
                self.pool.put(origin, sender);
                return Err(WireError::Late.into());
            }
            let unanswered = Unanswered::now(&self.pool, origin);
            match sender.try_send_request(request).await {
                Ok(response) => {
                    unanswered.answered();
                    return self.read(origin, sender, response).await;
                }
                Err(mut failure) => match failure.take_message() {
                    Some(unwritten) => {
                        if let Some(ticket) = &ticket {
                            ticket.hand_back();
                        }
                        if !reused {
                            return Err(WireError::Connect(failure.into_error().into()).into());
                        }
                        request = unwritten;
                    }
                    None => return Err(WireError::Lost(failure.into_error()).into()),
                },
            }
        }
    }

    /// Reads the whole answer (SQS's are the largest, about 1 MiB), so that the connection is free
    /// again before anyone looks at it.
    async fn read(
        &self,
        origin: &Origin,
        sender: Sender,
        response: Response<Incoming>,
    ) -> Result<HttpResponse, ConnectorError> {
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(WireError::Lost)?.to_bytes();
        self.pool.put(origin, sender);
        HttpResponse::try_from(Response::from_parts(head, SdkBody::from(body)))
            .map_err(|error| ConnectorError::other(error.into(), None))
    }
}

/// A request on its way. Dropped without an answer, be it that the connection was lost or that the
/// call's time ran out, it tells the pool.
struct Unanswered<'a> {
    pool: &'a Pool,
    origin: &'a Origin,
    written: Instant,
    answered: bool,
}

impl<'a> Unanswered<'a> {
    fn now(pool: &'a Pool, origin: &'a Origin) -> Self {
        Self { pool, origin, written: Instant::now(), answered: false }
    }

    fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.pool.distrust(self.origin, self.written);
        }
    }
}

impl Default for Wire {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl HttpConnector for Wire {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let wire = self.clone();
        HttpConnectorFuture::new(async move { wire.exchange(request).await })
    }
}

impl HttpClient for Wire {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}
