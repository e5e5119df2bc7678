//! Connections, TLS and limits around the [`Dialogue`].

use std::io;
use std::mem::take;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::dialogue::{Credentials, Dialogue, Event, SmtpTerms};
use crate::connections::Connections;
use crate::relay::logins::{KeyPairs, Logins};
use crate::relay::submission::Submit;

/// Longest time for a connection's first command, and for a TLS handshake.
pub(super) const FIRST_COMMAND: Duration = Duration::from_secs(30);
/// Longest time for each other command, and for an answer to be read.
pub(super) const COMMAND: Duration = Duration::from_mins(1);
/// Longest time for the content of a mail.
pub(super) const CONTENT: Duration = Duration::from_mins(5);
/// Longest time in which no byte of a content comes.
pub(super) const SILENCE: Duration = Duration::from_secs(30);
/// How long a client may still send after the last answer. Closed at once, a connection with unread bytes is reset,
/// and the client may not see the answer.
const LINGER: Duration = Duration::from_secs(2);
/// Bytes that are read at once.
const READ: usize = 16 * 1024;
const STOPPED: &str = "421 4.3.2 the server stops: try again";

/// When TLS begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encryption {
    /// When the client says STARTTLS, where there is a certificate (port 587).
    StartTls,
    /// At once (port 465, RFC 8314).
    Implicit,
}

/// Offers and limits of an [`SmtpServer`]. Beyond loopback `tls` and `logins` must be set: that is for the caller to check.
#[derive(Clone)]
pub(crate) struct SmtpSettings {
    /// The server's name in its greeting, such as `relay.example.com`.
    pub(crate) host: String,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// None: mail is taken without a login. Else a login needs TLS.
    pub(crate) logins: Option<Arc<Logins>>,
    /// Most bytes of a mail.
    pub(crate) most_bytes: usize,
    /// A permit for each byte of mail that is held at once, from its first byte until it was submitted. A mail that finds
    /// none is refused with 452. Each connection takes about 20 KB besides, 60 KB with TLS.
    pub(crate) memory: Arc<Semaphore>,
}

/// Shared by all ports that one relay serves.
pub(crate) struct SmtpServer<S> {
    settings: SmtpSettings,
    submit: Arc<S>,
}

/// Longest time for mail that is under way when the server is to end.
const PATIENCE: Duration = Duration::from_mins(1);

/// Serves SMTP until `stop`. Then a mail that is being received or submitted is answered first; other clients get 421
/// at once.
pub(crate) async fn serve<S: Submit + Send + Sync + 'static>(
    listener: TcpListener,
    encryption: Encryption,
    server: Arc<SmtpServer<S>>,
    connections: &Connections,
    stop: impl Future<Output = ()>,
) {
    let full = b"421 4.7.0 too many connections: try again later\r\n";
    let connection = |stream, peer, stopped| {
        let server = Arc::clone(&server);
        async move { server.connection(stream, peer, encryption, stopped).await }
    };
    connections.serve(listener, full, stop, PATIENCE, connection).await;
}

impl<S: Submit> SmtpServer<S> {
    pub(crate) fn new(settings: SmtpSettings, submit: Arc<S>) -> Self {
        Self { settings, submit }
    }

    /// One connection, from its greeting to its end.
    pub(super) async fn connection<C: AsyncRead + AsyncWrite + Unpin>(
        &self,
        mut stream: C,
        peer: IpAddr,
        encryption: Encryption,
        stopped: watch::Receiver<bool>,
    ) {
        let settings = &self.settings;
        let (offers_tls, asks_login) = (settings.tls.is_some(), settings.logins.is_some());
        let (host, most_bytes) = (settings.host.clone(), settings.most_bytes);
        let terms = SmtpTerms { host, most_bytes, offers_tls, asks_login };
        let is_implicit = encryption == Encryption::Implicit;
        let dialogue = Dialogue::new(terms, is_implicit);
        let mut visit = Visit { server: self, peer, stopped, dialogue };
        let ended = async {
            if !is_implicit {
                if !visit.talk(&mut stream).await? {
                    return Ok(());
                }
                visit.dialogue.secured();
            }
            let Some(config) = settings.tls.clone() else { return Ok(()) };
            let accept = TlsAcceptor::from(config).accept(stream);
            let mut stream = tokio::select! {
                biased;
                () = stop(&mut visit.stopped) => return Ok(()),
                accepted = timeout(FIRST_COMMAND, accept) => accepted??,
            };
            visit.talk(&mut stream).await.map(drop)
        };
        if let Err(error) = ended.await {
            tracing::debug!(%peer, %error, "a client's connection broke");
        }
    }
}

/// One client's connection.
struct Visit<'a, S> {
    server: &'a SmtpServer<S>,
    peer: IpAddr,
    stopped: watch::Receiver<bool>,
    dialogue: Dialogue,
}

impl<S: Submit> Visit<'_, S> {
    /// Reads and answers until the dialogue is over (false), or TLS begins (true).
    async fn talk(
        &mut self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ) -> io::Result<bool> {
        let server = self.server;
        let mut buffer = vec![0; READ];
        let memory = &*server.settings.memory;
        let Ok(mut held) = memory.try_acquire_many(0) else { return Ok(false) };
        let (mut until, mut content_until) = (Instant::now() + FIRST_COMMAND, None);
        self.flush(stream).await?;
        while !self.dialogue.is_over() {
            let is_receiving = self.dialogue.is_receiving();
            let read = tokio::select! {
                biased;
                () = stop(&mut self.stopped), if !is_receiving => Err(STOPPED),
                read = timeout_at(until, stream.read(&mut buffer)) => {
                    read.map_err(|_| "421 4.4.2 nothing complete came in time")
                }
            };
            let count = match read {
                Ok(Ok(0)) => return Ok(false),
                Ok(count) => count?,
                Err(answer) => {
                    self.dialogue.close(answer);
                    0
                }
            };
            let mut rest = &buffer[..count];
            let mut is_answered = self.flush(stream).await?;
            while !rest.is_empty() && !self.dialogue.is_over() {
                let has_room = hold(memory, &mut held, self.dialogue.wants(rest.len()));
                match self.dialogue.input(&mut rest, has_room) {
                    Some(Event::StartTls) => return self.flush(stream).await,
                    Some(Event::Login(credentials)) => self.login(credentials).await,
                    Some(Event::Submit(submission)) => {
                        self.dialogue.submitted(server.submit.submit(submission).await);
                        content_until = None;
                    }
                    None => {}
                }
                is_answered |= self.flush(stream).await?;
            }
            hold(memory, &mut held, self.dialogue.wants(0));
            let now = Instant::now();
            if self.dialogue.is_receiving() {
                until = (*content_until.get_or_insert(now + CONTENT)).min(now + SILENCE);
            } else {
                content_until = None;
                // A command has its time from the last answer on, however its bytes come.
                until = if is_answered { now + COMMAND } else { until };
            }
        }
        let end = async {
            stream.shutdown().await?;
            while stream.read(&mut buffer).await? > 0 {}
            io::Result::Ok(())
        };
        // Whoever does not hang up is hung up on.
        timeout(LINGER, end).await.unwrap_or(Ok(())).map(|()| false)
    }

    /// Writes the answers, if there are some.
    async fn flush(&mut self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<bool> {
        let answers = take(&mut self.dialogue.answers);
        if !answers.is_empty() {
            timeout(COMMAND, async {
                stream.write_all(answers.as_bytes()).await?;
                stream.flush().await
            })
            .await??;
        }
        Ok(!answers.is_empty())
    }

    async fn login(&mut self, Credentials { user, password }: Credentials) {
        let Some(logins) = &self.server.settings.logins else {
            return self.dialogue.logged_in(None);
        };
        let turn = tokio::select! {
            biased;
            () = stop(&mut self.stopped) => return self.dialogue.close(STOPPED),
            turn = logins.turn(self.peer) => turn,
        };
        let Some(turn) = turn else {
            return self.dialogue.close("421 4.7.0 too many failed logins from your address");
        };
        let admits = |keys: &KeyPairs| keys.admits(&user, &password).then_some(()).ok_or(());
        let is_right = turn.check(&user, admits).is_ok();
        self.dialogue.logged_in(is_right.then_some(user));
    }
}

/// Holds permits for so many bytes from now on. False if there are not enough: then for as many as before.
fn hold<'a>(memory: &'a Semaphore, held: &mut SemaphorePermit<'a>, bytes: usize) -> bool {
    if let Some(fewer) = held.num_permits().checked_sub(bytes) {
        return held.split(fewer).is_some();
    }
    let more = u32::try_from(bytes - held.num_permits()).ok();
    let more = more.and_then(|more| memory.try_acquire_many(more).ok());
    more.map(|more| held.merge(more)).is_some()
}

/// Returns once the server stops, or is dropped.
async fn stop(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
}
