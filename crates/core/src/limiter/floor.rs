//! The campaigns' floor: the share of the slots that their mail takes before express mail.

use std::ops::Range;
use std::str::FromStr;

use thiserror::Error;

use super::waiting::WaitingLane;
use super::{Limiter, Line, Waiting};

/// The largest floor, in parts per hundred: what is sent at once still has every tenth slot.
const MOST: u8 = 90;

/// The share of the slots that campaigns' mail takes before express mail, in parts per hundred.
///
/// Slot n is the campaigns' first where ⌊(n + 1)·f⌋ > ⌊n·f⌋: a pure function of the slot's number, so
/// pollers of neighbouring windows agree without talking, and in any run of slots the count is
/// within one of the share. A slot whose first has no mail goes to the other.
///
/// ```
/// use tidegate_core::limiter::Floor;
/// let floor: Floor = "20%".parse()?;
/// let first: Vec<u64> = (0..15).filter(|slot| floor.is_first_for_campaigns(*slot)).collect();
/// assert_eq!(first, [4, 9, 14]);
/// # Ok::<(), tidegate_core::limiter::InvalidFloor>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floor(u8);

/// A text that is no floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a floor is a whole share from 0% to 90%")]
pub struct InvalidFloor;

impl FromStr for Floor {
    type Err = InvalidFloor;

    fn from_str(text: &str) -> Result<Self, InvalidFloor> {
        let digits = text.strip_suffix('%').map(str::trim_end).ok_or(InvalidFloor)?;
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        let percent = digits.parse().ok().filter(|percent| plain && *percent <= MOST);
        percent.map(Self).ok_or(InvalidFloor)
    }
}

impl Floor {
    /// Parts per hundred, 0 to 90; 0 is no floor.
    pub const fn percent(self) -> u8 {
        self.0
    }

    /// Whether campaigns' mail goes before express mail at this slot.
    pub fn is_first_for_campaigns(self, slot: u64) -> bool {
        self.before(slot.saturating_add(1)) > self.before(slot)
    }

    /// How many of `slots` are first the campaigns'.
    ///
    /// ```
    /// # use tidegate_core::limiter::Floor;
    /// assert_eq!("20%".parse::<Floor>()?.count(3..13), 2);
    /// # Ok::<(), tidegate_core::limiter::InvalidFloor>(())
    /// ```
    pub fn count(self, slots: Range<u64>) -> u64 {
        self.before(slots.end).saturating_sub(self.before(slots.start))
    }

    /// ⌊slot·f⌋: how many of the slots before this one are first the campaigns'.
    pub(super) fn before(self, slot: u64) -> u64 {
        u64::try_from(u128::from(slot) * u128::from(self.0) / 100).unwrap_or(u64::MAX)
    }
}

impl<T: Copy> Limiter<T> {
    /// This limiter with a floor for the campaigns.
    pub const fn with_floor(mut self, floor: Floor) -> Self {
        self.floor = floor;
        self
    }

    /// Slots, of the next `within` that can be acquired, that are first the campaigns'.
    pub fn floor_ahead(&self, within: u64) -> u64 {
        let end = self.cursor.saturating_add(within).min(self.end);
        self.floor.count(self.cursor..end.max(self.cursor))
    }

    /// Recipients of the express mails that wait or are placed.
    pub fn express_waiting(&self) -> u64 {
        let placed = self.placed.filter(|placed| placed.message.line == Line::Express);
        self.express.recipients() + placed.map_or(0, |placed| u64::from(placed.message.recipients))
    }

    /// Recipients of the campaigns' mails that wait or are placed, but for those of domains' queues.
    pub fn campaigns_waiting(&self) -> u64 {
        let own = |message: &Waiting<T>| matches!(message.line, Line::Campaign(_));
        let placed = self.placed.filter(|placed| own(&placed.message));
        let lanes = self.lanes.iter().map(WaitingLane::recipients).sum::<u64>();
        lanes + placed.map_or(0, |placed| u64::from(placed.message.recipients))
    }

    /// Whether the slot at the cursor goes to a campaign though an express mail fits it.
    pub(super) fn is_floor(&self) -> bool {
        match self.floor_owed {
            0 => self.floor.is_first_for_campaigns(self.cursor),
            owed => owed > 0,
        }
    }

    /// The turn of the cycle at which the slot at the cursor stands: its own number. Of the floor's
    /// slots that campaigns take from express their own count, or one of a few campaigns could own
    /// them all.
    pub(super) fn turn(&self) -> u64 {
        let taken = self.floor.percent() > 0 && self.express.fits(self.slots_left(), |_| true);
        if taken { self.floor.before(self.cursor) } else { self.cursor }
    }

    /// Notes the slots that a mail takes of the other side's while mail of that side waits: a mail of
    /// many recipients takes whatever stands beside its first.
    pub(super) fn note_floor(&mut self, line: Line, slots: Range<u64>) {
        let left = self.slots_left();
        let campaigns = self.floor.count(slots.clone());
        let express = (slots.end - slots.start) - campaigns;
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        match line {
            _ if self.floor.percent() == 0 => {}
            Line::Express if self.any_campaign_fits(left) => {
                self.floor_owed += signed(campaigns);
            }
            Line::Campaign(_) | Line::Limited(_) if self.express.fits(left, |_| true) => {
                self.floor_owed -= signed(express);
            }
            _ => {}
        }
    }

    fn any_campaign_fits(&self, left: u64) -> bool {
        self.lanes.iter().chain(self.limited.lanes()).any(|lane| lane.fits(left, |_| true))
    }
}

#[cfg(test)]
mod tests;
