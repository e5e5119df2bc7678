//! Opens connections: TCP, TLS if the URL demands it, and the protocol's greeting.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tidegate_core::config::BucketUrl;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::aws::trust_roots;
use crate::redis::TIME_LIMIT;
use crate::redis::cluster::NodeAddress;
use crate::redis::error::LinkError;

/// The time limit of name resolution, TCP, TLS and greeting together. It is longer than a take waits,
/// because a connection that opens too late for one take serves the later ones.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// The most takes that wait to be written to the connection.
const BUFFER: usize = 1_024;

/// The certificate authorities by which a server's certificate is checked.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// The system's authorities, read once.
    #[default]
    System,
    /// Only these authorities.
    Only(RootCertStore),
}

#[derive(Clone)]
pub(crate) struct RedisConnector {
    url: BucketUrl,
    tls: Option<TlsConnector>,
}

impl RedisConnector {
    pub(crate) fn new(url: BucketUrl, trust: Trust) -> Self {
        let tls = url.tls.then(|| {
            let roots = match trust {
                Trust::System => trust_roots(),
                Trust::Only(roots) => roots,
            };
            let config = ClientConfig::builder().with_root_certificates(roots);
            TlsConnector::from(Arc::new(config.with_no_client_auth()))
        });
        Self { url, tls }
    }

    pub(crate) fn url(&self) -> &BucketUrl {
        &self.url
    }

    /// The address in the URL.
    pub(crate) fn address(&self) -> NodeAddress {
        NodeAddress { host: self.url.host.clone(), port: self.url.port }
    }

    /// Opens a connection to `node` and waits for the greeting; a task of its own drives the connection.
    pub(crate) async fn connect(
        self,
        node: NodeAddress,
    ) -> Result<MultiplexedConnection, LinkError> {
        let limit = CONNECT_LIMIT;
        timeout(limit, self.open(&node)).await.unwrap_or(Err(LinkError::ConnectTimedOut(limit)))
    }

    async fn open(&self, node: &NodeAddress) -> Result<MultiplexedConnection, LinkError> {
        let failed = |error: io::Error| LinkError::Connect(Arc::new(error));
        let address = (node.host.as_str(), node.port);
        let tcp = TcpStream::connect(address).await.map_err(failed)?;
        // Without `nodelay`, a take's small packet would wait for the acknowledgement of the one before
        // (Nagle's algorithm).
        tcp.set_nodelay(true).map_err(failed)?;
        match &self.tls {
            None => self.greet(tcp).await,
            Some(tls) => {
                let host = ServerName::try_from(node.certified(&self.url.host).to_owned());
                let host = host.map_err(|error| failed(io::Error::other(error)))?;
                self.greet(tls.connect(host, tcp).await.map_err(failed)?).await
            }
        }
    }

    async fn greet<S>(&self, stream: S) -> Result<MultiplexedConnection, LinkError>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
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
        let greeted = MultiplexedConnection::new_with_config(&info, stream, config).await;
        let (connection, driver) = greeted.map_err(LinkError::Server)?;
        tokio::spawn(driver);
        Ok(connection)
    }
}
