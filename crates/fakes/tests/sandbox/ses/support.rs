//! A sandbox on loopback, and an HTTP client that shows what happens to its connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tidegate_fakes::sandbox::listener::Listener;
use tidegate_fakes::sandbox::ses::{SesSandbox, SesSandboxConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// 2026-11-20T20:36:07Z in nanoseconds.
pub(crate) const START_NS: u64 = 1_795_206_967_000_000_000;

/// A clock that stands still until it is moved.
#[derive(Clone)]
pub(crate) struct Hand(Arc<AtomicU64>);

impl Hand {
    pub(crate) fn move_by_millis(&self, millis: u64) {
        self.0.fetch_add(millis * 1_000_000, Ordering::SeqCst);
    }
}

/// Starts a sandbox whose clock stands still.
pub(crate) async fn start(settings: Value) -> (SesSandbox, Hand) {
    let hand = Hand(Arc::new(AtomicU64::new(START_NS)));
    let clock = Arc::clone(&hand.0);
    let config = SesSandboxConfig::default().with_json(settings.to_string().as_bytes());
    let listener = Listener::bind("127.0.0.1:0".parse().expect("address")).await.expect("bind");
    let clock = move || clock.load(Ordering::SeqCst);
    (SesSandbox::start_at(config.expect("settings"), listener, clock), hand)
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The error's code and message, in SES's wire format.
    pub(crate) fn error(&self) -> (String, String) {
        let code = self.header("x-amzn-ErrorType").expect("error type").to_owned();
        let message = self.json()["message"].as_str().expect("message").to_owned();
        (code, message)
    }
}

/// One connection, kept alive over its requests.
pub(crate) struct Client(TcpStream);

impl Client {
    pub(crate) async fn connect(sandbox: &SesSandbox) -> Self {
        Self(TcpStream::connect(sandbox.addr()).await.expect("connect"))
    }

    pub(crate) async fn call(&mut self, call: &str, body: &str) -> io::Result<Answer> {
        self.write(call, body).await?;
        self.read().await
    }

    pub(crate) async fn write(&mut self, call: &str, body: &str) -> io::Result<()> {
        let length = body.len();
        let request = format!(
            "{call} HTTP/1.1\r\nhost: sandbox\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        self.0.write_all(request.as_bytes()).await
    }

    pub(crate) async fn read(&mut self) -> io::Result<Answer> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await?);
        }
        let head = String::from_utf8(head).expect("ASCII");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let mut answer = Answer { status: status.expect("status"), head, body: String::new() };
        let length = answer.header("content-length").map_or(0, |n| n.parse().expect("length"));
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await?;
        answer.body = String::from_utf8(body).expect("UTF-8");
        Ok(answer)
    }

    pub(crate) async fn send(&mut self, to: &str) -> io::Result<Answer> {
        self.call(SEND, &mail(to).to_string()).await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.call(&format!("GET {path}"), "").await.expect(path)
    }

    pub(crate) async fn change(&mut self, change: Value) -> Answer {
        self.call("PATCH /_sandbox/config", &change.to_string()).await.expect("change")
    }
}

pub(crate) const SEND: &str = "POST /v2/email/outbound-emails";

/// A simple mail to one recipient.
pub(crate) fn mail(to: &str) -> Value {
    json!({
        "FromEmailAddress": "news@example.org",
        "Destination": {"ToAddresses": [to]},
        "Content": {"Simple": {
            "Subject": {"Data": "Hello"},
            "Body": {"Text": {"Data": "Text."}, "Html": {"Data": "<p>Text.</p>"}},
        }},
        "EmailTags": [
            {"Name": "tidegate_campaign", "Value": "big"},
            {"Name": "tidegate_id", "Value": "m-1"},
        ],
    })
}
