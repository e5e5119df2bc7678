//! Hands mails to a relay by SMTP and by SES's API, and tells as JSON how it answered: as fast as the answers come, and at
//! a rate, at which each mail has a planned time from which its latency counts, whenever its connection was free. SQS's own
//! answer is that to a call `SendMessageBatch` of ten mails straight to the queues.
//!
//! `relay BIN_DIR PYTHON OUT [POSTFIX]` starts a local stack and a relay on processor 0, itself stays on processor 1
//! with the queues, and tells all figures of a relay, and of a Postfix at that address.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a benchmark: a panic ends it")]
#![expect(clippy::print_stdout, reason = "its result")]
#![expect(clippy::cast_precision_loss, reason = "mails are far fewer than 2^52")]
#![expect(
    clippy::disallowed_methods,
    reason = "it measures time, with a thread for each connection"
)]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// Half of the aim of 1,000 mails a second.
const HALF: f64 = 500.0;
const SMALL: usize = 4_000;
const LARGE: usize = 200_000;
const CONNECTIONS: u64 = 64;
/// A load lasts so long.
const LASTS: Duration = Duration::from_secs(5);
/// A local stack, and a relay, are there within this time.
const STARTED: Duration = Duration::from_mins(3);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Protocol {
    Smtp,
    Http,
    Sqs,
}

#[derive(Clone, Debug)]
struct Load {
    protocol: Protocol,
    address: String,
    connections: u64,
    bytes: usize,
    lasts: Duration,
    /// Mails a second of all connections; none as fast as the answers come.
    rate: Option<f64>,
}

/// The answers on one connection.
#[derive(Debug, Default)]
struct Answers {
    refused: u64,
    latencies: Vec<Duration>,
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [bin, python, out, postfix @ ..] = &arguments[..] else {
        panic!("relay BIN_DIR PYTHON OUT [POSTFIX]");
    };
    println!("{}", measure(bin, python, out, postfix.first()));
}

/// A program that ends with its value, and its output.
#[derive(Debug)]
struct Program(Child, PathBuf);

impl Program {
    fn start(command: &mut Command, output: PathBuf) -> Self {
        let file = File::create(&output).unwrap();
        let errors = file.try_clone().unwrap();
        Self(command.stdin(Stdio::null()).stdout(file).stderr(errors).spawn().unwrap(), output)
    }

    /// What stands between two texts in its output, once it does.
    fn says(&self, before: &str, after: &str) -> String {
        let until = Instant::now() + STARTED;
        loop {
            let said = fs::read_to_string(&self.1).unwrap();
            let found = said.split_once(before).and_then(|(_, rest)| rest.split_once(after));
            if let Some((found, _)) = found {
                return found.to_owned();
            }
            assert!(Instant::now() < until, "no {before} in {said}");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SIGINT: it ends what it started.
        let _ = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

fn measure(bin: &str, python: &str, out: &str, postfix: Option<&String>) -> Value {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let [bin, out] = [bin, out].map(Path::new);
    let run = out.join("run");
    fs::create_dir_all(&run).unwrap();
    let on = |processor: &str| {
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", processor]);
        command
    };
    let own = std::process::id().to_string();
    assert!(
        Command::new("taskset")
            .args(["-a", "-p", "-c", "1", &own])
            .stdout(Stdio::null())
            .status()
            .unwrap()
            .success()
    );
    let stack = Program::start(
        on("1")
            .arg(bin.join("devstack"))
            .args(["--root", root, "--python", python, "--bin-dir"])
            .arg(bin)
            .arg("--out")
            .arg(&run)
            .args([
                "--sqs",
                "sandbox",
                "--big",
                "1",
                "--small",
                "1",
                "--keep-running",
                "--no-browser",
            ]),
        out.join("devstack.log"),
    );
    let sqs = stack.says("--endpoint-url http://", " sqs");
    let relay = Program::start(
        on("0")
            .arg(bin.join("tidegate"))
            .args(["relay", "--local", "--local-runs"])
            .arg(&run)
            .args([
                "--listen",
                "127.0.0.1:0",
                "--smtp",
                "127.0.0.1:0",
                "--campaign",
                "small",
                "--json",
            ]),
        out.join("relay.log"),
    );
    let http = relay.says("\"http\":\"http://", "\"");
    let smtp = relay.says("\"smtp\":[\"", "\"");
    let load = |protocol, address: &str, bytes, rate: Option<f64>| {
        Load {
            protocol,
            address: address.to_owned(),
            connections: CONNECTIONS,
            bytes,
            lasts: LASTS,
            rate,
        }
        .run()
    };
    let most = |protocol, address: &str| load(protocol, address, SMALL, None);
    most(Protocol::Smtp, &smtp);
    json!({
        "sqs_paced": load(Protocol::Sqs, &sqs, SMALL, Some(HALF / 10.0)),
        "smtp": most(Protocol::Smtp, &smtp),
        "smtp_paced": load(Protocol::Smtp, &smtp, SMALL, Some(HALF)),
        "smtp_large": load(Protocol::Smtp, &smtp, LARGE, None),
        "http": most(Protocol::Http, &http),
        "http_paced": load(Protocol::Http, &http, SMALL, Some(HALF)),
        "http_large": load(Protocol::Http, &http, LARGE, None),
        "postfix": postfix.map(|address| most(Protocol::Smtp, address)),
    })
}

impl Load {
    fn run(&self) -> Value {
        // Each load has identities of its own: the relay refuses a known one with another content.
        let run = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let next = AtomicU64::new(0);
        let begin = Instant::now();
        let seen: Vec<Answers> = thread::scope(|scope| {
            let threads: Vec<_> = (0..self.connections)
                .map(|_| scope.spawn(|| connection(self, run, &next, begin)))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let took = begin.elapsed();
        let mut latencies: Vec<Duration> =
            seen.iter().flat_map(|seen| seen.latencies.clone()).collect();
        latencies.sort_unstable();
        let at = |percent: usize| {
            let place = latencies.len() * percent / 100;
            latencies
                .get(place.min(latencies.len().saturating_sub(1)))
                .map(|time| time.as_secs_f64() * 1e3)
        };
        json!({
            "accepted": latencies.len(),
            "refused": seen.iter().map(|seen| seen.refused).sum::<u64>(),
            "seconds": took.as_secs_f64(),
            "rate": latencies.len() as f64 / took.as_secs_f64(),
            "p50_ms": at(50), "p99_ms": at(99), "max_ms": at(100),
        })
    }
}

/// Hands over mails until the time is over.
fn connection(load: &Load, run: u128, next: &AtomicU64, begin: Instant) -> Answers {
    let stream = TcpStream::connect(&load.address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream);
    if load.protocol == Protocol::Smtp {
        assert_eq!(reply(&mut reader), 220);
        command(&mut reader, b"EHLO bench.example\r\n");
    }
    let mut seen = Answers::default();
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
        let content = content(run, number, load.bytes);
        let is_accepted = match load.protocol {
            Protocol::Http => by_http(&mut reader, &content),
            Protocol::Sqs => by_sqs(&mut reader, &content),
            Protocol::Smtp => by_smtp(&mut reader, number, &content),
        };
        if is_accepted {
            seen.latencies.push(planned.elapsed());
        } else {
            seen.refused += 1;
        }
    }
}

fn content(run: u128, number: u64, bytes: usize) -> String {
    let mut content = format!(
        "From: news@example.org\r\nTo: r{number}@to.example\r\nSubject: {number}\r\n\
         Date: Sat, 28 Nov 2026 03:00:00 +0000\r\nMessage-ID: <{run}.{number}@bench.example>\r\n\r\n"
    );
    // Lines of digits that hardly repeat: the relay compresses texts, and should not get them for nothing.
    let mut state = number;
    while content.len() < bytes {
        for _ in 0..4 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let _ = write!(content, "{state:016x} ");
        }
        content.push_str("\r\n");
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
    post(reader, "/v2/email/outbound-emails", "Content-Type: application/json", &body)
}

fn by_sqs(reader: &mut BufReader<TcpStream>, content: &str) -> bool {
    let entries: Vec<Value> = (0..10)
        .map(|id| json!({"Id": id.to_string(), "MessageBody": BASE64_STANDARD.encode(content)}))
        .collect();
    let body = json!({"QueueUrl": "http://sqs/000000000000/bench", "Entries": entries}).to_string();
    let fields =
        "Content-Type: application/x-amz-json-1.0\r\nX-Amz-Target: AmazonSQS.SendMessageBatch";
    post(reader, "/", fields, &body)
}

/// Whether the answer's status is 200.
fn post(reader: &mut BufReader<TcpStream>, path: &str, fields: &str, body: &str) -> bool {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: relay\r\n{fields}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    reader.get_mut().write_all((head + body).as_bytes()).unwrap();
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
