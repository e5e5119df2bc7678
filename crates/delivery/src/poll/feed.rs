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
use tidegate_core::counters::Counter;

use super::context::Context;
use super::rules::{Kept, Rules};
use super::settle::{Job, Receipt, pack};
use super::sources::message::{Message, read, receipt, reject};
use super::sources::supply::{FinishedReceive, Lanes, MOST_RECEIVES, ReceiveOrigin, SourceAnswer};
use crate::ports::{Body, Entry, Environment, Outgoing, PortError, QueueUrl, Queues as _};

/// The feed starts no receive later than this before the window's close.
const LAST_RECEIVE: Duration = Duration::from_millis(100);

/// The most time of a window in which bodies are compressed. A seventh of a processor compresses 30 newsletters
/// of 30 KB in that time, a whole one 200; the others are forwarded as they came.
const MOST_COMPRESSING: Duration = Duration::from_millis(50);

/// The parts of the window that the feed works with.
pub(super) struct Feed<'a, E: Environment> {
    pub(super) ctx: &'a Context<'a, E>,
    pub(super) rules: Rc<Rules<'a, E>>,
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

/// Feeds the merge queue with `Plan::feed_amount` recipients, and tells the drain through `arrivals` how many mails
/// each queue acknowledged. Returns none if nothing was to be fed, or there is no merge queue.
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
pub(super) async fn feed<E: Environment>(feed: Feed<'_, E>) -> Option<Lanes> {
    let (ctx, plan) = (feed.ctx, feed.ctx.plan);
    let merge = plan.merge.as_ref()?;
    let amount = plan.feed_amount();
    if amount == 0 || plan.campaigns.is_empty() {
        return None;
    }
    let mut lanes = Lanes::of_campaigns(ctx, amount);
    let mut receives = FuturesUnordered::new();
    let mut forwards = FuturesUnordered::new();
    loop {
        while ctx.now() + LAST_RECEIVE < plan.window.closes() && receives.len() < MOST_RECEIVES {
            let next = match lanes.probe() {
                None if lanes.beyond < plan.out_of_the_way() => {
                    lanes.next(u64::MAX, u64::MAX, ctx.left_until(LAST_RECEIVE))
                }
                probe => probe,
            };
            let Some(next) = next else { break };
            receives.push(next.made(ctx));
        }
        if receives.is_empty() && forwards.is_empty() {
            break;
        }
        select_biased! {
            answer = receives.select_next_some() => {
                for (place, mails) in by_place(feed.received(&mut lanes, answer)) {
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
    Some(lanes)
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
    /// Takes a receive's answer: invalid messages are dead-lettered, the rules may take some, and mail over its limits
    /// stays away; the others are returned, to be moved.
    fn received(&self, lanes: &mut Lanes, answer: FinishedReceive) -> Vec<Forward> {
        let FinishedReceive { origin: ReceiveOrigin::Lane(ask, index), long, result, .. } = answer
        else {
            return Vec::new();
        };
        let counted = result.as_ref().ok().map(|(messages, _)| messages.len() as u64);
        let Some(answer) = lanes.answered(&ask, index, counted, long) else { return Vec::new() };
        let SourceAnswer { source, of_queue, verdict } = answer;
        self.rules.answered(&source.idle_key(), of_queue, long);
        let (ctx, campaign) = (self.ctx, source.campaign.as_deref().unwrap_or_default());
        let (messages, since) = result.unwrap_or_else(|error| {
            tracing::error!(campaign, error = &error as &dyn StdError, "not fed");
            (Vec::new(), ctx.monotonic())
        });
        let (mut mails, mut is_left) = (Vec::with_capacity(messages.len()), false);
        for received in messages {
            ctx.note_received(&received);
            match read(ctx, received, &source, since) {
                Ok(message) => {
                    let recipients = message.recipients();
                    ctx.running_means.received(campaign, recipients);
                    match self.rules.collect(Box::new(message)) {
                        Ok(message) => match self.dispatch(*message) {
                            Some(mail) => mails.push(mail),
                            None => lanes.went_beyond(ask.lane, recipients),
                        },
                        Err(Kept::Gone | Kept::Later(_)) => {}
                        Err(Kept::Left) => is_left = true,
                    }
                }
                Err(rejected) if self.rules.may_reject(&rejected) => {
                    ctx.count_for(Counter::Dead, campaign, 1);
                    let job = reject(&rejected, &ctx.plan.dead_letter, false);
                    let _ = self.jobs.unbounded_send(job);
                }
                Err(_) => is_left = true,
            }
        }
        let merged = mails.iter().filter(|mail| mail.place.is_none());
        let merged = merged.map(|mail| mail.recipients).sum();
        // Only what goes to the merge queue fills slots of this window. Limited mail counts as far
        // as its limits let it through soon; the intake asks for other mail in place of the rest.
        lanes.took(&ask, verdict, counted.unwrap_or(0), merged);
        let mut soon = 0;
        for (place, recipients) in mails.iter().filter_map(|m| Some((m.place?, m.recipients))) {
            if ctx.limits.takes_room(place, recipients) {
                soon += recipients;
            } else {
                lanes.went_beyond(ask.lane, recipients);
            }
        }
        lanes.intake.count_for_limit_queue(ask.lane, soon);
        if is_left {
            lanes.intake.mark_dry([ask.lane]); // for this window: its slots go to the others
        }
        mails
    }

    /// A mail on its way to the merge queue, or to its limit's queue if that limit has no slot for it in the next
    /// window. None if a limit without a queue has none: it is left where it is, invisible until that may have a slot.
    fn dispatch(&self, mut message: Message) -> Option<Forward> {
        let ctx = self.ctx;
        match ctx.limits.dispatch(&message.demands, ctx.now(), ctx.running_means) {
            Ok(place) => {
                message.held.body = self.compressed(message.held.body);
                Some(self.forward(message, place))
            }
            Err(away) => {
                ctx.count(Counter::LimitedAgain, message.recipients());
                let _ = self.jobs.unbounded_send(Job::Show(receipt(&message.held, false), away));
                None
            }
        }
    }

    fn forward(&self, message: Message, place: Option<usize>) -> Forward {
        let cancel = self.ctx.plan.control.cancels.get(&message.envelope.campaign);
        Forward {
            outgoing: match place {
                Some(_) => message.to_limit_queue(Duration::ZERO),
                None => message.to_merge(cancel),
            },
            place,
            recipients: message.recipients(),
            receipt: receipt(&message.held, false),
            campaign: message.envelope.campaign,
        }
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
            Some(place) => self.ctx.note_limited(place, recipients),
            None => self.ctx.count_for(Counter::Fed, &forward.campaign, recipients),
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
    let result = ctx.env.queues.send(queue, &outgoing).await;
    (place, batch, result)
}
