//! `ses-sandbox`: the SES endpoint as a program.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use tidegate_fakes::sandbox::server::{ProgramOptions, run};
use tidegate_fakes::sandbox::ses::{SesSandbox, SesSandboxConfig};

/// An Amazon SES endpoint for local runs and tests.
///
/// It takes `SendEmail`, `SendBulkEmail` and `GetAccount` of version 2, and of version 1 `SendEmail`,
/// `SendRawEmail`, `SendTemplatedEmail`, `SendBulkTemplatedEmail` and `GetSendQuota`. It enforces a
/// quota as SES does, takes its time, fails on demand, and shows every mail it accepted at its
/// address. Point an AWS SDK at it with `AWS_ENDPOINT_URL_SESV2` (version 2) or
/// `AWS_ENDPOINT_URL_SES` (version 1). Every option but --json and those of how it listens can be changed while
/// it runs:
/// `curl -X PATCH ADDRESS/_sandbox/config -d '{"quota": 200, "latency": "80ms"}'`.
///
/// Logs go to standard error; `RUST_LOG` sets how much (default: warn; `info` tells of every
/// refusal, `debug` of every mail).
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct SesSandboxOptions {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4579")]
    listen: SocketAddr,
    #[command(flatten)]
    program: ProgramOptions,
    #[command(flatten)]
    settings: SesSandboxConfig,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = SesSandboxOptions::parse();
    let start = |listener| SesSandbox::start_on(options.settings, listener);
    let intro =
        ["SES v2 endpoint and mailbox: ", "for an AWS SDK:              AWS_ENDPOINT_URL_SESV2="];
    run("ses-sandbox", options.listen, &options.program, start, &intro).await
}
