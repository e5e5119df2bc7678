//! How many recipients of campaign mail to have in hand while express mail may come.
//!
//! Express mail takes slots for which campaign mail was received; the campaign mail that gets no slot
//! stays invisible until its visibility timeout. So if express mail comes, campaign mail is received
//! only for the slots just ahead, less those that express mail is expected to take. If express mail
//! then stays away, no slot stays empty, because the next receive covers the slots that come closer. At
//! the window's end no receive can do that any more; so there campaign mail is held for all slots but
//! those that express mail takes almost surely.

use std::time::Duration;

use crate::allocation::BATCH;
use crate::number::{real, whole};
use crate::rate::Rate;

/// The length of the slots just ahead, in seconds: many times what a receive takes.
const AHEAD: f64 = 0.25;
/// A receive may take this long: a shorter silence says nothing.
const A_RECEIVE: Duration = Duration::from_millis(50);
/// The largest share of the slots ahead that express mail is expected to take if its queue has just
/// given less than was asked for. The other fifth of the slots is enough to bridge a receive.
const MOST_EXPECTED: f64 = 0.8;

/// The state of a window at one instant, from which the amount of campaign mail to hold is computed.
///
/// Example: at 1,000/s 250 slots are just ahead. Express mail took half of the slots lately, so
/// campaign mail is held for the other 125; if 180 of the 250 are floor slots, for 180.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{prefetch::Outlook, rate::Rate};
/// let outlook = Outlook {
///     rate: Rate::per_second(1_000.0)?, slots_left: 900, express_waiting: 100, express_share: 0.5,
///     express_gives: false, express_silent: Duration::ZERO, is_last: false, floor: 0,
///     recipients_per_mail: 1.0,
/// };
/// assert_eq!(outlook.campaigns_in_hand(), 125);
/// assert_eq!(Outlook { floor: 180, ..outlook }.campaigns_in_hand(), 180);
/// assert_eq!(Outlook { express_waiting: 900, ..outlook }.campaigns_in_hand(), 0);
/// # Ok::<(), tidegate_core::rate::InvalidRate>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Outlook {
    /// The rate of the window's slots, in recipients per second.
    pub rate: Rate,
    /// The number of slots that can still be acquired.
    pub slots_left: u64,
    /// The number of recipients of express mail in hand.
    pub express_waiting: u64,
    /// The share of the slots that express mail took in the last windows, 0 to 1.
    pub express_share: f64,
    /// Whether the last receive from the express queue brought all that was asked for, so that more may
    /// wait.
    pub express_gives: bool,
    /// The time since the express queue last gave mail, or was first asked.
    pub express_silent: Duration,
    /// Whether this may be the last receive for these slots: none after it can fill what express leaves.
    pub is_last: bool,
    /// The number of floor slots among the slots just ahead.
    pub floor: u64,
    /// The mean number of recipients of campaigns' mail, at least 1.
    pub recipients_per_mail: f64,
}

impl Outlook {
    /// The number of slots just ahead: those of a quarter of a second, at least what a receive of ten
    /// mails fills, or half of the slots left. Near the window's end few are held, because express mail
    /// that comes then displaces mail that no later slot of the window can take.
    pub fn slots_ahead(rate: Rate, slots_left: u64, recipients_per_mail: f64) -> u64 {
        let batch = (real(BATCH) * recipients_per_mail.max(1.0)).min(real(slots_left) / 2.0);
        whole((rate.as_per_second() * AHEAD).max(batch).ceil())
    }

    /// The number of recipients of campaign mail to have in hand, including those of receives under
    /// way.
    pub fn campaigns_in_hand(&self) -> u64 {
        let free = self.slots_left.saturating_sub(self.express_waiting);
        let ahead =
            Self::slots_ahead(self.rate, self.slots_left, self.recipients_per_mail).min(free);
        let most = if self.express_gives { 1.0 } else { MOST_EXPECTED };
        let ahead_seconds = real(ahead) / self.rate.as_per_second();
        // A silence of s seconds makes more than 3/s mails a second improbable (1 in 20, if their gaps are
        // those of a Poisson process).
        let silent = self.express_silent.saturating_sub(A_RECEIVE);
        let most_after_silence = 3.0 * ahead_seconds / silent.as_secs_f64();
        let mean = (real(ahead) * self.express_share.clamp(0.0, most)).min(most_after_silence);
        let expected = whole(if self.is_last { mean - 3.0 * mean.sqrt() } else { mean });
        // At least one, so that campaign mail goes on if the express mail that was expected to take all
        // slots stays away.
        let least = self.floor.max(1).min(free);
        ahead.saturating_sub(expected).max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ahead_are_a_quarter_of_a_second_a_receive_or_half_of_the_slots_left() {
        let ahead = |rate, left| Outlook::slots_ahead(Rate::per_second(rate).unwrap(), left, 1.0);
        assert_eq!((ahead(200.0, 150), ahead(14.0, 100), ahead(14.0, 14)), (50, 10, 7));
    }

    #[test]
    fn express_mail_is_expected_at_its_share_and_hardly_after_a_silence() {
        let after = |silent_ms| {
            let outlook = Outlook {
                rate: Rate::per_second(200.0).unwrap(),
                slots_left: 200,
                express_waiting: 0,
                express_share: 0.4,
                express_gives: true,
                express_silent: Duration::from_millis(silent_ms),
                is_last: false,
                floor: 0,
                recipients_per_mail: 1.0,
            };
            outlook.campaigns_in_hand()
        };
        assert_eq!((after(0), after(1_050)), (30, 50));
    }

    proptest! {
        #[test]
        fn never_more_than_the_free_slots_and_never_none_while_one_is_free(
            rate in 0.1_f64..10_000.0, slots_left in 0_u64..10_000, express_waiting in 0_u64..10_000,
            express_share in -0.5_f64..1.5, express_gives in prop::bool::ANY, silent_ms in 0_u64..5_000,
            is_last in prop::bool::ANY, floor in 0_u64..1_000, recipients_per_mail in 1.0_f64..50.0,
        ) {
            let outlook = Outlook {
                rate: Rate::per_second(rate).unwrap(), slots_left, express_waiting, express_share,
                express_gives, express_silent: Duration::from_millis(silent_ms), is_last, floor,
                recipients_per_mail,
            };
            let free = slots_left.saturating_sub(express_waiting);
            let in_hand = outlook.campaigns_in_hand();
            prop_assert!(in_hand <= free);
            prop_assert!(in_hand >= floor.max(1).min(free));
            // A fifth of the slots ahead bridges a receive, if express mail has shown that it ends.
            if !express_gives {
                let ahead = Outlook::slots_ahead(outlook.rate, slots_left, recipients_per_mail);
                let ahead = ahead.min(free);
                prop_assert!(in_hand >= ahead / 5);
            }
            // At the end, and after a silence, more is held, never less.
            let before = Outlook { is_last: false, express_silent: Duration::ZERO, ..outlook };
            prop_assert!(in_hand >= before.campaigns_in_hand());
        }
    }
}
