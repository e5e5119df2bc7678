//! Listens for the sandboxes: on TCP, and with TLS if they have a certificate.
//!
//! AWS's endpoints speak TLS only, and handshakes and encryption are a considerable part of a poller's
//! processor time: a measurement without TLS would be too good. They also close idle connections.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// Longest time for a TLS handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// The address cannot be bound: most often another program holds the port.
#[derive(Debug, Error)]
#[error("cannot listen on {addr}")]
pub struct ListenError {
    pub addr: SocketAddr,
    #[source]
    pub source: io::Error,
}

/// A connection, without TLS or with it.
pub(super) type Stream = Either<TcpStream, TlsStream<TcpStream>>;

/// A bound address, and how its connections are served.
#[derive(Debug)]
pub struct Listener {
    pub(super) tcp: TcpListener,
    /// The address it is bound to.
    pub(super) addr: SocketAddr,
    pub(super) tls: Option<Arc<ServerConfig>>,
    /// How long a connection may wait for a request.
    pub(super) idle: Option<Duration>,
}

impl Listener {
    /// Binds `addr` (port 0 takes a free one), without TLS.
    ///
    /// # Errors
    /// [`ListenError`] where the address cannot be bound.
    pub async fn bind(addr: SocketAddr) -> Result<Self, ListenError> {
        let refused = |source| ListenError { addr, source };
        let tcp = TcpListener::bind(addr).await.map_err(refused)?;
        let addr = tcp.local_addr().map_err(refused)?;
        Ok(Self { tcp, addr, tls: None, idle: None })
    }

    /// Applies the options: certificate and idle timeout.
    ///
    /// # Errors
    /// [`TlsError`] where the certificate cannot be served.
    pub fn with(self, options: &ListenOptions) -> Result<Self, TlsError> {
        let idle = options.idle_seconds.map(Duration::from_secs);
        Ok(Self { tls: options.tls()?, idle, ..self })
    }

    /// `http`, or `https` where it has a certificate.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

/// The stream on a new connection. None if the client rejects the certificate, gives up, or does not speak TLS.
pub(super) async fn begin(tcp: TcpStream, tls: Option<Arc<ServerConfig>>) -> Option<Stream> {
    // Answers are small; waiting to fill a packet would add 40 ms to some of them.
    let _ = tcp.set_nodelay(true);
    let Some(tls) = tls else { return Some(Either::Left(tcp)) };
    let done = tokio::time::timeout(HANDSHAKE_LIMIT, TlsAcceptor::from(tls).accept(tcp)).await;
    let done = done.map_err(io::Error::from).flatten();
    done.inspect_err(|error| tracing::info!(%error, "a TLS handshake failed"))
        .ok()
        .map(Either::Right)
}

/// The certificate that it shows, and how long a connection may be idle.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenOptions {
    /// Serve https, with the certificate chain in this PEM file, the server's own first
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Close a connection on which no whole request came for so long, as AWS's endpoints do [default: never]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub idle_seconds: Option<u64>,
}

/// The reasons why a certificate cannot be served.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read, or holds nothing of what it should.
    #[error("{option} {path}: must be a PEM file with {holds}", path = path.display())]
    File {
        /// The option that names the file.
        option: &'static str,
        path: PathBuf,
        /// The kind of items that the file should contain.
        holds: &'static str,
        #[source]
        source: pem::Error,
    },
    /// Certificate and key do not belong together, or TLS does not support their kind.
    #[error("--tls-cert and --tls-key do not fit")]
    Pair(#[source] rustls::Error),
}

impl ListenOptions {
    /// Reads the files; none where TLS was not asked for.
    fn tls(&self) -> Result<Option<Arc<ServerConfig>>, TlsError> {
        let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let unreadable = |option, path: &PathBuf, holds| {
            let path = path.clone();
            move |source| TlsError::File { option, path, holds, source }
        };
        let chain = CertificateDer::pem_file_iter(cert)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .and_then(
                |chain| if chain.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(chain) },
            )
            .map_err(unreadable("--tls-cert", cert, "certificates"))?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(unreadable(
            "--tls-key",
            key,
            "a private key",
        ))?;
        let config = ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(chain, key).map_err(TlsError::Pair)?;
        Ok(Some(Arc::new(config)))
    }
}
