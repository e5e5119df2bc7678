//! Connections with TLS, and idle ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tidegate_fakes::sandbox::listener::{ListenOptions, Listener, TlsError};
use tidegate_fakes::sandbox::ses::{SesSandbox, SesSandboxConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsConnector;

const CERTIFICATE: &str = include_str!("../../../../tests/localhost/cert.pem");
const KEY: &str = include_str!("../../../../tests/localhost/key.pem");
const KEY_OF_ANOTHER: &str = include_str!("../../../../tests/localhost/other_key.pem");

struct Files {
    folder: TempDir,
    certificate: CertificateDer<'static>,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |name, text| std::fs::write(folder.path().join(name), text).unwrap();
        write("cert.pem", CERTIFICATE);
        write("key.pem", KEY);
        let certificate = CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap();
        Self { folder, certificate }
    }

    fn options(&self) -> ListenOptions {
        let file = |name| Some(self.folder.path().join(name));
        ListenOptions { tls_cert: file("cert.pem"), tls_key: file("key.pem"), idle_seconds: None }
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

async fn listening(options: &ListenOptions) -> Result<Listener, TlsError> {
    Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap().with(options)
}

#[tokio::test]
async fn who_trusts_the_certificate_is_served_however_slow_or_wrong_others_are() {
    let files = Files::new();
    let listener = listening(&files.options()).await.unwrap();
    assert_eq!(listener.scheme(), "https");
    let sandbox = SesSandbox::start_on(SesSandboxConfig::default(), listener);
    let addr = sandbox.addr();
    let mut roots = RootCertStore::empty();
    roots.add(files.certificate.clone()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    // One that never begins its handshake, and one that speaks no TLS.
    let _silent = TcpStream::connect(addr).await.unwrap();
    let mut plain = TcpStream::connect(addr).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let tcp = TcpStream::connect(addr).await.unwrap();
    let mut stream = connector.connect(name, tcp).await.unwrap();
    stream.write_all(b"GET /_sandbox/config HTTP/1.1\r\nhost: sandbox\r\n\r\n").await.unwrap();
    stream.flush().await.unwrap();
    let mut back = [0; 12];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"HTTP/1.1 200");
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_closed_once_no_request_came_for_so_long_and_not_before() {
    let options = ListenOptions { idle_seconds: Some(60), ..ListenOptions::default() };
    let listener = listening(&options).await.unwrap();
    let sandbox = SesSandbox::start_on(SesSandboxConfig::default(), listener);
    let mut stream = TcpStream::connect(sandbox.addr()).await.unwrap();
    let began = Instant::now();
    let mut back = [0; 4_096];
    for _ in 0..3 {
        sleep(Duration::from_secs(40)).await;
        stream.write_all(b"GET /_sandbox/config HTTP/1.1\r\nhost: sandbox\r\n\r\n").await.unwrap();
        let read = stream.read(&mut back).await.unwrap();
        assert!(back[..read].starts_with(b"HTTP/1.1 200"), "{read}");
    }
    assert_eq!(stream.read(&mut back).await.unwrap(), 0, "closed");
    assert_eq!(began.elapsed().as_secs(), 3 * 40 + 60);
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_closed_too_once_the_rest_of_a_body_did_not_come_for_so_long() {
    let options = ListenOptions { idle_seconds: Some(60), ..ListenOptions::default() };
    let listener = listening(&options).await.unwrap();
    let sandbox = SesSandbox::start_on(SesSandboxConfig::default(), listener);
    let mut stream = TcpStream::connect(sandbox.addr()).await.unwrap();
    let began = Instant::now();
    let half =
        b"POST /v2/email/outbound-emails HTTP/1.1\r\nhost: sandbox\r\ncontent-length: 9\r\n\r\n{";
    stream.write_all(half).await.unwrap();
    let mut back = [0; 64];
    assert_eq!(stream.read(&mut back).await.unwrap(), 0, "closed");
    assert_eq!(began.elapsed().as_secs(), 60);
}

#[tokio::test]
async fn a_file_that_is_wrong_is_told_with_its_option_and_what_it_should_hold() {
    let files = Files::new();
    let said = async |change: &dyn Fn(&mut ListenOptions)| {
        let mut options = files.options();
        change(&mut options);
        listening(&options).await.unwrap_err().to_string()
    };
    let missing = Path::new("/no/such/file").to_owned();
    assert_eq!(
        said(&|o| o.tls_cert = Some(missing.clone())).await,
        "--tls-cert /no/such/file: must be a PEM file with certificates"
    );
    let empty = files.file("empty.pem", "");
    let told = format!("--tls-cert {}: must be a PEM file with certificates", empty.display());
    assert_eq!(said(&|o| o.tls_cert = Some(empty.clone())).await, told);
    let told = format!("--tls-key {}: must be a PEM file with a private key", empty.display());
    assert_eq!(said(&|o| o.tls_key = Some(empty.clone())).await, told);
    let other = files.file("other.pem", KEY_OF_ANOTHER);
    assert_eq!(
        said(&|o| o.tls_key = Some(other.clone())).await,
        "--tls-cert and --tls-key do not fit"
    );
    assert_eq!(listening(&ListenOptions::default()).await.unwrap().scheme(), "http");
}
