use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use futures_util::stream::{self, StreamExt as _};
use serde::Serialize;
use tidegate_core::format::count;
use tidegate_delivery::ports::{
    BATCH, Clock, Monotonic, PortError, QueueDepth, QueueUrl, Queues, Received, VISIBILITY_TIMEOUT,
};

use super::letter::{Letter, LetterFilter};
use crate::page::{Page, Tone, View};

const AT_ONCE: usize = 8;
/// A visibility timeout is renewed when less than this is left of it.
const RENEWED_BEFORE: Duration = Duration::from_secs(12);
/// Long polls ask every server of the queue; short polls ask some of them, and may miss messages.
const WAIT: Duration = Duration::from_secs(1);
/// While SQS's count says that more is there, reading ends after this many rounds without a new message. Where all that
/// it counts is read, one round of [`AT_ONCE`] short polls is enough: together they ask the servers many times. A letter
/// of the last minute, which the count may lack, is missed only if none of them asks its server.
const EMPTY_ROUNDS: u32 = 2;

/// The part of the queue that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    pub read: u64,
    /// Whether the limit was reached: there may be more.
    pub limited: bool,
    /// Messages above the limit, by SQS's count at the beginning.
    pub beyond: u64,
    /// Whether it was interrupted: there may be more.
    pub interrupted: bool,
    /// Messages that were hidden at the beginning, by another reader or one that was killed.
    pub hidden_before: u64,
    /// Messages that could not be made visible again; they are visible after their timeout.
    pub still_hidden: u64,
}

impl Coverage {
    /// Whether the whole queue was read, as far as SQS's counts show.
    pub const fn is_whole(&self) -> bool {
        !self.limited && !self.interrupted && self.hidden_before == 0
    }

    /// How many messages were not read, approximately.
    pub const fn unread(&self) -> u64 {
        self.hidden_before.saturating_add(self.beyond)
    }
}

/// The dead letters at one moment, and how complete they are.
#[derive(Clone, Debug, Default)]
pub struct LetterSnapshot {
    /// The letters, the oldest first, each once.
    pub letters: Vec<Letter>,
    /// The part of the queue that was read.
    pub coverage: Coverage,
}

impl LetterSnapshot {
    /// The letters that `filter` admits.
    pub(super) fn admitted(&self, filter: &LetterFilter) -> impl Iterator<Item = &Letter> {
        self.letters.iter().filter(|letter| filter.admits(letter))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadProgress {
    pub read: u64,
    /// Messages that the queue held at the beginning, approximately.
    pub of: u64,
}

/// Reads up to `limit` messages and makes them visible again: at the end, after an error, and when
/// `stop` is ready. A process that is killed leaves them hidden for the visibility timeout.
///
/// # Errors
/// [`PortError`] of the queue; what was read by then is visible again.
pub async fn read(
    queues: &impl Queues,
    clock: &impl Clock,
    queue: &QueueUrl,
    limit: usize,
    stop: impl Future<Output = ()>,
    mut progress: impl FnMut(ReadProgress),
) -> Result<LetterSnapshot, PortError> {
    let depth = queues.depth(queue).await?;
    let mut found = FoundLetters::default();
    let mut coverage = Coverage { hidden_before: depth.in_flight, ..Coverage::default() };
    let rounds = rounds(queues, clock, queue, limit, depth, &mut found, &mut progress);
    let ended = match select(pin!(rounds), pin!(stop)).await {
        Either::Left((ended, _)) => ended,
        Either::Right(((), _)) => {
            coverage.interrupted = true;
            Ok(())
        }
    };
    let FoundLetters { hidden, letters } = found;
    coverage.still_hidden = hidden.make_visible(queues, queue).await;
    ended?;
    let mut letters: Vec<Letter> = letters.into_values().collect();
    coverage.read = letters.len() as u64;
    coverage.limited = letters.len() >= limit;
    if coverage.limited {
        coverage.beyond = depth.visible.saturating_sub(coverage.read);
    }
    letters.sort_by(|a, b| (a.since, &a.message_id).cmp(&(b.since, &b.message_id)));
    Ok(LetterSnapshot { letters, coverage })
}

/// The messages that the rounds have received, which others do not see meanwhile.
#[derive(Default)]
struct FoundLetters {
    hidden: HiddenMessages,
    letters: BTreeMap<String, Letter>,
}

async fn rounds(
    queues: &impl Queues,
    clock: &impl Clock,
    queue: &QueueUrl,
    limit: usize,
    depth: QueueDepth,
    FoundLetters { hidden, letters }: &mut FoundLetters,
    progress: &mut impl FnMut(ReadProgress),
) -> Result<(), PortError> {
    let mut empty = 0;
    let is_all = |read: usize| read >= standing(depth);
    while letters.len() < limit && empty < if is_all(letters.len()) { 1 } else { EMPTY_ROUNDS } {
        hidden.renew(queues, clock, queue).await;
        let before = letters.len();
        let left = limit - before;
        // As many simultaneous receives as the remaining messages need.
        let (expected, wait) = match standing(depth).saturating_sub(before) {
            0 => (AT_ONCE * BATCH, Duration::ZERO),
            more => (more, WAIT),
        };
        let calls = left.min(expected).div_ceil(BATCH).min(AT_ONCE);
        let receive = |number: usize| async move {
            let since = clock.monotonic();
            let max = left.saturating_sub(number * BATCH).clamp(1, BATCH);
            (queues.receive(queue, max, wait).await, since)
        };
        let mut failed = None;
        for (result, since) in join_all((0..calls).map(receive)).await {
            match result {
                Ok(received) => {
                    for message in received {
                        hidden.note(&message, since);
                        letters.insert(message.message_id.clone(), Letter::of(&message));
                    }
                }
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        empty = if letters.len() > before { 0 } else { empty + 1 };
        progress(ReadProgress {
            read: letters.len() as u64,
            of: depth.visible.max(letters.len() as u64),
        });
    }
    Ok(())
}

fn standing(depth: QueueDepth) -> usize {
    usize::try_from(depth.visible).unwrap_or(usize::MAX)
}

/// Messages that this process has received: hidden from others until made visible again. By SQS's message id, with
/// the newest receipt and the end of the visibility timeout, which is renewed while the reading goes on, because a
/// message that becomes visible again would be received a second time.
#[derive(Clone, Debug, Default)]
pub(super) struct HiddenMessages(BTreeMap<String, (String, Monotonic)>);

impl HiddenMessages {
    /// Adds a received message. `since` is the time of the call, from which the visibility timeout
    /// is counted. Returns whether the message is new.
    pub(super) fn note(&mut self, received: &Received, since: Monotonic) -> bool {
        let hidden = (received.receipt.clone(), since + VISIBILITY_TIMEOUT);
        self.0.insert(received.message_id.clone(), hidden).is_none()
    }

    /// Removes a message that was deleted.
    pub(super) fn forget(&mut self, message_id: &str) {
        self.0.remove(message_id);
    }

    /// Renews the visibility timeouts that are about to end. If a renewal fails, the message is
    /// received once more, which does no harm.
    pub(super) async fn renew(
        &mut self,
        queues: &impl Queues,
        clock: &impl Clock,
        queue: &QueueUrl,
    ) {
        let now = clock.monotonic();
        let due = |(_, until): &&(String, Monotonic)| until.saturating_since(now) < RENEWED_BEFORE;
        let due: Vec<String> =
            self.0.values().filter(due).map(|(receipt, _)| receipt.clone()).collect();
        if due.is_empty() {
            return;
        }
        set_visibility(queues, queue, &due, VISIBILITY_TIMEOUT).await;
        for (_, until) in self.0.values_mut() {
            if until.saturating_since(now) < RENEWED_BEFORE {
                *until = now + VISIBILITY_TIMEOUT;
            }
        }
    }

    /// Makes all messages visible again, and returns how many stay hidden until their timeout
    /// because the call failed.
    pub(super) async fn make_visible(self, queues: &impl Queues, queue: &QueueUrl) -> u64 {
        let receipts: Vec<String> = self.0.into_values().map(|(receipt, _)| receipt).collect();
        set_visibility(queues, queue, &receipts, Duration::ZERO).await
    }
}

/// Sets the visibility timeout of messages, and returns for how many the call failed.
async fn set_visibility(
    queues: &impl Queues,
    queue: &QueueUrl,
    receipts: &[String],
    after: Duration,
) -> u64 {
    // A refused receipt has expired, so its message is visible already.
    let batch = |batch: Vec<String>| async move {
        let set = queues.set_visibility(queue, &batch, after).await;
        set.map_or(batch.len() as u64, |_| 0)
    };
    let batches: Vec<Vec<String>> = receipts.chunks(BATCH).map(<[String]>::to_vec).collect();
    let set = stream::iter(batches).map(batch).buffer_unordered(AT_ONCE);
    set.fold(0, |sum, failed| async move { sum + failed }).await
}

impl View for Coverage {
    fn view(&self, page: &mut Page) {
        let read = count(self.read);
        let remarks = [
            (self.limited, format!("only {read} messages were read (--limit): there may be more")),
            (self.interrupted, format!("interrupted after {read} messages: there may be more")),
            (
                self.hidden_before > 0,
                format!(
                    "{} messages were hidden when this began, by another reader or one that was killed: look again in 30 s",
                    count(self.hidden_before)
                ),
            ),
            (
                self.still_hidden > 0,
                format!(
                    "{} messages could not be made visible again: they become visible in 30 s",
                    count(self.still_hidden)
                ),
            ),
        ];
        for (_, text) in remarks.into_iter().filter(|(applies, _)| *applies) {
            page.line(Tone::Warning, text);
        }
    }
}
