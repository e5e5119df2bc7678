//! Errors that stop a local run.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tidegate_adapters::aws::stack::StackError;
use tidegate_delivery::ports::{EntryError, PortError};
use tidegate_operator::shell::CommandError;

/// A local run could not be started, or could not go on.
#[derive(Debug, Error)]
pub enum LocalError {
    /// Something that a run needs is not there.
    #[error("not found: {what}; {remedy}")]
    Missing { what: String, remedy: String },
    /// A port is taken; what can be done instead of ending its program.
    #[error("port {port} is taken: end the program that holds it, or {instead}")]
    PortTaken { port: u16, instead: String },
    /// A program could not be started.
    #[error("{program} did not start")]
    Start { program: String, source: io::Error },
    /// A program ended that should run; `said` is the end of what it said, with the place of the rest.
    #[error("{program} ended ({status}){said}")]
    Ended { program: String, status: String, said: String },
    /// A program was not ready in time.
    #[error("{program} was not ready after {seconds} s; see {log}")]
    NotReady { program: &'static str, seconds: u64, log: PathBuf },
    /// The stack could not be deployed.
    #[error("the stack was not deployed: {0}")]
    Deploy(String),
    /// The template and this command are of different versions.
    #[error("the stack has no output {0}: the template and this command are of different versions")]
    NoOutput(&'static str),
    /// A page of ministack or of the sandbox could not be read.
    #[error("{url} gave no answer that can be used: {reason}")]
    Http { url: String, reason: String },
    /// The console does not find the stack.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// The console could not be opened.
    #[error(transparent)]
    Console(#[from] CommandError),
    /// A queue or the ledger could not be used.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A mail was not taken by its queue.
    #[error("a message was not taken by the queue {queue}")]
    Fill { queue: String, source: EntryError },
    /// A file or folder could not be written.
    #[error("cannot write {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("the terminal fails")]
    Terminal(#[source] io::Error),
    /// An option's value makes no sense.
    #[error("{0}")]
    Option(String),
}

impl LocalError {
    /// Makes the error of a program that does not start.
    pub(crate) fn start(program: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Start { program: program.into(), source }
    }

    /// Makes the error of a file or folder that cannot be written.
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Write { path: path.to_owned(), source }
    }

    /// Whether an option, a file or a program is at fault, and not the run itself: the exit code is
    /// then 2.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Missing { .. }
                | Self::PortTaken { .. }
                | Self::Start { .. }
                | Self::Ended { .. }
                | Self::Option(_)
        )
    }
}
