//! The feed: one window's worth from the campaign queues into the merge queue, by weight; mail of
//! limited recipient domains into their queues, once.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::time::Duration;

use futures_channel::mpsc::UnboundedSender;
use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt as _, select_biased};
use tidegate_core::allocation::{Ask, Intake};
use tidegate_core::limiter::Line;

use super::context::Context;
use super::deferral::CampaignMail;
use super::domains::{DomainMoves, PlannedQueue};
use super::idle_mode::QueueAnswers;
use super::message::{Message, Source, read};
use super::outcome::reject;
use super::queue_supply::{MOST_RECEIVES, QueueSupply};
use super::settle::{Job, Receipt, pack};
use crate::environment::Environment;
use crate::ports::{Entry, Monotonic, Outgoing, PortError, QueueUrl, Queues as _, Received};

/// The last instant before the window's close at which the feed still receives.
const LAST_RECEIVE: Duration = Duration::from_millis(100);

/// What the feed did.
#[derive(Debug, Default)]
pub(super) struct FeedCounts {
    /// Recipients that stand in the merge queue, by campaign.
    pub(super) by_campaign: BTreeMap<String, u64>,
    pub(super) dead: u64,
    pub(super) highest_receive_count: u32,
    /// What was taken in, for the debts; none where nothing was.
    pub(super) intake: Option<Intake>,
    /// Campaigns of which more mail fell under limits than these have room for.
    pub(super) clogged: Vec<bool>,
    pub(super) domains: DomainMoves,
    pub(super) asked: QueueAnswers,
}

/// Mails that came to stand in the merge queue, or in the recipient domain's queue at `place`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) place: Option<usize>,
    pub(super) mails: u64,
}

/// Feeds `merge`; tells the drain through `arrivals` how many mails came to stand in the queues.
pub(super) async fn feed<E: Environment>(
    ctx: &Context<'_, E>,
    merge: &QueueUrl,
    jobs: &UnboundedSender<Job>,
    arrivals: &UnboundedSender<Arrival>,
) -> FeedCounts {
    let plan = ctx.plan;
    let mut fed = FeedCounts::default();
    let amount = plan.feed_amount();
    if amount == 0 || plan.campaigns.is_empty() {
        return fed;
    }
    let mut intake = ctx.intake(amount);
    let mut limited = Limited::of(ctx);
    let mut supplies: Vec<QueueSupply> = plan.lanes().map(|c| QueueSupply::of(plan, c)).collect();
    let mut receives = FuturesUnordered::new();
    let mut forwards = FuturesUnordered::new();
    let queue = |lane: usize| &plan.lane(lane).queue;
    let mut probes: Vec<Ask> = plan.probes().map(|lane| supplies[lane].probe(plan, lane)).collect();
    loop {
        while ctx.now() + LAST_RECEIVE < plan.window.closes() {
            if receives.len() >= MOST_RECEIVES {
                break;
            }
            if let Some(probe) = probes.pop() {
                let wait = ctx.wait_after(Duration::ZERO);
                receives.push(receive(ctx, queue(probe.lane), probe, (Duration::ZERO, wait)));
                continue;
            }
            if limited.is_full() {
                break;
            }
            let left = ctx.left_until(LAST_RECEIVE);
            let Some(ask) = intake.ask_of(|lane| supplies[lane].may_ask(left)) else { break };
            let supply = &mut supplies[ask.lane];
            supply.asked(ask.messages);
            let pause = supply.pause();
            // Others' mail could go in its stead: it is not waited for.
            let others = intake.others_may_give(ask.lane);
            let wait = if others { Duration::ZERO } else { ctx.wait_after(pause) };
            receives.push(receive(ctx, queue(ask.lane), ask, (pause, wait)));
        }
        if receives.is_empty() && forwards.is_empty() {
            break;
        }
        select_biased! {
            (ask, long, result) = receives.select_next_some() => {
                let counted = result.as_ref().ok().map(|(messages, _)| messages.len() as u64);
                let verdict = supplies[ask.lane].answered(ask.messages, counted, long);
                fed.asked.note(&plan.lane(ask.lane).name, verdict, long);
                let got = counted.unwrap_or(0);
                let (mails, left) = take(ctx, &ask, result, &mut fed, jobs);
                if ask.recipients == 0 && got > 0 {
                    intake.revive(ask.lane); // the probe found mail again
                }
                let merged = mails.iter().filter(|mail| mail.place.is_none());
                let merged = merged.map(|mail| mail.recipients).sum();
                verdict.tell(&mut intake, &ask, got, merged);
                intake.set_aside(ask.lane, limited.moved(ask.lane, &mails));
                if left {
                    intake.mark_dry(ask.lane); // for this window: its slots go to the others
                }
                for (place, mails) in by_place(mails) {
                    let queue = place.and_then(|place| plan.domains.find(place));
                    let queue = queue.map_or(merge, |queue| &queue.queue);
                    for batch in pack(mails, |mail| mail.outgoing.bytes()) {
                        forwards.push(forward(ctx, queue, place, batch));
                    }
                }
            }
            (place, batch, result) = forwards.select_next_some() => {
                let mails = forwarded(place, batch, result, &mut fed, jobs);
                let _ = arrivals.unbounded_send(Arrival { place, mails });
            }
        }
    }
    fed.clogged = limited.clogged;
    fed.intake = Some(intake);
    fed
}

/// An ask, whether it was a long poll, and the answer.
type Receive = (Ask, bool, Result<(Vec<Received>, Monotonic), PortError>);

async fn receive<E: Environment>(
    ctx: &Context<'_, E>,
    queue: &QueueUrl,
    ask: Ask,
    (pause, wait): (Duration, Duration),
) -> Receive {
    let (long, result) = ctx.receive(queue, ask.messages, (pause, wait)).await;
    (ask, long, result)
}

/// A mail on its way into the merge queue, or into the recipient domain's queue at `place`.
struct Forward {
    place: Option<usize>,
    campaign: String,
    recipients: u64,
    receipt: Receipt,
    outgoing: Outgoing,
}

/// Reads what was received; what SES must not get is dead-lettered from here, and what is deferred
/// stays with the [`DeferralWriter`](super::deferral::DeferralWriter). Says whether that had no room for some.
fn take<E: Environment>(
    ctx: &Context<'_, E>,
    ask: &Ask,
    result: Result<(Vec<Received>, Monotonic), PortError>,
    fed: &mut FeedCounts,
    jobs: &UnboundedSender<Job>,
) -> (Vec<Forward>, bool) {
    let campaign = ctx.plan.lane(ask.lane);
    let (messages, since) = result.unwrap_or_else(|error| {
        tracing::error!(campaign = campaign.name, error = &error as &dyn StdError, "not fed");
        (Vec::new(), ctx.monotonic())
    });
    if !messages.is_empty() {
        ctx.finds.note(&campaign.name);
    }
    let source = Source {
        queue: campaign.queue.clone(),
        line: Line::Campaign(ask.lane),
        campaign: Some(campaign.name.clone()),
        domain: None,
    };
    let mut forwards = Vec::with_capacity(messages.len());
    let mut left = false;
    for received in messages {
        fed.highest_receive_count = fed.highest_receive_count.max(received.receive_count);
        match read(received, &source, since, ctx.config) {
            Ok(message) => {
                ctx.running_means.received(&campaign.name, message.recipients());
                match ctx.deferral_writer.sort(Box::new(message)) {
                    CampaignMail::Sent(message) => {
                        let place = ctx.plan.domains.place_of(&message.demands);
                        forwards.push(Forward::of(*message, place));
                    }
                    CampaignMail::Deferred => {}
                    CampaignMail::Left => left = true,
                }
            }
            Err(rejected) => {
                fed.dead += 1;
                let _ = jobs.unbounded_send(reject(&rejected, &ctx.plan.dead_letter, false));
            }
        }
    }
    (forwards, left)
}

impl Forward {
    fn of(message: Message, place: Option<usize>) -> Self {
        Self {
            outgoing: match place {
                Some(_) => message.to_domain(Duration::ZERO),
                None => message.to_merge(),
            },
            place,
            recipients: message.recipients(),
            campaign: message.envelope.campaign,
            receipt: Receipt {
                queue: message.held.queue,
                handle: message.held.receipt,
                buffered: false,
            },
        }
    }
}

/// By where they go.
fn by_place(mails: Vec<Forward>) -> BTreeMap<Option<usize>, Vec<Forward>> {
    mails.into_iter().fold(BTreeMap::new(), |mut places, mail| {
        places.entry(mail.place).or_insert_with(Vec::new).push(mail);
        places
    })
}

/// A batch that was sent: where to, what, and the answer.
type FinishedForward = (Option<usize>, Vec<Forward>, Result<Vec<Entry>, PortError>);

async fn forward<E: Environment>(
    ctx: &Context<'_, E>,
    queue: &QueueUrl,
    place: Option<usize>,
    batch: Vec<Forward>,
) -> FinishedForward {
    let outgoing: Vec<Outgoing> = batch.iter().map(|forward| forward.outgoing.clone()).collect();
    let result = ctx.queues().send(queue, &outgoing).await;
    (place, batch, result)
}

/// Deletes from the campaign what is acknowledged in its next queue; gives how many mails that is.
fn forwarded(
    place: Option<usize>,
    batch: Vec<Forward>,
    result: Result<Vec<Entry>, PortError>,
    fed: &mut FeedCounts,
    jobs: &UnboundedSender<Job>,
) -> u64 {
    let entries = result.unwrap_or_else(|error| {
        tracing::error!(error = &error as &dyn StdError, "not fed: the queue takes nothing");
        Vec::new()
    });
    let mut arrived = 0;
    for (index, forward) in batch.into_iter().enumerate() {
        match entries.get(index) {
            Some(Ok(())) => {
                arrived += 1;
                match place {
                    Some(place) => {
                        DomainMoves::add(&mut fed.domains.fed, place, forward.recipients);
                    }
                    None => {
                        *fed.by_campaign.entry(forward.campaign).or_insert(0) += forward.recipients;
                    }
                }
                let _ = jobs.unbounded_send(Job::Delete(forward.receipt));
            }
            Some(Err(error)) => {
                tracing::error!(campaign = forward.campaign, %error, "a mail was not fed");
            }
            None => {}
        }
    }
    arrived
}

/// What of this window goes into recipient domains' queues.
struct Limited {
    /// Recipients that each queue's limit lets through soon, by its place: they take slots, and count as
    /// their campaign's part of the window. What is beyond is moved out of the way, and other mail is
    /// taken for those slots.
    rooms: BTreeMap<usize, u64>,
    clogged: Vec<bool>,
    beyond: u64,
    most: u64,
}

impl Limited {
    fn of<E: Environment>(ctx: &Context<'_, E>) -> Self {
        let room = |queue: &PlannedQueue| {
            let depth = u64::try_from(queue.depth).unwrap_or(0);
            (queue.place, (2 * queue.slots.unwrap_or(0)).saturating_sub(depth))
        };
        Self {
            rooms: ctx.plan.domains.queues.iter().map(room).collect(),
            clogged: vec![false; ctx.plan.turns.lanes.len()],
            beyond: 0,
            most: ctx.plan.out_of_the_way(),
        }
    }

    fn is_full(&self) -> bool {
        self.beyond >= self.most
    }

    /// Notes what of a lane's mails is limited; gives the recipients that have room.
    fn moved(&mut self, lane: usize, mails: &[Forward]) -> u64 {
        let mut counted = 0;
        for (place, recipients) in mails.iter().filter_map(|m| Some((m.place?, m.recipients))) {
            let room = self.rooms.entry(place).or_insert(0);
            match room.checked_sub(recipients) {
                Some(rest) => {
                    *room = rest;
                    counted += recipients;
                }
                None => {
                    self.beyond += recipients;
                    if let Some(clogged) = self.clogged.get_mut(lane) {
                        *clogged = true;
                    }
                }
            }
        }
        counted
    }
}
