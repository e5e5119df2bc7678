//! Receives of the drain: no more mail than its slots will use, express mail first, then domain queues,
//! then campaigns or the merge queue.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::time::Duration;

use tidegate_core::allocation::{Ask, divide};
use tidegate_core::config::EXPRESS;
use tidegate_core::limiter::Line;

use super::FinishedReceive;
use super::probe::Probe;
use super::state::{Drain, DrainStage};
use crate::environment::Environment;
use crate::poll::context::Context;
use crate::poll::deferral::CampaignMail;
use crate::poll::domains::{DomainMoves, idle_key};
use crate::poll::message::{Message, Source, read};
use crate::poll::outcome::reject;
use crate::poll::plan::PlannedCampaign;
use crate::poll::queue_supply::{PollVerdict, QueueSupply};
use crate::poll::report::signed;
use crate::ports::{MERGE_QUEUE, QueueUrl};

/// The drain starts no receive later than this before the window's close.
pub(super) const LAST_RECEIVE: Duration = Duration::from_millis(50);

/// The kind of queue that a receive asks.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReceiveOrigin {
    Express,
    Lane(Ask),
    /// A domain queue, by its index among those that this window asks.
    Domain(usize),
}

pub(super) struct NextReceive {
    pub(super) origin: ReceiveOrigin,
    pub(super) queue: QueueUrl,
    pub(super) messages: u64,
    /// The receive starts after this pause (see `QueueSupply::pause`).
    pub(super) pause: Duration,
    pub(super) wait: Duration,
}

impl<E: Environment> Drain<'_, E> {
    /// The next receive to start; none while slots, buffer or queues allow no more. The caller repeats it
    /// until it gives none.
    pub(super) fn next_receive(&mut self) -> Option<NextReceive> {
        if self.stage > DrainStage::Sending
            || self.ctx.now() + LAST_RECEIVE > self.ctx.plan.window.closes()
        {
            return None;
        }
        if self.is_probing() && self.probe != Probe::Wanted {
            return None;
        }
        let slots = self.limiter.slots_left();
        self.give_up_slots();
        let outstanding = self.lanes.iter().map(|(_, supply)| supply.outstanding());
        let used = self.buffered.get() as u64 + outstanding.sum::<u64>();
        // Express mail at hand is bounded by its slots and does not count here: neither kind can keep the
        // other out of the buffer.
        let room = self.capacity.saturating_sub(used.saturating_sub(self.express_held()));
        if let Some((source, supply)) = &self.express_queue {
            let messages = self.express_wanted(supply.outstanding());
            let left = self.ctx.left_until(LAST_RECEIVE);
            if !self.express.dry && supply.may_ask(left) && messages > 0 {
                let (queue, pause) = (source.queue.clone(), supply.pause());
                let (origin, wait) = (ReceiveOrigin::Express, self.ctx.wait_after(pause));
                if let Some((_, supply)) = &mut self.express_queue {
                    supply.asked(messages);
                }
                return Some(NextReceive { origin, queue, messages, pause, wait });
            }
        }
        if let Some(next) = self.next_domain_receive(slots) {
            return Some(next);
        }
        let ask = match self.probes.pop() {
            Some(probe) => probe,
            None => {
                let ask = self.ask_campaigns()?;
                if room < ask.messages {
                    self.intake.withdraw(&ask);
                    return None;
                }
                self.lanes[ask.lane].1.asked(ask.messages);
                ask
            }
        };
        let (source, supply) = &self.lanes[ask.lane];
        let (queue, pause) = (source.queue.clone(), supply.pause());
        let wait = self.wait_for(&ask, pause);
        Some(NextReceive {
            origin: ReceiveOrigin::Lane(ask),
            queue,
            messages: ask.messages,
            pause,
            wait,
        })
    }

    /// `WaitTimeSeconds` of a campaign's receive: 0 if another campaign may have mail for its slots, else a
    /// second if the window has it. A probe, which has no slots, may always wait.
    fn wait_for(&self, ask: &Ask, pause: Duration) -> Duration {
        let other_gives = |lane| lane != ask.lane && !self.intake.is_dry(lane);
        if ask.recipients > 0 && (0..self.lanes.len()).any(other_gives) {
            return Duration::ZERO;
        }
        self.ctx.wait_after(pause)
    }

    /// Notes that a mail was received for a slot and did not get it.
    pub(super) fn not_used(&mut self, message: &Message) {
        if let Line::Campaign(lane) = message.line
            && let Some(sum) = self.not_used.get_mut(lane)
        {
            *sum += message.recipients();
        }
    }

    /// Changes of the campaigns' debts, in thousandths of a recipient: by what was received, corrected by
    /// what was not used.
    ///
    /// Recipients that were received and got no slot are no use to their campaign. Each campaign that had
    /// mail to the end bears its part of them by weight, and is given back its own. Example with weights 9
    /// and 1: A received 10 recipients too many, B none. The parts are 9 and 1, so A's debt changes by 9 −
    /// 10 = −1 and B's by +1: A is owed one recipient.
    pub(super) fn debts(&self) -> BTreeMap<String, i64> {
        let lanes = || self.not_used.iter().enumerate();
        let not_used: u64 = lanes().filter(|(l, _)| !self.intake.is_dry(*l)).map(|(_, n)| n).sum();
        let weight = |(lane, weight): (usize, &u64)| {
            if self.intake.is_dry(lane) { 0 } else { *weight }
        };
        let cycle = self.ctx.plan.turns.cycle.weights().iter().enumerate();
        let parts = divide(not_used.saturating_mul(1_000), &cycle.map(weight).collect::<Vec<_>>());
        let corrections = lanes().zip(parts).map(|((lane, own), part)| {
            if self.intake.is_dry(lane) { 0 } else { signed(part) - signed(own * 1_000) }
        });
        let limited = limited_by_lane(self.ctx.plan.lanes(), &self.done.limited);
        let changes = self.intake.debt_changes_with(&limited, &self.had_limited_mail);
        let changes = changes.into_iter().zip(corrections);
        let names = self.ctx.plan.lanes().map(|campaign| campaign.name.clone());
        names.zip(changes.map(|(change, correction)| change + correction)).collect()
    }

    /// Notes a queue's conclusion for the idle pauses, and tells of the first mail.
    fn note_answer(&mut self, origin: &ReceiveOrigin, verdict: PollVerdict, long: bool) {
        let of_domain;
        let queue = match origin {
            ReceiveOrigin::Express => EXPRESS,
            ReceiveOrigin::Lane(ask) => {
                self.lanes[ask.lane].0.campaign.as_deref().unwrap_or(MERGE_QUEUE)
            }
            ReceiveOrigin::Domain(index) => {
                let place = self.domains[*index].place;
                if verdict == PollVerdict::Empty && long {
                    self.done.domains.empty.insert(place);
                }
                of_domain = idle_key(place);
                &of_domain
            }
        };
        self.done.asked.note(queue, verdict, long);
        if verdict == PollVerdict::Mail {
            self.ctx.finds.note(queue);
        }
    }

    /// Defers a mail if the back-pressure level says so. Only direct mode defers here, and only campaign
    /// mail: with a merge queue the feed does. A deferred mail takes no place in the buffer.
    fn sort(&self, source: &Source, message: Box<Message>) -> CampaignMail {
        let fresh = self.ctx.plan.merge.is_none() && source.domain.is_none();
        if !fresh || source.line == Line::Express {
            return CampaignMail::Sent(message);
        }
        let sorted = self.ctx.deferral_writer.sort(message);
        if !matches!(sorted, CampaignMail::Sent(_)) {
            self.buffered.set(self.buffered.get().saturating_sub(1));
        }
        sorted
    }

    /// The source of a receive's messages, and its queue's supply.
    fn supply_of(&mut self, origin: &ReceiveOrigin) -> Option<(&Source, &mut QueueSupply)> {
        match origin {
            ReceiveOrigin::Express => {
                self.express_queue.as_mut().map(|(source, supply)| (&*source, supply))
            }
            ReceiveOrigin::Lane(ask) => {
                self.lanes.get_mut(ask.lane).map(|(source, supply)| (&*source, supply))
            }
            ReceiveOrigin::Domain(index) => {
                self.domains.get_mut(*index).map(|line| (&line.source, &mut line.supply))
            }
        }
    }

    /// Takes a receive's answer: counts it, reads its messages, and lets each wait for a slot, or defers,
    /// moves or dead-letters it.
    pub(super) fn received(&mut self, answer: FinishedReceive) {
        let FinishedReceive { origin, asked, long, result } = answer;
        let counted = result.as_ref().ok().map(|(messages, _)| messages.len() as u64);
        let got = counted.unwrap_or(0);
        let Some((source, supply)) = self.supply_of(&origin) else { return };
        let verdict = supply.answered(asked, counted, long);
        let source = source.clone();
        self.note_answer(&origin, verdict, long);
        let (messages, since) = result.unwrap_or_else(|error| {
            tracing::warn!(error = &error as &dyn StdError, ?verdict, "not received");
            (Vec::new(), self.ctx.monotonic())
        });
        self.buffered.set(self.buffered.get() + messages.len());
        match origin {
            ReceiveOrigin::Express => {
                self.express.answered(asked, counted, verdict, self.ctx.now());
            }
            ReceiveOrigin::Lane(ask) if ask.recipients == 0 && got > 0 => {
                self.intake.revive(ask.lane); // the probe found mail again
            }
            ReceiveOrigin::Lane(_) => {}
            ReceiveOrigin::Domain(index) => self.domain_answered(index, got, verdict),
        }
        let (mut usable, mut left) = (0, false);
        for received in messages {
            let count = received.receive_count;
            self.done.highest_receive_count = self.done.highest_receive_count.max(count);
            let came_back = self.is_merged(source.line) && count > 1;
            match read(received, &source, since, self.ctx.config) {
                Ok(mut message) => {
                    message.line = self.line_of(&message);
                    self.done.back += if came_back { message.recipients() } else { 0 };
                    if let Some(place) = source.domain.filter(|_| count > 1) {
                        DomainMoves::add(&mut self.done.domains.back, place, message.recipients());
                    }
                    match self.sort(&source, Box::new(message)) {
                        CampaignMail::Sent(message) if self.moves_to_domain_queue(&message) => {}
                        CampaignMail::Sent(message) => usable += self.admit(message),
                        CampaignMail::Deferred => {}
                        CampaignMail::Left => left = true,
                    }
                }
                Err(rejected) => {
                    self.done.dead += 1;
                    self.done.back += u64::from(came_back);
                    self.done.taken += u64::from(self.is_merged(source.line));
                    if let Some(place) = source.domain {
                        DomainMoves::add(&mut self.done.domains.taken, place, 1);
                    }
                    self.job(reject(&rejected, &self.ctx.plan.dead_letter, true));
                }
            }
        }
        if let ReceiveOrigin::Lane(ask) = origin {
            verdict.apply_to(&mut self.intake, &ask, got, usable);
            if left {
                self.intake.mark_dry(ask.lane); // for this window: its slots go to the others
            }
        }
    }
}

/// Recipients sent to from domain queues, by lane.
pub(in crate::poll) fn limited_by_lane<'a>(
    campaigns: impl Iterator<Item = &'a PlannedCampaign>,
    limited: &BTreeMap<String, u64>,
) -> Vec<u64> {
    campaigns.map(|campaign| limited.get(&campaign.name).copied().unwrap_or(0)).collect()
}

/// The lanes of direct mode, one for each campaign of this window. Those that were found empty get a probe
/// if they are due.
pub(super) fn direct_lanes<E: Environment>(
    ctx: &Context<'_, E>,
    probes: &mut Vec<Ask>,
) -> Vec<(Source, QueueSupply)> {
    let lane = |(index, campaign): (usize, &PlannedCampaign)| {
        let source = Source {
            queue: campaign.queue.clone(),
            line: Line::Campaign(index),
            campaign: Some(campaign.name.clone()),
            domain: None,
        };
        (source, QueueSupply::of(ctx.plan, campaign))
    };
    let mut lanes: Vec<(Source, QueueSupply)> = ctx.plan.lanes().enumerate().map(lane).collect();
    if ctx.plan.intake_amount() > 0 {
        probes.extend(ctx.plan.probes().map(|index| lanes[index].1.probe(ctx.plan, index)));
    }
    lanes
}
