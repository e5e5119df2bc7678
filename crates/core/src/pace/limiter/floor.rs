//! The express floor: the share of the slots that campaigns' mail takes before express mail.

use std::ops::Range;
use std::str::FromStr;

use super::waiting::WaitingLane;
use super::{Limiter, Line, Waiting};
use crate::text::InvalidText;

/// The largest floor, in percent: express mail keeps at least every tenth slot.
const MOST: u8 = 90;

/// The express floor: the share f of the slots that campaigns' mail takes before express mail, in
/// percent.
///
/// Slot n is a floor slot if ⌊(n + 1)·f⌋ > ⌊n·f⌋. This is a pure function of the slot's number, so the
/// pollers of neighbouring windows agree without communicating, and in any run of slots the number of
/// floor slots is within one of the share. At a floor slot express mail goes if no campaign has mail
/// that fits; at any other slot it is the other way round.
///
/// Example: with f = 20 % the products n·f are 0, 0.2, 0.4, 0.6, 0.8, 1.0: the whole part grows from n
/// = 4 to 5, so slot 4 is the first floor slot.
///
/// ```
/// use tidegate_core::limiter::Floor;
/// let floor: Floor = "20%".parse()?;
/// let first: Vec<u64> = (0..15).filter(|slot| floor.is_first_for_campaigns(*slot)).collect();
/// assert_eq!(first, [4, 9, 14]);
/// # Ok::<(), tidegate_core::InvalidText>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floor(u8);

impl FromStr for Floor {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let digits = text.strip_suffix('%').map(str::trim_end);
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let percent =
            digits.and_then(|digits| digits.parse().ok()).filter(|percent| *percent <= MOST);
        percent.map(Self).ok_or_else(|| {
            InvalidText::new(text, "is no floor; allowed is a whole share from 0% to 90%")
        })
    }
}

impl Floor {
    /// The floor in percent, 0 to 90; 0 means that express mail goes first at every slot.
    pub const fn percent(self) -> u8 {
        self.0
    }

    /// Whether `slot` is a floor slot: campaigns' mail goes before express mail.
    pub fn is_first_for_campaigns(self, slot: u64) -> bool {
        self.before(slot.saturating_add(1)) > self.before(slot)
    }

    /// The number of floor slots among `slots`.
    ///
    /// ```
    /// # use tidegate_core::limiter::Floor;
    /// assert_eq!("20%".parse::<Floor>()?.count(3..13), 2);
    /// # Ok::<(), tidegate_core::InvalidText>(())
    /// ```
    pub fn count(self, slots: Range<u64>) -> u64 {
        self.before(slots.end).saturating_sub(self.before(slots.start))
    }

    /// ⌊slot·f⌋: the number of floor slots before this slot.
    pub(super) fn before(self, slot: u64) -> u64 {
        u64::try_from(u128::from(slot) * u128::from(self.0) / 100).unwrap_or(u64::MAX)
    }
}

impl<T: Copy> Limiter<T> {
    /// This limiter with an express floor.
    pub const fn with_floor(mut self, floor: Floor) -> Self {
        self.floor = floor;
        self
    }

    /// The number of floor slots among the next `within` slots that can be acquired.
    pub fn floor_ahead(&self, within: u64) -> u64 {
        let end = self.cursor.saturating_add(within).min(self.end);
        self.floor.count(self.cursor..end.max(self.cursor))
    }

    /// The number of express mails that wait.
    pub fn express_mails(&self) -> u64 {
        self.express.mails()
    }

    /// The number of recipients of express mail that waits or is placed.
    pub fn express_waiting(&self) -> u64 {
        let placed = self.placed.filter(|placed| placed.message.line == Line::Express);
        self.express.recipients() + placed.map_or(0, |placed| u64::from(placed.message.recipients))
    }

    /// The number of recipients of campaigns' mail that waits or is placed, without mail from limit
    /// queues.
    pub fn campaigns_waiting(&self) -> u64 {
        let own = |message: &Waiting<T>| matches!(message.line, Line::Campaign(_));
        let placed = self.placed.filter(|placed| own(&placed.message));
        let lanes = self.lanes.iter().map(WaitingLane::recipients).sum::<u64>();
        lanes + placed.map_or(0, |placed| u64::from(placed.message.recipients))
    }

    /// Whether campaigns' mail goes first at the cursor: at a floor slot, but first the side that is
    /// owed a slot (see [`Self::note_floor`]).
    pub(super) fn is_floor(&self) -> bool {
        match self.floor_owed {
            0 => self.floor.is_first_for_campaigns(self.cursor),
            owed => owed > 0,
        }
    }

    /// The position in the cycle by which the slot at the cursor is given to a campaign: normally the
    /// slot's number. While express mail waits, campaigns get floor slots only, and their positions are
    /// counted separately: 0, 1, 2, …
    ///
    /// Example: a floor of 10 % makes slots 9, 19, 29, … floor slots. With weights 90 and 10 these are
    /// exactly the slots of the small campaign, which would get all of them. Counted separately, they
    /// go to positions 0, 1, 2, … of the cycle, nine of ten to the large campaign.
    pub(super) fn turn(&self) -> u64 {
        let taken = self.floor.percent() > 0 && self.express.fits(self.slots_left(), |_| true);
        if taken { self.floor.before(self.cursor) } else { self.cursor }
    }

    /// Notes the slots that a mail takes from the other side while mail of that side waits. A mail with
    /// several recipients takes all the slots after its first one, whichever side they belong to.
    ///
    /// Example: a floor of 20 %, and an express mail with 5 recipients at slot 0. It takes slots 0 to
    /// 4, and slot 4 is a floor slot, so express owes 1. Therefore slot 5 goes to a campaign first.
    /// Slot 5 is no floor slot, so it pays the debt back: express owes 0.
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
        self.lanes.iter().chain(&self.limited.lanes).any(|lane| lane.fits(left, |_| true))
    }
}

#[cfg(test)]
mod tests;
