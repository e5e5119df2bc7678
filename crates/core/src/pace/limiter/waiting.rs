use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr as _;

use crate::cycle::Cycle;
use crate::email::Priority;
use crate::timestamp::Window;

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

/// The mail from limit queues, by campaign. It takes slots of its campaign, before the campaign's
/// other mail (its limit leaves it fewer slots to choose from), and slots that no other message can
/// use. So it does not take slots from other campaigns that wait, and is not slowed more than its limit
/// demands.
#[derive(Clone, Debug)]
pub(super) struct LimitTurns<T> {
    cycle: Cycle,
    /// By campaign, the lane that may hold other mail of it.
    lines: Vec<Option<usize>>,
    /// One lane per campaign, and a last one for mail of campaigns that were removed.
    pub(super) lanes: Vec<WaitingLane<T>>,
    pub(super) in_turn: u64,
}

impl<T: Copy> LimitTurns<T> {
    pub(super) fn new(cycle: Cycle, lines: Vec<Option<usize>>) -> Self {
        let lanes = (0..=cycle.weights().len()).map(|_| WaitingLane::default()).collect();
        Self { cycle, lines, lanes, in_turn: 0 }
    }

    pub(super) fn push(&mut self, campaign: usize, message: Waiting<T>) {
        let index = campaign.min(self.lanes.len() - 1);
        if let Some(lane) = self.lanes.get_mut(index) {
            lane.push(message);
        }
    }

    /// Takes mail of the campaign whose turn it is: the owner of slot `cursor`, or the next campaign in
    /// the cycle that has any mail that fits. Returns `None` if that campaign has only other mail,
    /// which then goes first.
    ///
    /// Example: A and B own slots in turn, A has mail from a limit queue, B has other mail. At A's
    /// slots A's mail is taken; at B's slots `None` is returned, and B's other mail takes them.
    pub(super) fn take_in_turn(
        &mut self,
        cursor: u64,
        left: u64,
        may: &impl Fn(&Waiting<T>) -> bool,
        others: &[WaitingLane<T>],
    ) -> Option<Waiting<T>> {
        if self.lanes.iter().all(WaitingLane::is_empty) {
            return None;
        }
        let mut ahead = (0..self.cycle.length()).map(|k| self.cycle.owner(cursor + k));
        let lane = |campaign: usize| self.lanes.get(campaign).is_some_and(|l| l.fits(left, may));
        let other = |campaign: usize| {
            let line = self.lines.get(campaign).copied().flatten();
            line.and_then(|line| others.get(line)).is_some_and(|lane| lane.fits(left, may))
        };
        let owner = ahead.find(|campaign| lane(*campaign) || other(*campaign))?;
        let message = self.lanes.get_mut(owner)?.take(left, may)?;
        self.in_turn += u64::from(message.recipients);
        Some(message)
    }

    /// Takes any mail that fits; for slots that no other message can use.
    pub(super) fn take_any(
        &mut self,
        left: u64,
        may: &impl Fn(&Waiting<T>) -> bool,
    ) -> Option<Waiting<T>> {
        self.lanes.iter_mut().find_map(|lane| lane.take(left, may))
    }
}

/// Mails that wait, by line and by priority in the order of [`Priority::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingMails {
    /// In the express line.
    pub express: [u64; 4],
    /// In the campaigns' lines.
    pub campaigns: [u64; 4],
    /// In the lines of mail from limit queues.
    pub limited: [u64; 4],
}

impl WaitingMails {
    /// The lines with their names.
    pub const fn by_line(&self) -> [(&'static str, [u64; 4]); 3] {
        [("express", self.express), ("campaigns", self.campaigns), ("limited", self.limited)]
    }

    /// The mails of all lines, by priority.
    pub fn by_priority(&self) -> [(Priority, u64); 4] {
        let mut lines = Priority::ALL.map(|priority| (priority, 0));
        for (_, mails) in self.by_line() {
            lines.iter_mut().zip(mails).for_each(|((_, sum), mails)| *sum += mails);
        }
        lines
    }
}

/// The slots of a window that no mail took, and the mails that were received for it and got none.
///
/// ```
/// use tidegate_core::Window;
/// use tidegate_core::limiter::{WaitingMails, WindowLeft};
/// let mails = WaitingMails { campaigns: [0, 1, 12, 0], ..WaitingMails::default() };
/// let left = WindowLeft { window: Window::from_epoch_second(1_795_207_000), slots: 2, mails };
/// assert_eq!(left.to_string(), "1795207000 2 0 0 0 0 0 1 12 0 0 0 0 0");
/// assert_eq!(WindowLeft::parse(&left.to_string()), Some(left));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowLeft {
    /// The window.
    pub window: Window,
    /// Slots that passed unused because no fitting mail waited, or that the window did not come to.
    pub slots: u64,
    /// The mails that waited when no slot was left.
    pub mails: WaitingMails,
}

impl WindowLeft {
    /// Reads the text that [`fmt::Display`] writes; `None` for any other.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers = text.split(' ').map(u64::from_str).collect::<Result<Vec<_>, _>>().ok()?;
        let (&[window, slots], lines) = numbers.split_first_chunk()?;
        let &[express, campaigns, limited] = lines.as_chunks::<4>().0 else { return None };
        let mails = WaitingMails { express, campaigns, limited };
        let read = Self { window: Window::from_epoch_second(window), slots, mails };
        (lines.len() == 12).then_some(read)
    }
}

/// Numbers with blanks between: every window writes it, and each KB of its item is billed.
impl fmt::Display for WindowLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.window.epoch_second(), self.slots)?;
        let mut mails = self.mails.by_line().into_iter().flat_map(|(_, mails)| mails);
        mails.try_for_each(|mails| write!(f, " {mails}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_reads_back_what_it_writes(
            (window, slots) in (0_u64..u64::MAX / 1_000, any::<u64>()),
            (express, campaigns, limited) in any::<([u64; 4], [u64; 4], [u64; 4])>(),
        ) {
            let mails = WaitingMails { express, campaigns, limited };
            let left = WindowLeft { window: Window::from_epoch_second(window), slots, mails };
            prop_assert_eq!(WindowLeft::parse(&left.to_string()), Some(left));
        }

        #[test]
        fn no_text_is_too_strange(text in "[0-9 x]{0,40}") {
            let _ = WindowLeft::parse(&text);
        }
    }

    #[test]
    fn a_text_of_another_version_is_none() {
        for text in ["", "1", "1 2 3", "1 2 0 0 0 0 0 0 0 0 0 0 0", "1 2 0 0 0 0 0 0 0 0 0 0 0 0 0"]
        {
            assert_eq!(WindowLeft::parse(text), None, "{text}");
        }
    }
}
