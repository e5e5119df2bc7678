use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;
use thiserror::Error;
use tidegate_delivery::ports::{FailureKind, PortError};

/// The reason why a call to the server failed.
#[derive(Clone, Debug, Error)]
pub enum LinkError {
    /// The name, the network or TLS failed.
    #[error("no connection")]
    Connect(#[source] Arc<io::Error>),
    /// The connection was not open within its time limit.
    #[error("no connection within {0:?}")]
    ConnectTimedOut(Duration),
    /// The server did not answer within a take's time limit.
    #[error("no answer within {:?}", crate::redis::TIME_LIMIT)]
    TimedOut,
    /// The server answered with an error, or closed the connection.
    #[error("the server did not do it")]
    Server(#[source] RedisError),
    /// The answer does not have the format of the script's answers.
    #[error("the script answered {0}")]
    Answer(String),
}

impl LinkError {
    /// Converts to the port's error for `operation` on the server `at`.
    pub(crate) fn told(self, operation: &'static str, at: &str) -> PortError {
        let kind = match &self {
            Self::Connect(_) => FailureKind::Unreachable,
            Self::ConnectTimedOut(_) | Self::TimedOut => FailureKind::TimedOut,
            Self::Answer(_) => FailureKind::Refused("UnknownAnswer".to_owned()),
            Self::Server(error) if error.is_timeout() => FailureKind::TimedOut,
            Self::Server(error) => match code(error) {
                Some(code) if DENIED.contains(&code) => FailureKind::Denied(code.to_owned()),
                Some(code) => FailureKind::Refused(code.to_owned()),
                None => FailureKind::Unreachable,
            },
        };
        PortError { operation, resource: at.to_owned(), kind, source: Some(self.into()) }
    }

    /// Whether the connection must be replaced after this error.
    pub(crate) fn breaks(&self) -> bool {
        match self {
            // A server that is read-only or still loading may no longer be the primary one after a failover.
            Self::Server(error) => code(error).is_none_or(|code| ELSEWHERE.contains(&code)),
            _ => true,
        }
    }
}

const DENIED: [&str; 4] = ["NOAUTH", "NOPERM", "WRONGPASS", "AuthenticationFailed"];
const ELSEWHERE: [&str; 4] = ["READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN"];

/// The server's error code; `None` if the error does not come from the server.
fn code(error: &RedisError) -> Option<&str> {
    match error.kind() {
        redis::ErrorKind::AuthenticationFailed => Some("AuthenticationFailed"),
        _ => error.code(),
    }
}
