//! Recipient domains' limits in one window: their queues, and the gates before the slots.

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

/// How long a queue that no group has any more is left alone once it is empty.
pub(super) const FORMER_PAUSE: u64 = 60;
/// The first delay of a mail that is over its domain's limit under `*`; SQS's longest is the last.
const FIRST_DELAY: Duration = Duration::from_secs(15);
const LONGEST_DELAY: Duration = Duration::from_mins(15);

/// A recipient domain's queue in this window.
#[derive(Clone, Debug)]
pub(super) struct PlannedQueue {
    pub(super) queue: QueueUrl,
    /// Its place in the list, from 0.
    pub(super) place: usize,
    /// Recipients that its limit lets through in this window; `None` where it has none, and what is in
    /// it is only emptied.
    pub(super) slots: Option<u64>,
    /// No group has it (any more).
    pub(super) former: bool,
    /// It was found empty: when it is asked again, if it is (see [`PlannedQueue::idle`]).
    pub(super) idle: Option<Idle>,
    /// Recipients in it, as reported.
    pub(super) depth: i64,
    /// It is that of `*`, whose mail may be away for minutes.
    pub(super) hides: bool,
}

impl PlannedQueue {
    /// When it is asked again; `None` where it may hold mail.
    pub(super) fn idle(&self) -> Option<Idle> {
        self.idle.filter(|_| !(self.hides && self.depth > 0))
    }
}

/// The limits of one window.
#[derive(Clone, Debug)]
pub(super) struct PlannedDomains {
    config: DomainsConfig,
    pub(super) queues: Vec<PlannedQueue>,
    quota: Rate,
    rate_margin: RateMargin,
    account: SlotGrid,
    before: Option<SlotGrid>,
    window: Window,
    /// The limits are others than in the window before: none of their slots is used.
    quiet: bool,
}

/// The queue at `place` among the queues found empty: no campaign's name has a dot.
pub(super) fn idle_key(place: usize) -> String {
    format!(".domain.{}", place + 1)
}

/// The counters of recipients that came to stand in the queue at `place`, and that left it.
pub(super) fn counters(place: usize) -> [String; 2] {
    [format!("domain_fed.{}", place + 1), format!("domain_taken.{}", place + 1)]
}

/// Recipients that wait in the recipient domain's queue at `place` (from 0), as the reports' sums tell.
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

    /// The queue at `place`; none where it is nobody's and never held anything.
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

    /// The slots of a limit in this window; `None` where the account's own are as few.
    pub(super) fn slots(&self, key: &DomainKey) -> Option<DomainSlots> {
        let rate = self.config.limits.rate(key, self.quota)?;
        let slots =
            DomainSlots::new(rate, self.rate_margin, self.account, self.before, self.window);
        Some(if self.quiet { slots.quiet() } else { slots })
    }

    /// The place of the queue in which a mail waits that falls under a group's limit: under several,
    /// the slowest's.
    pub(super) fn place_of(&self, demands: &Demands) -> Option<usize> {
        let limits = &self.config.limits;
        let groups = demands.iter().filter(|(key, _)| matches!(key, DomainKey::Group(_)));
        let limited = groups.filter_map(|(key, _)| Some((limits.rate(key, self.quota)?, key)));
        let (_, key) = limited.min_by_key(|(rate, _)| *rate)?;
        Some(limits.queue_of(key)).filter(|place| self.find(*place).is_some())
    }

    /// What a mail takes of the shared buckets of its domains: of each limit below the account's.
    pub(super) fn takes(&self, demands: &Demands) -> Vec<DomainTake> {
        let limits = &self.config.limits;
        let take = |(key, recipients): (&DomainKey, u32)| {
            let rate = limits.rate(key, self.quota)?;
            Some(DomainTake { name: limits.name(key).to_owned(), rate, recipients })
        };
        demands.iter().filter_map(take).collect()
    }

    /// Recipients by the name of their limit.
    pub(super) fn by_name(&self, sums: &BTreeMap<usize, u64>) -> BTreeMap<String, u64> {
        let limits = &self.config.limits;
        let name = |place: usize| limits.queue_name(place).unwrap_or("none").to_owned();
        sums.iter().map(|(place, recipients)| (name(*place), *recipients)).collect()
    }

    /// The place of the queue of `*`, where there is one.
    pub(super) fn others(&self) -> Option<usize> {
        let place = self.config.limits.groups().len();
        self.config.limits.others().and_then(|_| self.find(place)).map(|queue| queue.place)
    }

    pub(super) fn find(&self, place: usize) -> Option<&PlannedQueue> {
        self.queues.iter().find(|queue| queue.place == place)
    }

    /// Gates for the mails of one window.
    pub(super) fn gates(&self) -> DomainGates<'_> {
        DomainGates {
            domains: self,
            slots: BTreeMap::new(),
            waiting: BTreeMap::new(),
            demands: Vec::new(),
        }
    }
}

/// How long a mail stays away that is over its domain's limit under `*`, moved there `since` ago:
/// twice as long as the last time, so that a mail that waits for hours is looked at four times in each.
/// `jitter` (0.0 to 1.0) spreads the upper half: mail that was moved together must not come together.
pub(super) fn delay(since: Option<Duration>, jitter: f64) -> Duration {
    let doubled = since.map_or(FIRST_DELAY, |since| since.saturating_mul(2));
    let most = doubled.clamp(FIRST_DELAY, LONGEST_DELAY);
    Duration::from_secs(most.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0).as_secs())
}

/// The gates of the limits that the mails at hand fall under.
#[derive(Debug)]
pub(super) struct DomainGates<'a> {
    domains: &'a PlannedDomains,
    /// `None`: that limit is no tighter than the account's.
    slots: BTreeMap<DomainKey, Option<DomainSlots>>,
    /// Recipients at hand, by limit.
    waiting: BTreeMap<DomainKey, u64>,
    /// By ticket.
    demands: Vec<Demands>,
}

impl DomainGates<'_> {
    /// Notes that a mail waits under the next ticket.
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

    /// Whether a mail gets no slot of one of its limits in what is left of the window: the mails at
    /// hand have them all. `of` says which limits count.
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

    /// `delay`, set so that a mail comes back shortly before a slot of its limit.
    pub(super) fn aligned(&self, demands: &Demands, now: Timestamp, delay: Duration) -> Duration {
        let slots = demands.iter().find_map(|(key, _)| self.slots.get(key)?.as_ref());
        slots.map_or(delay, |slots| slots.aligned(now, delay, LONGEST_DELAY))
    }

    /// Whether mail at hand waits for any of these limits.
    pub(super) fn has_waiting(&self, demands: &Demands) -> bool {
        demands.iter().any(|(key, _)| self.waiting.get(key).is_some_and(|waiting| *waiting > 0))
    }

    /// Recipients that the limit of the group at `place` lets through from `now` on, beyond the mails
    /// at hand, and in the whole window; `None` where it limits nothing.
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

/// What one side of a window moved into the domains' queues and took from them; recipients, by place.
#[derive(Clone, Debug, Default)]
pub(super) struct DomainMoves {
    pub(super) fed: BTreeMap<usize, u64>,
    pub(super) taken: BTreeMap<usize, u64>,
    pub(super) back: BTreeMap<usize, u64>,
    /// Mails that were received from one and got no slot.
    pub(super) left: BTreeMap<usize, u64>,
    /// Queues that a long poll found empty.
    pub(super) empty: BTreeSet<usize>,
    /// Queues that hold nothing at all, as SQS counts.
    pub(super) gone: BTreeSet<usize>,
}

impl DomainMoves {
    pub(super) fn add(sums: &mut BTreeMap<usize, u64>, place: usize, recipients: u64) {
        *sums.entry(place).or_insert(0) += recipients;
    }

    /// Puts into the report what came and went. A queue's depth below nothing is set right, and half of
    /// what it is thought to hold is taken off where it was found empty: other pollers may have that.
    pub(super) fn tell(&self, planned: &PlannedDomains, report: &mut LedgerReport) {
        let sum = |sums: &BTreeMap<usize, u64>, place| sums.get(&place).copied().unwrap_or(0);
        for queue in &planned.queues {
            let place = queue.place;
            let fed = signed(sum(&self.fed, place)) - queue.depth.min(0);
            // What is away is counted, not seen: `gone` says that none is there.
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
