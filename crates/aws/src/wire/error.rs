//! What can go wrong on the wire.

use aws_smithy_runtime_api::client::result::ConnectorError;
use thiserror::Error;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Error)]
pub(super) enum WireError {
    #[error("the endpoint \"{0}\" is no http or https address with a host")]
    Address(http::Uri),
    #[error("no connection")]
    Connect(#[source] BoxError),
    #[error("no connection within {0:?}")]
    ConnectTimedOut(std::time::Duration),
    #[error("its slot had passed when a connection was there to take it")]
    Late,
    #[error("the connection was lost after the request was handed to it")]
    Lost(#[source] hyper::Error),
    /// Not a failure: the SDK gets no answer to a request that was made to find the endpoint.
    #[error("connections were opened, nothing was sent")]
    Warmed,
}

impl From<WireError> for ConnectorError {
    /// As the SDK's retries need to know it.
    fn from(error: WireError) -> Self {
        match error {
            WireError::Connect(_) | WireError::Lost(_) => Self::io(error.into()),
            WireError::ConnectTimedOut(_) => Self::timeout(error.into()),
            WireError::Address(_) | WireError::Late | WireError::Warmed => Self::user(error.into()),
        }
    }
}
