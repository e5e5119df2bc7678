//! Messages that this process has received: hidden from others until made visible again.
//!
//! SQS has no way to look into a queue without receiving. The visibility timeout (30 s) of received
//! messages is renewed while the reading goes on, because a message that becomes visible again
//! would be received a second time.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use tidegate_delivery::ports::{
    BATCH, Clock, Monotonic, QueueUrl, Queues, Received, VISIBILITY_TIMEOUT,
};

const AT_ONCE: usize = 8;
/// A visibility timeout is renewed when less than this is left of it.
const RENEWED_BEFORE: Duration = Duration::from_secs(12);

/// Hidden messages by SQS's message id, with the newest receipt and the end of the visibility
/// timeout.
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
pub(super) async fn set_visibility(
    queues: &impl Queues,
    queue: &QueueUrl,
    receipts: &[String],
    after: Duration,
) -> u64 {
    let batch = |batch: Vec<String>| async move {
        match queues.set_visibility(queue, &batch, after).await {
            // A refused receipt has expired, so its message is visible already.
            Ok(_) => 0,
            Err(_) => batch.len() as u64,
        }
    };
    let batches: Vec<Vec<String>> = receipts.chunks(BATCH).map(<[String]>::to_vec).collect();
    stream::iter(batches)
        .map(batch)
        .buffer_unordered(AT_ONCE)
        .fold(0, |sum, failed| async move { sum + failed })
        .await
}
