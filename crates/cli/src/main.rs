//! `tidegate`: the operator's command.

use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tidegate_cli::local::{self, Interrupts, LocalArgs, LocalError, Outcome};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Tidegate sends e-mail campaigns through Amazon SES at exactly the account's quota.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, max_term_width = 100)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Local(Box<LocalArgs>),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Command::Local(args) = Program::parse().command;
    let ended = match Signals::listen() {
        Ok(mut signals) => local::run(&args, &mut signals).await,
        Err(source) => Err(LocalError::Start { program: "the signal handler".to_owned(), source }),
    };
    match ended {
        Ok(Outcome::Kept) => ExitCode::SUCCESS,
        Ok(Outcome::Broken) => ExitCode::from(1),
        Ok(Outcome::Interrupted) => ExitCode::from(130),
        Err(error) => {
            let _ = writeln!(io::stderr(), "tidegate: {}", in_full(&error));
            ExitCode::from(if error.is_usage() { 2 } else { 1 })
        }
    }
}

/// What asks us to end.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }
}

impl Interrupts for Signals {
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

/// The error with its causes.
fn in_full(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
