//! Recipient domains' limits in one window: the domain queues, and the gates by which a mail acquires its
//! limits' slots.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_core::Window;
use tidegate_core::config::DomainsConfig;
use tidegate_core::domains::{Demands, DomainKey, DomainSlots};
use tidegate_core::grid::SlotGrid;
use tidegate_core::limiter::Gates;
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_core::timestamp::Timestamp;

use super::report::signed;
use crate::ports::{DomainTake, Idle, LedgerReport, QueueUrl, Standing};

/// Windows for which an empty queue that no group has any more is left alone.
pub(super) const FORMER_PAUSE: u64 = 60;
/// First and longest delay of a mail that is over its domain's limit under `*`. SQS delays a message for 15
/// minutes at most (`DelaySeconds`).
const FIRST_DELAY: Duration = Duration::from_secs(15);
const LONGEST_DELAY: Duration = Duration::from_mins(15);

#[derive(Clone, Debug)]
pub(super) struct PlannedQueue {
    pub(super) queue: QueueUrl,
    /// Place in the configured list of domain queues, from 0.
    pub(super) place: usize,
    /// Recipients that the queue's limit lets through in this window; `None` if it has no limit, and mail
    /// in it is only sent on.
    pub(super) slots: Option<u64>,
    /// The configuration has no group for it (any more).
    pub(super) former: bool,
    /// If it was found empty: its pause; see [`PlannedQueue::idle`].
    pub(super) idle: Option<Idle>,
    /// Recipients in it: fed less taken, as reported.
    pub(super) depth: i64,
    /// It is the queue of `*`, whose mail may be delayed for minutes.
    pub(super) hides: bool,
}

impl PlannedQueue {
    /// The pause until it is asked again; `None` if it may hold mail. Delayed mail of `*` is not received,
    /// so an empty answer counts only if the depth agrees.
    pub(super) fn idle(&self) -> Option<Idle> {
        self.idle.filter(|_| !(self.hides && self.depth > 0))
    }
}

/// The domain limits of one window.
#[derive(Clone, Debug)]
pub(super) struct PlannedDomains {
    config: DomainsConfig,
    pub(super) queues: Vec<PlannedQueue>,
    quota: Rate,
    rate_margin: RateMargin,
    account: SlotGrid,
    before: Option<SlotGrid>,
    window: Window,
    /// Limits, rate or margin differ from the window before: no limit's slot is used in this window, since
    /// the slots of two grids may lie close together.
    quiet: bool,
}

/// Key of the queue at `place` among the queues found empty, such as `.domain.1` for place 0. No campaign's
/// name contains a dot.
pub(super) fn idle_key(place: usize) -> String {
    format!(".domain.{}", place + 1)
}

/// Names of the counters of recipients that were moved into the queue at `place`, and that left it.
pub(super) fn counters(place: usize) -> [String; 2] {
    [format!("domain_fed.{}", place + 1), format!("domain_taken.{}", place + 1)]
}

/// Recipients that wait in the domain queue at `place` (from 0), from the counters' sums in the ledger:
/// moved in less left, at least 0.
pub fn domain_waiting(sums: &BTreeMap<String, i64>, place: usize) -> u64 {
    let [fed, taken] = counters(place).map(|name| sums.get(&name).copied().unwrap_or(0));
    u64::try_from(fed - taken).unwrap_or(0)
}

impl PlannedDomains {
    pub(super) fn of(
        config: &DomainsConfig,
        (window, quota, rate_margin): (Window, Rate, RateMargin),
        account: SlotGrid,
        before: Option<SlotGrid>,
        standing: &Standing,
    ) -> Self {
        let same = |previous: crate::ports::PreviousClaim| {
            previous.limits == config.limits.digest()
                && (previous.rate, previous.rate_margin) == (quota, rate_margin)
        };
        let mut domains = Self {
            config: config.clone(),
            queues: Vec::new(),
            quota,
            rate_margin,
            account,
            before,
            window,
            quiet: !standing.previous.is_none_or(same),
        };
        let queues = config.queues.iter().enumerate();
        domains.queues =
            queues.filter_map(|(place, url)| domains.queue(place, url, standing)).collect();
        domains
    }

    /// The queue at `place`; none if no group has it and it never held mail.
    fn queue(&self, place: usize, url: &str, standing: &Standing) -> Option<PlannedQueue> {
        let former = place >= self.config.limits.queues();
        let [fed, taken] =
            counters(place).map(|name| standing.counters.get(&name).copied().unwrap_or(0));
        if former && fed == 0 {
            return None;
        }
        let group = self.config.limits.groups().get(place).map(|_| DomainKey::Group(place));
        Some(PlannedQueue {
            queue: QueueUrl::new(url),
            place,
            slots: group.and_then(|key| self.slots(&key)).map(|slots| slots.owned_slots()),
            former,
            idle: standing.idle.get(&idle_key(place)).copied(),
            depth: fed - taken,
            hides: !former && place == self.config.limits.groups().len(),
        })
    }

    /// The slots of a limit in this window; `None` if the limit is not below the account's rate.
    pub(super) fn slots(&self, key: &DomainKey) -> Option<DomainSlots> {
        let rate = self.config.limits.rate(key, self.quota)?;
        let slots =
            DomainSlots::new(rate, self.rate_margin, self.account, self.before, self.window);
        Some(if self.quiet { slots.quiet() } else { slots })
    }

    /// The place of the queue in which a mail under a group's limit waits; under several limits, the queue
    /// of the slowest.
    pub(super) fn place_of(&self, demands: &Demands) -> Option<usize> {
        let limits = &self.config.limits;
        let groups = demands.iter().filter(|(key, _)| matches!(key, DomainKey::Group(_)));
        let limited = groups.filter_map(|(key, _)| Some((limits.rate(key, self.quota)?, key)));
        let (_, key) = limited.min_by_key(|(rate, _)| *rate)?;
        Some(limits.queue_of(key)).filter(|place| self.find(*place).is_some())
    }

    /// Recipients that a mail takes from the shared buckets of its domains' limits, for each limit below
    /// the account's rate.
    pub(super) fn takes(&self, demands: &Demands) -> Vec<DomainTake> {
        let limits = &self.config.limits;
        let take = |(key, recipients): (&DomainKey, u32)| {
            let rate = limits.rate(key, self.quota)?;
            Some(DomainTake { name: limits.name(key).to_owned(), rate, recipients })
        };
        demands.iter().filter_map(take).collect()
    }

    /// Sums by the limit's name instead of its queue's place.
    pub(super) fn by_name(&self, sums: &BTreeMap<usize, u64>) -> BTreeMap<String, u64> {
        let limits = &self.config.limits;
        let name = |place: usize| limits.queue_name(place).unwrap_or("none").to_owned();
        sums.iter().map(|(place, recipients)| (name(*place), *recipients)).collect()
    }

    pub(super) fn others(&self) -> Option<usize> {
        let place = self.config.limits.groups().len();
        self.config.limits.others().and_then(|_| self.find(place)).map(|queue| queue.place)
    }

    pub(super) fn find(&self, place: usize) -> Option<&PlannedQueue> {
        self.queues.iter().find(|queue| queue.place == place)
    }

    pub(super) fn gates(&self) -> DomainGates<'_> {
        DomainGates {
            domains: self,
            slots: BTreeMap::new(),
            waiting: BTreeMap::new(),
            demands: Vec::new(),
        }
    }
}

/// Delay of a mail over its domain's limit under `*`; `since` is how long ago it was last moved. It doubles
/// each time from 15 s to 15 min, so that a mail that waits for hours is received at least four times an
/// hour. `jitter` (0.0 to 1.0) spreads the upper half, so that mails moved together do not come back
/// together.
///
/// Example: moved 60 s ago: 60 to 120 s. Moved 15 min ago: 450 to 900 s.
pub(super) fn delay(since: Option<Duration>, jitter: f64) -> Duration {
    let doubled = since.map_or(FIRST_DELAY, |since| since.saturating_mul(2));
    let most = doubled.clamp(FIRST_DELAY, LONGEST_DELAY);
    Duration::from_secs(most.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0).as_secs())
}

/// Slots of the limits that the mails at hand fall under.
#[derive(Debug)]
pub(super) struct DomainGates<'a> {
    domains: &'a PlannedDomains,
    /// Slots by limit; `None` for a limit that is no tighter than the account's.
    slots: BTreeMap<DomainKey, Option<DomainSlots>>,
    /// Recipients of waiting mails, by limit.
    waiting: BTreeMap<DomainKey, u64>,
    /// Demands of each mail, by its ticket.
    demands: Vec<Demands>,
}

impl DomainGates<'_> {
    /// Notes that the mail with this ticket waits for slots of its limits.
    pub(super) fn wait(&mut self, ticket: usize, demands: &Demands) {
        for (key, recipients) in demands.iter() {
            self.learn(key);
            *self.waiting.entry(key.clone()).or_insert(0) += u64::from(recipients);
        }
        self.demands.resize(ticket + 1, Demands::default());
        if let Some(place) = self.demands.get_mut(ticket) {
            place.clone_from(demands);
        }
    }

    /// Whether the mails at hand leave no slot to this mail in the rest of the window, for any of the
    /// limits that `of` selects.
    pub(super) fn is_over(
        &mut self,
        demands: &Demands,
        now: Timestamp,
        of: impl Fn(&DomainKey) -> bool,
    ) -> bool {
        demands.iter().filter(|(key, _)| of(key)).any(|(key, recipients)| {
            let waiting = self.waiting.get(key).copied().unwrap_or(0);
            let Some(slots) = self.learn(key) else { return false };
            !slots.fits(now, waiting, recipients)
        })
    }

    /// `delay`, adjusted so that the mail comes back shortly before a slot of its limit.
    pub(super) fn aligned(&self, demands: &Demands, now: Timestamp, delay: Duration) -> Duration {
        let slots = demands.iter().find_map(|(key, _)| self.slots.get(key)?.as_ref());
        slots.map_or(delay, |slots| slots.aligned(now, delay, LONGEST_DELAY))
    }

    /// Whether other mail at hand waits for any of these limits.
    pub(super) fn has_waiting(&self, demands: &Demands) -> bool {
        demands.iter().any(|(key, _)| self.waiting.get(key).is_some_and(|waiting| *waiting > 0))
    }

    /// Recipients that the limit of the group at `place` lets through from `now` on beyond the mails at
    /// hand, and in the whole window; `None` if it limits nothing.
    pub(super) fn room(&mut self, place: usize, now: Timestamp) -> Option<(u64, u64)> {
        let key = DomainKey::Group(place);
        let waiting = self.waiting.get(&key).copied().unwrap_or(0);
        let slots = self.learn(&key)?;
        Some((slots.left(now).saturating_sub(waiting), slots.owned_slots()))
    }

    fn learn(&mut self, key: &DomainKey) -> Option<&DomainSlots> {
        if !self.slots.contains_key(key) {
            self.slots.insert(key.clone(), self.domains.slots(key));
        }
        self.slots.get(key).and_then(Option::as_ref)
    }
}

impl Gates<usize> for DomainGates<'_> {
    fn admits(&self, ticket: usize, slot: u64) -> bool {
        self.demands.get(ticket).is_none_or(|demands| {
            demands.iter().all(|(key, recipients)| match self.slots.get(key) {
                Some(Some(slots)) => slots.admits(slot, recipients),
                Some(None) | None => true,
            })
        })
    }

    fn take(&mut self, ticket: usize, slot: u64) {
        let Some(demands) = self.demands.get(ticket) else { return };
        for (key, recipients) in demands.iter() {
            if let Some(Some(slots)) = self.slots.get_mut(key) {
                slots.take(slot, recipients);
            }
            if let Some(waiting) = self.waiting.get_mut(key) {
                *waiting = waiting.saturating_sub(u64::from(recipients));
            }
        }
    }
}

/// Recipients that feed or drain moved into domain queues and received from them, by place.
#[derive(Clone, Debug, Default)]
pub(super) struct DomainMoves {
    pub(super) fed: BTreeMap<usize, u64>,
    pub(super) taken: BTreeMap<usize, u64>,
    pub(super) back: BTreeMap<usize, u64>,
    /// Mails that were received and got no slot.
    pub(super) left: BTreeMap<usize, u64>,
    pub(super) empty: BTreeSet<usize>,
    /// Queues in which SQS counts no message at all.
    pub(super) gone: BTreeSet<usize>,
}

impl DomainMoves {
    pub(super) fn add(sums: &mut BTreeMap<usize, u64>, place: usize, recipients: u64) {
        *sums.entry(place).or_insert(0) += recipients;
    }

    /// Adds the window's moves to the report's counters, and corrects wrong depths. A depth below 0 is set
    /// to 0. If a queue was found empty, half of its depth is taken off: other pollers may hold the rest.
    /// Example: depth 9 and an empty queue take off 5, then 2, then 1, then 1.
    pub(super) fn tell(&self, planned: &PlannedDomains, report: &mut LedgerReport) {
        let sum = |sums: &BTreeMap<usize, u64>, place| sums.get(&place).copied().unwrap_or(0);
        for queue in &planned.queues {
            let place = queue.place;
            let fed = signed(sum(&self.fed, place)) - queue.depth.min(0);
            // Delayed mail of `*` is not received but counted by SQS: `gone` says that there is none.
            let lost = if self.gone.contains(&place) {
                queue.depth.max(0)
            } else if self.empty.contains(&place) && !queue.hides {
                (queue.depth.max(0) + 1) / 2
            } else {
                0
            };
            let taken = signed(sum(&self.taken, place)) - signed(sum(&self.back, place)) + lost;
            for (name, added) in counters(place).into_iter().zip([fed, taken]) {
                if added != 0 {
                    *report.counters.entry(name).or_insert(0) += added;
                }
            }
        }
    }

    pub(super) fn and(mut self, other: Self) -> Self {
        for (sums, more) in [
            (&mut self.fed, other.fed),
            (&mut self.taken, other.taken),
            (&mut self.back, other.back),
            (&mut self.left, other.left),
        ] {
            for (place, recipients) in more {
                Self::add(sums, place, recipients);
            }
        }
        self.empty.extend(other.empty);
        self.gone.extend(other.gone);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_over_its_limit_stays_away_twice_as_long_each_time_up_to_a_quarter_of_an_hour() {
        let mut away = delay(None, 1.0);
        let mut all = vec![away.as_secs()];
        for _ in 0..7 {
            away = delay(Some(away), 1.0);
            all.push(away.as_secs());
        }
        assert_eq!(all, [15, 30, 60, 120, 240, 480, 900, 900]);
        assert_eq!(delay(Some(LONGEST_DELAY), 0.0), LONGEST_DELAY / 2);
    }
}
