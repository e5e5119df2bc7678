use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;
use thiserror::Error;
use tidegate_delivery::ports::{FailureKind, PortError};

/// Why the server was not reached, or what it refused.
#[derive(Clone, Debug, Error)]
pub enum LinkError {
    /// No connection: the name, the network, or TLS.
    #[error("no connection")]
    Connect(#[source] Arc<io::Error>),
    /// No connection within its time limit.
    #[error("no connection within {0:?}")]
    ConnectTimedOut(Duration),
    /// No answer within a take's time limit.
    #[error("no answer within {:?}", crate::TIME_LIMIT)]
    TimedOut,
    /// Whatever the server said, or the connection's end.
    #[error("the server did not do it")]
    Server(#[source] RedisError),
    /// An answer that the script does not give.
    #[error("the script answered {0}")]
    Answer(String),
}

impl LinkError {
    /// As the port tells it: what was done, and where.
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

    /// Whether the connection is of no use any more.
    pub(crate) fn breaks(&self) -> bool {
        match self {
            // A server that says it reads only, or loads, may be another one after a failover.
            Self::Server(error) => code(error).is_none_or(|code| ELSEWHERE.contains(&code)),
            _ => true,
        }
    }
}

const DENIED: [&str; 4] = ["NOAUTH", "NOPERM", "WRONGPASS", "AuthenticationFailed"];
const ELSEWHERE: [&str; 4] = ["READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN"];

/// The server's code; none where the server said nothing.
fn code(error: &RedisError) -> Option<&str> {
    match error.kind() {
        redis::ErrorKind::AuthenticationFailed => Some("AuthenticationFailed"),
        _ => error.code(),
    }
}
