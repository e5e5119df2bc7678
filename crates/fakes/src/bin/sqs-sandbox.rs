//! `sqs-sandbox`: the SQS endpoint as a program.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tidegate_fakes::QueueSettings;
use tidegate_fakes::sandbox::server::{ProgramOptions, run};
use tidegate_fakes::sandbox::sqs::{SqsSandbox, SqsSandboxConfig};

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
    program: ProgramOptions,
}

fn share(text: &str) -> Result<f64, String> {
    let read = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    read.ok_or_else(|| "not a number from 0 to 1".to_owned())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = SqsSandboxOptions::parse();
    let queues = QueueSettings {
        sampling: options.sampling,
        doubled: options.doubled,
        failing: options.failing,
        depth_lag: Duration::from_secs(options.depth_lag.into()),
        ..QueueSettings::default()
    };
    let config = SqsSandboxConfig { create: options.create, queues };
    let start = |listener| SqsSandbox::start_on(config, listener);
    let intro = ["SQS endpoint, for an AWS SDK: AWS_ENDPOINT_URL_SQS="];
    run("sqs-sandbox", options.listen, &options.program, start, &intro).await
}
