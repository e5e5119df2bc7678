//! Measures takes per second over one connection, as a ratio to plain `INCR` on a connection of the same
//! kind; both alternate within one run. Prints one JSON object. Needs `TIDEGATE_REDIS_SERVER`.

#![expect(clippy::unwrap_used, reason = "a measurement that fails is none")]
#![expect(clippy::print_stdout, reason = "its result")]

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, Script};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Concurrent takes: one, and as many as a poller at 10,000 recipients per second has due within some
/// milliseconds.
const IN_FLIGHT: [usize; 2] = [1, 64];
const ROUNDS: usize = 10;
const ROUND: Duration = Duration::from_millis(200);

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start() -> (Server, SocketAddr) {
    let program = std::env::var_os("TIDEGATE_REDIS_SERVER").unwrap();
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let mut command = Command::new(program);
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.args(["--port", &address.port().to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    (Server(command.spawn().unwrap()), address)
}

async fn connect(address: SocketAddr) -> MultiplexedConnection {
    let deadline = Instant::now() + Duration::from_secs(10);
    let tcp = loop {
        match TcpStream::connect(address).await {
            Ok(tcp) => break tcp,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    tcp.set_nodelay(true).unwrap();
    let (info, config) = (RedisConnectionInfo::default(), AsyncConnectionConfig::new());
    let (connection, driver) =
        MultiplexedConnection::new_with_config(&info, tcp, config).await.unwrap();
    tokio::spawn(driver);
    connection
}

#[derive(Clone, Copy)]
enum Call {
    Increment,
    /// A take that is granted, with this many domains: a period of 1 µs allows a million per second.
    Granted(usize),
    /// A take that is refused, because the bucket's period is 1,000 s.
    Refused,
}

async fn once(script: &Script, call: Call, connection: &mut MultiplexedConnection) {
    let (domains, period, tolerance) = match call {
        Call::Increment => {
            let answer = redis::cmd("INCR").arg("{bench}:plain").query_async(connection).await;
            let _: i64 = answer.unwrap();
            return;
        }
        Call::Granted(domains) => (domains, 1, 250_000),
        Call::Refused => (0, 1_000_000_000, 0),
    };
    let key = if period == 1 { "{bench}:account" } else { "{bench}:slow" };
    let mut take = script.key(key);
    take.arg(1).arg(period).arg(tolerance).arg(1);
    for domain in 0..domains {
        take.key(format!("{{bench}}:domain:{domain}.example"));
        take.arg(period).arg(tolerance).arg(1);
    }
    let answer: Result<(u64, u64, u64, u64), _> = take.invoke_async(connection).await;
    assert_eq!(answer.unwrap().0 > 0, period == 1);
}

/// Measures calls per second with `flights` calls under way.
#[expect(clippy::cast_precision_loss, reason = "some ten thousand")]
async fn measure(script: &Script, call: Call, flights: usize, to: &MultiplexedConnection) -> f64 {
    let began = Instant::now();
    let flight = |_| async {
        let (mut connection, mut calls) = (to.clone(), 0_usize);
        while began.elapsed() < ROUND {
            once(script, call, &mut connection).await;
            calls += 1;
        }
        calls
    };
    let calls: usize = join_all((0..flights).map(flight)).await.into_iter().sum();
    calls as f64 / began.elapsed().as_secs_f64()
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    of[of.len() / 2]
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (_server, address) = start();
    let (plain, ours) = (connect(address).await, connect(address).await);
    let script = Script::new(tidegate_adapters::redis::SCRIPT);
    // The slow bucket grants one take per 1,000 s: this one.
    let first: Result<(u64, u64, u64, u64), _> = script
        .key("{bench}:slow")
        .arg(&[1, 1_000_000_000, 0, 1])
        .invoke_async(&mut ours.clone())
        .await;
    first.unwrap();
    let calls = [
        ("granted", Call::Granted(0)),
        ("granted_2_domains", Call::Granted(2)),
        ("refused", Call::Refused),
    ];
    let mut members = Vec::new();
    for flights in IN_FLIGHT {
        let mut incr = Vec::new();
        let mut takes = vec![Vec::new(); calls.len()];
        let mut ratios = takes.clone();
        for _ in 0..ROUNDS {
            let base = measure(&script, Call::Increment, flights, &plain).await;
            incr.push(base);
            for (index, (_, call)) in calls.iter().enumerate() {
                let rate = measure(&script, *call, flights, &ours).await;
                takes[index].push(rate);
                ratios[index].push(rate / base);
            }
        }
        let mut line = format!("\"{flights}\": {{\"incr_per_second\": {:.0}", median(incr));
        for (((name, _), takes), ratios) in calls.iter().zip(takes).zip(ratios) {
            let (rate, ratio) = (median(takes), median(ratios));
            let _ =
                write!(line, ", \"{name}_per_second\": {rate:.0}, \"{name}_ratio\": {ratio:.3}");
        }
        members.push(line + "}");
    }
    println!("{{{}}}", members.join(", "));
}
