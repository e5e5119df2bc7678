use std::error::Error as StdError;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tidegate_adapters::aws::stack::StackError;
use tidegate_delivery::ports::PortError;

/// Errors that end a command, by exit code and by what the operator can do.
#[derive(Debug, Error)]
pub enum CommandError {
    /// An option, an argument or a file has a value that is not allowed; nothing was done.
    #[error("{0}")]
    Input(String),
    /// As [`CommandError::Input`], with an error of the command's own.
    #[error(transparent)]
    Refused(Box<dyn StdError + Send + Sync>),
    #[error(transparent)]
    Stack(#[from] StackError),
    /// A service did not answer, or refused.
    #[error(transparent)]
    Service(#[from] PortError),
    /// A file could not be read or written.
    #[error("{}: {doing}", path.display())]
    File { path: PathBuf, doing: &'static str, source: io::Error },
    /// The address is taken, or is none of this machine's.
    #[error("{address}: it cannot listen there; --listen names another address")]
    Listen { address: std::net::SocketAddr, source: io::Error },
    /// A server gives no answer, or too late.
    #[error("nothing answers at {address}")]
    NoAnswer { address: std::net::SocketAddr, source: io::Error },
    #[error("the report cannot be written to standard output")]
    Terminal(#[source] io::Error),
    /// Part of the work is done; the error says which, and how to continue.
    #[error(transparent)]
    Unfinished(Box<dyn StdError + Send + Sync>),
}

impl CommandError {
    /// The refusal that an error of the command's own is.
    pub fn refused(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Refused(error.into())
    }

    /// The error of a file, by the thing that failed.
    pub(crate) fn of_file(path: &Path, doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), doing, source }
    }

    /// The program's exit code: 2 where an option or a file is wrong and nothing was done, else 3.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Input(_)
            | Self::Refused(_)
            | Self::Stack(
                StackError::NoProfile { .. }
                | StackError::AwsConfiguration(_)
                | StackError::NoRun { .. },
            ) => 2,
            _ => 3,
        }
    }
}
