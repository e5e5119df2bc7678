//! The parts of the client and its pool: connections (TCP, and TLS if the endpoint is https), the destination of a
//! request, the instruction that travels with it as an extension, and the errors.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeTransmitInterceptorContextMut;
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::ConfigBag;
use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Uri};
use hyper::client::conn::http1;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::CertificateResult;
use thiserror::Error;
use tidegate_core::outcome::Stage;
use tidegate_delivery::ports::{Clock as _, Monotonic};
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio_rustls::TlsConnector;
use tower_service::Service as _;

use crate::aws::error::find;
use crate::aws::system::SystemClock;

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
        tokio::time::timeout(CONNECT_TIMEOUT, self.open(&origin.0))
            .await
            .map_err(|_| WireError::ConnectTimedOut(CONNECT_TIMEOUT))?
            .map_err(WireError::Connect)
    }

    async fn open(&self, uri: &Uri) -> Result<(Sender, Driver), BoxError> {
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
fn system_certificates() -> CertificateResult {
    #[cfg(target_os = "linux")]
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

/// The destination of a request: scheme and authority, with the path `/`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Origin(Uri);

impl Origin {
    /// The origin of `uri`; an error if scheme or authority is missing.
    pub(super) fn of(uri: &Uri) -> Result<Self, WireError> {
        let address = || WireError::Address(uri.clone());
        let mut parts = uri.clone().into_parts();
        parts.authority.as_ref().ok_or_else(address)?;
        parts.path_and_query = Some(PathAndQuery::from_static("/"));
        Uri::from_parts(parts).map(Self).map_err(|_| address())
    }

    /// Converts an absolute request to one for this origin: path and `Host` header.
    pub(super) fn strip(&self, request: &mut Request<SdkBody>) {
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        if !request.headers().contains_key(HOST)
            && let Ok(host) = HeaderValue::from_str(self.host())
        {
            request.headers_mut().insert(HOST, host);
        }
    }

    /// The authority without the scheme's default port, as it was signed.
    fn host(&self) -> &str {
        let Self(uri) = self;
        match (uri.scheme_str(), uri.port_u16()) {
            (Some("https"), Some(443)) | (Some("http"), Some(80)) => uri.host(),
            _ => uri.authority().map(Authority::as_str),
        }
        .unwrap_or_default()
    }
}

#[derive(Debug, Error)]
pub(super) enum WireError {
    #[error("the endpoint \"{0}\" is no http or https address with a host")]
    Address(http::Uri),
    #[error("no connection")]
    Connect(#[source] BoxError),
    #[error("no connection within {0:?}")]
    ConnectTimedOut(std::time::Duration),
    #[error("as many connections are open as may be")]
    NoRoom,
    #[error("its slot had passed when a connection was there to take it")]
    Late,
    #[error("the connection was lost after the request was handed to it")]
    Lost(#[source] hyper::Error),
    /// Not a failure: a request that only opened connections ends with this error, because it has no answer.
    #[error("connections were opened, nothing was sent")]
    Warmed,
}

impl WireError {
    /// Whether this process or machine lacks a resource for a connection, such as a file descriptor.
    pub(super) fn is_exhaustion(&self) -> bool {
        /// `ENFILE` (23) and `EMFILE` (24): too many open files in the system, or in this process.
        const TOO_MANY_FILES: [i32; 2] = [23, 24];
        let lacks = |error: &io::Error| {
            error.kind() == io::ErrorKind::AddrNotAvailable
                || error.raw_os_error().is_some_and(|code| TOO_MANY_FILES.contains(&code))
        };
        matches!(self, Self::NoRoom) || find::<io::Error>(self).is_some_and(lacks)
    }
}

impl From<WireError> for ConnectorError {
    /// Converts to the kinds of error by which the SDK decides about retries.
    fn from(error: WireError) -> Self {
        match error {
            WireError::Connect(_) | WireError::NoRoom | WireError::Lost(_) => {
                Self::io(error.into())
            }
            WireError::ConnectTimedOut(_) => Self::timeout(error.into()),
            WireError::Address(_) | WireError::Late | WireError::Warmed => Self::user(error.into()),
        }
    }
}

/// The instruction that a request carries through the SDK to the connection.
#[derive(Clone, Debug)]
pub(crate) enum RequestKind {
    /// Send the request unless it is too late.
    Send(Ticket),
    /// Do not send the request: open this many connections to its endpoint.
    Warm(usize),
}

/// The last moment at which a request may be handed to a connection, and how far the request got.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    clock: SystemClock,
    latest: Monotonic,
    reached: Arc<Mutex<Reached>>,
}

/// How far a request got, if it has no answer, and when it was last handed to a connection.
#[derive(Debug)]
struct Reached {
    stage: Stage,
    start: Option<Monotonic>,
}

impl Ticket {
    pub(crate) fn new(clock: SystemClock, latest: Monotonic) -> Self {
        let reached = Reached { stage: Stage::Connect, start: None };
        Self { clock, latest, reached: Arc::new(Mutex::new(reached)) }
    }

    /// How far the request got, if it has no answer.
    pub(crate) fn stage(&self) -> Stage {
        self.lock().stage
    }

    /// When the request was handed to a connection, unless that returned it unwritten.
    pub(crate) fn start(&self) -> Option<Monotonic> {
        self.lock().start
    }

    fn lock(&self) -> MutexGuard<'_, Reached> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the clock; true if the request may be written. It then counts as written until it is handed
    /// back.
    pub(super) fn hand_over(&self) -> bool {
        let now = self.clock.monotonic();
        let in_time = now <= self.latest;
        let stage = if in_time { Stage::AfterWrite } else { Stage::NotSent };
        *self.lock() = Reached { stage, start: in_time.then_some(now) };
        in_time
    }

    /// Notes that this process has no connection for the request, so nothing of it was written.
    pub(super) fn refuse(&self) {
        *self.lock() = Reached { stage: Stage::NotSent, start: None };
    }

    /// Completes when the request would be late.
    pub(super) fn late(&self) -> impl Future<Output = ()> {
        self.clock.sleep_until(self.latest)
    }

    /// Notes that the connection returned the request unwritten.
    pub(super) fn hand_back(&self) {
        *self.lock() = Reached { stage: Stage::Connect, start: None };
    }
}

/// Attaches the instruction at the SDK's last hook before the HTTP client (a retry is a copy of the request
/// without extensions). A late request is refused here. One in time counts as handed over unless
/// [`Wire`](super::Wire) corrects that, so that no other HTTP client can make it look unsent.
#[dyn_dispatch_hint]
impl Intercept for RequestKind {
    fn name(&self) -> &'static str {
        "RequestKind"
    }

    fn modify_before_transmit(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Self::Send(ticket) = self
            && !ticket.hand_over()
        {
            return Err(WireError::Late.into());
        }
        context.request_mut().add_extension(self.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(uri: &'static str) -> (String, String) {
        let mut request = Request::new(SdkBody::empty());
        *request.uri_mut() = Uri::from_static(uri);
        Origin::of(request.uri()).unwrap().strip(&mut request);
        (request.uri().to_string(), request.headers()[HOST].to_str().unwrap().to_owned())
    }

    #[test]
    fn a_request_keeps_its_path_and_names_the_host_as_it_was_signed() {
        let pair = |path: &str, host: &str| (path.to_owned(), host.to_owned());
        assert_eq!(stripped("https://a.example/v2/x?y=1"), pair("/v2/x?y=1", "a.example"));
        assert_eq!(stripped("https://a.example:443"), pair("/", "a.example"));
        assert_eq!(stripped("http://127.0.0.1:4566/"), pair("/", "127.0.0.1:4566"));
        assert_eq!(stripped("http://a.example:443/"), pair("/", "a.example:443"));
    }

    #[test]
    fn an_address_without_a_host_is_refused_by_name() {
        let error = Origin::of(&Uri::from_static("/v2/email")).unwrap_err();
        assert!(error.to_string().contains("/v2/email"));
    }
}
