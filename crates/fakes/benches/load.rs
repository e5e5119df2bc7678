//! Measures calls a second and processor time for a call, with 60,000 messages on the queue.
//!
//! Eight connections carry the merge queue's traffic: batches of ten sent, received and deleted, so
//! that a mail is 0.3 calls. The figures are of the machine they are taken on.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement: a failure ends it, its figures are printed, and it reads the clock"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use tidegate_delivery::ports::BATCH;

const DEPTH: usize = 60_000;
const CONNECTIONS: usize = 8;
/// Batches that each connection sends, receives and deletes.
const ROUNDS: usize = 500;
const QUEUE: &str = "merge.fifo";

fn main() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sqs-sandbox"))
        .args(["--listen", "127.0.0.1:0", "--json", "--create"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address =
        serde_json::from_str::<Value>(&line).unwrap()["address"].as_str().unwrap().to_owned();

    let fill = DEPTH / CONNECTIONS / BATCH;
    measure("fill", &child, fill, |connection| {
        let mut client = Client::connect(&address);
        (0..fill).for_each(|round| client.send(connection, round));
    });
    measure("send, receive, delete", &child, ROUNDS * 3, |connection| {
        let mut client = Client::connect(&address);
        for round in fill..fill + ROUNDS {
            client.send(connection, round);
            let receipts = client.receive();
            assert_eq!(receipts.len(), BATCH);
            client.delete(&receipts);
        }
    });
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Runs `work` on every connection, and tells calls a second and processor time a call.
fn measure(name: &str, child: &Child, calls: usize, work: impl Fn(usize) + Sync) {
    let (before, began) = (cpu_seconds(child), Instant::now());
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let work = &work;
            scope.spawn(move || work(connection));
        }
    });
    let calls = u32::try_from(calls * CONNECTIONS).map(f64::from).unwrap();
    let rate = calls / began.elapsed().as_secs_f64();
    let cpu = (cpu_seconds(child) - before) / calls * 1e6;
    println!("{name}: {rate:.0} calls/s, {cpu:.0} us of processor time a call");
}

/// User and system time, as Linux tells them in hundredths of seconds; zero elsewhere.
fn cpu_seconds(child: &Child) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split(' ').skip(12).take(2);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// One connection with keep-alive.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, connection: usize, round: usize) {
        let entry = |n: usize| {
            let id = format!("{connection}-{round}-{n}");
            let text = |value: &str| json!({"DataType": "String", "StringValue": value});
            json!({
                "Id": n.to_string(), "MessageGroupId": id, "MessageDeduplicationId": id,
                "MessageBody": json!({
                    "id": id, "to_address": format!("r{id}@example.com"),
                    "from_address": "news@example.org", "subject": "News", "body": "Hello.",
                }).to_string(),
                "MessageAttributes": {
                    "campaign": text("big"), "identity": text(&id), "pass": text("0"),
                    "enqueued_at": text("2026-11-20T20:36:07Z"),
                },
            })
        };
        let entries: Vec<Value> = (0..BATCH).map(entry).collect();
        let answer = self.call("SendMessageBatch", &json!({"QueueUrl": QUEUE, "Entries": entries}));
        assert_eq!(answer["Successful"].as_array().unwrap().len(), BATCH);
    }

    fn receive(&mut self) -> Vec<String> {
        let request = json!({
            "QueueUrl": QUEUE, "MaxNumberOfMessages": BATCH, "WaitTimeSeconds": 1,
            "MessageAttributeNames": ["All"],
            "MessageSystemAttributeNames": ["SentTimestamp", "ApproximateReceiveCount"],
        });
        let answer = self.call("ReceiveMessage", &request);
        let messages = answer["Messages"].as_array().unwrap().iter();
        messages.map(|message| message["ReceiptHandle"].as_str().unwrap().to_owned()).collect()
    }

    fn delete(&mut self, receipts: &[String]) {
        let entry = |(n, receipt)| json!({"Id": format!("{n}"), "ReceiptHandle": receipt});
        let entries: Vec<Value> = receipts.iter().enumerate().map(entry).collect();
        let answer =
            self.call("DeleteMessageBatch", &json!({"QueueUrl": QUEUE, "Entries": entries}));
        assert_eq!(answer["Successful"].as_array().unwrap().len(), BATCH);
    }

    fn call(&mut self, operation: &str, request: &Value) -> Value {
        let body = request.to_string();
        let head = format!(
            "POST / HTTP/1.1\r\nhost: sandbox\r\ncontent-type: application/x-amz-json-1.0\r\n\
             x-amz-target: AmazonSQS.{operation}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.0.get_mut().write_all((head + &body).as_bytes()).unwrap();
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            self.0.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        serde_json::from_slice(&body).unwrap()
    }
}
