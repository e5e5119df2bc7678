//! The identities that were accepted lately, so that one with another content is refused.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tidegate_delivery::ports::Monotonic;

/// SDKs and servers try again within minutes; SQS's own deduplication ends after five.
const KEPT: Duration = Duration::from_mins(15);
/// The most identities, of some 220 bytes each: 55 MB.
const MOST: usize = 250_000;

/// Accepted identities with the hash of their content.
#[derive(Debug, Default)]
pub(crate) struct AcceptedMails {
    known: HashMap<String, [u8; 32]>,
    order: VecDeque<(Monotonic, String)>,
}

impl AcceptedMails {
    /// Whether `id` may be accepted with this content: false if it was accepted with another one.
    pub(crate) fn admits(&mut self, id: &str, content: &[u8; 32], now: Monotonic) -> bool {
        while self.order.len() > MOST
            || self.order.front().is_some_and(|(at, _)| now.saturating_since(*at) > KEPT)
        {
            let Some((_, old)) = self.order.pop_front() else { break };
            self.known.remove(&old);
        }
        self.known.get(id).is_none_or(|known| known == content)
    }

    pub(crate) fn accepted(&mut self, id: String, content: [u8; 32], now: Monotonic) {
        if self.known.insert(id.clone(), content).is_none() {
            self.order.push_back((now, id));
        }
    }
}
