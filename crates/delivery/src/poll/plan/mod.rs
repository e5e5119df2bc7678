//! The plan of a claimed window, made before anything is received: slots, campaigns, weights, holds.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use tidegate_core::breaker::{Breaker, Permit};
use tidegate_core::config::{Campaign, Campaigns, EXPRESS, PollerConfig, queue_key};
use tidegate_core::control::Control;
use tidegate_core::counters::{Counter, debt_of};
use tidegate_core::cycle::Cycle;
use tidegate_core::email::Priority;
use tidegate_core::factor::RateFactor;
use tidegate_core::grid::SlotGrid;
use tidegate_core::idle::{self, QueueChecks};
use tidegate_core::limits::LimitRef;
use tidegate_core::number::{real, whole};
use tidegate_core::parts::{Upkeep, campaign_of};
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_core::turns::{self, BATCH, Turns};
use tidegate_core::{Window, feed, refusals};

use super::limits::{PlannedLimits, PlannedQueue};
use super::running_means::RunningMeans;
use crate::ports::{Idle, MERGE_QUEUE, PreviousClaim, QueueUrl, Standing};

/// Recipients per second below which a window has few slots, if any.
const SLOW: f64 = 4.0;

/// How a window is served, given what the ledger knows about empty queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdleMode {
    /// At least one queue may hold mail: queues are asked as planned.
    No,
    /// All queues are thought to be empty, and this window looks into each.
    Look,
    /// All queues are thought to be empty, and only the express queue is asked.
    Leave,
}

#[derive(Clone, Debug)]
pub(super) struct CampaignQueue {
    /// The name among the queues found empty, such as `news` or `news.high`.
    pub(super) key: String,
    pub(super) url: QueueUrl,
    pub(super) priority: Priority,
    /// If it was found empty: its pause, and the first window that asks it again.
    pub(super) idle: Option<Idle>,
}

#[derive(Clone, Debug)]
pub(super) struct PlannedCampaign {
    pub(super) name: String,
    /// The own queue, to which mail is put back.
    pub(super) queue: QueueUrl,
    /// All of its queues by falling priority.
    pub(super) queues: Vec<CampaignQueue>,
    /// Held, with weight 0, or closed by its limit: its queues are not asked.
    pub(super) held: bool,
    /// Held for refusals, and this window sends one mail of it, received for a slot of its own, to learn whether SES
    /// accepts it now.
    pub(super) probed: bool,
    /// If all of its queues were found empty: the pause that ends first.
    pub(super) idle: Option<Idle>,
    /// Recipients sent beyond its share, in thousandths; a credit if negative.
    pub(super) debt: i64,
    /// The limit that paces it. Its mail is received in its limit's slots, and not fed.
    pub(super) limit: Option<LimitRef>,
}

#[derive(Clone, Debug)]
// More than 12 fields: one for each decision that is made before anything is received.
pub(super) struct Plan {
    pub(super) window: Window,
    /// The quota under the operator's cap, times the rate factor.
    pub(super) rate: Rate,
    /// The rate margin in force.
    pub(super) rate_margin: RateMargin,
    pub(super) grid: SlotGrid,
    pub(super) slots: Range<u64>,
    pub(super) campaigns: Vec<PlannedCampaign>,
    /// SES's tenants of the campaigns that have one.
    pub(super) tenants: BTreeMap<String, String>,
    /// The cycle over all campaigns, by the weights in force.
    pub(super) cycle: Cycle,
    /// The campaigns that this window may ask, each with a lane.
    pub(super) turns: Turns,
    pub(super) merge: Option<QueueUrl>,
    /// If the merge queue was found empty: its pause, and the first window that asks it again.
    pub(super) merge_idle: Option<Idle>,
    pub(super) rest: IdleMode,
    pub(super) looks: QueueChecks,
    pub(super) express: Option<QueueUrl>,
    /// Express mail is held for refusals, and this window sends one of it.
    pub(super) probes_express: bool,
    pub(super) limits: Rc<PlannedLimits>,
    /// Recipients of limit queues that get a slot in their campaigns' turn in a window, as a running mean.
    pub(super) limited_in_turn: u64,
    pub(super) dead_letter: QueueUrl,
    /// Recipients in the merge queue that can be received: fed less taken, as reported. Negative for a
    /// moment if reports come out of order.
    pub(super) depth: i64,
    pub(super) factor: RateFactor,
    /// The breaker's permission for this poller.
    pub(super) permit: Permit,
    /// The breaker suspects that SES fails, not single mails: last attempts are not counted then.
    pub(super) suspects_an_outage: bool,
    /// Recipients that campaigns may be sent in this window: what the daily quota leaves; 0 while a hold
    /// stands, also one that spares express mail.
    pub(super) for_campaigns: u64,
    pub(super) control: Control,
    pub(super) control_version: u64,
    /// Upkeep of the counters of campaigns that come and go.
    pub(super) upkeep: Upkeep,
}

impl PlannedCampaign {
    /// Whether its mail has the slots of its share: it is neither paced by a limit nor probed.
    pub(super) const fn has_share(&self) -> bool {
        self.limit.is_none() && !self.probed
    }
}

/// Whether the window probes a held campaign; see [`refusals::probes`].
fn is_probed(control: &Control, campaign: &str, window: Window, are_rare: bool) -> bool {
    let hold = control.probed_hold(campaign);
    hold.is_some_and(|hold| refusals::probes(hold.since, hold.probed, window, are_rare))
}

impl Plan {
    pub(super) fn new(
        config: &PollerConfig,
        window: Window,
        quota: Rate,
        standing: &Standing,
        running_means: &RunningMeans,
    ) -> Self {
        let rate = standing.factor.of(quota);
        let rate_margin = standing.factor.margin(config.rate_margin, window);
        let grid = SlotGrid::new(rate, rate_margin);
        let before = standing.previous.map(|previous| previous.grid());
        let listed = listed(config, standing);
        let mut control = standing.control.clone();
        control.expire(window.opens().into());
        let counter = |name: &str| standing.counters.get(name).copied().unwrap_or(0);
        let of = &config.limits;
        let limits = PlannedLimits::of(of, window, quota, rate_margin, grid, before, standing);
        let weights = weights(listed, standing);
        let cycle = Cycle::nearest(&weights);
        let weighted = listed.iter().zip(&weights);
        let is_slow = rate.as_per_second() < SLOW;
        let campaigns = weighted.map(|(campaign, weight)| {
            let limit = limits.pacing(&campaign.name);
            let slots = limit.as_ref().and_then(|limit| limits.slots(limit));
            let are_rare = is_slow || slots.is_some_and(|slots| slots.is_slow());
            let probed = is_probed(&control, &campaign.name, window, are_rare);
            let queues = queues(campaign, standing, probed);
            PlannedCampaign {
                name: campaign.name.clone(),
                queue: QueueUrl::new(campaign.queue_url.as_str()),
                held: *weight == 0 || control.holds_campaign(&campaign.name) && !probed,
                probed,
                idle: first_due(&queues),
                queues,
                debt: counter(&debt_of(&campaign.name)),
                limit,
            }
        });
        let slots = grid.usable(window, before);
        let unreported = running_means.unreported_windows() * rate.ceil();
        let budget = control.daily.map_or(u64::MAX, |reading| {
            config.cap.daily.budget(&reading, Counter::Sent.sum(&standing.counters), unreported)
        });
        let express = config.express_queue_url.as_deref().map(QueueUrl::new);
        let defers =
            |name: &str| config.limits.has_store && limits.table.defers_campaign(name, window);
        let campaigns = campaigns.map(|campaign| PlannedCampaign {
            held: campaign.held || limits.closes(&campaign.name) && !defers(&campaign.name),
            ..campaign
        });
        let probes_express = is_probed(&control, EXPRESS, window, is_slow);
        let is_express_held =
            control.holds_campaign(EXPRESS) && !probes_express || limits.closes(EXPRESS);
        let plan = Self {
            limited_in_turn: running_means.limited_in_turn(),
            window,
            rate,
            rate_margin,
            grid,
            slots,
            campaigns: campaigns.collect(),
            tenants: config.campaigns.tenants(&standing.control),
            limits: Rc::new(limits),
            turns: Turns::all(&cycle, 0),
            cycle,
            merge: config.merge_queue_url.as_deref().map(QueueUrl::new),
            merge_idle: standing.idle.get(MERGE_QUEUE).copied(),
            rest: IdleMode::No,
            looks: standing.looks,
            express: express.filter(|_| !is_express_held),
            probes_express,
            dead_letter: QueueUrl::new(config.dead_letter_queue_url.as_str()),
            depth: Counter::Fed.sum(&standing.counters) - Counter::Taken.sum(&standing.counters),
            factor: standing.factor,
            permit: control.breaker.permit(window, &config.breaker),
            suspects_an_outage: control.breaker.suspects_an_outage(window, &config.breaker),
            for_campaigns: if control.holds.is_empty() { budget } else { 0 },
            control,
            control_version: standing.control_version,
            upkeep: upkeep(listed, standing, window),
        };
        let plan = Self { rest: plan.idle_mode(standing.previous), ..plan };
        Self { turns: plan.turns(), ..plan }
    }

    fn idle_mode(&self, previous: Option<PreviousClaim>) -> IdleMode {
        let sends = self.permit == Permit::Send && self.for_campaigns > 0;
        let is_swept = self.control.open_cancels().next().is_some();
        let probes = self.campaigns.iter().any(|campaign| campaign.probed && !campaign.held);
        if !sends || self.campaigns.is_empty() || is_swept || probes {
            return IdleMode::No;
        }
        let campaigns = self.campaigns.iter().filter(|campaign| !campaign.held);
        let campaigns = campaigns.map(|campaign| campaign.idle);
        // A queue whose group was removed from the configuration counts until it is found empty.
        let domains = self.limits.queues.iter();
        let domains = domains.filter(|queue| !queue.former || queue.idle.is_none());
        let campaigns = campaigns.chain(domains.map(PlannedQueue::idle));
        let all = campaigns.chain(self.merge.as_ref().map(|_| self.merge_idle));
        let Some(all) = all.collect::<Option<Vec<Idle>>>() else { return IdleMode::No };
        let Some(due) = all.iter().map(|idle| idle.until).min() else { return IdleMode::Leave };
        let previous = previous.map(|previous| previous.window);
        if idle::looks(due, previous, self.window) { IdleMode::Look } else { IdleMode::Leave }
    }

    /// Whether neither campaigns nor express mail may be sent.
    pub(super) fn is_held(&self) -> bool {
        self.control.holds.stop_express() || (self.for_campaigns == 0 && self.express.is_none())
    }

    /// Whether nothing of a campaign may be sent in this window: it is held, or its limit is closed.
    pub(super) fn holds(&self, campaign: &str) -> bool {
        let is_held = self.control.holds_campaign(campaign) && !self.is_probed(campaign);
        is_held || self.limits.closes(campaign)
    }

    /// Whether this window sends one mail of a campaign, or of express mail, that is held for refusals.
    pub(super) fn is_probed(&self, campaign: &str) -> bool {
        if campaign == EXPRESS {
            return self.probes_express;
        }
        self.campaign(campaign).is_some_and(|campaign| campaign.probed && !campaign.held)
    }

    /// Whether the daily quota stops campaigns and no hold says so yet.
    pub(super) fn ends_the_day(&self) -> bool {
        self.for_campaigns == 0 && self.control.holds.is_empty()
    }

    /// Whether the breaker allows, and watches failures.
    pub(super) fn is_watched(&self) -> bool {
        matches!(self.control.breaker, Breaker::Allowing { watch: Some(_) })
    }

    /// The text of the hold that stops campaigns for the day.
    pub(super) fn day_in_words(&self) -> String {
        self.control.daily.map_or_else(String::new, |reading| {
            format!(
                "{} of {} recipients were sent in 24 hours as GetAccount was asked at {}; what is left is kept for express mail, too little for a mail, or under way",
                reading.sent, reading.quota, reading.read_at
            )
        })
    }

    pub(super) fn slot_count(&self) -> u64 {
        self.slots.end.saturating_sub(self.slots.start)
    }

    /// Recipients to feed in this window: about its slots, corrected by the merge queue's depth (see
    /// [`feed::amount`]). Example: 60 slots, depth 0: 75.
    pub(super) fn feed_amount(&self) -> u64 {
        match self.permit {
            _ if self.for_campaigns == 0 => 0,
            // A probe needs one mail; whatever the reports say, the merge queue may be empty.
            Permit::Probe => 1,
            Permit::Send | Permit::Nothing => {
                let slots = self.slot_count().saturating_sub(self.limited_in_turn);
                feed::amount(slots.max(1), self.depth)
            }
        }
    }

    /// Recipients to receive from campaigns or the merge queue in this window.
    pub(super) fn intake_amount(&self) -> u64 {
        let most = if self.permit == Permit::Probe { 1 } else { self.slot_count() };
        most.min(self.for_campaigns)
    }

    /// Whether any queue of a campaign is asked in this window.
    pub(super) fn asks(&self, campaign: &PlannedCampaign) -> bool {
        !campaign.held && self.is_due(campaign.idle)
    }

    /// Whether a campaign's queue with this pause is asked in this window.
    pub(super) fn is_due(&self, idle: Option<Idle>) -> bool {
        match self.rest {
            IdleMode::No => idle.is_none_or(|idle| idle.until <= self.window),
            IdleMode::Look => true,
            IdleMode::Leave => false,
        }
    }

    /// Whether a campaign's queues are asked for its share, by the feed or in direct mode. Of a limited campaign it
    /// is asked for its limit's slots.
    pub(super) fn asks_for_share(&self, campaign: &PlannedCampaign) -> bool {
        campaign.has_share() && self.asks(campaign)
    }

    /// Whether the merge queue is asked from the window's start, not only once the feed brought something.
    pub(super) fn asks_merge(&self) -> bool {
        self.merge.is_some() && (self.rest != IdleMode::Leave || self.depth > 0)
    }

    /// The most recipients beyond their limits' room that one window moves to limit queues: the recipients
    /// of four windows, and 200, so that small quotas also get through. Example: 100 slots: 600.
    pub(super) fn out_of_the_way(&self) -> u64 {
        4 * self.slot_count() + 200
    }

    /// For each campaign the line in which other mail of it may wait beside that of limit queues: 0 (the
    /// merge queue), or its lane in direct mode.
    pub(super) fn lines_of_campaigns(&self) -> Vec<Option<usize>> {
        if self.merge.is_some() {
            let may = |campaign: &PlannedCampaign| {
                !campaign.held && campaign.idle.is_none() && campaign.has_share()
            };
            let line = |campaign| may(campaign).then_some(0);
            return self.campaigns.iter().map(line).collect();
        }
        let mut lines = vec![None; self.campaigns.len()];
        for (lane, campaign) in self.turns.lanes.iter().enumerate() {
            if let Some(line) = lines.get_mut(*campaign) {
                *line = Some(lane);
            }
        }
        lines
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = &PlannedCampaign> {
        self.turns.lanes.iter().filter_map(|campaign| self.campaigns.get(*campaign))
    }

    /// Sums by campaign as sums by lane.
    pub(super) fn by_lane(&self, sums: &BTreeMap<String, u64>) -> Vec<u64> {
        self.lanes().map(|campaign| sums.get(&campaign.name).copied().unwrap_or(0)).collect()
    }

    /// The campaigns that this window asks. If there are too many campaigns for its slots, they take turns.
    fn turns(&self) -> Turns {
        let weighted = self.cycle.weights().iter().filter(|weight| **weight > 0).count();
        if !turns::are_taken(weighted, self.slot_count()) {
            return Turns::all(&self.cycle, self.campaigns.len());
        }
        let has_mail: Vec<bool> =
            self.campaigns.iter().map(|c| c.idle.is_none() && self.asks_for_share(c)).collect();
        let probes = self.probes(|_, campaign| self.asks_for_share(campaign));
        Turns::taken(&self.cycle, &has_mail, &probes, self.slots.clone(), BATCH)
    }

    /// The campaigns found empty that are asked again while campaigns take turns, of those that `is_asked` selects: the
    /// ones that have waited longest.
    pub(super) fn probes(&self, is_asked: impl Fn(usize, &PlannedCampaign) -> bool) -> Vec<usize> {
        let asked = self.campaigns.iter().enumerate().filter(|(index, c)| is_asked(*index, c));
        let mut due: Vec<(Window, usize)> =
            asked.filter_map(|(index, c)| Some((c.idle?.until, index))).collect();
        if self.rest == IdleMode::No {
            due.sort_unstable();
            due.truncate(turns::probes(self.slot_count()));
        }
        due.into_iter().map(|(_, index)| index).collect()
    }

    /// Whether a limit queue is asked. A queue that no group has any more is asked only when its pause
    /// ends.
    pub(super) fn asks_limit(&self, queue: &PlannedQueue) -> bool {
        let due = queue.idle().is_none_or(|idle| idle.until <= self.window);
        match self.rest {
            _ if self.for_campaigns == 0 => false,
            IdleMode::No => due,
            IdleMode::Look => due || !queue.former,
            IdleMode::Leave => false,
        }
    }

    /// Whether no queue is asked at all; with an express queue never, since it is asked in every window.
    pub(super) fn asks_nothing(&self) -> bool {
        self.rest == IdleMode::Leave && !self.asks_merge() && self.express.is_none()
    }

    pub(super) fn campaign(&self, name: &str) -> Option<&PlannedCampaign> {
        self.campaigns.iter().find(|campaign| campaign.name == name)
    }

    /// Whether the merge queue, a limit queue or, in direct mode, any campaign probably holds mail.
    pub(super) fn expects_mail(&self) -> bool {
        let limited = self.limits.queues.iter().any(|queue| queue.depth > 0);
        self.depth > 0 || limited || self.campaigns.iter().any(|c| !c.held && c.idle.is_none())
    }

    /// The last window that a mail of `recipients` needs if it starts in this one with a single slot: by
    /// the time the claim is advanced, the others may have passed.
    ///
    /// Example: 9.8 slots a window, 25 recipients: one slot here and 24 after, which reach into the third
    /// window after this one.
    pub(super) fn owed_through(&self, recipients: u64) -> Window {
        let last = self.grid.first_from(self.window.closes()) + recipients.saturating_sub(2);
        Window::containing(self.grid.at(last))
    }

    /// Correction to the merge queue's reported depth ([`feed::drift`]), from SQS's count of `visible` and
    /// `in_flight` messages of `mean` recipients each.
    pub(super) fn drift(&self, visible: u64, in_flight: u64, mean: f64) -> i64 {
        let (visible, in_flight) = (recipients(visible, mean), recipients(in_flight, mean));
        feed::drift(self.slot_count(), self.depth, visible, in_flight)
    }
}

fn recipients(messages: u64, mean: f64) -> u64 {
    whole((real(messages) * mean).round())
}

fn listed<'a>(config: &'a PollerConfig, standing: &'a Standing) -> &'a [Campaign] {
    match &config.campaigns {
        Campaigns::Listed(list) => list,
        Campaigns::Ledger if Campaign::valid(&standing.control.campaigns) => {
            &standing.control.campaigns
        }
        Campaigns::Ledger => {
            tracing::error!(
                campaigns = standing.control.campaigns.len(),
                "the ledger's list of campaigns is missing or invalid"
            );
            &[]
        }
    }
}

/// A campaign's queues. Of one that is probed each is asked, whatever was found in it.
fn queues(campaign: &Campaign, standing: &Standing, probed: bool) -> Vec<CampaignQueue> {
    let queue = |(priority, url): (Priority, &str)| {
        let key = queue_key(&campaign.name, priority);
        let idle = standing.idle.get(&key).copied().filter(|_| !probed);
        CampaignQueue { key, url: QueueUrl::new(url), priority, idle }
    };
    campaign.queues().map(queue).collect()
}

fn first_due(queues: &[CampaignQueue]) -> Option<Idle> {
    let all = queues.iter().map(|queue| queue.idle).collect::<Option<Vec<Idle>>>()?;
    all.into_iter().min_by_key(|idle| idle.until)
}

fn upkeep(listed: &[Campaign], standing: &Standing, window: Window) -> Upkeep {
    let known = standing.counters.keys().filter_map(|counter| campaign_of(counter));
    let listed = listed.iter().map(|campaign| campaign.name.as_str());
    Upkeep::of(known, &standing.left, listed, standing.parts, window)
}

/// The weights in force.
fn weights(listed: &[Campaign], standing: &Standing) -> Vec<u32> {
    let weight = |of: &Campaign| standing.control.weight(&of.name, of.weight);
    listed.iter().map(weight).collect()
}

#[cfg(test)]
mod tests;
