use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::time::Duration;

use futures_util::future::{Either, select};
use tidegate_core::deduplication::MarkState;
use tidegate_core::identity::EpochMillis;
use tidegate_core::number::real;
use tidegate_delivery::poll::pack;
use tidegate_delivery::ports::{
    BATCH, Clock, History, Marks, Monotonic, Outgoing, PortError, QueueUrl, Queues, Received, Runs,
    VISIBILITY_TIMEOUT,
};

use super::read::{HiddenMessages, LetterProgress};
use super::report::{LetterAction, LetterError, LetterReport};
use super::review::{LetterWork, ReplayMail};
use crate::send::record_returned;
use crate::steer::Author;
use tidegate_core::format::counted;

/// The wait of a receive (a long poll), and the interval at which the campaign queues' depths are
/// read.
const WAIT: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// At a slow pace there are long pauses between batches. During these, visibility timeouts are
/// checked this often, so that none ends.
const RENEW_EVERY: Duration = Duration::from_secs(5);
/// A letter that is not found for longer than a visibility timeout is gone: within that time
/// another reader's receive could have hidden it.
const GIVE_UP: Duration = VISIBILITY_TIMEOUT.saturating_add(Duration::from_secs(5));
/// The number of attempts to delete a letter.
const DELETES: usize = 3;
/// The history's entries are cut to this many characters.
const MAX_DETAIL: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayPace {
    pub per_second: f64,
    /// The replay waits while a campaign's queue has this many more messages than at the beginning.
    pub backlog: u64,
}

impl ReplayPace {
    /// Of a discard, which sends nothing: it bounds only how many letters are received at once.
    pub const UNBOUNDED: Self = Self { per_second: 1_000.0, backlog: u64::MAX };

    /// Mails a second where nobody says how many: half the rate in force, or one where no rate is known.
    pub fn usual(in_force: Option<f64>) -> f64 {
        in_force.map_or(1.0, |in_force| in_force * 0.5)
    }
}

#[derive(Debug)]
pub struct LetterPorts<'a, Q, L, C> {
    pub queues: &'a Q,
    pub dead_letters: &'a QueueUrl,
    pub ledger: &'a L,
    pub clock: &'a C,
}

/// Does exactly what was reviewed, between two entries of the history; letters that arrived later are left alone.
///
/// A letter is deleted only after its campaign's queue has acknowledged the mail. If the process
/// dies in between, both exist. A second replay then sends the mail with the same identity and
/// pass: the merge queue drops the copy within 5 minutes, and deduplication drops it while it keeps
/// marks. Otherwise the mail is sent twice.
///
/// Of cancelled mails that are discarded the ledger is told first which rows of which run were taken back, so that
/// `tidegate send --rest-of` finds their recipients.
///
/// # Errors
/// [`LetterError`]: nothing was done, but for [`LetterError::Broken`].
pub async fn carry_out(
    site: &LetterPorts<'_, impl Queues, impl Marks + History + Runs, impl Clock>,
    work: &LetterWork,
    author: &Author,
    pace: ReplayPace,
    stop: impl Future<Output = ()>,
    progress: impl FnMut(LetterProgress),
) -> Result<LetterReport, LetterError> {
    if !(pace.per_second > 0.0 && pace.per_second.is_finite()) {
        return Err(LetterError::Rate(pace.per_second));
    }
    author.check()?;
    record_returned(site.ledger, &work.returned).await.map_err(LetterError::NotReturned)?;
    let LetterPorts { queues, dead_letters, ledger, clock } = *site;
    let action = work.action;
    let record = |detail: String| {
        let detail = detail.chars().take(MAX_DETAIL).collect();
        author.record(clock.wall().into(), action.into_str(), detail)
    };
    let (sends, drops) = (work.mails.len(), work.deletions.len());
    let begun = match action {
        LetterAction::Replay => {
            format!("begun: {sends} to send, {drops} to delete ({})", work.filter)
        }
        LetterAction::Discard => {
            format!("{} ({})", counted(drops as u64, "dead letter"), work.filter)
        }
    };
    ledger.add(&record(begun)).await.map_err(LetterError::NotRecorded)?;
    let began = clock.monotonic();
    let reason = author.reason.trim().to_owned();
    let (filter, by, of) = (work.filter.clone(), author.by.clone(), work.letters());
    let report = LetterReport { action, filter, by, reason, of, ..LetterReport::default() };
    let mut run = ReplayRun {
        site,
        hidden: HiddenMessages::of(queues, dead_letters),
        report,
        began: EpochMillis::from(clock.wall()),
        work: work.clone(),
        progress,
    };
    let ended = run.run(pace, pin!(stop)).await;
    let mut report = run.report;
    report.still_hidden = run.hidden.make_visible().await;
    report.took_s = clock.monotonic().saturating_since(began).as_secs();
    let end = format!("ended: {} of {sends} sent, {} deleted", report.sent, report.dropped);
    // A discard that came to what its one line says needs no other.
    let is_said = action == LetterAction::Discard && report.dropped == drops as u64;
    report.recorded = is_said || ledger.add(&record(end)).await.is_ok();
    match ended {
        Ok(()) => Ok(report),
        Err(source) => Err(LetterError::Broken { report: Box::new(report), source }),
    }
}

struct ReplayRun<'a, Q, L, C, P> {
    site: &'a LetterPorts<'a, Q, L, C>,
    /// The part that is left to do.
    work: LetterWork,
    hidden: HiddenMessages<'a, Q>,
    report: LetterReport,
    began: EpochMillis,
    progress: P,
}

struct BatchResult {
    reviewed: usize,
    others: usize,
    /// Whether the search makes progress: a reviewed letter was found, or an old one that was not
    /// received before.
    found_new: bool,
}

impl<Q: Queues, L: Marks, C: Clock, P: FnMut(LetterProgress)> ReplayRun<'_, Q, L, C, P> {
    async fn run(
        &mut self,
        pace: ReplayPace,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), PortError> {
        let LetterPorts { queues, dead_letters, clock, .. } = *self.site;
        let depths = self.depths().await?;
        let (mut next, mut look) = (clock.monotonic(), clock.monotonic() + LOOK_EVERY);
        let mut found_at = next;
        let mut most = batch(pace.per_second);
        while !(self.work.mails.is_empty() && self.work.deletions.is_empty()) {
            // Sleep until the next batch is due, but wake in between to renew visibility timeouts.
            let wake = next.min(clock.monotonic() + RENEW_EVERY);
            if let Either::Right(_) = select(pin!(clock.sleep_until(wake)), &mut stop).await {
                self.report.interrupted = true;
                return Ok(());
            }
            self.hidden.renew(clock.monotonic()).await;
            if wake < next {
                continue;
            }
            // From time to time: pause the replay while a campaign's queue has grown by more than the allowed backlog.
            if clock.monotonic() >= look {
                look = clock.monotonic() + LOOK_EVERY;
                let grown = |(queue, depth): (&QueueUrl, &u64)| {
                    depth.saturating_sub(depths.get(queue).copied().unwrap_or(0)) > pace.backlog
                };
                if self.depths().await?.iter().any(grown) {
                    self.report_progress(true);
                    (next, found_at) = (look, look);
                    continue;
                }
            }
            let since = clock.monotonic();
            let receive = pin!(queues.receive(dead_letters, most, WAIT));
            let received = match select(receive, &mut stop).await {
                Either::Left((received, _)) => received?,
                Either::Right(_) => {
                    self.report.interrupted = true;
                    return Ok(());
                }
            };
            // `stop` is not checked from here to the deletes: a mail that was sent and whose letter
            // remains would be sent again by the next replay.
            let batch_result = self.process(received, since).await?;
            let now = clock.monotonic();
            // If most letters are not reviewed ones, full batches find the others faster. The pace
            // still holds: the pause after a batch depends on the mails sent.
            let sparse = batch_result.others > batch_result.reviewed;
            most = if sparse { BATCH } else { batch(pace.per_second) };
            if batch_result.reviewed > 0 {
                // The next batch is due after the time that the mails of this one take at the pace.
                next = next.max(now) + seconds(batch_result.reviewed, pace.per_second);
            }
            if batch_result.found_new {
                found_at = next.max(now);
            } else if now.saturating_since(found_at) > GIVE_UP {
                self.report.not_found = (self.work.mails.len() + self.work.deletions.len()) as u64;
                return Ok(());
            }
            self.report_progress(false);
        }
        Ok(())
    }

    fn report_progress(&mut self, waits: bool) {
        (self.progress)(LetterProgress { done: self.report.done(), of: self.report.of, waits });
    }

    /// The depths of the queues that mails go to.
    async fn depths(&self) -> Result<BTreeMap<QueueUrl, u64>, PortError> {
        let mut depths = BTreeMap::new();
        for mail in self.work.mails.values() {
            if !depths.contains_key(&mail.queue) {
                let depth = self.site.queues.depth(&mail.queue).await?;
                depths.insert(mail.queue.clone(), depth.visible + depth.delayed);
            }
        }
        Ok(depths)
    }

    /// Replays the reviewed letters among `received`, and deletes those of mails that were sent.
    async fn process(
        &mut self,
        received: Vec<Received>,
        since: Monotonic,
    ) -> Result<BatchResult, PortError> {
        let (mut mails, mut drops) = (Vec::new(), Vec::new());
        let (all, mut found_new) = (received.len(), false);
        for message in received {
            // Letters that arrived after the begin do not count as progress of the search, because
            // new ones may keep coming.
            let is_old = message.sent_at_millis <= self.began.as_millis();
            found_new |= self.hidden.note(&message, since) && is_old;
            if let Some(mail) = self.work.mails.get(&message.message_id) {
                mails.push(mail.clone());
            } else if self.work.deletions.contains(&message.message_id) {
                drops.push(message.message_id);
            }
        }
        let reviewed = mails.len() + drops.len();
        let batch_result =
            BatchResult { reviewed, others: all - reviewed, found_new: found_new || reviewed > 0 };
        self.report.dropped += self.delete(drops).await;
        let mut by_queue: BTreeMap<QueueUrl, Vec<ReplayMail>> = BTreeMap::new();
        for mail in self.not_sent(mails).await? {
            by_queue.entry(mail.queue.clone()).or_default().push(mail);
        }
        for (queue, mails) in by_queue {
            for batch in pack(mails, |mail| mail.outgoing(EpochMillis::MAX).bytes()) {
                self.send(&queue, batch).await?;
            }
        }
        Ok(batch_result)
    }

    /// Filters out mails that were sent, or began to be sent, after the review.
    async fn not_sent(&mut self, mails: Vec<ReplayMail>) -> Result<Vec<ReplayMail>, PortError> {
        if !self.work.guarded || mails.is_empty() {
            return Ok(mails);
        }
        let identities: Vec<_> = mails.iter().map(|mail| mail.envelope.identity.clone()).collect();
        let found = self.site.ledger.find(&identities).await?;
        let now = self.site.clock.wall();
        let mut kept = Vec::with_capacity(mails.len());
        for (mail, mark) in mails.into_iter().zip(found) {
            let sent = mark.is_some_and(|mark| match mark.state {
                MarkState::Sent => true,
                MarkState::Sending => now.saturating_since(mark.since.into()) <= VISIBILITY_TIMEOUT,
                MarkState::Parked => false,
            });
            if sent {
                self.work.mails.remove(&mail.message_id);
                self.report.sent_meanwhile += 1;
            } else {
                kept.push(mail);
            }
        }
        Ok(kept)
    }

    async fn send(&mut self, queue: &QueueUrl, batch: Vec<ReplayMail>) -> Result<(), PortError> {
        let now = EpochMillis::from(self.site.clock.wall());
        let messages: Vec<Outgoing> = batch.iter().map(|mail| mail.outgoing(now)).collect();
        let sent = self.site.queues.send(queue, &messages).await.inspect_err(|_| {
            // SQS may have accepted the batch before its answer was lost.
            self.report.uncertain += batch.len() as u64;
        })?;
        let mut sent = sent.into_iter();
        // Removed before their letters are deleted: if a delete fails, the letter is received again
        // and must not be sent a second time in this run.
        for mail in &batch {
            self.work.mails.remove(&mail.message_id);
        }
        let (sent, refused): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|_| matches!(sent.next(), Some(Ok(()))));
        self.report.sent += sent.len() as u64;
        self.report.refused += refused.len() as u64;
        self.delete(sent.into_iter().map(|mail| mail.message_id).collect()).await;
        Ok(())
    }

    /// Deletes letters that were received, and returns how many were deleted.
    async fn delete(&mut self, mut ids: Vec<String>) -> u64 {
        let all = ids.len();
        self.work.deletions.retain(|id| !ids.contains(id));
        for _ in 0..DELETES {
            if ids.is_empty() {
                break;
            }
            ids = self.hidden.delete(ids).await;
        }
        self.report.not_deleted += ids.len() as u64;
        (all - ids.len()) as u64
    }
}

/// How many letters to receive at once: as many as are sent within ten seconds, so that a slow
/// replay hides few letters from others.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 10")]
fn batch(per_second: f64) -> usize {
    (per_second * 10.0).clamp(1.0, 10.0) as usize
}

fn seconds(mails: usize, per_second: f64) -> Duration {
    let seconds = real(mails as u64) / per_second;
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
