use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::App;
use super::auth::Credential;

/// Longest time for a connection's first byte, for a request's head, for an answer to be read, and
/// between requests.
pub(super) const SILENCE: Duration = Duration::from_secs(10);

/// A reason for which a client may be silent, for as long as it is held.
#[derive(Debug)]
pub(super) enum Excuse {
    /// We work on an answer, of which the head is not ready.
    Answer,
    /// An event stream is open, by this credential.
    Stream(Credential),
}

/// The excuses of one connection. An answer that waits to be read is none: a client that reads nothing,
/// such as one with an HTTP/2 window of 0 bytes, would keep its connection for ever.
#[derive(Clone, Debug, Default)]
pub(super) struct Excuses {
    /// Notified when a request comes, and when the head of its answer is ready.
    begun: Arc<Notify>,
    held: Arc<Mutex<Vec<Weak<Excuse>>>>,
}

impl Excuses {
    /// Adds an excuse, until the result is dropped.
    pub(super) fn add(&self, excuse: Excuse) -> Arc<Excuse> {
        let excuse = Arc::new(excuse);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|excuse| excuse.strong_count() > 0);
        held.push(Arc::downgrade(&excuse));
        excuse
    }

    /// Excuses the client until the head of its answer is ready. Then it has [`SILENCE`] to read it.
    pub(super) async fn until_head<T>(&self, answer: impl Future<Output = T>) -> T {
        let excuse = self.add(Excuse::Answer);
        self.begun.notify_one();
        let answer = answer.await;
        drop(excuse);
        self.begun.notify_one();
        answer
    }

    /// Waits until for [`SILENCE`] there was no excuse, and nothing begun.
    pub(super) async fn silent(&self) {
        loop {
            let is_excused = self.has(|_| true);
            if timeout(SILENCE, self.begun.notified()).await.is_err() && !is_excused {
                return;
            }
        }
    }

    /// Waits until a stream has outlived its session by [`SILENCE`]. Its next event would have ended it, so
    /// its client does not read.
    pub(super) async fn outlived(&self, app: &App) {
        let mut outlives = false;
        loop {
            sleep(SILENCE).await;
            let outlived = outlives;
            outlives = self.has(|excuse| match excuse {
                Excuse::Answer => false,
                Excuse::Stream(credential) => !app.is_good(credential),
            });
            if outlived && outlives {
                return;
            }
        }
    }

    fn has(&self, is: impl Fn(&Excuse) -> bool) -> bool {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().filter_map(Weak::upgrade).any(|excuse| is(&excuse))
    }
}
