//! Clients that hand mails over, by SMTP or by SES's API, and measure how soon each is accepted. `make bench` compares the
//! relay with other servers by them.
//!
//! `mail-clients smtp|ses HOST:PORT BYTES CLIENTS SECONDS [PER_SECOND]` prints the mails that were accepted and refused, the
//! rate, and the times from sending to the answer in milliseconds. Without a rate each client sends its next mail once the
//! last one is answered. With one, mails have times at which they are to be sent, and the answer's delay counts from there.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a measurement: a failure ends it, and its figures are printed"
)]

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::rc::Rc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until};

/// The mails that all clients send.
struct Load {
    is_smtp: bool,
    address: String,
    body: String,
    /// Of Message-IDs, so that two runs have none in common.
    run: u32,
    begun: Instant,
    ends: Instant,
    /// The time between mails; none if there is no rate.
    gap: Option<Duration>,
    next: Cell<u32>,
    refused: Cell<u32>,
    took: RefCell<Vec<Duration>>,
}

impl Load {
    fn mail(&self, number: u32) -> String {
        let run = self.run;
        format!(
            "From: news@example.org\r\nTo: r{number}@example.com\r\nSubject: Mail {number}\r\n\
             Message-ID: <{run}.{number}@example.org>\r\nMIME-Version: 1.0\r\n\
             Content-Type: text/plain; charset=utf-8\r\n\r\n{}",
            self.body
        )
    }

    /// Sends one mail after another over one connection.
    async fn client(self: Rc<Self>) {
        let mut stream = BufReader::new(TcpStream::connect(&self.address).await.unwrap());
        stream.get_ref().set_nodelay(true).unwrap();
        if self.is_smtp {
            assert_eq!(answer(&mut stream).await, 220);
            stream.write_all(b"EHLO client.example.org\r\n").await.unwrap();
            assert_eq!(answer(&mut stream).await, 250);
        }
        loop {
            let number = self.next.replace(self.next.get() + 1);
            let due = self.gap.map(|gap| self.begun + gap * number);
            if due.unwrap_or_else(Instant::now) >= self.ends {
                return;
            }
            if let Some(due) = due {
                sleep_until(due).await;
            }
            let mail = self.mail(number);
            let from = due.unwrap_or_else(Instant::now);
            let is_accepted = if self.is_smtp {
                by_smtp(&mut stream, number, &mail).await
            } else {
                by_ses(&mut stream, self.run, number, &mail).await
            };
            if is_accepted {
                self.took.borrow_mut().push(from.elapsed());
            } else {
                self.refused.set(self.refused.get() + 1);
            }
        }
    }
}

/// The code of an answer of SMTP.
async fn answer(stream: &mut BufReader<TcpStream>) -> u16 {
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).await.unwrap() > 0, "the server hung up");
        if line.as_bytes()[3] == b' ' {
            return line[..3].parse().unwrap();
        }
    }
}

/// The envelope in one piece (RFC 2920), as Postfix and others send it.
async fn by_smtp(stream: &mut BufReader<TcpStream>, number: u32, mail: &str) -> bool {
    let envelope =
        format!("MAIL FROM:<news@example.org>\r\nRCPT TO:<r{number}@example.com>\r\nDATA\r\n");
    stream.write_all(envelope.as_bytes()).await.unwrap();
    let mut codes = [0; 3];
    for code in &mut codes {
        *code = answer(stream).await;
    }
    if codes[2] != 354 {
        stream.write_all(b"RSET\r\n").await.unwrap();
        answer(stream).await;
        return false;
    }
    stream.write_all(format!("{mail}\r\n.\r\n").as_bytes()).await.unwrap();
    answer(stream).await == 250
}

async fn by_ses(stream: &mut BufReader<TcpStream>, run: u32, number: u32, mail: &str) -> bool {
    let data = STANDARD.encode(mail);
    let body = format!(
        "{{\"FromEmailAddress\":\"news@example.org\",\"Destination\":{{\"ToAddresses\":[\"r{number}@example.com\"]}},\
         \"Content\":{{\"Raw\":{{\"Data\":\"{data}\"}}}}}}"
    );
    let request = format!(
        "POST /v2/email/outbound-emails HTTP/1.1\r\nHost: relay\r\nContent-Type: application/json\r\n\
         amz-sdk-invocation-id: {run}.{number}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let (mut head, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).await.unwrap() > 0, "the server hung up");
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(given) = line.strip_prefix("content-length: ") {
            length = given.parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
        head.push(line);
    }
    stream.read_exact(&mut vec![0; length]).await.unwrap();
    head[0].contains(" 200 ")
}

/// Lines of words that do not compress to nothing.
fn text(bytes: usize) -> String {
    let (mut text, mut state) = (String::with_capacity(bytes + 80), 1_u32);
    while text.len() < bytes {
        for _ in 0..9 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let _ = write!(text, "{:x} ", state >> 8);
        }
        text += "\r\n";
    }
    text
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let given: Vec<_> = std::env::args().skip(1).collect();
    let [way, address, bytes, clients, seconds, rest @ ..] = given.as_slice() else {
        panic!("mail-clients smtp|ses HOST:PORT BYTES CLIENTS SECONDS [PER_SECOND]");
    };
    let begun = Instant::now();
    let load = Rc::new(Load {
        is_smtp: way == "smtp",
        address: address.clone(),
        body: text(bytes.parse().unwrap()),
        run: std::process::id(),
        begun,
        ends: begun + Duration::from_secs(seconds.parse().unwrap()),
        gap: rest.first().map(|rate| Duration::from_secs(1) / rate.parse().unwrap()),
        next: Cell::new(0),
        refused: Cell::new(0),
        took: RefCell::new(Vec::new()),
    });
    let tasks = LocalSet::new();
    for _ in 0..clients.parse::<u32>().unwrap() {
        tasks.spawn_local(Rc::clone(&load).client());
    }
    tasks.await;
    let took_all = begun.elapsed().as_secs_f64();
    let mut took = load.took.take();
    took.sort_unstable();
    let (accepted, refused) = (took.len(), load.refused.get());
    let at = |percent: usize| took.get(accepted.saturating_sub(1) * percent / 100).copied();
    let at = |percent| at(percent).map_or(0.0, ms);
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 mails")]
    let rate = accepted as f64 / took_all;
    println!(
        "{{\"accepted\": {accepted}, \"refused\": {refused}, \"per_second\": {rate:.1}, \"p50_ms\": {:.2}, \
         \"p99_ms\": {:.2}, \"max_ms\": {:.2}}}",
        at(50),
        at(99),
        at(100)
    );
}
