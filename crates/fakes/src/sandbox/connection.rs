//! Accepting connections, and closing them as faults and shutdown want.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower_service::Service;

use super::listener::{Listener, Stream, wait_after_accept_error};

/// How long requests under way may take once the sandbox is asked to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Tells when the sandbox is asked to stop.
#[derive(Clone, Debug)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Asked as soon as the watched value is true.
    pub(super) fn when(stopped: watch::Receiver<bool>) -> Self {
        Self(stopped)
    }

    /// Returns once the sandbox is asked to stop.
    pub(crate) async fn asked(&self) {
        // An error means that the handle was dropped, which stops the sandbox, too.
        let _ = self.0.clone().wait_for(|stopped| *stopped).await;
    }
}

/// Marks a response that must not be sent: its connection ends instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum DroppedConnection {
    #[error("closed without an answer")]
    Closed,
    #[error("reset without an answer")]
    Reset,
}

pub(super) async fn serve(mut listener: Listener, router: Router, stop: Stop) {
    let mut connections = JoinSet::new();
    let mut stopped = pin!(stop.asked());
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(stream) => {
                    connections.spawn(connection(stream, router.clone(), stop.clone()));
                }
                Err(error) => wait_after_accept_error(&error).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = &mut stopped => break,
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, ended).await.is_err() {
        tracing::warn!(connections = connections.len(), "connections cut off at the end");
    }
}

async fn connection(stream: Stream, router: Router, stop: Stop) {
    let service = service_fn(move |request| Box::pin(answer(router.clone(), request)));
    let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut stop = pin!(stop.asked());
    let mut stopping = false;
    let ended = loop {
        tokio::select! {
            ended = poll_fn(|cx| connection.poll_without_shutdown(cx)) => break ended,
            () = &mut stop, if !stopping => {
                stopping = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
        }
    };
    let mut stream = connection.into_parts().io.into_inner();
    if ended.is_err_and(|error| severed(&error) == Some(DroppedConnection::Reset)) {
        // Dropped without lingering, the socket answers with a reset.
        let _ = stream.tcp().set_zero_linger();
    } else {
        let _ = stream.shutdown().await;
    }
}

async fn answer(
    mut router: Router,
    request: Request<Incoming>,
) -> Result<Response<Body>, DroppedConnection> {
    let Ok(response): Result<_, Infallible> = router.call(request.map(Body::new)).await;
    match response.extensions().get::<DroppedConnection>() {
        Some(severed) => Err(*severed),
        None => Ok(response),
    }
}

fn severed(error: &hyper::Error) -> Option<DroppedConnection> {
    std::error::Error::source(error)?.downcast_ref::<DroppedConnection>().copied()
}
