//! `sqs-sandbox`: the SQS endpoint as a program.

use std::error::Error;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use sandbox_listener::{ListenOptions, Listener};
use sqs_sandbox::{QueueSettings, SqsSandbox, SqsSandboxConfig, SqsSandboxError, SqsSandboxServer};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// An Amazon SQS endpoint in memory, for benchmarks and tests.
///
/// Point an AWS SDK at it with `AWS_ENDPOINT_URL_SQS`. Whatever stands before the last segment of a
/// queue's URL is ignored. `GET /_sandbox/stats` counts calls and tells how deep the queues are.
///
/// Logs go to standard error; `RUST_LOG` sets how much (default: warn; `info` tells of every
/// refusal).
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct SqsSandboxOptions {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4580")]
    listen: SocketAddr,
    /// Say where it listens as one line of JSON: `{"address": …, "url": …}`
    #[arg(long)]
    json: bool,
    /// Make a queue when it is first used
    #[arg(long)]
    create: bool,
    /// How likely a short poll asks each of a queue's ten servers, 0 to 1: below 1 it misses
    /// messages of short queues, as it does on SQS
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = share)]
    sampling: f64,
    /// How likely a standard queue gives a message once more, 0 to 1: it shows it before its
    /// timeout, or acknowledges its delete and does nothing
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    doubled: f64,
    /// How likely an entry of a batch fails alone, without effect, 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    failing: f64,
    /// How old the numbers of messages may be that `GetQueueAttributes` tells, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    depth_lag: u32,
    #[command(flatten)]
    connections: ListenOptions,
}

fn share(text: &str) -> Result<f64, String> {
    let read = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    read.ok_or_else(|| "not a number from 0 to 1".to_owned())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = SqsSandboxOptions::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    match run(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "sqs-sandbox: {}", explain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn run(options: SqsSandboxOptions) -> Result<(), Box<dyn Error>> {
    // Installed before the address is printed: its reader may send a signal at once.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let queues = QueueSettings {
        sampling: options.sampling,
        doubled: options.doubled,
        failing: options.failing,
        depth_lag: Duration::from_secs(options.depth_lag.into()),
        ..QueueSettings::default()
    };
    let config = SqsSandboxConfig { create: options.create, queues };
    let refused = |source| SqsSandboxError::Listen { addr: options.listen, source };
    let listener = Listener::bind(options.listen).await.map_err(refused)?;
    let listener = listener.with(&options.connections)?;
    let sandbox = SqsSandbox::start_on(config, listener).map_err(refused)?;
    announce(&sandbox, options.json)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    sandbox.shutdown().await;
    Ok(())
}

fn announce(sandbox: &SqsSandboxServer, json: bool) -> io::Result<()> {
    let (addr, url) = (sandbox.addr(), sandbox.url());
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::json!({ "address": addr.to_string(), "url": url }))?;
    } else {
        writeln!(out, "SQS endpoint, for an AWS SDK: AWS_ENDPOINT_URL_SQS={url}")?;
    }
    out.flush()
}

/// The error with its causes, and what to do where that is known.
fn explain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    let mut text = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    if let Some(SqsSandboxError::Listen { source, .. }) = error.downcast_ref()
        && source.kind() == io::ErrorKind::AddrInUse
    {
        text += "\nAnother program holds that port: end it, or choose another with --listen \
                 (127.0.0.1:0 takes a free one).";
    }
    text
}
