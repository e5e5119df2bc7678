//! The wire: HTTP/1.1 over connections that are counted, warmed and handed requests here.
//!
//! A pool that connects, waits, or tries again by itself decides when a request leaves. SES counts
//! arrivals, so that decision is Tidegate's own: a mail is handed to an open connection, the clock is
//! read at that very moment, and whether the request was written is known for certain. TCP, TLS and
//! HTTP are hyper's and rustls's.

mod connect;
mod errand;
mod error;
mod origin;
mod pool;

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
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

pub(crate) use errand::{Errand, Progress, Ticket};
use error::WireError;
use origin::Origin;
use pool::{Pool, Sender};

/// Handshakes at once while warming: more would only wait for the one processor, and every one
/// holds a thread for its name's resolution.
const WARMING_AT_ONCE: usize = 16;

/// One HTTP client for all services: connections are kept alive and shared by every SDK client made
/// of it, whatever its time-outs. Clones are the same client.
///
/// Connections are opened within 1 s or not at all, and kept for 60 s of idleness, at most 900 to an
/// endpoint. The SDK's own connect and read time-outs have no effect on it; its attempt and operation
/// time-outs do.
#[derive(Clone)]
pub struct Wire {
    connector: connect::Connector,
    pool: Arc<Pool>,
}

impl Wire {
    /// A client that trusts the system's certificate authorities (`SSL_CERT_FILE` overrides them).
    /// Where there are none it still serves `http` endpoints.
    #[must_use]
    pub fn new() -> Self {
        Self { connector: connect::Connector::new(), pool: Arc::default() }
    }

    /// A connection to `origin`: an idle one (true), or else a new one (false).
    async fn checkout(&self, origin: &Origin) -> Result<(Sender, bool), WireError> {
        match self.pool.take(origin) {
            Some(sender) => Ok((sender, true)),
            None => Ok((self.connector.connect(origin).await?, false)),
        }
    }

    /// Opens connections until `wanted` are idle. Failures show when a request needs one.
    async fn warm(&self, origin: &Origin, wanted: usize) {
        let mut missing = wanted.saturating_sub(self.pool.idle(origin));
        let mut opening = FuturesUnordered::new();
        loop {
            while missing > 0 && opening.len() < WARMING_AT_ONCE {
                opening.push(self.connector.connect(origin));
                missing -= 1;
            }
            match opening.next().await {
                Some(Ok(sender)) => self.pool.put(origin, sender),
                Some(Err(error)) => {
                    tracing::debug!(%error, "no connection was opened ahead");
                    // The endpoint does not answer: what is not yet begun would fail as well.
                    missing = 0;
                }
                None => return,
            }
        }
    }

    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let mut request =
            request.try_into_http1x().map_err(|error| ConnectorError::user(error.into()))?;
        let origin = Origin::of(request.uri())?;
        origin.strip(&mut request);
        match request.extensions_mut().remove::<Errand>() {
            None => self.send(&origin, request, None).await,
            Some(Errand::Send(ticket)) => {
                ticket.hand_back();
                self.send(&origin, request, Some(ticket)).await
            }
            Some(Errand::Warm(connections)) => {
                self.warm(&origin, connections).await;
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
            let (mut sender, reused) = self.checkout(origin).await?;
            if ticket.as_ref().is_some_and(|ticket| !ticket.hand_over()) {
                self.pool.put(origin, sender);
                return Err(WireError::Late.into());
            }
            match sender.try_send_request(request).await {
                Ok(response) => return self.read(origin, sender, response).await,
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
