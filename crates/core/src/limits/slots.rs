use std::ops::Range;
use std::time::Duration;

use super::ramp::DaySlots;
use crate::grid::SlotGrid;
use crate::rate::{Rate, RateMargin};
use crate::timestamp::{SECOND, Timestamp, Window};

/// From its opening on, for so long, a window's poller is the only one that asks the queues: the next one
/// begins up to 400 ms before its own window opens.
const ALONE: Duration = Duration::from_millis(600);

/// Whether no poller but that of `window` asks the queues at `now`.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::Window;
/// use tidegate_core::limits::is_alone;
/// let window = Window::from_epoch_second(1_795_207_000);
/// assert!(is_alone(window, window.opens() + Duration::from_millis(599)));
/// assert!(!is_alone(window, window.opens() + Duration::from_millis(600)));
/// assert!(!is_alone(window, window.opens().saturating_sub(Duration::from_millis(1))));
/// ```
pub fn is_alone(window: Window, now: Timestamp) -> bool {
    (window.opens()..window.opens() + ALONE).contains(&now)
}

/// The slots of one limit in one window, which are spent by sends that start at the account's slots.
///
/// A limit of q recipients per second has its own slot grid with the period P = (1 + g)/q, which is a
/// pure function of time and rate like the account's, shifted by the limit's place and name, so that limits do not
/// begin together. Slot k of the limit admits one recipient of a send that starts at an account's slot in
/// [k·P, (k + 1)·P). It belongs to the window of the first account's slot in or after this interval, so all
/// pollers agree without communicating. A slot that is not spent is lost.
///
/// Example: limit 5/s (P = 204 ms), account 14/s (slots every 72.857 ms), g = 0.02. Slot 1 of the limit
/// covers 204 to 408 ms, so it can be spent by a send at one of the account's slots 3, 4 and 5 (218.6,
/// 291.4 and 364.3 ms). The limit's slot 5 stands at 1,020 ms and belongs to the next window; the
/// window from 0 to 1 s has five, slots 0 to 4.
///
/// # The bound
/// Mails with one recipient: at most one send starts in each interval [k·P, (k + 1)·P), counted by its
/// account's slot. The account's slots of sends that start within one half-open second lie less than 1
/// s + g/2 × 1 s apart, and so touch at most ⌈(1 + g/2)·q/(1 + g)⌉ + 1 ≤ ⌈q⌉ + 1 intervals.
///
/// A mail with r recipients spends r consecutive slots: the one that it starts in, and others around
/// it, of which some may have passed unspent. The slots that the first and the last mail of a second
/// spend may lie outside this second, so it has at most ⌈q⌉ + 2r − 1 recipients.
///
/// A mail with more recipients than the window has slots of the limit spends all that are left, and
/// counts in the bound as one send of its size. Otherwise such a mail could never be sent.
///
/// If a limit changes, the first window with the new grid leaves out three of its slots
/// ([`LimitSlots::after_change`]). A second that contains sends of both grids then touches at most as many
/// intervals as a second of the faster grid: one interval more where the grids meet, and one at each end, are
/// three. A send of a limited mail starts within its window, so there is no other second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSlots {
    grid: LimitGrid,
    account: SlotGrid,
    /// The first slot that is not spent yet.
    next: u64,
    end: u64,
    /// The number of slots at the window's start.
    owned: u64,
    /// The account's slot of the last send, and the first slot that was not spent before it.
    last: Option<(u64, u64)>,
}

impl LimitSlots {
    /// The slots in `window` of a limit with this grid, for an account with the grid `account`. `before`
    /// is the account's grid in the window before, if known.
    pub fn new(
        grid: LimitGrid,
        account: SlotGrid,
        before: Option<SlotGrid>,
        window: Window,
    ) -> Self {
        let slots = account.slots_of(window);
        let owned = if slots.is_empty() { 0..0 } else { Self::owned(grid, account, &slots) };
        // With a different account's grid, the window before may have spent slots that stand before
        // this window opens; they are left out.
        let changed = before.is_some_and(|before| before != account);
        let opens = grid.first_from(window.opens());
        let start = if changed { owned.start.max(opens).min(owned.end) } else { owned.start };
        Self { grid, account, next: start, end: owned.end, owned: owned.end - start, last: None }
    }

    /// This window without its first slots, because the limit differs from that of the window before: the slots
    /// of two grids may lie close together.
    pub fn after_change(self, window: Window) -> Self {
        const LEFT_OUT: u64 = 3;
        let first = self.grid.first_from(window.opens()).saturating_add(LEFT_OUT);
        let next = self.next.max(first).min(self.end);
        Self { next, owned: self.end - next, ..self }
    }

    /// The limit's slots for which the first account's slot at or after them is one of `slots`.
    fn owned(grid: LimitGrid, account: SlotGrid, slots: &Range<u64>) -> Range<u64> {
        // The first limit's slot after the account's slot that precedes `slot`.
        let after = |slot: u64| match slot.checked_sub(1) {
            Some(before) => grid.first_from(account.at(before) + Duration::from_nanos(1)),
            None => 0,
        };
        after(slots.start)..after(slots.end)
    }

    /// The number of recipients that the limit admits in this window, spent slots included.
    pub const fn owned_slots(&self) -> u64 {
        self.owned
    }

    /// The number of recipients that the limit still admits at `now` or later.
    pub fn left(&self, now: Timestamp) -> u64 {
        self.end.saturating_sub(self.next.max(self.grid.at_or_before(now)))
    }

    /// The distance between two slots, in nanoseconds.
    pub const fn period(&self) -> u64 {
        self.grid.period()
    }

    /// Whether the limit has less than one slot per second, so that windows without one are normal.
    pub const fn is_slow(&self) -> bool {
        self.grid.period() > SECOND
    }

    /// The delay after which a mail that waits for a slow limit should come back: at most `most`, in whole
    /// seconds as SQS demands. It leads to a window with a slot at `delay` or later, and may itself be one
    /// second shorter than `delay`, because the mail must be there before the slot.
    ///
    /// The delay is chosen such that the mail is visible while only the poller of a window with a slot asks
    /// the queue ([`is_alone`]), and 50 ms before the last slot of the account at which the limit's slot can
    /// be spent. If whole seconds meet none of 24 slots so, from 300 ms before the window opens: then the
    /// poller of the window before may receive it. If none is met so either, `delay` is returned.
    ///
    /// Example: limit 6/min (P = 10.2 s), account 14/s, now 100.5 s, `delay` 15 s. The first slot after
    /// 115.5 s stands at 122.4 s, and sends that start from 122.43 to 122.94 s can spend it. The mail should
    /// be visible from 122 to 122.6 s: the delay is 22 s.
    pub fn aligned(&self, now: Timestamp, delay: Duration, most: Duration) -> Duration {
        /// A poller asks its queues at least so long before its window opens.
        const LEAD: Duration = Duration::from_millis(300);
        /// A message must be received this long before its slot.
        const READ: Duration = Duration::from_millis(50);
        /// How many slots to try: with whole seconds some cannot be met.
        const TRIES: u64 = 24;
        if !self.is_slow() {
            return delay;
        }
        if let LimitGrid::Closed(until) = self.grid {
            let until = until.unwrap_or(Timestamp::from_nanos(u64::MAX));
            let away = until.saturating_since(now) + Duration::from_secs(1);
            return Duration::from_secs(away.as_secs()).clamp(delay, most.max(delay));
        }
        let first = self.grid.first_from(now + delay);
        let fitting = |slot: u64, lead: Duration, until: Duration| {
            let start = self.account.at(self.account.first_from(self.grid.at(slot)));
            let window = Window::containing(start);
            let end = window.closes().min(self.grid.at(slot + 1));
            let last = self
                .account
                .at(self.account.at_or_before(end.saturating_sub(Duration::from_nanos(1))));
            let away = window.opens().saturating_sub(lead).saturating_since(now);
            let away = Duration::from_secs(away.as_secs() + u64::from(away.subsec_nanos() > 0));
            let back = now + away;
            let is_met = back + READ <= last && back < window.opens() + until;
            (is_met && away <= most && !away.is_zero()).then_some(away)
        };
        let slots = || first..first + TRIES;
        let alone = slots().find_map(|slot| fitting(slot, Duration::ZERO, ALONE));
        alone
            .or_else(|| slots().find_map(|slot| fitting(slot, LEAD, Duration::from_secs(1))))
            .unwrap_or(delay)
    }

    /// Whether a mail with `recipients` under this limit may start at slot number `slot` of the
    /// account.
    pub fn admits(&self, slot: u64, recipients: u32) -> bool {
        let current = self.current(slot);
        (self.next..self.end).contains(&current) && self.spends(current, recipients).end <= self.end
    }

    /// Spends the limit's slots for a mail that starts at slot number `slot` of the account.
    pub fn take(&mut self, slot: u64, recipients: u32) {
        let before = self.next;
        self.next = self.next.max(self.spends(self.current(slot), recipients).end);
        self.last = Some((slot, before));
    }

    /// Takes back what a mail spent that did not start at this slot of the account after all. If another mail was given
    /// slots since, they stay spent.
    pub fn give_back(&mut self, slot: u64) {
        if let Some((_, before)) = self.last.take_if(|(last, _)| *last == slot) {
            self.next = before;
        }
    }

    /// The limit's slot whose interval contains slot number `slot` of the account.
    fn current(&self, slot: u64) -> u64 {
        self.grid.at_or_before(self.account.at(slot))
    }

    /// The slots that a mail spends if it starts in the limit's slot `current`; of a mail that is too
    /// large for any window, all that are left.
    ///
    /// Slots that passed unspent are used first. Example: a mail with 3 recipients starts in slot 1. If
    /// no slot is spent, it spends 0, 1 and 2; if slot 0 is spent, 1, 2 and 3.
    fn spends(&self, current: u64, recipients: u32) -> Range<u64> {
        let recipients = u64::from(recipients).max(1);
        if recipients > self.owned {
            return self.next..self.end;
        }
        let first = (current + 1).saturating_sub(recipients).max(self.next);
        first..first + recipients
    }

    /// Whether a mail with `recipients` under this limit fits into the slots that are left at `now`,
    /// after the `waiting` recipients of mails that wait already.
    pub fn fits(&self, now: Timestamp, waiting: u64, recipients: u32) -> bool {
        let recipients = u64::from(recipients).max(1);
        let left = self.left(now);
        let of_window = self.end.saturating_sub(self.next);
        // The slots of a mail with several recipients may have passed, so they count from `next`, not
        // `now`.
        match recipients {
            1 => waiting < left,
            many if many <= self.owned => left > 0 && waiting + many <= of_window,
            _ => left > 0 && waiting == 0,
        }
    }
}

/// All slots of a limit: those of a rate, as the account's are, or those of one day of a warm-up.
///
/// The slots of a day have the numbers 1 to `amount`. Number 0 is the time before the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitGrid {
    /// The multiples of the rate's period since the epoch, and so many nanoseconds after them.
    Even(SlotGrid, u64),
    /// So many slots at the same distance, to the day's end.
    Day(DaySlots),
    /// No slot, until then if that is known.
    Closed(Option<Timestamp>),
}

impl LimitGrid {
    /// The slots of a rate. The rate margin also keeps the bound of [`super::LimitSlots`] for sends that start late.
    pub const fn even(rate: Rate, rate_margin: RateMargin) -> Self {
        Self::Even(SlotGrid::new(rate, rate_margin), 0)
    }

    /// These slots with a phase of their own. Slots that begin before a window belong to the window before: if
    /// all limits had the same phase, a window's first slots of the account would find no limit open.
    ///
    /// `index` and `name` tell the limits of a table apart. Multiples of the golden ratio lie far apart, however
    /// many there are. Slots more than a second apart keep their phase: a mail under two limits of 30 a minute
    /// would never find both open in one window.
    pub fn shifted(self, index: usize, name: &str) -> Self {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let Self::Even(grid, _) = self else { return self };
        if grid.period() > SECOND {
            return self;
        }
        let name = name.bytes().fold(0, |sum: u64, byte| sum.wrapping_mul(31) + u64::from(byte));
        let turn = name.wrapping_add(index as u64).wrapping_mul(GOLDEN);
        let phase = (u128::from(turn) * u128::from(grid.period())) >> 64;
        Self::Even(grid, u64::try_from(phase).unwrap_or(0))
    }

    /// Whether there is no slot.
    pub const fn is_closed(self) -> bool {
        matches!(self, Self::Closed(_))
    }

    /// The distance between two slots, in nanoseconds.
    pub const fn period(self) -> u64 {
        match self {
            Self::Even(grid, _) => grid.period(),
            Self::Day(day) => day.grid().1,
            Self::Closed(_) => u64::MAX,
        }
    }

    /// The time of slot number `slot`. After a day's last slot comes its end.
    pub fn at(self, slot: u64) -> Timestamp {
        match self {
            Self::Even(grid, phase) => grid.at(slot) + Duration::from_nanos(phase),
            Self::Day(_) if slot == 0 => Timestamp::default(),
            Self::Day(day) if slot > day.amount => day.closes,
            Self::Day(day) => {
                let (first, period) = day.grid();
                Timestamp::from_nanos(first + (slot - 1).saturating_mul(period))
            }
            Self::Closed(until) => until.unwrap_or(Timestamp::from_nanos(u64::MAX)),
        }
    }

    /// The number of the first slot at or after `at`.
    pub fn first_from(self, at: Timestamp) -> u64 {
        match self {
            Self::Even(grid, phase) => grid.first_from(before(at, phase)),
            Self::Day(day) => {
                let (first, period) = day.grid();
                let since = at.as_nanos().saturating_sub(first);
                (since.div_ceil(period) + 1).min(day.amount + 1)
            }
            Self::Closed(_) => 0,
        }
    }

    /// The number of the last slot at or before `at`.
    pub fn at_or_before(self, at: Timestamp) -> u64 {
        match self {
            Self::Even(grid, phase) => grid.at_or_before(before(at, phase)),
            Self::Day(day) if at >= day.closes => day.amount + 1,
            Self::Day(day) => {
                let (first, period) = day.grid();
                let since = at.as_nanos().checked_sub(first);
                since.map_or(0, |since| (since / period + 1).min(day.amount))
            }
            Self::Closed(_) => 0,
        }
    }
}

fn before(at: Timestamp, nanos: u64) -> Timestamp {
    at.saturating_sub(Duration::from_nanos(nanos))
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
mod tests;

#[cfg(test)]
mod grid_tests {
    use super::*;
    use proptest::prelude::*;

    fn grid(rate: f64) -> LimitGrid {
        LimitGrid::even(Rate::per_second(rate).unwrap(), RateMargin::default())
    }

    #[test]
    fn limits_of_one_rate_open_at_different_times_in_a_window() {
        let now = "2026-11-20T20:36:07Z".parse::<crate::Window>().unwrap().opens();
        let phase = |index| {
            let grid = grid(30.0).shifted(index, "");
            grid.at(grid.first_from(now)).saturating_since(now)
        };
        let mut phases: Vec<Duration> = (0..20).map(phase).collect();
        phases.sort();
        // 34 ms divided by 20 are 1.7 ms.
        let apart = phases.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        assert!(apart.min() >= Some(Duration::from_micros(500)), "{phases:?}");
        let of = |name| grid(30.0).shifted(0, name);
        assert_ne!(of("a.example"), of("b.example"));
    }

    #[test]
    fn limits_below_one_a_second_keep_the_phase_in_which_they_find_each_other_open() {
        assert_eq!(grid(0.5).shifted(1, ""), grid(0.5).shifted(2, "a.example"));
    }

    proptest! {
        #[test]
        fn a_shifted_grid_counts_as_it_places(index: usize, rate in 1.1_f64..3_000.0, slot in 1_u64..1 << 31) {
            let grid = grid(rate).shifted(index, "");
            let at = grid.at(slot);
            prop_assert_eq!((grid.first_from(at), grid.at_or_before(at)), (slot, slot));
            prop_assert_eq!(grid.at_or_before(before(at, 1)), slot - 1);
            prop_assert_eq!(grid.first_from(at + Duration::from_nanos(1)), slot + 1);
        }
    }
}
