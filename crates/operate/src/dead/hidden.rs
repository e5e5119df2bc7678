//! What was received and is hidden until it is let go.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use tidegate_delivery::ports::{Clock, Monotonic, QueueUrl, Queues, Received, VISIBILITY_TIMEOUT};

const BATCH: usize = 10;
const AT_ONCE: usize = 8;
/// What is left of a visibility timeout when it is renewed.
const RENEWED_BEFORE: Duration = Duration::from_secs(12);

/// Hidden messages, by SQS's id: the newest receipt, and until when it hides.
#[derive(Clone, Debug, Default)]
pub(super) struct HiddenMessages(BTreeMap<String, (String, Monotonic)>);

impl HiddenMessages {
    /// Notes what was received by a call that was made at `since`; gives whether it was not held.
    pub(super) fn note(&mut self, received: &Received, since: Monotonic) -> bool {
        let hidden = (received.receipt.clone(), since + VISIBILITY_TIMEOUT);
        self.0.insert(received.message_id.clone(), hidden).is_none()
    }

    /// Forgets a message: it was deleted.
    pub(super) fn forget(&mut self, message_id: &str) {
        self.0.remove(message_id);
    }

    /// Hides what would soon be visible for another visibility timeout. What cannot be hidden any
    /// more is received once more, which does no harm.
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

    /// Makes all visible again; gives how many stay hidden until their timeout.
    pub(super) async fn make_visible(self, queues: &impl Queues, queue: &QueueUrl) -> u64 {
        let receipts: Vec<String> = self.0.into_values().map(|(receipt, _)| receipt).collect();
        set_visibility(queues, queue, &receipts, Duration::ZERO).await
    }
}

/// Sets the visibility; gives of how many the call failed.
pub(super) async fn set_visibility(
    queues: &impl Queues,
    queue: &QueueUrl,
    receipts: &[String],
    after: Duration,
) -> u64 {
    let batch = |batch: Vec<String>| async move {
        match queues.set_visibility(queue, &batch, after).await {
            // A receipt that is refused hides nothing any more.
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
