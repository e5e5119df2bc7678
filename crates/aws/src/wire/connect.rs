//! Opening connections: TCP, and TLS where the endpoint is https.

use std::time::Duration;

use hyper::client::conn::http1;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::{ClientConfig, RootCertStore};
use tower_service::Service as _;

use super::error::WireError;
use super::origin::Origin;
use super::pool::Sender;

/// Covers name resolution, TCP and TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(super) struct Connector(HttpsConnector<HttpConnector>);

impl Connector {
    pub(super) fn new() -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        // A request goes out in one piece or two: the second must not wait for the first's ACK.
        tcp.set_nodelay(true);
        let tls =
            ClientConfig::builder().with_root_certificates(trust_roots()).with_no_client_auth();
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        Self(builder.enable_http1().wrap_connector(tcp))
    }

    /// A connection, and the task that drives it.
    pub(super) async fn connect(
        &self,
        origin: &Origin,
    ) -> Result<(Sender, impl Future<Output = hyper::Result<()>> + Send + use<>), WireError> {
        let uri = origin.uri().map_err(|error| WireError::Connect(error.into()))?;
        // Always ready: it has no state to wait for.
        let connecting = self.0.clone().call(uri);
        let io = tokio::time::timeout(CONNECT_TIMEOUT, connecting)
            .await
            .map_err(|_| WireError::ConnectTimedOut(CONNECT_TIMEOUT))?
            .map_err(WireError::Connect)?;
        http1::handshake(io).await.map_err(|error| WireError::Connect(error.into()))
    }
}

/// The system's certificate authorities, read once, at start.
fn trust_roots() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (trusted, _) = roots.add_parsable_certificates(found.certs);
    if trusted == 0 {
        let errors = found.errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        tracing::warn!(
            errors,
            "no certificate authority is trusted: every https endpoint will fail"
        );
    }
    roots
}
