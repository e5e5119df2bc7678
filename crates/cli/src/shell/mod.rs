//! What every command has in common: how it speaks, asks, fails and ends.

mod ask;
mod error;
mod output;

use std::future::Future;
use std::pin::Pin;

pub use ask::{Answer, Ask};
pub use error::{CommandError, in_full};
pub use output::{Output, OutputArgs};

/// How a command ended, where it came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It did what it was asked for (0).
    Done,
    /// It did, and found something wrong (1).
    Found,
    /// It was not confirmed: nothing changed (4).
    Declined,
    /// It was interrupted; what it said tells how to go on (130).
    Interrupted,
}

impl Ended {
    /// The program's exit code.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Found => 1,
            Self::Declined => 4,
            Self::Interrupted => 130,
        }
    }
}

/// A command's surroundings.
pub struct Shell {
    /// Where its report goes.
    pub output: Output,
    interrupt: Box<dyn Fn() -> Pin<Box<dyn Future<Output = ()>>>>,
}

impl Shell {
    /// A shell whose interruptions `interrupt` waits for, each call for the next one.
    pub fn new<F>(output: Output, interrupt: impl Fn() -> F + 'static) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        Self { output, interrupt: Box::new(move || Box::pin(interrupt())) }
    }

    /// Waits for an interruption (Ctrl-C, or a signal to end).
    pub async fn interrupted(&self) {
        (self.interrupt)().await;
    }
}

impl std::fmt::Debug for Shell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shell").field("output", &self.output).finish_non_exhaustive()
    }
}
