use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use serde::Serialize;
use tidegate_core::format::count;
use tidegate_delivery::ports::{
    BATCH, Clock, Monotonic, PortError, QueueUrl, Queues, Received, VISIBILITY_TIMEOUT,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, schemars::JsonSchema, Serialize)]
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
    pub(crate) fn admitted(&self, filter: &LetterFilter) -> impl Iterator<Item = &Letter> {
        self.letters.iter().filter(|letter| filter.admits(letter))
    }
}

/// How far a reading, a replay or a discard has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LetterProgress {
    /// Messages read, mails sent to their campaigns' queues, or letters discarded.
    pub done: u64,
    /// Of these, all; of a queue that is read approximately.
    pub of: u64,
    /// Whether it waits for a campaign's queue to shrink.
    pub waits: bool,
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
    mut progress: impl FnMut(LetterProgress),
) -> Result<LetterSnapshot, PortError> {
    let depth = queues.depth(queue).await?;
    let standing = usize::try_from(depth.visible).unwrap_or(usize::MAX);
    let mut hidden = HiddenMessages::of(queues, queue);
    let mut letters = BTreeMap::new();
    let rounds = async {
        let mut empty = 0;
        while letters.len() < limit
            && empty < if letters.len() < standing { EMPTY_ROUNDS } else { 1 }
        {
            hidden.renew(clock.monotonic()).await;
            let before = letters.len();
            let left = limit - before;
            // As many simultaneous receives as the remaining messages need.
            let (expected, wait) = match standing.saturating_sub(before) {
                0 => (AT_ONCE * BATCH, Duration::ZERO),
                more => (more, WAIT),
            };
            let calls = left.min(expected).div_ceil(BATCH).min(AT_ONCE);
            let receive = |number: usize| async move {
                let since = clock.monotonic();
                let max = left.saturating_sub(number * BATCH).clamp(1, BATCH);
                (queues.receive(queue, max, wait).await, since)
            };
            let mut ended = Ok(());
            for (result, since) in join_all((0..calls).map(receive)).await {
                match result {
                    Ok(received) => {
                        for message in received {
                            hidden.note(&message, since);
                            letters.insert(message.message_id.clone(), Letter::of(&message));
                        }
                    }
                    Err(error) => ended = Err(error),
                }
            }
            ended?;
            empty = if letters.len() > before { 0 } else { empty + 1 };
            let done = letters.len() as u64;
            progress(LetterProgress { done, of: depth.visible.max(done), waits: false });
        }
        Ok::<_, PortError>(())
    };
    let (ended, interrupted) = tokio::select! {
        biased;
        ended = rounds => (ended, false),
        () = stop => (Ok(()), true),
    };
    let still_hidden = hidden.make_visible().await;
    ended?;
    let read = letters.len() as u64;
    let limited = letters.len() >= limit;
    let beyond = if limited { depth.visible.saturating_sub(read) } else { 0 };
    let hidden_before = depth.in_flight;
    let coverage = Coverage { read, limited, beyond, interrupted, hidden_before, still_hidden };
    let mut letters: Vec<Letter> = letters.into_values().collect();
    letters.sort_by(|a, b| (a.since, &a.message_id).cmp(&(b.since, &b.message_id)));
    Ok(LetterSnapshot { letters, coverage })
}

/// Messages that this process has received: hidden from others until made visible again.
#[derive(Debug)]
pub(super) struct HiddenMessages<'a, Q> {
    queues: &'a Q,
    queue: &'a QueueUrl,
    /// By SQS's message id.
    messages: BTreeMap<String, HiddenMessage>,
}

#[derive(Debug)]
struct HiddenMessage {
    /// The newest one.
    receipt: String,
    /// The end of the visibility timeout, which is renewed while the reading goes on: a message that becomes
    /// visible again would be received a second time.
    until: Monotonic,
}

impl<'a, Q: Queues> HiddenMessages<'a, Q> {
    pub(super) fn of(queues: &'a Q, queue: &'a QueueUrl) -> Self {
        Self { queues, queue, messages: BTreeMap::new() }
    }

    /// Adds a received message. `since` is the time of the call, from which the visibility timeout
    /// is counted. Returns whether the message is new.
    pub(super) fn note(&mut self, received: &Received, since: Monotonic) -> bool {
        let receipt = received.receipt.clone();
        let hidden = HiddenMessage { receipt, until: since + VISIBILITY_TIMEOUT };
        self.messages.insert(received.message_id.clone(), hidden).is_none()
    }

    /// Deletes messages that were noted, and returns those that could not be deleted.
    pub(super) async fn delete(&mut self, ids: Vec<String>) -> Vec<String> {
        let noted = ids.iter().filter_map(|id| self.messages.get(id));
        let receipts: Vec<String> = noted.map(|hidden| hidden.receipt.clone()).collect();
        let deleted = self.queues.delete(self.queue, &receipts).await.unwrap_or_default();
        let mut deleted = deleted.into_iter();
        let (gone, left): (Vec<_>, Vec<_>) =
            ids.into_iter().partition(|_| matches!(deleted.next(), Some(Ok(()))));
        for id in gone {
            self.messages.remove(&id);
        }
        left
    }

    /// Renews the visibility timeouts that are about to end. If a renewal fails, the message is
    /// received once more, which does no harm.
    pub(super) async fn renew(&mut self, now: Monotonic) {
        let mut due = Vec::new();
        for hidden in self.messages.values_mut() {
            if hidden.until.saturating_since(now) < RENEWED_BEFORE {
                hidden.until = now + VISIBILITY_TIMEOUT;
                due.push(hidden.receipt.clone());
            }
        }
        self.set_visibility(&due, VISIBILITY_TIMEOUT).await;
    }

    /// Makes all messages visible again, and returns how many stay hidden until their timeout
    /// because the call failed.
    pub(super) async fn make_visible(&self) -> u64 {
        let receipts = self.messages.values().map(|hidden| hidden.receipt.clone());
        self.set_visibility(&receipts.collect::<Vec<_>>(), Duration::ZERO).await
    }

    /// Sets the visibility timeout of messages, and returns for how many the call failed.
    async fn set_visibility(&self, receipts: &[String], after: Duration) -> u64 {
        // A refused receipt has expired, so its message is visible already.
        let batch = |batch: Vec<String>| async move {
            let set = self.queues.set_visibility(self.queue, &batch, after).await;
            set.map_or(batch.len() as u64, |_| 0)
        };
        let batches: Vec<Vec<String>> = receipts.chunks(BATCH).map(<[String]>::to_vec).collect();
        let set = stream::iter(batches).map(batch).buffer_unordered(AT_ONCE);
        set.fold(0, |sum, failed| async move { sum + failed }).await
    }
}

impl View for Coverage {
    fn view(&self, page: &mut Page) {
        let mut say = |applies: bool, text: String| {
            if applies {
                page.line(Tone::Warning, text);
            }
        };
        let [read, before, still] = [self.read, self.hidden_before, self.still_hidden].map(count);
        say(self.limited, format!("only {read} messages were read (--limit): there may be more"));
        say(self.interrupted, format!("interrupted after {read} messages: there may be more"));
        say(
            self.hidden_before > 0,
            format!(
                "{before} messages were hidden when this began, by another reader or one that was killed: look again in 30 s"
            ),
        );
        say(
            self.still_hidden > 0,
            format!(
                "{still} messages could not be made visible again: they become visible in 30 s"
            ),
        );
    }
}
