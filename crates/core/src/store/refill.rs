//! How much mail one run of the scheduler brings from the store to the campaigns' queues.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{ObjectName, Waits};
use crate::number::{real, whole};
use crate::timestamp::{Timestamp, Window};

/// A campaign's queue is filled from the store for this long, so that a pause, a cancel or a new weight acts at once on
/// what is still stored.
pub const FILLED_FOR: Duration = Duration::from_mins(3);
/// SQS delays a message by at most this much.
pub const LONGEST_DELAY: Duration = Duration::from_mins(15);
/// Mail waits in the store for at most this long.
pub const LONGEST_WAIT: Duration = Duration::from_hours(24 * 365);
/// Timed mail is brought to its queue this long before its time, with SQS's delay for the rest. A run of the scheduler
/// may be a minute late.
const AHEAD: Duration = Duration::from_mins(2);
/// Fewest mails that there is room for on an empty queue: a batch.
const LEAST: u64 = 10;

/// The last window whose timed mail a run at `now` brings to its queue.
pub fn due_until(now: Timestamp) -> Window {
    Window::containing(now + AHEAD)
}

/// The window under whose name mail with this `not_before` is stored: the begin of its minute. So one object has
/// all of a minute, and SQS delays each of its mails to the second.
pub fn minute_of(not_before: Timestamp) -> Window {
    let second = Window::containing(not_before).epoch_second();
    Window::from_epoch_second(second - second % 60)
}

/// SQS's delay at `now` for mail with this `not_before`, in whole seconds, rounded up; 0 once its time has come, and
/// at most 15 minutes.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{Timestamp, store::refill::delay};
/// let at = Timestamp::from_millis;
/// assert_eq!(delay(at(61_001), at(60_000)), Duration::from_secs(2));
/// ```
pub fn delay(not_before: Timestamp, now: Timestamp) -> Duration {
    let left = not_before.saturating_since(now);
    let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
    Duration::from_secs(seconds).min(LONGEST_DELAY)
}

/// How many more mails go onto a campaign's queue that has `depth` of them: what `mails_a_second` sends in 3 minutes
/// by the campaign's `share` (0 to 1) of the weights of those that have mail in the store.
///
/// ```
/// use tidegate_core::store::refill::room;
/// assert_eq!(room(400, 14.0, 0.5), 860);
/// assert_eq!(room(1_300, 14.0, 0.5), 0);
/// ```
pub fn room(depth: u64, mails_a_second: f64, share: f64) -> u64 {
    let filled = mails_a_second * share * real(FILLED_FOR.as_secs());
    whole(filled.ceil()).max(LEAST).saturating_sub(depth)
}

/// How many mails of each of `objects` are brought back, in their order, the first first: of each campaign at most its
/// room (a campaign without one has room for all), and of deferred mail at most `deferred` in all.
///
/// Example: two deferred objects of 25 and 12 mails of a campaign with room for 30, and `deferred` is 28: 25 and 3.
pub fn portions(
    objects: &[ObjectName],
    mut rooms: BTreeMap<String, u64>,
    mut deferred: u64,
) -> Vec<u64> {
    let portion = |object: &ObjectName| {
        let mut portion = object.mails;
        let room = rooms.get_mut(&object.campaign);
        let left = (object.waits == Waits::Deferred).then_some(&mut deferred);
        let bounds: Vec<&mut u64> = room.into_iter().chain(left).collect();
        portion = bounds.iter().fold(portion, |portion, bound| portion.min(**bound));
        for bound in bounds {
            *bound -= portion;
        }
        portion
    };
    objects.iter().map(portion).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn objects() -> impl Strategy<Value = Vec<ObjectName>> {
        let object = (any::<bool>(), 0_u8..4, 1_u64..300).prop_map(|(timed, campaign, mails)| {
            let waits = if timed { Waits::Timed } else { Waits::Deferred };
            let (window, token) = (Window::from_epoch_second(7), "1a".to_owned());
            ObjectName { waits, window, campaign: format!("c{campaign}"), token, mails }
        });
        proptest::collection::vec(object, 0..20)
    }

    proptest! {
        #[test]
        fn no_bound_is_exceeded_and_nothing_that_all_bounds_allow_is_left(
            objects in objects(),
            rooms in proptest::collection::btree_map("c[0-3]", 0_u64..400, 0..4),
            deferred in 0_u64..500,
        ) {
            let portions = portions(&objects, rooms.clone(), deferred);
            let sum = |of: &dyn Fn(&ObjectName) -> bool| -> u64 {
                let all = objects.iter().zip(&portions);
                all.filter(|(object, _)| of(object)).map(|(_, portion)| *portion).sum()
            };
            let is_deferred = |object: &ObjectName| object.waits == Waits::Deferred;
            prop_assert!(sum(&is_deferred) <= deferred);
            for (campaign, room) in &rooms {
                prop_assert!(sum(&|object| object.campaign == *campaign) <= *room);
            }
            for (object, portion) in objects.iter().zip(&portions) {
                prop_assert!(*portion <= object.mails);
                let used_up = rooms
                    .get(&object.campaign)
                    .is_some_and(|room| sum(&|other| other.campaign == object.campaign) == *room);
                let none_left = is_deferred(object) && sum(&is_deferred) == deferred;
                prop_assert!(*portion == object.mails || used_up || none_left);
            }
        }

        #[test]
        fn mail_is_never_early_and_its_minute_is_its_own(
            not_before in 0_u64..4_000_000_000_000,
            ahead in 0_u64..900_000,
        ) {
            let (at, now) = (Timestamp::from_millis(not_before), Timestamp::from_millis(not_before.saturating_sub(ahead)));
            let visible = now + delay(at, now);
            prop_assert!(visible >= at && visible.saturating_since(at) < Duration::from_secs(1));
            prop_assert!(minute_of(at).opens() <= at && at < minute_of(at).plus(60).opens());
        }

        #[test]
        fn room_and_depth_together_are_what_the_queue_is_filled_for(
            depth in 0_u64..1_000_000, rate in 0.01_f64..1_000.0, share in 0.0_f64..=1.0,
        ) {
            let filled = room(0, rate, share);
            prop_assert!(real(filled) <= (rate * share * 180.0).ceil().max(10.0));
            prop_assert_eq!(room(depth, rate, share), filled.saturating_sub(depth));
        }
    }
}
