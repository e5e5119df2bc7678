//! What every command has in common: how it speaks, asks, fails and ends.

mod confirm;
mod error;
mod output;

use std::cell::Cell;
use std::time::Duration;

pub use confirm::{ConfirmArgs, Confirmation};
pub use error::CommandError;
pub use output::{Output, OutputArgs};
pub use tidegate_operate::format::in_full;
use tokio::sync::watch;

/// How a command ended, where it came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandEnd {
    /// It did what it was asked for (0).
    Done,
    /// It did, and found something wrong (1).
    ProblemsFound,
    /// It was not confirmed: nothing changed (4).
    Declined,
    /// It was interrupted; what it said tells how to go on (130).
    Interrupted,
}

impl CommandEnd {
    /// The program's exit code.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::ProblemsFound => 1,
            Self::Declined => 4,
            Self::Interrupted => 130,
        }
    }
}

/// A command's surroundings.
#[derive(Debug)]
pub struct Shell {
    /// Where its report goes.
    pub output: Output,
    interrupts: watch::Receiver<u64>,
    /// How many of them a wait has told.
    handled: Cell<u64>,
}

impl Shell {
    /// A shell whose interruptions are counted in `interrupts`.
    pub const fn new(output: Output, interrupts: watch::Receiver<u64>) -> Self {
        Self { output, interrupts, handled: Cell::new(0) }
    }

    /// Waits for an interruption (Ctrl-C, or a signal to end) that no wait has told yet.
    pub async fn interrupted(&self) {
        let mut interrupts = self.interrupts.clone();
        let handled = self.handled.get();
        match interrupts.wait_for(|count| *count > handled).await {
            Ok(count) => self.handled.set(*count),
            // Nobody listens for signals.
            Err(_) => std::future::pending().await,
        }
    }

    /// Waits for an interruption that no wait tells within `patience`: whoever runs then does not
    /// listen.
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
