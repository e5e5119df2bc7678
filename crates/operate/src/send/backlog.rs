//! Back-back-pressure: no more is enqueued while the campaign's queue is deep.

use std::time::Duration;

use tidegate_delivery::ports::{Clock, Monotonic, PortError, QueueUrl, Queues};

use super::deliver::is_permanent;
use super::session::SendProgress;

/// The depth is asked this often at most.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Whether a batch may be sent now.
pub(super) enum BacklogState {
    Free,
    Wait(Monotonic),
    Unknown(PortError),
}

/// How deep the queue is, as far as is known.
pub(super) struct BacklogLimit<'a, Q, C, P> {
    pub(super) queues: &'a Q,
    pub(super) clock: &'a C,
    pub(super) progress: &'a P,
    pub(super) queue: &'a QueueUrl,
    /// The most messages that may stand there; none is no limit.
    pub(super) most: Option<u64>,
    pub(super) patience: Duration,
    /// When it was asked, and what was said.
    last_reading: Option<(Monotonic, u64)>,
    sent_since: u64,
    failing_since: Option<Monotonic>,
}

impl<'a, Q: Queues, C: Clock, P: SendProgress> BacklogLimit<'a, Q, C, P> {
    pub(super) fn new(
        (queues, clock, progress): (&'a Q, &'a C, &'a P),
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

    /// Counts messages that are about to be sent.
    pub(super) fn add(&mut self, messages: u64) {
        self.sent_since += messages;
    }

    /// Whether there is room for a batch; asks SQS where that is not known.
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
                let depth = depth.visible + depth.in_flight + depth.delayed;
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
                // As deep as may be, until it is known again.
                (self.last_reading, self.sent_since) = (Some((now, most)), 0);
                BacklogState::Wait(now + CHECK_INTERVAL)
            }
        }
    }
}
