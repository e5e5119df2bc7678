//! Limits the backlog: nothing is enqueued while the campaign's queue is deeper than allowed.

use std::time::Duration;

use tidegate_delivery::ports::{Clock, Monotonic, PortError, QueueUrl, Queues};

use super::deliver::is_permanent;
use super::progress::SendProgress;

/// The queue's depth is read at most this often.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Whether the backlog allows a batch now.
pub(super) enum BacklogState {
    Free,
    Wait(Monotonic),
    Unknown(PortError),
}

/// The queue's depth: SQS's last count plus the messages sent since then.
pub(super) struct BacklogLimit<'a, Q, C, P> {
    pub(super) queues: &'a Q,
    pub(super) clock: &'a C,
    pub(super) progress: &'a P,
    pub(super) queue: &'a QueueUrl,
    /// The largest depth at which batches are sent; `None` for no limit.
    pub(super) most: Option<u64>,
    pub(super) patience: Duration,
    /// The time and the result of the last reading.
    last_reading: Option<(Monotonic, u64)>,
    sent_since: u64,
    failing_since: Option<Monotonic>,
}

impl<'a, Q: Queues, C: Clock, P: SendProgress> BacklogLimit<'a, Q, C, P> {
    pub(super) fn new(
        queues: &'a Q,
        clock: &'a C,
        progress: &'a P,
        queue: &'a QueueUrl,
        most: Option<u64>,
        patience: Duration,
    ) -> Self {
        let (last_reading, sent_since, failing_since) = (None, 0, None);
        Self {
            queues,
            clock,
            progress,
            queue,
            most,
            patience,
            last_reading,
            sent_since,
            failing_since,
        }
    }

    /// Adds messages that are about to be sent to the estimate.
    pub(super) fn add(&mut self, messages: u64) {
        self.sent_since += messages;
    }

    /// Decides whether a batch may be sent, and reads the depth from SQS if needed.
    pub(super) async fn check(&mut self) -> BacklogState {
        let Some(most) = self.most else { return BacklogState::Free };
        let now = self.clock.monotonic();
        if let Some((at, depth)) = self.last_reading {
            if depth + self.sent_since < most {
                return BacklogState::Free;
            }
            let next = at + CHECK_INTERVAL;
            if now < next {
                self.progress.waiting(depth + self.sent_since, most);
                return BacklogState::Wait(next);
            }
        }
        match self.queues.depth(self.queue).await {
            Ok(depth) => {
                let depth = depth.all();
                (self.last_reading, self.sent_since, self.failing_since) =
                    (Some((now, depth)), 0, None);
                if depth < most {
                    return BacklogState::Free;
                }
                self.progress.waiting(depth, most);
                BacklogState::Wait(now + CHECK_INTERVAL)
            }
            Err(error) => {
                let since = *self.failing_since.get_or_insert(now);
                if is_permanent(&error) || now.saturating_since(since) >= self.patience {
                    return BacklogState::Unknown(error);
                }
                self.progress.retrying(&error);
                // The depth is unknown now, so assume the maximum until the next reading.
                (self.last_reading, self.sent_since) = (Some((now, most)), 0);
                BacklogState::Wait(now + CHECK_INTERVAL)
            }
        }
    }
}
