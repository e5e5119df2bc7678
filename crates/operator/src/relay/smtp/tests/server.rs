use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::super::server::{COMMAND, CONTENT, FIRST_COMMAND, SILENCE};
use super::super::{Encryption, SmtpServer, SmtpSettings, serve};
use crate::connections::Connections;
use crate::relay::logins::{KeyPairs, Logins};
use crate::relay::refusal::Refusal;
use crate::relay::submission::{SmtpMail, Submit};

pub(super) const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const CERTIFICATE: &[u8] = include_bytes!("../../../../../../tests/localhost/cert.pem");
const KEY: &[u8] = include_bytes!("../../../../../../tests/localhost/key.pem");

/// Takes every mail, a while after it came.
#[derive(Default)]
pub(super) struct Depot {
    pub(super) takes: Duration,
    pub(super) taken: Mutex<Vec<SmtpMail>>,
}

impl Submit for Depot {
    async fn submit(&self, submission: SmtpMail) -> Result<String, Refusal> {
        sleep(self.takes).await;
        let mut taken = self.taken.lock().unwrap();
        taken.push(submission);
        Ok(format!("m{}", taken.len()))
    }
}

pub(super) fn settings() -> SmtpSettings {
    SmtpSettings {
        host: "relay.example.com".to_owned(),
        tls: None,
        logins: None,
        most_bytes: 1_000_000,
        memory: Arc::new(Semaphore::new(4_000_000)),
    }
}

fn with_login() -> SmtpSettings {
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let certificates = vec![CertificateDer::from_pem_slice(CERTIFICATE).unwrap()];
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(certificates, key);
    let keys = KeyPairs::read(r#"{"ada": {"secret": "correct-horse-battery"}}"#).unwrap();
    SmtpSettings {
        tls: Some(Arc::new(config.unwrap())),
        logins: Some(Arc::new(Logins::new(keys))),
        ..settings()
    }
}

struct Host {
    server: Arc<SmtpServer<Depot>>,
    depot: Arc<Depot>,
    memory: Arc<Semaphore>,
    stopping: watch::Sender<bool>,
}

impl Host {
    fn new(settings: SmtpSettings, takes: Duration) -> Self {
        let depot = Arc::new(Depot { takes, ..Depot::default() });
        let memory = Arc::clone(&settings.memory);
        let server = Arc::new(SmtpServer::new(settings, Arc::clone(&depot)));
        Self { server, depot, memory, stopping: watch::channel(false).0 }
    }

    fn connects(&self, peer: IpAddr, encryption: Encryption) -> Client<DuplexStream> {
        let (ours, theirs) = duplex(64 * 1024);
        let (server, stopped) = (Arc::clone(&self.server), self.stopping.subscribe());
        let connection =
            tokio::spawn(async move { server.connection(theirs, peer, encryption, stopped).await });
        Client { stream: ours, connection: Some(connection) }
    }

    async fn greeted(&self) -> Client<DuplexStream> {
        let mut client = self.connects(PEER, Encryption::StartTls);
        assert_eq!(client.hears().await, "220 relay.example.com ESMTP Tidegate");
        client.says("HELO app\r\n").await;
        client.hears().await;
        client
    }

    /// Bytes that may still be held.
    fn memory(&self) -> usize {
        self.memory.available_permits()
    }

    fn taken(&self) -> usize {
        self.depot.taken.lock().unwrap().len()
    }
}

struct Client<C> {
    stream: C,
    connection: Option<JoinHandle<()>>,
}

impl<C: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin> Client<C> {
    async fn says(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// The last line of the next answer; empty once the server has hung up.
    async fn hears(&mut self) -> String {
        loop {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                match self.stream.read_u8().await {
                    Ok(byte) => line.push(byte),
                    Err(_) => return String::from_utf8(line).unwrap(),
                }
            }
            let line = String::from_utf8(line).unwrap();
            if line.as_bytes()[3] == b' ' {
                return line.trim_end().to_owned();
            }
        }
    }

    async fn asks(&mut self, command: &str) -> String {
        self.says(&format!("{command}\r\n")).await;
        self.hears().await
    }

    /// Up to the content.
    async fn begins(&mut self) {
        self.asks("MAIL FROM:<news@example.org>").await;
        self.asks("RCPT TO:<ada@example.com>").await;
        assert!(self.asks("DATA").await.starts_with("354 "));
    }
}

#[tokio::test(start_paused = true)]
async fn a_mail_is_answered_once_it_was_submitted() {
    let host = Host::new(settings(), Duration::from_secs(90));
    let mut client = host.greeted().await;
    client.begins().await;
    let begun = Instant::now();
    assert_eq!(client.asks("Hello\r\n.").await, "250 2.0.0 queued as m1");
    assert_eq!(begun.elapsed().as_secs(), 90);
    assert_eq!(client.asks("QUIT").await, "221 2.0.0 bye");
    assert_eq!(client.hears().await, "");
    client.connection.unwrap().await.unwrap();
    let taken = host.depot.taken.lock().unwrap();
    assert_eq!((&*taken[0].data, &*taken[0].to[0]), (&b"Hello\r\n"[..], "ada@example.com"));
    assert_eq!(host.memory(), 4_000_000);
}

#[tokio::test(start_paused = true)]
async fn pipelined_mails_are_submitted_in_order() {
    let host = Host::new(settings(), Duration::from_secs(1));
    let mut client = host.greeted().await;
    let mail = "MAIL FROM:<news@example.org>\r\nRCPT TO:<ada@example.com>\r\nBDAT 3 LAST\r\na\r\n";
    client.says(&mail.repeat(50)).await;
    for number in 1..=50 {
        client.hears().await;
        client.hears().await;
        assert_eq!(client.hears().await, format!("250 2.0.0 queued as m{number}"));
    }
}

#[tokio::test(start_paused = true)]
async fn each_phase_has_its_time() {
    let host = Host::new(settings(), Duration::ZERO);
    let late = "421 4.4.2 nothing complete came in time";

    let mut client = host.connects(PEER, Encryption::StartTls);
    client.hears().await;
    let begun = Instant::now();
    assert_eq!(client.hears().await, late);
    assert_eq!(begun.elapsed(), FIRST_COMMAND);

    let mut client = host.greeted().await;
    let begun = Instant::now();
    for _ in 0..5 {
        sleep(Duration::from_secs(11)).await;
        client.says("N").await;
    }
    assert_eq!(client.hears().await, late, "bytes of a command do not give it more time");
    assert_eq!(begun.elapsed(), COMMAND);

    let mut client = host.greeted().await;
    for _ in 0..10 {
        sleep(Duration::from_secs(59)).await;
        assert_eq!(client.asks("NOOP").await, "250 2.0.0 nothing done");
    }
    client.begins().await;
    client.says("Hello").await;
    let begun = Instant::now();
    assert_eq!(client.hears().await, late);
    assert_eq!(begun.elapsed(), SILENCE);

    let mut client = host.greeted().await;
    client.begins().await;
    let begun = Instant::now();
    let lines = async {
        let (mut answers, mut lines) = tokio::io::split(&mut client.stream);
        let mut answer = vec![0; 100];
        loop {
            tokio::select! {
                count = answers.read(&mut answer) => break answer[..count.unwrap()].to_vec(),
                () = sleep(Duration::from_secs(29)) => lines.write_all(b"slow\r\n").await.unwrap(),
            }
        }
    };
    assert_eq!(String::from_utf8(lines.await).unwrap().trim_end(), late);
    assert_eq!(begun.elapsed(), CONTENT);
    assert_eq!(host.taken(), 0);
    assert_eq!(host.memory(), 4_000_000);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_large_mails_at_once_take_no_more_memory_than_there_is() {
    let host = Arc::new(Host::new(settings(), Duration::from_secs(1)));
    let clients = (0..1_000).map(|_| {
        let host = Arc::clone(&host);
        tokio::spawn(async move {
            let mut client = host.greeted().await;
            client.begins().await;
            let mut least = usize::MAX;
            for _ in 0..16 {
                client.says(&("x".repeat(4_094) + "\r\n")).await;
                sleep(Duration::from_millis(100)).await;
                least = least.min(host.memory());
            }
            (client.asks(".").await, least)
        })
    });
    let (mut queued, mut refused, mut least) = (0, 0, usize::MAX);
    for client in clients.collect::<Vec<_>>() {
        let (answer, free) = client.await.unwrap();
        least = least.min(free);
        match &answer[..9] {
            "250 2.0.0" => queued += 1,
            "452 4.3.1" => refused += 1,
            _ => panic!("{answer}"),
        }
    }
    assert_eq!(queued + refused, 1_000);
    assert_eq!(host.taken(), queued);
    assert!(queued >= 10 && refused > 0 && least < 200_000, "{queued} queued, {least} bytes left");
    assert_eq!(host.memory(), 4_000_000);
    let mut client = host.greeted().await;
    client.begins().await;
    assert!(client.asks(".").await.starts_with("250 2.0.0 queued"), "then there is room again");
}

async fn encrypted(
    stream: DuplexStream,
) -> std::io::Result<Client<tokio_rustls::client::TlsStream<DuplexStream>>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(CERTIFICATE).unwrap()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    Ok(Client { stream, connection: None })
}

const LOGIN: &str = "AUTH PLAIN AGFkYQBjb3JyZWN0LWhvcnNlLWJhdHRlcnk=";
const WRONG: &str = "AUTH PLAIN AGFkYQB3cm9uZw==";

#[tokio::test(start_paused = true)]
async fn tls_begins_at_once_or_on_request() {
    let host = Host::new(with_login(), Duration::ZERO);
    let mut plain = host.connects(PEER, Encryption::StartTls);
    plain.hears().await;
    plain.asks("EHLO app").await;
    assert!(plain.asks("MAIL FROM:<news@example.org>").await.starts_with("530 5.7.0 "));
    assert_eq!(plain.asks("STARTTLS").await, "220 2.0.0 begin TLS");
    let requested = encrypted(plain.stream).await.unwrap();
    let mut at_once = encrypted(host.connects(PEER, Encryption::Implicit).stream).await.unwrap();
    assert_eq!(at_once.hears().await, "220 relay.example.com ESMTP Tidegate");
    for mut client in [requested, at_once] {
        client.asks("EHLO app").await;
        assert_eq!(client.asks(LOGIN).await, "235 2.7.0 logged in");
        client.begins().await;
        assert!(client.asks("Hello\r\n.").await.starts_with("250 2.0.0 queued as "));
        assert_eq!(client.asks("QUIT").await, "221 2.0.0 bye");
    }
    assert!(
        host.depot.taken.lock().unwrap().iter().all(|mail| mail.user.as_deref() == Some("ada"))
    );
}

#[tokio::test(start_paused = true)]
async fn plain_text_after_starttls_is_never_taken_for_encrypted() {
    let host = Host::new(SmtpSettings { logins: None, ..with_login() }, Duration::ZERO);
    let mail = "EHLO app\r\nMAIL FROM:<evil@example.org>\r\nRCPT TO:<ada@example.com>\r\nBDAT 3 LAST\r\nx\r\n";
    let mut client = host.connects(PEER, Encryption::StartTls);
    client.hears().await;
    client.says(&format!("STARTTLS\r\n{mail}")).await;
    assert_eq!(client.hears().await, "554 5.5.1 nothing may follow STARTTLS before its answer");
    assert_eq!(client.hears().await, "");

    let mut client = host.connects(PEER, Encryption::StartTls);
    client.hears().await;
    assert_eq!(client.asks("STARTTLS").await, "220 2.0.0 begin TLS");
    client.says(mail).await;
    client.connection.take().unwrap().await.unwrap();
    assert_eq!(host.taken(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_does_not_come_ends_the_connection() {
    let host = Host::new(with_login(), Duration::ZERO);
    let begun = Instant::now();
    let Client { stream, connection } = host.connects(PEER, Encryption::Implicit);
    drop(stream);
    connection.unwrap().await.unwrap();
    let client = host.connects(PEER, Encryption::Implicit);
    client.connection.unwrap().await.unwrap();
    assert_eq!(begun.elapsed(), FIRST_COMMAND, "the first one hung up");
}

#[tokio::test(start_paused = true)]
async fn wrong_passwords_slow_the_logins_of_their_address_over_connections() {
    let host = Host::new(with_login(), Duration::ZERO);
    let connects = async |peer| {
        let mut client = encrypted(host.connects(peer, Encryption::Implicit).stream).await.unwrap();
        client.hears().await;
        client.asks("EHLO app").await;
        client
    };
    let mut waits = Vec::new();
    for _ in 0..3 {
        let mut client = connects(PEER).await;
        for _ in 0..3 {
            let begun = Instant::now();
            assert_eq!(client.asks(WRONG).await, "535 5.7.8 user or password is wrong");
            waits.push(begun.elapsed().as_secs());
        }
        assert_eq!(client.hears().await, "421 4.7.0 too many failed logins");
    }
    // 30 s are what remains after the end of a connection, too.
    assert_eq!(waits, [0, 1, 2, 4, 8, 16, 30, 30, 30]);

    let other = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
    let begun = Instant::now();
    assert_eq!(connects(other).await.asks(LOGIN).await, "235 2.7.0 logged in");
    assert!(begun.elapsed() < Duration::from_secs(1), "another address is not slowed");
    assert_eq!(connects(PEER).await.asks(LOGIN).await, "235 2.7.0 logged in");
    let begun = Instant::now();
    assert_eq!(connects(PEER).await.asks(LOGIN).await, "235 2.7.0 logged in");
    assert!(begun.elapsed() < Duration::from_secs(1), "a right login ends it");

    let mut guesses = Vec::new();
    for _ in 0..2 {
        connects(PEER).await.asks(WRONG).await;
    }
    for _ in 0..50 {
        let mut client = connects(PEER).await;
        guesses.push(tokio::spawn(async move { client.asks(WRONG).await }));
    }
    let mut turned_away = 0;
    for guess in guesses {
        turned_away += usize::from(
            guess.await.unwrap().starts_with("421 4.7.0 too many failed logins from your"),
        );
    }
    assert!((10..50).contains(&turned_away), "{turned_away} of 50 guesses at once are turned away");
}

#[tokio::test(start_paused = true)]
async fn on_stop_a_mail_under_way_is_answered_and_the_others_are_to_come_again() {
    let host = Host::new(settings(), Duration::from_secs(20));
    let (mut idle, mut between) = (host.greeted().await, host.greeted().await);
    let (mut receiving, mut submitting) = (host.greeted().await, host.greeted().await);
    between.asks("MAIL FROM:<news@example.org>").await;
    receiving.begins().await;
    submitting.begins().await;
    submitting.says("x\r\n.\r\n").await;
    sleep(Duration::from_secs(1)).await;
    host.stopping.send_replace(true);
    let stopped = "421 4.3.2 the server stops: try again";
    assert_eq!(idle.hears().await, stopped);
    assert_eq!(between.hears().await, stopped);
    assert_eq!(submitting.hears().await, "250 2.0.0 queued as m1");
    assert_eq!(submitting.hears().await, stopped);
    assert_eq!(receiving.asks("x\r\n.").await, "250 2.0.0 queued as m2");
    assert_eq!(receiving.hears().await, stopped);
    for client in [idle, between, receiving, submitting] {
        client.connection.unwrap().await.unwrap();
    }
}

#[tokio::test]
async fn connections_are_bounded_by_address_and_in_all_and_end_with_the_server() {
    let host = Host::new(settings(), Duration::ZERO);
    let connections = Arc::new(Connections::new(5, 3, Vec::new()));
    let address = |last| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last));
    let of_one: Vec<_> = (0..4).map(|_| connections.enter(address(1))).collect();
    assert_eq!(of_one.iter().flatten().count(), 3);
    let others: Vec<_> = (2..6).map(|last| connections.enter(address(last))).collect();
    assert_eq!(others.iter().flatten().count(), 2);
    drop(of_one);
    assert!(connections.enter(address(9)).is_some());
    drop(others);
    let in_network = |text: &str| connections.enter(text.parse().unwrap());
    let of_network =
        ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:1::", "2001:db8::4"].map(in_network);
    assert_eq!(of_network.iter().flatten().count(), 3, "a client has all addresses of its network");
    drop(of_network);

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let at = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = Arc::clone(&host.server);
    let serving = tokio::spawn(async move {
        let stop = async { _ = stopped.await };
        serve(listener, Encryption::StartTls, server, &connections, stop).await;
    });
    let mut clients = Vec::new();
    for _ in 0..4 {
        let stream = TcpStream::connect(at).await.unwrap();
        let mut client = Client { stream, connection: None };
        clients.push((client.hears().await, client));
    }
    assert_eq!(clients[3].0, "421 4.7.0 too many connections: try again later");
    assert_eq!(clients[3].1.hears().await, "");
    assert!(clients[..3].iter().all(|(greeting, _)| greeting.starts_with("220 ")));
    stop.send(()).unwrap();
    for (_, client) in &mut clients[..3] {
        assert_eq!(client.hears().await, "421 4.3.2 the server stops: try again");
    }
    drop(clients);
    serving.await.unwrap();
    assert!(TcpStream::connect(at).await.is_err(), "nobody listens");
}
