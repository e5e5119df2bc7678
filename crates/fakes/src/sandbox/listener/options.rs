//! Command-line options of a listener.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use tokio_rustls::TlsAcceptor;

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
    pub(crate) fn acceptor(&self) -> Result<Option<TlsAcceptor>, TlsError> {
        let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let wait_after_accept_error = |option, path: &PathBuf, holds| {
            let path = path.clone();
            move |source| TlsError::File { option, path, holds, source }
        };
        let chain = CertificateDer::pem_file_iter(cert)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .and_then(
                |chain| if chain.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(chain) },
            )
            .map_err(wait_after_accept_error("--tls-cert", cert, "certificates"))?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(wait_after_accept_error(
            "--tls-key",
            key,
            "a private key",
        ))?;
        let config = ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(chain, key).map_err(TlsError::Pair)?;
        Ok(Some(TlsAcceptor::from(Arc::new(config))))
    }
}
