use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use futures_util::future::{Either, select};
use tidegate_core::control::ChangeRecord;
use tidegate_core::duplicate_guard::MarkState;
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::{
    Clock, History, Marks, Monotonic, Outgoing, PortError, QueueUrl, Queues, Received,
    VISIBILITY_TIMEOUT,
};

use super::held::HiddenMessages;
use super::replayed::{ReplayError, ReplayReport};
use super::review::{ReplayMail, Review};
use crate::steer::{Author, MAX_REASON_CHARS};

const BATCH: usize = 10;
/// SQS's limit of a batch.
const BATCH_BYTES: usize = 1_048_576;
/// How long a receive waits, and how often the queues' depths are looked at.
const WAIT: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often what is held is looked at during a slow pace's rests: before it would be visible again.
const RENEW_EVERY: Duration = Duration::from_secs(5);
/// Longer than another's receive hides a letter: what was not found for so long is gone.
const GIVE_UP: Duration = VISIBILITY_TIMEOUT.saturating_add(Duration::from_secs(5));
/// How often a delete is tried.
const DELETES: usize = 3;
/// A history's entry is cut to so many characters.
const MAX_DETAIL: usize = 300;

/// How fast a replay goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayPace {
    /// Mails a second, above 0.
    pub per_second: f64,
    /// It waits while a campaign's queue is so many messages deeper than it was at the beginning.
    pub backlog: u64,
}

/// Where letters are replayed.
#[derive(Debug)]
pub struct ReplayPorts<'a, Q, L, C> {
    /// The queues.
    pub queues: &'a Q,
    /// The dead-letter queue.
    pub dead_letters: &'a QueueUrl,
    /// The marks, and the history.
    pub ledger: &'a L,
    /// Time.
    pub clock: &'a C,
}

/// How far a replay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayProgress {
    /// Mails sent to their campaigns' queues.
    pub sent: u64,
    /// Mails to be sent.
    pub of: u64,
    /// Whether it waits for a campaign's queue to shrink.
    pub waits: bool,
}

/// Does what was reviewed, and nothing else: of letters that came since it knows nothing.
///
/// A letter is deleted only after its mail stands, acknowledged, on its campaign's queue. One that dies
/// in between leaves both; a second replay sends the mail with the same identity and pass, which the
/// merge queue takes once within 5 minutes, and the duplicate guard, where it is on, for as long as it
/// keeps marks. Beyond these the mail is sent twice.
///
/// # Errors
/// [`ReplayError`].
pub async fn replay(
    site: &ReplayPorts<'_, impl Queues, impl Marks + History, impl Clock>,
    review: &Review,
    author: &Author,
    pace: ReplayPace,
    stop: impl Future<Output = ()>,
    progress: impl FnMut(ReplayProgress),
) -> Result<ReplayReport, ReplayError> {
    let ReplayPorts { queues, dead_letters, ledger, clock } = *site;
    let length = author.reason.trim().chars().count();
    if !(1..=MAX_REASON_CHARS).contains(&length) {
        return Err(ReplayError::Reason(length));
    }
    if !(pace.per_second > 0.0 && pace.per_second.is_finite()) {
        return Err(ReplayError::Rate(pace.per_second));
    }
    let record = |detail: String| ChangeRecord {
        at: clock.wall().into(),
        by: author.by.clone(),
        action: "replay".to_owned(),
        campaign: None,
        detail: detail.chars().take(MAX_DETAIL).collect(),
        reason: author.reason.trim().to_owned(),
    };
    let (sends, drops) = (review.to_send(), review.drops.len());
    let begun = format!("begun: {sends} to send, {drops} to delete ({})", review.filter);
    ledger.add(&record(begun)).await.map_err(ReplayError::NotRecorded)?;
    let began = clock.monotonic();
    let mut run = ReplayRun {
        queues,
        dead_letters,
        marks: ledger,
        clock,
        guarded: review.guarded,
        orders: review.orders.clone(),
        drops: review.drops.clone(),
        held: HiddenMessages::default(),
        replayed: ReplayReport {
            filter: review.filter.clone(),
            by: author.by.clone(),
            reason: author.reason.trim().to_owned(),
            of: sends,
            ..ReplayReport::default()
        },
        began: EpochMillis::from(clock.wall()),
        progress,
    };
    let ended = run.go(pace, pin!(stop)).await;
    let mut replayed = run.replayed;
    replayed.still_hidden = run.held.let_go(queues, dead_letters).await;
    replayed.took_s = clock.monotonic().saturating_since(began).as_secs();
    let end = format!("ended: {} of {sends} sent, {} deleted", replayed.sent, replayed.dropped);
    replayed.recorded = ledger.add(&record(end)).await.is_ok();
    match ended {
        Ok(()) => Ok(replayed),
        Err(source) => Err(ReplayError::Broken { replayed: Box::new(replayed), source }),
    }
}

struct ReplayRun<'a, Q, M, C, P> {
    queues: &'a Q,
    dead_letters: &'a QueueUrl,
    marks: &'a M,
    clock: &'a C,
    guarded: bool,
    orders: BTreeMap<String, ReplayMail>,
    drops: Vec<String>,
    held: HiddenMessages,
    replayed: ReplayReport,
    began: EpochMillis,
    progress: P,
}

/// What a receive brought.
struct BatchResult {
    /// Letters that were reviewed.
    meant: usize,
    /// Others.
    others: usize,
    /// Whether the search comes on: a reviewed letter, or one that is as old and was not seen before.
    on: bool,
}

/// A letter in hand, whose mail is to be sent.
struct ReceivedLetter {
    message_id: String,
    receipt: String,
    order: ReplayMail,
}

impl<Q: Queues, M: Marks, C: Clock, P: FnMut(ReplayProgress)> ReplayRun<'_, Q, M, C, P> {
    async fn go(
        &mut self,
        pace: ReplayPace,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), PortError> {
        let depths = self.depths().await?;
        let (mut next, mut look) = (self.clock.monotonic(), self.clock.monotonic() + LOOK_EVERY);
        let mut found_at = self.clock.monotonic();
        let mut most = batch(pace.per_second);
        while !(self.orders.is_empty() && self.drops.is_empty()) {
            let wake = next.min(self.clock.monotonic() + RENEW_EVERY);
            if let Either::Right(_) = select(pin!(self.clock.sleep_until(wake)), &mut stop).await {
                self.replayed.interrupted = true;
                return Ok(());
            }
            self.held.renew(self.queues, self.clock, self.dead_letters).await;
            if wake < next {
                continue;
            }
            if self.clock.monotonic() >= look {
                look = self.clock.monotonic() + LOOK_EVERY;
                if self.is_behind(&depths, pace.backlog).await? {
                    self.tell(true);
                    (next, found_at) = (look, look);
                    continue;
                }
            }
            let since = self.clock.monotonic();
            let receive = pin!(self.queues.receive(self.dead_letters, most, WAIT));
            let received = match select(receive, &mut stop).await {
                Either::Left((received, _)) => received?,
                Either::Right(_) => {
                    self.replayed.interrupted = true;
                    return Ok(());
                }
            };
            // From here to the deletes nothing is interrupted.
            let dealt = self.deal(received, since).await?;
            let now = self.clock.monotonic();
            // Among others' letters the reviewed ones are few: the pace is kept afterwards.
            let sparse = dealt.others > dealt.meant;
            most = if sparse { BATCH } else { batch(pace.per_second) };
            if dealt.meant > 0 {
                next = next.max(now) + seconds(dealt.meant, pace.per_second);
            }
            if dealt.on {
                found_at = next.max(now);
            } else if now.saturating_since(found_at) > GIVE_UP {
                self.replayed.not_found = (self.orders.len() + self.drops.len()) as u64;
                return Ok(());
            }
            self.tell(false);
        }
        Ok(())
    }

    fn tell(&mut self, waits: bool) {
        (self.progress)(ReplayProgress { sent: self.replayed.sent, of: self.replayed.of, waits });
    }

    /// The depths of the queues that mails go to.
    async fn depths(&self) -> Result<BTreeMap<QueueUrl, u64>, PortError> {
        let mut depths = BTreeMap::new();
        for order in self.orders.values() {
            if !depths.contains_key(&order.queue) {
                let depth = self.queues.depth(&order.queue).await?;
                depths.insert(order.queue.clone(), depth.visible + depth.delayed);
            }
        }
        Ok(depths)
    }

    /// Whether a queue has grown too far.
    async fn is_behind(
        &self,
        before: &BTreeMap<QueueUrl, u64>,
        backlog: u64,
    ) -> Result<bool, PortError> {
        let now = self.depths().await?;
        let grown = |(queue, depth): (&QueueUrl, &u64)| {
            depth.saturating_sub(before.get(queue).copied().unwrap_or(0)) > backlog
        };
        Ok(now.iter().any(grown))
    }

    /// Sends and deletes what of `received` was reviewed.
    async fn deal(
        &mut self,
        received: Vec<Received>,
        since: Monotonic,
    ) -> Result<BatchResult, PortError> {
        let (mut mails, mut drops) = (Vec::new(), Vec::new());
        let (all, mut on) = (received.len(), false);
        for message in received {
            let is_old = message.sent_at_millis <= self.began.as_millis();
            on |= self.held.note(&message, since) && is_old;
            if let Some(order) = self.orders.get(&message.message_id) {
                let (message_id, receipt) = (message.message_id, message.receipt);
                mails.push(ReceivedLetter { message_id, receipt, order: order.clone() });
            } else if self.drops.contains(&message.message_id) {
                drops.push((message.message_id, message.receipt));
            }
        }
        let meant = mails.len() + drops.len();
        let dealt = BatchResult { meant, others: all - meant, on: on || meant > 0 };
        self.replayed.dropped += self.delete(drops).await;
        let mails = self.not_sent(mails).await?;
        let mut by_queue: BTreeMap<QueueUrl, Vec<ReceivedLetter>> = BTreeMap::new();
        for mail in mails {
            by_queue.entry(mail.order.queue.clone()).or_default().push(mail);
        }
        for (queue, mails) in by_queue {
            for batch in pack(mails) {
                self.send(&queue, batch).await?;
            }
        }
        Ok(dealt)
    }

    /// Those that the guard does not know as sent: the review may be old.
    async fn not_sent(
        &mut self,
        mails: Vec<ReceivedLetter>,
    ) -> Result<Vec<ReceivedLetter>, PortError> {
        if !self.guarded || mails.is_empty() {
            return Ok(mails);
        }
        let identities: Vec<_> = mails.iter().map(|mail| mail.order.identity.clone()).collect();
        let found = self.marks.find(&identities).await?;
        let now = self.clock.wall();
        let mut kept = Vec::with_capacity(mails.len());
        for (mail, mark) in mails.into_iter().zip(found) {
            let sent = mark.is_some_and(|mark| match mark.state {
                MarkState::Sent => true,
                MarkState::Sending => now.saturating_since(mark.since.into()) <= VISIBILITY_TIMEOUT,
                MarkState::Parked => false,
            });
            if sent {
                self.orders.remove(&mail.message_id);
                self.replayed.sent_meanwhile += 1;
            } else {
                kept.push(mail);
            }
        }
        Ok(kept)
    }

    async fn send(
        &mut self,
        queue: &QueueUrl,
        batch: Vec<ReceivedLetter>,
    ) -> Result<(), PortError> {
        let messages: Vec<Outgoing> = batch.iter().map(|mail| mail.order.message.clone()).collect();
        let entries = match self.queues.send(queue, &messages).await {
            Ok(entries) => entries,
            Err(error) => {
                self.replayed.uncertain += batch.len() as u64;
                return Err(error);
            }
        };
        let mut sent = Vec::new();
        for (index, mail) in batch.into_iter().enumerate() {
            // Dealt with, whatever comes of its delete: never sent twice in one run.
            self.orders.remove(&mail.message_id);
            if matches!(entries.get(index), Some(Ok(()))) {
                self.replayed.sent += 1;
                sent.push((mail.message_id, mail.receipt));
            } else {
                self.replayed.refused += 1;
            }
        }
        self.delete(sent).await;
        Ok(())
    }

    /// Deletes letters, by id and receipt; gives how many are gone.
    async fn delete(&mut self, mut letters: Vec<(String, String)>) -> u64 {
        let all = letters.len();
        for (id, _) in &letters {
            self.drops.retain(|drop| drop != id);
        }
        for _ in 0..DELETES {
            if letters.is_empty() {
                break;
            }
            let receipts: Vec<String> =
                letters.iter().map(|(_, receipt)| receipt.clone()).collect();
            let entries =
                self.queues.delete(self.dead_letters, &receipts).await.unwrap_or_default();
            let mut failed = Vec::new();
            for (index, letter) in letters.into_iter().enumerate() {
                if matches!(entries.get(index), Some(Ok(()))) {
                    self.held.forget(&letter.0);
                } else {
                    failed.push(letter);
                }
            }
            letters = failed;
        }
        self.replayed.not_deleted += letters.len() as u64;
        (all - letters.len()) as u64
    }
}

/// How many letters to take at once: what is sent within ten seconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 10")]
fn batch(per_second: f64) -> usize {
    (per_second * 10.0).clamp(1.0, 10.0) as usize
}

#[expect(clippy::cast_precision_loss, reason = "at most 10")]
fn seconds(mails: usize, per_second: f64) -> Duration {
    let seconds = mails as f64 / per_second;
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Batches of at most 1 MiB; never more than a receive's ten.
fn pack(mails: Vec<ReceivedLetter>) -> Vec<Vec<ReceivedLetter>> {
    let mut batches: Vec<Vec<ReceivedLetter>> = Vec::new();
    let mut bytes = 0;
    for mail in mails {
        let size = mail.order.message.bytes();
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH && bytes + size <= BATCH_BYTES => {
                bytes += size;
                batch.push(mail);
            }
            _ => {
                bytes = size;
                batches.push(vec![mail]);
            }
        }
    }
    batches
}
