//! The step that follows each answer of SES to a send.

use std::rc::Rc;
use std::time::Duration;

use tidegate_core::config::{DECIDED, Unsent};
use tidegate_core::control::HoldReason;
use tidegate_core::counters::Counter;
use tidegate_core::deduplication::Acceptance;
use tidegate_core::identity::EpochMillis;
use tidegate_core::limiter::Line;
use tidegate_core::outcome::{Failure, Outcome};
use tidegate_core::waits::bucket;

use super::state::Drain;
use crate::poll::rules::{EndedSend, Fate, Kept};
use crate::poll::running_means::UnsentContent;
use crate::poll::settle::Job;
use crate::poll::sources::message::{Message, accepted, give_up, log, put_back, receipt, retry};
use crate::poll::sources::supply::KeptMail;
use crate::poll::{control_record, record};
use crate::ports::{Entropy as _, Environment, QueueUrl};

impl<E: Environment> Drain<'_, E> {
    /// Takes a send that ended, and passes it through the rules.
    pub(super) fn sent(&mut self, mut send: EndedSend) {
        let failure = send.result.as_ref().err();
        if failure.is_none_or(|(failure, _)| failure.http_status.is_some()) {
            self.result.answers.0 += send.latency;
            self.result.answers.1 += 1;
            let ctx = self.ctx;
            ctx.running_means.answered(send.latency, ctx.monotonic());
        }
        record::note(self.ctx, &send);
        record::note_span(self.ctx, &send);
        send.is_held = self.is_held(&send.message);
        let mut effects = Vec::new();
        let step = self.rules.ended(Box::new(send), &mut effects);
        self.apply(effects);
        match step {
            Ok(send) => self.decide(*send),
            Err(Kept::Later(work)) => {
                self.begin(KeptMail::default(), work);
            }
            Err(Kept::Gone | Kept::Left) => {}
        }
    }

    /// Decides the next step of a mail whose send ended.
    pub(super) fn decide(&mut self, send: EndedSend) {
        let EndedSend { message, result, latency, counts, .. } = send;
        let (failure, outcome) = match result {
            Ok(ses_message_id) => return self.accepted(&message, &ses_message_id, latency),
            Err(failed) => failed,
        };
        match outcome {
            Outcome::NotSent => {
                self.ctx.count(Counter::Late, 1);
                self.wait_again(message);
            }
            Outcome::RateExceeded => self.refused(&message, &failure),
            Outcome::Permanent | Outcome::OptedOut if counts => {
                self.give_up(&message, &failure, outcome);
            }
            Outcome::Environment => self.leave_to_others(&message, &failure),
            Outcome::DailyQuotaExceeded
            | Outcome::AccountPaused
            | Outcome::SpendLimit
            | Outcome::Tenant => self.hold(&message, &failure, outcome),
            // NotReady, Transient, Ambiguous: what may pass; and Permanent, OptedOut of a probe: it stays with its campaign.
            _ => self.retry_or_give_up(&message, &failure, outcome, counts),
        }
    }

    fn accepted(&mut self, message: &Message, ses_message_id: &str, latency: Duration) {
        let (ctx, campaign) = (self.ctx, &message.envelope.campaign);
        let recipients = message.recipients();
        // Timed mail waits from its time on.
        let since = message.content.not_before().max(Some(message.envelope.enqueued_at));
        let waited =
            ctx.now().saturating_since(since.unwrap_or(message.envelope.enqueued_at).into());
        ctx.count(Counter::Mails, 1);
        ctx.count_for(Counter::Sent, campaign, recipients);
        let is_bulk = message.limit_queue.is_none() && message.line != Line::Express;
        if is_bulk && message.envelope.pass == 0 {
            ctx.count(Counter::First, recipients);
            ctx.count(Counter::FirstWaited, waited.as_secs() * recipients);
        }
        if message.line == Line::Express && message.envelope.pass == 0 {
            ctx.count_for(Counter::ExpressWaits, &bucket(waited), 1);
        }
        *self.result.waited.entry(campaign.clone()).or_default() +=
            waited.mul_f64(message.content.slots().into());
        if matches!(message.line, Line::Limited(_)) {
            *self.result.limited.entry(campaign.clone()).or_insert(0) += recipients;
        }
        self.take(message);
        let job = accepted(message, ses_message_id, latency);
        let (at, ses_message_id) = (EpochMillis::from(ctx.now()), ses_message_id.to_owned());
        let fate = Fate::Sent(Acceptance { at, ses_message_id });
        self.settle(message, Some(fate), Some(job));
    }

    /// Lets a mail whose request was never written wait for a later slot.
    pub(super) fn wait_again(&mut self, message: Box<Message>) {
        if message.line != Line::Express {
            self.for_campaigns = self.for_campaigns.saturating_add(message.recipients());
        }
        if self.is_held(&message) {
            self.put_back(&message);
        } else {
            self.wait_for_slot(message);
        }
    }

    /// SES refused for the rate: the slot is spent, the mail becomes visible again in 1 or 2 s, and this
    /// window starts no further send. Only the window's first refusal asks for a lower rate factor.
    fn refused(&mut self, message: &Message, failure: &Failure) {
        let ctx = self.ctx;
        log(message, failure, Outcome::RateExceeded, "kept");
        let is_first = ctx.counts.borrow().of(Counter::Refused) == 0;
        ctx.count_for(Counter::Refused, &message.envelope.campaign, 1);
        self.take(message);
        self.not_used(message);
        let seconds = if ctx.env.entropy.unit() < 0.5 { 1 } else { 2 };
        let job = Job::Show(receipt(&message.held, true), Duration::from_secs(seconds));
        self.settle(message, Some(Fate::Unsent), Some(job));
        if is_first {
            self.begin_own(async move {
                ctx.within(DECIDED, control_record::lower_factor(ctx)).await;
            });
        }
        self.stop();
    }

    /// The fault is this environment's, not the mail's: it is shown again after 2 s, in which another environment may have
    /// it, and after 4, 8 and 16 s if it meets such a fault again.
    fn leave_to_others(&mut self, message: &Message, failure: &Failure) {
        log(message, failure, Outcome::Environment, "left");
        self.failed(Outcome::Environment);
        self.count_left(message);
        self.not_used(message);
        let seconds = 1 << message.held.receive_count.clamp(1, 4);
        let job = Job::Show(receipt(&message.held, true), Duration::from_secs(seconds));
        self.settle(message, Some(Fate::Unsent), Some(job));
    }

    fn failed(&self, outcome: Outcome) {
        self.ctx.count_for(Counter::Failed, outcome.as_str(), 1);
        if outcome == Outcome::Ambiguous {
            self.ctx.count(Counter::PossiblySent, 1);
        }
    }

    fn give_up(&mut self, message: &Message, failure: &Failure, outcome: Outcome) {
        let ctx = self.ctx;
        self.failed(outcome);
        ctx.count_for(Counter::Dead, &message.envelope.campaign, 1);
        self.take(message);
        let now = EpochMillis::from(ctx.now());
        let job = give_up(message, failure, outcome, &ctx.plan.dead_letter, now);
        let parked = || Fate::Parked(message.envelope.clone().parked().pass);
        let fate = if outcome.possibly_sent() { parked() } else { Fate::Unsent };
        self.settle(message, Some(fate), Some(job));
    }

    /// Decides on a failure that may pass; if it `counts`, it was an attempt.
    fn retry_or_give_up(
        &mut self,
        message: &Message,
        failure: &Failure,
        outcome: Outcome,
        counts: bool,
    ) {
        let ctx = self.ctx;
        if counts && message.envelope.next_attempt() >= ctx.config.max_attempts {
            return self.give_up(message, failure, outcome);
        }
        self.failed(outcome);
        let Some(queue) = self.home(message) else {
            return self.leave(message);
        };
        ctx.count(Counter::Retried, 1);
        self.take(message);
        let (at, jitter) = (EpochMillis::from(ctx.now()), ctx.env.entropy.unit());
        let job = retry(message, failure, outcome, &queue, at, jitter, counts);
        // A mail that was possibly sent keeps its mark: the poller that receives it next must know.
        let fate = (!outcome.possibly_sent()).then_some(Fate::Unsent);
        self.settle(message, fate, Some(job));
    }

    fn hold(&mut self, message: &Message, failure: &Failure, outcome: Outcome) {
        log(message, failure, outcome, "held");
        self.failed(outcome);
        let reason = match outcome {
            Outcome::DailyQuotaExceeded => HoldReason::DailyQuota,
            Outcome::AccountPaused => HoldReason::Account,
            Outcome::SpendLimit => HoldReason::SpendLimit,
            _ => HoldReason::Tenant,
        };
        let is_all = outcome != Outcome::Tenant;
        if is_all {
            self.stop();
        }
        let campaign = (!is_all).then(|| message.envelope.campaign.clone());
        let code = failure.code.as_deref().unwrap_or("");
        let mut detail = format!("{code}: {}", failure.message);
        if let Some(tenant) = message.tenant.as_ref().filter(|_| reason == HoldReason::Tenant) {
            detail = format!("tenant {tenant}, let it send or associate what it lacks: {detail}");
        }
        self.ask_to_hold(campaign, reason, detail);
        self.leave(message);
    }

    /// Notes that a campaign's mail exceeds what the daily quota leaves to this window. If it exceeds the
    /// window's whole allowance, campaigns are held for the day.
    pub(super) fn end_the_day(&mut self, recipients: u64) {
        let plan = self.ctx.plan;
        if recipients > plan.for_campaigns {
            self.ask_to_hold(None, HoldReason::DailyBudget, plan.day_in_words());
        }
    }

    pub(super) fn put_back(&mut self, message: &Message) {
        match self.home(message) {
            Some(queue) => {
                self.ctx.count(Counter::PutBack, 1);
                self.take(message);
                let job = put_back(message, &queue);
                self.settle(message, Some(Fate::Unsent), Some(job));
            }
            None => self.leave(message),
        }
    }

    /// The queue to which a mail is put back: its campaign's, or express. None if the campaign is not
    /// configured.
    fn home(&self, message: &Message) -> Option<QueueUrl> {
        let plan = self.ctx.plan;
        match message.line {
            Line::Express => plan.express.clone(),
            Line::Campaign(_) | Line::Limited(_) => {
                plan.campaign(&message.envelope.campaign).map(|c| c.queue.clone())
            }
        }
    }

    /// Counts a mail as gone from the merge queue or its limit queue, for good or until it is received
    /// again: the reported depth must not include mail that no poller can receive.
    pub(super) fn take(&self, message: &Message) {
        if self.is_merged(message.line) {
            self.ctx.count(Counter::Taken, message.recipients());
        }
        self.ctx.limits.note(message.limit_queue, |moves| moves.taken += message.recipients());
    }

    /// Leaves a mail that got no slot. `slots_left` says whether some were: then a mail of several recipients came too late
    /// for so many, and its visibility timeout, of whole seconds, would bring it back as late in another window, for hours.
    /// It is shown to the next window's poller at once.
    pub(super) fn leave_unused(&mut self, message: &Message, slots_left: bool) {
        if message.line == Line::Express {
            return self.hand_over(message);
        }
        self.not_used(message);
        let is_late = slots_left && message.recipients() > 1;
        self.leave_until(message, is_late.then_some(Duration::ZERO));
    }

    /// Shows an express mail that came too late for this window to the next one's poller, which waits for
    /// it, whatever `TIDEGATE_UNSENT` says. It does not count as left: it waits for one call.
    pub(super) fn hand_over(&mut self, message: &Message) {
        let after = self.rules.shown_after(message).unwrap_or_default();
        let job = Job::Show(receipt(&message.held, true), after);
        self.settle(message, Some(Fate::Unsent), Some(job));
    }

    /// Leaves a mail to its visibility timeout, or makes it visible at once if `TIDEGATE_UNSENT` is
    /// `release`.
    pub(super) fn leave(&mut self, message: &Message) {
        self.leave_until(message, None);
    }

    pub(super) fn leave_until(&mut self, message: &Message, shown: Option<Duration>) {
        self.count_left(message);
        if let Some(key) = message.content_key().filter(|_| message.ahead.request.is_some()) {
            let (ahead, since) = (Rc::clone(&message.ahead), self.ctx.monotonic());
            self.ctx.running_means.keep_unsent(UnsentContent { key, ahead, since });
        }
        let after = self.rules.shown_after(message);
        let is_released = self.ctx.config.unsent == Unsent::Release;
        let released = is_released.then_some(Duration::ZERO);
        let job = after.or(shown).or(released);
        let job = job.map(|after| Job::Show(receipt(&message.held, true), after));
        if job.is_none() {
            self.ctx.free();
        }
        self.settle(message, Some(Fate::Unsent), job);
    }

    /// Leaves a mail to its visibility timeout, whatever the settings. It has no mark.
    pub(super) fn leave_hidden(&self, message: &Message) {
        self.ctx.count(Counter::Left, 1);
        self.take(message);
        self.ctx.free();
    }

    fn count_left(&self, message: &Message) {
        let ctx = self.ctx;
        ctx.count(Counter::Left, 1);
        self.take(message);
        if matches!(message.line, Line::Limited(_)) {
            ctx.limits.note_left(message.held.queue.as_str());
        }
        if let Some(place) = message.limit_queue {
            ctx.count_for(Counter::LimitLeft, ctx.plan.limits.name(place), 1);
        }
    }

    /// Lets the rules do their work for a mail that has come to its end, then runs the job `then`.
    fn settle(&mut self, message: &Message, fate: Option<Fate>, then: Option<Job>) {
        let rules = &self.rules;
        let Some(work) = fate.and_then(|fate| rules.before_settling(message, &fate)) else {
            return then.into_iter().for_each(|job| self.job(job));
        };
        let jobs = self.jobs();
        self.begin_own(async move {
            work.await;
            if let Some(job) = then {
                let _ = jobs.unbounded_send(job);
            }
        });
    }
}
