//! Limits in one window: their slots, and the queues in which limited mail waits.

mod queues;
mod rule;
mod window;

use std::collections::BTreeMap;

use tidegate_core::Window;
use tidegate_core::channel::Content;
use tidegate_core::config::LimitsConfig;
use tidegate_core::exclusions::AddressKey;
use tidegate_core::grid::SlotGrid;
use tidegate_core::limits::{Demands, Dimension, LimitGrid, LimitRef, LimitSlots, LimitTable};
use tidegate_core::rate::{Rate, RateMargin};

use crate::ports::{Idle, LimitTake, PreviousClaim, QueueUrl, Standing};

pub(crate) use queues::LimitedLines;
pub(crate) use rule::{LimitRule, delay, stay_away};
pub(crate) use window::LimitWindow;

#[derive(Clone, Debug)]
pub(crate) struct PlannedQueue {
    pub(crate) queue: QueueUrl,
    /// Place in the configured list of limit queues, from 0.
    pub(crate) place: usize,
    /// Recipients that the queue's limit lets through in this window; `None` if it has no limit, and mail
    /// in it is only sent on.
    pub(crate) slots: Option<u64>,
    /// The configuration has no group for it (any more).
    pub(crate) former: bool,
    /// The limit that all of its mail falls under; `None` for that of `*`, and for one that no limit has.
    pub(crate) limit: Option<LimitRef>,
    /// If it was found empty: its pause; see [`PlannedQueue::idle`].
    pub(crate) idle: Option<Idle>,
    /// Recipients in it: fed less taken, as reported.
    pub(crate) depth: i64,
    /// It is the queue of `*`, whose mail may be delayed for minutes.
    pub(crate) hides: bool,
}

impl PlannedQueue {
    /// The pause until it is asked again; `None` if it may hold mail. Delayed mail of `*` is not received,
    /// so an empty answer counts only if the depth agrees.
    pub(crate) fn idle(&self) -> Option<Idle> {
        self.idle.filter(|_| !(self.hides && self.depth > 0))
    }
}

/// The limits of one window.
#[derive(Clone, Debug)]
pub(crate) struct PlannedLimits {
    pub(crate) table: LimitTable,
    pub(crate) queues: Vec<PlannedQueue>,
    rates: (Rate, RateMargin),
    account: SlotGrid,
    before: Option<SlotGrid>,
    window: Window,
    /// The window before this one, if it was served.
    previous: Option<Window>,
    /// Limits, rate or margin differ from the window before.
    changed: bool,
}

/// Key of the queue at `place` among the queues found empty, such as `.domain.1` for place 0. No campaign's
/// name contains a dot.
pub(crate) fn idle_key(place: usize) -> String {
    format!(".domain.{}", place + 1)
}

/// How the sums of recipients that were moved into a limit queue begin in the ledger. These names and those of
/// [`idle_key`] are stored: they are as the first version wrote them.
const FED: &str = "domain_fed.";

/// Names of the counters of recipients that were moved into the queue at `place`, and that left it.
pub(crate) fn counters(place: usize) -> [String; 2] {
    [format!("{FED}{}", place + 1), format!("domain_taken.{}", place + 1)]
}

/// Recipients that wait in the limit queue at `place` (from 0), from the counters' sums in the ledger:
/// moved in less left, at least 0.
pub fn limit_waiting(sums: &BTreeMap<String, i64>, place: usize) -> u64 {
    let [fed, taken] = counters(place).map(|name| sums.get(&name).copied().unwrap_or(0));
    u64::try_from(fed - taken).unwrap_or(0)
}

/// True if mail was ever moved into the limit queue at `place` (from 0).
pub(crate) fn was_used(sums: &BTreeMap<String, i64>, place: usize) -> bool {
    counters(place).iter().any(|name| sums.contains_key(name))
}

/// Recipients that wait in all limit queues, also in those that no limit has any more.
pub fn all_limits_waiting(sums: &BTreeMap<String, i64>) -> u64 {
    let places = sums.keys().filter_map(|name| name.strip_prefix(FED)?.parse::<usize>().ok());
    places.filter(|place| *place > 0).map(|place| limit_waiting(sums, place - 1)).sum()
}

impl PlannedLimits {
    pub(crate) fn of(
        config: &LimitsConfig,
        window: Window,
        quota: Rate,
        rate_margin: RateMargin,
        account: SlotGrid,
        before: Option<SlotGrid>,
        standing: &Standing,
    ) -> Self {
        let same = |previous: PreviousClaim| {
            previous.limits == config.initial.digest()
                && previous.changed_limits == standing.control.limits_digest()
                && (previous.quota, previous.margin_in_force()) == (quota, rate_margin)
        };
        let previous = standing.previous.map(|previous| previous.window);
        let mut limits = Self {
            table: standing.control.limit_table(&config.initial),
            queues: Vec::new(),
            rates: (quota, rate_margin),
            account,
            before,
            window,
            previous: previous.filter(|previous| previous.plus(1) == window),
            changed: !standing.previous.is_none_or(same),
        };
        let queues = config.queues.iter().enumerate();
        limits.queues =
            queues.filter_map(|(place, url)| limits.queue(place, url, standing)).collect();
        limits
    }

    /// The queue at `place`; none if no limit has it and it never held mail.
    fn queue(&self, place: usize, url: &str, standing: &Standing) -> Option<PlannedQueue> {
        let owner = self.table.owner(place).map(|(index, _)| index);
        let former = owner.is_none();
        let [fed, taken] =
            counters(place).map(|name| standing.counters.get(&name).copied().unwrap_or(0));
        if former && fed == 0 {
            return None;
        }
        let hides = self.table.others_queue() == Some(place);
        let limit = owner.filter(|_| !hides).map(|index| LimitRef { index, name: None });
        let slots = limit.as_ref().and_then(|limit| self.slots(limit));
        Some(PlannedQueue {
            queue: QueueUrl::new(url),
            place,
            slots: slots.map(|slots| slots.owned_slots()),
            limit,
            former,
            idle: standing.idle.get(&idle_key(place)).copied(),
            depth: fed - taken,
            hides,
        })
    }

    /// The slots of a limit in this window; `None` if it paces nothing. Calendar, warm-up and the rise of an
    /// adaptive limit change its slots by themselves.
    pub(crate) fn slots(&self, limit: &LimitRef) -> Option<LimitSlots> {
        let grid = |window| self.table.grid(limit, window, self.rates);
        let now = grid(self.window)?;
        let slots = LimitSlots::new(now, self.account, self.before, self.window);
        let before = self.previous.and_then(grid).filter(|before| !before.is_closed());
        let changed = !now.is_closed() && before.is_some_and(|before| before != now);
        Some(if self.changed || changed { slots.after_change(self.window) } else { slots })
    }

    /// The slots of a limit in the next window in which the account has a slot, if nothing changes until then. At
    /// 0.3 recipients a second that is the third or the fourth window after this one.
    pub(crate) fn next_slots(&self, limit: &LimitRef) -> Option<LimitSlots> {
        let first = self.account.slots_of(self.window).end;
        let next = Window::containing(self.account.at(first));
        let grid = self.table.grid(limit, next, self.rates)?;
        Some(LimitSlots::new(grid, self.account, Some(self.account), next))
    }

    /// The limit of a campaign.
    pub(crate) fn of_campaign(&self, name: &str) -> Option<LimitRef> {
        self.table.find(Dimension::Campaign, name)
    }

    /// The limit that paces a campaign in this window; `None` if none does.
    pub(crate) fn pacing(&self, campaign: &str) -> Option<LimitRef> {
        self.of_campaign(campaign).filter(|limit| self.paces(limit))
    }

    /// Whether a limit has slots of its own in this window.
    fn paces(&self, limit: &LimitRef) -> bool {
        let grid = self.table.grid(limit, self.window, self.rates);
        grid.is_some_and(|grid| !grid.is_closed())
    }

    /// Whether a campaign's limit lets nothing through in this window: outside its hours, before its begin,
    /// or after its end.
    pub(crate) fn closes(&self, campaign: &str) -> bool {
        self.table.closes_campaign(campaign, self.window)
    }

    /// The queue of a limit that has one of its own.
    pub(crate) fn queue_of(&self, limit: &LimitRef) -> Option<&PlannedQueue> {
        self.find(self.table.queue_of(limit)?)
    }

    /// The keys of the limits that let nothing through in this window.
    pub(crate) fn closed(&self) -> Vec<String> {
        let is_closed = |index| {
            let limit = LimitRef { index, name: None };
            let grid = self.table.grid(&limit, self.window, self.rates);
            grid.is_some_and(LimitGrid::is_closed)
        };
        let limits = self.table.indexed().filter(|(index, ..)| is_closed(*index));
        limits.map(|(_, key, _)| key.to_string()).collect()
    }

    /// Whether mail over this limit waits in the queue of `*` or of its group. All other mail over a limit
    /// waits in its campaign's queue.
    pub(crate) fn has_queue(&self, limit: &LimitRef) -> bool {
        let own = self.table.queue_of(limit).or_else(|| {
            let is_domain = self.table.dimension(limit) == Some(Dimension::Domain);
            self.others().filter(|_| is_domain)
        });
        // Mail over a limit that overflows does not wait.
        own.is_some_and(|place| self.find(place).is_some()) || self.overflows(limit)
    }

    /// Whether mail over this limit is sent through another configuration set: not outside the limit's hours.
    pub(crate) fn overflows(&self, limit: &LimitRef) -> bool {
        self.table.overflows(limit) && self.paces(limit)
    }

    /// Recipients that a mail takes from the shared buckets of its limits, for each limit with a rate below
    /// the account's.
    pub(crate) fn takes(&self, demands: &Demands) -> Vec<LimitTake> {
        let take = |(limit, recipients): (&LimitRef, u32)| {
            let rate = self.table.rate(limit, self.rates.0)?;
            let name = self.table.name(limit);
            Some(LimitTake { name, rate, recipients, is_of_recipient: false })
        };
        demands.iter().filter_map(take).collect()
    }

    /// One mail of each recipient's bucket, as far as recipients have a limit.
    pub(crate) fn takes_of_recipients(&self, content: &Content) -> Vec<LimitTake> {
        let mut takes: Vec<LimitTake> = Vec::new();
        for address in content.recipients() {
            let limit = self.table.find(Dimension::Recipient, address);
            let rate = limit.and_then(|limit| self.table.rate(&limit, self.rates.0));
            let name = || format!("recipient:{}", AddressKey::of_text(address));
            let Some((rate, name)) = rate.map(|rate| (rate, name())) else { continue };
            // An address may stand twice in a mail.
            if takes.iter().all(|take| take.name != name) {
                takes.push(LimitTake { name, rate, recipients: 1, is_of_recipient: true });
            }
        }
        takes
    }

    /// The name of the limit whose queue is at `place`.
    pub(crate) fn name(&self, place: usize) -> &str {
        self.table.queue_name(place).unwrap_or("none")
    }

    /// The place of the queue for mail under `*`, and under limits of domains that have no queue of their own.
    pub(crate) fn others(&self) -> Option<usize> {
        self.table.others_queue().filter(|place| self.find(*place).is_some())
    }

    pub(crate) fn find(&self, place: usize) -> Option<&PlannedQueue> {
        self.queues.iter().find(|queue| queue.place == place)
    }
}
