//! Puts what clients hand over onto its queues, and counts it.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::try_join_all;
use tidegate_adapters::aws::SystemEntropy;
use tidegate_core::ses_request::{SesContent, SesDestination, SesRequest};
use tidegate_delivery::ports::{Clock, Entropy as _, Monotonic};
use tokio::sync::watch;

use super::enqueue::Enqueuer;
use super::memory::AcceptedMails;
use super::submission::{Door, PreparedMail, Refusal, SmtpMail, Submission, Submit};
use crate::redact::AddressVisibility;

/// A running relay, as HTTP and SMTP know it.
pub(super) struct Relay<C> {
    pub(super) door: watch::Receiver<Arc<Door>>,
    enqueuer: Enqueuer,
    accepted: Mutex<AcceptedMails>,
    pub(super) counts: Mutex<Counts>,
    pub(super) clock: C,
}

/// Mails since the relay began, for its metrics.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) accepted: u64,
    pub(super) invalid: u64,
    pub(super) not_allowed: u64,
    pub(super) too_large: u64,
    pub(super) busy: u64,
}

impl<C: Clock> Relay<C> {
    pub(super) fn new(door: watch::Receiver<Arc<Door>>, enqueuer: Enqueuer, clock: C) -> Self {
        Self { door, enqueuer, accepted: Mutex::default(), counts: Mutex::default(), clock }
    }

    /// Puts a mail onto its queue; its identities once SQS has acknowledged it: one for each 50 recipients.
    pub(super) async fn submit(&self, submission: Submission) -> Result<Vec<String>, Refusal> {
        let taken = self.take(submission).await;
        let outcome = taken.as_ref().map(drop);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.of(outcome) += 1;
        if let Err(refusal) = outcome {
            let reason = AddressVisibility::Masked.within(&refusal.to_string());
            tracing::info!(reason, "a mail is refused");
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
        try_join_all(mails.into_iter().map(|mail| self.put(mail))).await?;
        Ok(ids)
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

impl Counts {
    fn of(&mut self, outcome: Result<(), &Refusal>) -> &mut u64 {
        match outcome {
            Ok(()) => &mut self.accepted,
            Err(Refusal::Invalid(_)) => &mut self.invalid,
            Err(Refusal::NotAllowed(_)) => &mut self.not_allowed,
            Err(Refusal::TooLarge { .. }) => &mut self.too_large,
            Err(Refusal::Busy(_)) => &mut self.busy,
        }
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
