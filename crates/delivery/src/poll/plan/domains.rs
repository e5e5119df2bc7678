//! Recipient domains' limits in one window: their slots, and the queues in which limited mail waits.

use std::collections::BTreeMap;

use tidegate_core::Window;
use tidegate_core::config::DomainsConfig;
use tidegate_core::domains::{Demands, DomainKey, DomainSlots};
use tidegate_core::grid::SlotGrid;
use tidegate_core::rate::{Rate, RateMargin};

use crate::ports::{DomainTake, Idle, PreviousClaim, QueueUrl, Standing};

#[derive(Clone, Debug)]
pub(in crate::poll) struct PlannedQueue {
    pub(in crate::poll) queue: QueueUrl,
    /// Place in the configured list of domain queues, from 0.
    pub(in crate::poll) place: usize,
    /// Recipients that the queue's limit lets through in this window; `None` if it has no limit, and mail
    /// in it is only sent on.
    pub(in crate::poll) slots: Option<u64>,
    /// The configuration has no group for it (any more).
    pub(in crate::poll) former: bool,
    /// If it was found empty: its pause; see [`PlannedQueue::idle`].
    pub(in crate::poll) idle: Option<Idle>,
    /// Recipients in it: fed less taken, as reported.
    pub(in crate::poll) depth: i64,
    /// It is the queue of `*`, whose mail may be delayed for minutes.
    pub(in crate::poll) hides: bool,
}

impl PlannedQueue {
    /// The pause until it is asked again; `None` if it may hold mail. Delayed mail of `*` is not received,
    /// so an empty answer counts only if the depth agrees.
    pub(in crate::poll) fn idle(&self) -> Option<Idle> {
        self.idle.filter(|_| !(self.hides && self.depth > 0))
    }
}

/// The domain limits of one window.
#[derive(Clone, Debug)]
pub(in crate::poll) struct PlannedDomains {
    config: DomainsConfig,
    pub(in crate::poll) queues: Vec<PlannedQueue>,
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
pub(in crate::poll) fn idle_key(place: usize) -> String {
    format!(".domain.{}", place + 1)
}

/// How the counters of recipients that were moved into a domain queue begin.
const FED: &str = "domain_fed.";

/// Names of the counters of recipients that were moved into the queue at `place`, and that left it.
pub(in crate::poll) fn counters(place: usize) -> [String; 2] {
    [format!("{FED}{}", place + 1), format!("domain_taken.{}", place + 1)]
}

/// Recipients that wait in the domain queue at `place` (from 0), from the counters' sums in the ledger:
/// moved in less left, at least 0.
pub fn domain_waiting(sums: &BTreeMap<String, i64>, place: usize) -> u64 {
    let [fed, taken] = counters(place).map(|name| sums.get(&name).copied().unwrap_or(0));
    u64::try_from(fed - taken).unwrap_or(0)
}

/// True if mail was ever moved into the domain queue at `place` (from 0).
pub(crate) fn was_used(sums: &BTreeMap<String, i64>, place: usize) -> bool {
    counters(place).iter().any(|name| sums.contains_key(name))
}

/// Recipients that wait in all domain queues, also in those that no limit has any more.
pub fn all_domains_waiting(sums: &BTreeMap<String, i64>) -> u64 {
    let places = sums.keys().filter_map(|name| name.strip_prefix(FED)?.parse::<usize>().ok());
    places.filter(|place| *place > 0).map(|place| domain_waiting(sums, place - 1)).sum()
}

impl PlannedDomains {
    pub(in crate::poll) fn of(
        config: &DomainsConfig,
        (window, quota, rate_margin): (Window, Rate, RateMargin),
        account: SlotGrid,
        before: Option<SlotGrid>,
        standing: &Standing,
    ) -> Self {
        let same = |previous: PreviousClaim| {
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
    pub(in crate::poll) fn slots(&self, key: &DomainKey) -> Option<DomainSlots> {
        let rate = self.config.limits.rate(key, self.quota)?;
        let slots =
            DomainSlots::new(rate, self.rate_margin, self.account, self.before, self.window);
        Some(if self.quiet { slots.quiet() } else { slots })
    }

    /// The place of the queue in which a mail under a group's limit waits; under several limits, the queue
    /// of the slowest.
    pub(in crate::poll) fn place_of(&self, demands: &Demands) -> Option<usize> {
        let limits = &self.config.limits;
        let groups = demands.iter().filter(|(key, _)| matches!(key, DomainKey::Group(_)));
        let limited = groups.filter_map(|(key, _)| Some((limits.rate(key, self.quota)?, key)));
        let (_, key) = limited.min_by_key(|(rate, _)| *rate)?;
        Some(limits.queue_of(key)).filter(|place| self.find(*place).is_some())
    }

    /// Recipients that a mail takes from the shared buckets of its domains' limits, for each limit below
    /// the account's rate.
    pub(in crate::poll) fn takes(&self, demands: &Demands) -> Vec<DomainTake> {
        let limits = &self.config.limits;
        let take = |(key, recipients): (&DomainKey, u32)| {
            let rate = limits.rate(key, self.quota)?;
            Some(DomainTake { name: limits.name(key).to_owned(), rate, recipients })
        };
        demands.iter().filter_map(take).collect()
    }

    /// The name of the limit whose queue is at `place`.
    pub(in crate::poll) fn name(&self, place: usize) -> &str {
        self.config.limits.queue_name(place).unwrap_or("none")
    }

    pub(in crate::poll) fn others(&self) -> Option<usize> {
        let place = self.config.limits.groups().len();
        self.config.limits.others().and_then(|_| self.find(place)).map(|queue| queue.place)
    }

    pub(in crate::poll) fn find(&self, place: usize) -> Option<&PlannedQueue> {
        self.queues.iter().find(|queue| queue.place == place)
    }
}
