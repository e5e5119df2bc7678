//! Stores the metadata of many mails, and the whole requests of a few.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Bytes;

use super::MailRecord;

/// Limits of the mailbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MailboxLimits {
    pub(crate) mails: usize,
    pub(crate) bodies: usize,
    pub(crate) body_bytes: usize,
}

/// Accepted mails in order of arrival, the oldest dropped first.
#[derive(Debug, Default)]
pub(crate) struct MailStore {
    mails: VecDeque<Arc<MailRecord>>,
    bodies: VecDeque<(u64, Bytes)>,
    body_bytes: usize,
    forgotten: u64,
}

impl MailStore {
    /// Keeps a mail, and the request that brought it, within what may be kept.
    pub(crate) fn push(&mut self, mail: Arc<MailRecord>, body: Bytes, keep: MailboxLimits) {
        self.body_bytes += body.len();
        self.bodies.push_back((mail.seq, body));
        self.mails.push_back(mail);
        self.trim(keep);
    }

    /// Drops the oldest until no more is kept than may be.
    pub(crate) fn trim(&mut self, keep: MailboxLimits) {
        while self.mails.len() > keep.mails {
            self.mails.pop_front();
            self.forgotten += 1;
        }
        while self.bodies.len() > keep.bodies || self.body_bytes > keep.body_bytes {
            let Some((_, body)) = self.bodies.pop_front() else { break };
            self.body_bytes -= body.len();
        }
    }

    /// At most `limit` mails whose number is above `seq`, the oldest first.
    pub(crate) fn after(&self, seq: u64, limit: usize) -> Vec<Arc<MailRecord>> {
        let start = self.mails.partition_point(|mail| mail.seq <= seq);
        self.mails.range(start..).take(limit).cloned().collect()
    }

    /// A mail, and its request while that is kept.
    pub(crate) fn get(&self, seq: u64) -> Option<(Arc<MailRecord>, Option<Bytes>)> {
        let at = self.mails.binary_search_by_key(&seq, |mail| mail.seq).ok()?;
        let body = self.bodies.binary_search_by_key(&seq, |(seq, _)| *seq).ok();
        Some((Arc::clone(&self.mails[at]), body.map(|at| self.bodies[at].1.clone())))
    }

    /// Number of mails that were dropped since the mailbox was last emptied.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::mailbox::{MailFields, MailStatus};

    const KEEP: MailboxLimits = MailboxLimits { mails: 4, bodies: 2, body_bytes: 10 };

    fn store(bodies: &[&'static str]) -> MailStore {
        let mut store = MailStore::default();
        for (seq, body) in (1..).zip(bodies) {
            let status = MailStatus::Accepted;
            let mail = MailRecord { seq, arrived_ns: seq, status, draft: MailFields::default() };
            store.push(Arc::new(mail), Bytes::from_static(body.as_bytes()), KEEP);
        }
        store
    }

    fn numbers(mails: &[Arc<MailRecord>]) -> Vec<u64> {
        mails.iter().map(|mail| mail.seq).collect()
    }

    #[test]
    fn the_oldest_mails_are_dropped_and_counted() {
        let store = store(&["a"; 6]);
        assert_eq!(numbers(&store.after(0, 10)), [3, 4, 5, 6]);
        assert_eq!(numbers(&store.after(4, 10)), [5, 6]);
        assert_eq!(numbers(&store.after(3, 1)), [4]);
        assert_eq!(store.forgotten(), 2);
        assert!(store.get(2).is_none());
    }

    #[test]
    fn bodies_are_kept_by_count_and_by_size() {
        let by_count = store(&["a", "b", "c"]);
        let body = |store: &MailStore, seq| store.get(seq).and_then(|(_, body)| body);
        assert_eq!(body(&by_count, 1), None);
        assert_eq!(body(&by_count, 3), Some(Bytes::from_static(b"c")));
        let by_size = store(&["123456", "123456"]);
        assert_eq!(body(&by_size, 1), None);
        assert!(body(&by_size, 2).is_some());
        let too_large = store(&["12345678901"]);
        assert!(too_large.get(1).is_some_and(|(_, body)| body.is_none()));
    }
}
