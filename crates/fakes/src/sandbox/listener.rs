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
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// Longest time for a TLS handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// A connection, without TLS or with it.
pub type Stream = Either<TcpStream, TlsStream<TcpStream>>;

/// Accepts connections; with TLS, those whose handshake is done.
pub struct Listener {
    tcp: TcpListener,
    addr: SocketAddr,
    tls: Option<TlsAcceptor>,
    /// How long a connection may wait for a request.
    pub(super) idle: Option<Duration>,
    /// Handshakes run concurrently, so that a slow client delays no other.
    handshakes: JoinSet<Option<Stream>>,
}

impl Listener {
    /// Binds `addr` (port 0 takes a free one), without TLS.
    ///
    /// # Errors
    /// Where the address cannot be bound.
    pub async fn bind(addr: SocketAddr) -> io::Result<Self> {
        let tcp = TcpListener::bind(addr).await?;
        let addr = tcp.local_addr()?;
        Ok(Self { tcp, addr, tls: None, idle: None, handshakes: JoinSet::new() })
    }

    /// Applies the options: certificate and idle timeout.
    ///
    /// # Errors
    /// [`TlsError`] where the certificate cannot be served.
    pub fn with(self, options: &ListenOptions) -> Result<Self, TlsError> {
        let idle = options.idle_seconds.map(Duration::from_secs);
        Ok(Self { tls: options.acceptor()?, idle, ..self })
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http`, or `https` where it has a certificate.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// The next connection. Dropping the future loses none.
    ///
    /// # Errors
    /// Where the system refuses to accept one: out of file descriptors, most often.
    pub async fn accept(&mut self) -> io::Result<Stream> {
        loop {
            tokio::select! {
                accepted = self.tcp.accept() => {
                    let (tcp, _) = accepted?;
                    // Answers are small; waiting to fill a packet would add 40 ms to some of them.
                    let _ = tcp.set_nodelay(true);
                    match &self.tls {
                        None => return Ok(Either::Left(tcp)),
                        Some(tls) => drop(self.handshakes.spawn(handshake(tls.clone(), tcp))),
                    }
                }
                Some(done) = self.handshakes.join_next(), if !self.handshakes.is_empty() => {
                    if let Ok(Some(stream)) = done {
                        return Ok(stream);
                    }
                }
            }
        }
    }
}

/// None if the client rejects the certificate, gives up, or does not speak TLS.
async fn handshake(tls: TlsAcceptor, tcp: TcpStream) -> Option<Stream> {
    let done = tokio::time::timeout(HANDSHAKE_LIMIT, tls.accept(tcp)).await;
    match done.map_err(io::Error::from).flatten() {
        Ok(stream) => Some(Either::Right(stream)),
        Err(error) => {
            tracing::info!(%error, "a TLS handshake failed");
            None
        }
    }
}

/// Waits a little: out of file descriptors, the next accept would fail at once too.
pub(super) async fn wait_after_accept_error(error: &io::Error) {
    tracing::warn!(%error, "a connection could not be accepted");
    tokio::time::sleep(Duration::from_millis(50)).await;
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("tcp", &self.tcp).finish_non_exhaustive()
    }
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
    /// Close a connection on which no request came for so long, as AWS's endpoints do [default: never]
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
    fn acceptor(&self) -> Result<Option<TlsAcceptor>, TlsError> {
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
        Ok(Some(TlsAcceptor::from(Arc::new(config))))
    }
}
