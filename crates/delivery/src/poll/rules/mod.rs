//! The optional rules of the poller, each with its own state and settings, and the steps in which they are asked.
//!
//! A new rule is a struct in a file of its subject, with its `mod` line, its field in [`Rules`], and a line in each step that it takes part in.
//! Feed and drain run side by side, so the state of a rule is in cells.

mod breaker;
mod bucket;
mod cancels;
mod deduplication;
pub(super) mod effect;
mod exclusions;
mod idle;
mod large;
mod refusals;
mod store;

use std::time::Duration;

use breaker::BreakerRule;
use bucket::SharedBucket;
use cancels::CancelledMail;
use deduplication::SendMarks;
pub(super) use effect::{Effect, EndedSend, Fate, Kept, Leave, MailStep, NextRule, SendStep};
use exclusions::ExcludedRecipients;
use futures_channel::mpsc::UnboundedSender;
use futures_util::FutureExt as _;
use futures_util::future::{LocalBoxFuture, OptionFuture, join4};
use idle::IdleQueues;
use large::LargeMail;
use refusals::RefusalsInARow;
use store::MailToStore;
use tidegate_core::control::Control;

use super::context::Context;
use super::limits::LimitRule;
use super::settle::Job;
use super::sources::message::{Message, Rejected};
use super::sources::supply::PollVerdict;
use crate::ports::{Environment, LedgerReport};

/// The rules of one window.
pub(super) struct Rules<'a, E: Environment> {
    cancels: CancelledMail<'a, E>,
    exclusions: ExcludedRecipients<'a, E>,
    store: MailToStore<'a, E>,
    bucket: SharedBucket<'a, E>,
    limits: LimitRule<'a, E>,
    refusals: RefusalsInARow<'a, E>,
    large: LargeMail<'a, E>,
    marks: SendMarks<'a, E>,
    breaker: BreakerRule<'a, E>,
    idle: IdleQueues<'a, E>,
}

impl<'a, E: Environment> Rules<'a, E> {
    pub(super) fn new(ctx: &'a Context<'a, E>, jobs: &UnboundedSender<Job>) -> Self {
        Self {
            cancels: CancelledMail::new(ctx, jobs),
            exclusions: ExcludedRecipients::new(ctx),
            store: MailToStore::new(ctx),
            bucket: SharedBucket::new(ctx),
            limits: LimitRule::new(ctx),
            refusals: RefusalsInARow::new(ctx),
            large: LargeMail::new(ctx),
            marks: SendMarks::new(ctx),
            breaker: BreakerRule::new(ctx),
            idle: IdleQueues::new(ctx),
        }
    }

    /// A mail came from its campaign's queue. With a merge queue the feed asks this before it moves the mail.
    ///
    /// Cancelled mail and mail to excluded recipients is taken out first, and mail for the store before anything else
    /// is done with it.
    pub(super) fn collect(&self, mail: Box<Message>) -> MailStep<'a> {
        let mail = self.cancels.collected(mail)?;
        let mail = self.exclusions.collected(mail)?;
        let mail = self.store.collected(mail)?;
        let mail = self.bucket.collected(mail)?;
        self.refusals.collected(&mail);
        Ok(mail)
    }

    /// A message of a campaign's queue is no valid mail. Whether it may be dead-lettered; if not, it is left, and its
    /// queue is asked no more in this window.
    pub(super) fn may_reject(&self, rejected: &Rejected) -> bool {
        self.refusals.may_reject(rejected)
    }

    /// Whether the window should receive further mail.
    pub(super) fn want_mail(&self) -> bool {
        self.breaker.wants_mail()
    }

    /// A queue answered a receive; `long` is a long poll. See `poll::limits::idle_key` for the names of
    /// queues that are no campaign's.
    pub(super) fn answered(&self, queue: &str, verdict: PollVerdict, long: bool) {
        self.idle.answered(queue, verdict, long);
    }

    /// A mail is at hand for the slots of this window, and its campaign is not held. One that a rule kept goes on with
    /// the `next` one.
    ///
    /// A large mail's content is fetched, and a mail marked, only if its limits let it through and it is not left behind a
    /// probe. A mail that is moved or shown again then, or whose content does not come, has no mark. The breaker asks for a prober once there is a mail that may be sent.
    pub(super) fn admit(
        &self,
        mut mail: Box<Message>,
        next: NextRule,
        effects: &mut Vec<Effect>,
    ) -> MailStep<'a> {
        if next <= NextRule::First {
            mail = self.cancels.received(mail, effects)?;
            mail = self.exclusions.received(mail, effects)?;
            mail = self.store.received(mail, effects)?;
            mail = self.bucket.received(mail, effects)?;
        }
        if next <= NextRule::Limits {
            mail = self.limits.received(mail, effects)?;
            mail = self.refusals.received(mail, effects)?;
            mail = self.large.received(mail)?;
        }
        if next <= NextRule::Marks {
            mail = self.marks.received(mail)?;
        }
        if next <= NextRule::Breaker {
            mail = self.breaker.received(mail, effects)?;
        }
        Ok(mail)
    }

    /// A send ended.
    pub(super) fn ended(&self, send: Box<EndedSend>, effects: &mut Vec<Effect>) -> SendStep<'a> {
        let mut send = self.bucket.ended(send, effects)?;
        self.limits.ended(&send);
        self.refusals.ended(&mut send, effects);
        self.breaker.ended(send, effects)
    }

    /// The time after which a mail that is left is visible again; `None` if no rule has a say. Where the shared bucket is
    /// lost, it says so, whatever a limit would say.
    pub(super) fn shown_after(&self, mail: &Message) -> Option<Duration> {
        self.bucket.shown_after().or_else(|| self.limits.shown_after(mail))
    }

    /// Work that has to be done before the job that settles a mail may run.
    pub(super) fn before_settling(
        &self,
        mail: &Message,
        fate: &Fate,
    ) -> Option<LocalBoxFuture<'a, ()>> {
        self.marks.before_settling(mail, fate)
    }

    /// Work beside the slots, begun with the window.
    pub(super) fn beside(&self) -> impl Future<Output = ()> + use<'a, E> {
        let cancels = OptionFuture::from(self.cancels.beside());
        let exclusions = OptionFuture::from(self.exclusions.beside());
        let limits = OptionFuture::from(self.limits.beside());
        join4(cancels, exclusions, limits, self.idle.beside()).map(drop)
    }

    /// The last send has ended: the rules hand over what they still keep.
    pub(super) fn slots_over(&self) -> Vec<Effect> {
        let mut effects = self.limits.slots_over();
        effects.extend(self.breaker.slots_over());
        effects
    }

    /// Feed and drain have ended. The work has until 8.5 s after the window's close (`MOVED`); then its jobs are run.
    /// An upload to the store comes after the last slot, and so delays no send.
    pub(super) async fn close(&self) -> Vec<Job> {
        let mut jobs = self.bucket.closes();
        self.idle.closes();
        jobs.extend(self.cancels.closes());
        jobs.extend(self.exclusions.closes());
        jobs.extend(self.store.closes().await);
        jobs
    }

    /// Changes the control record; the changes of all rules are written together.
    pub(super) fn conclude(&self, control: &mut Control) {
        self.cancels.concludes(control);
        self.refusals.concludes(control);
        self.breaker.concludes(control);
    }

    /// Whether a rule wrote the control record in this window, so that the claim's copy is too old.
    pub(super) fn wrote_control(&self) -> bool {
        self.breaker.wrote_control()
    }

    /// Adds the rules' part to the ledger's report. The idle queues come last: they may take back a report that says
    /// nothing.
    pub(super) fn report(&self, entry: &mut LedgerReport) {
        self.limits.report(entry);
        self.idle.report(entry);
        self.store.report(entry);
        self.large.report(entry);
    }
}
