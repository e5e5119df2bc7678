//! `ses-sandbox`: the SES v2 endpoint as a program.

use std::error::Error;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use sandbox_listener::{ListenOptions, Listener};
use ses_sandbox::{
    SesSandbox, SesSandboxConfig, SesSandboxError, SesSandboxServer, SettingsChange, SteadyClock,
};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// An Amazon SES v2 endpoint for local runs and tests.
///
/// It takes `SendEmail` and `GetAccount`, enforces a quota as SES does, takes its time, fails on
/// demand, and shows every mail it accepted at its address. Point an AWS SDK at it with
/// `AWS_ENDPOINT_URL_SESV2`. Every option but --json and those of how it listens can be changed while
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
    /// Say where it listens as one line of JSON: `{"address": …, "url": …}`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connections: ListenOptions,
    #[command(flatten)]
    settings: SettingsChange,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = SesSandboxOptions::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    match run(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "ses-sandbox: {}", explain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn run(options: SesSandboxOptions) -> Result<(), Box<dyn Error>> {
    // Installed before the address is printed: its reader may send a signal at once.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let config = SesSandboxConfig::default().changed(options.settings);
    let refused = |source| SesSandboxError::Listen { addr: options.listen, source };
    let listener = Listener::bind(options.listen).await.map_err(refused)?;
    let listener = listener.with(&options.connections)?;
    let sandbox = SesSandbox::start_on(config, listener, SteadyClock::start()).map_err(refused)?;
    announce(&sandbox, options.json)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    sandbox.shutdown().await;
    Ok(())
}

fn announce(sandbox: &SesSandboxServer, json: bool) -> io::Result<()> {
    let (addr, url) = (sandbox.addr(), sandbox.url());
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::json!({ "address": addr.to_string(), "url": url }))?;
    } else {
        writeln!(out, "SES v2 endpoint and mailbox: {url}")?;
        writeln!(out, "for an AWS SDK:              AWS_ENDPOINT_URL_SESV2={url}")?;
    }
    out.flush()
}

/// The error with its causes, and what to do where that is known.
fn explain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    let mut text = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    if let Some(SesSandboxError::Listen { source, .. }) = error.downcast_ref()
        && source.kind() == io::ErrorKind::AddrInUse
    {
        text += "\nAnother program holds that port: end it, or choose another with --listen \
                 (127.0.0.1:0 takes a free one).";
    }
    text
}
