use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use serde::Serialize;
use tidegate_delivery::ports::{
    BATCH, Clock, Monotonic, PortError, QueueDepth, QueueUrl, Queues, Received,
};

use super::hidden::HiddenMessages;
use super::letter::Letter;

const AT_ONCE: usize = 8;
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
        let mut failed = None;
        for (result, since) in receive(queues, clock, queue, calls, wait, left).await {
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

/// The result of a receive, and the time of the call.
type ReceiveResult = (Result<Vec<Received>, PortError>, Monotonic);

/// Makes so many receives at the same time, for at most `left` messages together.
async fn receive(
    queues: &impl Queues,
    clock: &impl Clock,
    queue: &QueueUrl,
    calls: usize,
    wait: Duration,
    left: usize,
) -> Vec<ReceiveResult> {
    let one = |number: usize| async move {
        let since = clock.monotonic();
        let max = left.saturating_sub(number * BATCH).clamp(1, BATCH);
        (queues.receive(queue, max, wait).await, since)
    };
    join_all((0..calls).map(one)).await
}
