//! `tidegate`: the operator's command.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use tidegate_cli::commands::Command;
use tidegate_cli::local::{self, Interrupts, LocalArgs, LocalError, Outcome};
use tidegate_cli::shell::{CommandError, Output, Shell, in_full};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Tidegate sends e-mail campaigns through Amazon SES at exactly the account's quota.
///
/// Exit codes: 0 done; 1 done, and something was found wrong; 2 an option or a file is wrong, nothing
/// was done; 3 the stack, a service or a file is out of reach; 4 not confirmed, nothing changed;
/// 130 interrupted.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, max_term_width = 100)]
struct Program {
    #[command(subcommand)]
    command: Asked,
}

#[derive(Debug, Subcommand)]
enum Asked {
    Local(Box<LocalArgs>),
    #[command(flatten)]
    OnStack(Box<Command>),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let ended = match Program::parse().command {
        Asked::Local(args) => local(&args).await,
        Asked::OnStack(command) => on_stack(*command).await,
    };
    ended.map_or_else(
        |error| {
            let _ = writeln!(io::stderr(), "tidegate: {}", in_full(&error));
            ExitCode::from(error.exit_code())
        },
        ExitCode::from,
    )
}

async fn local(args: &LocalArgs) -> Result<u8, CommandError> {
    let unheard = |source| LocalError::Start { program: "the signal handler".to_owned(), source };
    let mut signals = Signals::listen().map_err(unheard)?;
    Ok(match local::run(args, &mut signals).await? {
        Outcome::Kept => 0,
        Outcome::Broken => 1,
        Outcome::Interrupted => 130,
    })
}

async fn on_stack(command: Command) -> Result<u8, CommandError> {
    let output = command.output().map_or_else(Output::plain, Output::new);
    let shell = Shell::new(output, async || match Signals::listen() {
        Ok(mut signals) => signals.next().await,
        // Without a handler the signal ends the process by itself.
        Err(_) => std::future::pending().await,
    });
    command.run(&shell, Program::command()).await.map(|ended| ended.exit_code())
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
