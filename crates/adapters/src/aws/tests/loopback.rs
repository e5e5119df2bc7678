//! An HTTP/1.1 endpoint on the loopback interface for unit tests; it counts connections and requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The endpoint's reaction to every request it has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndpointBehaviour {
    /// Answers 200 with this body after this delay, and keeps the connection open.
    Answer(&'static str, Duration),
    /// Answers 200 with this body and then closes the connection, although the answer promised to keep it.
    AnswerAndClose(&'static str),
    Close,
    /// Begins an answer and closes the connection before its end.
    CloseWithinAnswer,
    /// Keeps the connection open without an answer.
    Silence,
    /// Answers the first request of a connection and no further one.
    SilentAfterOne,
}

/// A running endpoint; it ends with the test's runtime.
pub(crate) struct Loopback {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
}

impl Loopback {
    pub(crate) async fn start(habit: EndpointBehaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, requests) =
            (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (accepted, read) = (Arc::clone(&connections), Arc::clone(&requests));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                accepted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, habit, Arc::clone(&read)));
            }
        });
        Self { address, connections, requests }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// An SES client that calls this endpoint over its own [`Wire`].
    pub(crate) fn ses(&self) -> aws_sdk_sesv2::Client {
        use aws_credential_types::Credentials;
        use aws_sdk_sesv2::config::{BehaviorVersion, Config, Region};
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("eu-west-1"))
            .credentials_provider(Credentials::new("AKID", "secret", None, None, "test"))
            .endpoint_url(self.url())
            .http_client(crate::aws::Wire::new());
        aws_sdk_sesv2::Client::from_conf(config.build())
    }
}

async fn serve(mut stream: TcpStream, habit: EndpointBehaviour, requests: Arc<AtomicUsize>) {
    let mut answered = 0;
    while read_request(&mut stream).await.is_some() {
        requests.fetch_add(1, Ordering::SeqCst);
        let body = match habit {
            EndpointBehaviour::Answer(body, after) => {
                tokio::time::sleep(after).await;
                body
            }
            EndpointBehaviour::AnswerAndClose(body) => body,
            EndpointBehaviour::Close => return,
            EndpointBehaviour::CloseWithinAnswer => "{",
            EndpointBehaviour::SilentAfterOne if answered == 0 => "{}",
            EndpointBehaviour::Silence | EndpointBehaviour::SilentAfterOne => {
                std::future::pending().await
            }
        };
        let length = if habit == EndpointBehaviour::CloseWithinAnswer { 9 } else { body.len() };
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(answer.as_bytes()).await.unwrap();
        answered += 1;
        if !matches!(habit, EndpointBehaviour::Answer(..) | EndpointBehaviour::SilentAfterOne) {
            return;
        }
    }
}

/// Reads one request to its end; `None` if the connection ends before.
async fn read_request(stream: &mut TcpStream) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |length| length.parse().unwrap());
    stream.read_exact(&mut vec![0; length]).await.ok()?;
    Some(())
}
