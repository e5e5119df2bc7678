//! What a claimed window goes by: slots, campaigns, weights, holds.

use std::ops::Range;

use tidegate_core::Window;
use tidegate_core::breaker::{Breaker, Permit};
use tidegate_core::config::{Campaign, Campaigns, EXPRESS, PollerConfig};
use tidegate_core::control::Control;
use tidegate_core::cycle::Cycle;
use tidegate_core::factor::RateFactor;
use tidegate_core::feed;
use tidegate_core::grid::SlotGrid;
use tidegate_core::idle::QueueChecks;
use tidegate_core::parts::{Upkeep, campaign_of};
use tidegate_core::rate::Rate;
use tidegate_core::turns::{self, Turns};

use super::domains::{PlannedDomains, PlannedQueue};
use super::idle_mode::IdleMode;
use super::report::{debt_counter, signed};
use super::running_means::RunningMeans;
use crate::ports::{Idle, MERGE_QUEUE, QueueUrl, Standing};

/// A campaign in this window.
#[derive(Clone, Debug)]
pub(super) struct PlannedCampaign {
    pub(super) name: String,
    pub(super) queue: QueueUrl,
    /// Held, or without weight: it is not asked.
    pub(super) held: bool,
    /// It was found empty: when it is asked again.
    pub(super) idle: Option<Idle>,
    /// In thousandths of a recipient.
    pub(super) debt: i64,
}

/// One window's plan.
#[derive(Clone, Debug)]
// More than 12 fields: one for each decision that is made before anything is received.
pub(super) struct Plan {
    pub(super) window: Window,
    /// After the rate factor.
    pub(super) rate: Rate,
    pub(super) grid: SlotGrid,
    pub(super) slots: Range<u64>,
    pub(super) campaigns: Vec<PlannedCampaign>,
    /// Over the campaigns, by their weights in force.
    pub(super) cycle: Cycle,
    /// The campaigns that this window may ask.
    pub(super) turns: Turns,
    pub(super) merge: Option<QueueUrl>,
    /// The merge queue was found empty: when it is asked again.
    pub(super) merge_idle: Option<Idle>,
    pub(super) rest: IdleMode,
    pub(super) looks: QueueChecks,
    pub(super) express: Option<QueueUrl>,
    pub(super) domains: PlannedDomains,
    /// Recipients of recipient domains' queues that get a slot in their campaigns' turn, as before.
    pub(super) limited_in_turn: u64,
    pub(super) dead_letter: QueueUrl,
    /// Recipients in the merge queue that can be received, as reported.
    pub(super) depth: i64,
    pub(super) factor: RateFactor,
    /// What the circuit breaker lets this poller do.
    pub(super) permit: Permit,
    /// The breaker suspects that mails fail with SES, and not by themselves.
    pub(super) suspects_an_outage: bool,
    /// Recipients that campaigns may be sent in this window: by the daily quota, and not while a
    /// hold stands that spares express mail alone.
    pub(super) for_campaigns: u64,
    pub(super) control: Control,
    pub(super) control_version: u64,
    /// What becomes of campaigns that come and go.
    pub(super) upkeep: Upkeep,
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
        let grid = SlotGrid::new(rate, config.rate_margin);
        let before = standing
            .previous
            .map(|previous| SlotGrid::new(previous.rate_in_force(), previous.rate_margin));
        let listed = listed(config, standing);
        let mut control = standing.control.clone();
        control.expire(window.opens().into());
        let counter = |name: &str| standing.counters.get(name).copied().unwrap_or(0);
        let cycle = cycle(listed, standing);
        let weighted = listed.iter().zip(cycle.weights());
        let campaigns = weighted.map(|(campaign, weight)| PlannedCampaign {
            name: campaign.name.clone(),
            queue: QueueUrl::new(campaign.queue_url.as_str()),
            held: *weight == 0 || control.holds_campaign(&campaign.name),
            idle: standing.idle.get(&campaign.name).copied(),
            debt: counter(&debt_counter(&campaign.name)),
        });
        let slots = grid.usable(window, before);
        let unreported = running_means.unreported_windows() * rate.ceil();
        let budget = control.daily.map_or(u64::MAX, |reading| {
            config.cap.daily.budget(&reading, counter("sent"), unreported)
        });
        let express = config.express_queue_url.as_deref().map(QueueUrl::new);
        let at = (window, quota, config.rate_margin);
        let domains = PlannedDomains::of(&config.domains, at, grid, before, standing);
        let plan = Self {
            domains,
            limited_in_turn: running_means.limited_in_turn(),
            window,
            rate,
            grid,
            slots,
            campaigns: campaigns.collect(),
            turns: Turns::all(&cycle, 0),
            cycle,
            merge: config.merge_queue_url.as_deref().map(QueueUrl::new),
            merge_idle: standing.idle.get(MERGE_QUEUE).copied(),
            rest: IdleMode::No,
            looks: standing.looks,
            express: express.filter(|_| !control.holds_campaign(EXPRESS)),
            dead_letter: QueueUrl::new(config.dead_letter_queue_url.as_str()),
            depth: counter("fed") - counter("taken"),
            factor: standing.factor,
            permit: control.breaker.permit(window, &config.breaker),
            suspects_an_outage: control.breaker.suspects_an_outage(window, &config.breaker),
            for_campaigns: if control.holds.is_empty() { budget } else { 0 },
            control,
            control_version: standing.control_version,
            upkeep: upkeep(listed, standing, window),
        };
        let plan = Self { rest: IdleMode::of(&plan, standing.previous), ..plan };
        Self { turns: plan.turns(), ..plan }
    }

    /// Whether nothing at all may be sent.
    pub(super) fn is_held(&self) -> bool {
        self.control.holds.stop_express() || (self.for_campaigns == 0 && self.express.is_none())
    }

    /// Whether campaigns have to stop for the day, and nobody has said so yet.
    pub(super) fn ends_the_day(&self) -> bool {
        self.for_campaigns == 0 && self.control.holds.is_empty()
    }

    /// Whether the breaker allows, and has a reason to watch.
    pub(super) fn is_watched(&self) -> bool {
        matches!(self.control.breaker, Breaker::Allowing { watch: Some(_) })
    }

    /// Why campaigns stop for the day, in words.
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

    /// Recipients to feed in this window.
    pub(super) fn feed_amount(&self) -> u64 {
        match self.permit {
            _ if self.for_campaigns == 0 => 0,
            // One mail is enough for a probe; whatever the reports say, there may be none merged.
            Permit::Probe => 1,
            Permit::Send | Permit::Nothing => {
                let slots = self.slot_count().saturating_sub(self.limited_in_turn);
                feed::amount(slots.max(1), self.depth)
            }
        }
    }

    /// Recipients to receive from campaigns or merge queue for this window.
    pub(super) fn intake_amount(&self) -> u64 {
        let most = if self.permit == Permit::Probe { 1 } else { self.slot_count() };
        most.min(self.for_campaigns)
    }

    /// Whether a campaign is asked in this window.
    pub(super) fn asks(&self, campaign: &PlannedCampaign) -> bool {
        !campaign.held
            && match self.rest {
                IdleMode::No => campaign.idle.is_none_or(|idle| idle.until <= self.window),
                IdleMode::Look => true,
                IdleMode::Leave => false,
            }
    }

    /// Whether the merge queue is asked from the window's start on, and not only when it is fed.
    pub(super) fn asks_merge(&self) -> bool {
        self.merge.is_some() && (self.rest != IdleMode::Leave || self.depth > 0)
    }

    /// Recipients beyond what the domains' limits have room for that one window moves out of the way of
    /// other mail: some windows' worth, and a number that small quotas may move all the same.
    pub(super) fn out_of_the_way(&self) -> u64 {
        4 * self.slot_count() + 200
    }

    /// Of each campaign, the line in which mail of it may wait beside that of the domains' queues: the
    /// merge queue's, or its own lane's.
    pub(super) fn lines_of_campaigns(&self) -> Vec<Option<usize>> {
        if self.merge.is_some() {
            let may = |campaign: &PlannedCampaign| !campaign.held && campaign.idle.is_none();
            return self.campaigns.iter().map(|campaign| may(campaign).then_some(0)).collect();
        }
        let mut lines = vec![None; self.campaigns.len()];
        for (lane, campaign) in self.turns.lanes.iter().enumerate() {
            if let Some(line) = lines.get_mut(*campaign) {
                *line = Some(lane);
            }
        }
        lines
    }

    /// The campaigns that this window may ask, by lane.
    pub(super) fn lanes(&self) -> impl Iterator<Item = &PlannedCampaign> {
        self.turns.lanes.iter().filter_map(|campaign| self.campaigns.get(*campaign))
    }

    pub(super) fn lane(&self, lane: usize) -> &PlannedCampaign {
        &self.campaigns[self.turns.lanes[lane]]
    }

    /// The lanes of campaigns that were found empty, and are asked again.
    pub(super) fn probes(&self) -> impl Iterator<Item = usize> {
        let lanes = self.lanes().enumerate();
        let due = lanes.filter(|(_, campaign)| campaign.idle.is_some() && self.asks(campaign));
        due.map(|(lane, _)| lane)
    }

    /// Whose turn it is in this window, where campaigns are many.
    fn turns(&self) -> Turns {
        let weighted = self.cycle.weights().iter().filter(|weight| **weight > 0).count();
        if !turns::are_taken(weighted, self.slot_count()) {
            return Turns::all(&self.cycle, self.campaigns.len());
        }
        let has_mail: Vec<bool> =
            self.campaigns.iter().map(|c| c.idle.is_none() && self.asks(c)).collect();
        let asked = |campaign: &PlannedCampaign| campaign.idle.filter(|_| self.asks(campaign));
        let due = self.campaigns.iter().enumerate();
        let mut due: Vec<(Window, usize)> =
            due.filter_map(|(index, c)| Some((asked(c)?.until, index))).collect();
        if self.rest == IdleMode::No {
            due.sort_unstable(); // who has waited longest
            due.truncate(turns::probes(self.slot_count()));
        }
        let probes: Vec<usize> = due.into_iter().map(|(_, index)| index).collect();
        Turns::taken(&self.cycle, &has_mail, &probes, self.slots.clone())
    }

    /// Whether a recipient domain's queue is asked: those that no group has only as their pause ends.
    pub(super) fn asks_domain(&self, queue: &PlannedQueue) -> bool {
        let due = queue.idle().is_none_or(|idle| idle.until <= self.window);
        match self.rest {
            _ if self.for_campaigns == 0 => false,
            IdleMode::No => due,
            IdleMode::Look => due || !queue.former,
            IdleMode::Leave => false,
        }
    }

    /// Whether no queue is asked: express mail is, in every window.
    pub(super) fn asks_nothing(&self) -> bool {
        self.rest == IdleMode::Leave && !self.asks_merge() && self.express.is_none()
    }

    pub(super) fn campaign(&self, name: &str) -> Option<&PlannedCampaign> {
        self.campaigns.iter().find(|campaign| campaign.name == name)
    }

    /// Whether the merge queue, or in direct mode any campaign, is likely to hold mail.
    pub(super) fn expects_mail(&self) -> bool {
        let limited = self.domains.queues.iter().any(|queue| queue.depth > 0);
        self.depth > 0 || limited || self.campaigns.iter().any(|c| !c.held && c.idle.is_none())
    }

    /// The last window that a mail of `recipients` owes when it starts in this one, counted as if
    /// it had a single slot here (by when the claim is advanced, others may have passed).
    pub(super) fn owed_through(&self, recipients: u64) -> Window {
        let last = self.grid.first_from(self.window.closes()) + recipients.saturating_sub(2);
        Window::containing(self.grid.at(last))
    }

    /// Recipients by which the merge queue's counted messages, of `mean` recipients each, differ
    /// from its reported depth, where that is more than SQS's lag and the pollers at work explain.
    /// In flight is what those have, a window's worth at most, and what is left to its visibility
    /// timeout, which counts when it is received once more.
    ///
    /// The limit is a window and a half: from two windows on the feed is trimmed, so a larger error
    /// that was let stand would starve the drain for ever.
    pub(super) fn drift(&self, visible: u64, in_flight: u64, mean: f64) -> i64 {
        let at_work = recipients(in_flight, mean).min(self.slot_count());
        let off = signed(recipients(visible, mean) + at_work) - self.depth;
        if 2 * off.unsigned_abs() > 3 * self.slot_count() { off } else { 0 }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "at most 120,000 messages of 50 recipients; the mean is at least 1"
)]
fn recipients(messages: u64, mean: f64) -> u64 {
    (messages as f64 * mean).round() as u64
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

fn upkeep(listed: &[Campaign], standing: &Standing, window: Window) -> Upkeep {
    let known = standing.counters.keys().filter_map(|counter| campaign_of(counter));
    let listed = listed.iter().map(|campaign| campaign.name.as_str());
    Upkeep::of(known, &standing.left, listed, standing.parts, window)
}

/// The cycle of the weights in force; of the configured ones where the overrides give none.
fn cycle(listed: &[Campaign], standing: &Standing) -> Cycle {
    let configured: Vec<u32> = listed.iter().map(|campaign| campaign.weight).collect();
    let in_force: Vec<u32> = listed
        .iter()
        .map(|campaign| standing.control.weight(&campaign.name, campaign.weight))
        .collect();
    Cycle::new(&in_force)
        .or_else(|error| {
            tracing::error!(%error, "the control record's weights give no cycle");
            Cycle::new(&configured)
        })
        .unwrap_or_else(|_| Cycle::single())
}
