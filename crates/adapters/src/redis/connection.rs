//! The one connection that all takes share. It is opened when needed, replaced after a failure, and follows a
//! cluster to the node that has the keys. All keys of a call have one hash tag, so they are on one node, and its
//! address is all that is remembered of the cluster.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, RedisConnectionInfo, RedisError, RedisResult};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tidegate_core::config::{BucketUrl, LAST_START};
use tidegate_delivery::ports::{FailureKind, PortError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

/// The time limit of a take, including the time to connect.
pub const TIME_LIMIT: Duration = Duration::from_millis(300);
const _: () = assert!(TIME_LIMIT.as_millis() <= LAST_START.as_millis());

/// How often a call is made if a cluster sends it to another node: to the one that has the keys, and while they
/// move, from there to the next one, which may not know the script yet.
const MOST_HOPS: usize = 5;

/// The time limit of name resolution, TCP, TLS and greeting together. It is longer than a take waits,
/// because a connection that opens too late for one take serves the later ones.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// The most takes that wait to be written to the connection.
const BUFFER: usize = 1_024;

type Opening = Shared<BoxFuture<'static, RedisResult<MultiplexedConnection>>>;

pub(super) struct Link {
    pub(super) connector: RedisConnector,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    /// The number of connections opened so far. A failure names its connection, so that it does not end a
    /// later one.
    number: u64,
    opening: Option<Opening>,
    /// The node of a cluster that has the keys; none for the address in the URL.
    node: Option<NodeAddress>,
}

struct CurrentConnection {
    connection: MultiplexedConnection,
    number: u64,
    address: NodeAddress,
}

impl Link {
    pub(super) fn new(connector: RedisConnector) -> Self {
        Self { connector, current: Mutex::default() }
    }

    /// Runs `call` on the connection within the time limit, again if a cluster sends it to another node. A failure
    /// is reported as one of `operation`.
    pub(super) async fn call<T>(
        &self,
        operation: &'static str,
        call: impl AsyncFn(MultiplexedConnection) -> RedisResult<T>,
    ) -> Result<T, PortError> {
        let answer = self.follow(Instant::now() + TIME_LIMIT, &call).await;
        answer.map_err(|error| PortError {
            operation,
            resource: self.connector.url.authority(),
            kind: kind(&error),
            source: Some(error.into()),
        })
    }

    async fn follow<T>(
        &self,
        deadline: Instant,
        call: &impl AsyncFn(MultiplexedConnection) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let mut answer = Err(unanswered());
        for _ in 0..MOST_HOPS {
            let lent = within(deadline, self.lend()).await?;
            answer = within(deadline, call(lent.connection)).await;
            let Err(error) = &answer else { break };
            match NodeAddress::redirected(error, &lent.address) {
                Some(node) if error.code() == Some("MOVED") => {
                    self.replace(lent.number, Some(node));
                }
                // `ASK`: the keys are about to move there.
                Some(node) => {
                    let connection = within(deadline, self.asking(&node)).await?;
                    answer = within(deadline, call(connection)).await;
                    let is_sent_on = |error| NodeAddress::redirected(error, &node).is_some();
                    if !answer.as_ref().is_err_and(is_sent_on) {
                        break;
                    }
                }
                None => {
                    if breaks(error) {
                        self.replace(lent.number, None);
                    }
                    break;
                }
            }
        }
        answer
    }

    /// A connection to a node to which the keys are about to move. It is for one call, because `ASKING` holds for
    /// the command after it. On the heap and not generic, as it is seldom needed and the future of a connect is large.
    fn asking(&self, node: &NodeAddress) -> BoxFuture<'static, RedisResult<MultiplexedConnection>> {
        let opening = self.connector.clone().connect(node.clone());
        let asking = async move {
            let mut connection = opening.await?;
            redis::cmd("ASKING").query_async::<()>(&mut connection).await?;
            Ok(connection)
        };
        asking.boxed()
    }

    /// Returns the connection; waits if it is being opened.
    async fn lend(&self) -> RedisResult<CurrentConnection> {
        let (number, address, opening) = self.opening();
        match opening.await {
            Ok(connection) => Ok(CurrentConnection { connection, number, address }),
            Err(error) => {
                self.replace(number, None);
                Err(error)
            }
        }
    }

    /// Drops this connection, unless a newer one has replaced it. The next one is to `node`; without one, to the
    /// address in the URL, whose cluster knows the node that takes over.
    fn replace(&self, number: u64, node: Option<NodeAddress>) {
        let mut current = self.current();
        if current.number == number {
            current.opening = None;
            current.node = node;
        }
    }

    fn opening(&self) -> (u64, NodeAddress, Opening) {
        let mut current = self.current();
        let BucketUrl { host, port, .. } = &self.connector.url;
        let in_url = || NodeAddress { host: host.clone(), port: *port };
        let address = current.node.clone().unwrap_or_else(in_url);
        if let Some(opening) = &current.opening {
            return (current.number, address, opening.clone());
        }
        // A task of its own continues if the take gives up, so that the next take finds the connection open.
        let task = tokio::spawn(self.connector.clone().connect(address.clone()));
        let opening =
            async move { task.await.unwrap_or_else(|lost| Err(io::Error::other(lost).into())) };
        let opening = opening.boxed().shared();
        current.number += 1;
        current.opening = Some(opening.clone());
        (current.number, address, opening)
    }

    /// No caller may hold the lock across an await point.
    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn within<T>(
    deadline: Instant,
    call: impl Future<Output = RedisResult<T>>,
) -> RedisResult<T> {
    timeout_at(deadline, call).await.unwrap_or_else(|_| Err(unanswered()))
}

fn unanswered() -> RedisError {
    io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {TIME_LIMIT:?}")).into()
}

/// Opens connections: TCP, TLS if the URL demands it, and the protocol's greeting.
#[derive(Clone)]
pub(super) struct RedisConnector {
    pub(super) url: BucketUrl,
    tls: Option<TlsConnector>,
}

impl RedisConnector {
    /// A server's certificate is checked by the authorities in `trusted`.
    pub(super) fn new(url: BucketUrl, trusted: impl FnOnce() -> RootCertStore) -> Self {
        let tls = url.tls.then(|| {
            let config = ClientConfig::builder().with_root_certificates(trusted());
            TlsConnector::from(Arc::new(config.with_no_client_auth()))
        });
        Self { url, tls }
    }

    /// Opens a connection to `node` and waits for the greeting; a task of its own drives the connection.
    async fn connect(self, node: NodeAddress) -> RedisResult<MultiplexedConnection> {
        timeout(CONNECT_LIMIT, self.open(&node)).await.unwrap_or_else(|_| {
            let why = format!("no connection within {CONNECT_LIMIT:?}");
            Err(io::Error::new(io::ErrorKind::TimedOut, why).into())
        })
    }

    async fn open(&self, node: &NodeAddress) -> RedisResult<MultiplexedConnection> {
        let tcp = TcpStream::connect((node.host.as_str(), node.port)).await?;
        // Without `nodelay`, a take's small packet would wait for the acknowledgement of the one before
        // (Nagle's algorithm).
        tcp.set_nodelay(true)?;
        match &self.tls {
            None => self.greet(tcp).await,
            Some(tls) => {
                let host = ServerName::try_from(node.certified(&self.url.host).to_owned());
                self.greet(tls.connect(host.map_err(io::Error::other)?, tcp).await?).await
            }
        }
    }

    async fn greet<S>(&self, stream: S) -> RedisResult<MultiplexedConnection>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut info = RedisConnectionInfo::default().set_db(self.url.database.into());
        if let Some(user) = &self.url.user {
            info = info.set_username(user);
        }
        if let Some(password) = &self.url.password {
            info = info.set_password(password);
        }
        // An ACL user may lack the permission to set the library's name, and does not need it.
        let info = info.set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(TIME_LIMIT))
            .set_pipeline_buffer_size(BUFFER);
        let (connection, driver) =
            MultiplexedConnection::new_with_config(&info, stream, config).await?;
        tokio::spawn(driver);
        Ok(connection)
    }
}

/// The address of a server: of the URL, or of the node that a cluster named.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NodeAddress {
    /// A name or an address; an IPv6 address without its brackets.
    host: String,
    port: u16,
}

impl NodeAddress {
    /// The node that has the keys, if `error` is a cluster's answer (`MOVED` or `ASK`) that it is not the one that was
    /// `asked`.
    fn redirected(error: &RedisError, asked: &Self) -> Option<Self> {
        Self::named(error.redirect_node()?.0, asked)
    }

    /// Reads `HOST:PORT`. A host that the cluster does not know (empty, or `?`) is the one that was `asked`.
    fn named(text: &str, asked: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = if ["", "?"].contains(&host) { &asked.host } else { host };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Some(Self { host, port: port.parse().ok()? })
    }

    /// The name that the node's certificate must have. A cluster may name nodes by address, and certificates
    /// have names: then it is the `url_host`, as all nodes of a cluster have certificates for it.
    fn certified<'a>(&'a self, url_host: &'a str) -> &'a str {
        let is_address = |host: &str| host.parse::<IpAddr>().is_ok();
        if is_address(&self.host) && !is_address(url_host) { url_host } else { &self.host }
    }
}

const DENIED: [&str; 4] = ["NOAUTH", "NOPERM", "WRONGPASS", "AuthenticationFailed"];
const ELSEWHERE: [&str; 4] = ["READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN"];

fn kind(error: &RedisError) -> FailureKind {
    match code(error) {
        Some(code) if DENIED.contains(&code) => FailureKind::Denied(code.to_owned()),
        Some(code) => FailureKind::Refused(code.to_owned()),
        None if error.is_timeout() => FailureKind::TimedOut,
        None if error.kind() == ErrorKind::UnexpectedReturnType => {
            FailureKind::Refused("UnknownAnswer".to_owned())
        }
        None => FailureKind::Unreachable,
    }
}

/// Whether the connection must be replaced after this error.
fn breaks(error: &RedisError) -> bool {
    // A server that is read-only or still loading may no longer be the primary one after a failover.
    code(error).is_none_or(|code| ELSEWHERE.contains(&code))
}

/// The server's error code; `None` if the error does not come from the server.
fn code(error: &RedisError) -> Option<&str> {
    match error.kind() {
        ErrorKind::AuthenticationFailed => Some("AuthenticationFailed"),
        _ => error.code(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str, port: u16) -> NodeAddress {
        NodeAddress { host: host.to_owned(), port }
    }

    #[test]
    fn a_node_is_read_as_clusters_write_it() {
        let asked = node("cache.example", 6379);
        for (text, host, port) in [
            ("10.0.0.7:7001", "10.0.0.7", 7_001),
            ("node-2.cache.example:6380", "node-2.cache.example", 6_380),
            ("2001:db8::1:7000", "2001:db8::1", 7_000),
            ("[2001:db8::1]:7000", "2001:db8::1", 7_000),
            (":7002", "cache.example", 7_002),
            ("?:7003", "cache.example", 7_003),
        ] {
            assert_eq!(NodeAddress::named(text, &asked), Some(node(host, port)), "{text}");
        }
        for wrong in ["", "host", "host:", "host:x", "host:65536"] {
            assert_eq!(NodeAddress::named(wrong, &asked), None, "{wrong}");
        }
    }

    #[test]
    fn the_certificate_of_a_node_named_by_address_is_checked_against_the_name_in_the_url() {
        for (host, url, checked) in [
            ("10.0.0.7", "cache.example", "cache.example"),
            ("10.0.0.7", "10.0.0.1", "10.0.0.7"),
            ("node-2.cache.example", "cache.example", "node-2.cache.example"),
        ] {
            assert_eq!(node(host, 1).certified(url), checked, "{host}");
        }
    }
}
