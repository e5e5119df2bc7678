//! A mailer that sends only the mails for which the shared bucket grants recipients. It is needed if other
//! software sends from the same SES account.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::bucket::{LOST, REFUSED};
use tidegate_core::config::BucketLost;
use tidegate_core::outcome::{Failure, Stage};

use crate::ports::{
    Answer, Bucket, LimitTake, Mail, Mailer, Monotonic, PortError, SendAnswer, TakeRequest, Takes,
    Writer,
};

/// After a take without an answer the bucket is not asked for this long; then one mail alone tries again. It
/// is a window's length, so an outage costs each window one time limit (300 ms) and one log event, instead
/// of one per mail.
const LEFT_ALONE: Duration = Duration::from_secs(1);
/// The most recipients kept of whom it is known that they have had enough, at some 100 bytes each. Beyond them any one is
/// forgotten, whose next mail finds it out in a slot; the mail that was refused just now stays away in any case.
const MOST_AWAY: usize = 10_000;

/// A [`Mailer`] around another one: in its slot, each mail first takes its recipients from the shared
/// bucket. If they are not granted, the send fails with [`Stage::NotSent`], so the mail waits for a later
/// slot. Without a shared bucket each mail is sent at once.
#[derive(Debug)]
pub struct Bucketed<M, B> {
    mailer: M,
    shared: Option<SharedBucket<B>>,
}

#[derive(Debug)]
struct SharedBucket<B> {
    bucket: B,
    lost: BucketLost,
    state: Mutex<BucketState>,
}

#[derive(Debug, Default)]
struct BucketState {
    takes: Takes,
    /// Sends whose slots are before this do not ask the bucket, because it did not answer a moment ago.
    left_alone_until: Option<Monotonic>,
    /// By bucket, recipients who have had as many mails as their limit allows, and when they may have another.
    away_until: BTreeMap<String, Monotonic>,
}

impl<M, B> Bucketed<M, B> {
    /// Wraps `mailer`. `lost` decides while `bucket` does not answer: send without it (open) or do not send
    /// (closed).
    pub fn new(mailer: M, bucket: B, lost: BucketLost) -> Self {
        Self { mailer, shared: Some(SharedBucket { bucket, lost, state: Mutex::default() }) }
    }

    /// Wraps `mailer` without a bucket: no other software sends from the account, and Tidegate's own slots
    /// alone set the pace.
    pub fn alone(mailer: M) -> Self {
        Self { mailer, shared: None }
    }
}

impl<B: Bucket> SharedBucket<B> {
    /// No caller may hold the lock across an await point.
    fn state(&self) -> MutexGuard<'_, BucketState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the send of this slot asks the bucket, and whether it is the one send that tries if
    /// the bucket answers again.
    ///
    /// For example, a take fails in the slot at 0.0 s: the sends up to 0.9 s do not ask, the one at 1.0 s
    /// tries (true, true), and the next ones do not ask until 2.0 s or until the try was answered.
    fn asks(&self, slot: Monotonic) -> (bool, bool) {
        let mut state = self.state();
        match state.left_alone_until {
            None => (true, false),
            Some(until) if slot < until => (false, false),
            Some(_) => {
                state.left_alone_until = Some(slot + LEFT_ALONE);
                (true, true)
            }
        }
    }

    /// Notes that the bucket did not answer. The event is logged once per [`LEFT_ALONE`], by the send that
    /// found it out.
    fn lose(&self, slot: Monotonic, tries: bool, error: &PortError) -> Result<(), Failure> {
        let is_news = {
            let mut state = self.state();
            let known = state.left_alone_until.is_some_and(|until| slot < until);
            if !known {
                state.left_alone_until = Some(slot + LEFT_ALONE);
            }
            tries || !known
        };
        let error: &dyn StdError = error;
        match self.lost {
            BucketLost::Closed if is_news => {
                tracing::error!(error, "shared bucket out of reach: nothing is sent");
            }
            BucketLost::Open if is_news => {
                tracing::warn!(error, "shared bucket out of reach: sent by our own slots alone");
            }
            _ => {}
        }
        self.without(true)
    }

    /// Whether a send goes on without the bucket's answer. If the policy is closed, the code tells the
    /// poller what to do: after `LOST` it stops the window, after `REFUSED` the mail waits for another slot.
    fn without(&self, has_asked: bool) -> Result<(), Failure> {
        self.state().takes.lost += 1;
        match self.lost {
            BucketLost::Open => Ok(()),
            BucketLost::Closed => {
                let code = if has_asked { LOST } else { REFUSED };
                Err(withheld(code, "the shared bucket is out of reach".to_owned()))
            }
        }
    }

    /// Takes the mail's recipients from the bucket, or says why the mail is not sent in this slot.
    async fn take(&self, mail: &Mail<'_>, slot: Monotonic) -> Result<(), Failure> {
        let (asks, tries) = self.asks(slot);
        if !asks {
            return self.without(false);
        }
        let recipients = mail.content.slots();
        let request = TakeRequest {
            pace: mail.pace,
            wanted: recipients,
            least: recipients,
            limits: mail.takes,
        };
        let answer = self.bucket.take(&request).await.map(|taken| taken.answer);
        if answer.is_ok() {
            self.state().left_alone_until = None;
        }
        match answer {
            Ok(Answer::Granted(_)) => Ok(()),
            Ok(Answer::Refused { after, by }) => {
                self.state().refused(mail.takes, by.as_deref(), slot, after);
                let by = by.map_or_else(|| "the account".to_owned(), |name| format!("\"{name}\""));
                let said = format!("the shared bucket of {by} is empty for {after:?}");
                Err(withheld(REFUSED, said))
            }
            Err(error) => self.lose(slot, tries, &error),
        }
    }
}

impl BucketState {
    fn refused(&mut self, takes: &[LimitTake], by: Option<&str>, at: Monotonic, after: Duration) {
        self.takes.refused += 1;
        let by = takes.iter().find(|take| take.is_of_recipient && Some(take.name.as_str()) == by);
        let Some(by) = by else { return };
        if self.away_until.len() >= MOST_AWAY {
            self.away_until.retain(|_, until| *until > at);
        }
        if self.away_until.len() >= MOST_AWAY {
            self.away_until.pop_first();
        }
        self.away_until.insert(by.name.clone(), at + after);
        tracing::info!(?after, "a recipient has had as many mails as the limit allows");
    }
}

impl<M: Mailer, B: Bucket> Mailer for Bucketed<M, B> {
    async fn send(&self, mail: Mail<'_>, latest: Monotonic) -> SendAnswer {
        if let Some(shared) = &self.shared
            && let Err(failure) = shared.take(&mail, latest).await
        {
            return SendAnswer { start: None, result: Err(failure) };
        }
        self.mailer.send(mail, latest).await
    }

    fn writer(&self) -> Writer {
        self.mailer.writer()
    }

    async fn warm(&self, connections: usize) {
        let mailer = self.mailer.warm(connections);
        match &self.shared {
            Some(shared) => {
                futures_util::future::join(mailer, shared.bucket.warm()).await;
            }
            None => mailer.await,
        }
    }

    fn away(&self, takes: &[LimitTake], at: Monotonic) -> Option<Duration> {
        let state = self.shared.as_ref().filter(|_| !takes.is_empty())?.state();
        let until = takes.iter().filter_map(|take| state.away_until.get(&take.name)).max()?;
        Some(until.saturating_since(at)).filter(|left| !left.is_zero())
    }

    fn takes(&self) -> Takes {
        let shared = self.shared.as_ref().map(|shared| shared.state().takes).unwrap_or_default();
        let inner = self.mailer.takes();
        Takes { refused: shared.refused + inner.refused, lost: shared.lost + inner.lost }
    }
}

fn withheld(code: &str, message: String) -> Failure {
    Failure { http_status: None, code: Some(code.to_owned()), message, stage: Stage::NotSent }
}

#[cfg(test)]
mod tests;
