//! Logins: passwords, ACL users and TLS.

use std::sync::Arc;

use tidegate_adapters::redis::RedisBucket;
use tidegate_core::config::BucketUrl;
use tidegate_delivery::ports::{Bucket as _, FailureKind};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::{bucket, is_granted, one, server};

/// An ACL user with the rights that a taker needs on the keys of its prefix.
pub(super) const TAKER: &str = "ACL SETUSER tidegate on >s@cret/1 resetkeys ~{tidegate}:* -@all +evalsha +script|load +time +get +set +asking";

fn of(url: BucketUrl) -> RedisBucket {
    RedisBucket::new(url, "tidegate".to_owned())
}

#[tokio::test]
async fn a_password_is_asked_for_and_a_wrong_one_denied_and_not_told() {
    let server = server(&["--requirepass", "hush"]).await;
    assert!(is_granted(&of(server.url(":hush@")), 14.0).await.unwrap());
    for login in ["", ":hushhush@", "nobody:hush@"] {
        let error = of(server.url(login)).take(&one(14.0)).await.unwrap_err();
        assert!(matches!(error.kind, FailureKind::Denied(_)), "{login}: {error:?}");
        assert!(!format!("{error:?} {error}").contains("hush"), "{error:?}");
    }
}

#[tokio::test]
async fn a_user_with_leave_for_the_script_and_its_keys_alone_can_take() {
    let server = server(&[]).await;
    assert_eq!(server.command(TAKER).await.unwrap(), "+OK\r\n");
    let url = server.url("tidegate:s%40cret%2F1@");
    let bucket = of(url.clone());
    bucket.warm().await;
    assert!(is_granted(&bucket, 14.0).await.unwrap());
    let elsewhere = RedisBucket::new(url, "other".parse().unwrap());
    let error = elsewhere.take(&one(14.0)).await.unwrap_err();
    assert!(matches!(error.kind, FailureKind::Denied(_) | FailureKind::Refused(_)), "{error:?}");
}

/// Terminates TLS in front of the server, as a managed service does; returns its port.
async fn with_tls(server: &crate::Server, certificate: CertificateDer<'static>) -> u16 {
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../../localhost/key.pem")).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![certificate], key).unwrap();
    let (acceptor, to) = (TlsAcceptor::from(Arc::new(config)), server.address());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut inner = acceptor.accept(stream).await?;
                let mut outer = TcpStream::connect(to).await?;
                copy_bidirectional(&mut inner, &mut outer).await
            });
        }
    });
    port
}

#[tokio::test]
async fn by_tls_it_takes_from_whom_it_trusts_and_from_nobody_else() {
    let server = server(&["--requirepass", "hush"]).await;
    let certificate = include_bytes!("../../localhost/cert.pem");
    let certificate = CertificateDer::from_pem_slice(certificate).unwrap();
    let port = with_tls(&server, certificate.clone()).await;
    let url = |host: &str| format!("rediss://:hush@{host}:{port}").parse::<BucketUrl>().unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let trusting = |host| RedisBucket::trusting(url(host), "tidegate".to_owned(), || roots.clone());
    assert!(is_granted(&trusting("localhost"), 14.0).await.unwrap());
    // Another name than the certificate's, and a certificate of nobody the system trusts.
    for stranger in [trusting("127.0.0.1"), of(url("localhost"))] {
        let error = stranger.take(&one(14.0)).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Unreachable, "{error:?}");
    }
    // Nobody who speaks TLS is answered without.
    let plain = bucket(&server);
    assert!(plain.take(&one(14.0)).await.is_err());
}
