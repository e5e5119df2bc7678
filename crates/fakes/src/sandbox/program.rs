//! A sandbox as a program: it says where it listens, and serves until a signal ends it.

use std::error::Error;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args;
use tidegate_core::in_full;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::listener::{ListenOptions, Listener};
use super::{ListenError, Sandbox};

/// Options that every sandbox has, beside its address.
#[derive(Args, Clone, Debug)]
pub struct ProgramOptions {
    /// Say where it listens as one line of JSON: `{"address": …, "url": …}`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connections: ListenOptions,
}

/// Runs the sandbox that `start` makes of a listener on `listen`. `intro` goes before its URL in what
/// the program says, a line for each.
pub async fn run<S>(
    name: &str,
    listen: SocketAddr,
    options: &ProgramOptions,
    start: impl FnOnce(Listener) -> Sandbox<S>,
    intro: &[&str],
) -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    match serve(listen, options, start, intro).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{name}: {}", explain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn serve<S>(
    listen: SocketAddr,
    options: &ProgramOptions,
    start: impl FnOnce(Listener) -> Sandbox<S>,
    intro: &[&str],
) -> Result<(), Box<dyn Error>> {
    // Installed before the address is printed: its reader may send a signal at once.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let sandbox = start(Sandbox::<S>::bind(listen).await?.with(&options.connections)?);
    announce(&sandbox, options.json, intro)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    sandbox.shutdown().await;
    Ok(())
}

fn announce<S>(sandbox: &Sandbox<S>, json: bool, intro: &[&str]) -> io::Result<()> {
    let (addr, url) = (sandbox.addr(), sandbox.url());
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::json!({ "address": addr.to_string(), "url": url }))?;
    } else {
        intro.iter().try_for_each(|line| writeln!(out, "{line}{url}"))?;
    }
    out.flush()
}

/// The error with its causes, and what to do where that is known.
fn explain(error: &(dyn Error + 'static)) -> String {
    let mut text = in_full(error);
    if let Some(ListenError { source, .. }) = error.downcast_ref()
        && source.kind() == io::ErrorKind::AddrInUse
    {
        text += "\nAnother program holds that port: end it, or choose another with --listen \
                 (127.0.0.1:0 takes a free one).";
    }
    text
}
