//! The feed: moves one window's worth of mail from the campaign queues into the merge queue, by weight.
//! Mail goes into the queue of a limit instead if that limit has no slot for it in the next window. Of mail under
//! limits without a queue, no more is moved than they let through in the next window. A limited campaign's mail is not fed: the drain receives it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::rc::Rc;
use std::time::Duration;

use futures_channel::mpsc::UnboundedSender;
use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt as _, select_biased};
use tidegate_core::Timestamp;
use tidegate_core::allocation::{Ask, Intake};
use tidegate_core::control::Control;
use tidegate_core::counters::Counter;
use tidegate_core::limiter::Line;
use tidegate_core::limits::LimitRef;

use super::context::Context;
use super::limits::{LimitWindow, PlannedQueue, QueueMoves};
use super::rules::Kept;
use super::rules::Rules;
use super::settle::{Job, Receipt, pack};
use super::sources::message::{Message, Source, read};
use super::sources::message::{receipt, reject};
use super::sources::supply::LaneQueues;
use super::sources::supply::MOST_RECEIVES;
use super::sources::supply::Wait;
use crate::environment::Environment;
use crate::ports::{Body, Entry, Monotonic, Outgoing, PortError, QueueUrl, Queues as _, Received};

/// The feed starts no receive later than this before the window's close.
const LAST_RECEIVE: Duration = Duration::from_millis(100);

/// The most time of a window in which bodies are compressed. A seventh of a processor compresses 30 newsletters
/// of 30 KB in that time, a whole one 200; the others are forwarded as they came.
const MOST_COMPRESSING: Duration = Duration::from_millis(50);

/// The recipients that the feed took in, for the campaigns' debts.
#[derive(Debug)]
pub(super) struct FedIntake {
    pub(super) intake: Intake,
    /// By lane: true if more of its mail fell under limits than these let through soon.
    pub(super) had_limited_mail: Vec<bool>,
}

/// The parts of the window that the feed works with.
pub(super) struct Feed<'a, E> {
    pub(super) ctx: &'a Context<'a, E>,
    pub(super) rules: Rc<Rules<'a, E>>,
    pub(super) limits: &'a LimitWindow<'a>,
    pub(super) jobs: UnboundedSender<Job>,
    pub(super) arrivals: UnboundedSender<Arrival>,
    /// Time that this window has spent on compressing bodies.
    pub(super) compressing: Cell<Duration>,
}

/// Mails that the merge queue acknowledged, or the limit queue at `place`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) place: Option<usize>,
    pub(super) mails: u64,
}

/// Feeds `merge` with `Plan::feed_amount` recipients, and tells the drain through `arrivals` how many mails
/// each queue acknowledged. Returns none if nothing was to be fed.
///
/// The intake divides the amount by weight and debt into asks of at most 10 messages. Receives of several
/// queues run side by side. Each answer changes what is asked next: a campaign that turns out empty leaves
/// its part to the others, and other mail is asked for in place of mail beyond a limit.
///
/// Example: 100 recipients are to be fed, the weights are 90 and 10, and all mails have one recipient. Nine
/// receives ask campaign A for 90 messages in all, and one asks B for 10. A turns out to hold 60: once it
/// counts as empty (see [`PollVerdict`](super::sources::supply::PollVerdict)), the 30 that are missing are asked of B in three receives.
///
/// The loop ends when nothing more is wanted, or 100 ms before the close, once every receive and every
/// batch on its way has ended.
pub(super) async fn feed<E: Environment>(
    feed: &Feed<'_, E>,
    merge: &QueueUrl,
) -> Option<FedIntake> {
    let (ctx, plan) = (feed.ctx, feed.ctx.plan);
    let amount = plan.feed_amount();
    if amount == 0 || plan.campaigns.is_empty() {
        return None;
    }
    let mut intake = ctx.intake(amount);
    let mut limited = Limited::of(ctx);
    let lanes = plan.lanes().enumerate();
    let mut lanes: Vec<LaneQueues> =
        lanes.map(|(lane, c)| LaneQueues::of(plan, c, Line::Campaign(lane))).collect();
    let mut receives = FuturesUnordered::new();
    let mut forwards = FuturesUnordered::new();
    let each = lanes.iter_mut().enumerate();
    let mut probes: Vec<(Ask, usize)> =
        each.flat_map(|(lane, queues)| queues.probes(plan, lane)).collect();
    loop {
        while ctx.now() + LAST_RECEIVE < plan.window.closes() {
            if receives.len() >= MOST_RECEIVES {
                break;
            }
            // A probe asks a queue that was found empty. It is beside the shares: no slot waits for its
            // answer, so it may be a long poll.
            if let Some((probe, index)) = probes.pop() {
                let queue = lanes[probe.lane].source(index).queue.clone();
                receives.push(receive(ctx, queue, (probe, index), Duration::ZERO, Wait::Within));
                continue;
            }
            if limited.is_full() {
                break;
            }
            let left = ctx.left_until(LAST_RECEIVE);
            // None if nothing is wanted beyond the receives under way, or no queue that may give it can be
            // asked now: then an answer has to come first.
            let may_ask = |lane: usize| lanes[lane].next(left).is_some();
            let Some(ask) = intake.ask_within(u64::MAX, may_ask) else { break };
            let lane = &mut lanes[ask.lane];
            let index = lane.next(left).unwrap_or(0);
            let (queue, pause) = lane.asked(index, ask.messages);
            // While another queue may have mail for these slots, a long poll would only delay it: the
            // queue is asked by a short poll.
            let others = intake.others_may_give(ask.lane) || !lane.is_alone(index);
            let wait = if others { Wait::No } else { Wait::Within };
            receives.push(receive(ctx, queue, (ask, index), pause, wait));
        }
        if receives.is_empty() && forwards.is_empty() {
            break;
        }
        select_biased! {
            ((ask, index), long, result) = receives.select_next_some() => {
                let counted = result.as_ref().ok().map(|(messages, _)| messages.len() as u64);
                let lane = &mut lanes[ask.lane];
                let (of_queue, verdict) = lane.answered(index, ask.messages, counted, long);
                let (source, key) = (lane.source(index), lane.source(index).idle_key());
                feed.rules.answered(&key, of_queue, long);
                let got = counted.unwrap_or(0);
                let Taken { mails, left, away } = feed.take(source, result);
                limited.put_away(ask.lane, away);
                if ask.recipients == 0 && got > 0 {
                    intake.revive(ask.lane); // the probe found mail again
                }
                let merged = mails.iter().filter(|mail| mail.place.is_none());
                let merged = merged.map(|mail| mail.recipients).sum();
                // Only what goes to the merge queue fills slots of this window. Limited mail counts as far
                // as its limits let it through soon; the intake asks for other mail in place of the rest.
                verdict.apply_to(&mut intake, &ask, got, merged);
                intake.count_for_limit_queue(ask.lane, limited.count(ask.lane, &mails));
                if left {
                    intake.mark_dry(ask.lane); // for this window: its slots go to the others
                }
                for (place, mails) in by_place(mails) {
                    // Each destination has batches of its own: one call sends to one queue.
                    let queue = place.and_then(|place| plan.limits.find(place));
                    let queue = queue.map_or(merge, |queue| &queue.queue);
                    for batch in pack(mails, |mail| mail.outgoing.bytes()) {
                        forwards.push(forward(ctx, queue, place, batch));
                    }
                }
            }
            (place, batch, result) = forwards.select_next_some() => {
                let mails = feed.forwarded(place, batch, result);
                let _ = feed.arrivals.unbounded_send(Arrival { place, mails });
            }
        }
    }
    Some(FedIntake { intake, had_limited_mail: limited.had_limited_mail })
}

/// An ask and the place of its queue in the lane, whether the receive was a long poll, and the answer with the
/// instant at which it began.
type Receive = ((Ask, usize), bool, Result<(Vec<Received>, Monotonic), PortError>);

async fn receive<E: Environment>(
    ctx: &Context<'_, E>,
    queue: QueueUrl,
    ask: (Ask, usize),
    pause: Duration,
    wait: Wait,
) -> Receive {
    let (long, result) = ctx.receive(&queue, ask.0.messages, pause, wait).await;
    (ask, long, result)
}

/// The messages of one receive.
struct Taken {
    /// Mails to move.
    mails: Vec<Forward>,
    /// A rule left some: their campaign is asked no more.
    left: bool,
    /// Recipients of mail that was over its limits.
    away: u64,
}

/// A mail on its way into the merge queue, or into the limit queue at `place`.
struct Forward {
    place: Option<usize>,
    campaign: String,
    recipients: u64,
    receipt: Receipt,
    outgoing: Outgoing,
}

impl<E: Environment> Feed<'_, E> {
    /// Reads the received messages: invalid ones are dead-lettered, the rules may take some, and mail over
    /// its limits stays away; the others are returned.
    fn take(
        &self,
        source: &Source,
        result: Result<(Vec<Received>, Monotonic), PortError>,
    ) -> Taken {
        let (ctx, campaign) = (self.ctx, source.campaign.as_deref().unwrap_or_default());
        let (messages, since) = result.unwrap_or_else(|error| {
            tracing::error!(campaign, error = &error as &dyn StdError, "not fed");
            (Vec::new(), ctx.monotonic())
        });
        let mut taken = Taken { mails: Vec::with_capacity(messages.len()), left: false, away: 0 };
        for received in messages {
            ctx.note_received(&received);
            match read(ctx, received, source, since) {
                Ok(message) => {
                    ctx.running_means.received(campaign, message.recipients());
                    match self.rules.collect(Box::new(message)) {
                        Ok(message) => self.dispatch(*message, &mut taken),
                        Err(Kept::Gone | Kept::Later(_)) => {}
                        Err(Kept::Left) => taken.left = true,
                    }
                }
                Err(rejected) if self.rules.may_reject(&rejected) => {
                    ctx.count_for(Counter::Dead, campaign, 1);
                    let job = reject(&rejected, &ctx.plan.dead_letter, false);
                    let _ = self.jobs.unbounded_send(job);
                }
                Err(_) => taken.left = true,
            }
        }
        taken
    }

    /// Sends a mail on to the merge queue, or to its limit's queue if that limit has no slot for it in the next
    /// window; leaves it where it is if a limit without a queue has none.
    fn dispatch(&self, mut message: Message, taken: &mut Taken) {
        let mut next = self.limits.fed();
        let place = self.limits.queue_for(&mut next, &message.demands, Timestamp::default(), true);
        drop(next);
        if self.is_over(&message) {
            taken.away += message.recipients();
            return self.put_away(&message);
        }
        message.held.body = self.compressed(message.held.body);
        taken.mails.push(Forward::of(message, place, &self.ctx.plan.control));
    }

    /// Whether a limit without a queue has no slot in the next window for a mail, beside the mail that was
    /// fed for it.
    fn is_over(&self, message: &Message) -> bool {
        let limits = &self.ctx.plan.limits;
        let is_without = |limit: &LimitRef| !limits.has_queue(limit);
        !self.limits.fed().wait_if_it_fits(&message.demands, is_without)
    }

    /// Leaves a mail over its limit in its campaign's queue, invisible until its limit may have a slot.
    fn put_away(&self, message: &Message) {
        let (now, means) = (self.ctx.now(), self.ctx.running_means);
        let away = self.limits.fed().away(&message.demands, now, means);
        self.ctx.count(Counter::LimitedAgain, message.recipients());
        let _ = self.jobs.unbounded_send(Job::Show(receipt(&message.held, false), away));
    }

    /// The body in its compressed form, as long as the window's time for that lasts. SQS bills every 64 KB of
    /// a call: a mail of 30 KB is half a request on each way.
    fn compressed(&self, body: Body) -> Body {
        if self.compressing.get() >= MOST_COMPRESSING {
            return body;
        }
        let begun = self.ctx.monotonic();
        let body = body.compress().to_queue();
        let took = self.ctx.monotonic().saturating_since(begun);
        self.compressing.set(self.compressing.get() + took);
        body
    }

    /// Deletes from the campaign queues the mails that their next queue acknowledged, and returns their
    /// number. The others stay on their queues and become visible after the visibility timeout.
    fn forwarded(
        &self,
        place: Option<usize>,
        batch: Vec<Forward>,
        result: Result<Vec<Entry>, PortError>,
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
                    self.count(place, &forward);
                    let _ = self.jobs.unbounded_send(Job::Delete(forward.receipt));
                }
                Some(Err(error)) => {
                    tracing::error!(campaign = forward.campaign, %error, "a mail was not fed");
                }
                None => {}
            }
        }
        arrived
    }

    fn count(&self, place: Option<usize>, forward: &Forward) {
        let recipients = forward.recipients;
        match place {
            Some(place) => {
                QueueMoves::add(&mut self.limits.note().fed, place, recipients);
                let limit = self.limits.planned.name(place);
                self.ctx.count_for(Counter::LimitFed, limit, recipients);
            }
            None => self.ctx.count_for(Counter::Fed, &forward.campaign, recipients),
        }
    }
}

impl Forward {
    fn of(message: Message, place: Option<usize>, control: &Control) -> Self {
        let cancel = control.cancels.get(&message.envelope.campaign);
        Self {
            outgoing: match place {
                Some(_) => message.to_limit_queue(Duration::ZERO),
                None => message.to_merge(cancel),
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

/// Groups mails by destination; `None` is the merge queue.
fn by_place(mails: Vec<Forward>) -> BTreeMap<Option<usize>, Vec<Forward>> {
    mails.into_iter().fold(BTreeMap::new(), |mut places, mail| {
        places.entry(mail.place).or_insert_with(Vec::new).push(mail);
        places
    })
}

/// The destination of a batch, its mails, and SQS's answer.
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

/// Mail of this window for limit queues.
///
/// A queue's room is what two windows of its limit let through, less what waits in it already. Mail within
/// the room counts as its campaign's part of the window, since it is sent soon. Mail beyond it is moved
/// too, so that it does not block the campaign's other mail, but other mail is received for its slots.
///
/// Example: a limit gives 2 slots a window, and 1 recipient waits in its queue: the room is 2 · 2 − 1 = 3.
/// Of five mails with one recipient each, three count, and two are beyond. At 100 slots a window the feed
/// stops receiving once 600 recipients are beyond (4 · 100 + 200).
struct Limited {
    /// Recipients that still count for each queue, by its place.
    rooms: BTreeMap<usize, u64>,
    had_limited_mail: Vec<bool>,
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
            rooms: ctx.plan.limits.queues.iter().map(room).collect(),
            had_limited_mail: vec![false; ctx.plan.turns.lanes.len()],
            beyond: 0,
            most: ctx.plan.out_of_the_way(),
        }
    }

    fn is_full(&self) -> bool {
        self.beyond >= self.most
    }

    /// Notes that mail of a lane was over its limits: other mail is asked for in its place.
    fn put_away(&mut self, lane: usize, recipients: u64) {
        self.beyond += recipients;
        if recipients > 0
            && let Some(had_limited_mail) = self.had_limited_mail.get_mut(lane)
        {
            *had_limited_mail = true;
        }
    }

    /// Notes which of a lane's mails go to limit queues; returns the recipients that have room there.
    fn count(&mut self, lane: usize, mails: &[Forward]) -> u64 {
        let mut counted = 0;
        for (place, recipients) in mails.iter().filter_map(|m| Some((m.place?, m.recipients))) {
            let room = self.rooms.entry(place).or_insert(0);
            match room.checked_sub(recipients) {
                Some(rest) => {
                    *room = rest;
                    counted += recipients;
                }
                None => {
                    // The campaign had mail, but not for these slots: it earns no credit by that.
                    self.beyond += recipients;
                    if let Some(had_limited_mail) = self.had_limited_mail.get_mut(lane) {
                        *had_limited_mail = true;
                    }
                }
            }
        }
        counted
    }
}
