//! The step that follows each answer of SES to a send.

use std::time::Duration;

use tidegate_core::bucket;
use tidegate_core::config::Unsent;
use tidegate_core::control::HoldReason;
use tidegate_core::limiter::Line;
use tidegate_core::outcome::{Failure, Outcome, classify};
use tidegate_core::refusals::Run;

use super::FinishedSend;
use super::deduplication::Fate;
use super::domains::is_kept_close;
use super::state::{Drain, DrainStage};
use crate::environment::Environment;
use crate::poll::changes::Change;
use crate::poll::domains::DomainMoves;
use crate::poll::message::Message;
use crate::poll::outcome::{accepted, give_up, log, put_back, receipt, retry};
use crate::poll::settle::Job;
use crate::ports::{Entropy as _, QueueUrl};

/// Once the breaker has a reason to block, an older look at it is not relied on.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Mail that a window leaves because the shared bucket does not answer is visible again after this: the
/// visibility timeout of 30 s would be longer than most failures of the bucket.
const SHOWN_AFTER: Duration = Duration::from_secs(2);

impl<E: Environment> Drain<'_, E> {
    /// Takes a finished send: counts its outcome and decides the message's next step.
    pub(super) fn sent(&mut self, sent: FinishedSend) {
        let FinishedSend { message, result, latency } = sent;
        let failure = match result {
            Ok(ses_message_id) => {
                self.answered(latency);
                self.note(None);
                self.run_of(&message).accepted();
                self.done.mails += 1;
                let campaign = message.envelope.campaign.clone();
                let waited = self.ctx.now().saturating_since(message.envelope.enqueued_at.into());
                let bulk = message.domain.is_none() && message.line != Line::Express;
                if bulk && message.envelope.pass == 0 {
                    self.done.first.0 += message.recipients();
                    self.done.first.1 += waited.as_secs() * message.recipients();
                }
                *self.done.waited.entry(campaign.clone()).or_default() +=
                    waited.mul_f64(message.email.recipients().into());
                if matches!(message.line, Line::Limited(_)) {
                    *self.done.limited.entry(campaign.clone()).or_insert(0) += message.recipients();
                }
                *self.done.sent.entry(campaign).or_insert(0) += message.recipients();
                self.take(&message);
                let job = accepted(&message, &ses_message_id, latency);
                return self.settle(&message, Some(Fate::Sent), Some(job));
            }
            Err(failure) => failure,
        };
        let outcome = classify(&failure);
        if failure.http_status.is_some() {
            self.answered(latency);
        }
        self.note(Some(outcome));
        match outcome {
            Outcome::NotSent => self.wait_again(message, &failure),
            Outcome::RateExceeded => self.refused(&message, &failure),
            Outcome::Permanent => {
                self.refused_for_good(&message, &failure);
                self.give_up(&message, &failure, outcome);
            }
            Outcome::Transient | Outcome::Ambiguous => self.fail(message, failure, outcome),
            Outcome::DailyQuotaExceeded
            | Outcome::AccountPaused
            | Outcome::Credentials
            | Outcome::Deployment => self.hold(&message, &failure, outcome),
        }
    }

    fn answered(&mut self, latency: Duration) {
        self.done.latency_sum += latency;
        self.done.answers += 1;
        self.ctx.running_means.answered(latency, self.ctx.monotonic());
    }

    /// Lets a mail whose request was never written wait for a later slot: it was too late for its slot, or
    /// the shared bucket did not grant it.
    fn wait_again(&mut self, message: Box<Message>, failure: &Failure) {
        // The mailer counts what the bucket did not grant.
        self.done.late += u64::from(!bucket::withheld(failure));
        if message.line != Line::Express {
            self.for_campaigns = self.for_campaigns.saturating_add(message.recipients());
        }
        if self.is_held(&message) {
            self.put_back(&message);
        } else if bucket::lost(failure) {
            // This window starts no further send; the next one asks the bucket again.
            self.bucket_lost = true;
            self.not_used(&message);
            self.leave(&message);
            self.stop();
        } else {
            self.wait_for_slot(message);
        }
    }

    /// SES refused for the rate: the slot is spent, the mail becomes visible again in 1 or 2 s, and this
    /// window starts no further send. Only the window's first refusal asks for a lower rate factor.
    fn refused(&mut self, message: &Message, failure: &Failure) {
        log(message, failure, Outcome::RateExceeded, "kept");
        self.done.refused += 1;
        self.take(message);
        self.not_used(message);
        let seconds = if self.ctx.env.entropy().unit() < 0.5 { 1 } else { 2 };
        let job = Job::Show(receipt(&message.held, true), Duration::from_secs(seconds));
        self.settle(message, Some(Fate::Unmarked), Some(job));
        if self.done.refused == 1 {
            self.changes.push(Change::Refused);
        }
        self.stop();
    }

    fn give_up(&mut self, message: &Message, failure: &Failure, outcome: Outcome) {
        *self.done.failed.entry(outcome.as_str()).or_insert(0) += 1;
        self.done.dead += 1;
        self.take(message);
        let dead_letters = &self.ctx.plan.dead_letter;
        let job = give_up(message, failure, outcome, dead_letters, self.now_millis());
        let parked = || Fate::Parked(message.envelope.clone().parked().pass);
        let fate = if outcome.possibly_sent() { parked() } else { Fate::Unmarked };
        self.settle(message, Some(fate), Some(job));
    }

    /// Counts a permanent refusal. Ten with one code in a row hold the campaign: the fault is the
    /// campaign's, not its mails'. Fewer are added to the count of the windows before when the window ends,
    /// which may reach ten too.
    fn refused_for_good(&mut self, message: &Message, failure: &Failure) {
        let campaign = &message.envelope.campaign;
        if self.held.contains(campaign) {
            return;
        }
        let run = self.run_of(message);
        run.refused(failure.code.as_deref().unwrap_or_default());
        if let Some(streak) = run.last().filter(|streak| streak.holds()) {
            let detail = streak.in_words();
            self.done.noted.runs.remove(campaign);
            self.held.insert(campaign.clone());
            self.ask_to_hold(Some(campaign.clone()), HoldReason::Refusals, detail);
        }
    }

    fn run_of(&mut self, message: &Message) -> &mut Run {
        self.done.noted.runs.entry(message.envelope.campaign.clone()).or_default()
    }

    /// Decides on a transient or ambiguous failure. It counts as an attempt only while the breaker allows.
    /// If the breaker has a reason to watch and its state was read more than 1 s ago, the mail waits for a
    /// new look.
    fn fail(&mut self, message: Box<Message>, failure: Failure, outcome: Outcome) {
        let (allowing, seen) = self.allowing;
        let old = self.ctx.monotonic().saturating_since(seen) > LOOK_EVERY;
        if self.ctx.plan.is_watched() && allowing && old {
            if self.undecided.is_empty() {
                self.changes.push(Change::Look);
            }
            return self.undecided.push((message, failure, outcome));
        }
        self.retry_or_give_up(&message, &failure, outcome, allowing && !self.is_probing());
    }

    /// Notes the breaker's state from the ledger, and decides on the sends that waited for it.
    pub(super) fn allows(&mut self, allowing: bool) {
        self.allowing = (allowing, self.ctx.monotonic());
        self.decide(allowing);
    }

    /// Decides on the failed sends that waited for a look at the breaker; if `counted`, each was an
    /// attempt.
    pub(super) fn decide(&mut self, counted: bool) {
        for (message, failure, outcome) in std::mem::take(&mut self.undecided) {
            self.retry_or_give_up(&message, &failure, outcome, counted);
        }
    }

    fn retry_or_give_up(
        &mut self,
        message: &Message,
        failure: &Failure,
        outcome: Outcome,
        counted: bool,
    ) {
        let last = message.envelope.next_attempt() >= self.ctx.config.max_attempts;
        let counted = counted && !(last && self.ctx.plan.suspects_an_outage);
        if counted && last {
            return self.give_up(message, failure, outcome);
        }
        *self.done.failed.entry(outcome.as_str()).or_insert(0) += 1;
        let Some(queue) = self.home(message) else {
            return self.leave(message);
        };
        self.done.retried += 1;
        self.take(message);
        let when = (self.now_millis(), self.ctx.env.entropy().unit());
        let job = retry(message, failure, outcome, &queue, when, counted);
        // A mail that was possibly sent keeps its mark: the poller that receives it next must know.
        let fate = (!outcome.possibly_sent()).then_some(Fate::Unmarked);
        self.settle(message, fate, Some(job));
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
        self.ask_to_hold(campaign, reason, detail);
        self.leave(message);
    }

    /// Asks for a hold once a window: hundreds of mails in flight may get the same answer.
    fn ask_to_hold(&mut self, campaign: Option<String>, reason: HoldReason, detail: String) {
        if self.asked_to_hold.insert((campaign.clone(), reason)) {
            self.changes.push(Change::Hold { campaign, reason, detail });
        }
    }

    /// Notes that a campaign's mail exceeds what the daily quota leaves to this window. If it exceeds the
    /// window's whole allowance, campaigns are held for the day.
    pub(super) fn end_the_day(&mut self, recipients: u64) {
        if recipients > self.ctx.plan.for_campaigns {
            self.ask_to_hold(None, HoldReason::DailyBudget, self.ctx.plan.day_in_words());
        }
    }

    pub(super) fn stop(&mut self) {
        self.stage = self.stage.max(DrainStage::Stopped);
        self.limiter.stop();
    }

    pub(super) fn put_back(&mut self, message: &Message) {
        match self.home(message) {
            Some(queue) => {
                self.done.put_back += 1;
                self.take(message);
                let job = put_back(message, &queue);
                self.settle(message, Some(Fate::Unmarked), Some(job));
            }
            None => self.leave(message),
        }
    }

    /// The queue to which a mail is put back: its campaign's, or express. None if the campaign is not
    /// configured.
    fn home(&self, message: &Message) -> Option<QueueUrl> {
        match message.line {
            Line::Express => self.ctx.plan.express.clone(),
            Line::Campaign(_) | Line::Limited(_) => {
                self.ctx.plan.campaign(&message.envelope.campaign).map(|c| c.queue.clone())
            }
        }
    }

    /// Counts a mail as gone from the merge queue or its domain queue, for good or until it is received
    /// again: the reported depth must not include mail that no poller can receive.
    pub(super) fn take(&mut self, message: &Message) {
        if self.is_merged(message.line) {
            self.done.taken += message.recipients();
        }
        if let Some(place) = message.domain {
            DomainMoves::add(&mut self.done.domains.taken, place, message.recipients());
        }
    }

    pub(super) fn is_merged(&self, line: Line) -> bool {
        self.ctx.plan.merge.is_some() && matches!(line, Line::Campaign(_))
    }

    /// Leaves a mail to its visibility timeout, or makes it visible at once if `TIDEGATE_UNSENT` is
    /// `release`.
    pub(super) fn leave(&mut self, message: &Message) {
        self.leave_as(message, self.ctx.config.unsent);
    }

    /// Leaves a mail that got no slot. Express mail is made visible at once whatever the setting: express
    /// is for low latency, the next window's poller already asks for it, and it is a few mails at most.
    pub(super) fn leave_without_slot(&mut self, message: &Message) {
        let is_express = message.line == Line::Express;
        self.leave_as(message, if is_express { Unsent::Release } else { self.ctx.config.unsent });
    }

    fn leave_as(&mut self, message: &Message, unsent: Unsent) {
        self.done.left += 1;
        self.take(message);
        if let Some(place) = message.domain {
            DomainMoves::add(&mut self.done.domains.left, place, 1);
        }
        let unsent = if is_kept_close(message) { Unsent::Release } else { unsent };
        let after = match unsent {
            _ if self.bucket_lost => Some(SHOWN_AFTER),
            Unsent::Release => Some(Duration::ZERO),
            Unsent::Timeout => None,
        };
        let job = after.map(|after| Job::Show(receipt(&message.held, true), after));
        if job.is_none() {
            self.buffered.set(self.buffered.get().saturating_sub(1));
        }
        self.settle(message, Some(Fate::Unmarked), job);
    }
}
