use std::fmt;
use std::str::FromStr as _;

use crate::email::Priority;
use crate::timestamp::Window;

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
