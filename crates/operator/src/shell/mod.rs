//! Output, confirmation, errors and exit codes, shared by all commands.

mod confirm;
mod error;
mod health;
mod output;

use std::cell::Cell;
use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::time::Duration;

use crate::page::View;
use crate::text_file::read_text;
pub use confirm::ConfirmArgs;
pub(crate) use confirm::stop_unless_confirmed;
pub use error::CommandError;
pub use health::check_health;
pub use output::{Output, OutputArgs};
use serde::Serialize;
use tokio::sync::watch;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Says on standard error what fails beside a command without ending it, such as a wake of the stack.
pub(crate) fn say_warnings() {
    let ours = Targets::new().with_target("tidegate_adapters::aws", tracing::Level::WARN);
    let layer = tracing_subscriber::fmt::layer().without_time().with_ansi(false).with_target(false);
    let registry = tracing_subscriber::registry().with(ours);
    // Somebody logs already: a test.
    drop(registry.with(layer.with_writer(io::stderr)).try_init());
}

/// Logs one event an outcome to standard error, for a program that keeps running: as text on a terminal, else as JSON.
pub fn log_events(is_json: bool) {
    let ours = Targets::new().with_target("tidegate_console", tracing::Level::INFO);
    let ours = ours.with_target("tidegate_operator", tracing::Level::INFO);
    let ours = ours.with_target("tidegate_adapters::aws", tracing::Level::WARN);
    let registry = tracing_subscriber::registry().with(ours);
    let set = if is_json || !io::stderr().is_terminal() {
        registry.with(tracing_subscriber::fmt::layer().json().with_writer(io::stderr)).try_init()
    } else {
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_target(false);
        registry.with(layer.with_writer(io::stderr)).try_init()
    };
    // Somebody logs already: a test.
    drop(set);
}

/// Opens a file that the user names.
pub(crate) fn open_file(path: &Path) -> CommandResult<File> {
    File::open(path).map_err(CommandError::of_file(path, "cannot be read"))
}

/// The text of a file that the user names.
pub fn text_file(path: &Path) -> CommandResult<String> {
    read_text(&path.display().to_string(), open_file(path)?)
        .map_err(|fault| CommandError::Input(fault.to_string()))
}

/// The result of a command that ran to its end, which decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandEnd {
    /// It succeeded (0).
    Done,
    /// It did, and found something wrong (1).
    ProblemsFound,
    /// It was not confirmed: nothing changed (4).
    Declined,
    /// It succeeded, and the result proves nothing (5).
    Unproven,
    /// It was interrupted; its report says how to continue (130).
    Interrupted,
}

impl CommandEnd {
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::ProblemsFound => 1,
            Self::Declined => 4,
            Self::Unproven => 5,
            Self::Interrupted => 130,
        }
    }
}

/// The result of a command, or of a step of one; without `T` it is how the command ended.
pub type CommandResult<T = CommandEnd> = Result<T, CommandError>;

/// The surroundings of a command: its output, and the interrupts it may wait for.
#[derive(Debug)]
pub struct Shell {
    pub output: Output,
    interrupts: watch::Receiver<u64>,
    /// The number of interrupts that a wait has returned; later ones are new.
    handled: Cell<u64>,
}

impl Shell {
    /// A shell whose interruptions are counted in `interrupts`.
    pub const fn new(output: Output, interrupts: watch::Receiver<u64>) -> Self {
        Self { output, interrupts, handled: Cell::new(0) }
    }

    /// Writes a report to standard output: JSON, or text.
    ///
    /// # Errors
    /// [`CommandError::Terminal`].
    pub fn show(&self, report: &(impl Serialize + View)) -> CommandResult<()> {
        self.output.show(report).map_err(CommandError::Terminal)
    }

    /// Shows the report with which a command ends.
    ///
    /// # Errors
    /// [`CommandError::Terminal`].
    pub fn done(&self, report: &(impl Serialize + View)) -> CommandResult {
        self.show(report).map(|()| CommandEnd::Done)
    }

    /// Waits for an interrupt (Ctrl-C or SIGTERM) that no earlier wait has returned.
    pub async fn interrupted(&self) {
        let mut interrupts = self.interrupts.clone();
        let handled = self.handled.get();
        match interrupts.wait_for(|count| *count > handled).await {
            Ok(count) => self.handled.set(*count),
            // No signal handler was installed.
            Err(_) => std::future::pending().await,
        }
    }

    /// Waits for an interrupt that no [`Shell::interrupted`] returns within `patience`: the command
    /// does not handle interrupts at that moment, and the caller ends it.
    pub async fn interrupt_ignored(&self, patience: Duration) {
        let mut interrupts = self.interrupts.clone();
        loop {
            let Ok(count) =
                interrupts.wait_for(|count| *count > self.handled.get()).await.map(|c| *c)
            else {
                return std::future::pending().await;
            };
            tokio::time::sleep(patience).await;
            if self.handled.get() < count {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_interruption_that_nobody_hears_ends_the_command_all_the_same() {
        let (heard, interrupts) = watch::channel(0);
        let shell = Shell::new(Output::plain(), interrupts);
        let patience = Duration::from_secs(2);
        heard.send_modify(|count| *count += 1);
        let listening = async {
            tokio::time::sleep(patience / 2).await;
            shell.interrupted().await;
            tokio::time::sleep(patience * 5).await;
        };
        tokio::select! {
            () = listening => {}
            () = shell.interrupt_ignored(patience) => panic!("it was heard"),
        }
        heard.send_modify(|count| *count += 1);
        assert!(
            tokio::time::timeout(patience * 2, shell.interrupt_ignored(patience)).await.is_ok()
        );
    }

    #[tokio::test]
    async fn an_interruption_between_two_waits_is_told_once_by_the_next() {
        let (heard, interrupts) = watch::channel(0);
        let shell = Shell::new(Output::plain(), interrupts);
        assert!(shell.interrupted().now_or_never().is_none());
        heard.send_modify(|count| *count += 1);
        assert!(shell.interrupted().now_or_never().is_some());
        assert!(shell.interrupted().now_or_never().is_none());
    }
}
