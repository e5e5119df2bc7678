//! A connection with an idle timeout.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};
use tokio_rustls::server::TlsStream;

/// A connection, with TLS or without.
#[derive(Debug)]
pub struct Stream {
    transport: Transport,
    idle: Option<IdleTimer>,
}

#[derive(Debug)]
enum Transport {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Ends the stream if nothing was read or written within the limit.
#[derive(Debug)]
struct IdleTimer {
    limit: Duration,
    end: Pin<Box<Sleep>>,
}

impl Stream {
    pub(crate) fn plain(tcp: TcpStream, idle: Option<Duration>) -> Self {
        Self { transport: Transport::Tcp(tcp), idle: idle.map(IdleTimer::new) }
    }

    pub(crate) fn encrypted(tls: TlsStream<TcpStream>, idle: Option<Duration>) -> Self {
        Self { transport: Transport::Tls(Box::new(tls)), idle: idle.map(IdleTimer::new) }
    }

    /// The underlying TCP connection.
    pub fn tcp(&self) -> &TcpStream {
        match &self.transport {
            Transport::Tcp(tcp) => tcp,
            Transport::Tls(tls) => tls.get_ref().0,
        }
    }

    fn used(&mut self) {
        if let Some(idle) = &mut self.idle {
            idle.end.as_mut().reset(Instant::now() + idle.limit);
        }
    }

    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        self.idle.as_mut().is_some_and(|idle| idle.end.as_mut().poll(cx).is_ready())
    }
}

impl IdleTimer {
    fn new(limit: Duration) -> Self {
        Self { limit, end: Box::pin(sleep(limit)) }
    }
}

/// Delegates a poll to the transport, TCP or TLS.
macro_rules! either {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match &mut $self.transport {
            Transport::Tcp(tcp) => Pin::new(tcp).$method($($argument),*),
            Transport::Tls(tls) => Pin::new(tls.as_mut()).$method($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = either!(self.poll_read(cx, buf));
        if read.is_ready() {
            self.used();
        } else if self.is_over(cx) {
            // A read of nothing is the end of the stream, and makes the server close it.
            return Poll::Ready(Ok(()));
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = either!(self.poll_write(cx, buf));
        if written.is_ready() {
            self.used();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.poll_shutdown(cx))
    }
}
