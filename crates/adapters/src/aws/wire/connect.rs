//! Opens connections: TCP, and TLS if the endpoint is https.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use aws_smithy_types::body::SdkBody;
use http::Uri;
use http::uri::Scheme;
use hyper::client::conn::http1;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::CertificateResult;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio_rustls::TlsConnector;
use tower_service::Service as _;

use super::error::{BoxError, WireError};
use super::origin::Origin;

/// The time limit of name resolution, TCP and TLS together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The size of one read: a TLS record. rustls asks for only 4 KB at a time, and a batch of received
/// newsletters has 1 MB.
const READ_BYTES: usize = 16 * 1_024;

pub(super) type Sender = http1::SendRequest<SdkBody>;
/// The future that performs a connection's IO until it is closed.
pub(super) type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

#[derive(Clone)]
pub(super) struct Connector {
    tcp: HttpConnector,
    tls: TlsConnector,
}

impl Connector {
    pub(super) fn new() -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        // Without `nodelay`, the second packet of a request would wait for the acknowledgement of the first
        // (Nagle's algorithm).
        tcp.set_nodelay(true);
        let tls =
            ClientConfig::builder().with_root_certificates(trust_roots()).with_no_client_auth();
        Self { tcp, tls: Arc::new(tls).into() }
    }

    /// Opens a connection; returns its sender and the future that drives it.
    pub(super) async fn connect(&self, origin: &Origin) -> Result<(Sender, Driver), WireError> {
        let uri = origin.uri().map_err(|error| WireError::Connect(error.into()))?;
        tokio::time::timeout(CONNECT_TIMEOUT, self.open(uri))
            .await
            .map_err(|_| WireError::ConnectTimedOut(CONNECT_TIMEOUT))?
            .map_err(WireError::Connect)
    }

    async fn open(&self, uri: Uri) -> Result<(Sender, Driver), BoxError> {
        // `poll_ready` is not needed, because this service is always ready.
        let tcp = self.tcp.clone().call(uri.clone()).await?.into_inner();
        if uri.scheme() != Some(&Scheme::HTTPS) {
            return speak(tcp).await;
        }
        // An IPv6 address has brackets in a URI but not in a certificate.
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let name = ServerName::try_from(host)?.to_owned();
        speak(self.tls.connect(name, BufReader::with_capacity(READ_BYTES, tcp)).await?).await
    }
}

/// Performs the HTTP/1.1 handshake on an open stream.
async fn speak<T>(stream: T) -> Result<(Sender, Driver), BoxError>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    Ok((sender, Box::pin(connection)))
}

/// The system's certificate authorities, read once at start.
pub(crate) fn trust_roots() -> RootCertStore {
    let found = system_certificates();
    let mut roots = RootCertStore::empty();
    let (trusted, _) = roots.add_parsable_certificates(found.certs);
    if trusted == 0 {
        let errors = found.errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        tracing::warn!(
            errors,
            "no certificate authority is trusted: no connection with TLS will open"
        );
    }
    roots
}

/// The certificates of the system's bundle. The folder beside a bundle has each of them once more, in a file of its own:
/// to read those, too, takes a third of the time until a poller asks for its first tick.
#[cfg(target_os = "linux")]
fn system_certificates() -> CertificateResult {
    if !openssl_probe::has_ssl_cert_env_vars()
        && let Some(bundle) = openssl_probe::probe().cert_file
    {
        let found = rustls_native_certs::load_certs_from_paths(Some(&bundle), None);
        if !found.certs.is_empty() {
            return found;
        }
    }
    rustls_native_certs::load_native_certs()
}

#[cfg(not(target_os = "linux"))]
fn system_certificates() -> CertificateResult {
    rustls_native_certs::load_native_certs()
}
