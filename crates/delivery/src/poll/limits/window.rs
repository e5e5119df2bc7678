//! Limits while a window is served: what their slots still let through, and the mail that came into and out of
//! the limit queues. Feed, sources and the limits' rule share it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::counters::signed;
use tidegate_core::limits::{Demands, LimitRef, LimitSlots};
use tidegate_core::timestamp::SECOND;

use super::{PlannedLimits, PlannedQueue, counters};
use crate::poll::running_means::{LONGEST_DELAY, RunningMeans};
use crate::ports::LedgerReport;

/// The limits' state of one window.
pub(crate) struct LimitWindow {
    planned: Rc<PlannedLimits>,
    /// This window's slots: spent by sends, and promised to mail that waits.
    pub(super) gates: RefCell<LimitGates>,
    /// The next window's slots, as the feed gives them to the mail that it feeds.
    ///
    /// Mail that is fed in a window is sent in the next one where the merge queue is about one window deep. If
    /// the merge queue is empty, it is sent at once: then this window's slots were left by the feed before.
    fed: RefCell<LimitGates>,
    /// The next window's slots, as the drain gives them to mail that came too early for them.
    pub(super) kept: RefCell<LimitGates>,
    moves: RefCell<BTreeMap<usize, QueueMoves>>,
    /// Mails that were received and got no slot, by queue.
    left: RefCell<BTreeMap<String, u64>>,
    /// Recipients that still count for each limit queue, by its place: what two windows of its limit let through, less
    /// what waits in it already.
    rooms: RefCell<BTreeMap<usize, u64>>,
}

/// Recipients that feed or drain moved into a limit queue in this window, and received from it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueMoves {
    pub(crate) fed: u64,
    pub(crate) taken: u64,
    pub(crate) back: u64,
    pub(crate) empty: bool,
    /// SQS counts no message at all in it.
    pub(crate) gone: bool,
}

impl LimitWindow {
    pub(crate) fn new(planned: &Rc<PlannedLimits>) -> Self {
        let gates = |slots_of| RefCell::new(LimitGates::new(planned, slots_of));
        let room = |queue: &PlannedQueue| {
            let depth = u64::try_from(queue.depth).unwrap_or(0);
            (queue.place, (2 * queue.slots.unwrap_or(0)).saturating_sub(depth))
        };
        Self {
            planned: Rc::clone(planned),
            gates: gates(PlannedLimits::slots),
            fed: gates(PlannedLimits::next_slots),
            kept: gates(PlannedLimits::next_slots),
            moves: RefCell::default(),
            left: RefCell::default(),
            rooms: RefCell::new(planned.queues.iter().map(room).collect()),
        }
    }

    /// The place of the queue to which a mail from elsewhere goes: that of its slowest limit with a queue of its
    /// own, if one of these limits has no slot in `gates` for it. Mail crosses such a queue only while it has to
    /// wait: each crossing costs three calls. `is_new` is mail from a campaign: mail that waits in the limit's
    /// queue has the slots before it.
    ///
    /// Example: a limit has 10 slots, and 4 recipients wait in its queue. 6 new recipients are sent without
    /// crossing the queue; the 7th goes there.
    pub(super) fn queue_for(
        &self,
        gates: &mut LimitGates,
        demands: &Demands,
        now: Timestamp,
        is_new: bool,
    ) -> Option<usize> {
        let in_queue = |limit: &LimitRef| {
            let queue = self.planned.queue_of(limit)?;
            Some(if is_new { self.waiting(queue) } else { 0 })
        };
        let place = gates.place_of(demands)?;
        gates.is_over_behind(demands, now, in_queue).then_some(place)
    }

    /// Recipients in a queue, as far as this window knows.
    fn waiting(&self, queue: &PlannedQueue) -> u64 {
        let QueueMoves { fed, taken, back, .. } = self.moves(queue.place);
        u64::try_from(queue.depth + signed(fed + back) - signed(taken)).unwrap_or(0)
    }

    /// The way of a mail that the feed brings: the place of the limit queue to which it goes, if its limit has no slot
    /// for it in the next window; none for the merge queue. As an error the time for which it stays away, because a limit
    /// without a queue has no slot in the next window for it beside the mail that was fed for it.
    pub(crate) fn dispatch(
        &self,
        demands: &Demands,
        now: Timestamp,
        means: &RunningMeans,
    ) -> Result<Option<usize>, Duration> {
        let mut next = self.fed.borrow_mut();
        let place = self.queue_for(&mut next, demands, Timestamp::default(), true);
        if next.wait_if_it_fits(demands, |limit| !self.planned.has_queue(limit)) {
            Ok(place)
        } else {
            Err(next.away(demands, now, means))
        }
    }

    /// Takes room in a limit queue for a mail of the feed; false if it is beyond. Mail within the room counts as its
    /// campaign's part of the window, since it is sent soon. Mail beyond it is moved too, so that it does not block the
    /// campaign's other mail, but other mail is received for its slots.
    ///
    /// Example: a limit gives 2 slots a window, and 1 recipient waits in its queue: the room is 2 · 2 − 1 = 3.
    /// Of five mails with one recipient each, three count, and two are beyond. At 100 slots a window the feed
    /// stops receiving once 600 recipients are beyond (4 · 100 + 200).
    pub(crate) fn takes_room(&self, place: usize, recipients: u64) -> bool {
        let mut rooms = self.rooms.borrow_mut();
        let room = rooms.entry(place).or_insert(0);
        let rest = room.checked_sub(recipients);
        *room = rest.unwrap_or(*room);
        rest.is_some()
    }

    /// Lets a mail wait for its limits' slots.
    pub(crate) fn wait(&self, demands: &Demands) {
        self.gates.borrow_mut().wait(demands);
    }

    /// Whether all limits of a mail that waits let it start at `slot`.
    pub(crate) fn admits(&self, demands: &Demands, slot: u64) -> bool {
        self.gates.borrow().admits(demands, slot)
    }

    /// Spends the limits' slots of a mail that starts at `slot`.
    pub(crate) fn take(&self, demands: &Demands, slot: u64) {
        self.gates.borrow_mut().take(demands, slot);
    }

    /// The moves into and out of the limit queue at `place`.
    pub(crate) fn moves(&self, place: usize) -> QueueMoves {
        self.moves.borrow().get(&place).copied().unwrap_or_default()
    }

    /// Notes a change of the limit queue at `place`; does nothing for mail of another queue.
    pub(crate) fn note(&self, place: Option<usize>, change: impl FnOnce(&mut QueueMoves)) {
        if let Some(place) = place {
            change(self.moves.borrow_mut().entry(place).or_default());
        }
    }

    /// Notes that a mail from `queue` got no slot.
    pub(crate) fn note_left(&self, queue: &str) {
        *self.left.borrow_mut().entry(queue.to_owned()).or_insert(0) += 1;
    }

    /// Mails of a queue that were received and got no slot.
    pub(super) fn left(&self, queue: &str) -> u64 {
        self.left.borrow().get(queue).copied().unwrap_or(0)
    }

    /// Adds the window's moves to the report's counters, and corrects wrong depths. A depth below 0 is set
    /// to 0. If a queue was found empty, half of its depth is taken off: other pollers may hold the rest.
    /// Example: depth 9 and an empty queue take off 5, then 2, then 1, then 1.
    pub(super) fn tell(&self, report: &mut LedgerReport) {
        for queue in &self.planned.queues {
            let moves = self.moves(queue.place);
            let fed = signed(moves.fed) - queue.depth.min(0);
            // Delayed mail of `*` is not received but counted by SQS: `gone` says that there is none.
            let lost = if moves.gone {
                queue.depth.max(0)
            } else if moves.empty && !queue.hides {
                (queue.depth.max(0) + 1) / 2
            } else {
                0
            };
            let taken = signed(moves.taken) - signed(moves.back) + lost;
            for (name, added) in counters(queue.place).into_iter().zip([fed, taken]) {
                if added != 0 {
                    *report.counters.entry(name).or_insert(0) += added;
                }
            }
        }
    }
}

/// The limits' slots in one window, as it learns of limits by the mails that fall under them.
pub(super) struct LimitGates {
    limits: Rc<PlannedLimits>,
    slots_of: fn(&PlannedLimits, &LimitRef) -> Option<LimitSlots>,
    /// Slots by limit; `None` for a limit that is no tighter than the account's.
    slots: BTreeMap<LimitRef, Option<LimitSlots>>,
    /// Recipients of waiting mails, by limit.
    waiting: BTreeMap<LimitRef, u64>,
}

impl LimitGates {
    fn new(
        limits: &Rc<PlannedLimits>,
        slots_of: fn(&PlannedLimits, &LimitRef) -> Option<LimitSlots>,
    ) -> Self {
        let limits = Rc::clone(limits);
        Self { limits, slots_of, slots: BTreeMap::new(), waiting: BTreeMap::new() }
    }

    /// Lets a mail wait unless a limit that `of` selects has no slot left for it; false if one has none.
    pub(super) fn wait_if_it_fits(
        &mut self,
        demands: &Demands,
        of: impl Fn(&LimitRef) -> bool,
    ) -> bool {
        let fits = !self.is_over(demands, Timestamp::default(), of);
        if fits {
            self.wait(demands);
        }
        fits
    }

    /// The place of the queue in which a mail waits for a limit with a queue of its own; under several, the
    /// queue of the slowest.
    pub(super) fn place_of(&mut self, demands: &Demands) -> Option<usize> {
        let queued = demands.iter().filter_map(|(limit, _)| {
            let place = self.limits.queue_of(limit)?.place;
            Some((self.learn(limit)?.period(), place))
        });
        // Of limits with the same rate, the first.
        queued.min_by_key(|(period, _)| std::cmp::Reverse(*period)).map(|(_, place)| place)
    }

    /// Recipients that a limit lets through in the whole window; `None` if it limits nothing.
    pub(super) fn whole(&mut self, limit: &LimitRef) -> Option<u64> {
        self.learn(limit).map(LimitSlots::owned_slots)
    }

    /// Slots that a limit has in a second, rounded up; 1 if it limits nothing.
    pub(super) fn per_second(&mut self, limit: &LimitRef) -> u64 {
        self.learn(limit).map_or(1, |slots| SECOND.div_ceil(slots.period()))
    }

    /// Notes that a mail waits for slots of its limits.
    pub(super) fn wait(&mut self, demands: &Demands) {
        for (key, recipients) in demands.iter() {
            self.learn(key);
            *self.waiting.entry(key.clone()).or_insert(0) += u64::from(recipients);
        }
    }

    /// Whether all limits of a mail that waits let it start at `slot`.
    pub(super) fn admits(&self, demands: &Demands, slot: u64) -> bool {
        demands.iter().all(|(key, recipients)| match self.slots.get(key) {
            Some(Some(slots)) => slots.admits(slot, recipients),
            Some(None) | None => true,
        })
    }

    /// Spends the limits' slots of a mail that starts at `slot`.
    pub(super) fn take(&mut self, demands: &Demands, slot: u64) {
        for (key, recipients) in demands.iter() {
            if let Some(Some(slots)) = self.slots.get_mut(key) {
                slots.take(slot, recipients);
            }
            if let Some(waiting) = self.waiting.get_mut(key) {
                *waiting = waiting.saturating_sub(u64::from(recipients));
            }
        }
    }

    /// Takes back the slots of a mail that did not start at `slot` after all.
    pub(super) fn give_back(&mut self, demands: &Demands, slot: u64) {
        for (key, _) in demands.iter() {
            if let Some(Some(slots)) = self.slots.get_mut(key) {
                slots.give_back(slot);
            }
        }
    }

    /// Whether the mails at hand leave no slot to this mail in the rest of the window, for any of the
    /// limits that `of` selects.
    pub(super) fn is_over(
        &mut self,
        demands: &Demands,
        now: Timestamp,
        of: impl Fn(&LimitRef) -> bool,
    ) -> bool {
        self.is_over_behind(demands, now, |limit| of(limit).then_some(0))
    }

    /// As [`Self::is_over`], behind the recipients that wait elsewhere and have the limit's slots first;
    /// `elsewhere` gives their number, and `None` for a limit that is not asked.
    fn is_over_behind(
        &mut self,
        demands: &Demands,
        now: Timestamp,
        elsewhere: impl Fn(&LimitRef) -> Option<u64>,
    ) -> bool {
        demands.iter().any(|(key, recipients)| {
            let Some(elsewhere) = elsewhere(key) else { return false };
            let waiting = self.waiting.get(key).copied().unwrap_or(0) + elsewhere;
            let Some(slots) = self.learn(key) else { return false };
            !slots.fits(now, waiting, recipients)
        })
    }

    /// `delay`, adjusted so that the mail comes back shortly before a slot of its slowest limit.
    pub(super) fn aligned(&self, demands: &Demands, now: Timestamp, delay: Duration) -> Duration {
        let slots = demands.iter().filter_map(|(key, _)| self.slots.get(key)?.as_ref());
        let slots = slots.max_by_key(|slots| slots.period());
        slots.map_or(delay, |slots| slots.aligned(now, delay, LONGEST_DELAY))
    }

    /// Time for which a mail that is over its limits stays away: until slots of the slowest one that no other
    /// mail reserved, or until it opens; 15 min at most.
    pub(super) fn away(&self, demands: &Demands, now: Timestamp, means: &RunningMeans) -> Duration {
        let paced = |(limit, recipients): (&'_ LimitRef, u32)| {
            Some((limit.clone(), self.slots.get(limit)?.as_ref()?.period(), recipients))
        };
        let slowest = demands.iter().filter_map(paced).max_by_key(|(_, period, _)| *period);
        let Some((limit, period, recipients)) = slowest else { return Duration::from_secs(1) };
        // A fifth more mail comes back than there are slots: its times are whole seconds, and each poller has its own.
        let time = Duration::from_nanos(period.saturating_mul(recipients.into())).mul_f64(0.8);
        let name = self.limits.table.name(&limit);
        let away = means.reserve(&name, now, time.min(LONGEST_DELAY)).saturating_since(now);
        // SQS takes whole seconds: up, since the mail behind it has the slots before.
        let away = Duration::from_secs(away.as_secs() + u64::from(away.subsec_nanos() > 0));
        self.aligned(demands, now, away.min(LONGEST_DELAY))
    }

    /// Whether one of these limits has less than one slot per second.
    pub(super) fn is_slow(&self, demands: &Demands) -> bool {
        let slots = |key| self.slots.get(key).and_then(Option::as_ref);
        demands.iter().filter_map(|(key, _)| slots(key)).any(LimitSlots::is_slow)
    }

    /// Whether other mail at hand waits for any of these limits.
    pub(super) fn has_waiting(&self, demands: &Demands) -> bool {
        demands.iter().any(|(key, _)| self.waiting.get(key).is_some_and(|waiting| *waiting > 0))
    }

    /// Recipients that a limit lets through from `now` on beyond the mails at
    /// hand, and in the whole window; `None` if it limits nothing.
    pub(super) fn room(&mut self, limit: &LimitRef, now: Timestamp) -> Option<(u64, u64)> {
        let waiting = self.waiting.get(limit).copied().unwrap_or(0);
        let slots = self.learn(limit)?;
        Some((slots.left(now).saturating_sub(waiting), slots.owned_slots()))
    }

    fn learn(&mut self, key: &LimitRef) -> Option<&LimitSlots> {
        if !self.slots.contains_key(key) {
            self.slots.insert(key.clone(), (self.slots_of)(&self.limits, key));
        }
        self.slots.get(key).and_then(Option::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Window;
    use tidegate_core::channel::{Channel, Content};
    use tidegate_core::config::LimitsConfig;
    use tidegate_core::grid::SlotGrid;
    use tidegate_core::limits::{Limit, MailFacts};
    use tidegate_core::rate::{Rate, RateMargin};

    use super::*;
    use crate::ports::Standing;

    /// The mails come back 0.4 s apart, since a limit of 2 a second has a slot each 0.51 s.
    #[test]
    fn mail_over_its_limit_stays_away_for_whole_seconds_up_and_not_longer() {
        let (quota, margin) = (Rate::per_second(20.0).unwrap(), RateMargin::default());
        let (grid, window) = (SlotGrid::new(quota, margin), Window::from_epoch_second(1_000));
        let mut standing = Standing::default();
        let limit: Limit = serde_json::from_str(r#"{"rate": "2/s"}"#).unwrap();
        standing.control.limits.insert("sender:c.example".parse().unwrap(), Some(limit));
        let config = LimitsConfig::default();
        let planned = PlannedLimits::of(&config, window, quota, margin, grid, None, &standing);
        let body = r#"{"to": "a@b.example", "from": "d@c.example", "subject": "S", "text": "T"}"#;
        let content = Content::parse(Channel::Email, body).unwrap();
        let facts = MailFacts { campaign: "news", configuration_set: None, tenant: None };
        let demands = Demands::of(&content, facts, &planned.table);
        let mut gates = LimitGates::new(&Rc::new(planned), PlannedLimits::slots);
        gates.wait(&demands);
        let means = RunningMeans::nothing(1_000_000);
        let now = window.opens();
        let away = [(); 6].map(|()| gates.away(&demands, now, &means).as_secs());
        assert_eq!(away, [1, 2, 2, 3, 3, 4]);
    }
}
