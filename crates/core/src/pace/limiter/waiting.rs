use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::email::Priority;

/// The line in which a message waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Line {
    /// The line of express mail, which goes before all campaigns.
    Express,
    /// A line of the cycle, by index: one campaign's in direct mode; with a merge queue, line 0 holds the mail
    /// of all campaigns.
    Campaign(usize),
    /// A campaign's line for mail from limit queues, by the campaign's index among all campaigns. Any other
    /// index stands for a removed campaign.
    Limited(usize),
}

/// A message that waits for its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting<T> {
    /// The caller's handle of the message; the limiter only hands it back.
    pub ticket: T,
    /// The line in which the message waits.
    pub line: Line,
    /// The mail's priority, which decides the order within a line.
    pub priority: Priority,
    /// The number of slots that the message spends: its recipients, at least 1.
    pub recipients: u32,
}

/// One line of waiting messages, ordered by priority, then by recipients (most first), then by arrival.
#[derive(Clone, Debug)]
pub(super) struct WaitingLane<T> {
    messages: BTreeMap<(Priority, Reverse<u32>, u64), Waiting<T>>,
    arrivals: u64,
    recipients: u64,
}

impl<T> Default for WaitingLane<T> {
    fn default() -> Self {
        Self { messages: BTreeMap::new(), arrivals: 0, recipients: 0 }
    }
}

impl<T: Copy> WaitingLane<T> {
    pub(super) fn push(&mut self, message: Waiting<T>) {
        self.arrivals += 1;
        self.recipients += u64::from(message.recipients);
        let key = (message.priority, Reverse(message.recipients), self.arrivals);
        self.messages.insert(key, message);
    }

    /// Takes the first message that has at most `slots` recipients and for which `may` returns true.
    pub(super) fn take(
        &mut self,
        slots: u64,
        may: impl Fn(&Waiting<T>) -> bool,
    ) -> Option<Waiting<T>> {
        let key = self.first(slots, may)?;
        let message = self.messages.remove(&key)?;
        self.recipients -= u64::from(message.recipients);
        Some(message)
    }

    pub(super) fn fits(&self, slots: u64, may: impl Fn(&Waiting<T>) -> bool) -> bool {
        self.first(slots, may).is_some()
    }

    pub(super) fn take_all(&mut self) -> Vec<Waiting<T>> {
        self.recipients = 0;
        std::mem::take(&mut self.messages).into_values().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) const fn recipients(&self) -> u64 {
        self.recipients
    }

    pub(super) fn mails(&self) -> u64 {
        self.messages.len() as u64
    }

    pub(super) fn by_priority(&self) -> [u64; 4] {
        Priority::ALL.map(|priority| {
            let from = (priority, Reverse(u32::MAX), 0);
            self.messages.range(from..=(priority, Reverse(0), u64::MAX)).count() as u64
        })
    }

    fn first(
        &self,
        slots: u64,
        may: impl Fn(&Waiting<T>) -> bool,
    ) -> Option<(Priority, Reverse<u32>, u64)> {
        let largest = u32::try_from(slots).unwrap_or(u32::MAX);
        Priority::ALL.into_iter().find_map(|priority| {
            let from = (priority, Reverse(largest), 0);
            let to = (priority, Reverse(0), u64::MAX);
            let mut range = self.messages.range(from..=to);
            range.find(|(_, message)| may(message)).map(|(key, _)| *key)
        })
    }
}
