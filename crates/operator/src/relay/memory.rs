//! The identities of the mails that were handed over lately, so that one with another content is refused.

use std::collections::HashMap;
use std::time::Duration;

use tidegate_delivery::ports::Monotonic;

/// SDKs and servers try again within minutes; SQS's own deduplication ends after five.
const KEPT: Duration = Duration::from_mins(15);
/// The most identities of a time, of some 120 bytes each: 15 MB, and as much for the time before.
const MOST: usize = 125_000;

/// Identities with the hash of their content, in two times of 15 minutes or less: this one and the one before.
#[derive(Debug, Default)]
pub(crate) struct KnownMails {
    now: HashMap<String, [u8; 32]>,
    before: HashMap<String, [u8; 32]>,
    since: Option<Monotonic>,
}

impl KnownMails {
    /// Notes `id`; false if it came with another content.
    pub(crate) fn admits(&mut self, id: &str, content: [u8; 32], now: Monotonic) -> bool {
        let since = *self.since.get_or_insert(now);
        if now.saturating_since(since) > KEPT || self.now.len() >= MOST {
            self.before = std::mem::take(&mut self.now);
            self.since = Some(now);
        }
        let known = self.before.get(id).copied().unwrap_or(content);
        *self.now.entry(id.to_owned()).or_insert(known) == content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_belongs_to_its_first_mail_for_a_quarter_of_an_hour_at_least() {
        let at = |minutes| Monotonic::from_origin(Duration::from_mins(minutes));
        let mut known = KnownMails::default();
        assert!(known.admits("a", [1; 32], at(0)) && known.admits("b", [1; 32], at(14)));
        assert!(known.admits("a", [1; 32], at(14)) && !known.admits("a", [2; 32], at(14)));
        assert!(!known.admits("b", [2; 32], at(29)), "15 minutes after its mail");
        assert!(known.admits("c", [1; 32], at(60)) && known.admits("c", [1; 32], at(90)));
        assert!(known.admits("a", [2; 32], at(120)), "forgotten");
    }

    #[test]
    fn it_is_bounded_and_forgets_the_oldest() {
        let now = Monotonic::from_origin(Duration::ZERO);
        let mut known = KnownMails::default();
        for id in 0..3 * MOST {
            assert!(known.admits(&id.to_string(), [1; 32], now));
            assert!(known.now.len() + known.before.len() <= 2 * MOST);
        }
        assert!(known.admits("0", [2; 32], now));
        assert!(!known.admits(&(3 * MOST - 1).to_string(), [2; 32], now));
    }
}
