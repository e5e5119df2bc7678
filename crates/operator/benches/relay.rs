//! Hands mails to a server by SMTP, or by SES's API over HTTP, and tells as JSON how it answered.
//!
//! `relay smtp ADDRESS CONNECTIONS BYTES SECONDS [RATE]`, or `relay http …`: as fast as the answers come, or so many mails
//! a second, of which each has a planned time from which its latency counts, whenever its connection was free.

#![expect(clippy::unwrap_used, reason = "a benchmark: a panic ends it")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

/// A line of the content, as long as mail programs write them.
const LINE: &str = "The quick brown fox jumps over the lazy dog, and the lazy dog looks up at it\r\n";

#[derive(Clone, Debug)]
struct Load {
    is_http: bool,
    address: String,
    connections: u64,
    bytes: usize,
    lasts: Duration,
    /// Mails a second of all connections; none as fast as the answers come.
    rate: Option<f64>,
}

/// What one connection saw.
#[derive(Debug, Default)]
struct Seen {
    refused: u64,
    latencies: Vec<Duration>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [protocol, address, connections, bytes, seconds, rate @ ..] = &arguments[..] else {
        println!("relay smtp|http ADDRESS CONNECTIONS BYTES SECONDS [RATE]");
        return;
    };
    let load = Load {
        is_http: protocol == "http",
        address: address.clone(),
        connections: connections.parse().unwrap(),
        bytes: bytes.parse().unwrap(),
        lasts: Duration::from_secs_f64(seconds.parse().unwrap()),
        rate: rate.first().map(|rate| rate.parse().unwrap()),
    };
    let next = AtomicU64::new(0);
    let begin = Instant::now();
    let seen: Vec<Seen> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..load.connections).map(|_| scope.spawn(|| connection(&load, &next, begin))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let took = begin.elapsed();
    let mut latencies: Vec<Duration> = seen.iter().flat_map(|seen| seen.latencies.clone()).collect();
    latencies.sort_unstable();
    let at = |share: f64| {
        let place = (latencies.len() as f64 * share) as usize;
        latencies.get(place.min(latencies.len().saturating_sub(1))).map(|time| time.as_secs_f64() * 1e3)
    };
    let report = json!({
        "accepted": latencies.len(),
        "refused": seen.iter().map(|seen| seen.refused).sum::<u64>(),
        "seconds": took.as_secs_f64(),
        "rate": latencies.len() as f64 / took.as_secs_f64(),
        "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1.0),
    });
    println!("{report}");
}

/// Hands over mails until the time is over.
fn connection(load: &Load, next: &AtomicU64, begin: Instant) -> Seen {
    let stream = TcpStream::connect(&load.address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream);
    if !load.is_http {
        assert_eq!(reply(&mut reader), 220);
        command(&mut reader, b"EHLO bench.example\r\n");
    }
    let mut seen = Seen::default();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let planned = match load.rate {
            Some(rate) => begin + Duration::from_secs_f64(number as f64 / rate),
            None => Instant::now(),
        };
        if planned.duration_since(begin) >= load.lasts {
            return seen;
        }
        thread::sleep(planned.saturating_duration_since(Instant::now()));
        let content = content(number, load.bytes);
        let is_accepted = match load.is_http {
            true => by_http(&mut reader, &content),
            false => by_smtp(&mut reader, number, &content),
        };
        match is_accepted {
            true => seen.latencies.push(planned.elapsed()),
            false => seen.refused += 1,
        }
    }
}

fn content(number: u64, bytes: usize) -> String {
    // A new identity in every run.
    let run = std::process::id();
    let mut content = format!(
        "From: news@example.org\r\nTo: r{number}@to.example\r\nSubject: {number}\r\n\
         Date: Sat, 28 Nov 2026 03:00:00 +0000\r\nMessage-ID: <{run}.{number}@bench.example>\r\n\r\n"
    );
    while content.len() < bytes {
        content.push_str(LINE);
    }
    content
}

fn by_smtp(reader: &mut BufReader<TcpStream>, number: u64, content: &str) -> bool {
    let to = format!("RCPT TO:<r{number}@to.example>\r\n");
    let is_ready = command(reader, b"MAIL FROM:<news@example.org>\r\n") == 250
        && command(reader, to.as_bytes()) == 250
        && command(reader, b"DATA\r\n") == 354;
    let is_accepted = is_ready && command(reader, format!("{content}.\r\n").as_bytes()) == 250;
    if !is_accepted {
        command(reader, b"RSET\r\n");
    }
    is_accepted
}

fn command(reader: &mut BufReader<TcpStream>, bytes: &[u8]) -> u16 {
    reader.get_mut().write_all(bytes).unwrap();
    reply(reader)
}

/// The code of a reply, of which each line but the last has a hyphen behind it.
fn reply(reader: &mut BufReader<TcpStream>) -> u16 {
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.as_bytes().get(3) != Some(&b'-') {
            return line.get(..3).unwrap().parse().unwrap();
        }
    }
}

fn by_http(reader: &mut BufReader<TcpStream>, content: &str) -> bool {
    let body = json!({"Content": {"Raw": {"Data": BASE64_STANDARD.encode(content)}}}).to_string();
    let head = format!(
        "POST /v2/email/outbound-emails HTTP/1.1\r\nHost: relay\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    reader.get_mut().write_all((head + &body).as_bytes()).unwrap();
    let mut first = String::new();
    reader.read_line(&mut first).unwrap();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    first.split(' ').nth(1) == Some("200")
}
