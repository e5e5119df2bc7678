//! Listens for the sandboxes: on TCP, and with TLS if they have a certificate.
//!
//! AWS's endpoints speak TLS only, and handshakes and encryption are a considerable part of a poller's
//! processor time: a measurement without TLS would be too good. They also close idle connections.
//!
//! A connection with an idle timeout.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use clap::Args;
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Longest time for a TLS handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// Accepts connections; with TLS, those whose handshake is done.
pub struct Listener {
    tcp: TcpListener,
    addr: SocketAddr,
    tls: Option<TlsAcceptor>,
    idle: Option<Duration>,
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
                        None => return Ok(Stream::plain(tcp, self.idle)),
                        Some(tls) => drop(self.handshakes.spawn(handshake(tls.clone(), tcp, self.idle))),
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
async fn handshake(tls: TlsAcceptor, tcp: TcpStream, idle: Option<Duration>) -> Option<Stream> {
    let done = tokio::time::timeout(HANDSHAKE_LIMIT, tls.accept(tcp)).await;
    match done.map_err(io::Error::from).flatten() {
        Ok(stream) => Some(Stream::encrypted(stream, idle)),
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
    /// Close a connection on which nothing came or went for so long, as AWS's endpoints do; longer
    /// than any request lasts [default: never]
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

/// A connection, with TLS or without.
#[derive(Debug)]
pub struct Stream {
    transport: Transport,
    idle: Option<IdleTimer>,
}

#[derive(Debug)]
enum Transport {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Ends the stream if nothing was read or written within the limit.
#[derive(Debug)]
struct IdleTimer {
    limit: Duration,
    end: Pin<Box<Sleep>>,
}

impl Stream {
    pub(crate) fn plain(tcp: TcpStream, idle: Option<Duration>) -> Self {
        Self { transport: Transport::Tcp(tcp), idle: idle.map(IdleTimer::new) }
    }

    pub(crate) fn encrypted(tls: TlsStream<TcpStream>, idle: Option<Duration>) -> Self {
        Self { transport: Transport::Tls(Box::new(tls)), idle: idle.map(IdleTimer::new) }
    }

    /// The underlying TCP connection.
    pub fn tcp(&self) -> &TcpStream {
        match &self.transport {
            Transport::Tcp(tcp) => tcp,
            Transport::Tls(tls) => tls.get_ref().0,
        }
    }

    fn used(&mut self) {
        if let Some(idle) = &mut self.idle {
            idle.end.as_mut().reset(Instant::now() + idle.limit);
        }
    }

    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        self.idle.as_mut().is_some_and(|idle| idle.end.as_mut().poll(cx).is_ready())
    }
}

impl IdleTimer {
    fn new(limit: Duration) -> Self {
        Self { limit, end: Box::pin(sleep(limit)) }
    }
}

/// Delegates a poll to the transport, TCP or TLS.
macro_rules! either {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match &mut $self.transport {
            Transport::Tcp(tcp) => Pin::new(tcp).$method($($argument),*),
            Transport::Tls(tls) => Pin::new(tls.as_mut()).$method($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = either!(self.poll_read(cx, buf));
        if read.is_ready() {
            self.used();
        } else if self.is_over(cx) {
            // A read of nothing is the end of the stream, and makes the server close it.
            return Poll::Ready(Ok(()));
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = either!(self.poll_write(cx, buf));
        if written.is_ready() {
            self.used();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.poll_shutdown(cx))
    }
}
