//! A client that reads event streams byte by byte, over HTTP/1.1.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;

/// One event of a stream: the lines between two empty lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) event: String,
    pub(crate) id: Option<String>,
    pub(crate) data: String,
    pub(crate) retry: Option<String>,
    pub(crate) comment: Option<String>,
}

impl Frame {
    fn read(text: &str) -> Self {
        let mut frame = Self::default();
        for line in text.lines() {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            match name {
                "event" => frame.event = value,
                "data" => frame.data = value,
                "id" => frame.id = Some(value),
                "retry" => frame.retry = Some(value),
                "" => frame.comment = Some(value),
                _ => panic!("no field of an event stream: {line}"),
            }
        }
        frame
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.data).unwrap()
    }

    /// The place of a change; none of anything else. Only changes have ids, but for the first frame.
    pub(crate) fn seq(&self) -> Option<u64> {
        let is_change = self.id.is_some() && self.event != "state";
        is_change.then(|| self.json()["seq"].as_u64().unwrap())
    }
}

/// Frames out of the bytes of a body, as they come.
#[derive(Debug, Default)]
pub(crate) struct Frames(Vec<u8>);

impl Frames {
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Frame> {
        self.0.extend_from_slice(bytes);
        let mut frames = Vec::new();
        let mut from = 0;
        while let Some(length) = self.0[from..].windows(2).position(|pair| pair == b"\n\n") {
            frames.push(Frame::read(std::str::from_utf8(&self.0[from..from + length]).unwrap()));
            from += length + 2;
        }
        self.0.drain(..from);
        frames
    }
}

/// The chunks that HTTP/1.1 cuts a body into, undone.
#[derive(Debug, Default)]
struct Chunks {
    raw: Vec<u8>,
    is_whole: bool,
}

impl Chunks {
    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.raw.extend_from_slice(bytes);
        let (mut body, mut from) = (Vec::new(), 0);
        while let Some(line) = self.raw[from..].windows(2).position(|pair| pair == b"\r\n") {
            let size = std::str::from_utf8(&self.raw[from..from + line]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            let data = from + line + 2;
            if self.raw.len() < data + size + 2 {
                break;
            }
            body.extend_from_slice(&self.raw[data..data + size]);
            from = data + size + 2;
            self.is_whole = size == 0;
        }
        self.raw.drain(..from);
        body
    }
}

/// A connection from an address of this machine's loopback network, 127.0.0.0/8. A small receive buffer
/// is what a client has that shall stall soon.
pub(crate) async fn connect(to: SocketAddr, from: [u8; 4], buffer: Option<u32>) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    if let Some(bytes) = buffer {
        socket.set_recv_buffer_size(bytes).unwrap();
    }
    socket.bind((Ipv4Addr::from(from), 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

/// Headers and address with which a client asks for its stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) from: [u8; 4],
    pub(crate) query: &'a str,
    pub(crate) last_event_id: Option<&'a str>,
    pub(crate) cookie: Option<&'a str>,
    pub(crate) buffer: Option<u32>,
}

impl Ask<'_> {
    pub(crate) const fn from(from: [u8; 4]) -> Self {
        Self { from, query: "", last_event_id: None, cookie: None, buffer: None }
    }

    /// The answer, read up to the end of its head.
    pub(crate) async fn send(self, to: SocketAddr) -> Answer {
        let mut socket = connect(to, self.from, self.buffer).await;
        let last = self.last_event_id.map(|id| format!("Last-Event-ID: {id}\r\n"));
        let cookie = self.cookie.map(|cookie| format!("Cookie: {cookie}\r\n"));
        let request = format!(
            "GET /api/events{} HTTP/1.1\r\nHost: {to}\r\nAccept: text/event-stream\r\n{}{}\r\n",
            self.query,
            last.unwrap_or_default(),
            cookie.unwrap_or_default()
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        Answer {
            head,
            socket,
            chunks: Chunks::default(),
            frames: Frames::default(),
            buffer: vec![0; 16 * 1024],
            read: VecDeque::new(),
        }
    }

    /// The stream, which must be opened.
    pub(crate) async fn open(self, to: SocketAddr) -> Answer {
        let answer = self.send(to).await;
        assert_eq!(answer.status(), 200, "{}", answer.head);
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        answer
    }
}

/// An answer, whose body is read when it is asked for.
#[derive(Debug)]
pub(crate) struct Answer {
    head: String,
    socket: TcpStream,
    chunks: Chunks,
    frames: Frames,
    buffer: Vec<u8>,
    /// Frames that came with others, and when.
    read: VecDeque<(Instant, Frame)>,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields
            .into_iter()
            .find(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// The next frame, and when its last byte was read; none where the answer ended as it should.
    pub(crate) async fn frame(&mut self) -> Option<(Instant, Frame)> {
        while self.read.is_empty() {
            if self.chunks.is_whole {
                return None;
            }
            let length = self.socket.read(&mut self.buffer).await.unwrap();
            assert!(length > 0, "the connection ended within the answer");
            let at = Instant::now();
            let frames = self.frames.push(&self.chunks.push(&self.buffer[..length]));
            self.read.extend(frames.into_iter().map(|frame| (at, frame)));
        }
        self.read.pop_front()
    }

    /// The next frame, which must come.
    pub(crate) async fn next(&mut self) -> Frame {
        self.frame().await.expect("the stream goes on").1
    }
}
