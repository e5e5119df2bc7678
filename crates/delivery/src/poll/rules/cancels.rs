//! Cancelled mail: it is not sent, but deleted, or dead-lettered where the cancel keeps it.
//!
//! A cancel holds its campaign. So its mail in the merge queue and the limit queues goes back to the campaign's
//! queue, and this policy takes it off that queue, 10 messages at a time, beside the slots. Once a window finds
//! none of it there, the hold is lifted. Mail that no receive could reach by then is stopped on its way to a
//! slot: it was invisible, delayed for a retry, on a limit queue, or deferred. Where the mail is kept, somebody waits
//! for it: a campaign is held until what its pollers had received is visible again, since a paused one is asked by
//! nobody else. Express mail is not held for so long.
//!
//! Mail that was enqueued after the cancel is left alone. Example: a queue has 12 cancelled mails and 3 newer ones.
//! The first window deletes 12 and shows 3 again at its end; the next one finds 3 newer ones, shows them again,
//! and lifts the hold; the one after that sends them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::rc::Rc;
use std::time::Duration;

use futures_channel::mpsc::UnboundedSender;
use futures_util::FutureExt as _;
use futures_util::future::{LocalBoxFuture, join_all};
use tidegate_core::Timestamp;
use tidegate_core::allocation::BATCH;
use tidegate_core::config::EXPRESS;
use tidegate_core::control::{Cancel, Control, HoldReason};
use tidegate_core::counters::Counter;
use tidegate_core::limiter::Line;

use super::{Effect, Kept, MailStep};
use crate::poll::context::{Context, Wait};
use crate::poll::settle::Job;
use crate::poll::sources::message::{Message, Source, cancelled, read, receipt, reject};
use crate::ports::{Environment, Monotonic, QueueUrl, Received, VISIBLE_AGAIN};

/// The sweep of a queue starts no receive later than this before the window's close.
const LAST_RECEIVE: Duration = Duration::from_millis(100);
/// Messages that a window takes off one queue at most: their deletes fit into the poller's remaining time.
const MOST: usize = 2_500;

/// Takes cancelled mail out.
pub(crate) struct CancelledMail<'a, E: Environment> {
    sweep: Rc<Sweep<'a, E>>,
    /// The way to settling for the sweep, until it begins; none if no queue is swept.
    jobs: RefCell<Option<UnboundedSender<Job>>>,
    /// The jobs of mail that the feed brought, until the window closes.
    collected: RefCell<Vec<Job>>,
}

impl<'a, E: Environment> CancelledMail<'a, E> {
    pub(crate) fn new(ctx: &'a Context<'a, E>, jobs: &UnboundedSender<Job>) -> Self {
        let is_open = ctx.plan.control.open_cancels().next().is_some();
        Self {
            sweep: Rc::new(Sweep { ctx, cleared: RefCell::default() }),
            jobs: RefCell::new(is_open.then(|| jobs.clone())),
            collected: RefCell::default(),
        }
    }

    pub(super) fn collected(&self, mail: Box<Message>) -> MailStep<'a> {
        let Some(cancel) = self.sweep.cancel_of(&mail) else { return Ok(mail) };
        let job = self.sweep.take_out(&mail, cancel, false);
        self.collected.borrow_mut().push(job);
        Err(Kept::Gone)
    }

    pub(super) fn received(&self, mail: Box<Message>, effects: &mut Vec<Effect>) -> MailStep<'a> {
        let Some(cancel) = self.sweep.cancel_of(&mail) else { return Ok(mail) };
        let job = self.sweep.take_out(&mail, cancel, true);
        effects.push(Effect::Settle(mail, job));
        Err(Kept::Gone)
    }

    pub(super) fn beside(&self) -> Option<LocalBoxFuture<'a, ()>> {
        let (sweep, jobs) = (Rc::clone(&self.sweep), self.jobs.take()?);
        let all = async move {
            let swept = sweep.campaigns().into_iter().map(async |(name, sources, cancel)| {
                let queues = sources.iter().map(|source| sweep.queue(source, cancel, &jobs));
                let is_clear = join_all(queues).await.into_iter().all(|is_clear| is_clear);
                if is_clear && !sweep.awaits_more(&name, cancel) {
                    sweep.cleared.borrow_mut().insert(name, cancel);
                }
            });
            join_all(swept).await;
        };
        Some(all.boxed_local())
    }

    pub(super) fn closes(&self) -> Vec<Job> {
        self.collected.take()
    }

    pub(super) fn concludes(&self, control: &mut Control) {
        for (campaign, cancel) in &*self.sweep.cleared.borrow() {
            // A newer cancel is not done with.
            if control.cancels.get(campaign) == Some(cancel) {
                control.lift(Some(campaign), HoldReason::Cancelled);
            }
        }
    }
}

/// Takes the mail of open cancels off its campaigns' queues.
struct Sweep<'a, E: Environment> {
    ctx: &'a Context<'a, E>,
    /// The campaigns whose queues were found without cancelled mail, and the cancel.
    cleared: RefCell<BTreeMap<String, Cancel>>,
}

impl<E: Environment> Sweep<'_, E> {
    /// The cancel that concerns a mail.
    fn cancel_of(&self, mail: &Message) -> Option<Cancel> {
        let cancel = self.ctx.plan.control.cancels.get(&mail.envelope.campaign)?;
        cancel.concerns(mail.envelope.enqueued_at).then_some(*cancel)
    }

    /// The campaigns to sweep, with their queues. One that is not listed any more has none.
    fn campaigns(&self) -> Vec<(String, Vec<Source>, Cancel)> {
        let (plan, config) = (self.ctx.plan, self.ctx.config);
        let express = || {
            let queue = QueueUrl::new(config.express_queue_url.as_deref()?);
            Some(vec![Source::express(queue)])
        };
        let listed = |name| {
            let campaign = plan.campaign(name)?;
            let queues = campaign.queues.iter();
            Some(queues.map(|queue| Source::campaign(campaign, queue, Line::Express)).collect())
        };
        let open = plan.control.open_cancels().filter_map(|(name, cancel)| {
            let sources = if name == EXPRESS { express() } else { listed(name) };
            Some((name.to_owned(), sources?, cancel))
        });
        open.collect()
    }

    /// Whether mail that is to be kept may be in the hands of pollers that did not know of the cancel.
    fn awaits_more(&self, campaign: &str, cancel: Cancel) -> bool {
        let until = Timestamp::from(cancel.at) + VISIBLE_AGAIN;
        cancel.keep && campaign != EXPRESS && self.ctx.plan.window.opens() < until
    }

    /// Takes the cancelled mail off one queue until the window closes. Returns whether it has none.
    async fn queue(&self, source: &Source, cancel: Cancel, jobs: &UnboundedSender<Job>) -> bool {
        let (mut taken, mut newer, mut is_empty) = (0, Vec::new(), false);
        while self.ctx.now() + LAST_RECEIVE < self.ctx.plan.window.closes() && taken < MOST {
            let (pause, wait) = (Duration::ZERO, Wait::Within);
            let (long, result) = self.ctx.receive(&source.queue, BATCH, pause, wait).await;
            let (messages, since) = result.unwrap_or_else(|error| {
                let (campaign, error) = (&source.campaign, &error as &dyn StdError);
                tracing::error!(campaign, error, "cancelled mail is not taken off");
                (Vec::new(), self.ctx.monotonic())
            });
            if messages.is_empty() {
                // Only a long poll asks all of SQS's servers. A failed receive is no long poll.
                is_empty = long;
                break;
            }
            for message in messages {
                match self.judge(message, source, cancel, since) {
                    Ok(job) => {
                        taken += 1;
                        let _ = jobs.unbounded_send(job);
                    }
                    // Hidden until the window's end, so that the next receive brings others.
                    Err(shown) => newer.push(shown),
                }
            }
        }
        let is_clear = taken == 0 && (is_empty || !newer.is_empty());
        for job in newer {
            let _ = jobs.unbounded_send(job);
        }
        is_clear
    }

    /// The job for a message of a swept queue; as an error the one that shows a newer mail again.
    fn judge(
        &self,
        message: Received,
        source: &Source,
        cancel: Cancel,
        since: Monotonic,
    ) -> Result<Job, Job> {
        match read(self.ctx, message, source, since) {
            Ok(mail) if cancel.concerns(mail.envelope.enqueued_at) => {
                Ok(self.take_out(&mail, cancel, false))
            }
            Ok(mail) => Err(Job::Show(receipt(&mail.held, false), Duration::ZERO)),
            Err(rejected) => {
                self.ctx.count_for(Counter::Dead, &rejected.envelope.campaign, 1);
                Ok(reject(&rejected, &self.ctx.plan.dead_letter, false))
            }
        }
    }

    /// Counts a cancelled mail, and makes the job that deletes or dead-letters it.
    fn take_out(&self, mail: &Message, cancel: Cancel, buffered: bool) -> Job {
        self.ctx.count_for(Counter::Cancelled, &mail.envelope.campaign, 1);
        if cancel.keep {
            self.ctx.count_for(Counter::Dead, &mail.envelope.campaign, 1);
        }
        cancelled(mail, cancel.keep.then_some(&self.ctx.plan.dead_letter), buffered)
    }
}
