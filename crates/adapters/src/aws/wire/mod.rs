//! The HTTP/1.1 client. It counts and warms its connections, and decides when a request is written.
//!
//! A usual connection pool connects, waits or retries by itself, and thereby decides when a request leaves.
//! SES counts arrivals per second, so Tidegate makes that decision: a mail is handed to an open connection,
//! the clock is read at that moment, and afterwards it is known for certain whether the request was written.
//! TCP, TLS and HTTP come from hyper and rustls.

mod connect;
mod pool;

use std::fmt;
use std::sync::Arc;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use connect::{Connector, Origin, Sender, WireError};
pub(crate) use connect::{RequestKind, Ticket, trust_roots};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use pool::{Budget, Pool};
use tokio::time::Instant;

/// One HTTP client for all services. SDK clients made of it share its connections, whatever their time
/// limits. Clones are the same client.
///
/// Opening a connection may take 1 s; an idle one is kept for 20 s. At most 900 connections are open: up to
/// 800 to the endpoint that mail is sent to, and up to 160 to any other one. A connection that opens too
/// late for its request serves the next one. The SDK's connect and read time limits have no effect on this
/// client; its limits per attempt and per operation do.
#[derive(Clone)]
pub struct Wire {
    pool: Arc<Pool>,
}

impl Wire {
    /// A client that trusts the system's certificate authorities (`SSL_CERT_FILE` overrides them). Without
    /// any it can still call `http` endpoints.
    pub fn new() -> Self {
        Self::within(Budget::default())
    }

    fn within(budget: Budget) -> Self {
        Self { pool: Arc::new(Pool::new(Connector::new(), budget)) }
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

    /// Hands the request to a connection. The server may have closed an idle connection in the meantime. If
    /// hyper returns the request, nothing of it was written, and it is handed to the next connection.
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
            let mut unanswered =
                Unanswered { pool: &self.pool, origin, written: Instant::now(), answered: false };
            match sender.try_send_request(request).await {
                Ok(response) => {
                    unanswered.answered = true;
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

    /// Reads the whole answer at once (SQS's are the largest, about 1 MiB), so that the connection is free
    /// for the next request before the caller handles the answer.
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

/// A request without an answer yet. If it is dropped, because the connection was lost or the time limit
/// passed, it tells the pool to distrust idle connections.
struct Unanswered<'a> {
    pool: &'a Pool,
    origin: &'a Origin,
    written: Instant,
    answered: bool,
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

#[cfg(test)]
mod tests;
