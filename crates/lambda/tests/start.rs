//! Tests the poller's start until it asks Lambda for its first tick.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A time limit that is longer than any start takes.
const AT_LAST: Duration = Duration::from_secs(20);

type Connection = (&'static str, TcpStream);

/// An endpoint that accepts connections, passes them to the test, and answers nothing.
fn endpoint(name: &'static str, taken: Sender<Connection>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let _ = taken.send((name, stream));
        }
    });
    address
}

struct Poller(Child);

impl Drop for Poller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(services: [SocketAddr; 3], runtime: SocketAddr) -> Poller {
    let [dynamodb, sqs, ses] = services.map(|address| format!("http://{address}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_poller"));
    command.env_clear().stdout(Stdio::null()).envs([
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "AKID"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_ENDPOINT_URL_DYNAMODB", &dynamodb),
        ("AWS_ENDPOINT_URL_SQS", &sqs),
        ("AWS_ENDPOINT_URL_SESV2", &ses),
        ("AWS_LAMBDA_RUNTIME_API", &runtime.to_string()),
        ("AWS_LAMBDA_FUNCTION_NAME", "poller"),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
        ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
        ("TIDEGATE_CAMPAIGNS", "ledger"),
        ("TIDEGATE_DEAD_LETTER_QUEUE_URL", "http://sqs.example/1/dead"),
        ("TIDEGATE_LEDGER", "dynamodb:ledger"),
    ]);
    Poller(command.spawn().unwrap())
}

/// Collects connections until one to each of `wanted` has arrived.
fn connections(taken: &Receiver<Connection>, mut wanted: Vec<&'static str>) -> Vec<Connection> {
    let mut all = Vec::new();
    while !wanted.is_empty() {
        let connection = taken.recv_timeout(AT_LAST).unwrap();
        wanted.retain(|name| *name != connection.0);
        all.push(connection);
    }
    all
}

#[test]
fn connections_to_every_service_are_opened_though_no_tick_has_come_and_nothing_is_sent() {
    let (takes, taken) = channel();
    let services = ["dynamodb", "sqs", "ses"].map(|name| endpoint(name, takes.clone()));
    let _poller = start(services, endpoint("runtime", takes));
    for (name, mut stream) in connections(&taken, vec!["dynamodb", "sqs", "ses", "runtime"]) {
        stream.set_nonblocking(true).unwrap();
        let sent = stream.read(&mut [0]).is_ok_and(|bytes| bytes > 0);
        assert!(name == "runtime" || !sent, "{name} was sent something");
    }
}

#[test]
fn services_that_are_not_there_do_not_keep_the_poller_from_starting() {
    let (takes, taken) = channel();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let _poller = start([nobody; 3], endpoint("runtime", takes));
    connections(&taken, vec!["runtime"]);
}
