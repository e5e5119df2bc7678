//! Puts what clients hand over onto its queues, and counts it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;
use tidegate_adapters::aws::SystemEntropy;
use tidegate_core::ses_request::{SesContent, SesDestination, SesRequest};
use tidegate_delivery::ports::{Clock, Entropy as _, Monotonic};
use tokio::sync::watch;

use super::enqueue::Enqueuer;
use super::memory::AcceptedMails;
use super::submission::{Door, PreparedMail, Refusal, SmtpMail, Submission, Submit};

/// A running relay, as HTTP and SMTP know it.
pub(super) struct Relay<C> {
    pub(super) door: watch::Receiver<Arc<Door>>,
    enqueuer: Enqueuer,
    accepted: Mutex<AcceptedMails>,
    /// Mails since the relay began, by outcome.
    pub(super) counts: Mutex<BTreeMap<&'static str, u64>>,
    pub(super) clock: C,
}

impl<C: Clock> Relay<C> {
    pub(super) fn new(door: watch::Receiver<Arc<Door>>, enqueuer: Enqueuer, clock: C) -> Self {
        Self { door, enqueuer, accepted: Mutex::default(), counts: Mutex::default(), clock }
    }

    /// Puts a mail onto its queue; its identities once SQS has acknowledged it: one for each 50 recipients.
    pub(super) async fn submit(&self, submission: Submission) -> Result<Vec<String>, Refusal> {
        let taken = self.take(submission).await;
        let outcome = taken.as_ref().map_or_else(Refusal::kind, |_| "accepted");
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(outcome).or_default() +=
            1;
        if taken.is_err() {
            tracing::info!(reason = outcome, "a mail is refused");
        }
        taken
    }

    async fn take(&self, submission: Submission) -> Result<Vec<String>, Refusal> {
        let door = Arc::clone(&self.door.borrow());
        let mails = door.prepare(submission, SystemEntropy.token())?;
        let ids = mails.iter().map(|mail| mail.id.clone()).collect();
        self.with_accepted(|accepted, now| {
            let known = |mail: &PreparedMail| accepted.admits(&mail.id, &mail.content, now);
            mails.iter().all(known).then_some(()).ok_or_else(|| {
                Refusal::Invalid(
                    "this id came before with another mail; give each mail its own".to_owned(),
                )
            })
        })?;
        // All of them are waited for, since those that are under way arrive all the same.
        let put = join_all(mails.into_iter().map(|mail| self.put(mail))).await;
        put.into_iter().collect::<Result<(), _>>().map(|()| ids)
    }

    async fn put(&self, mail: PreparedMail) -> Result<(), Refusal> {
        self.enqueuer.put(mail.queue, mail.message).await?;
        self.with_accepted(|accepted, now| accepted.accepted(mail.id, mail.content, now));
        Ok(())
    }

    fn with_accepted<R>(&self, act: impl FnOnce(&mut AcceptedMails, Monotonic) -> R) -> R {
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut accepted, self.clock.monotonic())
    }
}

/// The request of a MIME message with its envelope.
pub(super) fn raw(from: String, to: Vec<String>, data: Vec<u8>) -> SesRequest {
    let destination = SesDestination { to, ..SesDestination::default() };
    SesRequest::new(from, destination, SesContent::Raw(data))
}

impl<C: Clock + Sync> Submit for Relay<C> {
    async fn submit(&self, mail: SmtpMail) -> Result<String, Refusal> {
        let SmtpMail { user, from, to, data } = mail;
        let request = raw(from, to, data);
        let ids = self.submit(Submission { user, retry_key: None, request }).await?;
        Ok(ids.join(", "))
    }
}
