//! Puts what clients hand over onto its queues, and counts it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;
use tidegate_adapters::aws::SystemEntropy;
use tidegate_core::ses_request::{SesContent, SesDestination, SesRequest};
use tidegate_delivery::ports::{Clock, Entropy as _};
use tokio::sync::watch;

use super::enqueue::Enqueuer;
use super::memory::KnownMails;
use super::refusal::Refusal;
use super::submission::{PreparedMail, SmtpMail, Submission, SubmissionRules, Submit};

/// A running relay, as HTTP and SMTP know it.
pub(super) struct Relay<C> {
    pub(super) rules: watch::Receiver<Arc<SubmissionRules>>,
    enqueuer: Enqueuer,
    known: Mutex<KnownMails>,
    /// Mails since the relay began, by outcome.
    pub(super) counts: Mutex<BTreeMap<&'static str, u64>>,
    pub(super) clock: C,
}

impl<C: Clock> Relay<C> {
    pub(super) fn new(
        rules: watch::Receiver<Arc<SubmissionRules>>,
        enqueuer: Enqueuer,
        clock: C,
    ) -> Self {
        Self { rules, enqueuer, known: Mutex::default(), counts: Mutex::default(), clock }
    }

    /// Puts a mail onto its queue; its identities once SQS has acknowledged it: one for each 50 recipients.
    pub(super) async fn submit(&self, submission: Submission) -> Result<Vec<String>, Refusal> {
        let taken = self.take(submission).await;
        let outcome: &'static str = taken.as_ref().map_or_else(Into::into, |_| "accepted");
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(outcome).or_default() +=
            1;
        if taken.is_err() {
            tracing::info!(reason = outcome, "a mail is refused");
        }
        taken
    }

    async fn take(&self, submission: Submission) -> Result<Vec<String>, Refusal> {
        let rules = Arc::clone(&self.rules.borrow());
        let mails = rules.prepare(submission, &SystemEntropy.token())?;
        let ids = mails.iter().map(|mail| mail.id.clone()).collect();
        let now = self.clock.monotonic();
        let is_known = |mail: &PreparedMail| {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.admits(&mail.id, mail.content, now)
        };
        if !mails.iter().all(is_known) {
            let fault = "this id came before with another mail; give each mail its own";
            return Err(Refusal::Invalid(fault.to_owned()));
        }
        // All of them are waited for, since those that are under way arrive all the same.
        let put =
            mails.into_iter().map(|mail| self.enqueuer.put(mail.queue, mail.message, mail.object));
        join_all(put).await.into_iter().collect::<Result<(), _>>().map(|()| ids)
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
