//! The errors of [`Wire`](super::Wire).

use std::io;

use aws_smithy_runtime_api::client::result::ConnectorError;
use thiserror::Error;

use crate::aws::error::find;

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Error)]
pub(super) enum WireError {
    #[error("the endpoint \"{0}\" is no http or https address with a host")]
    Address(http::Uri),
    #[error("no connection")]
    Connect(#[source] BoxError),
    #[error("no connection within {0:?}")]
    ConnectTimedOut(std::time::Duration),
    #[error("as many connections are open as may be")]
    NoRoom,
    #[error("its slot had passed when a connection was there to take it")]
    Late,
    #[error("the connection was lost after the request was handed to it")]
    Lost(#[source] hyper::Error),
    /// Not a failure: a request that only opened connections ends with this error, because it has no answer.
    #[error("connections were opened, nothing was sent")]
    Warmed,
}

impl WireError {
    /// Whether this process or machine lacks a resource for a connection, such as a file descriptor.
    pub(super) fn is_exhaustion(&self) -> bool {
        /// `ENFILE` (23) and `EMFILE` (24): too many open files in the system, or in this process.
        const TOO_MANY_FILES: [i32; 2] = [23, 24];
        let lacks = |error: &io::Error| {
            error.kind() == io::ErrorKind::AddrNotAvailable
                || error.raw_os_error().is_some_and(|code| TOO_MANY_FILES.contains(&code))
        };
        matches!(self, Self::NoRoom) || find::<io::Error>(self).is_some_and(lacks)
    }
}

impl From<WireError> for ConnectorError {
    /// Converts to the kinds of error by which the SDK decides about retries.
    fn from(error: WireError) -> Self {
        match error {
            WireError::Connect(_) | WireError::NoRoom | WireError::Lost(_) => {
                Self::io(error.into())
            }
            WireError::ConnectTimedOut(_) => Self::timeout(error.into()),
            WireError::Address(_) | WireError::Late | WireError::Warmed => Self::user(error.into()),
        }
    }
}
