use std::ops::Range;
use std::time::Duration;

use crate::grid::SlotGrid;
use crate::rate::{Rate, RateMargin};
use crate::timestamp::{SECOND, Timestamp, Window};

/// The slots of one limit in one window, spent by sends that start at the account's slots.
///
/// The limit q has a slot grid of its own, P = (1 + g) / q, a pure function of time and rate as the
/// account's. Slot k is good for one recipient whose send starts at an account's slot in [k·P, (k + 1)·P),
/// and belongs to the window of the first such slot: every poller agrees on that without talking. One not
/// spent by then is gone.
///
/// # The bound
/// In every interval of length P that begins at a slot one send starts at most. The slots of those that
/// start within one half-open second lie less than 1 s + g/2 × 1 s apart, which touches at most
/// ⌈(1 + g/2)·q/(1 + g)⌉ + 1 ≤ ⌈q⌉ + 1 intervals. A mail of r recipients spends r slots, one after the
/// other, of which one is that it starts in; others may have passed unspent. What the first and the last
/// mail of a second spend may lie outside it: there are at most ⌈q⌉ + 2r − 1. One of more recipients than
/// the window has slots of the limit spends all that are left, and its size stands for one: nothing is
/// sent that the limit would hold for ever.
///
/// Where a limit changes, it has no slot in the window of the change ([`DomainSlots::quiet`]): the windows
/// on either side are a second apart, and a send of a limited mail starts in its window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainSlots {
    grid: SlotGrid,
    account: SlotGrid,
    /// The first slot that is not spent.
    next: u64,
    end: u64,
    /// Slots of the window, at its start.
    owned: u64,
}

impl DomainSlots {
    /// The slots of a limit of `rate` in `window`, of an account with the grid `account`; `before` is
    /// the account's grid in the window before, where that is known.
    pub fn new(
        rate: Rate,
        rate_margin: RateMargin,
        account: SlotGrid,
        before: Option<SlotGrid>,
        window: Window,
    ) -> Self {
        let grid = SlotGrid::new(rate, rate_margin);
        let slots = account.slots_of(window);
        let owned = if slots.is_empty() { 0..0 } else { Self::owned(grid, account, &slots) };
        // Another grid before may have given the window before what stands before this one.
        let changed = before.is_some_and(|before| before != account);
        let opens = grid.first_from(window.opens());
        let start = if changed { owned.start.max(opens).min(owned.end) } else { owned.start };
        Self { grid, account, next: start, end: owned.end, owned: owned.end - start }
    }

    /// None: the limit changed, and this window is quiet.
    pub const fn quiet(self) -> Self {
        Self { next: self.end, owned: 0, ..self }
    }

    /// Those of which the first account's slot at or after them is one of `slots`.
    fn owned(grid: SlotGrid, account: SlotGrid, slots: &Range<u64>) -> Range<u64> {
        let after = |slot: u64| match slot.checked_sub(1) {
            Some(before) => grid.first_from(next_nano(account.at(before))),
            None => 0,
        };
        after(slots.start)..after(slots.end)
    }

    /// How many recipients the limit lets through in this window, in all.
    pub const fn owned_slots(&self) -> u64 {
        self.owned
    }

    /// How many it still lets through at `now` or after.
    pub fn left(&self, now: Timestamp) -> u64 {
        self.end.saturating_sub(self.next.max(self.grid.at_or_before(now)))
    }

    /// `delay` (whole seconds), set so that what comes back after it is at hand for the poller that has the
    /// limit's next slot, from its lead on: below one slot a second most windows have none.
    pub fn aligned(&self, now: Timestamp, delay: Duration, most: Duration) -> Duration {
        /// A poller asks its queues from before its window on; what it gets must be read before its slot.
        const LEAD: Duration = Duration::from_millis(300);
        const READ: Duration = Duration::from_millis(50);
        /// Some slots are in no reach of whole seconds.
        const TRIES: u64 = 24;
        if self.grid.period() <= SECOND {
            return delay;
        }
        let first = self.grid.first_from(now + delay);
        let fitting = |slot: u64| {
            let start = self.account.at(self.account.first_from(self.grid.at(slot)));
            let from = Window::containing(start).opens().saturating_sub(LEAD);
            let away = from.saturating_since(now);
            let away = Duration::from_secs(away.as_secs() + u64::from(away.subsec_nanos() > 0));
            (now + away + READ <= start && away <= most && !away.is_zero()).then_some(away)
        };
        (first..first + TRIES).find_map(fitting).unwrap_or(delay)
    }

    /// Whether a mail with `recipients` under this limit may start at the account's slot `slot`.
    pub fn admits(&self, slot: u64, recipients: u32) -> bool {
        let current = self.current(slot);
        (self.next..self.end).contains(&current) && self.spends(current, recipients).end <= self.end
    }

    /// Spends the slots of a mail that starts at the account's slot `slot`.
    pub fn take(&mut self, slot: u64, recipients: u32) {
        self.next = self.next.max(self.spends(self.current(slot), recipients).end);
    }

    /// The slot in whose interval the account's slot `slot` stands.
    fn current(&self, slot: u64) -> u64 {
        self.grid.at_or_before(self.account.at(slot))
    }

    /// What a mail that starts at `current` spends: one that is too large for any window what is left.
    fn spends(&self, current: u64, recipients: u32) -> Range<u64> {
        let recipients = u64::from(recipients).max(1);
        if recipients > self.owned {
            return self.next..self.end;
        }
        let first = (current + 1).saturating_sub(recipients).max(self.next);
        first..first + recipients
    }

    /// Whether `recipients` under this limit fit into what is left at `now`, beside those that wait.
    pub fn fits(&self, now: Timestamp, waiting: u64, recipients: u32) -> bool {
        let recipients = u64::from(recipients).max(1);
        let left = self.left(now);
        let of_window = self.end.saturating_sub(self.next);
        match recipients {
            1 => waiting < left,
            many if many <= self.owned => left > 0 && waiting + many <= of_window,
            _ => left > 0 && waiting == 0,
        }
    }
}

const fn next_nano(at: Timestamp) -> Timestamp {
    Timestamp::from_nanos(at.as_nanos().saturating_add(1))
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BASE: u64 = 1_763_670_967;

    fn rates(least: f64, most: f64) -> impl Strategy<Value = Rate> {
        (least..=most).prop_map(|exponent| Rate::per_second(10_f64.powf(exponent)).unwrap())
    }

    fn rate_margins() -> impl Strategy<Value = RateMargin> {
        (0.005_f64..=0.5).prop_map(|share| RateMargin::new(share).unwrap())
    }

    fn worst_second(mut starts: Vec<(u64, u64)>) -> u64 {
        starts.sort_unstable();
        crate::worst_second::worst_second(&starts, SECOND)
    }

    /// Every send that a limit lets through in `windows`, with mail of such sizes waiting where `wants`
    /// says so, each as late in its slot as `lateness` says.
    fn sends(
        (rate, rate_margin, account): (Rate, RateMargin, SlotGrid),
        windows: u64,
        sizes: &[u32],
        wants: impl Fn(u64) -> bool,
        lateness: impl Fn(u64) -> u64,
    ) -> Vec<(u64, u64)> {
        let mut sizes = sizes.iter().cycle();
        let mut size = *sizes.next().unwrap();
        let mut starts = Vec::new();
        for window in (0..windows).map(|k| Window::from_epoch_second(BASE + k)) {
            let mut slots = DomainSlots::new(rate, rate_margin, account, Some(account), window);
            for slot in account.slots_of(window) {
                if wants(slot) && slots.admits(slot, size) {
                    slots.take(slot, size);
                    let at = account.at(slot).as_nanos();
                    let latest = account.latest(slot).as_nanos().min(window.closes().as_nanos());
                    starts.push((at + lateness(slot) % (latest - at + 1), u64::from(size)));
                    size = *sizes.next().unwrap();
                }
            }
        }
        starts
    }

    fn hash(slot: u64, seed: u64) -> u64 {
        (slot ^ seed)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    proptest! {
        #[test]
        fn every_second_holds_at_most_the_limit_and_one(
            rate in rates(-2.0, 3.0), quota in rates(-0.5, 3.5), rate_margin in rate_margins(), seed: u64,
            always: bool,
        ) {
            let account = SlotGrid::new(quota, rate_margin);
            let wants = |slot| always || hash(slot, seed).is_multiple_of(3);
            let starts = sends((rate, rate_margin, account), 6, &[1], wants, |slot| hash(slot, !seed));
            prop_assert!(worst_second(starts) <= rate.ceil() + 1);
        }

        #[test]
        fn mails_of_r_recipients_add_at_most_twice_r_minus_one(
            rate in rates(0.8, 3.0), quota in rates(1.0, 3.5), rate_margin in rate_margins(), seed: u64,
            sizes in prop::collection::vec(1_u32..=5, 1..20),
        ) {
            let account = SlotGrid::new(quota, rate_margin);
            let starts = sends((rate, rate_margin, account), 4, &sizes, |_| true, |slot| hash(slot, seed));
            let largest = u64::from(*sizes.iter().max().unwrap());
            prop_assert!(worst_second(starts) < rate.ceil() + 2 * largest);
        }

        #[test]
        fn a_mail_larger_than_its_limit_goes_and_counts_as_one_of_its_size(
            rate in rates(-1.5, 0.6), quota in rates(1.0, 3.0), rate_margin in rate_margins(), size in 5_u32..=50,
        ) {
            let account = SlotGrid::new(quota, rate_margin);
            let starts = sends((rate, rate_margin, account), 200, &[size], |_| true, |_| 0);
            prop_assert!(!starts.is_empty());
            prop_assert!(worst_second(starts) <= (rate.ceil() + 1) * u64::from(size));
        }

        #[test]
        fn the_limit_is_reached_where_mail_waits(rate in rates(-1.0, 2.0), rate_margin in rate_margins(), faster in 1.2_f64..50.0) {
            let quota = Rate::per_second((rate.as_per_second() * faster).max(2.0)).unwrap();
            let account = SlotGrid::new(quota, rate_margin);
            let seconds = 300;
            let got = sends((rate, rate_margin, account), seconds, &[1], |_| true, |_| 0).len();
            let expected = rate.as_per_second() / (1.0 + rate_margin.as_share()) * 300.0;
            prop_assert!((got as f64 - expected).abs() <= 1.0 + expected * 1e-3, "{got} of {expected}");
        }

        #[test]
        fn a_change_of_the_quota_keeps_the_larger_bound(
            rate in rates(-1.0, 2.5), old in rates(0.0, 3.0), new in rates(0.0, 3.0), rate_margin in rate_margins(), seed: u64,
        ) {
            // The account's grid changes, the limit's does not.
            let (before, after) = (SlotGrid::new(old, rate_margin), SlotGrid::new(new, rate_margin));
            let mut starts = Vec::new();
            for k in 0..6 {
                let window = Window::from_epoch_second(BASE + k);
                let (account, previous) = if k < 3 { (before, before) } else { (after, if k == 3 { before } else { after }) };
                let mut slots = DomainSlots::new(rate, rate_margin, account, Some(previous), window);
                for slot in account.usable(window, Some(previous)) {
                    if slots.admits(slot, 1) {
                        slots.take(slot, 1);
                        let at = account.at(slot).as_nanos();
                        let latest = account.latest(slot).as_nanos().min(window.closes().as_nanos());
                        starts.push((at + hash(slot, seed) % (latest - at + 1), 1));
                    }
                }
            }
            prop_assert!(worst_second(starts) <= rate.ceil() + 1);
        }

        #[test]
        fn a_change_of_the_limit_keeps_the_larger_bound_by_a_quiet_window(
            old in rates(-1.0, 2.5), new in rates(-1.0, 2.5), quota in rates(0.5, 3.0), rate_margin in rate_margins(), seed: u64,
        ) {
            let account = SlotGrid::new(quota, rate_margin);
            let mut starts = Vec::new();
            for k in 0..6 {
                let window = Window::from_epoch_second(BASE + k);
                let mut slots = DomainSlots::new(if k < 3 { old } else { new }, rate_margin, account, Some(account), window);
                if k == 3 {
                    slots = slots.quiet();
                }
                for slot in account.slots_of(window) {
                    if slots.admits(slot, 1) {
                        slots.take(slot, 1);
                        let at = account.at(slot).as_nanos();
                        let latest = account.latest(slot).as_nanos().min(window.closes().as_nanos() - 1);
                        starts.push((at + hash(slot, seed) % (latest - at + 1), 1));
                    }
                }
            }
            prop_assert!(worst_second(starts) <= old.max(new).ceil() + 1);
        }

        #[test]
        fn what_waits_for_a_slow_limit_comes_back_to_the_poller_that_has_its_slot(
            rate in rates(-1.5, -0.1), since in 0_u64..3_600_000, delay in 15_u64..=400,
        ) {
            let rate_margin = RateMargin::default();
            let account = SlotGrid::new(Rate::per_second(14.0).unwrap(), rate_margin);
            let slots = |window| DomainSlots::new(rate, rate_margin, account, None, window);
            let now = Window::from_epoch_second(BASE).opens() + Duration::from_millis(since);
            let away = slots(Window::containing(now)).aligned(now, Duration::from_secs(delay), Duration::from_mins(15));
            let back = now + away;
            // Whoever asks then: the window's poller, or the next one's in its lead.
            let soon = Window::containing(back + Duration::from_millis(300));
            let asks = [Window::containing(back), soon].map(slots);
            let found = asks.iter().any(|slots| slots.left(back) > 0);
            prop_assert!(found || away == Duration::from_secs(delay), "{away:?}");
        }

        #[test]
        fn no_slot_of_a_limit_belongs_to_two_windows_and_none_to_nobody(
            rate in rates(-1.0, 3.0), quota in rates(0.1, 3.5), rate_margin in rate_margins(),
        ) {
            let account = SlotGrid::new(quota, rate_margin);
            let mut end = None;
            for k in 0..20 {
                let window = Window::from_epoch_second(BASE + k);
                let slots = DomainSlots::new(rate, rate_margin, account, Some(account), window);
                if account.slots_of(window).is_empty() {
                    continue;
                }
                if let Some(end) = end {
                    prop_assert_eq!(end, slots.next);
                }
                end = Some(slots.end);
                prop_assert_eq!(slots.left(Timestamp::default()), slots.owned_slots());
            }
        }
    }
}
