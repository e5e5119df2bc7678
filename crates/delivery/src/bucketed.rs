//! A mailer that sends what the shared bucket grants: where other software sends from the same account.

use std::error::Error as StdError;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::bucket::{LOST, REFUSED};
use tidegate_core::config::BucketLost;
use tidegate_core::outcome::{Failure, Stage};

use crate::ports::{Answer, Bucket, Mail, Mailer, Monotonic, PortError, TakeRequest, Takes};

/// How long a bucket that did not answer is not asked again, then by one mail alone: a window's
/// length, so that an outage costs each window one time limit and one event, not one a mail.
const LEFT_ALONE: Duration = Duration::from_secs(1);

/// A [`Mailer`] around a mailer: each mail takes its recipients from the shared bucket first, in its
/// slot. What is not granted fails as a send that never left us, so that its mail waits for a later slot.
#[derive(Debug)]
pub struct Bucketed<M, B> {
    mailer: M,
    bucket: B,
    lost: BucketLost,
    state: Mutex<BucketedState>,
}

#[derive(Debug, Default)]
struct BucketedState {
    takes: Takes,
    /// Slots before this ask nobody: the bucket is out of reach.
    left_alone_until: Option<Monotonic>,
}

/// What a bucket's answer means for a send.
enum TakeVerdict {
    Given,
    Refused(Failure),
}

impl<M, B> Bucketed<M, B> {
    /// `mailer`, for what `bucket` grants; `lost` says what becomes of mail while it does not answer.
    pub fn new(mailer: M, bucket: B, lost: BucketLost) -> Self {
        Self { mailer, bucket, lost, state: Mutex::default() }
    }

    /// Never held across a wait.
    fn state(&self) -> MutexGuard<'_, BucketedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the send of this slot asks the bucket, and whether it is the one that tries whether the
    /// bucket is back.
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

    /// The bucket does not answer: it is left alone for a while, which is said once.
    fn lose(&self, slot: Monotonic, tries: bool, error: &PortError) -> TakeVerdict {
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

    /// A send without a bucket. Whoever has just found it out of reach stops its window; whoever did not
    /// ask waits for a slot that does.
    fn without(&self, has_asked: bool) -> TakeVerdict {
        self.state().takes.lost += 1;
        match self.lost {
            BucketLost::Open => TakeVerdict::Given,
            BucketLost::Closed => {
                let code = if has_asked { LOST } else { REFUSED };
                TakeVerdict::Refused(withheld(code, "the shared bucket is out of reach".to_owned()))
            }
        }
    }
}

impl<M: Mailer, B: Bucket> Bucketed<M, B> {
    async fn leave(&self, mail: &Mail<'_>, slot: Monotonic) -> TakeVerdict {
        let (asks, tries) = self.asks(slot);
        if !asks {
            return self.without(false);
        }
        let recipients = mail.email.recipients();
        let request = TakeRequest {
            pace: mail.pace,
            wanted: recipients,
            least: recipients,
            domains: mail.domains,
        };
        let answer = self.bucket.take(&request).await.map(|taken| taken.answer);
        if answer.is_ok() {
            self.state().left_alone_until = None;
        }
        match answer {
            Ok(Answer::Granted(_)) => TakeVerdict::Given,
            Ok(Answer::Refused { after, by }) => {
                self.state().takes.refused += 1;
                let by = by.map_or_else(|| "the account".to_owned(), |name| format!("\"{name}\""));
                let said = format!("the shared bucket of {by} is empty for {after:?}");
                TakeVerdict::Refused(withheld(REFUSED, said))
            }
            Err(error) => self.lose(slot, tries, &error),
        }
    }
}

impl<M: Mailer, B: Bucket> Mailer for Bucketed<M, B> {
    async fn send(&self, mail: Mail<'_>, latest: Monotonic) -> Result<String, Failure> {
        match self.leave(&mail, latest).await {
            TakeVerdict::Given => self.mailer.send(mail, latest).await,
            TakeVerdict::Refused(failure) => Err(failure),
        }
    }

    async fn warm(&self, connections: usize) {
        futures_util::future::join(self.mailer.warm(connections), self.bucket.warm()).await;
    }

    fn takes(&self) -> Takes {
        let (ours, inner) = (self.state().takes, self.mailer.takes());
        Takes { refused: ours.refused + inner.refused, lost: ours.lost + inner.lost }
    }
}

/// A mailer with or without a shared bucket, as the configuration says.
#[derive(Debug)]
pub enum MaybeBucketed<M, B> {
    /// By its own slots alone: nobody else sends.
    Alone(M),
    /// What the shared bucket grants.
    Shared(Bucketed<M, B>),
}

impl<M: Mailer, B: Bucket> Mailer for MaybeBucketed<M, B> {
    async fn send(&self, mail: Mail<'_>, latest: Monotonic) -> Result<String, Failure> {
        match self {
            Self::Alone(mailer) => mailer.send(mail, latest).await,
            Self::Shared(mailer) => mailer.send(mail, latest).await,
        }
    }

    async fn warm(&self, connections: usize) {
        match self {
            Self::Alone(mailer) => mailer.warm(connections).await,
            Self::Shared(mailer) => mailer.warm(connections).await,
        }
    }

    fn takes(&self) -> Takes {
        match self {
            Self::Alone(mailer) => mailer.takes(),
            Self::Shared(mailer) => mailer.takes(),
        }
    }
}

fn withheld(code: &str, message: String) -> Failure {
    Failure { http_status: None, code: Some(code.to_owned()), message, stage: Stage::NotSent }
}

#[cfg(test)]
mod tests;
