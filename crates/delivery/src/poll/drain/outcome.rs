//! What follows from SES's answer to a send.

use std::time::Duration;

use tidegate_core::config::Unsent;
use tidegate_core::control::HoldReason;
use tidegate_core::limiter::Line;
use tidegate_core::outcome::{Failure, Outcome, classify};

use super::Sent;
use super::state::Drain;
use crate::environment::Environment;
use crate::poll::changes::Change;
use crate::poll::message::Message;
use crate::poll::outcome::{accepted, give_up, log, put_back, receipt, retry};
use crate::poll::settle::Job;
use crate::ports::{Entropy as _, QueueUrl};

impl<E: Environment> Drain<'_, E> {
    /// Notes what SES said of a send.
    pub(super) fn sent(&mut self, sent: Sent) {
        let Sent { message, result, latency } = sent;
        let failure = match result {
            Ok(ses_message_id) => {
                self.answered(latency);
                self.done.mails += 1;
                let campaign = message.envelope.campaign.clone();
                *self.done.sent.entry(campaign).or_insert(0) += message.recipients();
                self.take(&message);
                return self.job(accepted(&message, &ses_message_id, latency));
            }
            Err(failure) => failure,
        };
        let outcome = classify(&failure);
        if failure.http_status.is_some() {
            self.answered(latency);
        }
        match outcome {
            Outcome::NotSent => self.wait_again(message),
            Outcome::RateExceeded => self.refused(&message, &failure),
            Outcome::Permanent => self.give_up(&message, &failure, outcome),
            Outcome::Transient | Outcome::Ambiguous => self.fail(&message, &failure, outcome),
            Outcome::DailyQuotaExceeded
            | Outcome::AccountPaused
            | Outcome::Credentials
            | Outcome::Deployment => self.hold(&message, &failure, outcome),
        }
    }

    fn answered(&mut self, latency: Duration) {
        self.done.latency_sum += latency;
        self.done.answers += 1;
        self.ctx.learned.answered(latency, self.ctx.monotonic());
    }

    /// It was too late for its slot and never left us: a later slot takes it.
    fn wait_again(&mut self, message: Box<Message>) {
        *self.done.failed.entry(Outcome::NotSent.as_str()).or_insert(0) += 1;
        self.wait(message);
    }

    /// The slot is spent; the mail is visible again in 1 or 2 s; this window starts no more.
    fn refused(&mut self, message: &Message, failure: &Failure) {
        log(message, failure, Outcome::RateExceeded, "kept");
        self.done.refused += 1;
        self.take(message);
        self.not_used(message);
        let seconds = if self.ctx.env.entropy().unit() < 0.5 { 1 } else { 2 };
        self.job(Job::Show(receipt(&message.held, true), Duration::from_secs(seconds)));
        if !self.stopped {
            self.changes.push(Change::Refused);
        }
        self.stop();
    }

    fn give_up(&mut self, message: &Message, failure: &Failure, outcome: Outcome) {
        *self.done.failed.entry(outcome.as_str()).or_insert(0) += 1;
        self.done.dead += 1;
        self.take(message);
        let dead_letters = &self.ctx.plan.dead_letter;
        self.job(give_up(message, failure, outcome, dead_letters, self.now_millis()));
    }

    fn fail(&mut self, message: &Message, failure: &Failure, outcome: Outcome) {
        if message.envelope.attempt + 1 >= self.ctx.config.max_attempts {
            return self.give_up(message, failure, outcome);
        }
        *self.done.failed.entry(outcome.as_str()).or_insert(0) += 1;
        let Some(queue) = self.home(message) else {
            return self.leave(message);
        };
        self.done.retried += 1;
        self.take(message);
        let jitter = self.ctx.env.entropy().unit();
        self.job(retry(message, failure, outcome, &queue, self.now_millis(), jitter));
    }

    fn hold(&mut self, message: &Message, failure: &Failure, outcome: Outcome) {
        log(message, failure, outcome, "held");
        *self.done.failed.entry(outcome.as_str()).or_insert(0) += 1;
        let reason = match outcome {
            Outcome::DailyQuotaExceeded => HoldReason::DailyQuota,
            Outcome::AccountPaused => HoldReason::Account,
            Outcome::Credentials => HoldReason::Credentials,
            _ => HoldReason::Deployment,
        };
        let campaign =
            (reason == HoldReason::Deployment).then(|| message.envelope.campaign.clone());
        match &campaign {
            Some(name) => drop(self.held.insert(name.clone())),
            None => self.stop(),
        }
        let code = failure.code.as_deref().unwrap_or("");
        let detail = format!("{code}: {}", failure.message);
        self.changes.push(Change::Hold { campaign, reason, detail });
        self.leave(message);
    }

    fn stop(&mut self) {
        self.stopped = true;
        self.limiter.stop();
    }

    pub(super) fn put_back(&mut self, message: &Message) {
        match self.home(message) {
            Some(queue) => {
                self.done.put_back += 1;
                self.take(message);
                self.job(put_back(message, &queue));
            }
            None => self.leave(message),
        }
    }

    /// The queue a mail goes back to: its campaign's, or express.
    fn home(&self, message: &Message) -> Option<QueueUrl> {
        match message.line {
            Line::Express => self.ctx.plan.express.clone(),
            Line::Campaign(_) => {
                self.ctx.plan.campaign(&message.envelope.campaign).map(|c| c.queue.clone())
            }
        }
    }

    /// Counts a mail that leaves the merge queue, for good or until it is received once more: the
    /// feed must not count on what nobody can receive.
    fn take(&mut self, message: &Message) {
        if self.is_merged(message.line) {
            self.done.taken += message.recipients();
        }
    }

    pub(super) fn is_merged(&self, line: Line) -> bool {
        self.ctx.plan.merge.is_some() && line != Line::Express
    }

    /// Left to the visibility timeout, or made visible at once.
    pub(super) fn leave(&mut self, message: &Message) {
        self.done.left += 1;
        self.take(message);
        match self.ctx.config.unsent {
            Unsent::Release => self.job(Job::Show(receipt(&message.held, true), Duration::ZERO)),
            Unsent::Timeout => self.buffered.set(self.buffered.get().saturating_sub(1)),
        }
    }
}
