//! The feed: one window's worth from the campaign queues into the merge queue, by weight.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::time::Duration;

use futures_channel::mpsc::UnboundedSender;
use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt as _, select_biased};
use tidegate_core::allocation::Ask;
use tidegate_core::limiter::Line;

use super::context::Context;
use super::message::{Message, Source, read};
use super::outcome::reject;
use super::rest::Answers;
use super::settle::{Job, Receipt, pack};
use super::spill::Sorted;
use super::supply::Supply;
use crate::environment::Environment;
use crate::ports::{Entry, Monotonic, Outgoing, PortError, QueueUrl, Queues as _, Received};

/// The last instant before the window's close at which the feed still receives.
const LAST_RECEIVE: Duration = Duration::from_millis(100);

/// What the feed did.
#[derive(Debug, Default)]
pub(super) struct Fed {
    /// Recipients that stand in the merge queue, by campaign.
    pub(super) by_campaign: BTreeMap<String, u64>,
    pub(super) dead: u64,
    pub(super) highest_receive_count: u32,
    /// In thousandths of a recipient, by campaign.
    pub(super) debts: BTreeMap<String, i64>,
    pub(super) asked: Answers,
}

/// Feeds `merge`; tells the drain through `arrivals` how many mails came to stand in it.
pub(super) async fn feed<E: Environment>(
    ctx: &Context<'_, E>,
    merge: &QueueUrl,
    jobs: &UnboundedSender<Job>,
    arrivals: &UnboundedSender<u64>,
) -> Fed {
    let plan = ctx.plan;
    let mut fed = Fed::default();
    let amount = plan.feed_amount();
    if amount == 0 || plan.campaigns.is_empty() {
        return fed;
    }
    let mut intake = ctx.intake(amount);
    let mut supplies: Vec<Supply> = plan.campaigns.iter().map(|c| Supply::of(plan, c)).collect();
    for (lane, campaign) in plan.campaigns.iter().enumerate() {
        if campaign.idle.is_some() || !plan.asks(campaign) {
            intake.mark_dry(lane); // its share goes to the others at once
        }
    }
    let mut receives = FuturesUnordered::new();
    let mut forwards = FuturesUnordered::new();
    let queue = |lane: usize| &plan.campaigns[lane].queue;
    for (lane, campaign) in plan.campaigns.iter().enumerate() {
        if campaign.idle.is_some() && plan.asks(campaign) {
            receives.push(receive(ctx, queue(lane), supplies[lane].probe(plan, lane)));
        }
    }
    loop {
        while ctx.now() + LAST_RECEIVE < plan.window.closes() {
            let Some(ask) = intake.ask_of(|lane| supplies[lane].may_ask()) else { break };
            supplies[ask.lane].asked(ask.messages);
            receives.push(receive(ctx, queue(ask.lane), ask));
        }
        if receives.is_empty() && forwards.is_empty() {
            break;
        }
        select_biased! {
            (ask, long, result) = receives.select_next_some() => {
                let told = result.as_ref().ok().map(|(messages, _)| messages.len());
                fed.asked.note(&plan.campaigns[ask.lane].name, told, long);
                let got = result.as_ref().map_or(0, |(messages, _)| messages.len() as u64);
                let (mails, left) = take(ctx, &ask, result, &mut fed, jobs);
                supplies[ask.lane].answered(ask.messages, got);
                if ask.recipients == 0 && got > 0 {
                    intake.revive(ask.lane); // the probe found mail again
                }
                intake.received(&ask, got, mails.iter().map(|mail| mail.recipients).sum());
                if left {
                    intake.mark_dry(ask.lane); // for this window: its slots go to the others
                }
                for batch in pack(mails, |mail| mail.outgoing.bytes()) {
                    forwards.push(forward(ctx, merge, batch));
                }
            }
            (batch, result) = forwards.select_next_some() => {
                let _ = arrivals.unbounded_send(forwarded(batch, result, &mut fed, jobs));
            }
        }
    }
    for (campaign, change) in plan.campaigns.iter().zip(intake.debt_changes()) {
        fed.debts.insert(campaign.name.clone(), change);
    }
    fed
}

/// An ask, whether it was a long poll, and the answer.
type Receive = (Ask, bool, Result<(Vec<Received>, Monotonic), PortError>);

async fn receive<E: Environment>(ctx: &Context<'_, E>, queue: &QueueUrl, ask: Ask) -> Receive {
    let since = ctx.monotonic();
    let max = usize::try_from(ask.messages).unwrap_or(1);
    let wait = ctx.wait_now();
    let result = ctx.queues().receive(queue, max, wait).await;
    (ask, !wait.is_zero(), result.map(|messages| (messages, since)))
}

/// A mail on its way into the merge queue.
struct Forward {
    campaign: String,
    recipients: u64,
    receipt: Receipt,
    outgoing: Outgoing,
}

/// Reads what was received; what SES must not get is dead-lettered from here, and what is deferred
/// stays with the spiller. Says whether that had no room for some.
fn take<E: Environment>(
    ctx: &Context<'_, E>,
    ask: &Ask,
    result: Result<(Vec<Received>, Monotonic), PortError>,
    fed: &mut Fed,
    jobs: &UnboundedSender<Job>,
) -> (Vec<Forward>, bool) {
    let campaign = &ctx.plan.campaigns[ask.lane];
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
    };
    let mut forwards = Vec::with_capacity(messages.len());
    let mut left = false;
    for received in messages {
        fed.highest_receive_count = fed.highest_receive_count.max(received.receive_count);
        match read(received, &source, since, &ctx.config.allowed_senders) {
            Ok(message) => {
                ctx.learned.received(&campaign.name, message.recipients());
                match ctx.spiller.sort(Box::new(message)) {
                    Sorted::Sent(message) => forwards.push(Forward::of(*message)),
                    Sorted::Deferred => {}
                    Sorted::Left => left = true,
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
    fn of(message: Message) -> Self {
        Self {
            outgoing: message.to_merge(),
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

async fn forward<E: Environment>(
    ctx: &Context<'_, E>,
    merge: &QueueUrl,
    batch: Vec<Forward>,
) -> (Vec<Forward>, Result<Vec<Entry>, PortError>) {
    let outgoing: Vec<Outgoing> = batch.iter().map(|forward| forward.outgoing.clone()).collect();
    let result = ctx.queues().send(merge, &outgoing).await;
    (batch, result)
}

/// Deletes from the campaign what is acknowledged in the merge queue; gives how many mails that is.
fn forwarded(
    batch: Vec<Forward>,
    result: Result<Vec<Entry>, PortError>,
    fed: &mut Fed,
    jobs: &UnboundedSender<Job>,
) -> u64 {
    let entries = result.unwrap_or_else(|error| {
        tracing::error!(error = &error as &dyn StdError, "not fed: the merge queue takes nothing");
        Vec::new()
    });
    let mut arrived = 0;
    for (index, forward) in batch.into_iter().enumerate() {
        match entries.get(index) {
            Some(Ok(())) => {
                arrived += 1;
                *fed.by_campaign.entry(forward.campaign).or_insert(0) += forward.recipients;
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
